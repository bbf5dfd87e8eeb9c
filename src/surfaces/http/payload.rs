//! A posted body, and the right to work on it.
//!
//! Two bounds keep a burst from becoming an outage. Only so many bodies are in work at once, and the next one is
//! refused at once (503) rather than queued, because a caller who waits for advice is better served by its last one.
//! And only a few of them may be large: memory is bounded by `posts x 1 MiB + large posts x the limit`, and not by
//! `posts x the limit`. Large ones wait for their turn, since whoever sends 30 MiB does not expect a millisecond.

use std::future::Future;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::OwnedSemaphorePermit;

use super::AppState;
use super::problem::Problem;

/// Bodies above this are large.
const LARGE: usize = 1024 * 1024;
/// Bodies above this are judged on a thread for long work, so that the threads that serve probes stay free.
const LONG_WORK: usize = 128 * 1024;

/// A posted body. While it lives, it counts as one in work.
pub struct Payload {
    bytes: Bytes,
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl Payload {
    /// Works on the body: a small one here, a larger one on a thread for long work. Whatever `work` returns must own
    /// what it needs of the body.
    pub async fn judge<T: Send + 'static>(self, work: impl FnOnce(&[u8]) -> T + Send + 'static) -> T {
        if self.bytes.len() <= LONG_WORK {
            return work(&self.bytes);
        }
        match tokio::task::spawn_blocking(move || work(&self.bytes)).await {
            Ok(done) => done,
            // a panic goes on here, where the catch-panic layer turns it into an answer; work is never cancelled
            Err(error) => std::panic::resume_unwind(error.try_into_panic().unwrap_or_else(|_| Box::new("long work was cancelled"))),
        }
    }
}

impl FromRequest<AppState> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let limits = state.limits();
        let too_large = || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "tooLarge", format!("the body is larger than {} bytes", limits.body_bytes));
        let body = request.into_body();
        // what the head announces is refused before a byte of it is read
        if axum::body::HttpBody::size_hint(&body).lower() > limits.body_bytes as u64 {
            return Err(too_large());
        }
        let permit = state.inner.posts.clone().try_acquire_owned().map_err(|_| Problem::overloaded("too many requests are in work: try again in a moment"))?;
        let arriving =
            collect(body, limits.body_bytes, too_large, async { state.inner.large_posts.clone().acquire_owned().await.map_err(|_| Problem::internal()) });
        let (bytes, large) = tokio::time::timeout(limits.body_deadline, arriving).await.map_err(|_| {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "requestTimeout", format!("the body had not arrived after {} s", limits.body_deadline.as_secs()))
        })??;
        Ok(Self { bytes, _permits: (permit, large) })
    }
}

/// Reads a body. One that arrives in one piece, as most do, is not copied.
async fn collect(
    mut body: Body,
    limit: usize,
    too_large: impl Fn() -> Problem,
    turn: impl Future<Output = Result<OwnedSemaphorePermit, Problem>>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
    let mut whole = BytesMut::new();
    let mut first = Bytes::new();
    let mut turn = std::pin::pin!(Some(turn));
    let mut permit = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "invalidJson", "the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        let size = first.len() + whole.len() + data.len();
        if size > limit {
            return Err(too_large());
        }
        if size > LARGE
            && permit.is_none()
            && let Some(turn) = turn.as_mut().as_pin_mut()
        {
            permit = Some(turn.await?);
        }
        if whole.is_empty() && first.is_empty() {
            first = data;
            continue;
        }
        if whole.is_empty() {
            let expected = usize::try_from(axum::body::HttpBody::size_hint(&body).lower()).unwrap_or(0);
            whole.reserve((size + expected).min(limit));
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&data);
    }
    Ok((if whole.is_empty() { first } else { whole.freeze() }, permit))
}
