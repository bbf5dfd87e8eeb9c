//! How a row is asked: a job of which the demand, the capacity and the backlog of each vertex are known exactly.
//!
//! The demand of a vertex comes from its counter of records read behind a source of the same rate, its capacity from its
//! gauge while it is always busy, its catch-up from the backlog of that source. The sources that only feed are excluded.

use loadline::core::advice::{Advice, Part};
use loadline::core::request::parse;
use serde_json::{Map, Value, json};

pub const NOW: &str = "2026-11-30T10:00:00Z";
/// Seconds between the two readings of a job.
pub const SPAN: f64 = 1000.0;

pub fn at(seconds_ago: f64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    now.checked_sub(jiff::SignedDuration::from_millis((seconds_ago * 1000.0).round() as i64)).expect("a time").to_string()
}

pub fn num(inputs: &Value, name: &str) -> f64 {
    match &inputs[name] {
        Value::String(text) if text == "inf" => f64::INFINITY,
        Value::String(text) if text == "nan" => f64::NAN,
        value => value.as_f64().unwrap_or_else(|| panic!("{name} is {value}, not a number")),
    }
}

pub fn num_or(inputs: &Value, name: &str, otherwise: f64) -> f64 {
    if inputs[name].is_null() { otherwise } else { num(inputs, name) }
}

pub fn text<'a>(inputs: &'a Value, name: &str) -> &'a str {
    inputs[name].as_str().unwrap_or_else(|| panic!("{name} is {}, not text", inputs[name]))
}

pub fn seconds(value: f64) -> String {
    format!("{value}s")
}

/// Asks, or says why the question is refused.
pub fn try_ask(body: &Value) -> Result<Advice, String> {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time")).map_err(|error| format!("{error:?}"))?;
    Ok(loadline::core::advise(&request))
}

pub fn ask(body: &Value) -> Advice {
    try_ask(body).unwrap_or_else(|error| panic!("{error}"))
}

pub fn part<'a>(advice: &'a Advice, id: &str) -> &'a Part {
    advice.parts.iter().find(|part| part.id == id).unwrap_or_else(|| panic!("no vertex {id}"))
}

pub fn parallelism(advice: &Advice, id: &str) -> u64 {
    part(advice, id).recommended.expect("a parallelism")
}

/// The preset without delay and step limits, over which a row's own options are laid.
pub fn policy(over: Value) -> Value {
    let mut policy = json!({
        "preset": "flink-autoscaler", "max": 1_000_000, "vertexMax": 200, "excludeVertices": ["feed-*"],
        "backlogThreshold": "1000000h", "window": seconds(SPAN), "stabilizationAfterStart": "0s",
        "scaleDown": { "stabilization": "0s", "maxFactor": 1.0 }, "scaleUp": { "maxFactor": 2_147_483_647.0 },
    });
    merge(&mut policy, &over);
    policy
}

pub fn merge(into: &mut Value, over: &Value) {
    match (into, over) {
        (Value::Object(into), Value::Object(over)) => {
            for (name, value) in over {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, over) => *into = over.clone(),
    }
}

/// The band of a target utilization and its half width, held to 0 and 1 as the peer holds it.
pub fn band(target: f64, boundary: f64) -> Value {
    json!({ "targetUtilization": target, "utilizationMax": (target + boundary).clamp(0.0, 1.0), "utilizationMin": (target - boundary).clamp(0.0, 1.0) })
}

/// The name of an alignment mode in the policy.
pub fn alignment(mode: &str) -> &'static str {
    match mode {
        "BALANCED" => "balanced",
        "EVENLY_SPREAD" => "evenlySpread",
        "LEGACY_EVENLY_SPREAD" => "legacyEvenlySpread",
        "LEGACY_MAXIMIZE_UTILISATION" => "legacyMaximizeUtilisation",
        "OFF" => "off",
        other => panic!("{other} is no mode"),
    }
}

/// A vertex of which everything is known.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: &'static str,
    pub parallelism: u64,
    pub max_parallelism: u64,
    pub demand: f64,
    pub catch_up: f64,
    /// Seconds in which the backlog is to be gone.
    pub within: f64,
    pub capacity: f64,
    pub ship: &'static str,
    pub group: &'static str,
    /// Above 0 makes it a source.
    pub partitions: u64,
}

impl Known {
    pub fn new(id: &'static str, parallelism: u64, demand: f64, capacity: f64) -> Self {
        Self { id, parallelism, max_parallelism: 720, demand, catch_up: 0.0, within: 0.0, capacity, ship: "REBALANCE", group: "default", partitions: 0 }
    }

    /// The vertex and the source that feeds it, as they were some seconds ago.
    fn vertices(&self, seconds_ago: f64) -> Vec<Value> {
        let elapsed = SPAN - seconds_ago;
        let busy = json!({ "max": 1.0, "avg": 1.0, "min": 1.0 });
        if self.partitions > 0 {
            // it reads at its capacity, and what arrives beyond that waits
            let growth = self.demand - self.capacity;
            let lag = if growth > 0.0 { growth * elapsed } else { -growth * seconds_ago };
            return vec![json!({
                "id": self.id, "name": self.id, "parallelism": self.parallelism, "maxParallelism": self.max_parallelism, "inputs": [], "partitions": self.partitions,
                "busyRatio": busy, "recordsIn": count(self.capacity * elapsed), "recordsOut": count(self.capacity * elapsed), "pendingRecords": count(lag),
            })];
        }
        let feed = format!("feed-{}", self.id);
        let lag = if self.catch_up > 0.0 { self.catch_up * self.within } else { 0.0 };
        let gauge = if self.capacity.is_finite() { self.capacity } else { 0.0 };
        vec![
            json!({
                "id": feed, "name": feed, "parallelism": 1, "maxParallelism": 720, "inputs": [], "busyRatio": busy, "slotSharingGroup": self.group,
                "recordsIn": count(self.demand * elapsed), "recordsOut": count(self.demand * elapsed), "pendingRecords": count(lag),
            }),
            json!({
                "id": self.id, "name": self.id, "parallelism": self.parallelism, "maxParallelism": self.max_parallelism, "slotSharingGroup": self.group,
                "inputs": [{ "from": feed, "shipStrategy": self.ship }], "busyRatio": busy,
                "recordsInPerSecond": gauge, "recordsIn": count(self.demand * elapsed), "recordsOut": 0,
            }),
        ]
    }
}

pub fn count(records: f64) -> u64 {
    assert!((records - records.round()).abs() < 1e-3 && records >= 0.0, "{records} is no count of records");
    records.round() as u64
}

/// A job of such vertices: its newest reading, and one from the start of the window.
pub fn job(known: &[Known], policy: Value) -> Value {
    let reading = |ago: f64| {
        let vertices: Vec<Value> = known.iter().flat_map(|vertex| vertex.vertices(ago)).collect();
        json!({ "observedAt": at(ago), "state": "RUNNING", "runningSince": at(864_000.0), "vertices": vertices })
    };
    json!({ "kind": "flinkJob", "now": NOW, "snapshot": reading(0.0), "history": [reading(SPAN)], "policy": policy })
}

/// A vertex far outside its band, so that the others move as well.
pub fn driver() -> Known {
    Known::new("driver", 1, 1_000_000.0, 1000.0)
}

/// A memory with what is given for the parts.
pub fn memory(parts: Value, more: Value) -> Value {
    let mut memory = json!({ "version": 1, "kind": "flinkJob", "since": at(864_000.0), "parts": parts });
    merge(&mut memory, &more);
    memory
}

/// The state of a vertex in a series of readings.
pub fn vertex(id: &str, parallelism: u64, inputs: &[(&str, &str)], more: Value) -> Value {
    let inputs: Vec<Value> = inputs.iter().map(|(from, ship)| json!({ "from": from, "shipStrategy": ship })).collect();
    let mut vertex = json!({ "id": id, "name": id, "parallelism": parallelism, "maxParallelism": 720, "inputs": inputs });
    merge(&mut vertex, &more);
    vertex
}

/// A job from readings (seconds ago, vertices), oldest first.
pub fn readings(series: &[(f64, Vec<Value>)], more: Value, policy: Value) -> Value {
    let mut all: Vec<Value> = series
        .iter()
        .map(|(ago, vertices)| {
            let mut reading = json!({ "observedAt": at(*ago), "state": "RUNNING", "runningSince": at(864_000.0), "vertices": vertices });
            merge(&mut reading, &more);
            reading
        })
        .collect();
    let latest = all.pop().expect("a reading");
    json!({ "kind": "flinkJob", "now": NOW, "snapshot": latest, "history": all, "policy": policy })
}

/// A share, where there is one.
pub fn busy(share: f64) -> Value {
    if share.is_nan() { Value::Null } else { json!({ "max": share, "avg": share, "min": share }) }
}

pub fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("{value} is no object"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// Compares, within what doubles can hold; `inf` and unknown are both null in an advice.
pub fn same(what: &str, ours: Option<f64>, expected: &Value) -> Result<(), String> {
    let fits = match (ours, expected) {
        (None, Value::String(text)) => text == "inf" || text == "nan",
        (None, Value::Null) => true,
        (Some(ours), expected) => expected.as_f64().is_some_and(|expected| (ours - expected).abs() <= 1e-9 * expected.abs().max(1.0)),
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("{what} is {ours:?}, not {expected}")) }
}

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, ours: &T, expected: &T) -> Result<(), String> {
    if ours == expected { Ok(()) } else { Err(format!("{what} is {ours:?}, not {expected:?}")) }
}
