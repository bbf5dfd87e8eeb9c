//! What wraps every handler: a time limit, the end of a panic, the token, the id of a request, the measure.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use secrecy::ExposeSecret;
use subtle::ConstantTimeEq;

use super::AppState;
use super::problem::Problem;
use crate::engine::clock;
use crate::surfaces::metrics;

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

/// What every request gets: an id, a time limit, a measure and a line in the debug log. One wrapper and not four: each
/// costs an allocation and a turn of the scheduler, and a decision takes no longer than a few of them.
///
/// The time limit ends a handler that takes too long; the answer's body, such as a stream of events, is not bounded by it.
pub async fn around(State(around): State<Around>, request: Request, next: Next) -> Response {
    let begun = clock::instant();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = metrics::method_label(request.method());
    let id = request.headers().get(&REQUEST_ID).filter(|id| id.len() <= LONGEST_ID).cloned().or_else(|| around.ids.next());
    let mut response = match tokio::time::timeout(around.limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::overloaded(format!("there was no answer after {} s", around.limit.as_secs())).into_response(),
    };
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    let took = begun.elapsed();
    metrics::note_http(route, method, response.status(), took);
    tracing::debug!(method, route, status = response.status().as_u16(), ?took, ?id, "answered");
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The header that carries a request's id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer id of a caller is replaced by one of ours.
const LONGEST_ID: usize = 128;

/// What [`around`] needs.
#[derive(Clone, Debug)]
pub struct Around {
    limit: Duration,
    ids: RequestIds,
}

impl Around {
    /// Handlers may take so long.
    pub fn new(limit: Duration) -> Self {
        Self { limit, ids: RequestIds { start: clock::now().as_millisecond(), last: Arc::default() } }
    }
}

/// Ids of requests that came without one: the service's start and a number.
#[derive(Clone, Debug)]
struct RequestIds {
    start: i64,
    last: Arc<AtomicU64>,
}

impl RequestIds {
    fn next(&self) -> Option<HeaderValue> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        HeaderValue::try_from(format!("{:x}-{number:x}", self.start)).ok()
    }
}
