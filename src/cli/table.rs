//! An answer as text for people: what to do first, then why, then the numbers.

use std::io::{self, Write};

use crate::core::advice::{Action, Advice, Confidence, Direction, InputState, Part, Unit};
use crate::core::kind::Kind;
use crate::core::reasons::{Num, Secs};
use crate::core::units::Count;

/// Writes an answer.
pub fn render(advice: &Advice, out: &mut impl Write) -> io::Result<()> {
    let name = advice.name.as_deref().unwrap_or("(no name)");
    writeln!(
        out,
        "{name}  {}  {}  {} {} {}  (wanted {}, bounds {} to {})  confidence {}",
        advice.kind,
        advice.outcome.name(),
        count(advice.current),
        arrow(advice.direction),
        count(advice.recommended),
        count(advice.wanted),
        advice.bounds.min,
        advice.bounds.max,
        confidence(advice.confidence),
    )?;
    writeln!(out, "counted in {}", unit(advice.unit))?;
    if !advice.reasons.is_empty() {
        writeln!(out, "\nwhy")?;
    }
    for (index, reason) in advice.reasons.iter().enumerate() {
        writeln!(out, "  {} {}: {reason}", if index == 0 { "*" } else { "-" }, reason.code().name())?;
    }
    if !advice.limits.is_empty() {
        writeln!(out, "\nfrom the wish to the number")?;
    }
    for limit in &advice.limits {
        writeln!(out, "  {} -> {}  {}: {limit}", limit.from, limit.to, limit.code.name())?;
    }
    if !advice.actions.is_empty() {
        writeln!(out, "\nwhat to do")?;
    }
    for action in &advice.actions {
        act(action, out)?;
    }
    // the only pool says what the whole says
    if advice.kind != Kind::DruidWorkers || advice.parts.len() > 1 {
        parts(&advice.parts, out)?;
    }
    if !advice.inputs.is_empty() {
        writeln!(out, "\nfrom")?;
    }
    for input in &advice.inputs {
        let value = input.value.map_or_else(|| "unknown".to_owned(), |value| Num(value).to_string());
        let age = input.age_seconds.map_or_else(String::new, |age| format!(", {} old", Secs(age)));
        writeln!(out, "  {:<28} {value:>14}  {}{age}", input.name, state(input.state))?;
    }
    if let Some(consumer) = &advice.consumer {
        let says = if consumer.reachable { "it will follow" } else { "it will not follow" };
        writeln!(out, "\nthe consumer will hold {}: {says}", consumer.will_hold)?;
    }
    Ok(())
}

fn act(action: &Action, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "  {}: {}", action.action.name(), action.message)?;
    if let Some(request) = &action.request {
        let body = request.body.as_ref().map_or_else(String::new, |body| format!(" -H 'content-type: application/json' -d '{body}'"));
        writeln!(out, "      curl -X {} \"$SOURCE{}\"{body}", request.method, request.path)?;
    }
    Ok(())
}

fn parts(parts: &[Part], out: &mut impl Write) -> io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  {:<32} {:>5} {:>5} {:>6} {:>7} {:>10} {:>10}", "part", "now", "to", "wanted", "busy", "target/s", "capacity/s")?;
    for part in parts {
        let figures = part.vertex.unwrap_or_default();
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| Num(value).to_string());
        let busy = figures.busy_ratio.map_or_else(|| "-".to_owned(), |busy| format!("{} %", Num((busy * 100.0).round())));
        let name: String = part.name.chars().take(32).collect();
        writeln!(
            out,
            "  {name:<32} {:>5} {:>5} {:>6} {busy:>7} {:>10} {:>10}",
            count(part.current),
            count(part.recommended),
            count(part.wanted),
            number(figures.target_per_second),
            number(figures.capacity_per_second),
        )?;
    }
    Ok(())
}

fn count(count: Option<Count>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

const fn arrow(direction: Direction) -> &'static str {
    match direction {
        Direction::None => "=",
        Direction::Up | Direction::Down | Direction::Mixed => "->",
    }
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Replicas => "replicas",
        Unit::Tasks => "tasks",
        Unit::TaskManagers => "TaskManagers",
        Unit::Slots => "task slots",
    }
}

const fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::High => "high",
        Confidence::Medium => "medium",
        Confidence::Low => "low",
    }
}

const fn state(state: InputState) -> &'static str {
    match state {
        InputState::Fresh => "fresh",
        InputState::Stale => "stale",
        InputState::Missing => "missing",
        InputState::Contradictory => "contradictory",
        InputState::Assumed => "assumed",
    }
}
