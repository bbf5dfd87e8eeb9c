//! Questions that have once been answered wrongly, or that are easily answered so: each in the form in which it is asked.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use loadline::core::advice::{Advice, Outcome};
use loadline::core::request::{Refusal, parse};
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

fn ask(mut body: Value) -> Advice {
    let members = body.as_object_mut().expect("an object");
    members.entry("now").or_insert_with(|| NOW.into());
    let request = parse(&serde_json::to_vec(&body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

fn codes(advice: &Advice) -> Vec<&'static str> {
    advice.reasons.iter().map(|reason| reason.code().name()).chain(advice.limits.iter().map(|limit| limit.code.name())).collect()
}

fn worker(ordinal: u32, category: &str, capacity: u32, used: u32) -> Value {
    json!({ "host": format!("mm-{category}-{ordinal}.mm:8091"), "category": category, "capacity": capacity, "used": used, "enabled": true,
        "tasks": (0..used).map(|task| json!({ "id": format!("t-{category}-{ordinal}-{task}") })).collect::<Vec<_>>() })
}

fn druid(replicas: Value, workers: Vec<Value>, pending: Value, policy: Value) -> Advice {
    ask(json!({ "kind": "druidWorkers", "replicas": replicas, "snapshot": { "observedAt": NOW, "workers": workers, "pending": pending }, "policy": policy }))
}

#[test]
fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
    for (body, path) in [
        (r#"{"kind":"backlog","snapshot":{"backlog":50},"policy":{"max":3,"max":3,"paused":true}}"#, "policy"),
        (r#"{"kind":"backlog","replicas":{"spec":2,"spec":3},"snapshot":{"backlog":50}}"#, "replicas"),
        (r#"{"kind":"backlog","snapshot":{"backlog":50,"backlog":0}}"#, "snapshot"),
    ] {
        let Err(Refusal::Invalid(problems)) = parse(body.as_bytes(), NOW.parse().expect("a time")) else { panic!("{body} was judged") };
        assert_eq!(problems[0].path, path);
        assert!(problems[0].message.contains("duplicate field"), "{}", problems[0].message);
    }
}

#[test]
fn a_paused_target_stays_whatever_its_bounds_and_fallbacks_say() {
    for (spec, policy) in [(2, json!({ "min": 5 })), (9, json!({ "max": 5 })), (2, json!({ "onUnknown": { "fallback": 10, "afterFailures": 1 } }))] {
        let mut policy = policy;
        policy["paused"] = true.into();
        policy["perReplicaBacklog"] = 1.into();
        for snapshot in [json!({ "observedAt": NOW, "backlog": 50 }), Value::Null] {
            let advice = ask(json!({ "kind": "backlog", "replicas": { "spec": spec }, "snapshot": snapshot, "policy": policy }));
            assert_eq!((advice.recommended, advice.actions.len()), (Some(spec), 0), "{:?}", codes(&advice));
            assert_eq!(codes(&advice)[0], "Paused");
        }
    }
}

#[test]
fn a_search_for_a_reachable_count_ends_at_once() {
    let advice = ask(json!({ "kind": "backlog", "replicas": { "spec": 10 }, "snapshot": { "observedAt": NOW, "backlog": 11 },
        "policy": { "perReplicaBacklog": 1, "max": 2_147_483_647_u32, "consumer": { "kind": "hpa", "max": 5, "roundToReachable": true } } }));
    assert_eq!(advice.consumer.expect("a view").will_hold, 5);
}

#[test]
fn values_of_replicas_do_not_stand_for_the_backlog() {
    let advice = ask(json!({ "kind": "backlog", "replicas": { "spec": 5 }, "policy": { "perReplicaPerSecond": 10 },
        "snapshot": { "observedAt": NOW, "backlog": 100_000, "perReplica": [0, 0, 0, 0, 0], "arrivalPerSecond": 0, "servedPerSecond": 50 } }));
    assert!(advice.recommended > Some(5) && advice.active == Some(true), "{:?}", codes(&advice));
}

#[test]
fn work_that_waits_starts_one_and_little_work_starts_none() {
    let from_zero =
        |policy: Value| ask(json!({ "kind": "backlog", "replicas": { "spec": 0 }, "snapshot": { "observedAt": NOW, "backlog": 10 }, "policy": policy }));
    assert_eq!(from_zero(json!({ "min": 0 })).recommended, Some(1), "no rate is known, and something waits");
    let little = from_zero(json!({ "min": 0, "perReplicaBacklog": 1, "activationBacklog": 10 }));
    assert_eq!((little.recommended, little.active), (Some(0), Some(false)), "ten are not above ten");
    assert_eq!(from_zero(json!({ "min": 0, "perReplicaBacklog": 1, "activationBacklog": 9 })).recommended, Some(10));
}

#[test]
fn a_counter_that_started_anew_lowers_nothing() {
    let advice = ask(json!({ "kind": "backlog", "replicas": { "spec": 8 }, "policy": { "scaleDown": { "stabilization": "0s" } },
        "history": [{ "observedAt": "2026-11-30T09:59:30Z", "backlog": 10, "servedPerSecond": 50, "busyRatio": 0.5, "arrivedTotal": 1_000_000 }],
        "snapshot": { "observedAt": NOW, "backlog": 10, "servedPerSecond": 50, "busyRatio": 0.5, "arrivedTotal": 100 } }));
    assert_eq!((advice.recommended, advice.outcome), (Some(8), Outcome::Hold), "{:?}", codes(&advice));
    assert!(codes(&advice).contains(&"CounterReset"));
}

#[test]
fn one_reading_after_an_outage_lowers_nothing() {
    let history: Vec<Value> = (0..20).map(|n| json!({ "observedAt": format!("2026-11-30T09:{:02}:30Z", 30 + n), "backlog": 100 })).collect();
    let question = |history: &[Value], memory: Value| {
        ask(json!({ "kind": "backlog", "replicas": { "spec": 10 }, "history": history, "memory": memory,
            "snapshot": { "observedAt": NOW, "backlog": 20 }, "policy": { "perReplicaBacklog": 10, "scaleDown": { "stabilization": "5m" } } }))
    };
    let posted = question(&history, Value::Null);
    assert_eq!(posted.recommended, Some(10), "{:?}", codes(&posted));
    assert!(codes(&posted).contains(&"WindowNotFull"));
    let known = json!({ "version": 1, "kind": "backlog", "since": "2026-11-30T08:00:00Z", "lastCompleteAt": "2026-11-30T09:50:00Z", "failures": 19 });
    let remembered = question(&[], known);
    assert_eq!(remembered.recommended, Some(10), "{:?}", codes(&remembered));
    // the window starts anew, and the next reading does not take it for full
    assert_eq!(remembered.memory.unbroken_since, Some(NOW.parse().expect("a time")));
}

#[test]
fn a_memory_without_wishes_does_not_hide_the_history() {
    let history: Vec<Value> = (0..11).map(|n| json!({ "observedAt": format!("2026-11-30T09:{:02}:30Z", 49 + n), "backlog": 100 })).collect();
    let advice = ask(json!({ "kind": "backlog", "replicas": { "spec": 10 }, "history": history,
        "memory": { "version": 1, "kind": "backlog", "since": "2026-11-30T08:00:00Z" }, "snapshot": { "observedAt": NOW, "backlog": 20 },
        "policy": { "perReplicaBacklog": 10, "scaleDown": { "stabilization": "5m" } } }));
    assert_eq!(advice.recommended, Some(10), "{:?}", codes(&advice));
    assert!(codes(&advice).contains(&"Stabilizing"));
}

#[test]
fn a_memory_that_no_decision_can_have_left_is_refused() {
    for memory in [json!({ "restartSeconds": -1e6 }), json!({ "lastCompleteAt": "2027-03-26T00:00:00Z" })] {
        let mut memory = memory;
        memory["version"] = 1.into();
        memory["kind"] = "flinkJob".into();
        memory["since"] = "2026-11-30T08:00:00Z".into();
        let body = json!({ "kind": "flinkJob", "memory": memory });
        let refused = parse(&serde_json::to_vec(&body).expect("a body"), NOW.parse().expect("a time"));
        assert!(matches!(refused, Err(Refusal::Invalid(_))), "{body}");
    }
}

#[test]
fn several_pools_stay_within_the_counts_of_the_target() {
    let both = |workers: u32, used: u32| ["s", "b"].iter().flat_map(|category| (0..workers).map(|n| worker(n, category, 4, used))).collect::<Vec<_>>();
    // half of the pool is missing from the list
    let lost = druid(json!({ "spec": 20, "ready": 20 }), both(6, 1), json!({ "count": 3 }), json!({ "max": 40 }));
    assert_eq!((lost.current, lost.recommended), (Some(20), Some(20)), "{:?}", codes(&lost));
    assert!(codes(&lost).contains(&"WorkerListIncomplete"));
    // bounds are those of the target
    let full = druid(json!({ "spec": 2, "ready": 2 }), both(1, 4), json!({ "count": 80 }), json!({ "max": 5 }));
    assert_eq!(full.recommended, Some(5), "{:?}", codes(&full));
    assert_eq!(full.actions.iter().filter(|action| action.to.is_some()).count(), 1, "one step for the whole target");
    let least = druid(json!({ "spec": 2, "ready": 2 }), both(1, 1), json!({ "count": 0 }), json!({ "min": 4 }));
    assert_eq!(least.recommended, Some(4), "{:?}", codes(&least));
    // workers that start are bought once, and not given up meanwhile
    let starting = druid(json!({ "spec": 4, "ready": 2, "starting": 2, "secondsSinceStart": 20 }), both(1, 1), json!({ "count": 0 }), json!({ "max": 9 }));
    assert_eq!((starting.current, starting.recommended), (Some(4), Some(4)), "{:?}", codes(&starting));
}

#[test]
fn a_category_that_nobody_serves_buys_nothing() {
    let workers: Vec<Value> = (0..4).map(|n| worker(n, "_default_worker_category", 4, 2)).collect();
    let pending = json!({ "count": 1, "tasks": [{ "id": "t", "category": "gpu" }] });
    let advice = druid(json!({ "spec": 4, "ready": 4 }), workers, pending, json!({ "max": 8 }));
    assert_eq!(advice.recommended, Some(4), "{:?}", codes(&advice));
    assert!(codes(&advice).contains(&"NotPlaceable"));
}

#[test]
fn workers_that_never_arrive_are_not_bought_again_and_again() {
    let mut spec = 3;
    for _ in 0..4 {
        let workers = (0..2).map(|n| worker(n, "_default_worker_category", 4, 4)).collect();
        let replicas = json!({ "spec": spec, "ready": 2, "lastChange": { "at": "2026-11-30T09:00:00Z", "from": 2, "to": spec } });
        let advice = druid(replicas, workers, json!({ "count": 5, "oldestSeconds": 3600 }), json!({ "max": 50 }));
        assert!(codes(&advice).contains(&"CapacityNotArriving"), "{:?}", codes(&advice));
        spec = advice.recommended.expect("a number");
    }
    assert_eq!(spec, 4, "two full ones, and two for five tasks");
}

#[test]
fn a_worker_whose_pod_is_going_is_not_enabled_again() {
    let mut workers: Vec<Value> = (0..3).map(|n| worker(n, "_default_worker_category", 4, 4)).collect();
    workers[2] = worker(2, "_default_worker_category", 4, 1);
    workers[2]["enabled"] = false.into();
    let advice = druid(json!({ "spec": 2, "ready": 2 }), workers, json!({ "count": 3 }), json!({ "max": 9, "drain": "preStop" }));
    assert_eq!(advice.recommended, Some(3), "{:?}", codes(&advice));
    assert!(!codes(&advice).contains(&"WorkerReenabled"));
    // nor are the slots of one that is enabled still counted
    let four = (0..4).map(|n| worker(n, "_default_worker_category", 4, if n < 2 { 4 } else { 0 })).collect();
    assert_eq!(druid(json!({ "spec": 2, "ready": 2 }), four, json!({ "count": 6 }), json!({ "max": 9 })).recommended, Some(4));
}

#[test]
fn a_disabled_low_ordinal_does_not_block_the_way_down() {
    let mut workers: Vec<Value> = (0..3).map(|n| worker(n, "_default_worker_category", 4, 0)).collect();
    for (enabled, expected) in [(false, "0.mm:8091/enable"), (true, "2.mm:8091/disable")] {
        workers[0]["enabled"] = enabled.into();
        let advice = druid(json!({ "spec": 3, "ready": 3 }), workers.clone(), json!({ "count": 0 }), json!({ "min": 2 }));
        let steps: Vec<_> = advice.actions.iter().filter_map(|action| action.request.as_ref()).map(|call| call.path.clone()).collect();
        assert_eq!(advice.recommended, Some(3), "{:?}", codes(&advice));
        assert!(steps.len() == 1 && steps[0].ends_with(expected), "{steps:?}");
    }
}

#[test]
fn a_failed_reading_takes_no_number_away_from_workers_that_were_counted() {
    let seen = json!({ "observedAt": "2026-11-30T09:59:30Z", "workers": [worker(0, "_default_worker_category", 4, 1)], "pending": { "count": 0 } });
    let advice = ask(json!({ "kind": "druidWorkers", "history": [seen], "failure": { "kind": "timeout" } }));
    assert_eq!((advice.recommended, advice.outcome), (Some(1), Outcome::Hold), "{:?}", codes(&advice));
}

#[test]
fn jitter_is_damped_but_neither_zero_nor_partitions() {
    let one = |spec: u32, backlog: u32, partitions: Value| {
        ask(json!({ "kind": "backlog", "replicas": { "spec": spec }, "snapshot": { "observedAt": NOW, "backlog": backlog, "partitions": partitions },
            "policy": { "min": 0, "perReplicaBacklog": 100, "hysteresisRatio": 0.1, "idleBeforeZero": "0s", "scaleDown": { "stabilization": "0s" } } }))
    };
    assert_eq!(one(1, 0, Value::Null).recommended, Some(0));
    assert_eq!(one(6, 500, json!(3)).recommended, Some(3));
    assert_eq!(one(5, 540, Value::Null).recommended, Some(5));
}

#[test]
fn a_hold_ends_even_where_nothing_has_ever_been_read() {
    let advice = ask(json!({ "kind": "backlog", "replicas": { "spec": 4 }, "failure": { "kind": "timeout", "consecutive": 60 },
        "memory": { "version": 1, "kind": "backlog", "since": "2026-11-30T09:30:00Z", "failures": 59 }, "policy": { "onUnknown": { "holdAtMost": "10m" } } }));
    assert_eq!(advice.recommended, None, "{:?}", codes(&advice));
    assert!(codes(&advice).contains(&"HoldExpired"));
}

#[test]
fn a_group_of_unknown_capacity_is_probed_down_one_step_a_window() {
    let (mut spec, mut memory, mut steps) = (8, Value::Null, Vec::new());
    for n in 0..60_i64 {
        let now = loadline::core::units::Timestamp::from_second(1_796_032_800 + 30 * n).expect("a time").to_string();
        let advice = ask(json!({ "kind": "backlog", "now": now, "replicas": { "spec": spec }, "memory": memory,
            "snapshot": { "observedAt": now, "backlog": 0, "arrivalPerSecond": 10, "servedPerSecond": 10 },
            "policy": { "damping": "consumer", "scaleDown": { "stabilization": "5m" } } }));
        let next = advice.recommended.expect("a number");
        if next != spec {
            assert_eq!(next, spec - 1, "one at a time");
            steps.push(30 * n);
            spec = next;
        }
        memory = serde_json::to_value(&advice.memory).expect("a memory");
    }
    assert!(steps.len() >= 3 && steps.windows(2).all(|pair| pair[1] - pair[0] >= 300), "{steps:?}");
}

fn problems(body: &str) -> Vec<(String, String)> {
    let Err(Refusal::Invalid(problems)) = parse(body.as_bytes(), NOW.parse().expect("a time")) else { panic!("{body} was judged") };
    problems.into_iter().map(|problem| (problem.path, problem.message)).collect()
}

fn paths(body: &str) -> Vec<String> {
    problems(body).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn a_member_that_is_not_known_hides_no_other_problem() {
    let body = r#"{"kind":"backlog","nmae":"x","now":"yesterday","replicas":{"spec":-1},"snapshot":{"backlog":"many"},"policy":{"min":5,"max":3},"policy":{}}"#;
    assert_eq!(paths(body), ["nmae", "policy", "now", "replicas.spec", "snapshot.backlog"]);
    let body = r#"{"knd":"backlog","replicas":{"spec":-1}}"#;
    assert_eq!(paths(body), ["knd", "kind", "replicas.spec"]);
}

#[test]
fn a_value_that_does_not_fit_hides_no_value_that_is_out_of_range() {
    let body = r#"{"kind":"backlog","snapshot":{"backlog":1,"busyRatio":7,"inFlight":"x"},"policy":{"min":"one","targetUtilization":4,"scaleUp":{"maxStep":0},
        "floors":[{"period":"Mon 07:00-09:00","min":2},{"period":"never","min":3}]}}"#;
    assert_eq!(
        paths(body),
        ["policy.min", "policy.targetUtilization", "policy.scaleUp.maxStep", "policy.floors[1].period", "snapshot.inFlight", "snapshot.busyRatio"]
    );
}

#[test]
fn problems_are_at_the_position_and_the_field_that_they_are_of() {
    let body = r#"{"kind":"backlog","snapshot":{"backlog":1},"policy":{"max":10,"floors":[{"period":"x","min":1},{"period":"07:00-09:00","min":50},{"period":"07:00-09:00","timeZone":"Mars/Base","min":1}]}}"#;
    assert_eq!(paths(body), ["policy.floors[0].period", "policy.floors[2].timeZone", "policy.floors[1].min"]);
}

#[test]
fn an_element_that_does_not_fit_has_one_problem_and_hides_none_of_the_others() {
    let body = r#"{"kind":"druidWorkers","snapshot":{"workers":[7,{"capacity":"x","version":3},{"host":"a","capacity":1,"used":-1},{"host":"b","capacity":1}],"pending":{"count":0}}}"#;
    let found = problems(body);
    let at: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    let workers = |rest: &str| format!("snapshot.workers{rest}");
    let expected = ["[0]", "[1].capacity", "[1].version", "[1].host", "[1].used", "[2].used", "[3].used"].map(workers);
    assert_eq!(at, expected.iter().map(String::as_str).collect::<Vec<_>>(), "{found:?}");
    assert_eq!(found[0].1, "integer `7`, expected an object");
    assert!(found.iter().all(|(_, message)| !message.contains("struct") && !message.contains("null")), "{found:?}");
}

#[test]
fn a_number_that_no_double_holds_is_named_with_its_path() {
    let body = "{\"kind\":\"backlog\",\n \"snapshot\":{\"backlog\":10,\n  \"arrivalPerSecond\":1e999,\"servedPerSecond\":-2,\"busyRatio\":1e99999999999}}";
    let found = problems(body);
    assert_eq!(
        found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        ["snapshot.arrivalPerSecond", "snapshot.busyRatio", "snapshot.servedPerSecond"]
    );
    assert!(found[0].1.starts_with("1e999 is out of range") && found[1].1.starts_with("1e99999999999 "), "{found:?}");
}

#[test]
fn a_time_that_is_none_is_named() {
    let found = problems(r#"{"kind":"backlog","now":"yesterday","snapshot":{"observedAt":"","backlog":1}}"#);
    assert_eq!(found[0], ("now".to_owned(), "\"yesterday\" is not a time: expected RFC 3339 such as \"2026-11-30T10:00:00Z\"".to_owned()));
    assert!(found[1].1.starts_with("\"\" is not a time"), "{found:?}");
}

#[test]
fn what_counts_slots_refuses_to_be_sized_by_rates() {
    let body = |policy: &str| format!(r#"{{"kind":"druidWorkers","snapshot":{{"workers":[],"pending":{{"count":0}}}},"policy":{policy}}}"#);
    let found = problems(&body(
        r#"{"growthRatio":0.2,"hysteresisRatio":0.1,"perReplicaBacklog":5,"perReplicaPerSecond":7,"maxLagSeconds":3,"threadsPerReplica":2,"pools":{}}"#,
    ));
    let mut at: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    at.sort_unstable();
    assert_eq!(
        at,
        ["growthRatio", "hysteresisRatio", "maxLagSeconds", "perReplicaBacklog", "perReplicaPerSecond", "pools", "threadsPerReplica"]
            .map(|name| format!("policy.{name}"))
    );
    // what changes nothing may stand: one policy for several kinds
    assert!(
        parse(body(r#"{"growthRatio":0,"hysteresisRatio":0,"threadsPerReplica":1,"targetUtilization":0.9}"#).as_bytes(), NOW.parse().expect("a time")).is_ok()
    );
}
