//! A server on this machine that runs jobs: request after request on each connection, answered as a test says.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use keylane_consumer::clock::{BootTime, Clock};

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its names in lower case.
    pub head: String,
    pub body: serde_json::Value,
    pub at: BootTime,
    /// Which connection it came over.
    pub connection: usize,
}

impl Asked {
    /// What this header has.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// What is answered: all of it, or nothing for as long as the other side stays.
pub type Says = Option<String>;

/// An answer with this status, these header lines (each with its end) and this body.
pub fn answer(status: u16, head: &str, body: &str) -> Says {
    Some(format!("HTTP/1.1 {status} x\r\n{head}content-length: {}\r\n\r\n{body}", body.len()))
}

/// An answer in the protocol of programs.
pub fn says(outcome: &str) -> Says {
    answer(200, "content-type: application/json\r\n", outcome)
}

/// It ends with the test.
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    left: Arc<Mutex<usize>>,
}

impl Server {
    pub fn that(says: impl Fn(&Asked, usize) -> Says + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), says)
    }

    pub fn on(listener: TcpListener, says: impl Fn(&Asked, usize) -> Says + Send + Sync + 'static) -> Self {
        let url = format!("http://{}/jobs?shop=1", listener.local_addr().unwrap());
        let (asked, left) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<Mutex<usize>>::default());
        let (keeps, goes, says) = (Arc::clone(&asked), Arc::clone(&left), Arc::new(says));
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (keeps, goes, says) = (Arc::clone(&keeps), Arc::clone(&goes), Arc::clone(&says));
                std::thread::spawn(move || {
                    serve(stream.unwrap(), connection, &keeps, &*says);
                    *goes.lock().unwrap() += 1;
                });
            }
        });
        Self { url, asked, left }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// How many connections have ended.
    pub fn left(&self) -> usize {
        *self.left.lock().unwrap()
    }
}

fn serve(stream: TcpStream, connection: usize, keeps: &Mutex<Vec<Asked>>, says: &dyn Fn(&Asked, usize) -> Says) {
    let (mut reads, mut writes) = (BufReader::new(stream.try_clone().unwrap()), stream);
    while let Some(request) = read(&mut reads, connection) {
        let number = {
            let mut all = keeps.lock().unwrap();
            all.push(request.clone());
            all.len()
        };
        match says(&request, number) {
            Some(answer) => _ = writes.write_all(answer.as_bytes()),
            None => {
                let _ = reads.read(&mut [0]); // until the other side goes
                return;
            }
        }
    }
}

fn read(from: &mut BufReader<TcpStream>, connection: usize) -> Option<Asked> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let at = Clock::boot().now();
    let as_sent = head.clone();
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    // A fence is not in lower case alone.
    let head = as_sent.lines().map(|line| match line.split_once(": ") {
        Some((name, value)) => format!("{}: {value}\n", name.to_lowercase()),
        None => format!("{line}\n"),
    });
    Some(Asked { head: head.collect(), body: serde_json::from_slice(&body).unwrap(), at, connection })
}
