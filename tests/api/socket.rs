//! The accept loop over a real socket.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use loadline::surfaces::http::{Limits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Running {
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    done: JoinHandle<()>,
}

async fn start(limits: Limits) -> Running {
    let slow = async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "served"
    };
    let router = Router::new().route("/slow", get(slow)).route("/fast", get(async || "served"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let shutdown = CancellationToken::new();
    let done = tokio::spawn(serve(listener, router, shutdown.clone(), limits));
    Running { address, shutdown, done }
}

async fn ask(stream: &mut TcpStream, path: &str) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.expect("sent");
}

/// All that comes until the other side closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut text)).await.expect("closed in time").expect("text");
    text
}

#[tokio::test]
async fn half_a_request_head_does_not_keep_a_connection() {
    let running = start(Limits { header_timeout: Duration::from_millis(200), ..Limits::default() }).await;
    let mut stream = TcpStream::connect(running.address).await.expect("connected");
    stream.write_all(b"GET /fast HTTP/1.1\r\nhost: te").await.expect("sent");
    #[expect(clippy::disallowed_methods, reason = "a test measures real time")]
    let begun = Instant::now();
    rest(&mut stream).await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_shutdown_serves_what_is_in_flight_and_accepts_no_more() {
    let running = start(Limits::default()).await;
    let mut stream = TcpStream::connect(running.address).await.expect("connected");
    ask(&mut stream, "/slow").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.shutdown.cancel();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("served"), "{answer}");
    tokio::time::timeout(Duration::from_secs(2), running.done).await.expect("ended in time").expect("no panic");
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let running = start(Limits { shutdown_grace: Duration::from_millis(50), ..Limits::default() }).await;
    let mut stream = TcpStream::connect(running.address).await.expect("connected");
    ask(&mut stream, "/slow").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.shutdown.cancel();
    tokio::time::timeout(Duration::from_millis(200), running.done).await.expect("ended in time").expect("no panic");
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_their_turn() {
    let running = start(Limits { connections: 1, ..Limits::default() }).await;
    let mut first = TcpStream::connect(running.address).await.expect("connected");
    ask(&mut first, "/fast").await;
    let mut byte = [0];
    first.read_exact(&mut byte).await.expect("an answer");
    let mut second = TcpStream::connect(running.address).await.expect("in the kernel's queue");
    ask(&mut second, "/fast").await;
    let waits = tokio::time::timeout(Duration::from_millis(100), second.read_exact(&mut byte)).await;
    assert!(waits.is_err(), "the first one holds the only place");
    drop(first);
    tokio::time::timeout(Duration::from_secs(5), second.read_exact(&mut byte)).await.expect("its turn").expect("an answer");
}
