//! What streaming supervisors need of their workers, and which of them may take what.

use serde_json::{Value, json};

use crate::asking::*;

fn stream(name: &str, tasks: u64, rollover: u64) -> Value {
    json!({ "supervisor": name, "taskCount": tasks, "rolloverInSeconds": rollover })
}

#[test]
fn successors_that_are_pending_are_not_asked_for_twice() {
    let publishing =
        |first: u64| -> Vec<Value> { (first..first + 4).map(|n| json!({ "id": format!("index_kafka_o_old_{n}"), "phase": "publishing" })).collect() };
    let list = [over(worker(0, 4), json!({ "tasks": publishing(0) })), over(worker(1, 4), json!({ "tasks": publishing(4) }))];
    let waiting: Vec<Value> = (0..8).map(|n| json!({ "id": format!("index_kafka_o_new_{n}"), "type": "index_kafka" })).collect();
    let pending = json!({ "count": 8, "oldestSeconds": 30, "tasks": waiting });
    let advice = ask(&list, pending, plain(), json!({ "snapshot": { "streaming": [stream("o", 8, 0)] } }));
    assert_eq!(advice.recommended, Some(4), "eight publish and eight follow them: {}", said(&advice));
}

#[test]
fn what_a_spec_asks_for_is_kept_before_it_is_pending_and_not_bought() {
    let streaming = json!({ "snapshot": { "streaming": [stream("o", 12, 3000)] } });
    let kept = ask(&workers(&[1, 0, 0, 0]), none(), json!({ "headroomRatio": 1.0 }), streaming.clone());
    assert_eq!((kept.wanted, kept.active), (Some(3), Some(true)), "twelve tasks take three workers: {}", said(&kept));
    let bought = ask(&workers(&[1, 0]), none(), plain(), streaming);
    assert_eq!(bought.recommended, Some(2), "{}", said(&bought));
    // whose tasks run is told by their ids: those of `o_2` are not those of `o`
    let others: Vec<Value> = (0..4).map(|n| json!({ "id": format!("index_kafka_o_2_ab_{n}"), "phase": "reading" })).collect();
    let list = [over(worker(0, 4), json!({ "tasks": others })), over(worker(1, 0), json!({ "tasks": [] })), over(worker(2, 0), json!({ "tasks": [] }))];
    let two = json!({ "snapshot": { "streaming": [stream("o", 4, 3000), stream("o_2", 4, 3000)] } });
    let advice = ask(&list, none(), json!({ "headroomRatio": 1.0 }), two);
    assert_eq!(advice.wanted, Some(2), "{}", said(&advice));
}

#[test]
fn from_no_worker_at_all_a_task_with_a_category_is_started_for_like_any_other() {
    let task = |id: &str, category: Value| json!({ "id": id, "category": category });
    for list in [json!([task("a", json!("hot")), task("b", json!("hot"))]), json!([task("a", json!("hot")), task("b", Value::Null)])] {
        let pending = json!({ "count": 2, "oldestSeconds": 60, "tasks": list });
        let advice = ask(&[], pending, json!({ "min": 0, "slotsPerWorker": 4 }), plain());
        assert!(advice.recommended > Some(0), "{}", said(&advice));
    }
}

#[test]
fn where_more_than_free_slots_decides_they_are_not_said_to_be_a_fault() {
    let pending = || json!({ "count": 2, "oldestSeconds": 600 });
    let fault =
        |strategy: &str| codes(&ask(&workers(&[4, 0]), pending(), plain(), json!({ "snapshot": { "selectStrategy": strategy } }))).contains(&"AssignmentFault");
    assert_eq!(["fillCapacity", "equalDistribution"].map(fault), [true, true]);
    assert_eq!(["fillCapacityWithAffinity", "fillCapacityWithCategorySpec", "javascript"].map(fault), [false; 3]);
    // the only category that may take them is known
    let task = json!({ "id": "t", "category": "_default_worker_category" });
    let named = json!({ "count": 1, "oldestSeconds": 600, "tasks": [task] });
    let advice = ask(&workers(&[4, 0]), named, plain(), json!({ "snapshot": { "selectStrategy": "fillCapacityWithCategorySpec" } }));
    assert!(codes(&advice).contains(&"AssignmentFault"), "{}", said(&advice));
}

#[test]
fn slots_that_are_free_and_of_no_use_are_explained() {
    let with = |list: &[Value], task: Value, more: Value| {
        let pending = json!({ "count": 1, "oldestSeconds": 90, "tasks": [over(json!({ "id": "t" }), task)] });
        said(&ask(list, pending, plain(), more))
    };
    let group = |ordinal, used| over(worker(ordinal, used), json!({ "availabilityGroups": ["g"] }));
    for (text, expected) in [
        (with(&[group(0, 3), group(1, 1)], json!({ "availabilityGroup": "g" }), plain()), "same availability group"),
        (with(&workers(&[3, 3, 3]), json!({ "requiredCapacity": 3 }), plain()), "more slots than any worker has free"),
        (
            with(
                &[over(worker(0, 2), json!({ "parallelIndexUsed": 2 }))],
                json!({ "type": "index_parallel" }),
                json!({ "snapshot": { "parallelIndexTaskSlotRatio": 0.5 } }),
            ),
            "index_parallel tasks may take no more",
        ),
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let never = json!({ "snapshot": { "parallelIndexTaskSlotRatio": 0.25 } });
    let text = with(&workers(&[0]), json!({ "type": "index_parallel", "requiredCapacity": 2 }), never);
    assert!(text.contains("not placeable on any worker"), "no worker of this size may take it: {text}");
}

#[test]
fn workers_without_slots_are_not_said_to_be_missing() {
    let advice = ask(&[over(worker(0, 0), json!({ "capacity": 0 }))], json!({ "count": 5, "oldestSeconds": 60 }), plain(), plain());
    assert!(said(&advice).contains("have no slots"), "{}", said(&advice));
}
