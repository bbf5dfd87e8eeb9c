//! Questions about the workers of a Druid, and what is read from the answers.

use loadline::core::advice::{ActionKind, Advice};
use loadline::core::request::parse;
use serde_json::{Value, json};

pub const NOW: &str = "2026-11-30T10:00:00Z";

pub fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

pub fn over(mut base: Value, extra: Value) -> Value {
    let (Value::Object(into), Value::Object(from)) = (&mut base, extra) else { panic!("objects") };
    into.extend(from);
    base
}

/// A worker of four slots.
pub fn worker(ordinal: usize, used: u64) -> Value {
    json!({ "host": format!("mm-{ordinal}.mm.druid.svc:8091"), "capacity": 4, "used": used })
}

pub fn workers(used: &[u64]) -> Vec<Value> {
    used.iter().enumerate().map(|(ordinal, used)| worker(ordinal, *used)).collect()
}

pub fn disabled(ordinal: usize, used: u64) -> Value {
    over(worker(ordinal, used), json!({ "enabled": false }))
}

/// What the core answers to a question that must be valid.
pub fn advise(body: &Value) -> Advice {
    let request = parse(&serde_json::to_vec(body).expect("a body"), NOW.parse().expect("a time"));
    loadline::core::advise(&request.unwrap_or_else(|error| panic!("{error:?} in {body:#}")))
}

/// A question in which all pods are there and no window delays anything; `extra` replaces members of the body.
pub fn ask(workers: &[Value], pending: Value, policy: Value, extra: Value) -> Advice {
    let snapshot = json!({ "observedAt": NOW, "workers": workers, "pending": pending });
    let snapshot = over(snapshot, extra.get("snapshot").cloned().unwrap_or_else(|| json!({})));
    let policy = over(json!({ "min": 1, "max": 20, "scaleDown": { "stabilization": "0s" } }), policy);
    let mut body = json!({ "kind": "druidWorkers", "now": NOW, "replicas": { "spec": workers.len(), "ready": workers.len() } });
    body = over(body, extra);
    advise(&over(body, json!({ "snapshot": snapshot, "policy": policy })))
}

pub fn none() -> Value {
    json!({ "count": 0 })
}

pub fn plain() -> Value {
    json!({})
}

pub fn codes(advice: &Advice) -> Vec<&'static str> {
    advice.reasons.iter().map(|reason| reason.code().name()).chain(advice.limits.iter().map(|limit| limit.code.name())).collect()
}

pub fn said(advice: &Advice) -> String {
    serde_json::to_string(&json!([advice.reasons, advice.limits, advice.actions])).expect("json")
}

pub fn ordinals(advice: &Advice, kind: ActionKind) -> Vec<u64> {
    advice.actions.iter().filter(|action| action.action == kind).filter_map(|action| action.worker.as_ref()?.ordinal).collect()
}

pub fn tasks(list: &[Value]) -> Value {
    json!({ "count": list.len(), "tasks": list })
}
