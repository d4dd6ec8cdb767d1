//! A host of somebody else's: it keeps every byte that it gets, and answers as it is told to.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

/// What it does once it has a request.
#[derive(Clone)]
pub enum Manner {
    /// Says this, and closes.
    Says(String),
    /// Says this, then the same bytes for ever.
    NeverEnds(String),
    /// Says nothing, and keeps the connection.
    Hangs,
}

/// It ends with the test.
pub struct Stub {
    pub address: String,
    got: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// One request, as it came.
pub struct Request {
    pub head: String,
    pub body: String,
}

impl Stub {
    pub fn that(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let got = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (manner, keeps) = (manner.clone(), Arc::clone(&keeps));
                std::thread::spawn(move || serve(stream.unwrap(), &manner, &keeps));
            }
        });
        Self { address, got }
    }

    /// One that takes everything.
    pub fn that_says(status: u16, head: &str, body: &str) -> Self {
        let length = body.len();
        Self::that(Manner::Says(format!("HTTP/1.1 {status} x\r\n{head}content-length: {length}\r\n\r\n{body}")))
    }

    /// Every byte that it got, a connection each.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        self.got.lock().unwrap().clone()
    }

    /// The requests that came whole.
    pub fn requests(&self) -> Vec<Request> {
        self.bytes().iter().filter_map(|bytes| request(bytes)).collect()
    }
}

fn serve(mut stream: TcpStream, manner: &Manner, keeps: &Mutex<Vec<Vec<u8>>>) {
    let at = {
        let mut all = keeps.lock().unwrap();
        all.push(Vec::new());
        all.len() - 1
    };
    let mut part = [0; 16 << 10];
    while request(&keeps.lock().unwrap()[at]).is_none() {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return,
            Ok(read) => keeps.lock().unwrap()[at].extend(&part[..read]),
        }
    }
    match manner {
        Manner::Says(text) => _ = stream.write_all(text.as_bytes()),
        Manner::NeverEnds(text) => {
            let mut said = stream.write_all(text.as_bytes());
            let more = b"x: y\r\n".repeat(1_000);
            while said.is_ok() {
                said = stream.write_all(&more);
            }
        }
        Manner::Hangs => {
            stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
            let _ = stream.read(&mut part); // until the other side goes
        }
    }
}

fn request(bytes: &[u8]) -> Option<Request> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    (body.len() >= length).then(|| Request { head, body: body.to_owned() })
}
