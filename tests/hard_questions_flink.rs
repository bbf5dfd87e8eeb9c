//! Questions about Flink jobs that have once been answered wrongly, or that are easily answered so.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use loadline::core::advice::{Advice, Outcome};
use loadline::core::request::parse;
use loadline::core::units::Timestamp;
use serde_json::{Value, json};

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_796_032_800 + seconds).expect("a time")
}

fn ask(seconds: i64, mut body: Value) -> Advice {
    body["kind"] = "flinkJob".into();
    body["now"] = time(seconds).to_string().into();
    let request = parse(&serde_json::to_vec(&body).expect("a body"), time(seconds));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

fn codes(advice: &Advice) -> Vec<&'static str> {
    advice.reasons.iter().map(|reason| reason.code().name()).chain(advice.limits.iter().map(|limit| limit.code.name())).collect()
}

/// A job of one source at parallelism 4 that reads 1000 records per second.
fn job(seconds: i64, busy: f64, more: &Value) -> Value {
    let mut source = json!({ "id": "source", "name": "Source: orders", "parallelism": 4, "maxParallelism": 128, "inputs": [],
        "busyRatio": { "max": busy, "avg": busy }, "recordsInPerSecond": 1000, "recordsOutPerSecond": 1000, "pendingRecords": 0 });
    source.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    json!({ "observedAt": time(seconds).to_string(), "state": "RUNNING", "vertices": [source], "slotsPerTaskManager": 1, "taskManagers": 4 })
}

#[test]
fn a_job_that_was_well_placed_a_moment_ago_is_lowered_after_the_window_only() {
    let mut memory = Value::Null;
    let mut lowered_at = None;
    for minute in 0..180 {
        let busy = if minute < 90 { 0.6 } else { 0.05 };
        let advice = ask(60 * minute, json!({ "snapshot": job(60 * minute, busy, &json!({})), "memory": memory }));
        memory = serde_json::to_value(&advice.memory).expect("a memory");
        if advice.recommended < Some(4) {
            lowered_at = Some(minute);
            break;
        }
    }
    let lowered_at = lowered_at.expect("it is lowered at last");
    assert!((149..=152).contains(&lowered_at), "an hour after minute 89, not at minute {lowered_at}");
}

#[test]
fn a_scheduled_floor_lifts_the_task_managers() {
    let floor = json!({ "min": 6, "period": "Mon-Sun 00:00-23:59" });
    let advice = ask(0, json!({ "snapshot": job(0, 0.6, &json!({})), "policy": { "floors": [floor] } }));
    assert_eq!(advice.recommended, Some(6), "{:?}", codes(&advice));
    assert!(codes(&advice).contains(&"ScheduledFloor"));
}

#[test]
fn nothing_is_lowered_on_busy_time_alone() {
    let advice = ask(0, json!({ "snapshot": job(0, 0.1, &json!({ "pendingRecords": null })) }));
    assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold), "{:?}", codes(&advice));
    assert!(codes(&advice).contains(&"DemandUnknown"));
    assert!(ask(0, json!({ "snapshot": job(0, 0.1, &json!({})) })).recommended < Some(4), "with a known backlog of zero it is");
}

#[test]
fn zeros_of_an_incomplete_reading_are_none() {
    let missing = json!({ "recordsComplete": false, "recordsInPerSecond": 0, "recordsOutPerSecond": 0 });
    let history: Vec<Value> = (1..20).map(|n| job(-30 * (20 - n), 0.35, &missing)).collect();
    let advice = ask(0, json!({ "snapshot": job(0, 0.65, &json!({})), "history": history }));
    let figures = advice.parts[0].vertex.as_ref().expect("figures");
    assert_eq!(figures.target_per_second, Some(1000.0), "nineteen zeros that are none");
    assert!(advice.recommended >= Some(4));
    let blind = ask(0, json!({ "snapshot": job(0, 0.95, &missing) }));
    assert_eq!((blind.recommended, blind.active), (Some(4), None), "{:?}", codes(&blind));
}

#[test]
fn a_job_inside_its_band_keeps() {
    let advice = ask(0, json!({ "snapshot": job(0, 0.7, &json!({})) }));
    assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Keep), "wanted {:?}: {:?}", advice.wanted, codes(&advice));
}

#[test]
fn a_paused_job_stays_whatever_its_bounds_say() {
    let advice = ask(0, json!({ "snapshot": job(0, 0.6, &json!({})), "policy": { "min": 6, "paused": true } }));
    assert_eq!((advice.recommended, advice.outcome == Outcome::Change), (Some(4), false), "{:?}", codes(&advice));
}

/// Enrich-like: one source at parallelism 1 that reads 2000/s of 6000/s and is busy all the time.
fn overloaded(seconds: i64, since: i64, busy: f64, records: i64) -> Value {
    let source = json!({ "id": "source", "name": "Source: orders", "parallelism": 1, "maxParallelism": 128, "inputs": [],
        "busyRatio": { "max": busy, "avg": busy }, "accumulatedBusySeconds": (seconds - since).max(0), "recordsIn": records, "recordsOut": records,
        "recordsInPerSecond": 300, "recordsOutPerSecond": 300, "pendingRecords": 4000 * (seconds - since) });
    json!({ "observedAt": time(seconds).to_string(), "state": "RUNNING", "runningSince": time(since).to_string(), "vertices": [source], "slotsPerTaskManager": 1 })
}

#[test]
fn nothing_is_decided_on_what_a_start_leaves_in_averages_and_first_readings() {
    // two minutes after its start, of which it settles for one: the gauge still climbs, and before it all were said to be busy or idle
    let policy = json!({ "window": "3m", "stabilizationAfterStart": "1m", "restart": "10s" });
    let history: Vec<Value> = (1..=5).map(|n| overloaded(10 * n, 0, f64::from(u8::from(n < 3)), 2000 * 10 * n)).collect();
    let early = ask(65, json!({ "snapshot": overloaded(65, 0, 1.0, 130_000), "history": history, "policy": policy }));
    assert_eq!((early.recommended, early.outcome), (Some(1), Outcome::Hold), "one settled reading tells no growth: {:?}", codes(&early));
    let mut history = history;
    history.extend((7..=12).map(|n| overloaded(10 * n, 0, 1.0, 20_000 * n)));
    let later = ask(130, json!({ "snapshot": overloaded(130, 0, 1.0, 260_000), "history": history, "policy": policy }));
    let figures = later.parts[0].vertex.as_ref().expect("figures");
    assert_eq!((figures.target_per_second, figures.capacity_per_second), (Some(6000.0), Some(2000.0)), "{:?}", codes(&later));
    assert_eq!(later.outcome, Outcome::Change);
}

#[test]
fn one_reading_that_is_told_twice_counts_once() {
    let policy = json!({ "window": "3m", "stabilizationAfterStart": "1m" });
    let mut history: Vec<Value> = (7..=13).map(|n| overloaded(10 * n, 0, 1.0, 20_000 * n)).collect();
    let once = ask(135, json!({ "snapshot": history[6], "history": history[..6], "policy": policy }));
    history.push(history[6].clone());
    let twice = ask(135, json!({ "snapshot": history[6], "history": history, "policy": policy }));
    assert_eq!(once.parts, twice.parts);
}

#[test]
fn a_vertex_near_its_limit_goes_along_with_a_rescale_that_another_one_needs() {
    let job = |first: f64, second: f64| {
        let vertex = |id: &str, busy: f64, inputs: Value| {
            json!({ "id": id, "name": id, "parallelism": 4, "maxParallelism": 128, "inputs": inputs, "busyRatio": { "max": busy, "avg": busy },
                "recordsInPerSecond": 1000, "recordsOutPerSecond": 1000, "pendingRecords": if id == "source" { json!(0) } else { Value::Null } })
        };
        let edge = json!([{ "from": "source", "shipStrategy": "REBALANCE" }]);
        let policy = json!({ "restart": "1s" });
        ask(
            0,
            json!({ "policy": policy, "snapshot": { "observedAt": time(0).to_string(), "state": "RUNNING", "slotsPerTaskManager": 1,
            "vertices": [vertex("source", first, json!([])), vertex("map", second, edge)] } }),
        )
    };
    let alone = job(0.95, 0.5);
    assert_eq!(alone.parts.iter().map(|part| part.recommended).collect::<Vec<_>>(), [Some(4), Some(4)], "no rescale for it alone: {:?}", codes(&alone));
    let joint = job(0.95, 1.0);
    assert_eq!(joint.parts.iter().map(|part| part.recommended).collect::<Vec<_>>(), [Some(6), Some(6)], "{:?}", codes(&joint));
    assert!(joint.parts[0].reasons.iter().any(|reason| reason.code().name() == "InsideBand"), "that it is inside its band is said");
}

#[test]
fn what_was_wanted_before_a_job_was_first_seen_is_not_known_and_lowers_nothing_within_the_stabilization() {
    // little to do from the first reading on: an advisor that has just been started knows nothing of the hour before
    let policy = json!({ "window": "5m" });
    let registered = json!({ "version": 1, "kind": "flinkJob", "since": time(0).to_string() });
    let (mut memory, mut history, mut lowered_at) = (registered, Vec::new(), None);
    for minute in 0..120 {
        let reading = job(60 * minute, 0.05, &json!({ "recordsIn": 60_000 * minute, "recordsOut": 60_000 * minute }));
        let body = json!({ "snapshot": reading, "history": history, "memory": memory, "policy": policy });
        let advice = ask(60 * minute, body);
        memory = serde_json::to_value(&advice.memory).expect("a memory");
        history.push(reading);
        history.drain(..history.len().saturating_sub(8));
        if advice.recommended < Some(4) {
            lowered_at = Some(minute);
            break;
        }
        if minute == 30 {
            assert!(codes(&advice).contains(&"WindowNotFull"), "{:?}", codes(&advice));
        }
    }
    assert!(lowered_at.is_some_and(|minute| (60..=62).contains(&minute)), "an hour after the first sight, not at minute {lowered_at:?}");
}
