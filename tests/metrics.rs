//! The text of `/metrics`, read by a parser that forgives nothing.
#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test that cannot go on fails")]

mod strict;
#[path = "api/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the interface")]
mod support;

use std::process::{Command, Stdio};

use loadline::core::advice::ActionKind;
use loadline::surfaces::metrics;

use strict::{Family, parse};
use support::{Service, bare, decided, expired, with_advice};

async fn scrape(service: &Service) -> String {
    let answer = service.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    answer.text
}

fn value(families: &[Family], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let family = families.iter().find(|family| family.name == format!("loadline_{name}"))?;
    let found = family.samples.iter().find(|sample| labels.iter().all(|(name, value)| sample.labels.iter().any(|(n, v)| n == name && v == value)))?;
    Some(found.value)
}

#[tokio::test]
async fn the_text_is_strictly_well_formed_with_no_one_and_many_targets() {
    metrics::install().expect("the only recorder");
    let service = Service::new();
    for count in [0, 1, 150] {
        for index in 0..count {
            match index % 3 {
                0 => decided(&service, &format!("target-{index}")),
                1 => with_advice(&service, &format!("target-{index}"), expired("old")),
                _ => {
                    let target = bare(&format!("target-{index}"));
                    service.store.insert(target.clone());
                    target
                }
            };
        }
        let text = scrape(&service).await;
        let families = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let told = families.iter().find(|family| family.name == "loadline_advice_valid").map_or(0, |family| family.samples.len());
        assert_eq!(told, count, "each target says whether its advice is valid");
        assert_eq!(value(&families, "build_info", &[("version", env!("CARGO_PKG_VERSION"))]), Some(1.0));
        check_with_promtool(&text);
    }
    let families = parse(&scrape(&service).await).expect("well formed");
    let http = families.iter().find(|family| family.name == "loadline_http_request_duration_seconds").expect("the service measures itself");
    assert_eq!(http.kind, "histogram");
}

#[tokio::test]
async fn valid_advice_has_its_numbers_and_nothing_that_is_not_finite() {
    let service = Service::new();
    decided(&service, "orders");
    let families = parse(&scrape(&service).await).expect("well formed");
    let common = [("target", "orders"), ("target_namespace", "shop"), ("kind", "backlog")];
    for (name, expected) in [
        ("recommended_replicas", Some(8.0)),
        ("advice_valid", Some(1.0)),
        ("current_replicas", Some(5.0)),
        ("wanted_replicas", Some(9.0)),
        ("min_replicas", Some(2.0)),
        ("max_replicas", Some(24.0)),
        ("active", Some(1.0)),
        ("backlog_records", Some(4000.0)),
        ("lag_seconds", None),                           // stale
        ("arrival_rate_per_second", None),               // infinite
        ("capacity_per_replica_per_second", Some(60.0)), // assumed
        ("utilization_ratio", Some(1.0)),
        ("advice_timestamp_seconds", Some(1_796_032_800.0)),
        ("reading_timestamp_seconds", Some(1_796_032_795.0)),
        ("part_recommended_parallelism", Some(4.0)),
        ("part_current_parallelism", Some(2.0)),
        ("part_overflow", None),
        ("draining_workers", Some(0.0)),
        ("consumer_expected_replicas", Some(8.0)),
        ("source_up", Some(1.0)),
    ] {
        assert_eq!(value(&families, name, &common), expected, "{name}");
    }
    for (name, label, expected) in [
        ("outcome", ("outcome", "change"), 1.0),
        ("outcome", ("outcome", "hold"), 0.0),
        ("reason", ("reason", "Paused"), 1.0),
        ("limit", ("limit", "PartitionLimit"), 1.0),
        ("pending_actions", ("action", "scale"), 1.0),
        ("part_current_parallelism", ("part", "p\"1\\\n"), 2.0),
        ("consumer_last_read_timestamp_seconds", ("interface", "prometheus"), 1_796_032_800.0),
    ] {
        assert_eq!(value(&families, name, &[label]), Some(expected), "{name} {label:?}");
    }
}

#[tokio::test]
async fn expired_advice_has_no_number_and_a_removed_target_no_series() {
    let service = Service::new();
    with_advice(&service, "orders", expired("orders"));
    let families = parse(&scrape(&service).await).expect("well formed");
    for name in [
        "recommended_replicas",
        "wanted_replicas",
        "active",
        "backlog_records",
        "utilization_ratio",
        "part_recommended_parallelism",
        "consumer_expected_replicas",
    ] {
        assert_eq!(value(&families, name, &[]), None, "{name}");
    }
    assert_eq!(value(&families, "advice_valid", &[]), Some(0.0));
    assert_eq!(value(&families, "outcome", &[("outcome", "hold")]), Some(1.0));
    assert_eq!(value(&families, "outcome", &[("outcome", "change")]), Some(0.0));
    assert_eq!(value(&families, "current_replicas", &[]), Some(5.0));
    service.store.remove("orders");
    assert!(!scrape(&service).await.contains("orders"));
}

#[tokio::test]
async fn a_target_with_many_parts_keeps_a_hundred_and_counts_the_rest() {
    let service = Service::new();
    let mut advice = support::advice("wide");
    let part = advice.parts.remove(0);
    advice.parts = (0..130).map(|index| loadline::core::advice::Part { id: index.to_string(), ..part.clone() }).collect();
    with_advice(&service, "wide", advice);
    let families = parse(&scrape(&service).await).expect("well formed");
    let parts = families.iter().find(|family| family.name == "loadline_part_current_parallelism").expect("parts");
    assert_eq!(parts.samples.len(), 100);
    assert_eq!(value(&families, "part_overflow", &[]), Some(30.0));
}

#[tokio::test]
async fn performed_actions_are_counted_with_their_target_and_go_with_it() {
    let service = Service::new();
    let target = decided(&service, "orders");
    assert!(!scrape(&service).await.contains("actions_performed_total"), "nothing has been performed");
    assert!(!scrape(&service).await.contains("loadline_performing"), "only advice is asked for");
    target.act(|acting| {
        acting.performs = true;
        acting.notice = Some("not the active instance".to_owned());
    });
    let families = parse(&scrape(&service).await).expect("well formed");
    assert_eq!(value(&families, "performing", &[("target", "orders")]), Some(0.0));
    target.act(|acting| acting.notice = None);
    target.act(|acting| acting.counts.insert((ActionKind::SetParallelism, "accepted"), 3));
    let families = parse(&scrape(&service).await).expect("well formed");
    let labels = [("target", "orders"), ("target_namespace", "shop"), ("kind", "backlog"), ("action", "setParallelism"), ("result", "accepted")];
    assert_eq!(value(&families, "actions_performed_total", &labels), Some(3.0));
    assert_eq!(value(&families, "performing", &[("target", "orders")]), Some(1.0));
    assert_eq!(families.iter().find(|family| family.name == "loadline_actions_performed_total").map(|family| family.kind.as_str()), Some("counter"));
    service.store.remove("orders");
    assert!(!scrape(&service).await.contains("actions_performed_total"));
}

#[test]
fn the_families_keep_their_names() {
    let names = metrics::names().join("\n");
    let expected = "loadline_recommended_replicas loadline_advice_valid loadline_outcome loadline_current_replicas loadline_wanted_replicas loadline_min_replicas \
        loadline_max_replicas loadline_active loadline_backlog_records loadline_lag_seconds loadline_arrival_rate_per_second loadline_capacity_per_replica_per_second \
        loadline_utilization_ratio loadline_advice_timestamp_seconds loadline_reading_timestamp_seconds loadline_reason loadline_limit \
        loadline_part_recommended_parallelism loadline_part_current_parallelism loadline_part_overflow loadline_pending_actions loadline_draining_workers \
        loadline_consumer_expected_replicas loadline_consumer_last_read_timestamp_seconds loadline_source_up loadline_performing loadline_source_calls_per_reading loadline_source_shared_calls_per_reading \
        loadline_actions_performed_total loadline_entry_targets loadline_entry_left_out loadline_entry_up";
    assert_eq!(names.lines().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
}

/// Prometheus' own opinion, where its tool is at hand.
fn check_with_promtool(text: &str) {
    use std::io::Write;
    let Ok(mut tool) = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() else {
        return;
    };
    tool.stdin.take().expect("an input").write_all(text.as_bytes()).expect("written");
    let output = tool.wait_with_output().expect("an end");
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
