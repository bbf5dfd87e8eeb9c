//! Readings through Prometheus' query API: a local server that answers what each test tells it to, faults included.
//!
//! What a real Prometheus makes of the maps in the documentation is in `tests/live/prometheus_maps.rs`; here it is what
//! a source makes of answers, and that nothing which is missing ever becomes a number.
#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::post};
use loadline::config::prometheus::PrometheusMap;
use loadline::config::{self, SourceConfig};
use loadline::core::units::Timestamp;
use loadline::engine::source::{FailureKind, Reading, Snapshot, Source as _, SourceError};
use loadline::sources::http::{BasicAuth, Client, ClientOptions};
use loadline::sources::prometheus::PrometheusReader;
use proptest::prelude::*;
use serde_json::{Value, json};

/// When the samples of the fake were taken, beside the questions about them.
const SAMPLED: &str = "1796092795.5";

/// What is answered to an expression.
#[derive(Clone, Debug)]
enum Reply {
    /// Series with labels and a value.
    Vector(Vec<(Value, String)>),
    /// A status and a body.
    Raw(u16, String),
    /// Nothing for so long.
    Late(Duration),
}

fn one(value: &str) -> Reply {
    Reply::Vector(vec![(json!({}), value.to_owned())])
}

fn many(rows: &[(Value, &str)]) -> Reply {
    Reply::Vector(rows.iter().map(|(labels, value)| (labels.clone(), (*value).to_owned())).collect())
}

/// The form and the headers of a question.
type Asked = (BTreeMap<String, String>, HeaderMap);

/// A server that knows some expressions, and what it was asked.
#[derive(Clone, Default)]
struct Server {
    replies: Arc<BTreeMap<String, Reply>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn new(replies: &[(&str, Reply)]) -> Self {
        Self { replies: Arc::new(replies.iter().map(|(query, reply)| ((*query).to_owned(), reply.clone())).collect()), asked: Arc::default() }
    }

    async fn serve(&self) -> String {
        async fn answer(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
            let form: BTreeMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
            let query = form["query"].clone();
            server.asked.lock().expect("no panic").push((form, headers));
            let reply = server.replies.get(&query).cloned().unwrap_or_else(|| if query.contains("timestamp(") { one(SAMPLED) } else { many(&[]) });
            match reply {
                Reply::Vector(rows) => {
                    let rows: Vec<Value> = rows.into_iter().map(|(labels, value)| json!({ "metric": labels, "value": [1_796_092_800.0, value] })).collect();
                    axum::Json(json!({ "status": "success", "data": { "resultType": "vector", "result": rows } })).into_response()
                }
                Reply::Raw(status, body) => {
                    let status = StatusCode::from_u16(status).expect("a status");
                    (status, [(header::CONTENT_TYPE, "application/json"), (header::RETRY_AFTER, "7")], body).into_response()
                }
                Reply::Late(time) => {
                    tokio::time::sleep(time).await;
                    StatusCode::NO_CONTENT.into_response()
                }
            }
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let router = Router::new().route("/prefix/api/v1/query", post(answer)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("{address}/prefix")
    }

    fn asked(&self) -> Vec<(BTreeMap<String, String>, HeaderMap)> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// The map of a target of this kind.
fn map(kind: &str, source: &Value) -> PrometheusMap {
    let mut source = source.clone();
    source["url"] = json!("http://prometheus:9090");
    let file = json!({ "targets": [{ "name": "orders", "kind": kind, "source": { "prometheus": source } }] });
    let configuration = config::parse(&file.to_string()).unwrap_or_else(|problems| panic!("{problems:?}"));
    match &configuration.targets[0].source {
        SourceConfig::Prometheus(source) => source.map.clone(),
        other => panic!("{other:?}"),
    }
}

async fn read_with(server: &Server, kind: &str, source: &Value, options: ClientOptions) -> Result<Reading, SourceError> {
    let url = url::Url::parse(&server.serve().await).expect("a URL");
    let timeout = options.timeout;
    PrometheusReader::new(Client::new(url, options).expect("a client"), map(kind, source), timeout).read().await
}

async fn read(server: &Server, kind: &str, source: &Value) -> Result<Reading, SourceError> {
    read_with(server, kind, source, ClientOptions::default()).await
}

/// The snapshot as it would be posted, without its times.
fn posted(reading: &Reading) -> Value {
    let mut value = match &reading.snapshot {
        Snapshot::DruidWorkers(snapshot) => serde_json::to_value(snapshot),
        Snapshot::DruidSupervisor(snapshot) => serde_json::to_value(snapshot),
        Snapshot::FlinkJob(snapshot) => serde_json::to_value(snapshot),
        Snapshot::KafkaGroup(snapshot) => serde_json::to_value(snapshot),
        Snapshot::PubsubSubscription(snapshot) => serde_json::to_value(snapshot),
        Snapshot::Backlog(snapshot) => serde_json::to_value(snapshot),
    }
    .expect("JSON");
    for time in ["observedAt", "receivedAt"] {
        assert!(value.as_object_mut().expect("an object").remove(time).is_some(), "{time} is there");
    }
    value
}

fn missing(reading: &Reading) -> Vec<String> {
    posted(reading)["missing"].as_array().into_iter().flatten().map(|text| text.as_str().expect("text").to_owned()).collect()
}

#[tokio::test]
async fn a_flat_snapshot_is_one_batch_of_forms_at_one_moment() {
    let server = Server::new(&[("sum(queue)", one("1.2e+04")), ("rate(in[1m])", one("330.5")), ("done_total", one("9007199254740992"))]);
    let source = json!({ "queries": { "backlog": "sum(queue)", "arrivalPerSecond": "rate(in[1m])", "arrivedTotal": "done_total" } });
    let reading = read(&server, "backlog", &source).await.expect("a reading");
    assert_eq!(posted(&reading), json!({ "backlog": 12_000, "arrivalPerSecond": 330.5, "arrivedTotal": 9_007_199_254_740_992_u64 }));
    assert_eq!(reading.calls, 4, "three fields and the age of their samples");
    let Snapshot::Backlog(snapshot) = &reading.snapshot else { panic!("a backlog") };
    assert_eq!(snapshot.observed_at, Some("2026-12-01T02:39:55.5Z".parse().expect("a time")), "the time of the samples and not of the answer");
    let asked = server.asked();
    let times: std::collections::BTreeSet<&String> = asked.iter().map(|(form, _)| &form["time"]).collect();
    assert_eq!(times.len(), 1, "{times:?}");
    let now = loadline::engine::clock::now().duration_since(Timestamp::UNIX_EPOCH).as_secs_f64();
    let time: f64 = times.first().expect("a time").parse().expect("seconds");
    assert!((now - time).abs() < 60.0, "{time} is not now, {now}");
    for (form, headers) in &asked {
        assert_eq!(headers[header::CONTENT_TYPE], "application/x-www-form-urlencoded");
        assert_eq!(form["timeout"], "5000ms");
    }
    let age = asked.iter().find(|(form, _)| form["query"].contains("timestamp")).map(|(form, _)| form["query"].clone()).expect("a question about ages");
    for selector in ["timestamp(queue)", "timestamp(in)", "timestamp(done_total)"] {
        assert!(age.contains(selector), "{selector} is not in {age}");
    }
}

#[tokio::test]
async fn labels_put_numbers_into_the_elements_of_a_group() {
    let row = |topic: &str, partition: &str| json!({ "topic": topic, "partition": partition, "consumergroup": "orders" });
    let server = Server::new(&[
        ("committed", many(&[(row("orders", "0"), "90"), (row("orders", "10"), "5"), (row("orders", "2"), "-1")])),
        ("ends", many(&[(row("orders", "0"), "100"), (row("orders", "10"), "7"), (row("orders", "2"), "4")])),
        ("members", one("3")),
        ("info", many(&[(json!({ "state": "Stable", "protocol": "range" }), "1")])),
    ]);
    let source = json!({
        "queries": {
            "topics[].partitions[].committed": "committed", "topics[topic].partitions[partition].logEnd": "ends", "members": "members",
            "state[state]": "info", "assignor[protocol]": "info",
        },
        "constants": { "group": "orders", "topics": [{ "name": "orders", "retentionSeconds": 604_800 }] },
    });
    let reading = read(&server, "kafkaGroup", &source).await.expect("a reading");
    let partitions = json!([
        { "partition": 0, "committed": 90, "logEnd": 100 },
        { "partition": 2, "logEnd": 4 },
        { "partition": 10, "committed": 5, "logEnd": 7 },
    ]);
    let topics = json!([{ "name": "orders", "retentionSeconds": 604_800.0, "partitions": partitions }]);
    assert_eq!(posted(&reading), json!({ "group": "orders", "state": "Stable", "assignor": "range", "members": 3, "topics": topics }));
}

#[tokio::test]
async fn labels_put_numbers_into_vertices_and_constants_give_the_graph() {
    let row = |id: &str| json!({ "task_id": id });
    let server = Server::new(&[
        ("parallelism", many(&[(row("a1"), "2"), (row("b2"), "4")])),
        ("busy", many(&[(row("a1"), "0.25"), (row("b2"), "1")])),
        ("pending", many(&[(row("a1"), "600000")])),
        ("since", one("1796006400")),
    ]);
    let source = json!({
        "queries": {
            "vertices[].parallelism": "parallelism", "vertices[].busyRatio.max": "busy", "vertices[].pendingRecords": "pending", "runningSince": "since",
        },
        "constants": {
            "state": "RUNNING",
            "vertices": [{ "id": "a1", "name": "Source: orders" }, { "id": "b2", "inputs": [{ "from": "a1", "shipStrategy": "HASH" }] }],
        },
    });
    let reading = read(&server, "flinkJob", &source).await.expect("a reading");
    let vertices = json!([
        { "id": "a1", "name": "Source: orders", "parallelism": 2, "inputs": [], "busyRatio": { "max": 0.25 }, "pendingRecords": 600_000 },
        { "id": "b2", "parallelism": 4, "inputs": [{ "from": "a1", "shipStrategy": "HASH" }], "busyRatio": { "max": 1.0 } },
    ]);
    assert_eq!(posted(&reading), json!({ "state": "RUNNING", "runningSince": "2026-11-30T02:40:00Z", "vertices": vertices }));
}

#[tokio::test]
async fn workers_maps_and_replicas_are_filled_by_their_labels() {
    let server = Server::new(&[
        ("capacity", many(&[(json!({ "host": "mm-0:8091" }), "4"), (json!({ "host": "mm-1:8091" }), "4")])),
        ("used", many(&[(json!({ "host": "mm-0:8091" }), "4"), (json!({ "host": "mm-1:8091" }), "0")])),
        ("enabled", many(&[(json!({ "host": "mm-0:8091" }), "1"), (json!({ "host": "mm-1:8091" }), "0")])),
        ("pending", one("2")),
        ("lag", many(&[(json!({ "shard": "a" }), "5"), (json!({ "shard": "b" }), "0")])),
        ("per_pod", many(&[(json!({ "pod": "x" }), "5.5"), (json!({ "pod": "y" }), "NaN")])),
    ]);
    let source =
        json!({ "queries": { "workers[].capacity": "capacity", "workers[].used": "used", "workers[].enabled": "enabled", "pending.count": "pending" } });
    let workers = posted(&read(&server, "druidWorkers", &source).await.expect("workers"));
    assert_eq!(workers["workers"][1], json!({ "host": "mm-1:8091", "capacity": 4, "used": 0, "enabled": false }));
    assert_eq!(workers["pending"], json!({ "count": 2 }));
    let supervisor = read(&server, "druidSupervisor", &json!({ "queries": { "partitionLag[shard]": "lag" } })).await.expect("a supervisor");
    assert_eq!(posted(&supervisor), json!({ "partitionLag": { "a": 5, "b": 0 } }));
    let queue = posted(&read(&server, "backlog", &json!({ "queries": { "perReplica[]": "per_pod" } })).await.expect("a queue"));
    assert_eq!(queue["perReplica"], json!([5.5, null]), "a replica without a number is there, and unknown");
}

/// One field that is well, and one that is not: the reason names the field, the query, what came and what was expected.
#[tokio::test]
async fn what_cannot_be_used_is_unknown_with_a_reason_and_the_reading_goes_on() {
    let success = |result: &str| Reply::Raw(200, format!(r#"{{"status":"success","data":{result}}}"#));
    let pods = many(&[(json!({ "pod": "a" }), "1"), (json!({ "pod": "b" }), "2")]);
    for (reply, words) in [
        (many(&[]), "(no series from `sum(x)`: expected at least one, as nothing found is not zero)"),
        (one("NaN"), "(NaN, which is no number: expected a finite one from `sum(x)`)"),
        (one("+Inf"), "+Inf, which is no number"),
        (one("12.5"), "12.5 is no whole number: expected one, as from round() or ceil()"),
        (one("1e17"), "too large to be exact: expected at most 2^53"),
        (pods, "(2 series, which differ in pod from `sum(x)`: expected one, as from sum() or max())"),
        (success(r#"{"resultType":"string","result":[1,"x"]}"#), "the answer is a string: expected a vector"),
        (success(r#"{"resultType":"matrix","result":[]}"#), "the answer is a range of samples"),
        (success(r#"{"resultType":"vector","result":[{"metric":{},"histogram":[1,{}]}]}"#), "a histogram: expected a number"),
        (success("null"), "the answer has no data"),
        (Reply::Raw(200, r#"{"status":"success","warnings":["store gone"],"data":{"resultType":"vector","result":[]}}"#.to_owned()), "came with a warning"),
        (Reply::Raw(200, r#"{"status":"error","errorType":"execution","error":"hunter2"}"#.to_owned()), "the answer is an error (execution)"),
        (Reply::Raw(400, r#"{"status":"error","errorType":"bad_data","error":"hunter2"}"#.to_owned()), "HTTP 400 (/api/v1/query) bad_data"),
        (Reply::Raw(422, r#"{"status":"error","errorType":"execution"}"#.to_owned()), "HTTP 422 (/api/v1/query) execution"),
        (Reply::Raw(429, "hunter2".to_owned()), "HTTP 429"),
        (Reply::Raw(503, r#"{"status":"error","errorType":"unavailable"}"#.to_owned()), "HTTP 503 (/api/v1/query) unavailable"),
        (Reply::Raw(200, "<html>hunter2</html>".to_owned()), "not JSON: content type application/json"),
    ] {
        let server = Server::new(&[("sum(x)", reply), ("rate", one("5"))]);
        let source = json!({ "queries": { "backlog": "sum(x)", "arrivalPerSecond": "rate" } });
        let reading = read(&server, "backlog", &source).await.unwrap_or_else(|error| panic!("{words}: {error}"));
        let (snapshot, reasons) = (posted(&reading), missing(&reading));
        assert_eq!((&snapshot["backlog"], &snapshot["arrivalPerSecond"]), (&Value::Null, &json!(5.0)), "{words}");
        assert_eq!(reasons.len(), 1, "{words}: {reasons:?}");
        assert!(reasons[0].starts_with("backlog (") && reasons[0].contains(words), "{words} is not in {reasons:?}");
        assert!(!reasons[0].contains("hunter2"), "{reasons:?}");
    }
}

#[tokio::test]
async fn an_element_that_a_query_leaves_out_is_named_and_never_zero() {
    let row = |partition: &str| json!({ "topic": "orders", "partition": partition });
    let server = Server::new(&[
        ("ends", many(&[(row("0"), "10"), (row("1"), "20"), (row("2"), "NaN")])),
        ("committed", many(&[(row("0"), "10"), (row("2"), "3")])),
        ("starts", many(&[(row("0"), "0"), (row("1"), "0"), (row("1"), "5"), (row("2"), "0"), (json!({ "topic": "orders" }), "7")])),
    ]);
    let key = |name: &str| format!("topics[].partitions[].{name}");
    let source = json!({ "queries": { key("committed"): "committed", key("logEnd"): "ends", key("logStart"): "starts" } });
    let reading = read(&server, "kafkaGroup", &source).await.expect("a reading");
    let partitions = json!([
        { "partition": 0, "committed": 10, "logEnd": 10, "logStart": 0 },
        { "partition": 1, "logEnd": 20 },
        { "partition": 2, "committed": 3, "logStart": 0 },
    ]);
    assert_eq!(posted(&reading)["topics"][0]["partitions"], partitions);
    let reasons = missing(&reading).join("\n");
    for words in [
        "committed (no series for topics[orders].partitions[1].committed from `committed`: expected one for each element)",
        "logEnd (NaN, which is no number: expected a finite one at topics[orders].partitions[2].logEnd from `ends`)",
        "logStart (several series at topics[orders].partitions[1].logStart from `starts`: expected one for each element, as from max by (...))",
        "logStart (a series without a usable label topic, partition from `starts`: expected its labels to name the element)",
    ] {
        assert!(reasons.contains(words), "{words} is not in\n{reasons}");
    }
}

#[tokio::test]
async fn a_list_of_which_an_element_is_unknown_is_unknown_and_not_shorter() {
    let server = Server::new(&[
        ("capacity", many(&[(json!({ "host": "a" }), "4"), (json!({ "host": "b" }), "4")])),
        ("used", many(&[(json!({ "host": "a" }), "1")])),
        ("enabled", many(&[(json!({ "host": "a" }), "1"), (json!({ "host": "b" }), "1")])),
        ("one_enabled", many(&[(json!({ "host": "a" }), "1")])),
        ("both_used", many(&[(json!({ "host": "a" }), "1"), (json!({ "host": "b" }), "1")])),
        ("pending", one("3")),
    ]);
    for (used, enabled, lacks) in [("used", "enabled", "used"), ("both_used", "one_enabled", "enabled")] {
        let source =
            json!({ "queries": { "workers[].capacity": "capacity", "workers[].used": used, "workers[].enabled": enabled, "pending.count": "pending" } });
        let reading = read(&server, "druidWorkers", &source).await.expect("a reading");
        let snapshot = posted(&reading);
        assert_eq!((&snapshot["workers"], &snapshot["pending"]["count"]), (&Value::Null, &json!(3)), "{lacks}");
        let words = format!("workers[b] is unknown without {lacks}");
        assert!(missing(&reading).contains(&words), "{:?}", missing(&reading));
    }
}

#[tokio::test]
async fn what_the_parser_of_requests_refuses_is_unknown_too() {
    let server = Server::new(&[("ratio", one("97")), ("rate", one("5"))]);
    let reading = read(&server, "backlog", &json!({ "queries": { "busyRatio": "ratio", "arrivalPerSecond": "rate" } })).await.expect("a reading");
    assert_eq!(posted(&reading)["busyRatio"], Value::Null);
    assert_eq!(missing(&reading), ["busyRatio (97 is out of range: expected a share between 0 and 1)"]);

    let row = |id: &str| json!({ "task_id": id });
    let server = Server::new(&[("parallelism", many(&[(row("a"), "0"), (row("b"), "2")])), ("managers", one("3"))]);
    let source = json!({ "queries": { "vertices[].parallelism": "parallelism", "taskManagers": "managers" } });
    let reading = read(&server, "flinkJob", &source).await.expect("a reading");
    assert_eq!((&posted(&reading)["vertices"], &posted(&reading)["taskManagers"]), (&json!([]), &json!(3)));
    assert!(missing(&reading).iter().any(|reason| reason.contains("vertices")), "{:?}", missing(&reading));
}

#[tokio::test]
async fn a_reading_of_which_nothing_is_known_is_none_and_says_when_to_ask_again() {
    let source = json!({ "queries": { "backlog": "sum(x)", "arrivalPerSecond": "rate" }, "constants": { "partitions": 4 } });
    let error = read(&Server::new(&[]), "backlog", &source).await.expect_err("nothing is known");
    assert_eq!(error.kind, FailureKind::NotFound);
    assert!(error.message.starts_with("no field is known: arrivalPerSecond (no series from `rate`"), "{error}");

    let busy = Reply::Raw(503, String::new());
    let error = read(&Server::new(&[("sum(x)", busy.clone()), ("rate", busy)]), "backlog", &source).await.expect_err("busy");
    assert_eq!((error.kind, error.retry_after), (FailureKind::Status, Some(Duration::from_secs(7))));

    // a port that nobody listens on
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = url::Url::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("a URL");
    drop(listener);
    let reader = PrometheusReader::new(Client::new(url, ClientOptions::default()).expect("a client"), map("backlog", &source), Duration::from_secs(5));
    assert_eq!(reader.read().await.expect_err("nobody is there").kind, FailureKind::Unreachable);
}

#[tokio::test]
async fn all_queries_share_one_time_limit_and_a_slow_one_costs_only_its_field() {
    let queries: BTreeMap<String, String> = [("backlog", "slow"), ("arrivalPerSecond", "rate"), ("servedPerSecond", "slow")]
        .into_iter()
        .map(|(field, query)| (field.to_owned(), query.to_owned()))
        .collect();
    let server = Server::new(&[("slow", Reply::Late(Duration::from_secs(20))), ("rate", one("5"))]);
    let start = loadline::engine::clock::instant();
    let options = ClientOptions { timeout: Duration::from_millis(400), at_a_time: 2, ..ClientOptions::default() };
    let reading = read_with(&server, "backlog", &json!({ "queries": queries }), options).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    // with two at a time both slow ones may stand before the others
    match reading {
        Ok(reading) => {
            assert_eq!(posted(&reading)["backlog"], Value::Null);
            assert!(missing(&reading).join(" ").contains("backlog (no answer within 400ms, which all queries of a reading share"), "{:?}", missing(&reading));
        }
        Err(error) => assert_eq!(error.kind, FailureKind::Timeout, "{error}"),
    }
}

#[tokio::test]
async fn when_it_was_measured_is_asked_for_and_a_reading_without_it_is_none() {
    let age = "min(timestamp(x))";
    let source = json!({ "queries": { "backlog": "sum(x)" } });
    for (reply, words) in [
        (many(&[]), "the age of the samples is unknown: no series"),
        (one("NaN"), "the age of the samples is unknown: NaN"),
        (Reply::Raw(500, String::new()), "the age of the samples is unknown: HTTP 500"),
        (many(&[(json!({}), "1"), (json!({ "a": "b" }), "2")]), "the age of the samples is unknown: 2 series"),
    ] {
        let error = read(&Server::new(&[("sum(x)", one("0")), (age, reply)]), "backlog", &source).await.expect_err(words);
        assert!(error.message.starts_with(words), "{words}: {error}");
    }
    let given = json!({ "queries": { "backlog": "sum(x)", "observedAt": "max(y)" } });
    let server = Server::new(&[("sum(x)", one("7")), ("max(y)", one("1796092000"))]);
    let reading = read(&server, "backlog", &given).await.expect("a reading");
    let Snapshot::Backlog(snapshot) = &reading.snapshot else { panic!("a backlog") };
    assert_eq!(snapshot.observed_at, Some("2026-12-01T02:26:40Z".parse().expect("a time")));
    assert!(server.asked().iter().all(|(form, _)| !form["query"].contains("timestamp")), "the query of the configuration takes the place of ours");
}

#[tokio::test]
async fn credentials_go_with_each_query() {
    let dir = tempfile::tempdir().expect("a folder");
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "hunter2\n").expect("a file");
    let source = json!({ "queries": { "backlog": "sum(x)" } });
    let basic = BasicAuth { username: "loadline".to_owned(), password_file: secret.clone() };
    for (options, expected) in [
        (ClientOptions { bearer_file: Some(secret.clone()), ..ClientOptions::default() }, "Bearer hunter2"),
        (ClientOptions { basic_auth: Some(basic), ..ClientOptions::default() }, "Basic bG9hZGxpbmU6aHVudGVyMg=="),
    ] {
        let server = Server::new(&[("sum(x)", one("7"))]);
        read_with(&server, "backlog", &source, options).await.expect("a reading");
        let asked = server.asked();
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|(_, headers)| headers[header::AUTHORIZATION] == expected), "{expected}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_costs_only_its_field() {
    let rows: Vec<(Value, String)> = (0..2000).map(|index| (json!({ "pod": format!("pod-{index}") }), "1".to_owned())).collect();
    let server = Server::new(&[("x", Reply::Vector(rows)), ("rate", one("5"))]);
    let options = ClientOptions { max_body_bytes: 20_000, ..ClientOptions::default() };
    let reading = read_with(&server, "backlog", &json!({ "queries": { "perReplica[]": "x", "arrivalPerSecond": "rate" } }), options).await.expect("a reading");
    assert_eq!(posted(&reading)["perReplica"], Value::Null);
    assert!(missing(&reading)[0].contains("larger than 20000 bytes"), "{:?}", missing(&reading));
}

/// What is unknown of a queue keeps its count from being lowered, however little seems to wait.
#[tokio::test]
async fn nothing_is_lowered_while_a_field_that_is_asked_for_is_unknown() {
    let advise = |missing: Value| {
        let snapshot = json!({ "observedAt": "2026-11-30T09:59:55Z", "backlog": 0, "arrivalPerSecond": 10.0, "servedPerSecond": 10.0, "busyRatio": 0.1, "missing": missing });
        let body = json!({ "kind": "backlog", "now": "2026-11-30T10:00:00Z", "replicas": { "spec": 8, "ready": 8 }, "snapshot": snapshot });
        let request = loadline::core::request::parse(body.to_string().as_bytes(), Timestamp::UNIX_EPOCH).expect("a request");
        serde_json::to_value(loadline::core::advise(&request)).expect("JSON")
    };
    let whole = advise(json!([]));
    assert!(whole["recommended"].as_u64().expect("a number") < 8, "without a gap it is lowered: {whole}");
    let held = advise(json!(["oldestSeconds (no series from `x`)"]));
    assert_eq!((&held["recommended"], &held["outcome"]), (&json!(8), &json!("hold")), "{held}");
    assert_eq!(held["reasons"][0]["code"], "IncompleteReading", "{held}");
    assert!(held["reasons"][0]["message"].as_str().expect("text").contains("oldestSeconds (no series from `x`)"), "{held}");
}

/// Answers of every sort, for a property.
fn reply() -> impl Strategy<Value = (Reply, Option<f64>)> {
    let number = (0_u32..1_000_000).prop_map(|value| (one(&value.to_string()), Some(f64::from(value))));
    let nothing = prop_oneof![
        Just(many(&[])),
        Just(one("NaN")),
        Just(one("-Inf")),
        Just(many(&[(json!({ "pod": "a" }), "0"), (json!({ "pod": "b" }), "0")])),
        Just(Reply::Raw(500, String::new())),
        Just(Reply::Raw(200, r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.to_owned())),
        Just(Reply::Raw(200, r#"{"status":"success","warnings":["half"],"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}"#.to_owned())),
    ];
    prop_oneof![number, nothing.prop_map(|reply| (reply, None))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_number_comes_out_exactly_where_one_went_in(replies in proptest::collection::vec(reply(), 4)) {
        let fields = ["backlog", "arrivalPerSecond", "inFlight", "oldestSeconds"];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let server = Server::new(&fields.iter().zip(&replies).map(|(field, (reply, _))| (*field, reply.clone())).collect::<Vec<_>>());
        let queries: BTreeMap<&str, &str> = fields.iter().map(|field| (*field, *field)).collect();
        let reading = runtime.block_on(read(&server, "backlog", &json!({ "queries": queries })));
        let unknown = replies.iter().filter(|(_, value)| value.is_none()).count();
        match reading {
            Err(_) => prop_assert_eq!(unknown, fields.len(), "a reading of which something is known"),
            Ok(reading) => {
                let snapshot = posted(&reading);
                for (field, (_, value)) in fields.iter().zip(&replies) {
                    prop_assert_eq!(snapshot[field].as_f64(), *value, "{} in {}", field, snapshot);
                }
                prop_assert_eq!(missing(&reading).len(), unknown);
            }
        }
    }
}
