//! A small Flink in a closed loop: what `advise` tells is done, and what comes of it is what it reads next.
//!
//! The plant is a chain (or a diamond) of vertices of known cost, selectivity and scaling exponent, with bounded buffers
//! in between, so that a slow vertex holds back those before it. A rescale stops it for a while and starts every counter
//! anew; rates, busy and backpressured times are averages over the last minute, and every reading is noisy. It models the
//! lab against which a real Flink is tested: an operator at parallelism p does `p^exponent x 1e6 / cost` records a second.
//! What is counted are rescales: too many of them are how an advisor of streaming jobs fails.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking, shows what it counted, and its numbers are small"
)]

use std::collections::VecDeque;

use loadline::core::advice::Advice;
use loadline::core::request::parse;
use serde_json::{Value, json};

const START: i64 = 1_796_032_800;
/// Buffers between two vertices hold so many seconds of what the sender can do.
const BUFFER_SECONDS: f64 = 2.0;
const GAUGE_SECONDS: usize = 60;

fn time(seconds: i64) -> String {
    jiff::Timestamp::from_second(START + seconds).expect("a time").to_string()
}

/// What an operator is.
#[derive(Clone)]
struct Operator {
    name: &'static str,
    /// Records per second of one subtask.
    per_subtask: f64,
    /// 1 is proportional.
    exponent: f64,
    /// Records out for each one in.
    selectivity: f64,
    input: Option<usize>,
    keyed: bool,
}

impl Operator {
    fn source(name: &'static str, per_subtask: f64) -> Self {
        Self { name, per_subtask, exponent: 1.0, selectivity: 1.0, input: None, keyed: false }
    }

    fn after(input: usize, name: &'static str, per_subtask: f64) -> Self {
        Self { name, per_subtask, exponent: 1.0, selectivity: 1.0, input: Some(input), keyed: false }
    }

    fn capacity(&self, parallelism: u64) -> f64 {
        self.per_subtask * (parallelism as f64).powf(self.exponent)
    }
}

/// What an operator does.
#[derive(Clone)]
struct Running {
    parallelism: u64,
    queue: f64,
    read: f64,
    written: f64,
    busy_total: f64,
    /// (read, written, busy, backpressured) of each second of the last minute.
    seconds: VecDeque<(f64, f64, f64, f64)>,
}

impl Running {
    fn new(parallelism: u64) -> Self {
        Self { parallelism, queue: 0.0, read: 0.0, written: 0.0, busy_total: 0.0, seconds: VecDeque::new() }
    }
}

/// The job.
struct Plant {
    operators: Vec<Operator>,
    running: Vec<Running>,
    now: i64,
    running_since: i64,
    stopped_until: i64,
    next: Option<Vec<u64>>,
    backlog: f64,
    restart: i64,
    partitions: u64,
    noise: f64,
    seed: u64,
    slots_per_task_manager: Option<u64>,
    restarts: u64,
    rescales: Vec<(i64, Vec<u64>, Vec<u64>)>,
}

impl Plant {
    fn new(operators: Vec<Operator>, parallelism: &[u64], restart: i64) -> Self {
        let running = parallelism.iter().map(|p| Running::new(*p)).collect();
        Self {
            operators,
            running,
            now: 0,
            running_since: -600,
            stopped_until: 0,
            next: None,
            backlog: 0.0,
            restart,
            partitions: 12,
            noise: 0.0,
            seed: 7,
            slots_per_task_manager: None,
            restarts: 0,
            rescales: Vec::new(),
        }
    }

    /// A number between -1 and 1, always the same row of them.
    fn random(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.seed >> 33) as f64) / f64::from(1_u32 << 30) - 1.0
    }

    fn jitter(&mut self, value: f64) -> f64 {
        let noise = self.noise;
        value * (1.0 + noise * self.random())
    }

    fn parallelism(&self) -> Vec<u64> {
        self.running.iter().map(|operator| operator.parallelism).collect()
    }

    fn rescale(&mut self, to: Vec<u64>) {
        self.rescales.push((self.now, self.parallelism(), to.clone()));
        self.next = Some(to);
        self.stopped_until = self.now + self.restart;
    }

    /// One second in which so many records arrive.
    fn second(&mut self, arrival: f64) {
        self.now += 1;
        let arrived = self.jitter(arrival);
        self.backlog += arrived;
        if self.now < self.stopped_until {
            return;
        }
        if let Some(to) = self.next.take() {
            // what was under way is read again after a restart
            let under_way: f64 = self.running.iter().skip(1).map(|operator| operator.queue).sum();
            self.backlog += under_way;
            self.running = to.into_iter().map(Running::new).collect();
            self.running_since = self.now;
            self.restarts += 1;
        }
        // from the end to the start, so that room is known
        for position in (0..self.operators.len()).rev() {
            let operator = self.operators[position].clone();
            let capacity = operator.capacity(self.running[position].parallelism);
            let waiting = if operator.input.is_none() { self.backlog } else { self.running[position].queue };
            let mut room = f64::INFINITY;
            for (after, next) in self.operators.iter().enumerate() {
                if next.input == Some(position) {
                    let size = BUFFER_SECONDS * capacity * operator.selectivity;
                    room = room.min((size.max(50.0) - self.running[after].queue).max(0.0) / operator.selectivity);
                }
            }
            let able = waiting.min(capacity);
            let done = able.min(room);
            let busy = done / capacity;
            let back_pressured = if able > room { (1.0 - busy).max(0.0) } else { 0.0 };
            if operator.input.is_none() {
                self.backlog -= done;
            } else {
                self.running[position].queue -= done;
            }
            for after in 0..self.operators.len() {
                if self.operators[after].input == Some(position) {
                    self.running[after].queue += done * operator.selectivity;
                }
            }
            let running = &mut self.running[position];
            running.read += done;
            running.written += done * operator.selectivity;
            running.busy_total += busy * running.parallelism as f64;
            running.seconds.push_back((done, done * operator.selectivity, busy, back_pressured));
            if running.seconds.len() > GAUGE_SECONDS {
                running.seconds.pop_front();
            }
        }
    }

    fn reading(&mut self) -> Value {
        let is_up = self.next.is_none();
        let mut vertices = Vec::new();
        for position in 0..self.operators.len() {
            let operator = self.operators[position].clone();
            let running = self.running[position].clone();
            let mean = |of: fn(&(f64, f64, f64, f64)) -> f64| running.seconds.iter().map(of).sum::<f64>() / running.seconds.len().max(1) as f64;
            // meters divide by the whole minute, so that they climb after a start
            let meter = |of: fn(&(f64, f64, f64, f64)) -> f64| running.seconds.iter().map(of).sum::<f64>() / GAUGE_SECONDS as f64;
            let busy = self.jitter(mean(|second| second.2)).clamp(0.0, 1.0);
            let back = mean(|second| second.3);
            let (read, written) = (self.jitter(meter(|second| second.0)), meter(|second| second.1));
            let mut vertex = json!({ "id": format!("{position:032x}"), "name": operator.name, "parallelism": running.parallelism, "maxParallelism": 48,
                "slotSharingGroup": "default", "inputs": [], "busyRatio": { "max": busy, "avg": busy * 0.97, "min": busy * 0.9 },
                "backPressuredRatio": { "max": back, "avg": back }, "accumulatedBusySeconds": running.busy_total,
                "recordsInPerSecond": read, "recordsOutPerSecond": written, "recordsIn": running.read.round() as u64, "recordsOut": running.written.round() as u64 });
            match operator.input {
                None => {
                    let backlog = self.backlog;
                    // what waits is counted, and only a little late
                    vertex["pendingRecords"] = json!((backlog * (1.0 + 0.1 * self.noise * self.random())).round() as u64);
                    vertex["partitions"] = json!(self.partitions);
                }
                Some(input) => {
                    vertex["inputs"] = json!([{ "from": format!("{input:032x}"), "shipStrategy": if operator.keyed { "HASH" } else { "REBALANCE" } }]);
                }
            }
            vertices.push(vertex);
        }
        json!({ "observedAt": time(self.now), "jobId": "f1a30000000000000000000000000001", "state": if is_up { "RUNNING" } else { "RESTARTING" },
            "runningSince": time(self.running_since), "restarts": self.restarts, "slotsPerTaskManager": self.slots_per_task_manager, "vertices": vertices })
    }

    /// True when nothing is held back.
    fn is_free(&self) -> bool {
        self.running.iter().all(|operator| operator.seconds.iter().map(|second| second.3).sum::<f64>() < 0.05 * GAUGE_SECONDS as f64)
    }
}

/// The plant, and who advises it.
struct Loop {
    plant: Plant,
    policy: Value,
    interval: i64,
    memory: Value,
    history: VecDeque<Value>,
    keep: usize,
    slot_seconds: f64,
    late_seconds: i64,
}

impl Loop {
    fn new(plant: Plant, policy: Value) -> Self {
        Self {
            plant,
            policy,
            interval: 15,
            memory: json!({ "version": 1, "kind": "flinkJob", "since": time(60) }),
            history: VecDeque::new(),
            keep: 10,
            slot_seconds: 0.0,
            late_seconds: 0,
        }
    }

    /// A minute before the advisor comes, so that the meters are full.
    fn warm_up(&mut self, arrival: f64) {
        for _ in 0..GAUGE_SECONDS {
            self.plant.second(arrival);
        }
    }

    fn run(&mut self, seconds: i64, arrival: impl Fn(i64) -> f64) {
        let end = self.plant.now + seconds;
        while self.plant.now < end {
            let now = self.plant.now;
            self.plant.second(arrival(now));
            self.slot_seconds += self.plant.parallelism().into_iter().max().unwrap_or(0) as f64;
            self.late_seconds += i64::from(self.plant.backlog > 300.0 * arrival(now));
            if self.plant.now % self.interval == 0 {
                self.ask();
            }
        }
    }

    fn ask(&mut self) {
        let reading = self.plant.reading();
        let body = json!({ "kind": "flinkJob", "now": time(self.plant.now), "snapshot": reading, "history": self.history, "policy": self.policy, "memory": self.memory });
        let request = parse(&serde_json::to_vec(&body).expect("a body"), jiff::Timestamp::from_second(START).expect("a time"));
        let advice: Advice = loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?}")));
        self.memory = serde_json::to_value(&advice.memory).expect("a memory");
        self.history.push_back(reading);
        if self.history.len() > self.keep {
            self.history.pop_front();
        }
        let to: Vec<u64> = advice.parts.iter().map(|part| part.recommended.expect("a parallelism")).collect();
        if self.plant.next.is_none() && to != self.plant.parallelism() {
            if std::env::var_os("SHOW").is_some() {
                println!("{:>6} {:?} -> {to:?}", self.plant.now, self.plant.parallelism());
                for reason in &advice.reasons {
                    println!("        {}: {reason}", reason.code().name());
                }
            }
            self.plant.rescale(to);
        }
    }

    fn rescales(&self) -> usize {
        self.plant.rescales.len()
    }
}

/// The lab's pipeline: `Enrich` is the slow one.
fn pipeline(exponent: f64) -> Vec<Operator> {
    vec![
        Operator::source("Source: orders", 6000.0),
        Operator::after(0, "Parse", 5000.0),
        Operator { exponent, ..Operator::after(1, "Enrich", 1000.0) },
        Operator { keyed: true, selectivity: 0.1, ..Operator::after(2, "Count", 4000.0) },
        Operator::after(3, "Out", 3000.0),
    ]
}

fn quick(more: &Value) -> Value {
    let mut policy = json!({ "window": "90s", "stabilizationAfterStart": "20s", "scaleDown": { "stabilization": "2m" }, "catchUpWithin": "4m", "max": 64 });
    policy.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
    policy
}

/// One subtask of each, 4000/s, then half of it for two hours: (rescales up, rescales down, rescales later, the loop).
fn day(policy: Value, exponent: f64) -> (usize, usize, usize, Loop) {
    let mut plant = Plant::new(pipeline(exponent), &[1, 1, 1, 1, 1], 20);
    plant.noise = 0.05;
    let mut run = Loop::new(plant, policy);
    run.warm_up(4000.0);
    run.run(1800, |_| 4000.0);
    let up = run.rescales();
    assert!(run.plant.is_free(), "held back at {:?} after {:?}", run.plant.parallelism(), run.plant.rescales);
    run.run(900, |_| 2000.0);
    let down = run.rescales() - up;
    run.run(2 * 3600, |_| 2000.0);
    let later = run.rescales() - up - down;
    (up, down, later, run)
}

#[test]
fn from_one_subtask_of_each_to_no_backpressure_in_two_rescales_and_down_once_when_the_rate_halves() {
    for exponent in [1.0, 0.9, 0.8] {
        let (up, down, later, run) = day(quick(&json!({})), exponent);
        println!("default at exponent {exponent}: {up} up, {down} down, {later} later: {:?}", run.plant.rescales);
        assert!((1..=2).contains(&up), "{up} rescales up at exponent {exponent}: {:?}", run.plant.rescales);
        assert_eq!((down, later), (1, 0), "exponent {exponent}: {:?}", run.plant.rescales);
        assert!(run.plant.backlog < 10.0 * 2000.0, "a backlog of {}", run.plant.backlog);
    }
}

#[test]
fn the_preset_is_shown_beside_it() {
    let mut plant = Plant::new(pipeline(0.8), &[1, 1, 1, 1, 1], 20);
    plant.noise = 0.05;
    let mut run = Loop::new(plant, quick(&json!({ "preset": "flink-autoscaler", "restart": "20s" })));
    run.warm_up(4000.0);
    run.run(1800, |_| 4000.0);
    let up = run.rescales();
    run.run(900 + 2 * 3600, |_| 2000.0);
    let (_, _, _, ours) = day(quick(&json!({})), 0.8);
    println!(
        "preset: {up} up, {} later, {:.1} slot-hours; default: {} in all, {:.1} slot-hours",
        run.rescales() - up,
        run.slot_seconds / 3600.0,
        ours.rescales(),
        ours.slot_seconds / 3600.0
    );
    assert!(ours.rescales() <= run.rescales(), "the preset needs {} rescales, the default {}", run.rescales(), ours.rescales());
}

#[test]
fn scaling_below_proportion_converges_in_three_rescales_and_then_stays() {
    let operators = vec![Operator::source("Source: orders", 20_000.0), Operator { exponent: 0.8, ..Operator::after(0, "slow", 500.0) }];
    for rate in [1500.0, 3000.0, 4500.0] {
        let mut plant = Plant::new(operators.clone(), &[1, 1], 30);
        plant.noise = 0.05;
        let mut run = Loop::new(
            plant,
            json!({ "window": "5m", "stabilizationAfterStart": "1m", "scaleDown": { "stabilization": "10m" }, "catchUpWithin": "10m", "restart": "30s" }),
        );
        run.warm_up(rate);
        run.run(3600, |_| rate);
        let to_converge = run.rescales();
        run.run(2 * 3600, |_| rate);
        assert!(to_converge <= 3, "{rate}/s: {:?}", run.plant.rescales);
        assert_eq!(run.rescales(), to_converge, "{rate}/s: {:?}", run.plant.rescales);
        assert!(run.plant.is_free() && run.plant.backlog < 10.0 * rate, "{rate}/s: {:?}", run.plant.rescales);
    }
}

#[test]
fn a_vertex_that_cannot_grow_leaves_the_others_where_they_are_enough() {
    let plant = Plant::new(pipeline(1.0), &[1, 1, 1, 1, 1], 20);
    let mut run = Loop::new(plant, quick(&json!({ "vertexLimits": { "Enrich": { "max": 2 } } })));
    run.warm_up(14_000.0);
    run.run(3600, |_| 14_000.0);
    let end = run.plant.parallelism();
    // 2000/s get through: one source subtask does 6000/s, one parser 5000/s
    assert_eq!(end, [1, 1, 2, 1, 1], "{:?}", run.plant.rescales);
    assert_eq!(run.rescales(), 1, "{:?}", run.plant.rescales);
}

#[test]
fn a_daily_swing_costs_few_rescales() {
    let swing = |now: i64| 3000.0 + 2000.0 * (now as f64 * std::f64::consts::TAU / 86_400.0).sin();
    let ask = |preset: Option<&str>| {
        let mut plant = Plant::new(pipeline(0.9), &[2, 2, 5, 2, 2], 60);
        plant.noise = 0.05;
        let mut policy = json!({ "restart": "60s" });
        if let Some(preset) = preset {
            policy["preset"] = json!(preset);
        }
        let mut run = Loop::new(plant, policy);
        run.interval = 120;
        run.keep = 12;
        run.warm_up(3000.0);
        run.run(86_400, swing);
        run
    };
    let (ours, theirs) = (ask(None), ask(Some("flink-autoscaler")));
    for (name, run) in [("default", &ours), ("preset", &theirs)] {
        println!("{name}: {} rescales, {:.0} slot-hours, {} s late: {:?}", run.rescales(), run.slot_seconds / 3600.0, run.late_seconds, run.plant.rescales);
    }
    assert!(ours.rescales() <= 6, "{:?}", ours.plant.rescales);
    assert!(ours.late_seconds <= theirs.late_seconds.max(864), "{} s late, the preset {} s", ours.late_seconds, theirs.late_seconds);
}
