//! Targets as callers see them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::core::advice::{Advice, Bounds, Confidence, Direction, Forecast, Outcome, Unit};
use crate::core::memory::Memory;
use crate::core::policy::PolicyInput;
use crate::core::reasons::Reason;
use crate::core::request::{Kind, parse_value};
use crate::core::units::{Count, Timestamp, seconds_between};
use crate::engine::acting::{Acting, Performed};
use crate::engine::store::{EntryState, Interface, SourceHealth, SourceState, Target};

/// A target in the list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetLine {
    /// The name in the configuration.
    pub name: String,
    /// The name for people.
    pub display_name: String,
    /// The scale target's namespace; null when none is configured.
    pub namespace: Option<String>,
    /// The kind of workload.
    pub kind: Kind,
    /// What is counted.
    pub unit: Unit,
    /// The wanted count now; null when unknown.
    pub current: Option<Count>,
    /// The count to have; null when there is no valid number.
    pub recommended: Option<Count>,
    /// What came out.
    pub outcome: Outcome,
    /// The code of the reason that decided; null when none was needed.
    pub reason: Option<&'static str>,
    /// The same in words.
    pub message: Option<String>,
    /// The moment of the decision; null before the first one.
    pub evaluated_at: Option<Timestamp>,
    /// How the source fares.
    pub source: SourceView,
}

impl TargetLine {
    /// A target at `now`.
    pub fn of(target: &Target, now: Timestamp) -> Self {
        let state = target.state();
        let decided = target.advice_at(now);
        let evaluated_at = decided.as_ref().map(|advice| advice.evaluated_at);
        let advice = decided.unwrap_or_else(|| undecided(target, now).into());
        let reason = advice.reasons.first();
        Self {
            name: target.name.clone(),
            display_name: target.display_name.clone(),
            namespace: namespace(target),
            kind: target.kind,
            unit: advice.unit,
            current: advice.current,
            recommended: advice.recommended,
            outcome: advice.outcome,
            reason: reason.map(|reason| reason.code().name()),
            message: reason.map(ToString::to_string),
            evaluated_at,
            source: SourceView::of(&state.source, now),
        }
    }
}

/// How a source fares, at the moment of the answer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceView {
    /// Up, down, or not asked yet.
    pub state: SourceHealth,
    /// Age of the last good reading in seconds; null before the first one.
    pub age_seconds: Option<f64>,
    /// Why the last try failed; null when it did not.
    pub last_error: Option<String>,
    /// Seconds until it is asked next; null when that is not planned.
    pub next_reading_seconds: Option<f64>,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// When the last good reading was measured.
    pub observed_at: Option<Timestamp>,
    /// HTTP calls that the last reading took.
    pub calls_per_reading: u32,
    /// HTTP calls that the last reading shares with other targets, not in `callsPerReading`.
    pub shared_calls_per_reading: u32,
}

impl SourceView {
    /// A source at `now`.
    pub fn of(source: &SourceState, now: Timestamp) -> Self {
        Self {
            state: source.health,
            age_seconds: source.observed_at.map(|at| seconds_between(at, now)),
            last_error: source.last_error.clone(),
            next_reading_seconds: source.next_reading_at.map(|at| seconds_between(now, at).max(0.0)),
            consecutive_failures: source.consecutive_failures,
            observed_at: source.observed_at,
            calls_per_reading: source.calls_per_reading,
            shared_calls_per_reading: source.shared_calls_per_reading,
        }
    }
}

/// An entry of the configuration that stands for many targets.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryView {
    /// Its name; those of its targets begin with it and a dot.
    name: String,
    /// Up, down, or not searched yet.
    state: SourceHealth,
    /// Why the last search failed; null when it did not.
    last_error: Option<String>,
    /// Failures in a row.
    consecutive_failures: u32,
    /// How many the last search found.
    found: usize,
    /// How many targets it has: those whose job is gone are kept for ten minutes.
    targets: usize,
    /// How many have no target, as there are too many.
    left_out: usize,
    /// The names of the first twenty of them.
    left_out_names: Vec<String>,
    /// When the last search succeeded; null before the first one.
    found_at: Option<Timestamp>,
    /// Seconds until the next search; null when that is not planned.
    next_search_seconds: Option<f64>,
}

impl EntryView {
    /// An entry at `now`.
    pub fn of(name: &str, entry: &EntryState, now: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            state: entry.health,
            last_error: entry.last_error.clone(),
            consecutive_failures: entry.consecutive_failures,
            found: entry.found,
            targets: entry.targets,
            left_out: entry.left_out,
            left_out_names: entry.left_out_names.clone(),
            found_at: entry.found_at,
            next_search_seconds: entry.next_search_at.map(|at| seconds_between(now, at).max(0.0)),
        }
    }
}

/// A target with its configuration.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetView {
    /// The name in the configuration.
    name: String,
    /// The name for people.
    display_name: String,
    /// The scale target's namespace; null when none is configured.
    namespace: Option<String>,
    /// The kind of workload.
    kind: Kind,
    /// The configuration in force, without secrets.
    #[schema(value_type = Object)]
    configuration: Value,
    /// How the source fares.
    source: SourceView,
    /// What Loadline does itself; null where the policy asks for advice only.
    performing: Option<PerformingView>,
    /// When each interface last read the advice, in Unix seconds.
    last_read_timestamp_seconds: BTreeMap<&'static str, f64>,
}

impl TargetView {
    /// A target at `now`.
    pub fn of(target: &Target, now: Timestamp) -> Self {
        Self {
            name: target.name.clone(),
            display_name: target.display_name.clone(),
            namespace: namespace(target),
            kind: target.kind,
            configuration: target.configuration.clone(),
            source: SourceView::of(&target.state().source, now),
            performing: PerformingView::of(target),
            last_read_timestamp_seconds: Interface::ALL.into_iter().filter_map(|by| Some((by.name(), target.last_read(by)?))).collect(),
        }
    }
}

/// What Loadline does itself for a target.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerformingView {
    /// Why nothing is performed now, so that the advice is only advice; null while nothing stands in the way.
    notice: Option<String>,
    /// Actions that were accepted and whose effect is not there yet.
    under_way: Vec<Performed>,
    /// The newest action; null before the first.
    last: Option<Performed>,
}

/// The latest advice of a target, and what Loadline does itself about it.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
pub struct TargetAdvice {
    #[serde(flatten)]
    advice: Advice,
    /// What Loadline does itself; absent where the policy asks for advice only.
    performing: Option<PerformingView>,
}

/// The same as it is written.
#[derive(Serialize)]
pub struct ToldAdvice<'a> {
    #[serde(flatten)]
    pub advice: &'a Advice,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performing: Option<PerformingView>,
}

impl PerformingView {
    /// What is done for a target; none where the policy asks for advice only.
    pub fn of(target: &Target) -> Option<Self> {
        let view = |acting: &Acting| Self {
            notice: acting.notice.clone(),
            under_way: acting.under_way.iter().map(|step| step.performed.clone()).collect(),
            last: acting.last.clone(),
        };
        target.acting(|acting| acting.performs.then(|| view(acting)))
    }
}

fn namespace(target: &Target) -> Option<String> {
    (!target.namespace.is_empty()).then(|| target.namespace.clone())
}

/// The answer for a target of which nothing has been decided yet: of the same shape as any advice, without a number.
pub fn undecided(target: &Target, now: Timestamp) -> Advice {
    let source = &target.state().source;
    let failure = source.last_error.clone().unwrap_or_else(|| "its source has not answered yet".to_owned());
    let bounds = bounds(target);
    Advice {
        kind: target.kind,
        name: Some(target.name.clone()),
        outcome: Outcome::Hold,
        current: None,
        recommended: None,
        wanted: None,
        direction: Direction::None,
        unit: match target.kind {
            Kind::DruidSupervisor => Unit::Tasks,
            Kind::FlinkJob => Unit::TaskManagers,
            Kind::DruidWorkers | Kind::KafkaGroup | Kind::PubsubSubscription | Kind::Backlog => Unit::Replicas,
        },
        active: None,
        bounds,
        reasons: vec![Reason::NoReading { failure, consecutive_failures: source.consecutive_failures }],
        limits: Vec::new(),
        actions: Vec::new(),
        parts: Vec::new(),
        forecast: Forecast::default(),
        inputs: Vec::new(),
        confidence: Confidence::Low,
        consumer: None,
        evaluated_at: now,
        observed_at: None,
        valid_until: None,
        memory: Memory::new(target.kind, now),
    }
}

/// The bounds that the configured policy sets, else the defaults.
fn bounds(target: &Target) -> Bounds {
    let configured = target.configuration.get("policy").cloned().and_then(|tree| parse_value::<PolicyInput>(tree).ok());
    let policy = configured.unwrap_or_default().resolve(target.kind).ok();
    Bounds { min: policy.as_ref().map_or(1, |policy| policy.min), max: policy.as_ref().map_or(100, |policy| policy.max), partitions: None }
}
