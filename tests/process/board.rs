//! A board as a process of its own; it ends with the test.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use serde_json::Value;

use super::{
    Place,
    sidecar::{Answer, Sidecar, get},
};

/// A running `keylane board`.
pub struct Board {
    process: Child,
    pub address: String,
}

impl Board {
    pub fn start(place: &Place, sidecars: &[&Sidecar]) -> Self {
        let at: Vec<&str> = sidecars.iter().map(|sidecar| sidecar.address.as_str()).collect();
        let args = ["board", "--sidecar", &at.join(","), "--listen", "127.0.0.1:0", "--every", "200ms", "-ojson"];
        let mut process = place.command(&args).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = said["board"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { process, address }
    }

    pub fn get(&self, path: &str) -> Answer {
        get(&self.address, path)
    }

    pub fn snapshot(&self) -> Value {
        self.get("/v1/snapshot").json()
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
