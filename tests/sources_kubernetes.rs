//! The counts of scale targets, from a fake API server in the documented shapes.
#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::{Json, Router};
use loadline::core::request::Replicas;
use loadline::engine::source::{FailureKind, ReplicaSource, SourceError};
use loadline::sources::http::{Client, ClientOptions};
use loadline::sources::kubernetes::KubernetesScale;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

type Objects = Vec<(&'static str, u16, Value)>;

/// Reads a target of a server that has these objects and answers 404 for any other.
async fn read(objects: Objects, api_version: &str, kind: &str, resource: Option<&str>) -> Result<Replicas, SourceError> {
    async fn object(State(objects): State<Objects>, uri: Uri) -> (StatusCode, Json<Value>) {
        let found = objects.into_iter().find(|(path, _, _)| *path == uri.path());
        let (_, status, body) = found.unwrap_or(("", 404, json!({ "kind": "Status", "code": 404 })));
        (StatusCode::from_u16(status).expect("a status"), Json(body))
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let base = Url::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("URL");
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(object).with_state(objects)).await });
    let api = Client::new(base, ClientOptions::default()).expect("client");
    KubernetesScale::new(api, "druid", api_version, kind, "mm", resource.map(str::to_owned)).read().await
}

const PATH: &str = "/apis/apps/v1/namespaces/druid/statefulsets/mm";
const SCALE: &str = "/apis/apps/v1/namespaces/druid/statefulsets/mm/scale";

fn scale(spec: Value, status: Value) -> Value {
    json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": { "name": "mm" }, "spec": spec, "status": status })
}

fn counts(spec: u64, status: u64, ready: Option<u64>) -> Replicas {
    Replicas { spec: Some(spec), status: Some(status), ready, ..Replicas::default() }
}

#[tokio::test]
async fn a_stateful_set_gives_the_wanted_the_present_and_the_ready_count() {
    let scale = scale(json!({ "replicas": 4 }), json!({ "replicas": 3, "selector": "app=mm" }));
    let object = json!({ "kind": "StatefulSet", "spec": { "replicas": 4 }, "status": { "replicas": 3, "readyReplicas": 2 } });
    let replicas = read(vec![(SCALE, 200, scale), (PATH, 200, object)], "apps/v1", "StatefulSet", None).await.expect("counts");
    assert_eq!(replicas, counts(4, 3, Some(2)));
}

#[tokio::test]
async fn counts_that_kubernetes_leaves_out_are_zero() {
    let objects = vec![(SCALE, 200, scale(json!({}), json!({ "replicas": 0 }))), (PATH, 200, json!({ "status": { "replicas": 0 } }))];
    assert_eq!(read(objects, "apps/v1", "StatefulSet", None).await.expect("counts"), counts(0, 0, Some(0)));
}

#[tokio::test]
async fn the_ready_count_stays_unknown_without_the_right_to_read_the_object() {
    let objects = vec![(SCALE, 200, scale(json!({ "replicas": 4 }), json!({ "replicas": 4 }))), (PATH, 403, json!({ "kind": "Status" }))];
    assert_eq!(read(objects, "apps/v1", "StatefulSet", None).await.expect("counts"), counts(4, 4, None));
}

#[tokio::test]
async fn a_custom_kind_is_read_by_its_scale_alone() {
    let path = "/apis/flink.apache.org/v1beta1/namespaces/druid/flinkdeployments/mm/scale";
    let objects = || vec![(path, 200, scale(json!({ "replicas": 2 }), json!({ "replicas": 2 })))];
    assert_eq!(read(objects(), "flink.apache.org/v1beta1", "FlinkDeployment", None).await.expect("counts"), counts(2, 2, None));
    assert_eq!(read(objects(), "flink.apache.org/v1beta1", "Other", Some("flinkdeployments")).await.expect("counts"), counts(2, 2, None));
}

#[tokio::test]
async fn a_target_that_is_not_there_is_named() {
    let error = read(vec![], "apps/v1", "StatefulSet", None).await.expect_err("missing");
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::NotFound, "StatefulSet druid/mm does not exist or cannot be scaled"));
    let error = read(vec![(SCALE, 401, json!({}))], "apps/v1", "StatefulSet", None).await.expect_err("no rights");
    assert_eq!(error.kind, FailureKind::Unauthorized);
}

#[tokio::test]
async fn something_that_is_no_scale_is_not_read_as_zero() {
    for body in [json!({}), json!({ "kind": "Status" }), json!([]), scale(json!({ "replicas": -1 }), json!({}))] {
        let error = read(vec![(SCALE, 200, body)], "apps/v1", "StatefulSet", None).await.expect_err("no scale");
        assert_eq!(error.kind, FailureKind::Unexpected);
    }
}
