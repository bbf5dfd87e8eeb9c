//! What counts as a worker, as a slot and as demand.

use loadline::core::advice::{Advice, Outcome};
use serde_json::{Value, json};

use crate::asking::*;

// ---- four counts ----

#[test]
fn wanted_ready_registered_and_enabled_are_four_numbers() {
    let list = vec![worker(0, 4), worker(1, 4), disabled(2, 1)];
    let advice = ask(&list, none(), plain(), json!({ "replicas": { "spec": 5, "ready": 4 } }));
    let value = |name: &str| advice.inputs.iter().find(|input| input.name == name).and_then(|input| input.value);
    assert_eq!(
        [value("wantedReplicas"), value("readyPods"), value("registeredWorkers"), value("enabledWorkers")],
        [Some(5.0), Some(4.0), Some(3.0), Some(2.0)]
    );
}

#[test]
fn a_mismatch_is_named_blocks_lowering_and_blocks_no_raise_that_known_workers_justify() {
    let replicas = json!({ "replicas": { "spec": 6, "ready": 6, "lastChange": { "at": ago(7200), "from": 5, "to": 6 } } });
    // by what is listed: six can go down to one
    let idle = ask(&workers(&[1, 0, 0]), none(), plain(), replicas.clone());
    assert_eq!((idle.recommended, idle.outcome), (Some(6), Outcome::Hold), "{}", said(&idle));
    assert!(codes(&idle).contains(&"WorkerListIncomplete"));
    // three full ones and 20 tasks: five more, on top of the three that are known
    let busy = ask(&workers(&[4, 4, 4]), json!({ "count": 20 }), plain(), replicas);
    assert_eq!(busy.recommended, Some(8), "{}", said(&busy));
    assert!(codes(&busy).contains(&"WorkerListIncomplete") && codes(&busy).contains(&"CapacityNotArriving"));
}

#[test]
fn only_ready_pods_that_are_missing_block_lowering() {
    // pod 3 is not ready and holds no work
    let list = vec![worker(0, 1), worker(1, 0), disabled(2, 0)];
    let advice = ask(&list, none(), plain(), json!({ "replicas": { "spec": 4, "ready": 3 } }));
    assert_eq!(advice.recommended, Some(2), "{}", said(&advice));
}

#[test]
fn starting_workers_are_credited_until_their_deadline_and_not_after_it() {
    let at = |seconds: i64| {
        let change = json!({ "at": ago(seconds), "from": 2, "to": 4 });
        ask(
            &workers(&[4, 4]),
            json!({ "count": 8 }),
            json!({ "startup": "5m" }),
            json!({ "replicas": { "spec": 4, "ready": 2, "starting": 2, "lastChange": change } }),
        )
    };
    // without credit: 6, and then 8
    assert_eq!(at(290).recommended, Some(4));
    assert!(codes(&at(290)).contains(&"StartingWorkers"));
    let late = at(310);
    assert_eq!(late.recommended, Some(4), "they are asked for, and asking again would not bring them: {}", said(&late));
    assert!(codes(&late).contains(&"CapacityNotArriving") && !codes(&late).contains(&"StartingWorkers"));
}

#[test]
fn a_worker_that_has_just_vanished_is_missing_since_then_and_not_since_the_last_change() {
    let reading = |seconds: i64, used: &[u64]| json!({ "observedAt": ago(seconds), "workers": workers(used), "pending": none() });
    let replicas = json!({ "spec": 3, "ready": 2, "lastChange": { "at": ago(86_400), "from": 2, "to": 3 } });
    let gone = |full_until: i64| {
        let history: Vec<Value> =
            (1..40).rev().map(|n| n * 30).map(|at| if at >= full_until { reading(at, &[4, 4, 4]) } else { reading(at, &[4, 4]) }).collect();
        ask(&workers(&[4, 4]), json!({ "count": 4 }), plain(), json!({ "replicas": replicas, "history": history }))
    };
    // by the age of the last change: not arriving since a day
    assert!(!codes(&gone(60)).contains(&"CapacityNotArriving"), "{}", said(&gone(60)));
    assert!(codes(&gone(600)).contains(&"CapacityNotArriving"));
}

// ---- slots and demand ----

#[test]
fn the_slots_of_each_worker_count_by_themselves() {
    // by the first worker's capacity: 20 free; by a mean: something else again
    let list = vec![over(worker(0, 4), json!({ "capacity": 24 })), worker(1, 4), worker(2, 4)];
    let advice = ask(&list, json!({ "count": 26 }), plain(), plain());
    assert_eq!(advice.recommended, Some(5), "20 are free, and six need two workers of the usual four slots: {}", said(&advice));
}

#[test]
fn used_above_capacity_is_no_free_slot_and_no_underflow() {
    let advice = ask(&[worker(0, 9), worker(1, 4)], json!({ "count": 1 }), plain(), plain());
    assert_eq!(advice.recommended, Some(3));
}

#[test]
fn workers_that_get_no_tasks_have_no_free_slots() {
    let old = over(worker(0, 0), json!({ "version": "1" }));
    let listed = |until: i64| over(worker(1, 0), json!({ "version": "2", "blacklistedUntil": ago(until) }));
    let question = |until| ask(&[old.clone(), listed(until)], json!({ "count": 4 }), plain(), json!({ "snapshot": { "minWorkerVersion": "2" } }));
    // by capacity minus used: eight slots are free, and nothing is bought
    assert_eq!(question(-600).recommended, Some(3), "one is too old, one is blacklisted");
    assert_eq!(question(600).recommended, Some(2), "the blacklisting is over");
}

#[test]
fn a_task_of_several_slots_needs_them_on_one_worker() {
    let advice = ask(&workers(&[3, 3, 3]), tasks(&[json!({ "id": "a", "requiredCapacity": 3 })]), plain(), plain());
    assert_eq!(advice.recommended, Some(4), "three free slots on three workers hold no task of three");
}

#[test]
fn two_tasks_of_one_group_do_not_share_a_worker() {
    let pending = tasks(&[json!({ "id": "a", "availabilityGroup": "g" }), json!({ "id": "b", "availabilityGroup": "g" })]);
    let running = over(worker(0, 1), json!({ "availabilityGroups": ["g"] }));
    assert_eq!(ask(&[running, worker(1, 1)], pending, plain(), plain()).recommended, Some(3), "one fits beside the other group");
}

#[test]
fn the_share_for_parallel_supervisors_counts_those_that_run() {
    let pending = tasks(&[json!({ "id": "a", "type": "index_parallel" })]);
    let ratio = json!({ "snapshot": { "parallelIndexTaskSlotRatio": 0.5 } });
    let told = over(worker(0, 2), json!({ "parallelIndexUsed": 2 }));
    assert_eq!(ask(&[told], pending.clone(), plain(), ratio.clone()).recommended, Some(2), "two of four slots may be theirs");
    // nobody tells how many, but the tasks do
    let listed = over(worker(0, 2), json!({ "tasks": [{ "id": "x", "type": "index_parallel" }, { "id": "y", "type": "index_parallel" }] }));
    assert_eq!(ask(&[listed], pending, plain(), ratio).recommended, Some(2));
}

#[test]
fn a_task_counts_once_it_has_waited_for_the_grace_and_blocks_lowering_before() {
    let pending = |age: i64| tasks(&[json!({ "id": "a", "createdTime": ago(age) })]);
    let grace = json!({ "pendingGrace": "30s" });
    assert_eq!(ask(&workers(&[4, 4]), pending(29), grace.clone(), plain()).recommended, Some(2));
    assert_eq!(ask(&workers(&[4, 4]), pending(31), grace.clone(), plain()).recommended, Some(3));
    let young = ask(&[worker(0, 1), disabled(1, 0)], pending(1), grace, plain());
    assert_eq!(young.recommended, Some(2), "something waits: {}", said(&young));
}

#[test]
fn waiting_for_a_lock_is_no_demand() {
    let advice = ask(&workers(&[4, 4]), none(), plain(), json!({ "snapshot": { "waitingCount": 50 } }));
    assert_eq!((advice.recommended, advice.outcome), (Some(2), Outcome::Keep));
}

#[test]
fn all_that_waits_is_packed_at_once() {
    let advice = ask(&workers(&[4, 4]), json!({ "count": 37 }), plain(), plain());
    assert_eq!((advice.recommended, advice.wanted), (Some(12), Some(12)));
    assert!(said(&advice).contains("10 more workers of 4 slots"), "{}", said(&advice));
}

#[test]
fn tasks_that_wait_although_there_is_room_are_a_fault_and_buy_nothing() {
    let advice = ask(&workers(&[1, 1]), json!({ "count": 3, "oldestSeconds": 600 }), plain(), plain());
    assert_eq!((advice.recommended, codes(&advice)[0]), (Some(2), "AssignmentFault"));
}

#[test]
fn copies_of_a_streaming_task_need_a_worker_each() {
    // by slots alone: two are free, and the copy waits for ever
    let stream = json!({ "snapshot": { "streaming": [{ "supervisor": "orders", "taskCount": 1, "replicas": 3, "rolloverInSeconds": 3000 }] } });
    let advice = ask(&workers(&[1, 1]), json!({ "count": 1, "oldestSeconds": 300 }), plain(), stream.clone());
    assert_eq!(advice.recommended, Some(3), "{}", said(&advice));
    assert!(codes(&advice).contains(&"ReplicasApart") && !codes(&advice).contains(&"AssignmentFault"));
    // nor is one of them given up
    let list = [worker(0, 1), worker(1, 1), disabled(2, 0), disabled(3, 0)];
    assert_eq!(ask(&list, none(), plain(), stream).recommended, Some(3));
}

#[test]
fn a_task_that_only_a_full_larger_worker_could_take_is_not_placeable() {
    // "0 more workers" would be no answer, nor is one more of four slots
    let large = over(worker(0, 16), json!({ "capacity": 16 }));
    let advice = ask(&[large, worker(1, 4), worker(2, 4)], tasks(&[json!({ "id": "a", "requiredCapacity": 10 })]), plain(), plain());
    assert_eq!(advice.recommended, Some(3));
    assert!(codes(&advice).contains(&"NotPlaceable") && said(&advice).contains("1 pending task (10 slots)"), "{}", said(&advice));
}

#[test]
fn what_can_never_be_placed_does_not_keep_idle_workers() {
    // by the number of pending tasks: nothing is lowered for ever
    let list = [worker(0, 1), disabled(1, 0)];
    for task in [json!({ "id": "a", "requiredCapacity": 10 }), json!({ "id": "a", "placeable": false })] {
        let advice = ask(&list, tasks(&[task]), plain(), plain());
        assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
        assert!(codes(&advice).contains(&"NotPlaceable"));
    }
}

// ---- from and to zero ----

#[test]
fn from_zero_one_worker_is_started_to_learn_and_with_a_hint_as_many_as_it_takes() {
    let unknown = ask(&[], json!({ "count": 9 }), json!({ "min": 0 }), plain());
    assert_eq!(unknown.recommended, Some(1));
    assert!(said(&unknown).contains("a size that is not known yet"), "{}", said(&unknown));
    assert_eq!(ask(&[], json!({ "count": 9 }), json!({ "min": 0, "slotsPerWorker": 4 }), plain()).recommended, Some(3));
    let little = ask(&[], json!({ "count": 9 }), json!({ "min": 0, "activationBacklog": 9 }), plain());
    assert_eq!((little.recommended, little.active), (Some(0), Some(false)), "nine are not above nine");
}

#[test]
fn while_the_first_worker_starts_no_other_is_asked_for() {
    let advice = ask(&[], json!({ "count": 9 }), json!({ "min": 0 }), json!({ "replicas": { "spec": 1, "ready": 0, "starting": 1, "secondsSinceStart": 20 } }));
    assert_eq!(advice.recommended, Some(1), "{}", said(&advice));
}

#[test]
fn zero_waits_for_its_quiet_time_and_says_so_by_its_own_name() {
    let memory = |seconds: i64| json!({ "memory": { "version": 1, "kind": "druidWorkers", "since": ago(86_400), "lastActiveAt": ago(seconds) } });
    let early = ask(&[disabled(0, 0)], none(), json!({ "min": 0 }), memory(100));
    assert_eq!((early.recommended, early.outcome), (Some(1), Outcome::Hold));
    assert!(codes(&early).contains(&"IdleWait") && !codes(&early).contains(&"Cooldown"), "{:?}", codes(&early));
    assert_eq!(ask(&[disabled(0, 0)], none(), json!({ "min": 0 }), memory(400)).recommended, Some(0));
}

// ---- hand-overs ----

fn stream(rollover: Value, stop: Value) -> Value {
    json!({ "supervisor": "orders", "taskCount": 4, "replicas": 1, "stopTaskCount": stop, "rolloverInSeconds": rollover })
}

#[test]
fn a_hand_over_that_is_due_keeps_its_slots_and_no_more() {
    let question = |stream: Value| ask(&workers(&[4, 4]), none(), json!({ "startup": "5m" }), json!({ "snapshot": { "streaming": [stream] } })).recommended;
    assert_eq!(question(stream(json!(360), Value::Null)), Some(3), "five minutes of start and two intervals");
    assert_eq!(question(stream(json!(361), Value::Null)), Some(2));
    assert_eq!(question(stream(json!(60), json!(1))), Some(3), "one group at a time");
    let many = ask(
        &workers(&[4, 4]),
        none(),
        plain(),
        json!({ "snapshot": { "streaming": [over(stream(json!(60), json!(2)), json!({ "taskCount": 40, "replicas": 3 }))] } }),
    );
    assert_eq!(many.recommended, Some(4), "2 x 3 slots: {}", said(&many));
    // readings two minutes apart: it has to be known earlier
    let history = json!([{ "observedAt": ago(120), "workers": workers(&[4, 4]), "pending": none() }]);
    let apart = ask(&workers(&[4, 4]), none(), plain(), json!({ "snapshot": { "streaming": [stream(json!(500), Value::Null)] }, "history": history }));
    assert_eq!(apart.recommended, Some(3), "{}", said(&apart));
}

#[test]
fn an_unknown_hand_over_blocks_lowering_and_raises_nothing() {
    let unknown = json!({ "snapshot": { "streaming": [stream(Value::Null, Value::Null)] } });
    assert_eq!(ask(&workers(&[4, 4]), none(), plain(), unknown.clone()).recommended, Some(2));
    let advice = ask(&[worker(0, 4), disabled(1, 0)], none(), json!({ "headroomRatio": 1.0 }), unknown);
    assert_eq!((advice.recommended, advice.outcome), (Some(2), Outcome::Hold));
    assert!(codes(&advice).contains(&"RolloverReserve"));
}

#[test]
fn slots_for_a_hand_over_are_kept_in_the_pool_that_runs_the_stream() {
    let of = |category: &str, ordinal: usize, used: u64| {
        over(worker(ordinal, used), json!({ "host": format!("mm-{category}-{ordinal}:8091"), "category": category }))
    };
    let running = over(of("stream", 0, 4), json!({ "tasks": (0..4).map(|n| json!({ "id": format!("index_kafka_orders_a{n}_b") })).collect::<Vec<_>>() }));
    let question = |streaming: Value| ask(&[of("batch", 0, 4), running.clone()], none(), plain(), json!({ "snapshot": { "streaming": [streaming] } }));
    let to = |advice: &Advice| advice.parts.iter().map(|part| (part.id.clone(), part.recommended)).collect::<Vec<_>>();
    // once in each pool: four workers
    let by_tasks = question(stream(json!(60), Value::Null));
    assert_eq!(to(&by_tasks), [("batch".to_owned(), Some(1)), ("stream".to_owned(), Some(2))]);
    let told = question(over(stream(json!(60), Value::Null), json!({ "category": "batch" })));
    assert_eq!(to(&told), [("batch".to_owned(), Some(2)), ("stream".to_owned(), Some(1))]);
}

// ---- pools ----

#[test]
fn pools_have_bounds_of_their_own_and_leave_the_others_alone() {
    let of = |category: &str, ordinal: usize, used: u64| {
        over(worker(ordinal, used), json!({ "host": format!("mm-{category}-{ordinal}:8091"), "category": category }))
    };
    let pending: Vec<Value> = (0..40).map(|n| json!({ "id": format!("t{n}"), "category": if n < 20 { "stream" } else { "gpu" } })).collect();
    let policy = json!({ "pools": { "stream": { "min": 1, "max": 3 }, "batch": { "min": 2, "max": 9 } } });
    let advice = ask(
        &[of("batch", 0, 0), of("batch", 1, 0), of("batch", 2, 0), of("stream", 0, 4), of("gpu", 0, 4)],
        tasks(&pending),
        policy,
        json!({ "replicas": {} }),
    );
    let to: Vec<_> = advice.parts.iter().map(|part| (part.id.as_str(), part.recommended, part.wanted)).collect();
    assert_eq!(to, [("batch", Some(3), Some(0)), ("stream", Some(3), Some(6))], "{}", said(&advice));
    assert!(said(&advice).contains("1 worker and 20 pending tasks"), "{}", said(&advice));
}

#[test]
fn pools_that_share_a_set_do_not_lower_below_each_other() {
    // ordinals 0 and 1 are one category, 2 and 3 another: counted from zero, "batch" would have four, and "stream" two that can go
    let of = |category: &str, ordinal: usize, used: u64, enabled: bool| over(worker(ordinal, used), json!({ "category": category, "enabled": enabled }));
    let list = [of("stream", 0, 1, true), of("stream", 1, 0, false), of("batch", 2, 1, true), of("batch", 3, 0, false)];
    let advice = ask(&list, none(), plain(), json!({ "replicas": {} }));
    let part = |id: &str| advice.parts.iter().find(|part| part.id == id).map(|part| (part.current, part.recommended));
    assert_eq!(part("stream"), Some((Some(2), Some(2))), "ordinal 3 goes first: {}", said(&advice));
    assert_eq!(part("batch"), Some((Some(2), Some(1))), "{}", said(&advice));
    assert_eq!((advice.current, advice.recommended), (Some(4), Some(3)));
}

#[test]
fn an_ordinal_that_stands_twice_tells_no_order() {
    // of two sets in one category: ordinal 1 of the second one runs something
    let of = |set: &str, ordinal: usize, used: u64| over(disabled(ordinal, used), json!({ "host": format!("{set}-{ordinal}:8091"), "enabled": used > 0 }));
    let advice = ask(&[of("a", 0, 1), of("b", 0, 0), of("a", 1, 0), of("b", 1, 1)], none(), plain(), plain());
    assert_eq!((advice.recommended, advice.outcome), (Some(4), Outcome::Hold), "{}", said(&advice));
    assert!(codes(&advice).contains(&"NoOrdinals"));
}

#[test]
fn a_pod_that_came_back_on_another_port_is_one_worker() {
    let old = worker(1, 2);
    let new = over(worker(1, 1), json!({ "host": "mm-1.mm.druid.svc:8191" }));
    // as two workers: one free slot more than there is, and a count of three
    let advice = ask(&[worker(0, 4), old, new], json!({ "count": 2 }), plain(), json!({ "replicas": { "spec": 2, "ready": 2 } }));
    assert_eq!((advice.current, advice.recommended), (Some(2), Some(3)), "{}", said(&advice));
    assert!(codes(&advice).contains(&"WorkerListedTwice"));
    // two processes on one machine have no ordinal and are two
    let local = |port: u32| over(worker(0, 4), json!({ "host": format!("localhost:{port}") }));
    assert_eq!(ask(&[local(8091), local(8092)], none(), plain(), json!({ "replicas": {} })).current, Some(2));
}
