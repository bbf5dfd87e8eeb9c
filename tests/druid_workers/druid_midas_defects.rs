//! The seventeen defects of MIDAS, each as a question: what its rule answers (preset `midas`, or its formula where the fault
//! lies around the rule), and what the default answers.

use loadline::core::advice::{ActionKind, Advice, Outcome};
use loadline::core::kinds::druid::midas::{Room, raise_to};
use serde_json::{Value, json};

use crate::asking::{NOW, advise, ago, none, ordinals, over, plain, said};

/// A worker of 15 slots.
fn worker(ordinal: usize, used: u64) -> Value {
    json!({ "host": format!("druid-mm-{ordinal}.druid-mm:8091"), "capacity": 15, "used": used })
}

fn draining(ordinal: usize, used: u64) -> Value {
    over(worker(ordinal, used), json!({ "enabled": false }))
}

fn workers(used: &[u64]) -> Value {
    used.iter().enumerate().map(|(ordinal, used)| worker(ordinal, *used)).collect()
}

/// The same question to MIDAS's rule and to ours.
fn both(spec: u64, workers: Value, pending: Value, policy: Value, extra: Value) -> (Advice, Advice) {
    let ask = |own: Value| {
        let snapshot = over(json!({ "observedAt": NOW, "workers": workers, "pending": pending }), extra.get("snapshot").cloned().unwrap_or_else(|| json!({})));
        let body = json!({ "kind": "druidWorkers", "now": NOW, "replicas": { "spec": spec, "ready": workers.as_array().map(Vec::len) } });
        advise(&over(over(body, extra.clone()), json!({ "snapshot": snapshot, "policy": over(own, policy.clone()) })))
    };
    let bounds = json!({ "min": 1, "max": 8 });
    (ask(over(bounds.clone(), json!({ "preset": "midas", "slotsPerWorker": 15 }))), ask(over(bounds, json!({ "scaleDown": { "stabilization": "0s" } }))))
}

fn has(advice: &Advice, code: &str) -> bool {
    advice.reasons.iter().any(|reason| reason.code().name() == code) || advice.limits.iter().any(|limit| limit.code.name() == code)
}

#[test]
fn defect_01_the_number_of_registered_workers_is_taken_for_the_ordinals() {
    // ordinal 0 is down: MIDAS takes ordinal 2 for the last one and scales to 2, which removes 3 with its nine tasks
    let list = json!([worker(1, 4), worker(2, 0), worker(3, 9)]);
    let (midas, ours) = both(4, list, none(), plain(), plain());
    assert_eq!(midas.recommended, Some(2));
    assert_eq!((ours.recommended, ours.outcome), (Some(4), Outcome::Hold), "{}", said(&ours));
    assert!(has(&ours, "BusyWorker"));
}

#[test]
fn defect_02_the_wanted_count_is_never_read() {
    // four are wanted and two have booted: a "raise" to three is a cut of what boots
    let (midas, ours) = both(4, workers(&[15, 15]), json!({ "count": 10 }), plain(), plain());
    assert_eq!(midas.recommended, Some(3));
    assert_eq!(ours.recommended, Some(4), "{}", said(&ours));
}

#[test]
fn defect_03_a_raise_that_never_arrives_blocks_both_ways_for_ever() {
    let asked = |memory: Value, pending: u64, used: &[u64]| {
        let replicas = json!({ "spec": 4, "ready": 3, "lastChange": { "at": ago(36_000), "from": 3, "to": 4 } });
        both(4, workers(used), json!({ "count": pending }), plain(), json!({ "replicas": replicas, "memory": memory }))
    };
    let memory = json!({ "version": 1, "kind": "druidWorkers", "since": ago(90_000), "raisedTo": 4 });
    let (midas, ours) = asked(memory.clone(), 40, &[15, 15, 15]);
    assert_eq!((midas.recommended, midas.actions.len()), (Some(4), 0), "neither up");
    assert!(ours.recommended > Some(4) && has(&ours, "CapacityNotArriving"), "{}", said(&ours));
    let (midas, ours) = asked(memory, 0, &[1, 0, 0]);
    assert_eq!((midas.recommended, midas.actions.len()), (Some(4), 0), "nor down");
    assert_eq!(ordinals(&ours, ActionKind::DisableWorker), [2, 1], "{}", said(&ours));
}

#[test]
fn defect_04_a_page_that_is_no_json_reads_as_nothing_pending_and_idle() {
    // what MIDAS makes of a login page, twice: an empty map of length 0
    let (midas, _) = both(3, workers(&[5, 5, 0]), none(), plain(), plain());
    assert_eq!(midas.recommended, Some(2), "a busy worker goes");
    // here such an answer is no reading at all
    let ours =
        advise(&json!({ "kind": "druidWorkers", "replicas": { "spec": 3, "ready": 3 }, "snapshot": null, "failure": { "kind": "notJson", "consecutive": 1 } }));
    assert_eq!((ours.recommended, ours.outcome), (Some(3), Outcome::Hold));
    assert!(has(&ours, "NoReading") && said(&ours).contains("notJson"));
}

#[test]
fn defect_05_an_idle_worker_is_disabled_and_removed_on_one_reading() {
    let (midas, ours) = both(3, workers(&[10, 10, 0]), none(), plain(), plain());
    assert_eq!((midas.recommended, ordinals(&midas, ActionKind::DisableWorker)), (Some(2), vec![2]), "what is assigned meanwhile dies");
    assert_eq!((ours.recommended, ordinals(&ours, ActionKind::DisableWorker)), (Some(3), vec![2]), "{}", said(&ours));
    assert!(has(&ours, "NotYetDisabled"));
    let (_, later) = both(3, json!([worker(0, 10), worker(1, 10), draining(2, 0)]), none(), plain(), plain());
    assert_eq!(later.recommended, Some(2), "disabled and empty on a newer reading");
    let (_, assigned) = both(3, json!([worker(0, 10), worker(1, 10), draining(2, 1)]), none(), plain(), plain());
    assert_eq!(assigned.recommended, Some(3), "a task had come in between");
}

#[test]
fn defect_06_a_restart_forgets_which_workers_are_disabled() {
    // MIDAS counts what it disabled in memory; after a restart that is zero, and three tasks buy a fifth worker
    assert_eq!(raise_to(3, 4, 15, 8), 5);
    let list = json!([worker(0, 15), draining(1, 3), worker(2, 15), worker(3, 15)]);
    let (_, ours) = both(4, list, json!({ "count": 3 }), plain(), plain());
    assert_eq!((ours.recommended, ordinals(&ours, ActionKind::EnableWorker)), (Some(4), vec![1]), "{}", said(&ours));
}

#[test]
fn defect_07_the_minimum_guards_pods_and_not_workers_that_take_tasks() {
    let list = json!([worker(0, 4), worker(1, 1), draining(2, 0), draining(3, 1)]);
    let (midas, ours) = both(4, list, none(), json!({ "min": 2 }), plain());
    assert_eq!(ordinals(&midas, ActionKind::DisableWorker), [1], "one of four still takes tasks, with a minimum of two");
    assert!(ordinals(&ours, ActionKind::DisableWorker).is_empty(), "{}", said(&ours));
}

#[test]
fn defect_08_free_slots_ages_and_places_are_not_looked_at() {
    let (midas, ours) = both(3, workers(&[3, 3, 3]), json!({ "count": 3 }), plain(), plain());
    assert_eq!((midas.recommended, ours.recommended), (Some(4), Some(3)), "36 slots are free");
    let new = json!({ "count": 1, "tasks": [{ "id": "t", "createdTime": ago(1) }] });
    let (midas, ours) = both(3, workers(&[15, 15, 15]), new, plain(), plain());
    assert_eq!((midas.recommended, ours.recommended), (Some(4), Some(3)), "a second old: an assignment delay");
    let bound = json!({ "count": 1, "tasks": [{ "id": "t", "placeable": false }] });
    let (midas, ours) = both(3, workers(&[15, 15, 15]), bound, plain(), plain());
    assert_eq!((midas.recommended, ours.recommended), (Some(4), Some(3)), "no new worker may take it");
    assert!(has(&ours, "NotPlaceable"));
}

#[test]
fn defect_09_one_quiet_moment_removes_what_has_just_booted() {
    let memory = json!({ "version": 1, "kind": "druidWorkers", "since": ago(90_000), "lastCompleteAt": ago(30), "wishes": { "peaks": [[ago(60), 3]], "lows": [[ago(60), 3]] } });
    let ask = |policy: Value| {
        advise(
            &json!({ "kind": "druidWorkers", "now": NOW, "replicas": { "spec": 3, "ready": 3, "lastChange": { "at": ago(300), "from": 2, "to": 3 } }, "memory": memory,
            "snapshot": { "observedAt": NOW, "workers": [worker(0, 5), worker(1, 5), draining(2, 0)], "pending": none() }, "policy": policy }),
        )
    };
    assert_eq!(ask(json!({ "preset": "midas", "slotsPerWorker": 15 })).recommended, Some(2));
    let ours = ask(plain());
    assert_eq!(ours.recommended, Some(3), "{}", said(&ours));
    assert!(has(&ours, "Stabilizing"));
}

#[test]
fn defect_10_one_static_number_of_slots_stands_for_every_worker() {
    let small = |used: u64| over(worker(1, used), json!({ "capacity": 4 }));
    let (midas, ours) = both(2, json!([over(worker(0, 4), json!({ "capacity": 4 })), small(4)]), json!({ "count": 16 }), plain(), plain());
    assert_eq!((midas.recommended, ours.recommended), (Some(4), Some(6)), "workers of four slots");
    let wide = json!({ "count": 4, "tasks": (0..4).map(|n| json!({ "id": format!("t{n}"), "requiredCapacity": 8 })).collect::<Vec<_>>() });
    let (midas, ours) = both(2, workers(&[15, 15]), wide, plain(), plain());
    assert_eq!((midas.recommended, ours.recommended), (Some(3), Some(6)), "tasks of eight slots");
    let unfit = json!([worker(0, 15), over(worker(1, 0), json!({ "blacklistedUntil": "2026-11-30T11:00:00Z" }))]);
    let (_, ours) = both(2, unfit, json!({ "count": 4 }), plain(), plain());
    assert_eq!(ours.recommended, Some(3), "a blacklisted worker has no slots to give");
    let other = over(worker(1, 0), json!({ "host": "druid-gpu-0:8091", "category": "gpu" }));
    let (_, ours) = both(1, json!([worker(0, 15), other]), json!({ "count": 4 }), json!({ "pools": { "_default_worker_category": {} } }), plain());
    assert_eq!(ours.recommended, Some(2), "nor has one of another category");
}

#[test]
fn defect_11_drains_are_slower_than_they_have_to_be() {
    // one worker a tick, though three could go
    let (midas, ours) = both(4, workers(&[3, 1, 1, 1]), none(), plain(), plain());
    assert_eq!((ordinals(&midas, ActionKind::DisableWorker), ordinals(&ours, ActionKind::DisableWorker)), (vec![3], vec![3, 2, 1]));
    // exactly what the headroom allows is refused
    let ten = |ordinal: usize, used: u64, enabled: bool| over(worker(ordinal, used), json!({ "capacity": 10, "enabled": enabled }));
    let (midas, ours) = both(3, json!([ten(0, 7, true), ten(1, 0, true), ten(2, 2, false)]), none(), json!({ "slotsPerWorker": 10 }), plain());
    assert_eq!((ordinals(&midas, ActionKind::DisableWorker), ordinals(&ours, ActionKind::DisableWorker)), (vec![], vec![1]), "{}", said(&ours));
}

#[test]
fn defect_12_one_long_task_on_the_last_worker_blocks_all_and_nobody_is_told_for_how_long() {
    let last = over(worker(3, 1), json!({ "tasks": [{ "id": "t", "phase": "reading", "remainingSeconds": 2400 }] }));
    let (midas, ours) = both(4, json!([worker(0, 15), worker(1, 0), worker(2, 0), last]), none(), plain(), plain());
    assert_eq!((midas.recommended, midas.wanted), (Some(4), Some(4)), "not even that fewer would do");
    assert_eq!((ours.recommended, ours.wanted, ordinals(&ours, ActionKind::DisableWorker)), (Some(4), Some(2), vec![3, 2]));
    assert!(said(&ours).contains("would be the one to go") && said(&ours).contains("40m"), "the order and the wait: {}", said(&ours));
}

#[test]
fn defect_13_copies_of_a_streaming_task_are_left_without_a_worker_each() {
    let task = |id: &str| json!([{ "id": id, "phase": "reading", "remainingSeconds": 3000 }]);
    let list = json!([over(worker(0, 1), json!({ "tasks": task("a") })), over(worker(1, 1), json!({ "tasks": task("b") }))]);
    let stream = json!({ "snapshot": { "streaming": [{ "supervisor": "orders", "taskCount": 1, "replicas": 2, "rolloverInSeconds": 3000 }] } });
    let (midas, ours) = both(2, list, none(), plain(), stream);
    assert_eq!(ordinals(&midas, ActionKind::DisableWorker), [1], "the next copy has no place");
    assert!(ordinals(&ours, ActionKind::DisableWorker).is_empty(), "{}", said(&ours));
    assert_eq!(ours.recommended, Some(2));
}

#[test]
fn defect_14_a_hand_over_is_not_foreseen() {
    let stream = json!({ "snapshot": { "streaming": [{ "supervisor": "orders", "taskCount": 20, "replicas": 1, "rolloverInSeconds": 120 }] } });
    let (midas, ours) = both(2, workers(&[10, 10]), none(), plain(), stream);
    assert_eq!(midas.recommended, Some(2));
    assert_eq!(ours.recommended, Some(3), "20 more tasks in two minutes, and ten slots: {}", said(&ours));
    assert!(has(&ours, "RolloverReserve"));
}

#[test]
fn defect_15_tasks_that_wait_for_a_lock_are_mixed_with_those_that_wait_for_a_slot() {
    // the article divides what is pending, and tests the remainder of what waits: one more for five locks
    let (pending, waiting, running, slots) = (0_u64, 5_u64, 2_u64, 15_u64);
    assert_eq!(pending / slots + running + u64::from(waiting % slots > 0), 3);
    let (_, ours) = both(2, workers(&[15, 15]), none(), plain(), json!({ "snapshot": { "waitingCount": waiting } }));
    assert_eq!(ours.recommended, Some(2));
}

#[test]
fn defect_16_a_failed_call_is_silent_and_steps_are_shell_text() {
    // MIDAS: no reason, no number, no time limit; here a failure is an answer with a number, and a step is data
    let failed = advise(
        &json!({ "kind": "druidWorkers", "replicas": { "spec": 3 }, "snapshot": null, "failure": { "kind": "timeout", "message": "no answer within 5s" } }),
    );
    assert_eq!((failed.recommended, failed.outcome), (Some(3), Outcome::Hold));
    assert!(said(&failed).contains("no answer within 5s"));
    let (_, ours) = both(2, json!([worker(0, 1), worker(1, 0)]), none(), plain(), plain());
    let call = ours.actions.iter().find_map(|action| action.request.as_ref()).expect("a call");
    assert_eq!((call.method, call.path.as_str(), call.body.is_none()), ("POST", "/druid/indexer/v1/worker/druid-mm-1.druid-mm:8091/disable", true));
}

#[test]
fn defect_17_zero_comes_at_the_first_idle_moment_or_never_and_its_price_is_not_told() {
    assert!(!Room::of(1, 0, 15, 0.9, 1, |_| 1).disables(), "the limit of ordinal 0 is zero tasks");
    let (midas, ours) = both(1, json!([draining(0, 0)]), none(), json!({ "min": 0 }), plain());
    assert_eq!(midas.recommended, Some(0), "at once");
    assert_eq!(ours.recommended, Some(1), "{}", said(&ours));
    assert!(has(&ours, "IdleWait") && said(&ours).contains("coming back takes 5m"), "{}", said(&ours));
}
