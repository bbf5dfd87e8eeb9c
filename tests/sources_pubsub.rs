//! Subscriptions of Pub/Sub through Cloud Monitoring: a local server with the documented answers of `timeSeries.list` (v3)
//! and of the metadata server, real keys, and the built binary. No answer here was recorded from Google.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use loadline::core::kinds::PubsubSubscriptionSnapshot;
use loadline::engine::source::{FailureKind, Reading, Snapshot, Source, SourceError};
use loadline::sources::http::{Client, ClientOptions};
use loadline::sources::pubsub::{Credentials, PubsubSource};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

/// What a metric is answered with: points as (minutes ago, value), or a status and a body.
#[derive(Clone)]
enum Given {
    Gauge(&'static [(i64, i64)]),
    Delta(&'static [(i64, i64)]),
    Status(u16, Value),
    Pages(&'static [(i64, i64)]),
}

/// Monitoring and metadata server in one.
#[derive(Clone, Default)]
struct Google {
    metrics: Arc<HashMap<&'static str, Given>>,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

fn point(given: &Given, minutes: i64, value: i64) -> Value {
    // samples are taken on whole minutes
    let now = loadline::engine::clock::now().as_second() / 60 * 60;
    let at = |minutes: i64| jiff::Timestamp::from_second(now - minutes * 60).expect("a time").to_string();
    let start = if matches!(given, Given::Delta(_)) { minutes + 1 } else { minutes };
    json!({ "interval": { "startTime": at(start), "endTime": at(minutes) }, "value": { "int64Value": value.to_string() } })
}

async fn answer(State(google): State<Google>, uri: Uri, Query(query): Query<HashMap<String, String>>, headers: HeaderMap) -> Response {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    if uri.path().starts_with("/computeMetadata/") {
        assert_eq!(header("metadata-flavor"), "Google");
        return Json(json!({ "access_token": "of-the-metadata-server", "expires_in": 3600, "token_type": "Bearer" })).into_response();
    }
    let filter = query.get("filter").cloned().unwrap_or_default();
    google.seen.lock().expect("a lock").push((format!("{} {filter}", uri.path()), header("authorization")));
    if !header("authorization").starts_with("Bearer ") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let metric = filter.split('"').nth(1).and_then(|name| name.rsplit('/').next()).unwrap_or_default();
    let series =
        |given: &Given, points: &[(i64, i64)]| json!({ "points": points.iter().map(|(minutes, value)| point(given, *minutes, *value)).collect::<Vec<_>>() });
    match google.metrics.get(metric) {
        None => Json(json!({})).into_response(),
        Some(given @ (Given::Gauge(points) | Given::Delta(points))) => Json(json!({ "timeSeries": [series(given, points)] })).into_response(),
        Some(Given::Status(429, body)) => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "17")], Json(body.clone())).into_response(),
        Some(Given::Status(status, body)) => (StatusCode::from_u16(*status).expect("a status"), Json(body.clone())).into_response(),
        Some(given @ Given::Pages(points)) => {
            let page: usize = query.get("pageToken").and_then(|token| token.parse().ok()).unwrap_or(0);
            let next = (page + 1 < points.len()).then(|| (page + 1).to_string());
            Json(json!({ "timeSeries": [series(given, &points[page..=page])], "nextPageToken": next.unwrap_or_default() })).into_response()
        }
    }
}

async fn serve(metrics: impl IntoIterator<Item = (&'static str, Given)>) -> (Url, Google) {
    let google = Google { metrics: Arc::new(metrics.into_iter().collect()), ..Google::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = Url::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("URL");
    let app = Router::new().fallback(answer).with_state(google.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, google)
}

/// A key of a service account, made here.
fn key(folder: &tempfile::TempDir) -> PathBuf {
    let key = KeyPair::generate(KeySize::Rsa2048).expect("a key");
    let der: Pkcs8V1Der<'_> = key.as_der().expect("DER");
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", BASE64_STANDARD.encode(der.as_ref()));
    let path = folder.path().join("key.json");
    let json = json!({ "type": "service_account", "client_email": "advisor@my-project.iam.gserviceaccount.com", "private_key_id": "k1",
        "private_key": pem, "project_id": "my-project" });
    std::fs::write(&path, json.to_string()).expect("written");
    path
}

async fn read(url: Url, file: PathBuf) -> Result<Reading, SourceError> {
    let timeout = Duration::from_secs(5);
    let client = Client::new(url, ClientOptions::default()).expect("a client");
    PubsubSource::new(client, Credentials::new(Some(file), timeout), "my-project".to_owned(), "orders".to_owned()).read().await
}

fn snapshot(reading: Reading) -> PubsubSubscriptionSnapshot {
    let Snapshot::PubsubSubscription(snapshot) = reading.snapshot else { unreachable!("a subscription") };
    *snapshot
}

#[tokio::test]
async fn a_pubsub_reading_puts_gauges_and_counts_together_and_says_when_they_were_measured() {
    let (url, google) = serve([
        ("num_undelivered_messages", Given::Gauge(&[(2, 90_000), (3, 84_000), (4, 78_000), (5, 72_000)])),
        ("oldest_unacked_message_age", Given::Gauge(&[(2, 45)])),
        ("ack_message_count", Given::Delta(&[(3, 24_000), (4, 24_000), (5, 6_000_000)])),
        ("sent_message_count", Given::Delta(&[(3, 30_000), (4, 30_000)])),
        ("expired_ack_deadlines_count", Given::Delta(&[(3, 0), (4, 1_200)])),
        ("open_streaming_pulls", Given::Gauge(&[(2, 6)])),
        ("backlog_bytes", Given::Gauge(&[(2, 180_000_000)])),
    ])
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    let reading = read(url, key(&folder)).await.expect("a reading");
    assert_eq!(reading.calls, 8);
    let got = snapshot(reading);
    let number = |value: Option<loadline::core::units::Amount>| value.map(loadline::core::units::Amount::get);
    assert_eq!((got.undelivered, number(got.oldest_unacked_seconds), got.no_data), (Some(90_000), Some(45.0), false));
    assert_eq!((number(got.ack_per_second), number(got.sent_per_second), number(got.expired_ack_deadlines_per_second)), (Some(400.0), Some(500.0), Some(10.0)));
    assert_eq!(number(got.publish_per_second), Some(500.0), "400/s were acknowledged, and the backlog grew by 100/s");
    assert_eq!((got.open_streams, got.outstanding, number(got.message_bytes)), (Some(6), None, Some(2_000.0)));
    let age = loadline::engine::clock::now().as_second() - got.observed_at.expect("a time").as_second();
    assert!((120..200).contains(&age), "{age} s");

    // what was asked, and with what
    let seen = google.seen.lock().expect("a lock").clone();
    let (asked, token) = seen.iter().find(|(asked, _)| asked.contains("num_undelivered_messages")).expect("asked");
    assert_eq!(
        asked,
        "/v3/projects/my%2Dproject/timeSeries metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=\"orders\""
    );
    let claims = token.split('.').nth(1).map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("a signed token");
    let claims: Value = serde_json::from_slice(&claims).expect("claims");
    assert_eq!(
        (&claims["iss"], &claims["scope"]),
        (&json!("advisor@my-project.iam.gserviceaccount.com"), &json!("https://www.googleapis.com/auth/monitoring.read"))
    );
}

#[tokio::test]
async fn a_pubsub_subscription_without_a_point_is_no_data_and_not_an_empty_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = key(&folder);
    let (url, _) = serve([("ack_message_count", Given::Delta(&[(2, 600)]))]).await;
    let got = snapshot(read(url, file.clone()).await.expect("a reading"));
    assert_eq!((got.undelivered, got.no_data, got.ack_per_second), (None, true, None));
    // a metric that the project does not know yet is none either
    let (url, _) = serve([("num_undelivered_messages", Given::Status(404, json!({ "error": { "status": "NOT_FOUND" } })))]).await;
    assert!(snapshot(read(url, file.clone()).await.expect("a reading")).no_data);
    // one point tells what waits, and not what is published
    let (url, _) = serve([("num_undelivered_messages", Given::Gauge(&[(2, 0)])), ("ack_message_count", Given::Delta(&[(2, 600)]))]).await;
    let got = snapshot(read(url, file).await.expect("a reading"));
    assert_eq!((got.undelivered, got.no_data, got.publish_per_second), (Some(0), false, None));
}

#[tokio::test]
async fn pubsub_rates_of_another_time_than_the_backlog_are_unknown() {
    let folder = tempfile::tempdir().expect("a folder");
    let (url, _) =
        serve([("num_undelivered_messages", Given::Gauge(&[(1, 5_000), (2, 5_000), (3, 5_000)])), ("ack_message_count", Given::Delta(&[(8, 60_000)]))]).await;
    let got = snapshot(read(url, key(&folder)).await.expect("a reading"));
    assert_eq!((got.undelivered, got.ack_per_second, got.publish_per_second), (Some(5_000), None, None));
}

#[tokio::test]
async fn pubsub_pages_are_followed_and_endless_ones_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = key(&folder);
    let (url, _) = serve([("num_undelivered_messages", Given::Pages(&[(2, 300), (2, 200), (2, 100)]))]).await;
    assert_eq!(snapshot(read(url, file.clone()).await.expect("a reading")).undelivered, Some(600));
    let (url, _) = serve([("num_undelivered_messages", Given::Pages(&[(2, 1); 40]))]).await;
    assert_eq!(read(url, file).await.expect_err("too many").kind, FailureKind::TooLarge);
}

#[tokio::test]
async fn pubsub_failures_are_told_apart_and_a_quota_names_its_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = key(&folder);
    let waits = ("num_undelivered_messages", Given::Gauge(&[(2, 5_000)]));
    let failing = |given: Given| {
        let (waits, file) = (waits.clone(), file.clone());
        async move {
            let (url, _) = serve([waits, ("ack_message_count", given)]).await;
            read(url, file).await.expect_err("a failure")
        }
    };
    let quota = failing(Given::Status(429, json!({ "error": { "status": "RESOURCE_EXHAUSTED" } }))).await;
    assert_eq!((quota.kind, quota.retry_after), (FailureKind::Status, Some(Duration::from_secs(17))));
    assert_eq!(failing(Given::Status(403, json!({}))).await.kind, FailureKind::Unauthorized);
    let partial = failing(Given::Status(200, json!({ "timeSeries": [], "executionErrors": [{ "code": 14, "message": "hunter2" }] }))).await;
    assert_eq!(partial.kind, FailureKind::Unexpected);
    assert!(!partial.message.contains("hunter2"), "{partial}");
    let shape = failing(Given::Status(200, json!({ "timeSeries": [{ "points": [{ "value": {} }] }] }))).await;
    assert!(shape.message.contains("interval"), "{shape}");
}

#[tokio::test]
async fn a_pubsub_credentials_file_that_is_none_is_named_without_its_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key.json");
    let (url, google) = serve([]).await;
    for (text, expected) in [
        ("hunter2", "not JSON"),
        (r#"{"type":"hunter2"}"#, "expected service_account"),
        (r#"{"type":"service_account","private_key":"hunter2","client_email":"a","private_key_id":"b"}"#, "no access token"),
    ] {
        std::fs::write(&path, text).expect("written");
        let error = read(url.clone(), path.clone()).await.expect_err(text);
        assert_eq!(error.kind, FailureKind::Unauthorized, "{error}");
        assert!(error.message.contains(expected) || error.message.contains("its key is none"), "{error}");
        assert!(!error.message.contains("hunter2"), "{error}");
    }
    assert!(google.seen.lock().expect("a lock").is_empty(), "nothing is asked without a token");
}

/// Probes a subscription with the built binary, whose tokens come from a metadata server at `metadata`.
async fn probe(base: &Url, metadata: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("loadline.yaml");
    let text = format!(
        "targets:\n  - name: orders\n    kind: pubsubSubscription\n    timeout: 2s\n    source: {{ pubsub: {{ project: my-project, subscription: orders, baseUrl: \"{base}\" }} }}\n"
    );
    std::fs::write(&config, text).expect("written");
    tokio::process::Command::new(env!("CARGO_BIN_EXE_loadline"))
        .args(["probe", "target", "--config"])
        .arg(&config)
        .env("GCE_METADATA_HOST", metadata)
        .env("HOME", folder.path())
        .env_remove("GOOGLE_APPLICATION_CREDENTIALS")
        .stdin(Stdio::null())
        .output()
        .await
        .expect("the binary runs")
}

#[tokio::test]
async fn pubsub_application_default_credentials_are_those_of_the_metadata_server() {
    let (url, google) =
        serve([("num_undelivered_messages", Given::Gauge(&[(2, 7), (3, 7), (4, 7)])), ("ack_message_count", Given::Delta(&[(2, 0), (3, 0)]))]).await;
    let host = format!("127.0.0.1:{}", url.port().expect("a port"));
    let output = probe(&url, &host).await;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let printed: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((&printed["undelivered"], &printed["publishPerSecond"], &printed["ackPerSecond"]), (&json!(7), &json!(0.0), &json!(0.0)), "{out}");
    assert!(google.seen.lock().expect("a lock").iter().all(|(_, token)| token == "Bearer of-the-metadata-server"));
    assert!(!err.contains("of-the-metadata-server"), "{err}");
}

#[tokio::test]
async fn pubsub_without_any_credentials_says_what_was_expected() {
    let (url, google) = serve([]).await;
    let output = probe(&url, "127.0.0.1:9").await;
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("application default credentials"), "{err}");
    assert!(google.seen.lock().expect("a lock").is_empty());
}
