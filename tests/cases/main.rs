//! Real failures of today's tools, with the right outcome. The number behind each name is that of the public case; the
//! remark says what the naive answer would be.

#![expect(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod druid_supervisor;
mod druid_workers;
mod flink;
mod hpa;
mod kafka;
mod keda;
mod pubsub;

use std::fmt::Write;

use loadline::core::advice::{ActionKind, Advice};
use loadline::core::request::{Refusal, parse};
use serde_json::{Value, json};

/// The moment of all cases.
const NOW: &str = "2026-11-30T10:00:00Z";

/// Judges a body; its clock is [`NOW`] unless it names another.
fn advise(body: &Value) -> Advice {
    let bytes = serde_json::to_vec(body).expect("a body");
    match parse(&bytes, NOW.parse().expect("a time")) {
        Ok(request) => loadline::core::advise(&request),
        Err(error) => panic!("{error:?} in {body:#}"),
    }
}

/// Why a body is refused.
fn refusal(body: &Value) -> Refusal {
    let bytes = serde_json::to_vec(body).expect("a body");
    parse(&bytes, NOW.parse().expect("a time")).expect_err("a refusal")
}

/// A time so many seconds before [`NOW`].
fn ago(seconds: i64) -> String {
    let now: jiff::Timestamp = NOW.parse().expect("a time");
    (now - jiff::SignedDuration::from_secs(seconds)).to_string()
}

/// All that is said, codes and sentences.
fn said(advice: &Advice) -> String {
    let json = serde_json::to_value(advice).expect("advice is JSON");
    let mut text = String::new();
    for list in ["reasons", "limits", "actions"] {
        for entry in json[list].as_array().expect("a list") {
            writeln!(text, "{} {}", entry["code"].as_str().or(entry["action"].as_str()).unwrap_or_default(), entry["message"].as_str().unwrap_or_default())
                .expect("text");
        }
    }
    text
}

/// True when a reason or a limit of that code is there.
fn has(advice: &Advice, code: &str) -> bool {
    advice.reasons.iter().any(|reason| reason.code().name() == code) || advice.limits.iter().any(|limit| limit.code.name() == code)
}

/// The steps of a kind.
fn steps(advice: &Advice, kind: ActionKind) -> Vec<u64> {
    advice.actions.iter().filter(|action| action.action == kind).filter_map(|action| action.worker.as_ref().and_then(|worker| worker.ordinal)).collect()
}

/// A policy in which nothing is delayed, as the cases assume where they name no window.
fn immediate(extra: Value) -> Value {
    let mut policy = json!({ "scaleDown": { "stabilization": "0s" } });
    let (Value::Object(into), Value::Object(from)) = (&mut policy, extra) else { panic!("objects") };
    into.extend(from);
    policy
}
