//! `GET /v1/events`: a line for each new decision, as server-sent events.
//!
//! A follower that is too slow loses lines and is told so by a `lagged` event; it then reads the list anew. Streams are
//! bounded, and end when the service shuts down.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

use super::AppState;
use super::problem::Problem;
use crate::engine::store::Event;

/// Follows new decisions.
///
/// Server-sent events. `advice` carries `{"name", "outcome", "recommended"}`; `lagged` says that lines were lost, with
/// their number; comments keep the connection alive.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "targets",
    operation_id = "followEvents",
    responses(
        (status = 200, description = "A stream of events", body = Event, content_type = "text/event-stream"),
        (status = "5XX", description = "503 `overloaded`: too many streams are open", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn follow(State(state): State<AppState>) -> Result<Response, Problem> {
    let permit = state.inner.streams.clone().try_acquire_owned().map_err(|_| Problem::overloaded("too many event streams are open"))?;
    let shutdown = state.inner.setup.shutdown.clone().cancelled_owned();
    let lines = lines(BroadcastStream::new(state.store().follow())).take_until(shutdown).map(move |line| {
        // the permit lives as long as the stream
        let _ = &permit;
        Ok::<_, Infallible>(line)
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)).text("still here")).into_response())
}

fn lines(events: BroadcastStream<Event>) -> impl Stream<Item = Line> {
    // the first line tells a browser how soon to come back, and shows that the stream is open
    let first = stream::iter([Line::default().comment("new decisions follow").retry(Duration::from_secs(3))]);
    first.chain(events.map(|event| match event {
        Ok(event) => Line::default().event("advice").json_data(&event).unwrap_or_default(),
        Err(BroadcastStreamRecvError::Lagged(lost)) => Line::default().event("lagged").data(lost.to_string()),
    }))
}
