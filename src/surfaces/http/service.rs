//! Calls about the service itself: probes, metrics, status.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::AppState;
use super::problem::Problem;
use super::status::Configuration;
use super::view::EntryView;
use crate::core::units::Timestamp;
use crate::engine::store::Interface;
use crate::surfaces::metrics as exposition;

/// Alive: the service answers.
#[utoipa::path(get, path = "/livez", tag = "service", operation_id = "livez", responses((status = 200, description = "`ok`", body = String, content_type = "text/plain")))]
pub async fn livez() -> &'static str {
    "ok\n"
}

/// Ready: a configuration is in force, whatever the sources do. Not ready once a shutdown has begun.
#[utoipa::path(get, path = "/readyz", tag = "service", operation_id = "readyz", responses(
    (status = 200, description = "`ok`", body = String, content_type = "text/plain"),
    (status = 503, description = "Not ready, and why", body = String, content_type = "text/plain"),
))]
pub async fn readyz(State(state): State<AppState>) -> (StatusCode, &'static str) {
    if state.inner.setup.shutdown.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n")
    } else if state.inner.setup.status.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "no configuration is loaded yet\n")
    }
}

/// Gauges of all targets and measures of the service, in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", tag = "service", operation_id = "metrics", responses((status = 200, description = "The Prometheus text format, version 0.0.4", body = String, content_type = "text/plain")))]
pub async fn metrics(State(state): State<AppState>) -> Result<Response, Problem> {
    // thousands of targets take milliseconds, which probes and decisions should not wait for
    let text = tokio::task::spawn_blocking(move || {
        let now = state.now();
        for target in state.store().targets().values() {
            target.note_read(Interface::Prometheus, now);
        }
        exposition::scrape(state.store(), &state.inner.setup.status.configuration(), now)
    })
    .await
    .map_err(|error| {
        tracing::error!(%error, "the metrics could not be rendered");
        Problem::internal()
    })?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))], text).into_response())
}

/// The service, in short.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of the service.
    version: &'static str,
    /// The commit it was built from; null where the build did not say.
    revision: Option<&'static str>,
    /// When it started.
    started_at: Timestamp,
    /// True when the targets are made up by `--demo`.
    demo: bool,
    /// How many targets there are.
    targets: usize,
    /// Entries of the configuration that stand for many targets.
    entries: Vec<EntryView>,
    /// The state of the configuration.
    configuration: Configuration,
}

/// Version, state of the configuration, last reload.
#[utoipa::path(get, path = "/v1/status", tag = "service", operation_id = "status", responses((status = 200, description = "The service, in short", body = Status)))]
pub async fn status(State(state): State<AppState>) -> Json<Status> {
    let (setup, now) = (&state.inner.setup, state.now());
    Json(Status {
        version: exposition::VERSION,
        revision: exposition::REVISION,
        started_at: state.inner.started_at,
        demo: setup.demo,
        targets: setup.store.targets().len(),
        entries: setup.store.entries().iter().map(|(name, entry)| EntryView::of(name, entry, now)).collect(),
        configuration: setup.status.configuration().as_ref().clone(),
    })
}
