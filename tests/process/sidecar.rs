//! A sidecar as a process of its own, and what it answers; it ends with the test.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Place;

/// A running `keylane sidecar` of the place's file of that name.
pub struct Sidecar {
    process: Child,
    pub address: String,
}

/// What came back, byte for byte.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Sidecar {
    pub fn start(place: &Place, file: &str) -> Self {
        Self::of(place.command(&["sidecar", "--snapshot-file", file, "--listen", "127.0.0.1:0", "-ojson", "-vvv"]))
    }

    /// One that this command starts.
    pub fn of(mut command: std::process::Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: '{line}'"));
        let address = said["sidecar"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { process, address }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    pub fn get(&self, path: &str) -> Answer {
        get(&self.address, path)
    }

    pub fn say(&self, request: &str) -> Answer {
        say(&self.address, request)
    }

    pub fn snapshot(&self) -> Value {
        self.get("/v1/snapshot").json()
    }

    /// Asks it to end; answers its code and all that it printed on standard error.
    pub fn end(mut self) -> (Option<i32>, String) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        let mut errors = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.process.wait().unwrap().code(), errors)
    }
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

pub fn get(address: &str, path: &str) -> Answer {
    say(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
}

pub fn say(address: &str, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
