//! A supervisor over time, and laws that hold for whatever is asked of one.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use loadline::core::advice::{Advice, Outcome};
use loadline::core::request::parse;
use loadline::core::units::Timestamp;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

fn later(seconds: u64) -> Timestamp {
    let now: Timestamp = NOW.parse().expect("a time");
    now + jiff::SignedDuration::from_secs(i64::try_from(seconds).expect("a short time"))
}

fn advise(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

/// A Kafka stream of 24 partitions and the tasks that read it, 1000 records a second each. A change makes all of them
/// publish for three minutes; the new ones read after half a minute.
struct Plant {
    seconds: u64,
    tasks: u64,
    latest: f64,
    read: f64,
    rate: f64,
    changed_at: Option<u64>,
    started_at: u64,
}

const PARTITIONS: u64 = 24;
const PER_TASK: f64 = 1000.0;
const PUBLISHES: u64 = 180;
const STARTS: u64 = 30;

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small whole numbers")]
impl Plant {
    fn step(&mut self, seconds: u64, arrives: f64) {
        self.seconds += seconds;
        self.latest += arrives * seconds as f64;
        let reads = self.changed_at.is_none_or(|at| self.seconds >= at + STARTS);
        let can = if reads { self.tasks as f64 * PER_TASK * seconds as f64 } else { 0.0 };
        let before = self.read;
        self.read = (self.read + can).min(self.latest);
        self.rate = (self.read - before) / seconds as f64;
    }

    fn lag(&self) -> f64 {
        self.latest - self.read
    }

    fn publishes(&self) -> bool {
        self.changed_at.is_some_and(|at| self.seconds < at + PUBLISHES)
    }

    fn reading(&self) -> Value {
        let each = |whole: f64| -> Value {
            (0..PARTITIONS).map(|n| (n.to_string(), json!((whole / PARTITIONS as f64) as u64))).collect::<serde_json::Map<_, _>>().into()
        };
        let runs = self.changed_at.is_none_or(|at| self.seconds >= at + STARTS);
        json!({ "observedAt": later(self.seconds), "supervisor": "orders", "state": "RUNNING", "stream": "kafka", "taskCount": self.tasks,
            "readingTasks": if runs { self.tasks } else { 0 }, "publishingTasks": if self.publishes() { self.tasks } else { 0 }, "taskAgeSeconds": self.seconds - self.started_at,
            "partitions": PARTITIONS, "latestOffsets": each(self.latest), "currentOffsets": each(self.read), "offsetsAgeSeconds": 0, "processedPerSecond": self.rate })
    }

    fn set(&mut self, tasks: u64) {
        self.tasks = tasks;
        self.changed_at = Some(self.seconds);
        self.started_at = self.seconds;
    }
}

/// Follows the advice for as long as the load lasts; gives the largest lag, the counts over time, and the last advice.
fn follow(load: &[(u64, f64)], policy: &Value) -> (f64, Vec<(u64, u64)>, Advice) {
    let mut plant = Plant { seconds: 0, tasks: 3, latest: 0.0, read: 0.0, rate: 0.0, changed_at: None, started_at: 0 };
    let (mut history, mut memory): (VecDeque<Value>, Value) = (VecDeque::new(), Value::Null);
    let (mut worst, mut changes, mut last) = (0.0f64, Vec::new(), None);
    for (minutes, arrives) in load {
        for _ in 0..minutes * 2 {
            plant.step(30, *arrives);
            worst = worst.max(plant.lag());
            let reading = plant.reading();
            let advice = advise(
                &json!({ "kind": "druidSupervisor", "now": later(plant.seconds), "snapshot": reading, "history": history, "policy": policy, "memory": memory }),
            );
            history.push_back(reading);
            if history.len() > 30 {
                history.pop_front();
            }
            memory = serde_json::to_value(&advice.memory).expect("a memory");
            if let Some(to) = advice.recommended.filter(|to| *to != plant.tasks) {
                assert!(!plant.publishes(), "a change while tasks publish: {:?}", advice.reasons);
                plant.set(to);
                changes.push((plant.seconds / 60, to));
            }
            last = Some(advice);
        }
    }
    (worst, changes, last.expect("an advice"))
}

#[test]
fn a_step_of_the_load_is_followed_up_and_down_with_few_changes() {
    // naive: two tasks at a time each ten minutes once the lag is six million, and back one by one
    let load = [(30, 2000.0), (90, 9000.0), (120, 2000.0)];
    let (worst, changes, last) = follow(&load, &json!({ "max": 24 }));
    assert!(worst / 9000.0 < 600.0, "{} s of arrivals at worst: {changes:?}", worst / 9000.0);
    let at_peak = changes.iter().filter(|(minute, _)| *minute < 120).map(|(_, tasks)| *tasks).max().expect("a raise");
    assert!((10..=24).contains(&at_peak), "{changes:?}");
    assert!(last.recommended.is_some_and(|tasks| (2..=6).contains(&tasks)), "2000/s at 80 % of 1000/s are three tasks: {changes:?} {:?}", last.reasons);
    assert!(changes.len() <= 6, "{changes:?}");
}

#[test]
fn a_steady_load_changes_nothing_for_hours() {
    let (worst, changes, _) = follow(&[(360, 2300.0)], &json!({ "max": 24, "perReplicaPerSecond": 1000 }));
    assert!(changes.is_empty() && worst < 1.0, "{changes:?}");
}

#[test]
fn a_supervisor_that_keeps_up_is_probed_down_and_never_cut_in_one_go() {
    let (_, changes, _) = follow(&[(180, 500.0)], &json!({ "max": 24 }));
    let counts: Vec<u64> = std::iter::once(3).chain(changes.iter().map(|(_, tasks)| *tasks)).collect();
    assert!(counts.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 1), "{changes:?}");
    assert!(changes.first().is_none_or(|(minute, _)| *minute >= 9), "not before the window is full: {changes:?}");
}

fn reading() -> impl Strategy<Value = Value> {
    let tasks = (1u64..40, of(1u64..4), of(0u64..60), of(0u64..4), of(0.0f64..4000.0), of(1u64..40));
    let stream = (
        of(vec(-5i64..200_000, 1..20)),
        of(-5i64..5_000_000),
        of(0.0f64..1e5),
        of(0.0f64..1e5),
        of(0.0f64..1.0),
        prop::bool::ANY,
        of((0u64..60, of(0u64..60))),
    );
    (tasks, stream).prop_map(|((count, copies, reads, publishes, age, partitions), (lags, backlog, arrival, rate, idle, is_time, slots))| {
        let lags: Option<serde_json::Map<String, Value>> = lags.map(|lags| lags.into_iter().enumerate().map(|(n, lag)| (n.to_string(), json!(lag))).collect());
        json!({ "observedAt": NOW, "taskCount": count, "replicas": copies, "readingTasks": reads, "publishingTasks": publishes, "taskAgeSeconds": age, "partitions": partitions,
            "partitionLag": lags, "lagUnit": if is_time { "milliseconds" } else { "records" }, "backlogRecords": backlog, "arrivalPerSecond": arrival, "processedPerSecond": rate,
            "idleRatio": idle, "workerSlots": slots.map(|(total, others)| json!({ "total": total, "usedByOthers": others })) })
    })
}

fn policy() -> impl Strategy<Value = Value> {
    (1u64..6, 0u64..40, of(1.0f64..3000.0), of(1.0f64..600.0), prop::bool::ANY, prop::bool::weighted(0.2)).prop_map(
        |(min, more, capacity, lag, even, thresholds)| {
            let mut policy =
                json!({ "taskCountMin": min, "taskCountMax": min + more, "perReplicaPerSecond": capacity, "maxLagSeconds": lag, "evenDistribution": even });
            if thresholds {
                policy["preset"] = json!("druid-lag-based");
            }
            policy
        },
    )
}

fn ask(reading: &Value, policy: &Value) -> Advice {
    advise(&json!({ "kind": "druidSupervisor", "now": NOW, "snapshot": reading, "policy": policy }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn bounds_partitions_and_slots_hold_and_the_trace_adds_up(reading in reading(), policy in policy()) {
        let advice = ask(&reading, &policy);
        let text = serde_json::to_string(&advice).expect("an answer is JSON");
        prop_assert!(!text.contains("NaN") && !text.contains("inf") && !advice.reasons.is_empty());
        let (current, recommended) = (advice.current.expect("taskCount"), advice.recommended.expect("a count"));
        let (min, max) = (policy["taskCountMin"].as_u64().expect("min"), policy["taskCountMax"].as_u64().expect("max"));
        let partitions = reading["partitions"].as_u64().unwrap_or(u64::MAX);
        prop_assert!(recommended <= max.max(current), "{recommended} above {max}");
        if recommended > current {
            prop_assert!(recommended <= partitions, "{recommended} of {partitions} partitions");
            if let Some(total) = reading["workerSlots"]["total"].as_u64() {
                let others = reading["workerSlots"]["usedByOthers"].as_u64().unwrap_or(0);
                prop_assert!(recommended * reading["replicas"].as_u64().unwrap_or(1) <= total.saturating_sub(others), "{recommended} tasks in {total} slots");
            }
        }
        if recommended < current {
            prop_assert!(recommended >= min.min(partitions), "{recommended} below {min}");
        }
        prop_assert_eq!(advice.outcome == Outcome::Change, recommended != current);
        if recommended != current {
            // from the wish, or from the present count where the wish is held
            let mut value = advice.limits.first().map_or(recommended, |limit| limit.from);
            prop_assert!(value == current || Some(value) == advice.wanted, "{:?}", advice.limits);
            for limit in &advice.limits {
                prop_assert!(limit.from != limit.to && limit.at.is_finite());
                // a change that is taken back goes on from the present count
                prop_assert!(limit.from == value || limit.from == current, "{:?}", advice.limits);
                value = limit.to;
            }
            prop_assert_eq!(value, recommended);
        }
    }

    #[test]
    fn nothing_is_lowered_on_doubt(mut reading in reading(), mut policy in policy()) {
        policy["taskCountMax"] = json!(100);
        let current = reading["taskCount"].as_u64();
        for (field, value) in [("offsetsAgeSeconds", json!(3600)), ("observedAt", json!("2026-11-30T09:00:00Z")), ("backlogRecords", json!(-1)), ("publishingTasks", json!(2)),
            ("readingTasks", json!(0)), ("state", json!("UNHEALTHY_TASKS")), ("state", json!("SUSPENDED")), ("overlordUptimeSeconds", json!(5))] {
            let kept = reading[field].clone();
            reading[field] = value.clone();
            let advice = ask(&reading, &policy);
            prop_assert!(advice.recommended >= current, "{field} {value}: {:?}", advice.reasons);
            reading[field] = kept;
        }
        let missing = ask(&Value::Null, &policy);
        prop_assert_eq!(missing.recommended, None, "not even the count is known");
    }

    #[test]
    fn more_load_never_gives_fewer_tasks(lag in 0u64..5_000_000, more in 0u64..5_000_000, arrival in 0.0f64..2e4, faster in 0.0f64..2e4, current in 1u64..40) {
        let of = |lag: u64, arrival: f64| {
            let reading = json!({ "observedAt": NOW, "taskCount": current, "backlogRecords": lag, "arrivalPerSecond": arrival });
            ask(&reading, &json!({ "perReplicaPerSecond": 1000, "max": 10_000, "evenDistribution": false })).recommended
        };
        prop_assert!(of(lag + more, arrival) >= of(lag, arrival));
        prop_assert!(of(lag, arrival + faster) >= of(lag, arrival));
    }

    #[test]
    fn the_same_question_has_the_same_answer(reading in reading(), policy in policy()) {
        prop_assert_eq!(serde_json::to_string(&ask(&reading, &policy)).expect("json"), serde_json::to_string(&ask(&reading, &policy)).expect("json"));
    }
}
