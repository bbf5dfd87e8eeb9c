//! Consumer groups over time, and the states of a group that a single lag does not tell.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use loadline::core::advice::{ActionKind, Advice, Outcome};
use loadline::core::request::parse;
use serde_json::{Value, json};

const NOW: &str = "2026-11-30T10:00:00Z";

fn later(seconds: u64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now + jiff::SignedDuration::from_secs(i64::try_from(seconds).expect("a short time"))).to_string()
}

fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

fn advise(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

fn ask(spec: u64, snapshot: Value, policy: Value) -> Advice {
    advise(&json!({ "kind": "kafkaGroup", "now": NOW, "replicas": { "spec": spec }, "snapshot": snapshot, "policy": policy }))
}

fn has(advice: &Advice, code: &str) -> bool {
    advice.reasons.iter().any(|reason| reason.code().name() == code) || advice.limits.iter().any(|limit| limit.code.name() == code)
}

fn said(advice: &Advice) -> String {
    let reasons = advice.reasons.iter().map(|reason| format!("{}: {reason}", reason.code().name()));
    reasons
        .chain(advice.limits.iter().map(|limit| format!("{}: {limit}", limit.code.name())))
        .chain(advice.actions.iter().map(|action| action.message.clone()))
        .collect::<Vec<_>>()
        .join("\n")
}

fn input(advice: &Advice, name: &str) -> Option<f64> {
    advice.inputs.iter().find(|input| input.name == name).and_then(|input| input.value)
}

/// A topic whose records arrive evenly, and consumers that each read so many a second. A new consumer works after a
/// minute, a change stops all of them for ten seconds, and a commit comes with each step.
struct Plant {
    seconds: u64,
    ends: Vec<f64>,
    commits: Vec<f64>,
    per_consumer: f64,
    working: u64,
    spec: u64,
    changed: u64,
    stopped_until: u64,
    history: Vec<Value>,
    memory: Value,
    changes: u64,
    policy: Value,
}

const STEP: u64 = 30;

impl Plant {
    fn new(partitions: usize, per_consumer: f64, spec: u64, policy: Value) -> Self {
        Self {
            seconds: 0,
            ends: vec![100_000.0; partitions],
            commits: vec![100_000.0; partitions],
            per_consumer,
            working: spec,
            spec,
            changed: 0,
            stopped_until: 0,
            history: Vec::new(),
            memory: Value::Null,
            changes: 0,
            policy,
        }
    }

    fn lag(&self) -> f64 {
        self.ends.iter().zip(&self.commits).map(|(end, commit)| end - commit).sum()
    }

    /// The member that a partition belongs to.
    fn member(&self, partition: usize) -> usize {
        partition % usize::try_from(self.working.max(1)).expect("small")
    }

    fn live(&mut self, arrival: f64) {
        for _ in 0..STEP {
            self.seconds += 1;
            let each = arrival / f64::from(u32::try_from(self.ends.len()).expect("small"));
            for end in &mut self.ends {
                *end += each;
            }
            if self.working != self.spec && self.seconds >= self.changed + if self.spec > self.working { 60 } else { 1 } {
                self.working = self.spec;
                self.stopped_until = self.seconds + 10;
            }
            if self.seconds < self.stopped_until {
                continue;
            }
            let mut left = vec![self.per_consumer; usize::try_from(self.working.max(1)).expect("small")];
            for partition in 0..self.ends.len() {
                let member = self.member(partition);
                let read = (self.ends[partition] - self.commits[partition]).min(left[member]);
                self.commits[partition] += read;
                left[member] -= read;
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "offsets of a short day")]
    fn reading(&self) -> Value {
        let partitions: Vec<Value> = (0..self.ends.len())
            .map(|partition| json!({ "partition": partition, "committed": self.commits[partition] as u64, "logStart": 0, "logEnd": self.ends[partition] as u64, "member": format!("m{}", self.member(partition)) }))
            .collect();
        json!({ "observedAt": later(self.seconds), "state": "Stable", "members": self.working, "assignor": "cooperative-sticky", "topics": [{ "name": "orders", "retentionSeconds": 604_800, "partitions": partitions }] })
    }

    fn step(&mut self, arrival: f64) -> Advice {
        self.live(arrival);
        let reading = self.reading();
        let advice = advise(
            &json!({ "kind": "kafkaGroup", "now": later(self.seconds), "replicas": { "spec": self.spec, "ready": self.working }, "snapshot": reading, "history": self.history, "policy": self.policy, "memory": self.memory }),
        );
        self.history.push(reading);
        if self.history.len() > 21 {
            self.history.remove(0);
        }
        self.memory = serde_json::to_value(&advice.memory).expect("memory");
        let recommended = advice.recommended.expect("a count");
        if recommended != self.spec {
            (self.spec, self.changed) = (recommended, self.seconds);
            self.changes += 1;
        }
        advice
    }
}

#[test]
fn a_kafka_group_follows_its_load_in_a_few_changes_and_keeps_its_objective() {
    let mut plant = Plant::new(24, 250.0, 4, json!({ "max": 24 }));
    let mut worst_after_rise: f64 = 0.0;
    for minute in 0..150_u64 {
        // ten minutes of 700/s, then 2000/s, then 700/s again
        let arrival = if (10..80).contains(&minute) { 2000.0 } else { 700.0 };
        for _ in 0..2 {
            plant.step(arrival);
        }
        if minute == 79 {
            assert!((9..=12).contains(&plant.spec), "2000/s at 80 % of 250/s are 10: {}", plant.spec);
        }
        if (30..80).contains(&minute) {
            worst_after_rise = worst_after_rise.max(plant.lag());
        }
    }
    assert!(worst_after_rise < 2000.0 * 30.0, "what piled up is gone and stays gone: {worst_after_rise}");
    assert!((3..=6).contains(&plant.spec), "700/s are 3.5: {}", plant.spec);
    assert!(plant.changes <= 10, "{} changes", plant.changes);
}

#[test]
fn a_kafka_group_that_keeps_up_at_full_load_without_a_lag_is_not_cut() {
    let mut plant = Plant::new(24, 250.0, 20, json!({ "max": 24 }));
    let mut before = plant.spec;
    let mut spare: f64 = 0.0;
    for _ in 0..160 {
        plant.step(4000.0);
        assert!(before - plant.spec.min(before) <= 8, "from {before} to {} in one go", plant.spec);
        before = plant.spec;
        spare = spare.max(plant.lag());
    }
    assert!(plant.spec >= 16, "4000/s need 16 at least: {}", plant.spec);
    assert!(spare < 4000.0 * 300.0, "the objective holds meanwhile: {spare}");
}

#[test]
fn a_kafka_group_whose_database_is_at_its_limit_is_not_raised_again_and_again() {
    let mut plant = Plant::new(64, 200.0, 8, json!({ "max": 64 }));
    for _ in 0..60 {
        // the database takes 1600/s, however many ask
        plant.per_consumer = 1600.0 / f64::from(u32::try_from(plant.working).expect("small"));
        plant.step(3000.0);
    }
    assert!(plant.changes <= 3, "{} changes up to {}", plant.changes, plant.spec);
    assert!(plant.spec < 64, "{}", plant.spec);
    plant.per_consumer = 1600.0 / f64::from(u32::try_from(plant.working).expect("small"));
    let advice = plant.step(3000.0);
    assert!(has(&advice, "IneffectiveScaling"), "{}", said(&advice));
}

#[test]
fn a_kafka_group_without_members_is_not_raised_while_replicas_run() {
    let topics = json!([{ "name": "t", "partitionCount": 12 }]);
    let advice = ask(3, json!({ "state": "Empty", "members": 0, "totalLag": 90_000, "topics": topics }), json!({ "perReplicaBacklog": 1000 }));
    assert_eq!((advice.recommended, advice.outcome, has(&advice, "NoMembers")), (Some(3), Outcome::Hold, true), "{}", said(&advice));
    // consumers that assign partitions by hand are no members either, but they commit
    let by_hand =
        ask(3, json!({ "state": "Empty", "members": 0, "totalLag": 9000, "processedPerSecond": 300, "topics": topics }), json!({ "perReplicaBacklog": 1000 }));
    assert!(!has(&by_hand, "NoMembers") && by_hand.recommended > Some(3), "{}", said(&by_hand));
}

#[test]
fn a_kafka_group_that_the_broker_does_not_know_is_an_error_and_not_a_lag_of_zero() {
    let advice = ask(
        3,
        json!({ "group": "ordres", "state": "Dead", "members": 0, "topics": [] }),
        json!({ "min": 0, "idleBeforeZero": "0s", "scaleDown": { "stabilization": "0s" } }),
    );
    assert_eq!((advice.recommended, advice.outcome), (Some(3), Outcome::Hold));
    assert!(said(&advice).contains("there is no group ordres"), "{}", said(&advice));
}

#[test]
fn a_kafka_group_that_rebalances_is_left_alone() {
    for state in ["PreparingRebalance", "COMPLETING_REBALANCE", "Assigning", "Reconciling"] {
        let advice = ask(3, json!({ "state": state, "members": 3, "totalLag": 90_000 }), json!({ "perReplicaBacklog": 1000 }));
        assert_eq!((advice.recommended, has(&advice, "Rebalancing")), (Some(3), true), "{}", said(&advice));
    }
}

#[test]
fn a_kafka_group_id_of_one_instance_is_not_scaled_by_lag() {
    for group in ["cache-6f9619ff-8b86-d011-b42d-00cf4fc964ff", "cache-7c9d5f8b44"] {
        let advice = ask(4, json!({ "group": group, "state": "Stable", "members": 1, "totalLag": 90_000 }), json!({ "perReplicaBacklog": 1000 }));
        assert_eq!((advice.recommended, has(&advice, "PerInstanceGroup")), (Some(4), true), "{}", said(&advice));
    }
    let plain = ask(4, json!({ "group": "orders-consumer", "state": "Stable", "members": 4, "totalLag": 90_000 }), json!({ "perReplicaBacklog": 1000 }));
    assert!(!has(&plain, "PerInstanceGroup"));
}

#[test]
fn kafka_records_behind_a_hanging_transaction_are_named_and_not_sized() {
    let partition = json!({ "partition": 0, "committed": 200, "logStart": 0, "logEnd": 90_000, "lastStable": 200, "commitUnchangedSeconds": 900 });
    let advice = ask(
        1,
        json!({ "state": "Stable", "members": 1, "topics": [{ "name": "t", "partitions": [partition] }] }),
        json!({ "perReplicaBacklog": 100, "isolation": "readCommitted" }),
    );
    assert_eq!((advice.recommended, advice.wanted), (Some(1), Some(0)), "{}", said(&advice));
    assert!(has(&advice, "HangingTransaction") && said(&advice).contains("partition t 0"), "{}", said(&advice));
}

#[test]
fn a_kafka_topic_that_was_created_anew_voids_what_was_measured_before() {
    let reading = |id: &str, committed: u64, end: u64, seconds: i64| json!({ "observedAt": ago(seconds), "state": "Stable", "members": 1, "topics": [{ "name": "t", "id": id, "partitions": [{ "partition": 0, "committed": committed, "logStart": 0, "logEnd": end }] }] });
    let ask = |id: &str, end: u64| {
        advise(&json!({ "kind": "kafkaGroup", "replicas": { "spec": 2 }, "snapshot": reading(id, 10, end, 5), "history": [reading("a", 900, 1000, 200)],
            "policy": { "scaleDown": { "stabilization": "0s" }, "perReplicaPerSecond": 100 } }))
    };
    // by its id even where the end has grown beyond the old one
    for advice in [ask("b", 5000), ask("a", 500)] {
        assert!(has(&advice, "CounterReset") && advice.recommended == Some(2), "{}", said(&advice));
        assert_eq!(input(&advice, "arrivalPerSecond"), None);
    }
}

#[test]
fn kafka_offsets_for_times_tell_the_delay_exactly() {
    let ask = |committed: u64| {
        let partition = json!({ "partition": 0, "committed": committed, "logStart": 0, "logEnd": 10_000, "offsetsByAge": [{ "ageSeconds": 60, "offset": 8000 }, { "ageSeconds": 300, "offset": 5000 }] });
        ask(
            2,
            json!({ "topics": [{ "name": "t", "partitions": [partition, { "partition": 1, "committed": 5, "logStart": 0, "logEnd": 5 }] }] }),
            json!({ "maxLagSeconds": 90, "perReplicaBacklog": 1_000_000 }),
        )
    };
    let (fresh, late, old) = (ask(9000), ask(6000), ask(4000));
    assert_eq!((input(&fresh, "lagSeconds"), input(&late, "lagSeconds"), input(&old, "lagSeconds")), (Some(60.0), Some(300.0), Some(300.0)));
    assert!(!has(&fresh, "LagObjective") && has(&late, "LagObjective"), "{}", said(&late));
    assert!(said(&old).contains("it may be older: true"), "{}", said(&old));
}

#[test]
fn kafka_topics_whose_records_cost_more_are_weighed() {
    let topic = |name: &str, rate: u64| json!({ "name": name, "partitions": [{ "partition": 0, "lag": 0, "arrivalPerSecond": rate, "processedPerSecond": rate }, { "partition": 1, "lag": 0, "arrivalPerSecond": rate, "processedPerSecond": rate }] });
    let policy = json!({ "targetUtilization": 1.0, "startup": "0s", "pause": "0s", "topicPerReplicaPerSecond": { "cheap": 1000, "dear": 100 } });
    let advice = ask(1, json!({ "topics": [topic("cheap", 500), topic("dear", 100)] }), policy);
    // 1000/s are one replica, 200/s are two
    assert_eq!(advice.wanted, Some(3), "{}", said(&advice));
}

#[test]
fn kafka_members_with_an_instance_id_keep_their_partitions_for_a_while_after_a_cut() {
    let snapshot = json!({ "state": "Stable", "members": 6, "staticMembers": true, "sessionTimeoutSeconds": 45, "assignor": "cooperative-sticky", "totalLag": 0,
        "arrivalPerSecond": 600, "processedPerSecond": 600, "topics": [{ "name": "t", "partitionCount": 12 }] });
    let advice = ask(6, snapshot, json!({ "perReplicaPerSecond": 250, "pause": "0s", "scaleDown": { "stabilization": "0s" } }));
    let price = advice.reasons.iter().find(|reason| reason.code().name() == "RebalancePrice").expect("a price");
    let values = &serde_json::to_value(price).expect("json")["values"];
    assert_eq!((advice.recommended, values["pauseSeconds"].as_f64()), (Some(3), Some(45.0)), "{}", said(&advice));
}

#[test]
fn kafka_queue_delay_and_processing_time_are_told_apart() {
    let ask = |queue: f64, processing: f64| {
        ask(
            2,
            json!({ "totalLag": 50, "lagSeconds": 20, "queueDelaySeconds": queue, "processingSeconds": processing }),
            json!({ "perReplicaBacklog": 100, "maxLagSeconds": 100 }),
        )
    };
    assert!(said(&ask(18.0, 2.0)).contains("the waiting that more replicas shorten"));
    let slow = ask(2.0, 120.0);
    assert!(said(&slow).contains("it is the handler") && has(&slow, "ObjectiveUnreachable"), "{}", said(&slow));
    assert!(slow.actions.iter().any(|action| action.action == ActionKind::TuneConsumer));
}

#[test]
fn a_kafka_group_with_its_own_fields_is_refused_where_they_contradict_each_other() {
    for (policy, path) in [
        (json!({ "preset": "keda-kafka", "allowIdle": true, "limitToPartitionsWithLag": true }), "policy.limitToPartitionsWithLag"),
        (json!({ "kedaKafka": {} }), "policy.kedaKafka"),
        (json!({ "heartbeat": { "grace": "5s" } }), "policy.heartbeat.interval"),
        (json!({ "state": { "shardBytes": 10, "limitBytes": 5 } }), "policy.state.limitBytes"),
        (json!({ "coPartitioned": [["orders"]] }), "policy.coPartitioned[0]"),
        (json!({ "topics": [] }), "policy.topics"),
        (json!({ "taskCountMax": 5 }), "policy.taskCountMax"),
    ] {
        let body = json!({ "kind": "kafkaGroup", "snapshot": { "totalLag": 1 }, "policy": policy });
        let refused = parse(&serde_json::to_vec(&body).expect("a body"), NOW.parse().expect("a time")).expect_err("refused");
        assert!(format!("{refused:?}").contains(path), "{refused:?}");
    }
    let twice =
        json!({ "kind": "kafkaGroup", "snapshot": { "topics": [{ "name": "t", "partitions": [{ "partition": 0 }, { "partition": 0 }] }, { "name": "t" }] } });
    let refused = format!("{:?}", parse(&serde_json::to_vec(&twice).expect("a body"), NOW.parse().expect("a time")).expect_err("refused"));
    assert!(refused.contains("snapshot.topics[0].partitions[1].partition") && refused.contains("snapshot.topics[1].name"), "{refused}");
}

#[test]
fn a_kafka_group_that_what_arrives_asks_to_raise_is_raised_whatever_waits() {
    let asked = |lag: u64| {
        advise(&json!({ "kind": "kafkaGroup", "now": NOW, "replicas": { "spec": 31 },
            "snapshot": { "totalLag": lag, "arrivalPerSecond": 1_700.0, "processedPerSecond": 1_700.0 },
            "policy": { "perReplicaPerSecond": 60, "max": 1000, "evenDistribution": false } }))
    };
    // 1,700/s at 48/s each need 36; that a backlog of ten seconds would not be gone sooner is no reason against it
    for lag in [9_000, 17_000, 40_000] {
        let advice = asked(lag);
        assert!(advice.recommended >= Some(36), "{lag}: {}", said(&advice));
    }
}
