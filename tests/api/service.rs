//! Probes, status, errors of the framework, token, document.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::body::Body;
use http::Request;
use loadline::core::units::Timestamp;
use loadline::surfaces::http::{AppState, Setup, router};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Answer, Service, decided};

#[tokio::test]
async fn the_service_is_alive_at_once_and_ready_with_its_configuration() {
    let service = Service::new();
    assert_eq!(service.get("/livez").await.status, 200);
    assert_eq!(service.get("/readyz").await.status, 200);
    service.status.reload_failed(Timestamp::UNIX_EPOCH, vec!["targets[0].name is missing".to_owned()]);
    assert_eq!(service.get("/readyz").await.status, 200, "the last good one is in force");
    let status = service.get("/v1/status").await.json();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["demo"], false);
    assert_eq!(status["configuration"]["state"], "reloadFailed");
    assert_eq!(status["configuration"]["problems"], json!(["targets[0].name is missing"]));
    service.shutdown.cancel();
    assert_eq!(service.get("/readyz").await.status, 503);
    assert_eq!(service.get("/livez").await.status, 200);
}

#[tokio::test]
async fn paths_and_methods_that_are_none_are_problem_documents() {
    let service = Service::new();
    service.get("/v2/advice").await.problem(404, "notFound");
    let answer = service.get("/v1/advice").await;
    answer.problem(405, "methodNotAllowed");
    assert_eq!(answer.header("allow"), "POST");
    service.post("/v1/targets", "").await.problem(405, "methodNotAllowed");
}

#[tokio::test]
async fn answers_carry_the_id_of_their_request() {
    let service = Service::new();
    assert!(!service.get("/livez").await.header("x-request-id").is_empty());
    let request = Request::get("/livez").header("x-request-id", "abc-1").body(Body::empty()).expect("a request");
    assert_eq!(service.send(request).await.headers()["x-request-id"], "abc-1");
}

#[tokio::test]
async fn with_a_token_only_probes_and_metrics_are_open() {
    let service = Service::with(loadline::surfaces::http::Limits::default(), Some("s3cret"));
    decided(&service, "orders");
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(service.get(path).await.status, 200, "{path}");
    }
    for path in ["/", "/docs", "/openapi.json", "/v1/status", "/v1/targets", "/v1/targets/orders/advice", "/v1/events", "/assets/page.js"] {
        let answer = service.get(path).await;
        answer.problem(401, "unauthorized");
        assert!(answer.header("www-authenticate").starts_with("Bearer"), "{path}");
    }
    service.post("/v1/advice", "{}").await.problem(401, "unauthorized");
    for (given, status) in
        [("Bearer s3cret", 200), ("bearer s3cret", 200), ("Bearer s3cre", 401), ("Bearer s3cretx", 401), ("Basic s3cret", 401), ("Bearer", 401)]
    {
        let request = Request::get("/v1/targets").header("authorization", given).body(Body::empty()).expect("a request");
        assert_eq!(service.send(request).await.status(), status, "{given}");
    }
}

#[tokio::test]
async fn a_long_answer_is_compressed_for_those_who_can_read_it() {
    let service = Service::new();
    let request = Request::get("/openapi.json").header("accept-encoding", "gzip").body(Body::empty()).expect("a request");
    assert_eq!(service.send(request).await.headers()["content-encoding"], "gzip");
    let request = Request::get("/livez").header("accept-encoding", "gzip").body(Body::empty()).expect("a request");
    assert!(!service.send(request).await.headers().contains_key("content-encoding"), "a short one is not");
}

#[tokio::test]
async fn the_document_is_the_one_that_is_checked_in() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");
    let served = service_document().await;
    if std::env::var_os("LOADLINE_BLESS").is_some() {
        std::fs::write(path, format!("{served}\n")).expect("the document is written");
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept.trim_end() == served, "openapi/openapi.json differs from the interface: LOADLINE_BLESS=1 rewrites it");
}

async fn service_document() -> String {
    let answer: Answer = Service::new().get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), "application/json");
    answer.text
}

#[tokio::test]
async fn the_document_describes_every_call_body_and_error() {
    let document: Value = serde_json::from_str(&service_document().await).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["license"]["name"], "Apache-2.0");
    let paths: Vec<_> = document["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
    for path in [
        "/v1/advice",
        "/v1/targets",
        "/v1/targets/{name}",
        "/v1/targets/{name}/advice",
        "/v1/targets/{name}/request",
        "/v1/targets/{name}/history",
        "/v1/events",
        "/v1/status",
        "/livez",
        "/readyz",
        "/metrics",
    ] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    let schemas = &document["components"]["schemas"];
    let question = &schemas["AdviceRequest"];
    assert_eq!(question["discriminator"]["propertyName"], "kind");
    assert_eq!(question["oneOf"].as_array().map(Vec::len), Some(6));
    for (schema, kind) in
        [("DruidWorkersRequest", "druidWorkers"), ("FlinkJobRequest", "flinkJob"), ("KafkaGroupRequest", "kafkaGroup"), ("BacklogRequest", "backlog")]
    {
        assert_eq!(schemas[schema]["properties"]["kind"]["enum"], json!([kind]));
        assert_eq!(schemas[schema]["required"], json!(["kind"]));
        assert_eq!(schemas[schema]["additionalProperties"], false);
    }
    for member in ["code", "title", "status", "detail", "errors"] {
        assert!(schemas["ProblemDocument"]["properties"][member].is_object(), "{member}");
    }
    assert!(schemas["Advice"]["properties"]["recommended"].is_object());
    assert!(document["paths"]["/v1/targets/{name}/advice"]["post"]["requestBody"].is_object());
    // every reference leads somewhere
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(schemas[reference].is_object(), "{reference} is not described");
    }
}

#[tokio::test]
async fn a_fault_in_a_handler_is_a_problem_of_that_request_only() {
    let mut setup = Setup::new(Arc::default(), Arc::default(), CancellationToken::new());
    let calls = AtomicU32::new(0);
    setup.clock = Arc::new(move || match calls.fetch_add(1, Ordering::Relaxed) {
        1 => panic!("a secret of the service"),
        _ => Timestamp::UNIX_EPOCH,
    });
    let service = Service { router: router(AppState::new(setup)), ..Service::new() };
    let answer = service.get("/v1/targets").await;
    answer.problem(500, "internal");
    assert!(!answer.text.contains("secret"));
    assert_eq!(service.get("/v1/targets").await.status, 200);
}
