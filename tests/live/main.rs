//! Loadline against a real Flink, a real Druid, a real Kafka and a real Prometheus: the built binary, a cluster on loopback, and
//! answers that are known beforehand.
//!
//! Not part of plain `cargo test`, as each test starts a cluster of Java processes for some minutes. Run it with
//! `cargo test --features live --test live -- --nocapture`; it needs what `flink/README.md`, `druid/README.md`,
//! `kafka/README.md` and `prometheus/README.md` name. A cluster or a service that does not start is a failure, not a skip.
//!
//! `hpa` starts a Kubernetes that is built from source (`kubernetes/README.md`), and is run by name: `just live hpa`.
//!
//! Two jobs of the lab run: in `lab-pipeline` 6000 records arrive in a second and Enrich, at 2 subtasks of 500 us a record,
//! serves 4000 of them; `lab-healthy` has 1000 a second and nothing to do about it.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::print_stderr, reason = "a test fails where it panics")]

mod closed_loop;
mod day;
mod drained;
mod draining;
mod druid_lab;
mod exposition;
mod hpa;
mod kafka_groups;
mod kafka_lab;
mod kubernetes_lab;
mod lab;
mod prometheus_maps;
mod service;
mod supervisor;

use std::time::Duration;

use jiff::Timestamp;
use loadline::engine::clock;
use serde_json::Value;

use exposition::Exposition;
use lab::Lab;
use service::Service;

/// What the lab's jobs are: see `flink/submit.sh` and `flink/src/lab/LabJob.java`.
const ARRIVAL_PER_SECOND: f64 = 6000.0;
const ENRICH_COST_SECONDS: f64 = 500e-6;
const ENRICH_PER_SECOND: f64 = 4000.0;

/// What the configuration below asks for.
const TARGET_UTILIZATION: f64 = 0.7;
const STALE_AFTER: Duration = Duration::from_secs(20);
const RESTART_SECONDS: f64 = 10.0;
const CATCH_UP_SECONDS: f64 = 600.0;

const PIPELINE: &str = "lab-pipeline";
const HEALTHY: &str = "lab-healthy";

/// The window, the stabilization after the start, and two readings.
const SETTLED_AFTER: Duration = Duration::from_secs(95);
/// For how long every answer must be right once it has settled.
const JUDGED_FOR: Duration = Duration::from_secs(30);

fn configuration(http: u16, grpc: u16, flink: &str) -> String {
    // Enrich of lab-healthy is a quarter busy at 2 subtasks: lowering it would be right, and an hour of stabilization
    // keeps that out of a test of minutes.
    let target = |name: &str, stabilization: &str| {
        format!(
            r#"  - name: {name}
    kind: flinkJob
    source: {{ flink: {{ url: "{flink}", job: {name} }} }}
    policy:
      targetUtilization: {TARGET_UTILIZATION}
      staleAfter: {stale}s
      window: 60s
      stabilizationAfterStart: 20s
      restart: {RESTART_SECONDS}s
      catchUpWithin: 10m
      scaleDown: {{ stabilization: {stabilization} }}
"#,
            stale = STALE_AFTER.as_secs()
        )
    };
    let session = format!(
        "  - name: session\n    kind: flinkJob\n    source: {{ flink: {{ url: \"{flink}\", job: \"lab-*\", exclude: [\"*-{excluded}\"] }} }}\n",
        excluded = HEALTHY.trim_start_matches("lab-")
    );
    format!(
        "server: {{ http: \"127.0.0.1:{http}\", grpc: \"127.0.0.1:{grpc}\" }}\ndefaults: {{ interval: 5s, timeout: 4s }}\ntargets:\n{}{}{session}",
        target(PIPELINE, "2m"),
        target(HEALTHY, "1h")
    )
}

#[tokio::test]
async fn advice_for_a_real_flink_names_the_bottleneck_leaves_a_healthy_job_alone_and_ends_with_the_cluster() {
    let lab = Lab::start("pipeline healthy").await;
    let service = Service::start(|http, grpc| configuration(http, grpc, &lab.url())).await;

    stage("no answer is wild while windows fill and Flink's averages climb");
    let settled = clock::instant() + SETTLED_AFTER;
    while clock::instant() < settled {
        look(&service).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    stage("the bottleneck has the parallelism that its cost and its backlog ask for");
    let judged = clock::instant() + JUDGED_FOR;
    while clock::instant() < judged {
        let seen = look(&service).await;
        let backlog = lab.backlog(PIPELINE).await;
        the_bottleneck_is_raised(&seen.pipeline, backlog);
        assert_eq!(seen.healthy["recommended"], seen.healthy["current"], "{HEALTHY} has a number of its own: {}", seen.healthy);
        assert!(seen.healthy["recommended"].is_u64(), "{HEALTHY} has no number: {}", seen.healthy);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    stage("one entry follows jobs that come, go and are deployed anew");
    the_entry_follows(&lab, &service).await;

    stage("when the cluster is gone, the number holds until it is too old, and then there is none");
    lab.down();
    let stopped = clock::now();
    the_advice_ends(&service, stopped).await;
}

/// The entry `session` stands for all jobs of the lab but one.
async fn the_entry_follows(lab: &Lab, service: &Service) {
    let target = |job: &str| format!("/v1/targets/session.{job}");
    let view = service.get(&target(PIPELINE)).await;
    assert_eq!(view["displayName"], PIPELINE, "{view}");
    // five vertices, one of them a source
    let calls = view["source"]["callsPerReading"].as_u64().unwrap();
    assert!((7..=9).contains(&calls), "{view}");
    assert_eq!(service.ask(&target(HEALTHY)).await.0, 404, "it is excluded");

    let read = async |name: &str, id: &str| {
        let limit = clock::instant() + Duration::from_secs(40);
        loop {
            let (status, request) = service.ask(&format!("{}/request", target(name))).await;
            if status == 200 && request["snapshot"]["jobId"] == *id {
                return request["memory"]["since"].clone();
            }
            assert!(clock::instant() < limit, "{name}: {status}, and not the job {id}: {}", request["snapshot"]["jobId"]);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    lab.submit("chained").await;
    let first = lab.job("lab-chained").await;
    let since = read("lab-chained", &first).await;
    lab.cancel(&first).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    let gone = service.get(&format!("{}/advice", target("lab-chained"))).await;
    assert_eq!(gone["outcome"], "hold", "its target stays, and holds: {gone}");
    lab.submit("chained").await;
    let second = lab.job("lab-chained").await;
    assert_ne!(first, second);
    assert_eq!(read("lab-chained", &second).await, since, "the same target, with its memory");
    let status = service.get("/v1/status").await;
    assert_eq!((&status["entries"][0]["targets"], &status["entries"][0]["found"]), (&Value::from(2), &Value::from(2)), "{status}");
}

fn stage(text: &str) {
    eprintln!("live: {text}");
}

/// One look at both targets.
struct Seen {
    pipeline: Value,
    healthy: Value,
}

/// Reads both advices and the metrics, and checks what has to be true at all times while the cluster runs.
async fn look(service: &Service) -> Seen {
    Exposition::parse(&service.text("/metrics").await);
    let pipeline = service.get(&format!("/v1/targets/{PIPELINE}/advice")).await;
    let healthy = service.get(&format!("/v1/targets/{HEALTHY}/advice")).await;
    // Flink's per-second rates start at 0 and climb for a minute, and its busy time starts at 1000 ms: an advisor that
    // divides one by the other asks for tens of subtasks here
    for part in parts(&pipeline) {
        let most = if part["name"] == "Enrich" { 7 } else { 2 };
        let recommended = part["recommended"].as_u64().unwrap_or(0);
        assert!(recommended <= most, "{PIPELINE}: {} shall have {recommended} subtasks, at most {most} make sense: {part}", part["name"]);
    }
    if healthy["outcome"] != "unknown" {
        assert!(healthy["outcome"] == "keep" || healthy["outcome"] == "hold", "{HEALTHY} shall be left alone: {healthy}");
    }
    for part in parts(&healthy) {
        assert!(part["recommended"].as_u64() <= part["current"].as_u64(), "{HEALTHY}: {} is raised: {part}", part["name"]);
    }
    Seen { pipeline, healthy }
}

fn parts(advice: &Value) -> &[Value] {
    advice["parts"].as_array().map_or(&[], Vec::as_slice)
}

/// Without a backlog Enrich needs arrival x cost / utilization subtasks; catching up the backlog, and what arrives during
/// the restart, within the rest of ten minutes, needs some more. What comes out may be one off (a measured cost, and
/// rounding).
fn the_bottleneck_is_raised(advice: &Value, backlog: f64) {
    let steady = ARRIVAL_PER_SECOND / TARGET_UTILIZATION;
    // the backlog grows while it is read, by the reading and by us: allow for twenty seconds of that
    let most_backlog = backlog + 20.0 * (ARRIVAL_PER_SECOND - ENRICH_PER_SECOND) + ARRIVAL_PER_SECOND * RESTART_SECONDS;
    let catching_up = steady + most_backlog / (CATCH_UP_SECONDS - RESTART_SECONDS);
    let least = (steady * ENRICH_COST_SECONDS).ceil() - 1.0;
    let most = (catching_up * ENRICH_COST_SECONDS).ceil() + 1.0;

    let enrich = parts(advice).iter().find(|part| part["name"] == "Enrich").unwrap_or_else(|| panic!("no part Enrich in {advice}"));
    let recommended = enrich["recommended"].as_f64().unwrap_or_else(|| panic!("no recommendation for Enrich in {advice}"));
    assert!(
        (least..=most).contains(&recommended),
        "Enrich shall have {recommended} subtasks; {ARRIVAL_PER_SECOND}/s of {ENRICH_COST_SECONDS} s at {TARGET_UTILIZATION} and a backlog of {backlog} need {least} to {most}: {enrich}"
    );
    assert_eq!(enrich["current"], 2, "{enrich}");
    assert_eq!(advice["outcome"], "change", "{advice}");
    for name in ["Source: orders", "Parse", "Count per key (2 s)", "Out: Writer"] {
        let part = parts(advice).iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no part {name} in {advice}"));
        // each of them needs a fraction of one subtask
        assert!((1..=2).contains(&part["recommended"].as_u64().unwrap_or(0)), "{name} needs one subtask: {part}");
    }
    let action = advice["actions"].as_array().unwrap().iter().find(|action| action["action"] == "setParallelism");
    let action = action.unwrap_or_else(|| panic!("no action setParallelism in {advice}"));
    let (id, overrides) = (enrich["id"].as_str().unwrap(), action["overrides"].as_str().unwrap_or(""));
    assert!(overrides.contains(&format!("{id}:{recommended}")), "the overrides do not raise Enrich: {action}");
}

/// From the end of the cluster to the end of its numbers.
async fn the_advice_ends(service: &Service, stopped: Timestamp) {
    let latest = stopped.checked_add(STALE_AFTER).unwrap();
    let give_up = latest.checked_add(Duration::from_secs(15)).unwrap();
    for target in [PIPELINE, HEALTHY] {
        let mut held = false;
        loop {
            let metrics = Exposition::parse(&service.text("/metrics").await);
            let before = clock::now();
            let advice = service.get(&format!("/v1/targets/{target}/advice")).await;
            if advice["recommended"].is_null() {
                break;
            }
            let valid_until: Timestamp = advice["validUntil"].as_str().unwrap_or_else(|| panic!("no validUntil in {advice}")).parse().unwrap();
            assert!(valid_until <= latest, "{target}: no reading since {stopped}, yet valid until {valid_until}: {advice}");
            assert!(before <= valid_until, "{target}: a number at {before}, after its end: {advice}");
            assert_eq!(metrics.value("loadline_advice_valid", target), Some(1.0), "{target}");
            let source = service.get("/v1/targets").await;
            let down = source["targets"].as_array().unwrap().iter().any(|row| row["name"] == target && row["source"]["state"] == "down");
            if down && advice["outcome"] == "hold" {
                assert_eq!(advice["recommended"], advice["current"], "{target} holds at another count: {advice}");
                held = true;
            }
            assert!(before < give_up, "{target}: still a number: {advice}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        // the second target is looked at when its hold is over
        assert!(held || target == HEALTHY, "{target}: never a hold between the end of the cluster and the end of its number");
    }
    nothing_is_left(service).await;
}

/// After its end no surface of a target carries a number.
async fn nothing_is_left(service: &Service) {
    let metrics = Exposition::parse(&service.text("/metrics").await);
    let list = service.get("/v1/targets").await;
    for target in [PIPELINE, HEALTHY] {
        let advice = service.get(&format!("/v1/targets/{target}/advice")).await;
        assert!(advice["recommended"].is_null() && advice["active"].is_null(), "{target}: {advice}");
        assert_eq!(advice["outcome"], "hold", "{target}: {advice}");
        let (status, problem) = service.ask(&format!("/v1/targets/{target}/advice?strict=true")).await;
        assert_eq!((status, &problem["code"]), (503, &Value::from("adviceExpired")), "{target}: {problem}");
        assert_eq!(metrics.value("loadline_recommended_replicas", target), None, "{target}");
        assert_eq!(metrics.value("loadline_advice_valid", target), Some(0.0), "{target}");
        assert_eq!(metrics.value("loadline_source_up", target), Some(0.0), "{target}");
        let row = list["targets"].as_array().unwrap().iter().find(|row| row["name"] == target).unwrap();
        assert!(row["recommended"].is_null(), "{target}: {row}");
    }
}
