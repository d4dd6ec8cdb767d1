use axum::{body::Body, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const SHORT: Limits = Limits {
    connections: 4,
    head_within: Duration::from_millis(200),
    stalled_for: Duration::from_millis(500),
    in_all: Duration::from_secs(3_600),
};
const LONG: Duration = Duration::from_secs(3_600);

async fn server(limits: Limits) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let endless = || async {
        Body::from_stream(futures_util::stream::repeat(Ok::<_, std::convert::Infallible>(vec![b'x'; 1 << 16])))
    };
    let routes = Router::new().route("/", get(|| async { "here" })).route("/endless", get(endless));
    tokio::spawn(serve(listener, routes, limits));
    address
}

async fn asks(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn answer(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    text.ends_with("here").then_some(text)
}

/// Whether somebody is answered within half a minute, all others staying as they are.
async fn is_answered(address: &str) -> bool {
    let looks = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        while answer(address).await.is_none() {
            ticks.tick().await;
        }
    };
    timeout(Duration::from_secs(30), looks).await.is_ok()
}

const STUCK: [&str; 4] = [
    "",                                         // says nothing
    "GET / HTTP/1.1\r\nhost: ",                 // breaks off in the head
    "GET / HTTP/1.1\r\nhost: x\r\n\r\n",        // stays after its answer
    "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n", // takes nothing of its answer
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_hangs_is_let_go_and_makes_room_for_others() {
    for request in STUCK {
        let address = server(SHORT).await;
        let mut stuck = Vec::new();
        for _ in 0..SHORT.connections {
            stuck.push(asks(&address, request).await);
        }
        assert!(is_answered(&address).await, "{request:?}");
        drop(stuck);
    }
}

/// The twin: without the limits the same four hold the server for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twin_without_limits_whoever_hangs_keeps_all_others_out() {
    for request in STUCK {
        let address = server(Limits { head_within: LONG, stalled_for: LONG, ..SHORT }).await;
        let mut stuck = Vec::new();
        for _ in 0..SHORT.connections {
            stuck.push(asks(&address, request).await);
        }
        for _ in 0..20 {
            assert_eq!(answer(&address).await, None, "{request:?}");
        }
        drop(stuck);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused_shortly() {
    let address = server(SHORT).await;
    let long = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(100_000));
    for request in ["nonsense\r\n\r\n", &long] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await; // refused, or cut off
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
        assert!(is_answered(&address).await);
    }
}
