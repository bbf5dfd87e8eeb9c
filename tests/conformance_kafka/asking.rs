//! A group as a request, and what is read from the answer.

use loadline::core::advice::{ActionKind, Advice};
use loadline::core::request::parse;
use serde_json::{Value, json};

pub const NOW: &str = "2026-11-30T10:00:00Z";

pub fn ago(seconds: f64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs_f64(seconds)).to_string()
}

/// Judges a reading; start and pause cost nothing unless the policy says so.
pub fn ask(spec: u64, snapshot: Value, history: Value, policy: Value) -> Advice {
    let mut whole = json!({ "max": 1000, "startup": "0s", "pause": "0s", "scaleDown": { "stabilization": "0s" } });
    extend(&mut whole, policy);
    advise(&json!({ "kind": "kafkaGroup", "replicas": { "spec": spec }, "snapshot": snapshot, "history": history, "policy": whole }))
}

pub fn advise(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

pub fn extend(into: &mut Value, from: Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { panic!("objects") };
    into.extend(from);
}

/// One topic of these partitions; each is given its number.
pub fn topic(name: &str, partitions: Vec<Value>) -> Value {
    let numbered: Vec<Value> = partitions
        .into_iter()
        .enumerate()
        .map(|(number, mut partition)| {
            extend(&mut partition, json!({ "partition": number }));
            partition
        })
        .collect();
    json!({ "name": name, "partitions": numbered })
}

pub fn group(partitions: Vec<Value>) -> Value {
    json!({ "state": "Stable", "topics": [topic("t", partitions)] })
}

pub fn with(mut snapshot: Value, more: Value) -> Value {
    extend(&mut snapshot, more);
    snapshot
}

/// Offsets of a row as a partition.
pub fn offsets(row: &Value) -> Value {
    json!({ "committed": row["committed"], "logStart": row["log_start"], "logEnd": row["high_watermark"], "lastStable": row.get("last_stable") })
}

pub fn input(advice: &Advice, name: &str) -> Option<f64> {
    advice.inputs.iter().find(|input| input.name == name).and_then(|input| input.value)
}

pub fn state(advice: &Advice, name: &str) -> Value {
    let found = advice.inputs.iter().find(|input| input.name == name);
    found.map_or(Value::Null, |input| serde_json::to_value(input.state).expect("json"))
}

/// The numbers of a reason.
pub fn values(advice: &Advice, code: &str) -> Option<Value> {
    let reason = advice.reasons.iter().find(|reason| reason.code().name() == code)?;
    Some(serde_json::to_value(reason).expect("json")["values"].clone())
}

pub fn has(advice: &Advice, code: &str) -> bool {
    values(advice, code).is_some() || advice.limits.iter().any(|limit| limit.code.name() == code)
}

pub fn said(advice: &Advice) -> String {
    let reasons = advice.reasons.iter().map(|reason| format!("{}: {reason}", reason.code().name()));
    let limits = advice.limits.iter().map(|limit| format!("{}: {limit}", limit.code.name()));
    reasons.chain(limits).chain(advice.actions.iter().map(|action| action.message.clone())).collect::<Vec<_>>().join("\n")
}

pub fn acts(advice: &Advice, kind: ActionKind) -> bool {
    advice.actions.iter().any(|action| action.action == kind)
}

pub fn near(found: Option<f64>, right: &Value, what: &str) {
    let right = right.as_f64();
    let same = match (found, right) {
        (Some(found), Some(right)) => (found - right).abs() <= right.abs().max(1.0) * 1e-3,
        (found, right) => found.is_none() && right.is_none(),
    };
    assert!(same, "{what}: {found:?}, not {right:?}");
}

pub fn list(row: &Value, name: &str) -> Vec<Value> {
    row[name].as_array().unwrap_or_else(|| panic!("{name} in {row}")).clone()
}

/// A load that is told, over even partitions.
pub fn loaded(inputs: &Value, spec: u64, policy: Value) -> Advice {
    let mut snapshot = json!({ "totalLag": inputs.get("backlog").cloned().unwrap_or(json!(0)), "arrivalPerSecond": inputs["arrival"], "processedPerSecond": inputs.get("mu_now") });
    let partitions = inputs.get("P").or(inputs.get("partitions"));
    if let Some(partitions) = partitions {
        extend(&mut snapshot, json!({ "topics": [{ "name": "t", "partitionCount": partitions }] }));
    }
    let seconds = |name: &str, otherwise: u64| format!("{}s", inputs.get(name).and_then(Value::as_u64).unwrap_or(otherwise));
    let utilization = inputs.get("util").or(inputs.get("util_target")).cloned().unwrap_or(json!(0.8));
    let mut whole = json!({ "perReplicaPerSecond": inputs["cap"], "targetUtilization": utilization, "catchUpWithin": seconds("T", 300), "startup": seconds("act", 0), "pause": seconds("reb", 0) });
    extend(&mut whole, policy);
    ask(spec, snapshot, json!([]), whole)
}
