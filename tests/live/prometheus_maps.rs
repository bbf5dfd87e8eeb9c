//! The maps of `docs/prometheus-source.md`, as they stand there, against a real Prometheus that scrapes what exporters
//! expose: each gives the snapshot that it should, and an advice. Then an exporter goes silent, and at last Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use loadline::engine::clock;
use serde_json::{Value, json};

use crate::exposition::Exposition;
use crate::lab::{ONE_AT_A_TIME, tail};
use crate::service::Service;

/// Where the maps of the page are asked for.
const URL_IN_THE_DOCS: &str = "http://prometheus.monitoring.svc:9090";
const STALE_AFTER: Duration = Duration::from_secs(12);
/// The exporters, by their files in `tests/fixtures/prometheus`.
const EXPORTERS: [&str; 7] = ["kafka_exporter", "kminion", "burrow_exporter", "rabbitmq", "stackdriver_exporter", "flink-taskmanager", "flink-jobmanager"];
/// Maps of the page, each with the policy of its target.
const MAPS: [(&str, &str); 6] = [
    ("orders-kafka-exporter", "window: 10s"),
    ("orders-kminion", "window: 10s, perReplicaBacklog: 10"),
    ("orders-burrow", "window: 10s, perReplicaBacklog: 10"),
    ("orders-rabbitmq", ""),
    // its samples are minutes old by their nature
    ("orders-stackdriver", "staleAfter: 5m, perReplicaPerSecond: 400"),
    ("orders-flink-reporter", "window: 10s, stabilizationAfterStart: 5s"),
];

/// What exporters expose, and whether `KMinion` still does.
struct Exporters {
    began: Instant,
    silent: AtomicBool,
}

impl Exporters {
    /// An exposition as it is now.
    fn page(&self, name: &str) -> Option<String> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/prometheus").join(format!("{name}.txt"));
        let text = std::fs::read_to_string(file).ok()?;
        // the recording is of another job name
        let text = text.replace("lab_pipeline", "orders");
        let lines = text.lines().map(|line| self.line(line));
        Some(lines.flat_map(|line| [line, "\n".to_owned()]).collect())
    }

    /// A line with what its remark asks for.
    fn line(&self, line: &str) -> String {
        let elapsed = self.began.elapsed().as_secs_f64();
        let grows = |line: &str, per_second: f64| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            format!("{series} {}", (value.parse::<f64>().unwrap() + per_second * elapsed).floor())
        };
        if let Some((sample, remark)) = line.split_once(" # ") {
            if let Some(per_second) = remark.strip_prefix('+').and_then(|rest| rest.strip_suffix("/s")) {
                return grows(sample, per_second.parse().unwrap());
            }
            let ago: u64 = remark.strip_suffix(" s ago").and_then(|rest| rest.parse().ok()).unwrap_or_else(|| panic!("no remark: {line}"));
            let at = clock::now().checked_sub(Duration::from_secs(ago)).unwrap().as_second();
            // a point keeps its time while it is the newest one
            return format!("{sample} {}", at / 10 * 10_000);
        }
        if line.starts_with("flink_jobmanager_job_runningTime{") && !line.ends_with(" 0.0") { grows(line, 1000.0) } else { line.to_owned() }
    }
}

async fn expose(State(exporters): State<Arc<Exporters>>, UrlPath(name): UrlPath<String>) -> Response {
    match exporters.page(&name) {
        Some(_) if name == "kminion" && exporters.silent.load(Ordering::Relaxed) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Some(page) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// A running Prometheus; it is stopped when this is dropped.
struct Lab {
    dir: PathBuf,
    port: u16,
    exporters: Arc<Exporters>,
}

impl Lab {
    async fn start() -> Self {
        // one place for all runs: a run that was killed leaves a server there, which the next one stops
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-prometheus");
        down(&dir);
        let _ = std::fs::remove_dir_all(&dir);
        let exporters = Arc::new(Exporters { began: clock::instant(), silent: AtomicBool::new(false) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let exporter = listener.local_addr().unwrap().to_string();
        let router = Router::new().route("/{name}", axum::routing::get(expose)).with_state(Arc::clone(&exporters));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let lab = Self { dir, port: free_port(), exporters };
        let up = Command::new("bash")
            .arg(script("up.sh"))
            .arg(&lab.dir)
            .args(EXPORTERS)
            .env("PORT", lab.port.to_string())
            .env("EXPORTER", exporter)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn();
        let status = tokio::task::spawn_blocking(move || up.unwrap().wait()).await.unwrap().unwrap();
        assert!(status.success(), "up.sh: {status}\n{}", tail(&lab.dir.join("log")));
        lab
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        down(&self.dir);
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/prometheus").join(name)
}

/// It must not panic: it runs while a test fails.
fn down(dir: &Path) {
    match Command::new("bash").arg(script("down.sh")).arg(dir).stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        other => eprintln!("live: down.sh {}: {other:?}", dir.display()),
    }
}

fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (29_600..29_700).find(free).expect("a free port on loopback")
}

/// The targets of the page, by name, as they are written.
fn maps() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/prometheus-source.md")).unwrap();
    let blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let target = |block: &str| {
        let text = block.strip_prefix("targets:\n").unwrap_or_else(|| panic!("more than a target: {block}")).to_owned();
        (text.lines().next().unwrap().trim_start().trim_start_matches("- name: ").to_owned(), text)
    };
    blocks.map(target).filter(|(_, text)| text.contains(URL_IN_THE_DOCS)).collect()
}

fn configuration(http: u16, grpc: u16, prometheus: &str) -> String {
    let maps = maps();
    let names: Vec<&str> = maps.keys().map(String::as_str).collect();
    let mut executed: Vec<&str> = MAPS.iter().map(|(name, _)| *name).collect();
    executed.sort_unstable();
    assert_eq!(names, executed, "every map of the page is executed");
    let mut text = format!("server: {{ http: \"127.0.0.1:{http}\", grpc: \"127.0.0.1:{grpc}\" }}\ndefaults: {{ interval: 2s, timeout: 2s }}\ntargets:\n");
    for (name, policy) in MAPS {
        text.push_str(&maps[name].replace(URL_IN_THE_DOCS, prometheus));
        let stale = if policy.contains("staleAfter") { String::new() } else { format!("staleAfter: {}s", STALE_AFTER.as_secs()) };
        let comma = if policy.is_empty() || stale.is_empty() { "" } else { ", " };
        let replicas = if name.contains("flink") { "" } else { "    replicas: { static: 5 }\n" };
        writeln!(text, "{replicas}    policy: {{ {stale}{comma}{policy} }}").unwrap();
    }
    text
}

/// The newest reading of a target, without its times; null where there is none.
async fn snapshot(service: &Service, target: &str) -> Value {
    let (status, request) = service.ask(&format!("/v1/targets/{target}/request")).await;
    if status == 200 { request["snapshot"].clone() } else { Value::Null }
}

async fn once<T>(what: &str, look: impl AsyncFnMut() -> Result<T, Value>) -> T {
    within(Duration::from_secs(40), what, look).await
}

async fn within<T>(time: Duration, what: &str, mut look: impl AsyncFnMut() -> Result<T, Value>) -> T {
    let limit = clock::instant() + time;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(clock::instant() < limit, "not within {time:?}: {what}: {seen}"),
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Waits until a reading has no gap, and gives it without its times.
async fn whole(service: &Service, target: &str) -> Value {
    once(&format!("a whole reading of {target}"), async || {
        let mut found = snapshot(service, target).await;
        let Some(members) = found.as_object_mut().filter(|members| !members.contains_key("missing")) else { return Err(found) };
        for name in ["observedAt", "receivedAt"] {
            let at: Timestamp = members.remove(name).unwrap().as_str().unwrap().parse().unwrap();
            let age = clock::now().duration_since(at).as_secs_f64();
            assert!((-1.0..8.0).contains(&age), "{target}: {name} is {age} s ago");
        }
        Ok(found)
    })
    .await
}

fn near(value: &Value, expected: f64, share: f64) {
    let found = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!((found - expected).abs() <= share * expected, "{found} is not {expected}");
}

#[tokio::test]
async fn every_map_of_the_page_gives_its_snapshot_and_an_advice_from_a_real_prometheus() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let lab = Lab::start().await;
    let service = Service::start(|http, grpc| configuration(http, grpc, &lab.url())).await;

    let partition =
        |number: u64, committed: u64, start: u64, end: u64| json!({ "partition": number, "committed": committed, "logStart": start, "logEnd": end });
    let kminion = json!({
        "group": "orders", "state": "Stable", "assignor": "range", "members": 2,
        "topics": [{ "name": "orders", "partitionCount": 2, "partitions": [partition(0, 120, 0, 150), partition(1, 4500, 4000, 4500)] }],
    });
    assert_eq!(whole(&service, "orders-kminion").await, kminion);
    let burrow = json!({
        "group": "orders",
        "topics": [{ "name": "orders", "partitionCount": 2, "partitions": [
            { "partition": 0, "committed": 120, "logEnd": 150 }, { "partition": 1, "committed": 4500, "logEnd": 4500 },
        ] }],
    });
    assert_eq!(whole(&service, "orders-burrow").await, burrow);

    // the rate of the ends needs two scrapes before the commit behind the end is known for what it is
    let exporter = once("the commit that was read later than the end is the end", async || {
        let found = snapshot(&service, "orders-kafka-exporter").await;
        let one = &found["topics"][0]["partitions"][1];
        if one["committed"].is_u64() && one["committed"] == one["logEnd"] { Ok(found) } else { Err(found) }
    })
    .await;
    assert_eq!(
        (&exporter["members"], &exporter["topics"][0]["partitionCount"], exporter["topics"].as_array().unwrap().len()),
        (&json!(2), &json!(4), 1),
        "{exporter}"
    );
    let partitions = &exporter["topics"][0]["partitions"];
    let lag = partitions[0]["logEnd"].as_u64().unwrap() - partitions[0]["committed"].as_u64().unwrap();
    assert!((12_000..18_000).contains(&lag), "{exporter}");
    assert_eq!(partitions[2], json!({ "partition": 2, "logStart": 0, "logEnd": 40 }), "-1 says that nothing is committed");
    assert_eq!((&partitions[3]["committed"], &partitions[3]["logEnd"]), (&json!(90_000), &json!(40)), "a topic that was made anew is left as it is");
    assert_eq!(exporter["missing"], Value::Null, "{exporter}");

    // no rate is told before its window of two minutes is full; from then on it is the right one
    let queue = within(Duration::from_secs(180), "rates of the queue", async || {
        let found = snapshot(&service, "orders-rabbitmq").await;
        if found["missing"].is_null() && found["servedPerSecond"].is_number() { Ok(found) } else { Err(found) }
    })
    .await;
    near(&queue["servedPerSecond"], 300.0, 0.05);
    near(&queue["arrivalPerSecond"], 330.0, 0.05);
    assert_eq!(queue["inFlight"], 40, "{queue}");
    assert!((12_000..22_000).contains(&queue["backlog"].as_u64().unwrap()), "{queue}");

    let subscription = once("a whole reading of the subscription", async || {
        let found = snapshot(&service, "orders-stackdriver").await;
        if found["undelivered"].is_u64() && found["missing"].is_null() { Ok(found) } else { Err(found) }
    })
    .await;
    let rates = ["publishPerSecond", "ackPerSecond", "sentPerSecond", "oldestUnackedSeconds"].map(|name| subscription[name].as_f64().unwrap());
    assert_eq!(
        (rates, &subscription["undelivered"], &subscription["openStreams"]),
        ([2000.0, 1500.0, 1600.0, 120.0], &json!(900_000), &json!(6)),
        "{subscription}"
    );
    let measured: Timestamp = subscription["observedAt"].as_str().unwrap().parse().unwrap();
    let age = clock::now().duration_since(measured).as_secs();
    assert!((145..180).contains(&age), "what is told is {age} s old, and was sent as 150 s old");

    let job = whole(&service, "orders-flink-reporter").await;
    assert_eq!((&job["jobId"], &job["state"], &job["restarts"]), (&json!("b7f5098bdb803f8beb534a9f0bfc8468"), &json!("RUNNING"), &json!(0)), "{job}");
    assert_eq!((&job["taskManagers"], &job["slotsPerTaskManager"]), (&json!(2), &json!(4)), "{job}");
    let vertices = job["vertices"].as_array().unwrap();
    assert_eq!(vertices.len(), 5, "{job}");
    let vertex = |name: &str| vertices.iter().find(|vertex| vertex["name"] == name).unwrap_or_else(|| panic!("no {name} in {job}"));
    let enrich = vertex("Enrich");
    assert_eq!(
        (&enrich["parallelism"], &enrich["busyRatio"]["max"], &enrich["inputs"][0]["from"]),
        (&json!(2), &json!(1.0), &vertex("Parse")["id"]),
        "{enrich}"
    );
    assert_eq!(vertex("Source: orders")["pendingRecords"], 355_361, "{job}");
    near(&vertex("Parse")["busyRatio"]["max"], 0.082, 0.01);

    for (target, _) in MAPS {
        let advice = once(&format!("an advice on {target}"), async || {
            let advice = service.get(&format!("/v1/targets/{target}/advice")).await;
            if advice["recommended"].is_u64() { Ok(advice) } else { Err(advice) }
        })
        .await;
        eprintln!("live: {target}: {} -> {} ({})", advice["current"], advice["recommended"], advice["reasons"][0]["message"]);
    }
    for (target, least) in [("orders-rabbitmq", 6), ("orders-stackdriver", 8), ("orders-kafka-exporter", 5)] {
        let advice = once(&format!("{target} is raised or kept"), async || {
            let advice = service.get(&format!("/v1/targets/{target}/advice")).await;
            if advice["recommended"].as_u64().is_some_and(|count| count >= least) { Ok(advice) } else { Err(advice) }
        })
        .await;
        assert!(!advice["reasons"].as_array().unwrap().is_empty(), "{advice}");
    }
    let flink = once("the bottleneck of the job is raised", async || {
        let advice = service.get("/v1/targets/orders-flink-reporter/advice").await;
        let raised = advice["parts"]
            .as_array()
            .is_some_and(|parts| parts.iter().any(|part| part["name"] == "Enrich" && part["recommended"].as_u64() > part["current"].as_u64()));
        if raised { Ok(advice) } else { Err(advice) }
    })
    .await;
    assert_eq!(flink["outcome"], "change", "{flink}");

    an_exporter_goes_silent(&lab, &service).await;
    prometheus_goes(&lab, &service).await;
}

/// What cannot be scraped is unknown from the next scrape on, and the others are as they were.
async fn an_exporter_goes_silent(lab: &Lab, service: &Service) {
    lab.exporters.silent.store(true, Ordering::Relaxed);
    let advice = once("the reading of a silent exporter is none", async || {
        let advice = service.get("/v1/targets/orders-kminion/advice").await;
        if advice["outcome"] == "hold" && advice["reasons"][0]["code"] == "NoReading" { Ok(advice) } else { Err(advice) }
    })
    .await;
    let said = advice["reasons"][0]["message"].as_str().unwrap();
    assert!(said.contains("no field is known") && said.contains("kminion_kafka_consumer_group_info"), "{said}");
    assert_eq!(advice["recommended"], advice["current"], "{advice}");
    assert_eq!(snapshot(service, "orders-burrow").await["missing"], Value::Null);
}

/// The number holds, and then there is none.
async fn prometheus_goes(lab: &Lab, service: &Service) {
    down(&lab.dir);
    let stopped = clock::now();
    let latest = stopped.checked_add(STALE_AFTER).unwrap();
    let give_up = latest.checked_add(Duration::from_secs(10)).unwrap();
    for target in ["orders-rabbitmq", "orders-burrow", "orders-flink-reporter"] {
        let mut held = false;
        loop {
            let before = clock::now();
            let advice = service.get(&format!("/v1/targets/{target}/advice")).await;
            if advice["recommended"].is_null() {
                break;
            }
            let valid_until: Timestamp = advice["validUntil"].as_str().unwrap().parse().unwrap();
            assert!(valid_until <= latest, "{target}: nothing was read after {stopped}, yet it is valid until {valid_until}: {advice}");
            held |= advice["outcome"] == "hold" && advice["reasons"][0]["code"] == "NoReading";
            assert!(before < give_up, "{target}: still a number: {advice}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        assert!(held || target != "orders-rabbitmq", "{target}: never a hold between the end of Prometheus and the end of its number");
        let metrics = Exposition::parse(&service.text("/metrics").await);
        assert_eq!(metrics.value("loadline_recommended_replicas", target), None, "{target}");
        assert_eq!(metrics.value("loadline_source_up", target), Some(0.0), "{target}");
    }
}
