//! What every call gets: a turn, a time limit, the end of a panic, and a measure.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use crate::engine::clock;
use crate::surfaces::metrics;

/// What [`around`] needs.
#[derive(Clone, Debug)]
pub struct Around {
    limit: Duration,
    turns: Arc<Semaphore>,
}

impl Around {
    /// Answers may take so long to begin, and so many calls are in work at once.
    pub fn new(limit: Duration, calls: usize) -> Self {
        Self { limit, turns: Arc::new(Semaphore::new(calls)) }
    }
}

/// The time limit holds until an answer begins; a stream that was begun may go on.
pub async fn around(State(around): State<Around>, request: Request, next: Next) -> Response {
    let begun = clock::instant();
    let method = method_label(request.uri().path());
    let answer = async {
        // the semaphore is never closed
        let _turn = around.turns.acquire().await;
        next.run(request).await
    };
    let response = match tokio::time::timeout(around.limit, answer).await {
        Ok(response) => response,
        Err(_) => refused(&Status::unavailable(format!("there was no answer after {} s", around.limit.as_secs()))),
    };
    let code = code_label(response.headers());
    metrics::note_grpc(method, code, begun.elapsed());
    tracing::debug!(method, code, "answered");
    response
}

/// A panic in a call is a fault of this call only. Its text goes to the log, never to the caller.
#[expect(clippy::needless_pass_by_value, reason = "the signature that the layer asks for")]
pub fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("not text"), "a call panicked");
    refused(&Status::internal("a fault in the service: its log says more"))
}

fn refused(status: &Status) -> Response {
    status.clone().into_http::<Body>()
}

/// A method as a label: of the few that are known, so that no caller can make series.
fn method_label(path: &str) -> &'static str {
    const METHODS: [&str; 8] = ["IsActive", "StreamIsActive", "GetMetricSpec", "GetMetrics", "StreamMetricSpec", "Check", "Watch", "ServerReflectionInfo"];
    let method = path.rsplit('/').next().unwrap_or_default();
    METHODS.into_iter().find(|known| *known == method).unwrap_or("other")
}

/// The status that an answer begins with; one that fails later has begun well.
fn code_label(headers: &HeaderMap) -> &'static str {
    match headers.get("grpc-status").map(|status| Code::from_bytes(status.as_bytes())) {
        None | Some(Code::Ok) => "OK",
        Some(Code::Cancelled) => "CANCELLED",
        Some(Code::InvalidArgument) => "INVALID_ARGUMENT",
        Some(Code::DeadlineExceeded) => "DEADLINE_EXCEEDED",
        Some(Code::NotFound) => "NOT_FOUND",
        Some(Code::ResourceExhausted) => "RESOURCE_EXHAUSTED",
        Some(Code::OutOfRange) => "OUT_OF_RANGE",
        Some(Code::Unimplemented) => "UNIMPLEMENTED",
        Some(Code::Internal) => "INTERNAL",
        Some(Code::Unavailable) => "UNAVAILABLE",
        Some(_) => "other",
    }
}
