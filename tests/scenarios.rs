//! Decisions in a row: what is carried in `memory` from one answer to the next question.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use loadline::core::advice::{Advice, Outcome};
use loadline::core::request::parse;
use serde_json::{Value, json};

const START: &str = "2026-11-30T10:00:00Z";

fn at(seconds: i64) -> String {
    let start: jiff::Timestamp = START.parse().expect("a time");
    (start + jiff::SignedDuration::from_secs(seconds)).to_string()
}

/// A target that is asked again and again; its count follows the advice when told to.
struct Target {
    policy: Value,
    memory: Value,
    spec: u64,
    follows: bool,
}

impl Target {
    fn new(spec: u64, policy: Value) -> Self {
        let first = ask(
            &json!({ "kind": "backlog", "now": at(0), "replicas": { "spec": spec }, "snapshot": { "observedAt": at(0), "backlog": 0 }, "policy": { "perReplicaBacklog": 1 } }),
        );
        // the memory of a target that is seen for the first time, without the wish of that first look
        let mut memory = serde_json::to_value(&first.memory).expect("memory");
        memory.as_object_mut().expect("an object").remove("wishes");
        Self { policy, memory, spec, follows: true }
    }

    fn ask(&mut self, seconds: i64, snapshot: Value) -> Advice {
        let mut snapshot = snapshot;
        if snapshot.is_object() {
            snapshot["observedAt"] = json!(at(seconds));
        }
        let body = json!({ "kind": "backlog", "now": at(seconds), "replicas": { "spec": self.spec }, "snapshot": snapshot, "policy": self.policy, "memory": self.memory });
        let advice = ask(&body);
        self.memory = serde_json::to_value(&advice.memory).expect("memory");
        if let (true, Some(recommended)) = (self.follows, advice.recommended) {
            self.spec = recommended;
        }
        advice
    }

    fn backlog(&mut self, seconds: i64, backlog: i64) -> Advice {
        self.ask(seconds, json!({ "backlog": backlog }))
    }
}

fn ask(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), START.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

fn codes(advice: &Advice) -> Vec<&'static str> {
    advice.reasons.iter().map(|reason| reason.code().name()).chain(advice.limits.iter().map(|limit| limit.code.name())).collect()
}

fn threshold(extra: Value) -> Value {
    let mut policy = json!({ "perReplicaBacklog": 100, "max": 50 });
    policy.as_object_mut().expect("an object").extend(extra.as_object().cloned().expect("an object"));
    policy
}

#[test]
fn the_largest_wish_of_the_window_is_kept_and_an_old_one_never_raises() {
    let mut target = Target::new(10, threshold(json!({ "scaleDown": { "stabilization": "5m" } })));
    assert_eq!(target.backlog(30, 1000).recommended, Some(10));
    let quieter = target.backlog(60, 400);
    assert_eq!((quieter.recommended, quieter.wanted, quieter.outcome), (Some(10), Some(4), Outcome::Hold));
    assert!(codes(&quieter).contains(&"WindowNotFull"), "{:?}", codes(&quieter));
    // the window is full, and ten were wanted within it
    let still = target.backlog(301, 400);
    assert_eq!(still.recommended, Some(10));
    assert!(codes(&still).contains(&"ScaleDownStabilized"), "{:?}", codes(&still));
    assert_eq!(target.backlog(331, 300).recommended, Some(4), "ten were wanted more than five minutes ago, four since");
    // someone sets three by hand: the four of the window does not raise it again
    target.spec = 3;
    assert_eq!(target.backlog(361, 300).recommended, Some(3));
}

#[test]
fn cooldowns_go_by_direction_and_say_what_is_left() {
    let policy = threshold(json!({ "scaleUp": { "cooldown": "60s" }, "scaleDown": { "stabilization": "0s", "cooldown": "900s" } }));
    let question = |backlog: u64| {
        ask(
            &json!({ "kind": "backlog", "now": at(0), "replicas": { "spec": 8, "lastChange": { "at": at(-120), "from": 4, "to": 8 } }, "snapshot": { "observedAt": at(0), "backlog": backlog }, "policy": policy }),
        )
    };
    assert_eq!(question(1600).recommended, Some(16), "the waiting time for raises is over");
    let down = question(400);
    assert_eq!((down.recommended, down.outcome), (Some(8), Outcome::Hold));
    assert!(serde_json::to_string(&down.limits).expect("json").contains("13m"), "780 s are left: {:?}", down.limits);
}

#[test]
fn a_reading_from_before_the_last_change_moves_nothing() {
    let body = json!({ "kind": "backlog", "now": at(0), "replicas": { "spec": 8, "lastChange": { "at": at(-60), "from": 4, "to": 8 } }, "snapshot": { "observedAt": at(-100), "backlog": 9000 }, "policy": threshold(json!({})) });
    let advice = ask(&body);
    assert_eq!((advice.recommended, advice.outcome, codes(&advice)[0]), (Some(8), Outcome::Hold, "ReadingOlderThanLastChange"));
}

#[test]
fn steps_and_factors_bound_one_decision() {
    let mut target = Target::new(4, threshold(json!({ "scaleUp": { "maxStep": 3 }, "scaleDown": { "stabilization": "0s", "maxFactor": 0.5 } })));
    assert_eq!(target.backlog(30, 5000).recommended, Some(7));
    assert_eq!(target.backlog(60, 5000).recommended, Some(10));
    assert_eq!(target.backlog(90, 100).recommended, Some(5), "half at most");
}

#[test]
fn a_pause_holds_and_still_shows_the_wish() {
    let mut target = Target::new(4, threshold(json!({ "paused": true })));
    let advice = target.backlog(30, 1000);
    assert_eq!((advice.recommended, advice.wanted, advice.outcome, codes(&advice)[0]), (Some(4), Some(10), Outcome::Hold, "Paused"));
}

#[test]
fn a_scheduled_floor_lifts_and_is_named() {
    // 10:00 on a Monday
    let mut target = Target::new(2, threshold(json!({ "floors": [{ "period": "Mon-Fri 09:00-11:00", "min": 8 }] })));
    let advice = target.backlog(30, 100);
    assert_eq!((advice.recommended, advice.bounds.min), (Some(8), 8));
    assert!(codes(&advice).contains(&"ScheduledFloor") && codes(&advice).contains(&"MinReplicas"));
    let later =
        ask(&json!({ "kind": "backlog", "now": "2026-11-30T11:30:00Z", "replicas": { "spec": 2 }, "snapshot": { "backlog": 100 }, "policy": target.policy }));
    assert_eq!(later.recommended, Some(1), "outside the period");
}

#[test]
fn hysteresis_keeps_a_count_that_is_hardly_too_small_or_too_large() {
    let ask = |backlog: u64| {
        ask(
            &json!({ "kind": "backlog", "replicas": { "spec": 10 }, "snapshot": { "backlog": backlog }, "policy": threshold(json!({ "hysteresisRatio": 0.1 })) }),
        )
    };
    for (backlog, recommended) in [(1050, 10), (1101, 12), (850, 10), (800, 8)] {
        assert_eq!(ask(backlog).recommended, Some(recommended), "{backlog}");
    }
}

#[test]
fn a_hold_ends_at_the_fallback_or_without_a_number() {
    let mut held = Target::new(6, threshold(json!({ "onUnknown": { "holdAtMost": "10m" } })));
    held.backlog(30, 600);
    assert_eq!(held.ask(300, Value::Null).recommended, Some(6));
    let ended = held.ask(700, Value::Null);
    assert_eq!((ended.recommended, ended.outcome), (None, Outcome::Hold));
    assert!(codes(&ended).contains(&"HoldExpired"));

    let mut fallen = Target::new(6, threshold(json!({ "onUnknown": { "holdAtMost": "10m", "fallback": 9, "afterFailures": 100 } })));
    fallen.backlog(30, 600);
    let advice = fallen.ask(700, Value::Null);
    assert_eq!((advice.recommended, codes(&advice)[0]), (Some(9), "Fallback"));
    assert_eq!(advice.valid_until.map(|until| until.to_string()), Some(at(700 + 120)), "a fallback is a number of its own");
}

#[test]
fn a_backlog_that_is_gone_in_one_reading_is_believed_at_the_second() {
    let mut target = Target::new(10, threshold(json!({ "min": 0, "scaleDown": { "stabilization": "0s" }, "idleBeforeZero": "0s" })));
    target.backlog(30, 140_000);
    let spec = target.spec;
    let sudden = target.backlog(60, 0);
    assert_eq!((sudden.recommended, codes(&sudden)[0]), (Some(spec), "SuddenZero"));
    assert_eq!(target.backlog(90, 0).recommended, Some(0));
}

#[test]
fn a_group_that_keeps_up_with_unknown_capacity_is_probed_down_one_step_at_a_time() {
    let mut target = Target::new(10, json!({ "scaleDown": { "stabilization": "2m" } }));
    let mut counts = Vec::new();
    for step in 1..30 {
        counts.push(target.ask(step * 30, json!({ "backlog": 0, "arrivalPerSecond": 100.0, "servedPerSecond": 100.0 })).recommended.expect("a count"));
    }
    assert!(counts.windows(2).all(|pair| pair[0] - pair[1] <= 1), "one step at a time: {counts:?}");
    assert!(counts.last() < Some(&9), "{counts:?}");
}

#[test]
fn a_count_that_someone_else_keeps_changing_is_said() {
    let mut target = Target::new(4, threshold(json!({ "scaleDown": { "stabilization": "0s" } })));
    target.follows = false;
    let mut last = target.backlog(30, 1000);
    for (step, spec) in [(60, 5), (90, 4), (120, 5)] {
        target.spec = spec;
        last = target.backlog(step, 1000);
    }
    assert!(codes(&last).contains(&"ChangedByOthers"), "{:?}", codes(&last));
}

#[test]
fn memory_of_another_kind_is_ignored_and_that_is_said() {
    let advice = ask(
        &json!({ "kind": "backlog", "replicas": { "spec": 4 }, "snapshot": { "backlog": 400 }, "policy": threshold(json!({})), "memory": { "version": 1, "kind": "flinkJob", "since": at(-600) } }),
    );
    assert_eq!(advice.recommended, Some(4));
    assert!(codes(&advice).contains(&"MemoryIgnored"));
}

#[test]
fn a_raise_that_brought_nothing_is_named_and_holds_where_the_policy_says_so() {
    let job = |seconds: i64, parallelism: u64, started: i64| {
        json!({ "observedAt": at(seconds), "state": "RUNNING", "runningSince": at(started), "vertices": [{ "id": "v", "name": "v", "parallelism": parallelism, "inputs": [],
            "busyRatio": { "max": 1.0, "avg": 1.0 }, "recordsInPerSecond": 1000.0, "recordsOutPerSecond": 1000.0, "pendingRecords": 3_000_000 }] })
    };
    let policy = json!({ "ineffective": { "threshold": 0.5, "block": true }, "stabilizationAfterStart": "0s", "catchUpWithin": "1h" });
    let before = ask(&json!({ "kind": "flinkJob", "now": at(0), "snapshot": job(0, 4, -86_400), "policy": policy }));
    let raised = before.parts[0].recommended.expect("a parallelism");
    assert!(raised > 4);
    // as many records as before, with more subtasks
    let after = ask(&json!({ "kind": "flinkJob", "now": at(900), "snapshot": job(900, raised, 60), "policy": policy, "memory": before.memory }));
    assert_eq!((after.parts[0].recommended, after.outcome), (Some(raised), Outcome::Hold));
    assert!(codes(&after).contains(&"IneffectiveScaling"), "{:?}", codes(&after));
}

#[test]
fn a_backlog_alone_raises_where_what_arrives_is_not_known_and_lowers_nothing() {
    // naive: nothing is known of the rates, so a large backlog changes nothing
    let of = |spec: u64, backlog: u64| {
        ask(
            &json!({ "kind": "backlog", "now": START, "replicas": { "spec": spec }, "snapshot": { "observedAt": START, "backlog": backlog }, "policy": { "perReplicaPerSecond": 100, "max": 50 } }),
        )
    };
    let large = of(2, 120_000);
    assert_eq!(large.recommended, Some(7), "120000 in 230 s at 80/s each: {:?}", large.reasons);
    assert_eq!(large.reasons[0].code().name(), "BacklogCatchUp");
    let small = of(5, 10);
    assert_eq!((small.recommended, small.outcome), (Some(5), Outcome::Hold));
    assert!(codes(&small).contains(&"DemandUnknown"), "{:?}", codes(&small));
}

#[test]
fn a_threshold_divides_the_backlog_and_not_what_is_in_work() {
    let advice = ask(
        &json!({ "kind": "backlog", "now": START, "replicas": { "spec": 2 }, "snapshot": { "observedAt": START, "backlog": 4000, "inFlight": 1000 }, "policy": { "perReplicaBacklog": 500 } }),
    );
    assert_eq!(advice.wanted, Some(8));
}

#[test]
fn a_missed_objective_is_no_time_to_have_fewer() {
    // naive: three old messages need three replicas at most, so seven go
    let missed = json!({ "observedAt": START, "backlog": 3, "oldestSeconds": 600, "arrivalPerSecond": 1, "servedPerSecond": 1 });
    let policy = |more: Value| {
        let mut policy = json!({ "perReplicaPerSecond": 100, "scaleDown": { "stabilization": "0s" } });
        policy.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        policy
    };
    let of = |snapshot: &Value, more: Value| {
        ask(&json!({ "kind": "backlog", "now": START, "replicas": { "spec": 10 }, "snapshot": snapshot, "policy": policy(more) }))
    };
    let advice = of(&missed, json!({ "maxLagSeconds": 60 }));
    assert_eq!((advice.recommended, advice.outcome, advice.reasons[0].code().name()), (Some(10), Outcome::Hold, "LagObjective"));
    assert!(of(&missed, json!({})).recommended < Some(10), "without an objective fewer do");
    // one that no count can meet is missed as well, as long as something waits
    let unreachable = of(&missed, json!({ "catchUpWithin": "30s" }));
    assert_eq!((unreachable.recommended, unreachable.reasons[0].code().name()), (Some(10), "ObjectiveUnreachable"));
}
