//! `POST /v1/advice` over loopback sockets, against what axum itself costs.
//!
//! `cargo bench --bench http`. Three routes are served in the same process and asked in turns over the same number of
//! keep-alive connections: the service's own, a bare handler that reads and writes the same types without deciding, and
//! an echo of the bytes. Printed are requests per second and the ratio of the first two, of the median round.

#![expect(clippy::expect_used, clippy::print_stdout, clippy::cast_precision_loss, reason = "a bench prints, and fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use loadline::core::advice::Advice;
use loadline::core::request::{Batch, parse, parse_batch};
use loadline::engine::store::Store;
use loadline::surfaces::http::{AppState, ServiceStatus, Setup, router};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const CONNECTIONS: usize = 8;
const REQUESTS: usize = 1500;
const ROUNDS: usize = 9;
const NOW: &str = "2026-11-30T10:00:00Z";

fn queue() -> Vec<u8> {
    serde_json::to_vec(&json!({ "kind": "backlog", "name": "orders", "now": NOW, "replicas": { "spec": 5, "ready": 5 },
        "snapshot": { "observedAt": "2026-11-30T09:59:55Z", "backlog": 12_000, "arrivalPerSecond": 330.0, "servedPerSecond": 300.0, "busyRatio": 1.0, "partitions": 24 },
        "policy": { "min": 1, "max": 24 } }))
    .expect("a body")
}

fn job() -> Vec<u8> {
    let reading = |minute: i64| {
        let vertices: Vec<_> = (0..4)
            .map(|index| {
                json!({ "id": format!("{index:032x}"), "name": format!("vertex {index}"), "parallelism": 4, "maxParallelism": 128,
                    "inputs": if index == 0 { json!([]) } else { json!([{ "from": format!("{:032x}", index - 1), "shipStrategy": "HASH" }]) },
                    "busyRatio": { "max": 0.6, "avg": 0.5 }, "recordsInPerSecond": 900.0, "recordsOutPerSecond": 900.0,
                    "recordsIn": 54_000 * minute, "recordsOut": 54_000 * minute, "recordsComplete": true, "pendingRecords": if index == 0 { json!(5000) } else { json!(null) } })
            })
            .collect();
        json!({ "observedAt": format!("2026-11-30T09:{:02}:55Z", 44 + minute), "state": "RUNNING", "runningSince": "2026-11-29T10:00:00Z", "slotsPerTaskManager": 4, "taskManagers": 1, "vertices": vertices })
    };
    let history: Vec<_> = (1..15).map(reading).collect();
    serde_json::to_vec(&json!({ "kind": "flinkJob", "now": NOW, "snapshot": reading(15), "history": history, "policy": { "window": "10m" } })).expect("a body")
}

/// Reads and writes the same types as the service, and decides nothing.
fn bare(answer: Arc<Advice>) -> Router {
    let handler = move |body: Bytes| {
        let answer = Arc::clone(&answer);
        async move {
            match parse_batch(&body, NOW.parse().expect("a time")) {
                Ok(Batch::One(request)) => {
                    std::hint::black_box(&request);
                    ([(CONTENT_TYPE, "application/json")], serde_json::to_vec(answer.as_ref()).expect("json")).into_response()
                }
                _ => StatusCode::BAD_REQUEST.into_response(),
            }
        }
    };
    Router::new().route("/v1/advice", post(handler))
}

fn echo() -> Router {
    Router::new().route("/v1/advice", post(|body: Bytes| async move { body }))
}

async fn start(router: Router) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    // the same accept loop for all three: what differs is the route alone
    tokio::spawn(loadline::surfaces::http::serve(listener, router, stop, loadline::surfaces::http::Limits::default()));
    address
}

/// Sends requests over one connection, one after the other.
async fn ask(address: std::net::SocketAddr, body: Arc<Vec<u8>>, count: usize) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("an option");
    let mut request =
        format!("POST /v1/advice HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    request.extend_from_slice(&body);
    let mut buffer = vec![0; 256 * 1024];
    for _ in 0..count {
        stream.write_all(&request).await.expect("sent");
        let mut filled = 0;
        loop {
            filled += stream.read(buffer.get_mut(filled..).expect("room")).await.expect("an answer");
            let seen = buffer.get(..filled).unwrap_or_default();
            let Some(head) = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            let text = String::from_utf8_lossy(seen.get(..head).unwrap_or_default()).to_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length: usize = text
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next())
                .and_then(|digits| digits.trim().parse().ok())
                .expect("a length");
            if filled >= head + 4 + length {
                break;
            }
        }
    }
}

async fn per_second(address: std::net::SocketAddr, body: &Arc<Vec<u8>>) -> f64 {
    #[expect(clippy::disallowed_methods, reason = "a bench measures")]
    let started = Instant::now();
    let tasks: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(ask(address, Arc::clone(body), REQUESTS / CONNECTIONS))).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let took: Duration = started.elapsed();
    (REQUESTS / CONNECTIONS * CONNECTIONS) as f64 / took.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[tokio::main]
async fn main() {
    for (name, body) in [("backlog", queue()), ("flinkJob, 4 vertices x 15", job())] {
        let request = parse(&body, NOW.parse().expect("a time")).expect("a request");
        let answer = Arc::new(loadline::core::advise(&request));
        let status = Arc::new(ServiceStatus::new());
        let service = start(router(AppState::new(Setup::new(Arc::new(Store::new()), status, CancellationToken::new())))).await;
        let (bare, echo) = (start(bare(answer)).await, start(echo()).await);
        let body = Arc::new(body);
        let (mut ours, mut theirs, mut bytes, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        per_second(service, &body).await;
        for _ in 0..ROUNDS {
            let (a, b, c) = (per_second(service, &body).await, per_second(bare, &body).await, per_second(echo, &body).await);
            ratios.push(a / b);
            ours.push(a);
            theirs.push(b);
            bytes.push(c);
        }
        println!(
            "{name} ({} bytes): service {:.0}/s, bare handler {:.0}/s, echo {:.0}/s; service / bare handler = {:.2}",
            body.len(),
            median(ours),
            median(theirs),
            median(bytes),
            median(ratios)
        );
    }
}
