//! What wraps every handler: a time limit, the end of a panic, the token, the id of a request, the measure.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::ExposeSecret;
use subtle::ConstantTimeEq;
use tower_http::request_id::{MakeRequestId, RequestId};

use super::AppState;
use super::problem::Problem;
use crate::engine::clock;
use crate::surfaces::metrics;

/// Ends a handler that takes too long. The answer's body, such as a stream of events, is not bounded by it.
pub async fn time_out(State(state): State<AppState>, request: Request, next: Next) -> Response {
    match tokio::time::timeout(state.limits().handler_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::overloaded(format!("there was no answer after {} s", state.limits().handler_timeout.as_secs())).into_response(),
    }
}

/// A panic in a handler is a fault of this request only. The text of the panic goes to the log, never to the caller.
#[expect(clippy::needless_pass_by_value, reason = "the signature that the layer asks for")]
pub fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("not text"), "a handler panicked");
    Problem::internal().into_response()
}

/// Asks for the bearer token.
pub async fn require_token(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes).and_then(bearer);
    let wanted = state.inner.setup.token.as_ref().map(|token| token.expose_secret().as_bytes());
    match (given, wanted) {
        // the comparison takes the same time wherever two tokens of one length differ
        (Some(given), Some(wanted)) if bool::from(given.ct_eq(wanted)) => next.run(request).await,
        (None, Some(_)) => Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the request carries no bearer token").into_response(),
        _ => Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the bearer token is not the configured one").into_response(),
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Notes how long each request took until its answer began.
pub async fn measure(request: Request, next: Next) -> Response {
    let begun = clock::instant();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = metrics::method_label(request.method());
    let response = next.run(request).await;
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    metrics::note_http(route, method, response.status(), begun.elapsed());
    response
}

/// Ids of requests that came without one: the service's start and a number.
#[derive(Clone, Debug)]
pub struct RequestIds {
    start: i64,
    last: std::sync::Arc<AtomicU64>,
}

impl RequestIds {
    /// Ids of a service that starts now.
    pub fn new() -> Self {
        Self { start: clock::now().as_millisecond(), last: std::sync::Arc::default() }
    }
}

impl MakeRequestId for RequestIds {
    fn make_request_id<B>(&mut self, _: &http::Request<B>) -> Option<RequestId> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        HeaderValue::try_from(format!("{:x}-{number:x}", self.start)).ok().map(RequestId::new)
    }
}
