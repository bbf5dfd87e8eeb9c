//! Worker, slot and pending-task rows of other tools, on what they get right.
//!
//! MIDAS buys for tasks that fit into free slots, and Druid's own strategy refuses to start from zero without a hint; the
//! rows that show a defect are asked for the right answer, each with its reason.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use loadline::core::advice::Advice;
use loadline::core::kinds::druid::midas::{Room, raise_to};
use loadline::core::request::parse;
use serde_json::{Value, json};

fn ask(workers: &Value, spec: u64, pending: u64, policy: Value, extra: Value) -> Advice {
    let mut snapshot = json!({ "workers": workers, "pending": { "count": pending } });
    snapshot.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
    let body = json!({ "kind": "druidWorkers", "replicas": { "spec": spec, "ready": spec }, "snapshot": snapshot, "policy": policy });
    let request = parse(&serde_json::to_vec(&body).expect("a body"), "2026-11-30T10:00:00Z".parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body}")))
}

fn full(workers: u64, capacity: u64, used: u64) -> Value {
    (0..workers).map(|ordinal| json!({ "host": format!("mm-{ordinal}:8091"), "capacity": capacity, "used": used })).collect()
}

fn number(row: &Value, name: &str) -> u64 {
    row["inputs"][name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"))
}

/// MIDAS: registered + ceil(pending / slots), at most max. Ours is the same when no slot is free.
fn midas(row: &Value) {
    let name = row["name"].as_str().expect("a name");
    let (pending, workers, slots, max) =
        (number(row, "pending_tasks"), number(row, "registered_middle_managers"), number(row, "slots_per_middle_manager"), number(row, "max_middle_managers"));
    let policy = json!({ "min": 0, "max": max, "slotsPerWorker": slots, "rolloverReserve": false });
    let advice = ask(&full(workers, slots, slots), workers, pending, policy.clone(), json!({}));
    let formula = row["expected"]["formula_middle_managers"].as_u64();
    if workers > max {
        // MIDAS does nothing; a busy worker above the bound is not removed either
        assert_eq!(advice.recommended, Some(workers), "{name}");
    } else {
        assert_eq!(advice.recommended, formula, "{name}: {:?}", advice.reasons);
    }
    // the preset answers as MIDAS does: nothing where it does not scale, free slots or not
    let scales = row["expected"]["issues_kubectl_scale"] == json!(true);
    let peer = json!({ "preset": "midas", "min": 0, "max": max, "slotsPerWorker": slots });
    for used in [slots, 3.min(slots)] {
        let advice = ask(&full(workers, slots, used), workers, pending, peer.clone(), json!({}));
        if pending > 0 {
            assert_eq!(raise_to(pending, workers, slots, max), formula.expect("a count"), "{name}");
            assert_eq!(advice.recommended, if scales { formula } else { Some(workers) }, "{name}: {:?}", advice.reasons);
        }
    }
    if name.contains("free_slots_are_ignored") {
        let with_room = ask(&full(workers, slots, 3), workers, pending, policy, json!({}));
        assert_eq!(with_room.recommended, Some(workers), "the free slots are enough");
    }
}

/// Druid's strategy: workers to provision. Where it refuses without a hint, ours starts one worker to learn.
fn pending_task_based(row: &Value) {
    let name = row["name"].as_str().expect("a name");
    if row["inputs"].get("workers").is_none() {
        let advice = ask(&json!([]), 0, 1, json!({ "min": 0 }), json!({}));
        assert_eq!(advice.recommended, Some(1), "{name}: one worker is started to learn its slots");
        return;
    }
    let given = row["inputs"]["workers"].as_array().expect("workers");
    let workers: Value = given
        .iter()
        .enumerate()
        .map(|(ordinal, worker)| {
            let version = if worker["version_valid"] == json!(true) { "1" } else { "0" };
            json!({ "host": format!("mm-{ordinal}:8091"), "capacity": worker["capacity_slots"], "used": worker["used_slots"], "version": version })
        })
        .collect();
    let hint = row["inputs"]["worker_capacity_hint_slots"].as_i64().and_then(|hint| u64::try_from(hint).ok());
    let mut policy =
        json!({ "min": number(row, "min_workers"), "max": number(row, "max_workers"), "scaleUp": { "maxStep": number(row, "max_scaling_step_workers") } });
    if let Some(hint) = hint {
        policy["slotsPerWorker"] = json!(hint);
    }
    let advice = ask(&workers, given.len() as u64, number(row, "pending_single_slot_tasks"), policy, json!({ "minWorkerVersion": "1" }));
    let provision = row["expected"]["workers_to_provision"].as_u64().expect("workers");
    let more = advice.recommended.expect("a count") - given.len() as u64;
    // Druid counts only valid workers against its minimum and maximum. Here a pod of an old version is a pod: it is
    // replaced by its rollout, not by another one beside it, so the bounds leave room for fewer
    let right = match name {
        "pendingtask_old_version_worker_not_counted" | "pendingtask_capacity_from_running_worker_beats_hint" => 1,
        "pendingtask_one_pending_one_full_worker" => 0,
        _ => {
            assert!(given.iter().all(|worker| worker["version_valid"] == json!(true)) || provision == 0, "{name} needs an answer of its own");
            provision
        }
    };
    assert_eq!(more, right, "{name}: {:?} {:?}", advice.reasons, advice.limits);
}

fn slot_demand(row: &Value) {
    // at a rollover the new tasks start while the old ones publish
    let (count, replicas) = (number(row, "task_count"), number(row, "replicas"));
    let (steady, rollover) =
        (row["expected"]["slots_for_steady_state"].as_u64().expect("slots"), row["expected"]["slots_for_rollover"].as_u64().expect("slots"));
    let streaming = |seconds: u64| json!({ "streaming": [{ "supervisor": "orders", "taskCount": count, "replicas": replicas, "stopTaskCount": row["inputs"]["stop_task_count"], "rolloverInSeconds": seconds }] });
    let ask = |seconds: u64| ask(&full(steady, 1, 1), steady, 0, json!({ "max": 1000 }), streaming(seconds)).recommended;
    assert_eq!(ask(100), Some(rollover), "{}", row["name"]);
    assert_eq!(ask(3600), Some(steady), "{}: not yet", row["name"]);
}

fn parallel_limit(row: &Value) {
    // as many supervisor tasks as fit run, one more asks for a worker
    let (capacity, ratio) = (number(row, "worker_capacity_slots"), row["inputs"]["parallel_index_task_slot_ratio"].as_f64().expect("a ratio"));
    let limit = row["expected"]["slots_for_index_parallel_supervisors"].as_u64().expect("slots");
    let ask = |tasks: u64| {
        let list: Vec<Value> = (0..tasks).map(|n| json!({ "id": format!("t{n}"), "type": "index_parallel" })).collect();
        let body = json!({ "parallelIndexTaskSlotRatio": ratio, "pending": { "count": tasks, "tasks": list } });
        ask(&full(1, capacity, 0), 1, 0, json!({ "max": 10 }), body).recommended
    };
    assert_eq!((ask(limit), ask(limit + 1)), (Some(1), Some(2)), "{}", row["name"]);
}

fn blog(row: &Value) {
    // the article divides one variable and tests the remainder of another; the right answer counts what is pending
    let (pending, workers, slots) = (number(row, "pending_tasks"), number(row, "running_middle_managers"), number(row, "slots_per_middle_manager"));
    let advice = ask(
        &full(workers, slots, slots),
        workers,
        pending,
        json!({ "max": number(row, "max_middle_managers") }),
        json!({ "waitingCount": row["inputs"]["waiting_tasks"] }),
    );
    assert_eq!(advice.recommended, row["expected"]["correct_middle_managers"].as_u64(), "{}", row["name"]);
}

/// MIDAS's test whether a worker may be disabled, by its formula and through the preset.
fn disable_check(row: &Value) {
    let name = row["name"].as_str().expect("a name");
    let (registered, disabled, slots) =
        (number(row, "registered_middle_managers"), number(row, "already_disabled_by_midas"), number(row, "slots_per_middle_manager"));
    let (running, on_candidate) = (number(row, "running_tasks_total"), number(row, "running_tasks_on_candidate"));
    let expected = &row["expected"];
    let room = Room::of(registered, disabled, slots, 0.9, running, |_| on_candidate);
    assert_eq!(room.candidate, expected["candidate_ordinal"].as_u64(), "{name}");
    assert_eq!(Some(room.limit), expected["capacity_limit_tasks"].as_u64(), "{name}");
    assert_eq!(Some(room.remaining), expected["remaining_tasks"].as_u64(), "{name}");
    assert_eq!(Some(room.disables()), expected["disable_candidate"].as_bool(), "{name}");
    let candidate = room.candidate.expect("a candidate");
    // an idle last worker goes another way, and one whose other tasks have no place cannot be laid out
    if candidate == 0 || running - on_candidate < disabled {
        return;
    }
    let used = |ordinal: u64| match ordinal {
        ordinal if ordinal == candidate => on_candidate,
        ordinal if ordinal > candidate => 1,
        0 => running - on_candidate - disabled,
        _ => 0,
    };
    let workers: Value = (0..registered)
        .map(|ordinal| json!({ "host": format!("mm-{ordinal}:8091"), "capacity": slots, "used": used(ordinal), "enabled": ordinal <= candidate }))
        .collect();
    let advice = ask(&workers, registered, 0, json!({ "preset": "midas", "slotsPerWorker": slots }), json!({}));
    let steps: Vec<_> = advice.actions.iter().filter_map(|action| action.worker.as_ref()?.ordinal).collect();
    assert_eq!(steps, if room.disables() { vec![candidate] } else { vec![] }, "{name}: {:?}", advice.reasons);
    assert_eq!(advice.recommended, Some(registered), "{name}");
}

/// The article compares nodes with tasks, where the code multiplies by slots.
fn blog_disable(row: &Value) {
    let (running, disabled) = (number(row, "running_middle_managers"), number(row, "disabled_middle_managers"));
    let room =
        Room::of(running, disabled, number(row, "slots_per_middle_manager"), 0.9, number(row, "total_running_tasks"), |_| number(row, "last_mm_running_tasks"));
    assert_eq!(Some(room.limit), row["expected"]["code_limit_tasks"].as_u64(), "{}", row["name"]);
    assert_eq!(Some(room.disables()), row["expected"]["code_disables"].as_bool(), "{}", row["name"]);
}

/// Whole situations: what MIDAS answers. What the right answer is stands in `druid_workers`.
fn scenario(row: &Value) {
    let name = row["name"].as_str().expect("a name");
    let slots = row["inputs"]["slots_per_middle_manager"].as_u64().unwrap_or(15);
    let by_ordinal = |ordinals: &[u64], used: &dyn Fn(u64) -> u64, enabled: &dyn Fn(u64) -> bool| -> Value {
        ordinals.iter().map(|n| json!({ "host": format!("mm-{n}:8091"), "capacity": slots, "used": used(*n), "enabled": enabled(*n) })).collect()
    };
    let running = |n: u64| row["inputs"]["running_tasks_by_ordinal"][n.to_string()].as_u64().unwrap_or(0);
    let peer = |extra: Value| {
        let mut policy = json!({ "preset": "midas", "min": 1, "max": 8, "slotsPerWorker": slots });
        policy.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
        policy
    };
    let steps = |advice: &Advice| advice.actions.iter().filter_map(|action| action.worker.as_ref()?.ordinal).collect::<Vec<_>>();
    match name {
        "midas_scenario_non_contiguous_ordinals_kills_busy_pod" => {
            let advice = ask(&by_ordinal(&[1, 2, 3], &running, &|_| true), 4, 0, peer(json!({})), json!({}));
            assert_eq!(advice.recommended, row["expected"]["midas_new_replicas"].as_u64());
            assert_eq!(Some(running(3)), row["expected"]["tasks_killed"].as_u64());
        }
        "midas_scenario_restart_during_scale_up_shrinks" => {
            let registered = number(row, "registered_middle_managers");
            let advice = ask(&full(registered, slots, slots), number(row, "statefulset_replicas"), number(row, "pending_tasks"), peer(json!({})), json!({}));
            assert_eq!(advice.recommended, row["expected"]["midas_new_replicas"].as_u64());
        }
        "midas_scenario_stuck_scale_up_blocks_forever" => {
            let memory = json!({ "version": 1, "kind": "druidWorkers", "since": "2026-11-29T10:00:00Z", "raisedTo": number(row, "previous_scale_up_target") });
            let body = json!({ "kind": "druidWorkers", "replicas": { "spec": 4 }, "memory": memory, "policy": peer(json!({})),
                "snapshot": { "workers": full(number(row, "registered_middle_managers"), slots, slots), "pending": { "count": number(row, "pending_tasks") } } });
            let request = parse(&serde_json::to_vec(&body).expect("a body"), "2026-11-30T10:00:00Z".parse().expect("a time"));
            let advice = loadline::core::advise(&request.expect("a request"));
            assert_eq!((advice.recommended, advice.actions.len()), (Some(4), 0));
        }
        "midas_scenario_html_instead_of_json_reads_as_idle" => {
            // as MIDAS read it: nothing pending, and nothing on the last worker
            let registered = number(row, "registered_middle_managers");
            let advice = ask(&by_ordinal(&[0, 1, 2], &|n| if n < 2 { 5 } else { 0 }, &|_| true), registered, 0, peer(json!({})), json!({}));
            assert_eq!(advice.recommended, row["expected"]["midas_new_replicas"].as_u64());
        }
        "midas_scenario_middle_node_idle_last_node_one_long_task" => {
            let tick = |disabled: &[u64]| steps(&ask(&by_ordinal(&[0, 1, 2, 3], &running, &|n| !disabled.contains(&n)), 4, 0, peer(json!({})), json!({})));
            assert_eq!((tick(&[]), tick(&[3]), tick(&[3, 2])), (vec![3], vec![2], vec![]), "three ticks");
        }
        other => panic!("{other} is not checked"),
    }
}

/// Truncating 0.9 x tasks as a double loses nothing against whole numbers.
fn arithmetic(row: &Value) {
    assert_eq!(row["expected"]["mismatches_between_int(0.9*x)_and_floor(9x/10)"], json!([]));
    for (ordinal, slots) in (1..60).flat_map(|ordinal| (1..=40).map(move |slots| (ordinal, slots))) {
        assert_eq!(Room::of(ordinal + 1, 0, slots, 0.9, 0, |_| 0).limit, ordinal * slots * 9 / 10, "{ordinal} x {slots}");
    }
}

#[test]
fn rows_about_workers_slots_and_pending_tasks_hold() {
    let vectors: Value = serde_json::from_str(include_str!("vectors/druid-workers.json")).expect("the rows are JSON");
    let mut checked: BTreeMap<&str, u32> = BTreeMap::new();
    for row in vectors["cases"].as_array().expect("rows") {
        let category = row["category"].as_str().expect("a category");
        match category {
            "midas_scale_up" => midas(row),
            "midas_blog_scale_up" => blog(row),
            "midas_disable_check" => disable_check(row),
            "midas_blog_disable_check" => blog_disable(row),
            "midas_scenario" => scenario(row),
            "arithmetic" => arithmetic(row),
            "druid_pending_task_based" => pending_task_based(row),
            "druid_slot_demand" => slot_demand(row),
            "druid_parallel_index_limit" => parallel_limit(row),
            other => panic!("{other} is not checked"),
        }
        *checked.entry(category).or_default() += 1;
    }
    let expected = BTreeMap::from([
        ("arithmetic", 1),
        ("druid_parallel_index_limit", 4),
        ("druid_pending_task_based", 14),
        ("druid_slot_demand", 3),
        ("midas_blog_disable_check", 3),
        ("midas_blog_scale_up", 4),
        ("midas_disable_check", 10),
        ("midas_scenario", 5),
        ("midas_scale_up", 12),
    ]);
    assert_eq!(checked, expected, "no row is skipped");
}
