//! What the service measures of itself: the global recorder, with every family of it described in one place.

use std::sync::OnceLock;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use metrics::SharedString;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio_util::sync::CancellationToken;

/// The version of the service.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from, where the build said it.
pub const REVISION: Option<&str> = option_env!("LOADLINE_REVISION");

const HTTP_SECONDS: &str = "loadline_http_request_duration_seconds";
const GRPC_SECONDS: &str = "loadline_grpc_request_duration_seconds";
/// Answers from memory take microseconds, sources seconds.
const BUCKETS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Histograms fold their samples this often at the latest, whether someone scrapes or not.
const UPKEEP: Duration = Duration::from_secs(5);

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Why there is no recorder.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Its settings were refused.
    #[error("the metrics recorder could not be built: {0}")]
    Build(#[from] BuildError),
    /// Another one is there already.
    #[error("another metrics recorder is installed already: expected to be the only one")]
    Taken,
}

/// Installs the global recorder, once in the life of the process.
pub fn install() -> Result<(), InstallError> {
    if RECORDER.get().is_some() {
        return Ok(());
    }
    let recorder = PrometheusBuilder::new().set_buckets_for_metric(Matcher::Suffix("_duration_seconds".to_owned()), BUCKETS)?.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|_| InstallError::Taken)?;
    describe();
    RECORDER.set(handle).map_err(|_| InstallError::Taken)
}

/// Keeps the recorder small until `shutdown`.
pub async fn upkeep(shutdown: CancellationToken) {
    while shutdown.run_until_cancelled(tokio::time::sleep(UPKEEP)).await.is_some() {
        if let Some(recorder) = RECORDER.get() {
            recorder.run_upkeep();
        }
    }
}

/// What the recorder has.
pub fn recorded() -> Option<String> {
    RECORDER.get().map(PrometheusHandle::render)
}

/// Notes a served request.
pub fn note_http(route: &str, method: &'static str, status: StatusCode, took: Duration) {
    // the usual answers need no copy of their status
    let status = match status.as_u16() {
        200 => SharedString::const_str("200"),
        422 => SharedString::const_str("422"),
        503 => SharedString::const_str("503"),
        _ => SharedString::from_owned(status.as_str().to_owned()),
    };
    metrics::histogram!(HTTP_SECONDS, "route" => route.to_owned(), "method" => method, "status" => status).record(took);
}

/// Notes a served call.
pub fn note_grpc(method: &'static str, code: &'static str, took: Duration) {
    metrics::histogram!(GRPC_SECONDS, "method" => method, "code" => code).record(took);
}

/// A method as a label: of the few that are known, so that no caller can make series.
#[must_use]
pub const fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The families that other modules record by name.
fn describe() {
    metrics::describe_histogram!(HTTP_SECONDS, "Time from a request's head to the head of its answer.");
    metrics::describe_histogram!(GRPC_SECONDS, "Time from a gRPC call to the head of its answer.");
    metrics::describe_histogram!("loadline_source_request_duration_seconds", "Time that a reading of a source took.");
    metrics::describe_counter!("loadline_source_requests_total", "Readings that sources were asked for.");
    metrics::describe_histogram!("loadline_evaluation_duration_seconds", "Time that a decision took.");
    metrics::describe_counter!("loadline_evaluations_total", "Decisions by outcome.");
}
