//! Which worker may go, when, and what is said of it.

use loadline::core::advice::{ActionKind, Advice, Outcome};
use serde_json::{Value, json};

use crate::asking::*;

// ---- lowering ----

#[test]
fn the_highest_ordinal_goes_and_idle_ones_in_the_middle_wait_for_it() {
    let advice = ask(&workers(&[3, 0, 0, 1]), none(), plain(), plain());
    assert_eq!((advice.recommended, advice.wanted, advice.outcome), (Some(4), Some(2), Outcome::Hold));
    assert_eq!(codes(&advice)[0], "BusyWorker");
    assert_eq!(ordinals(&advice, ActionKind::DisableWorker), [3, 2]);
}

#[test]
fn what_a_reading_lacks_lowers_nothing_and_hides_no_demand() {
    let lacking = json!({ "snapshot": { "missing": ["the list of supervisors (HTTP 503)"] } });
    let idle = ask(&workers(&[3, 0, 0, 0]), none(), plain(), lacking.clone());
    assert_eq!((idle.recommended, idle.outcome), (Some(4), Outcome::Hold));
    assert!(said(&idle).contains("the list of supervisors (HTTP 503)"), "{}", said(&idle));
    assert_eq!(ordinals(&idle, ActionKind::DisableWorker), [0; 0]);
    let busy = ask(&workers(&[4, 4]), json!({ "count": 5, "oldestSeconds": 60 }), plain(), lacking);
    assert_eq!(busy.recommended, Some(4));
    assert!(said(&busy).contains("the list of supervisors"), "what is missing is said whatever comes out: {}", said(&busy));
}

#[test]
fn what_runs_must_fit_within_the_headroom() {
    let question = |used: &[u64], ratio: f64| ask(&workers(used), none(), json!({ "headroomRatio": ratio }), plain()).wanted;
    // four slots of four would do by the plain sum
    assert_eq!(question(&[3, 1], 0.9), Some(2));
    assert_eq!(question(&[3, 1], 1.0), Some(1));
    assert_eq!(question(&[3, 0], 0.75), Some(1));
}

#[test]
fn a_drain_tells_when_it_ends_where_every_task_does() {
    let task = |id: &str, phase: &str, left: Value| json!({ "id": id, "phase": phase, "remainingSeconds": left });
    let of = |list: Value| ask(&[worker(0, 1), over(worker(1, 2), json!({ "tasks": list }))], none(), plain(), plain());
    let known = of(json!([task("a", "reading", json!(1200)), task("b", "reading", json!(600))]));
    assert!(said(&known).contains("in about 20m and the time to publish"), "{}", said(&known));
    let unknown = of(json!([task("a", "reading", json!(1200)), task("b", "running", Value::Null)]));
    assert!(said(&unknown).contains("at an unknown time"), "{}", said(&unknown));
}

#[test]
fn disabling_leaves_the_minimum_of_workers_that_take_tasks() {
    // by the count of pods: 3 and 2 can both go
    let blacklisted = over(worker(0, 0), json!({ "blacklistedUntil": ago(-600) }));
    let advice = ask(&[blacklisted, worker(1, 0), worker(2, 0), worker(3, 0)], none(), json!({ "min": 2 }), plain());
    assert_eq!(ordinals(&advice, ActionKind::DisableWorker), [3], "{}", said(&advice));
    // a floor of the schedule is a minimum too
    let floor = json!({ "floors": [{ "period": "09:00-11:00", "min": 3 }] });
    let floored = ask(&[disabled(0, 0), worker(1, 0), worker(2, 0), worker(3, 0)], none(), floor, plain());
    assert_eq!(ordinals(&floored, ActionKind::EnableWorker), [0], "{}", said(&floored));
    assert_eq!(ordinals(&floored, ActionKind::DisableWorker), [0; 0], "not before the minimum is seen to take tasks without it");
}

#[test]
fn slots_of_a_disabled_worker_in_the_middle_are_not_lost() {
    // without them: twelve slots in use do not fit on 0, 2 and 3 within the headroom, and all four stay
    let advice = ask(&[worker(0, 4), disabled(1, 0), worker(2, 3), worker(3, 3)], none(), plain(), plain());
    assert_eq!(advice.wanted, Some(3), "{}", said(&advice));
    assert_eq!(ordinals(&advice, ActionKind::EnableWorker), [1]);
    assert_eq!(ordinals(&advice, ActionKind::DisableWorker), [0; 0], "the call to enable may fail: nothing is disabled on it");
    let enabled = ask(&workers(&[4, 0, 3, 3]), none(), plain(), plain());
    assert_eq!(ordinals(&enabled, ActionKind::DisableWorker), [3]);
}

#[test]
fn a_worker_that_is_to_go_is_not_enabled_for_what_waits() {
    // two are the most, and the third is empty and disabled: it would be given tasks and removed in the same minute
    let advice = ask(&[worker(0, 4), worker(1, 4), disabled(2, 0)], json!({ "count": 6, "oldestSeconds": 60 }), json!({ "max": 2 }), plain());
    assert_eq!(advice.recommended, Some(2), "{}", said(&advice));
    assert_eq!(ordinals(&advice, ActionKind::EnableWorker), [0; 0]);
}

#[test]
fn a_bound_below_what_runs_is_reached_one_drain_at_a_time() {
    let lower = |list: &[Value]| ordinals(&ask(list, none(), json!({ "max": 2 }), plain()), ActionKind::DisableWorker);
    assert_eq!(lower(&workers(&[4, 4, 4, 4])), [3], "half of all slots at once would leave no room for what follows");
    assert_eq!(lower(&[worker(0, 4), worker(1, 4), worker(2, 4), disabled(3, 2)]), [0; 0]);
    assert_eq!(lower(&[worker(0, 4), worker(1, 4), worker(2, 4), disabled(3, 0)]), [2]);
}

#[test]
fn a_drain_is_cancelled_before_anything_is_bought() {
    let list = [worker(0, 4), worker(1, 4), disabled(2, 1)];
    let advice = ask(&list, json!({ "count": 5 }), plain(), plain());
    assert_eq!((advice.recommended, ordinals(&advice, ActionKind::EnableWorker)), (Some(4), vec![2]), "{}", said(&advice));
    assert!(said(&advice).contains("3 slots on draining workers"), "{}", said(&advice));
}

#[test]
fn nothing_is_switched_while_the_policy_is_paused() {
    let list = [worker(0, 4), worker(1, 4), disabled(2, 1)];
    let advice = ask(&list, json!({ "count": 9 }), json!({ "paused": true }), plain());
    assert_eq!((advice.recommended, advice.wanted), (Some(3), Some(5)));
    assert!(advice.actions.is_empty(), "{}", said(&advice));
}

#[test]
fn a_worker_beyond_the_wanted_count_keeps_the_count_while_it_runs_something() {
    // ordinals that do not start at zero: three pods, 1 to 3. By "ordinal 2 is the last", the tasks on 3 would die
    let list = [worker(1, 1), disabled(2, 0), worker(3, 2)];
    let advice = ask(&list, none(), plain(), plain());
    assert_eq!(advice.recommended, Some(3), "{}", said(&advice));
}

#[test]
fn without_a_wanted_count_a_worker_that_was_given_up_is_not_counted_on() {
    let list = [worker(0, 4), worker(1, 4), disabled(2, 1)];
    let without = |memory: Value, drain: &str| ask(&list, json!({ "count": 2 }), json!({ "drain": drain }), json!({ "replicas": {}, "memory": memory }));
    let told = |recommended: u64| json!({ "version": 1, "kind": "druidWorkers", "since": ago(86_400), "recommended": recommended });
    // nobody has given it up: it can be enabled again
    let first = without(Value::Null, "advise");
    assert_eq!((first.recommended, ordinals(&first, ActionKind::EnableWorker)), (Some(3), vec![2]));
    // two were recommended, and its pod is going
    let given_up = without(told(2), "advise");
    assert_eq!((given_up.current, given_up.recommended, ordinals(&given_up, ActionKind::EnableWorker)), (Some(2), Some(3), vec![]), "{}", said(&given_up));
    // a pod that drains by itself has been told to go
    let itself = without(Value::Null, "preStop");
    assert_eq!((itself.current, itself.recommended, ordinals(&itself, ActionKind::EnableWorker)), (Some(2), Some(3), vec![]), "{}", said(&itself));
}

#[test]
fn a_strategy_that_spreads_tasks_is_the_first_reason_why_nothing_becomes_empty() {
    let question = |strategy: &str| codes(&ask(&workers(&[1, 1, 1]), none(), plain(), json!({ "snapshot": { "selectStrategy": strategy } })))[0];
    assert_eq!(question("equalDistribution"), "SelectStrategy");
    assert_eq!(question("fillCapacityWithCategorySpec"), "BusyWorker");
}

// ---- pods that drain by themselves ----

#[test]
fn under_pre_stop_the_count_falls_at_once_when_what_runs_fits() {
    let question = |used: &[u64]| ask(&workers(used), none(), json!({ "drain": "preStop" }), plain()).recommended;
    assert_eq!(question(&[1, 1, 1]), Some(1));
    assert_eq!(question(&[2, 1, 1]), Some(2));
    assert_eq!(question(&[4, 4, 4]), Some(3));
}

#[test]
fn under_pre_stop_copies_of_a_task_stay_apart() {
    // by the sum of slots: two copies on one worker, where one of them waits for ever
    let of = |ordinal: usize| over(worker(ordinal, 1), json!({ "availabilityGroups": ["orders"] }));
    let advice = ask(&[of(0), of(1), worker(2, 0)], none(), json!({ "drain": "preStop" }), plain());
    assert_eq!(advice.recommended, Some(2), "{}", said(&advice));
}

#[test]
fn under_pre_stop_a_bound_cuts_no_deeper_than_what_runs_fits() {
    let advice = ask(&workers(&[4, 4, 4]), none(), json!({ "drain": "preStop", "max": 1 }), plain());
    assert_eq!((advice.recommended, advice.outcome), (Some(3), Outcome::Keep), "{}", said(&advice));
    assert_eq!(codes(&advice)[0], "BusyWorker");
}

#[test]
fn under_pre_stop_the_minimum_takes_tasks() {
    let advice = ask(&[disabled(0, 0), worker(1, 0), worker(2, 0)], none(), json!({ "drain": "preStop", "min": 2 }), plain());
    assert_eq!(advice.recommended, Some(3), "worker 0 takes none: {}", said(&advice));
    assert!(ordinals(&advice, ActionKind::EnableWorker).is_empty(), "enabling does not stop a hook that waits");
}

#[test]
fn fields_without_effect_are_said() {
    let advice = ask(&workers(&[4]), none(), json!({ "targetUtilization": 0.5, "lookAhead": "auto" }), plain());
    assert!(said(&advice).contains("no effect on this kind: targetUtilization, lookAhead"), "{}", said(&advice));
    assert!(!codes(&ask(&workers(&[4]), none(), json!({ "lookAhead": "off" }), plain())).contains(&"PolicyWithoutEffect"));
}

#[test]
fn one_is_one_in_every_sentence() {
    let list = [worker(0, 4), over(worker(1, 1), json!({ "tasks": [{ "id": "a", "phase": "publishing" }] }))];
    let text = said(&ask(&list, none(), plain(), plain())) + &said(&ask(&workers(&[4, 1]), json!({ "count": 4 }), plain(), plain()));
    assert!(!text.contains("1 tasks") && !text.contains("1 slots") && !text.contains("1 workers"), "{text}");
}

// ---- lists that cannot be true ----

/// A question without a wanted count, after readings of these lists half a minute apart.
fn after(earlier: &[Vec<Value>], now: &[Value], more: Value) -> Advice {
    let mut history: Vec<Value> =
        (1..).zip(earlier.iter().rev()).map(|(back, list)| json!({ "observedAt": ago(30 * back), "workers": list, "pending": none() })).collect();
    history.reverse();
    let snapshot = json!({ "observedAt": NOW, "workers": now, "pending": none() });
    let body =
        json!({ "kind": "druidWorkers", "now": NOW, "snapshot": snapshot, "history": history, "policy": { "min": 0, "scaleDown": { "stabilization": "0s" } } });
    advise(&over(body, more))
}

#[test]
fn a_list_that_shrinks_without_a_drain_lowers_no_number() {
    let four = workers(&[2, 2, 2, 2]);
    let two = after(&[four.clone(), four.clone()], &four[..2], plain());
    assert_eq!((two.current, two.recommended, two.outcome), (Some(4), Some(4), Outcome::Hold), "{}", said(&two));
    assert!(codes(&two).contains(&"WorkerListIncomplete"));
    let still = after(&[four.clone(), four[..2].to_vec(), four[..2].to_vec()], &four[..2], plain());
    assert_eq!(still.recommended, Some(4), "the next reading has not forgotten them: {}", said(&still));
    // those that were drained are gone
    let drained = vec![worker(0, 2), worker(1, 2), disabled(2, 0), disabled(3, 0)];
    let gone = after(&[drained], &four[..2], plain());
    assert_eq!((gone.current, gone.recommended), (Some(2), Some(2)), "{}", said(&gone));
}

#[test]
fn a_list_that_becomes_empty_is_no_pool_of_none() {
    let four = workers(&[2, 2, 2, 2]);
    for advice in [
        after(std::slice::from_ref(&four), &[], plain()),
        after(&[], &[], json!({ "memory": { "version": 1, "kind": "druidWorkers", "since": ago(900), "recommended": 4 } })),
        after(&[vec![over(worker(0, 1), json!({ "category": "hot" }))]], &[], plain()),
    ] {
        assert_eq!((advice.outcome, codes(&advice)[0]), (Outcome::Hold, "SuddenZero"), "{}", said(&advice));
        assert!(advice.recommended > Some(0));
    }
    // a pool that was empty all along is only starting, and may be asked for more
    let starting = json!({ "memory": { "version": 1, "kind": "druidWorkers", "since": ago(900), "recommended": 1 }, "policy": { "min": 0, "slotsPerWorker": 4 },
        "snapshot": { "observedAt": NOW, "workers": [], "pending": { "count": 9, "oldestSeconds": 60 } } });
    assert_eq!(after(&[vec![]], &[], starting).recommended, Some(3));
    let drained = after(&[vec![disabled(0, 0)]], &[], plain());
    assert_eq!(drained.recommended, Some(0), "{}", said(&drained));
}

#[test]
fn addresses_and_numbers_of_machines_are_no_ordinals() {
    for names in [["ip-10-0-0-12", "ip-10-0-0-57", "ip-10-0-0-200"], ["vm-1041", "vm-1187", "vm-2003"]] {
        let list: Vec<Value> = names.iter().map(|name| json!({ "host": format!("{name}.ec2.internal:8091"), "capacity": 4, "used": 1 })).collect();
        let told = ask(&list, json!({ "count": 9, "oldestSeconds": 60 }), plain(), plain());
        assert_eq!((told.current, told.recommended), (Some(3), Some(3)), "nine fit on nine free slots: {}", said(&told));
        let counted = after(&[], &list, plain());
        assert_eq!(counted.current, Some(3), "{}", said(&counted));
        assert!(codes(&counted).contains(&"NoOrdinals"), "{}", said(&counted));
    }
}

#[test]
fn a_target_of_several_pools_is_lowered_only_for_workers_that_its_count_is_about() {
    let of = |set: &str, ordinal: u64, used: u64, enabled: bool| json!({ "host": format!("{set}-{ordinal}.mm:8091"), "capacity": 4, "used": used, "enabled": enabled, "category": set.split('_').next() });
    // two StatefulSets, and the count is of one of them: what is idle is of the other
    let list = [of("hot", 0, 4, true), of("hot", 1, 4, true), of("cold", 0, 0, true), of("cold", 1, 0, false)];
    let advice = ask(&list, none(), plain(), json!({ "replicas": { "spec": 2, "ready": 2 } }));
    assert_eq!(advice.recommended, Some(2), "hot-1 would go with four tasks: {}", said(&advice));
    assert!(codes(&advice).contains(&"WorkerListIncomplete"));
    // a pod under two ports is one worker, so the fourth is ready and not in the list
    let mixed = |ordinal: u64, port: u64, used: u64, enabled: bool, category: &str| json!({ "host": format!("mm-{ordinal}.mm:{port}"), "capacity": 4, "used": used, "enabled": enabled, "category": category });
    let list = [mixed(0, 8091, 1, true, "a"), mixed(1, 8091, 1, true, "a"), mixed(1, 8191, 0, true, "a"), mixed(2, 8091, 0, false, "b")];
    let advice = ask(&list, none(), plain(), json!({ "replicas": { "spec": 4, "ready": 4 } }));
    assert_eq!(advice.recommended, Some(4), "{}", said(&advice));
}

#[test]
fn a_pool_that_is_idle_for_long_goes_to_zero_beside_a_busy_one() {
    let of = |set: &str, ordinal: u64, used: u64, enabled: bool| json!({ "host": format!("{set}-{ordinal}.mm:8091"), "capacity": 4, "used": used, "enabled": enabled, "category": set });
    let list = [of("batch", 0, 2, true), of("stream", 0, 0, false)];
    let body = |memory: Value, at: i64| {
        let snapshot = json!({ "observedAt": ago(-at), "workers": list, "pending": none() });
        json!({ "kind": "druidWorkers", "now": ago(-at), "replicas": { "spec": 2, "ready": 2 }, "snapshot": snapshot, "memory": memory,
            "policy": { "min": 0, "idleBeforeZero": "5m", "scaleDown": { "stabilization": "0s" }, "startup": "10s" } })
    };
    let mut memory = json!({ "version": 1, "kind": "druidWorkers", "since": NOW });
    let mut advised = None;
    for minute in 0..12 {
        let text = serde_json::to_vec(&body(memory, 60 * minute)).expect("a body");
        let request = loadline::core::request::parse(&text, ago(-60 * minute).parse().expect("a time")).expect("a request");
        let advice = loadline::core::advise(&request);
        memory = serde_json::to_value(&advice.memory).expect("a memory");
        advised = Some(advice);
    }
    let advice = advised.expect("an advice");
    assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
}
