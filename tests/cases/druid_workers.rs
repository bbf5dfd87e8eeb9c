//! Druid MiddleManagers.

use loadline::core::advice::{ActionKind, Outcome};
use serde_json::{Value, json};

use super::{advise, ago, has, immediate, said, steps};

fn workers(used: &[u64], capacity: u64) -> Value {
    used.iter().enumerate().map(|(ordinal, used)| worker(ordinal, *used, capacity, true)).collect()
}

fn worker(ordinal: usize, used: u64, capacity: u64, enabled: bool) -> Value {
    json!({ "host": format!("druid-mm-{ordinal}.druid-mm.druid.svc:8091"), "capacity": capacity, "used": used, "enabled": enabled })
}

fn policy(extra: Value) -> Value {
    let mut policy = immediate(json!({ "headroomRatio": 1, "pendingGrace": "0s", "rolloverReserve": false }));
    let (Value::Object(into), Value::Object(from)) = (&mut policy, extra) else { panic!("objects") };
    into.extend(from);
    policy
}

#[test]
fn sc_001_a_busy_highest_ordinal_is_drained_before_it_goes() {
    // by CPU alone: 3, and twelve tasks die
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 4, "ready": 4 },
        "snapshot": { "workers": workers(&[0, 0, 0, 12], 15), "pending": { "count": 0 } }, "policy": policy(json!({ "min": 1, "max": 4 })) }));
    assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold));
    assert!(has(&advice, "BusyWorker") && said(&advice).contains("12 tasks"), "{}", said(&advice));
    assert_eq!(steps(&advice, ActionKind::DisableWorker).first(), Some(&3), "worker 3 is drained first");
}

#[test]
fn sc_002_a_worker_that_is_starting_is_credited() {
    // without credit: 5
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 3, "ready": 2, "starting": 1, "secondsSinceStart": 60 },
        "snapshot": { "workers": workers(&[15, 15], 15), "pending": { "count": 16 } }, "policy": policy(json!({ "min": 1, "max": 6, "startup": "240s" })) }));
    assert_eq!(advice.recommended, Some(4), "{}", said(&advice));
    let without_spec = advise(&json!({ "kind": "druidWorkers", "replicas": { "ready": 2, "starting": 1, "secondsSinceStart": 60 },
        "snapshot": { "workers": workers(&[15, 15], 15), "pending": { "count": 16 } }, "policy": policy(json!({ "min": 1, "max": 6, "startup": "240s" })) }));
    assert_eq!(without_spec.recommended, Some(4), "{}", said(&without_spec));
}

#[test]
fn sc_003_a_task_that_fits_buys_nothing() {
    // registered + ceil(pending / slots): 3
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 2, "ready": 2 },
        "snapshot": { "workers": workers(&[15, 14], 15), "pending": { "count": 1 } }, "policy": policy(json!({ "min": 1, "max": 4 })) }));
    assert_eq!(advice.recommended, Some(2));
    assert!(said(&advice).contains("1 usable free slot"), "{}", said(&advice));
}

#[test]
fn sc_004_from_zero_without_a_hint_one_worker_is_started_to_learn() {
    // pending / unknown: nothing, for ever
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 0, "ready": 0 },
        "snapshot": { "workers": [], "pending": { "count": 7 } }, "policy": policy(json!({ "min": 0, "max": 10 })) }));
    assert_eq!(advice.recommended, Some(1));
    assert!(has(&advice, "CapacityUnknown") && has(&advice, "ScaleFromZero"), "{}", said(&advice));
    let hinted = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 0, "ready": 0 },
        "snapshot": { "workers": [], "pending": { "count": 7 } }, "policy": policy(json!({ "min": 0, "max": 10, "slotsPerWorker": 3 })) }));
    assert_eq!(hinted.recommended, Some(3), "{}", said(&hinted));
}

#[test]
fn sc_006_workers_missing_from_the_list_are_no_smaller_pool() {
    // from 12 listed: 13, a cut by seven
    let mut used = vec![4; 8];
    used.extend([2; 4]);
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 20, "ready": 20 },
        "snapshot": { "workers": workers(&used, 4), "pending": { "count": 9 } }, "policy": policy(json!({ "min": 2, "max": 30 })) }));
    assert!(advice.recommended >= Some(20), "{:?}", advice.recommended);
    assert!(has(&advice, "WorkerListIncomplete") && said(&advice).contains("12 workers") && said(&advice).contains("ready pods: 20"), "{}", said(&advice));
}

#[test]
fn sc_009_classes_of_workers_are_judged_apart() {
    // by the sum of free slots: nothing, and streaming stays blocked
    let worker =
        |class: &str, ordinal: usize, used: u64| json!({ "host": format!("mm-{class}-{ordinal}:8091"), "capacity": 4, "used": used, "category": class });
    let task = |n: usize| json!({ "id": format!("t{n}"), "category": "streaming" });
    let advice = advise(&json!({ "kind": "druidWorkers",
        "snapshot": { "workers": [worker("streaming", 0, 4), worker("streaming", 1, 4), worker("batch", 0, 2), worker("batch", 1, 0), worker("batch", 2, 0)],
            "pending": { "count": 6, "tasks": (0..6).map(task).collect::<Vec<_>>() } }, "policy": policy(json!({ "max": 20 })) }));
    let of = |id: &str| advice.parts.iter().find(|part| part.id == id).map(|part| part.recommended);
    assert_eq!(of("streaming"), Some(Some(4)), "{}", said(&advice));
    assert!(of("batch").expect("a pool") <= Some(3));
}

#[test]
fn sc_010_a_draining_worker_is_enabled_again_before_one_is_bought() {
    // 4 + 1 while worker 3 drains on
    let snapshot =
        json!({ "workers": [worker(0, 15, 15, true), worker(1, 14, 15, true), worker(2, 14, 15, true), worker(3, 3, 15, false)], "pending": { "count": 10 } });
    let advice = advise(
        &json!({ "kind": "druidWorkers", "replicas": { "spec": 4, "ready": 4 }, "snapshot": snapshot, "policy": policy(json!({ "min": 1, "max": 8 })) }),
    );
    assert_eq!(advice.recommended, Some(4));
    assert_eq!(steps(&advice, ActionKind::EnableWorker), [3]);
    let call = advice.actions.iter().find_map(|action| action.request.as_ref()).expect("a call");
    assert_eq!(call.path, "/druid/indexer/v1/worker/druid-mm-3.druid-mm.druid.svc:8091/enable");
    assert!(has(&advice, "WorkerReenabled"));
}

#[test]
fn sc_011_a_burst_is_packed_at_once() {
    // one more per tick: 6
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 5, "ready": 5 },
        "snapshot": { "workers": workers(&[4; 5], 4), "pending": { "count": 120 } }, "policy": policy(json!({ "min": 1, "max": 50 })) }));
    assert_eq!(advice.recommended, Some(35));
}

#[test]
fn sc_013_publishing_is_work_in_hand() {
    // zero reading tasks look idle: 4, and the segments are read again
    let tasks: Vec<Value> = (0..3).map(|n| json!({ "id": format!("t{n}"), "type": "index_kafka", "phase": "publishing" })).collect();
    let mut list = workers(&[3, 3, 2, 2, 0], 4);
    list[4]["used"] = json!(3);
    list[4]["tasks"] = json!(tasks);
    let advice = advise(
        &json!({ "kind": "druidWorkers", "replicas": { "spec": 5, "ready": 5 }, "snapshot": { "workers": list, "pending": { "count": 0 } }, "policy": policy(json!({ "min": 2, "max": 8 })) }),
    );
    assert_eq!((advice.recommended, advice.outcome), (Some(5), Outcome::Hold));
    assert!(has(&advice, "PublishingTasks") && said(&advice).contains("3 tasks on druid-mm-4"), "{}", said(&advice));
}

#[test]
fn empty_and_disabled_workers_at_the_top_go_and_only_those() {
    let snapshot = |third: Value, last: Value| json!({ "workers": [worker(0, 3, 15, true), worker(1, 0, 15, true), third, last], "pending": { "count": 0 } });
    let ask = |snapshot: Value| {
        advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 4, "ready": 4 }, "snapshot": snapshot, "policy": policy(json!({ "min": 1, "max": 8 })) }))
    };
    let both = ask(snapshot(worker(2, 0, 15, false), worker(3, 0, 15, false)));
    assert_eq!(both.recommended, Some(2), "{}", said(&both));
    let last = ask(snapshot(worker(2, 0, 15, true), worker(3, 0, 15, false)));
    assert_eq!(last.recommended, Some(3), "worker 2 is empty but enabled");
    assert!(has(&last, "NotYetDisabled"));
    assert_eq!(steps(&last, ActionKind::DisableWorker), [2, 1]);
    let draining = ask(snapshot(worker(2, 0, 15, false), worker(3, 2, 15, false)));
    assert_eq!(draining.recommended, Some(4));
    assert!(has(&draining, "Draining"));
}

#[test]
fn ordinals_with_a_gap_hold() {
    // MIDAS: 3 registered, "last" is ordinal 2 and idle, so it scales to 2 and Kubernetes removes 3 (nine tasks) and 2
    let snapshot = json!({ "workers": [worker(1, 4, 15, true), worker(2, 0, 15, true), worker(3, 9, 15, true)], "pending": { "count": 0 } });
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 4 }, "snapshot": snapshot, "policy": policy(json!({ "min": 1, "max": 8 })) }));
    assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold));
    assert!(has(&advice, "WorkerListIncomplete"));
}

#[test]
fn a_restart_during_a_boot_does_not_shrink_what_boots() {
    // MIDAS never reads spec.replicas: "scale up" to 3, which is a cut of booting pods
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 4 },
        "snapshot": { "workers": workers(&[15, 15], 15), "pending": { "count": 10 } }, "policy": policy(json!({ "max": 8 })) }));
    assert_eq!(advice.recommended, Some(4));
}

#[test]
fn workers_that_do_not_arrive_are_credited_no_more() {
    // MIDAS: neither up nor down, for ever
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 4, "ready": 3, "lastChange": { "at": ago(36_000), "from": 3, "to": 4 } },
        "snapshot": { "workers": workers(&[15, 15, 15], 15), "pending": { "count": 40 } }, "policy": policy(json!({ "max": 20 })) }));
    assert!(has(&advice, "CapacityNotArriving"), "{}", said(&advice));
    assert!(advice.recommended > Some(4), "what is pending still needs workers");
}

#[test]
fn the_docs_pending_tasks_alone_are_no_workers() {
    // an empty list and an unknown one are two things
    let advice = advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 5 }, "snapshot": { "pending": { "count": 3 } } }));
    assert_eq!((advice.recommended, advice.outcome), (Some(5), Outcome::Hold));
    assert!(has(&advice, "IncompleteReading"));
}
