//! What the default policy of `flinkJob` decides where Flink's own autoscaler errs, and beyond it.

#![expect(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::cast_precision_loss, reason = "a test fails by panicking")]

use loadline::core::advice::{ActionKind, Advice, Confidence, Outcome, Part};
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

fn with(mut value: Value, more: &Value) -> Value {
    value.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    value
}

/// A vertex of parallelism `p` that is `busy` and reads so many records per second; a source unless it has inputs.
fn vertex(id: &str, p: u64, busy: f64, rate: f64, more: &Value) -> Value {
    with(
        json!({ "id": id, "name": id, "parallelism": p, "maxParallelism": 720, "inputs": [], "busyRatio": { "max": busy, "avg": busy },
            "recordsInPerSecond": rate, "recordsOutPerSecond": rate }),
        more,
    )
}

fn source(p: u64, busy: f64, rate: f64, more: &Value) -> Value {
    with(vertex("source", p, busy, rate, &json!({ "pendingRecords": 0 })), more)
}

fn after(id: &str, p: u64, busy: f64, rate: f64, more: &Value) -> Value {
    with(vertex(id, p, busy, rate, &json!({ "inputs": [{ "from": "source", "shipStrategy": "REBALANCE" }] })), more)
}

fn job(vertices: &[Value], more: &Value) -> Value {
    with(json!({ "observedAt": time(0).to_string(), "state": "RUNNING", "runningSince": time(-86_400).to_string(), "vertices": vertices }), more)
}

fn judge(vertices: &[Value], more: &Value, policy: &Value) -> Advice {
    let policy = with(json!({ "scaleDown": { "stabilization": "0s" } }), policy);
    ask(0, json!({ "snapshot": job(vertices, more), "policy": policy }))
}

fn part<'a>(advice: &'a Advice, id: &str) -> &'a Part {
    advice.parts.iter().find(|part| part.id == id).expect(id)
}

fn parallelism(advice: &Advice, id: &str) -> u64 {
    part(advice, id).recommended.expect(id)
}

fn said(advice: &Advice) -> String {
    let reasons = advice.reasons.iter().map(|reason| format!("{}: {reason}", reason.code().name()));
    let limits = advice.parts.iter().flat_map(|part| &part.limits).chain(&advice.limits).map(|limit| format!("{}: {limit}", limit.code.name()));
    reasons.chain(limits).collect::<Vec<_>>().join("\n")
}

fn limits(part: &Part) -> Vec<&'static str> {
    part.limits.iter().map(|limit| limit.code.name()).collect()
}

#[test]
fn a_saturated_source_without_a_backlog_metric_is_raised_and_its_demand_called_unknown() {
    let advice = judge(&[source(4, 1.0, 1000.0, &json!({ "pendingRecords": null }))], &json!({}), &json!({}));
    assert!(parallelism(&advice, "source") > 4, "{}", said(&advice));
    assert!(said(&advice).contains("Saturated") && said(&advice).contains("no pendingRecords"), "{}", said(&advice));
}

#[test]
fn a_source_that_is_held_back_without_a_backlog_metric_is_said_to_be() {
    let held = json!({ "pendingRecords": null, "backPressuredRatio": { "max": 0.9, "avg": 0.9 } });
    let advice = judge(&[source(4, 0.1, 1000.0, &held)], &json!({}), &json!({}));
    assert_eq!((parallelism(&advice, "source"), advice.outcome), (4, Outcome::Hold));
    assert!(said(&advice).contains("held back (10 % busy, 90 % backpressured)"), "{}", said(&advice));
}

#[test]
fn a_vertex_that_is_busy_with_a_backlog_it_will_be_done_with_is_no_saturated_one() {
    // 1400/s can be done, 800/s arrive, and the rest of a short backlog is worked off
    let readings = |ago: i64| {
        let at = json!({ "observedAt": time(-ago).to_string() });
        let read = 1_000_000 - 1400 * ago;
        job(&[source(2, 1.0, 1400.0, &json!({ "recordsIn": read, "pendingRecords": 9000 + 600 * ago }))], &at)
    };
    let advice = ask(0, json!({ "snapshot": readings(0), "history": [readings(100), readings(50)], "policy": { "window": "100s" } }));
    assert_eq!((parallelism(&advice, "source"), advice.outcome), (2, Outcome::Keep), "{}", said(&advice));
}

#[test]
fn a_hot_subtask_is_no_reason_for_more_than_the_mean_load_asks_for() {
    let ask = |max: f64, mean: f64| {
        judge(
            &[source(1, 0.3, 1000.0, &json!({})), after("window", 8, max, 1000.0, &json!({ "busyRatio": { "max": max, "avg": mean } }))],
            &json!({}),
            &json!({}),
        )
    };
    let hot = ask(1.0, 0.2);
    assert_eq!(parallelism(&hot, "window"), 8, "{}", said(&hot));
    assert!(part(&hot, "window").wanted > Some(8), "the wish of the busiest subtask is shown");
    assert!(said(&hot).contains("the busiest subtask of window is 100 % busy, the mean 20 %"), "{}", said(&hot));
    assert!(hot.actions.iter().any(|action| action.action == ActionKind::Investigate && action.message.contains("window")));
    assert!(limits(part(&hot, "window")).contains(&"SubtaskSkew"));
    // the mean is busy as well: to what it needs, and no further
    let warm = ask(1.0, 0.49);
    assert_eq!(parallelism(&warm, "window"), 8, "1.6 x 8 x 0.49 is 6.3: {}", said(&warm));
    let even = ask(1.0, 0.8);
    assert_eq!(parallelism(&even, "window"), 13, "{}", said(&even));
    assert!(!said(&even).contains("SubtaskSkew"));
}

#[test]
fn jitter_moves_nothing_within_the_hysteresis() {
    let counts = |hysteresis: f64| {
        let mut current = 10;
        let mut seen = vec![current];
        for step in 0_i64..40 {
            // 1000/s at 70/s a subtask, measured 2 % too high or too low: just above and just below ten
            let busy = 1000.0 / (99.5 * current as f64 * 1.43) * if step % 2 == 0 { 1.02 } else { 0.98 };
            let snapshot = with(
                job(&[vertex("v", current, busy, 1000.0, &json!({ "pendingRecords": 0 }))], &json!({})),
                &json!({ "observedAt": time(60 * step).to_string() }),
            );
            let policy = json!({ "targetUtilization": 0.7, "utilizationMin": 0.7, "utilizationMax": 0.7, "restart": "0s", "trackRestart": false, "hysteresisRatio": hysteresis, "scaleDown": { "stabilization": "0s" } });
            current = parallelism(&ask(60 * step, json!({ "snapshot": snapshot, "policy": policy })), "v");
            if seen.last() != Some(&current) {
                seen.push(current);
            }
        }
        seen
    };
    assert!(counts(0.0).len() > 10, "a band without width flips: {:?}", counts(0.0));
    assert!(counts(0.1).len() <= 2, "{:?}", counts(0.1));
}

#[test]
fn a_rescale_tells_its_price_in_seconds_and_records() {
    let busy = [source(4, 0.4, 1000.0, &json!({ "pendingRecords": 3000 })), after("window", 4, 1.0, 1000.0, &json!({}))];
    let advice = judge(&busy, &json!({}), &json!({ "restart": "60s" }));
    assert!(parallelism(&advice, "window") > 4);
    assert!(said(&advice).contains("RescalePrice: the rescale stops the job for 1m, and 60000 records wait for it"), "{}", said(&advice));
    assert!(said(&advice).contains("never without"), "at full capacity the backlog is never gone: {}", said(&advice));
    assert_eq!((advice.forecast.catches_up_now, advice.forecast.catches_up_recommended), (Some(false), Some(true)));
}

#[test]
fn a_cut_that_frees_no_slot_or_pays_back_too_late_is_not_worth_a_stop() {
    // the window needs its twenty slots, and the source shares them
    let default = json!({ "slotSharingGroup": "default" });
    let shared = judge(&[source(20, 0.05, 1000.0, &default), after("window", 20, 0.65, 1000.0, &default)], &json!({}), &json!({}));
    assert_eq!((parallelism(&shared, "source"), shared.outcome), (20, Outcome::Hold), "{}", said(&shared));
    assert!(said(&shared).contains("free 0 of 20 slots: that pays back never"), "{}", said(&shared));
    assert!(limits(part(&shared, "source")).contains(&"ChangeNotWorthwhile"));
    let of_its_own =
        judge(&[source(20, 0.05, 1000.0, &json!({ "slotSharingGroup": "sources" })), after("window", 20, 0.65, 1000.0, &json!({}))], &json!({}), &json!({}));
    assert!(parallelism(&of_its_own, "source") < 20, "its own slots are freed: {}", said(&of_its_own));
    let unknown = judge(&[source(20, 0.05, 1000.0, &json!({})), after("window", 20, 0.65, 1000.0, &json!({}))], &json!({}), &json!({}));
    assert!(parallelism(&unknown, "source") < 20, "who shares slots is not known: {}", said(&unknown));
    // one of twenty slots, and a stop of five minutes: an hour and a half to pay back
    let small = json!({ "scaleDown": { "stabilization": "0s", "maxStep": 1 } });
    let advice = judge(&[source(20, 0.2, 1000.0, &json!({}))], &json!({}), &small);
    assert_eq!((parallelism(&advice, "source"), advice.outcome), (20, Outcome::Hold), "{}", said(&advice));
    assert!(said(&advice).contains("pays back in 1h 35m"), "{}", said(&advice));
    let brief = judge(&[source(20, 0.2, 1000.0, &json!({}))], &json!({}), &with(small, &json!({ "restart": "30s" })));
    assert_eq!(parallelism(&brief, "source"), 19, "{}", said(&brief));
}

#[test]
fn a_raise_with_which_the_backlog_is_gone_later_is_not_made() {
    // 1500/s can be done and 1000/s arrive: 16 minutes of backlog are gone in 32, two more than wanted
    let backlog = json!({ "pendingRecords": 960_000, "partitions": 5 });
    let advice = judge(&[source(4, 1000.0 / 1500.0, 1000.0, &backlog)], &json!({}), &json!({ "restart": "14m" }));
    assert_eq!((parallelism(&advice, "source"), advice.outcome), (4, Outcome::Hold), "{}", said(&advice));
    assert!(said(&advice).contains("gone in 32m as it is"), "{}", said(&advice));
    let brief = judge(&[source(4, 1000.0 / 1500.0, 1000.0, &backlog)], &json!({}), &json!({ "restart": "10s" }));
    assert_eq!(parallelism(&brief, "source"), 5, "{}", said(&brief));
}

#[test]
fn a_raise_that_is_needed_is_made_whatever_it_costs() {
    let advice = judge(&[source(4, 1.0, 1000.0, &json!({ "pendingRecords": 100_000 }))], &json!({}), &json!({ "restart": "29m" }));
    assert!(parallelism(&advice, "source") > 4, "{}", said(&advice));
}

#[test]
fn what_a_vertex_cannot_take_is_not_prepared_for_upstream() {
    let backlog = json!({ "pendingRecords": 1_000_000, "partitions": 64 });
    let vertices = [source(4, 1.0, 1000.0, &backlog), after("sink", 2, 1.0, 1000.0, &json!({}))];
    let free = judge(&vertices, &json!({}), &json!({}));
    let bound = judge(&vertices, &json!({}), &json!({ "vertexLimits": { "sink": { "max": 2 } } }));
    assert!(parallelism(&free, "source") > parallelism(&bound, "source"), "{} and {}", said(&free), said(&bound));
    assert_eq!(part(&free, "source").wanted, part(&bound, "source").wanted, "the wish is the same");
    assert!(limits(part(&bound, "source")).contains(&"DownstreamLimit"), "{}", said(&bound));
    let named = bound.reasons.iter().filter(|reason| reason.code().name() == "DownstreamLimit").count();
    assert_eq!(named, 1, "named once");
    assert!(said(&bound).contains("sink takes at most 1000/s") && said(&bound).contains("to lift that, raise its upper bound"), "{}", said(&bound));
    for (more, lift) in [(json!({ "excludeVertices": ["sink"] }), "excludeVertices"), (json!({ "quota": { "slots": 4 } }), "raise the quota")] {
        let advice = judge(&vertices, &json!({}), &more);
        assert!(said(&advice).contains(lift), "{more}: {}", said(&advice));
    }
}

#[test]
fn a_raise_uses_up_the_last_task_manager_where_that_makes_the_busiest_subtask_lighter() {
    let vertices = [source(2, 0.3, 1000.0, &json!({})), after("map", 4, 1.0, 1000.0, &json!({}))];
    let plain = judge(&vertices, &json!({}), &json!({}));
    let filled = judge(&vertices, &json!({ "slotsPerTaskManager": 4, "taskManagers": 1 }), &json!({}));
    assert_eq!((parallelism(&plain, "map"), parallelism(&filled, "map"), filled.recommended), (7, 8, Some(2)), "{}", said(&filled));
    assert!(limits(part(&filled, "map")).contains(&"TaskManagerSlots"), "{}", said(&filled));
    // five would be eight at a load so low that it would be lowered again
    let low = judge(
        &[source(2, 0.3, 1000.0, &json!({})), after("map", 3, 1.0, 1000.0, &json!({}))],
        &json!({ "slotsPerTaskManager": 16, "taskManagers": 1 }),
        &json!({}),
    );
    assert!(parallelism(&low, "map") <= 8, "{}", said(&low));
    let bound = judge(&vertices, &json!({ "slotsPerTaskManager": 4, "taskManagers": 1, "schedulableSlots": 7 }), &json!({}));
    assert_eq!(parallelism(&bound, "map"), 7, "{}", said(&bound));
}

#[test]
fn an_objective_shorter_than_the_restart_cannot_be_met_and_what_would_do_is_told() {
    let advice = judge(&[source(4, 1.0, 1000.0, &json!({ "pendingRecords": 30_000 }))], &json!({}), &json!({ "catchUpWithin": "2m", "restart": "3m" }));
    assert!(said(&advice).contains("ObjectiveUnreachable: no count meets the objective of 2m") && said(&advice).contains("6m can be met"), "{}", said(&advice));
    assert!((5..=12).contains(&parallelism(&advice, "source")), "raised all the same, and not to the sky: {}", said(&advice));
}

#[test]
fn an_upper_bound_below_the_present_task_managers_lowers_the_vertices_too() {
    let vertices = [source(8, 0.7, 1000.0, &json!({})), after("map", 4, 0.7, 1000.0, &json!({}))];
    let advice = judge(&vertices, &json!({ "slotsPerTaskManager": 2, "taskManagers": 4 }), &json!({ "max": 3 }));
    assert_eq!((advice.recommended, parallelism(&advice, "source"), parallelism(&advice, "map")), (Some(3), 6, 4), "{}", said(&advice));
    assert!(limits(part(&advice, "source")).contains(&"MaxReplicas"));
}

#[test]
fn the_largest_step_is_counted_in_task_managers() {
    let job = json!({ "slotsPerTaskManager": 4, "taskManagers": 1 });
    let up = judge(&[source(4, 1.0, 1000.0, &json!({ "pendingRecords": 5_000_000 }))], &job, &json!({ "scaleUp": { "maxStep": 1 } }));
    assert_eq!((up.recommended, parallelism(&up, "source")), (Some(2), 8), "{}", said(&up));
    let job = json!({ "slotsPerTaskManager": 4, "taskManagers": 5 });
    let down = judge(&[source(20, 0.1, 1000.0, &json!({}))], &job, &json!({ "scaleDown": { "stabilization": "0s", "maxStep": 1 }, "restart": "10s" }));
    assert_eq!(down.recommended, Some(4), "{}", said(&down));
    assert!(parallelism(&down, "source") > 12, "{}", said(&down));
}

#[test]
fn a_quota_that_cannot_be_held_to_is_said() {
    let vertices = [source(4, 0.6, 1000.0, &json!({}))];
    let unknown = judge(&vertices, &json!({ "slotsPerTaskManager": 4 }), &json!({ "quota": { "cpu": 8 } }));
    assert!(said(&unknown).contains("taskManagerCpu, without which quota.cpu bounds nothing"), "{}", said(&unknown));
    let known = judge(&vertices, &json!({ "slotsPerTaskManager": 4, "taskManagerCpu": 4 }), &json!({ "quota": { "cpu": 8 } }));
    assert!(!said(&known).contains("quota") && known.confidence >= unknown.confidence);
}

#[test]
fn nothing_is_called_inside_its_band_that_is_not() {
    let unknown = judge(&[source(4, 0.5, 1000.0, &json!({ "busyRatio": null }))], &json!({}), &json!({}));
    assert!(!said(&unknown).contains("inside") && said(&unknown).contains("CapacityUnknown"), "{}", said(&unknown));
    let bound = judge(&[source(4, 1.0, 1000.0, &json!({ "pendingRecords": 900_000 }))], &json!({}), &json!({ "vertexLimits": { "source": { "max": 4 } } }));
    assert!(!said(&bound).contains("inside") && said(&bound).contains("BacklogCatchUp"), "{}", said(&bound));
    let one = judge(&[source(4, 0.6, 1000.0, &json!({}))], &json!({}), &json!({}));
    assert!(said(&one).contains("the one vertex is inside"), "{}", said(&one));
}

#[test]
fn an_unknown_state_lowers_nothing_and_the_confidence() {
    let idle = [source(8, 0.1, 1000.0, &json!({}))];
    let unknown = judge(&idle, &json!({ "state": null }), &json!({}));
    assert_eq!((parallelism(&unknown, "source"), unknown.outcome), (8, Outcome::Hold), "{}", said(&unknown));
    assert!(said(&unknown).contains("missing state"), "{}", said(&unknown));
    let known = judge(&idle, &json!({}), &json!({}));
    assert!(parallelism(&known, "source") < 8 && known.confidence > unknown.confidence);
    let tasks = judge(&idle, &json!({ "state": null, "tasks": { "total": 8, "running": 8 } }), &json!({}));
    assert!(parallelism(&tasks, "source") < 8, "all of its tasks run: {}", said(&tasks));
    let busy = judge(&[source(8, 1.0, 1000.0, &json!({}))], &json!({ "state": null }), &json!({}));
    assert!(parallelism(&busy, "source") > 8, "what is known may raise: {}", said(&busy));
}

#[test]
fn memory_pressure_speaks_of_what_is_known() {
    let vertices = [source(8, 1.0, 1000.0, &json!({}))];
    for (memory, text) in [
        (json!({ "gcTimeRatio": 0.5 }), "garbage collection takes 50 % of the time (limit 30 %)"),
        (json!({ "heapUsedRatio": 0.95 }), "95 % of the heap is used (limit 90 %)"),
        (json!({ "gcTimeRatio": 0.5, "heapUsedRatio": 0.95 }), "takes 50 % of the time and 95 % of the heap"),
    ] {
        let advice = judge(&vertices, &json!({ "memory": memory }), &json!({ "memoryPressure": { "heapUsedRatio": 0.9 } }));
        assert!(said(&advice).contains(text) && !said(&advice).contains("unknown"), "{}", said(&advice));
        assert_eq!((parallelism(&advice, "source"), advice.outcome), (8, Outcome::Hold));
        assert!(advice.actions.iter().any(|action| action.action == ActionKind::AddMemory));
    }
}

#[test]
fn without_memory_the_history_tells_what_was_wanted_within_the_window() {
    let reading = |minutes_ago: i64, busy: f64| {
        with(job(&[source(20, busy, 1000.0, &json!({}))], &json!({})), &json!({ "observedAt": time(-60 * minutes_ago).to_string() }))
    };
    let ask_with = |busy: &dyn Fn(i64) -> f64| {
        let history: Vec<Value> = (1..=30).rev().map(|minutes| reading(minutes, busy(minutes))).collect();
        ask(
            0,
            json!({ "snapshot": reading(0, 0.1), "history": history, "policy": { "window": "5m", "scaleDown": { "stabilization": "30m" }, "restart": "30s" } }),
        )
    };
    let quiet = ask_with(&|_| 0.1);
    assert!(parallelism(&quiet, "source") < 20, "{}", said(&quiet));
    let just_now = ask_with(&|minutes| if minutes > 15 { 0.7 } else { 0.1 });
    assert_eq!((parallelism(&just_now, "source"), just_now.outcome), (20, Outcome::Hold), "{}", said(&just_now));
    assert!(said(&just_now).contains("ScaleDownStabilized"), "{}", said(&just_now));
}

#[test]
fn a_declared_rate_stands_for_the_arrival_wherever_a_source_reports_no_backlog() {
    let silent = json!({ "pendingRecords": null });
    let declared = judge(&[source(4, 0.6, 1000.0, &silent)], &json!({}), &json!({ "sourceRates": { "source": 2000 } }));
    assert_eq!(part(&declared, "source").vertex.and_then(|figures| figures.target_per_second), Some(2000.0));
    assert!(parallelism(&declared, "source") > 4, "{}", said(&declared));
    let reported = judge(&[source(4, 0.6, 1000.0, &json!({}))], &json!({}), &json!({ "sourceRates": { "source": 2000 } }));
    assert_eq!(part(&reported, "source").vertex.and_then(|figures| figures.target_per_second), Some(1000.0), "what is measured wins");
    let idle = judge(&[source(8, 0.1, 1000.0, &silent)], &json!({}), &json!({ "sourceRates": { "source": 1000 } }));
    assert!(parallelism(&idle, "source") < 8, "a declared demand may lower: {}", said(&idle));
}

#[test]
fn fields_that_mean_nothing_for_a_job_are_refused_and_say_what_would_do() {
    for (field, value, instead) in [
        ("maxLagSeconds", json!(60), "catchUpWithin"),
        ("perReplicaBacklog", json!(100), "catchUpWithin"),
        ("perReplicaPerSecond", json!(100), "measured"),
        ("noData", json!(0), "missingBacklogIsZero"),
        ("threadsPerReplica", json!(2), "slotsPerTaskManager"),
        ("startup", json!("1m"), "restart"),
        ("pause", json!("10s"), "restart"),
        ("idleBeforeZero", json!("5m"), "never goes to zero"),
    ] {
        let body = json!({ "kind": "flinkJob", "snapshot": job(&[source(4, 0.6, 1000.0, &json!({}))], &json!({})), "policy": { field: value } });
        let refusal = format!("{:?}", parse(&serde_json::to_vec(&body).expect("a body"), time(0)).expect_err(field));
        assert!(refusal.contains(field) && refusal.contains(instead), "{refusal}");
    }
}

#[test]
fn more_than_can_arrive_is_not_believed() {
    let advice = judge(&[source(4, 1.0, 90_000.0, &json!({}))], &json!({}), &json!({ "maxArrivalPerSecond": 5000 }));
    assert_eq!((parallelism(&advice, "source"), advice.outcome), (4, Outcome::Hold));
    assert!(said(&advice).contains("ImplausibleReading"), "{}", said(&advice));
}

#[test]
fn without_an_even_distribution_the_wish_stays_as_it_is() {
    let map = after("map", 30, 1.0, 1000.0, &json!({ "maxParallelism": 128, "inputs": [{ "from": "source", "shipStrategy": "HASH" }] }));
    let vertices = [source(1, 0.3, 1000.0, &json!({})), map];
    let (even, plain) = (judge(&vertices, &json!({}), &json!({})), judge(&vertices, &json!({}), &json!({ "evenDistribution": false })));
    assert_ne!(limits(part(&even, "map")), Vec::<&str>::new(), "{}", said(&even));
    assert_eq!(limits(part(&plain, "map")), Vec::<&str>::new());
    assert_eq!(part(&plain, "map").recommended, part(&plain, "map").wanted);
}

#[test]
fn after_a_raise_of_ours_the_next_waits_for_readings_of_its_own() {
    let policy = json!({ "window": "90s", "stabilizationAfterStart": "20s", "restart": "10s" });
    let at = |seconds: i64, p: u64, since: i64| {
        let start = json!({ "observedAt": time(seconds).to_string(), "runningSince": time(since).to_string() });
        job(&[source(p, 1.0, 1000.0, &json!({ "pendingRecords": 900_000 }))], &start)
    };
    let first = ask(0, json!({ "snapshot": at(0, 2, -3600), "policy": policy }));
    let raised = parallelism(&first, "source");
    assert!(raised > 2);
    let early = ask(60, json!({ "snapshot": at(60, raised, 20), "policy": policy, "memory": first.memory }));
    assert_eq!((parallelism(&early, "source"), early.outcome), (raised, Outcome::Hold), "{}", said(&early));
    let later = ask(200, json!({ "snapshot": at(200, raised, 20), "policy": policy, "memory": early.memory }));
    assert!(parallelism(&later, "source") > raised, "{}", said(&later));
}

#[test]
fn what_a_vertex_has_shown_at_other_counts_sizes_the_next_change() {
    // 1000/s at 2 subtasks and 1500/s at 4: eight would do less than twice that
    let reading = |seconds: i64, p: u64, rate: f64| {
        with(
            job(&[source(p, 1.0, rate, &json!({ "pendingRecords": 90_000 }))], &json!({ "runningSince": time(seconds - 4000).to_string() })),
            &json!({ "observedAt": time(seconds).to_string() }),
        )
    };
    let policy = json!({ "restart": "10s", "alignment": "off", "window": "5m", "scaleDown": { "stabilization": "0s" } });
    let mut memory = Value::Null;
    for seconds in [0, 100, 200, 300, 400, 500] {
        let advice = ask(seconds, json!({ "snapshot": reading(seconds, 2, 1000.0), "policy": policy, "memory": memory }));
        memory = serde_json::to_value(&advice.memory).expect("a memory");
    }
    assert_eq!(memory["parts"]["source"]["capacities"][0]["parallelism"], json!(2), "{memory:#}");
    let mut idle = reading(600, 4, 600.0);
    idle["vertices"][0]["busyRatio"] = json!({ "max": 0.32, "avg": 0.32 });
    idle["vertices"][0]["pendingRecords"] = json!(0);
    let with_memory = ask(600, json!({ "snapshot": idle, "policy": policy, "memory": memory }));
    let without = ask(600, json!({ "snapshot": idle, "policy": policy }));
    // in proportion to 1875/s at four, two would do 938/s; they have done 1000/s
    assert_eq!(parallelism(&with_memory, "source"), 2, "{}", said(&with_memory));
    assert!(said(&with_memory).contains("LearnedScaling"), "{}", said(&with_memory));
    assert!(!said(&without).contains("LearnedScaling"));
}

#[test]
fn a_vertex_busier_than_its_target_is_not_lowered_whatever_its_edges_say() {
    // the source will be asked for a tenth of what it reads now
    let vertices = [source(4, 0.5, 1000.0, &json!({ "pendingRecords": null })), after("map", 8, 0.8, 1000.0, &json!({}))];
    let advice = judge(&vertices, &json!({}), &json!({ "sourceRates": { "source": 100 } }));
    assert_eq!(parallelism(&advice, "map"), 8, "{}", said(&advice));
    assert!(said(&advice).contains("map is 80 % busy at parallelism 8, above the 70 %") && !said(&advice).contains("saturated"), "{}", said(&advice));
    assert!(limits(part(&advice, "map")).contains(&"BusyRatioLimit"));
}

#[test]
fn tasks_are_counted_in_words_that_fit() {
    let advice = judge(&[source(1, 0.6, 1000.0, &json!({}))], &json!({ "tasks": { "total": 1, "running": 0 } }), &json!({}));
    assert!(said(&advice).contains("0 of 1 task run"), "{}", said(&advice));
}

#[test]
fn a_one_shot_question_is_at_most_of_medium_confidence() {
    assert!(judge(&[source(4, 0.6, 1000.0, &json!({}))], &json!({}), &json!({})).confidence <= Confidence::Medium);
}
