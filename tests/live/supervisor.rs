//! A streaming supervisor of a real Druid that reads a real Kafka too slowly: Loadline says how many tasks it needs, the
//! test posts its spec with that number, and the lag has to go.
//!
//! Each record takes a task a known time, asleep, so the right number is known: ceil(rate x cost / target utilization).

use std::time::Duration;

use loadline::engine::clock;
use serde_json::Value;

use crate::druid_lab::DruidLab;
use crate::service::Service;

const SUPERVISOR: &str = "orders";
const PARTITIONS: &str = "12";
const ARRIVAL_PER_SECOND: f64 = 900.0;
/// One task does 500 records a second.
const COST_MICROSECONDS: f64 = 2000.0;
const TARGET_UTILIZATION: f64 = 0.8;

fn configuration(http: u16, grpc: u16, overlord: &str) -> String {
    format!(
        r#"server: {{ http: "127.0.0.1:{http}", grpc: "127.0.0.1:{grpc}" }}
defaults: {{ interval: 5s, timeout: 4s }}
targets:
  - name: {SUPERVISOR}
    kind: druidSupervisor
    source: {{ druid: {{ url: "{overlord}", supervisor: {SUPERVISOR} }} }}
    policy:
      targetUtilization: {TARGET_UTILIZATION}
      catchUpWithin: 10m
      staleAfter: 1m
      window: 1m
"#
    )
}

/// What waits in the topic, as Druid reports it; unknown until it has reached the topic, when it says 0.
async fn lag(lab: &DruidLab) -> Option<f64> {
    let status = lab.get(&format!("/druid/indexer/v1/supervisor/{SUPERVISOR}/status")).await;
    let lags = status["payload"]["minimumLag"].as_object().filter(|lags| !lags.is_empty())?;
    lags.values().map(Value::as_f64).sum()
}

#[tokio::test]
async fn a_supervisor_that_falls_behind_is_given_the_tasks_that_its_load_asks_for_and_catches_up() {
    // room for the tasks that publish beside those that follow them
    let lab = DruidLab::start(&[("WORKERS", "2"), ("SLOTS", "4"), ("KAFKA", "yes")]).await;
    let service = Service::start(|http, grpc| configuration(http, grpc, &lab.url())).await;
    let wanted = (ARRIVAL_PER_SECOND * COST_MICROSECONDS / 1e6 / TARGET_UTILIZATION).ceil();
    lab.leave("submit.sh", &["topic", SUPERVISOR, PARTITIONS, &ARRIVAL_PER_SECOND.to_string(), "600"]);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let post = |tasks: &str| {
        let cost = COST_MICROSECONDS.to_string();
        lab.run_with("submit.sh", &["supervisor", SUPERVISOR], &[("TASKS", tasks), ("MICROS", &cost), ("DURATION", "PT30M"), ("OFFSETS", "PT5S")]);
    };
    post("1");
    let began = clock::instant();
    let say = |text: &str| eprintln!("live: {:4.0} s: {text}", began.elapsed().as_secs_f64());
    let limit = Duration::from_secs(210);
    let advised = loop {
        let advice = service.get(&format!("/v1/targets/{SUPERVISOR}/advice")).await;
        // rates that begin at zero, and a lag of no partitions, must not make it wild
        if let Some(recommended) = advice["recommended"].as_f64() {
            assert!(recommended <= wanted + 1.0, "{recommended} tasks, and about {wanted} make sense: {advice}");
            if advice["outcome"] == "change" {
                assert!((recommended - wanted).abs() <= 1.0, "{recommended} tasks instead of about {wanted}: {advice}");
                say(&format!("{recommended} tasks are advised, {wanted} expected; lag {:?}: {}", lag(&lab).await, advice["reasons"]));
                break recommended;
            }
        }
        assert!(began.elapsed() < limit, "no change is advised: {advice}");
        tokio::time::sleep(Duration::from_secs(2)).await;
    };

    post(&advised.to_string());
    let (mut most, posted) = (0.0, clock::instant());
    loop {
        let now = lag(&lab).await;
        most = now.map_or(most, |now| now.max(most));
        if now.is_some_and(|now| now < most / 2.0) {
            say(&format!("the lag has fallen from {most} to {now:?}"));
            break;
        }
        let advice = service.get(&format!("/v1/targets/{SUPERVISOR}/advice")).await;
        if let Some(recommended) = advice["recommended"].as_f64() {
            assert!((recommended - wanted).abs() <= 1.0, "{recommended} tasks instead of about {wanted}: {advice}");
        }
        assert!(posted.elapsed() < limit, "the lag is {now:?} after {limit:?}, it was {most}: {advice}");
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let advice = service.get(&format!("/v1/targets/{SUPERVISOR}/advice")).await;
    say(&format!("then: {} of {}: {}", advice["recommended"], advice["current"], advice["reasons"]));
}
