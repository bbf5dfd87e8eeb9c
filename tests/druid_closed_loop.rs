//! A Druid pool that lives with the advice: a StatefulSet that kills its highest ordinals, workers that boot, restart and
//! drain, tasks of random lengths and bursts. Every 30 s a reading is judged, and two seconds later its steps are
//! performed: disable, enable, scale. What is killed by scaling is counted, for our rule and for MIDAS's on the same load.

#![expect(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::cast_precision_loss, reason = "a test fails by panicking, and prints its figures")]

use std::collections::VecDeque;

use loadline::core::advice::{ActionKind, Advice};
use loadline::core::request::parse;
use serde_json::{Value, json};

const SLOTS: usize = 4;
const BOOT_SECONDS: i64 = 90;
const STEPS: i64 = 3_000;
/// The load ends here, so that the pool has time to come down.
const LOAD_ENDS: i64 = (STEPS - 500) * 30;
const START: i64 = 1_796_000_000;

fn time(at: i64) -> String {
    jiff::Timestamp::from_second(START + at).expect("a time").to_string()
}

/// A small generator: the load must be the same for both rules and on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

#[derive(Clone, Copy)]
struct Task {
    length: i64,
    ends: i64,
    since: i64,
}

/// A pod; it is registered from `up` on.
struct Pod {
    up: i64,
    enabled: bool,
    tasks: Vec<Task>,
}

#[derive(Debug, Default)]
struct Tally {
    done: usize,
    killed_by_scaling: usize,
    lost_to_restarts: usize,
    longest_wait_seconds: i64,
    worker_hours: f64,
    changes: usize,
}

struct Cluster {
    now: i64,
    pods: Vec<Pod>,
    pending: VecDeque<Task>,
    changed: i64,
    tally: Tally,
}

impl Cluster {
    fn new() -> Self {
        Self { now: 0, pods: vec![Pod { up: 0, enabled: true, tasks: Vec::new() }], pending: VecDeque::new(), changed: 0, tally: Tally::default() }
    }

    /// One second: tasks end and are placed on the fullest worker that has room, as `fillCapacity` does.
    fn second(&mut self) {
        self.now += 1;
        let now = self.now;
        for pod in &mut self.pods {
            let before = pod.tasks.len();
            pod.tasks.retain(|task| task.ends > now);
            self.tally.done += before - pod.tasks.len();
        }
        while let Some(task) = self.pending.front().copied() {
            let open = self.pods.iter_mut().filter(|pod| pod.enabled && pod.up <= now && pod.tasks.len() < SLOTS);
            let Some(pod) = open.max_by_key(|pod| pod.tasks.len()) else { break };
            self.pending.pop_front();
            self.tally.longest_wait_seconds = self.tally.longest_wait_seconds.max(now - task.since);
            pod.tasks.push(Task { ends: now + task.length, ..task });
        }
        self.tally.worker_hours += self.pods.len() as f64 / 3600.0;
    }

    /// A pod dies and comes back: its tasks are lost, whoever scales.
    fn restart(&mut self, ordinal: usize) {
        let now = self.now;
        if let Some(pod) = self.pods.get_mut(ordinal) {
            self.tally.lost_to_restarts += pod.tasks.len();
            *pod = Pod { up: now + BOOT_SECONDS, enabled: true, tasks: Vec::new() };
        }
    }

    fn reading(&self) -> Value {
        let workers: Vec<Value> = self
            .pods
            .iter()
            .enumerate()
            .filter(|(_, pod)| pod.up <= self.now)
            .map(|(ordinal, pod)| {
                let tasks: Vec<Value> = (0..pod.tasks.len()).map(|n| json!({ "id": format!("t{n}"), "phase": "running" })).collect();
                json!({ "host": format!("mm-{ordinal}.mm:8091"), "capacity": SLOTS, "used": pod.tasks.len(), "enabled": pod.enabled, "tasks": tasks })
            })
            .collect();
        let oldest = self.pending.front().map(|task| self.now - task.since);
        json!({ "observedAt": time(self.now), "workers": workers, "pending": { "count": self.pending.len(), "oldestSeconds": oldest }, "selectStrategy": "fillCapacity" })
    }

    fn replicas(&self) -> Value {
        let ready = self.pods.iter().filter(|pod| pod.up <= self.now).count();
        json!({ "spec": self.pods.len(), "ready": ready, "lastChange": { "at": time(self.changed) } })
    }

    fn perform(&mut self, advice: &Advice) {
        for action in &advice.actions {
            let enabled = match action.action {
                ActionKind::EnableWorker => true,
                ActionKind::DisableWorker => false,
                _ => continue,
            };
            let ordinal = action.worker.as_ref().and_then(|worker| worker.ordinal).expect("an ordinal");
            if let Some(pod) = self.pods.get_mut(usize::try_from(ordinal).expect("small")).filter(|pod| pod.up <= self.now) {
                pod.enabled = enabled;
            }
        }
        let count = usize::try_from(advice.recommended.expect("a number")).expect("small");
        if count != self.pods.len() {
            self.tally.changes += 1;
            self.changed = self.now;
        }
        while self.pods.len() > count {
            let pod = self.pods.pop().expect("a pod");
            self.tally.killed_by_scaling += pod.tasks.len();
        }
        while self.pods.len() < count {
            self.pods.push(Pod { up: self.now + BOOT_SECONDS, enabled: true, tasks: Vec::new() });
        }
    }
}

fn advise(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), "2026-11-30T10:00:00Z".parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

/// Lives through a load; `policy` decides. Answers the figures and the count at the end.
fn live(seed: u64, policy: &Value) -> (Tally, usize, usize) {
    let (mut cluster, mut random, mut memory) = (Cluster::new(), Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), Value::Null);
    let mut answer = None;
    for step in 0..STEPS {
        if step > 0 && cluster.now < LOAD_ENDS {
            // a task now and then, and a burst every two hours or so
            let arriving = if random.below(240) == 0 { 20 + random.below(60) } else { random.below(3) / 2 };
            for _ in 0..arriving {
                let length = i64::try_from(if random.below(10) == 0 { 1800 + random.below(3600) } else { 30 + random.below(900) }).expect("small");
                cluster.pending.push_back(Task { length, ends: 0, since: cluster.now });
            }
            if random.below(400) == 0 {
                let ordinal = random.below(cluster.pods.len() as u64);
                cluster.restart(usize::try_from(ordinal).expect("small"));
            }
        }
        for second in 0..30 {
            if second == 28 {
                let at = time(cluster.now);
                let advice = advise(
                    &json!({ "kind": "druidWorkers", "now": at, "replicas": cluster.replicas(), "snapshot": cluster.reading(), "policy": policy, "memory": memory }),
                );
                memory = serde_json::to_value(&advice.memory).expect("a memory");
                answer = Some(advice);
            }
            cluster.second();
            // a task may be placed between the reading and the step
            if second == 28 && cluster.now < LOAD_ENDS && random.below(3) == 0 {
                cluster.pending.push_back(Task { length: 600, ends: 0, since: cluster.now });
            }
        }
        if let Some(advice) = answer.take() {
            cluster.perform(&advice);
        }
    }
    (cluster.tally, cluster.pods.len(), cluster.pending.len())
}

#[test]
fn no_task_is_lost_to_scaling_and_the_pool_comes_down_where_midas_kills() {
    let ours = json!({ "min": 1, "max": 30, "startup": "2m", "drain": "perform" });
    let midas = json!({ "preset": "midas", "min": 1, "max": 30, "slotsPerWorker": SLOTS });
    let mut killed_by_midas = 0;
    for seed in 1..=2 {
        let (tally, count, pending) = live(seed, &ours);
        println!("seed {seed}, ours:  {tally:?}, {count} workers and {pending} pending at the end");
        assert_eq!(tally.killed_by_scaling, 0, "seed {seed}: {tally:?}");
        assert!(tally.done > 1000, "seed {seed}: {tally:?}");
        assert_eq!((pending, count), (0, 1), "seed {seed}: {tally:?}");
        assert!(tally.longest_wait_seconds <= 300, "seed {seed}: {tally:?}");
        let (tally, count, pending) = live(seed, &midas);
        println!("seed {seed}, MIDAS: {tally:?}, {count} workers and {pending} pending at the end");
        killed_by_midas += tally.killed_by_scaling;
    }
    assert!(killed_by_midas > 0, "MIDAS's rule is known to kill what runs");
}
