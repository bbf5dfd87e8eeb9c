//! Pull mode: what was decided for each target, what it rests on, and what another policy would say.

#![expect(unused_qualifications, reason = "the macro that describes parameters writes them")]

use std::ops::Bound;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::AppState;
use super::advice::json;
use super::extract::{Asked, Named};
use super::payload::Payload;
use super::problem::Problem;
use super::view::{PerformingView, TargetAdvice, TargetLine, TargetView, ToldAdvice, undecided};
use crate::core::advice::Advice;
use crate::core::policy::PolicyInput;
use crate::core::request::{self, Request, parse_value};
use crate::engine::store::{Interface, Past, Target, is_valid};

/// The most targets on one page.
const MOST_LISTED: usize = 1_000;

/// Which page of the list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Targets on the page, 1 to 1,000 (default 100).
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The page begins after this name: `next` of the page before.
    after: Option<String>,
}

/// A page of targets.
#[derive(Serialize, ToSchema)]
pub struct TargetList {
    /// The targets, by name.
    targets: Vec<TargetLine>,
    /// What to send as `after` for the next page; null on the last one.
    next: Option<String>,
}

/// Lists the targets.
#[utoipa::path(get, path = "/v1/targets", tag = "targets", operation_id = "listTargets", params(Page), responses(
    (status = 200, description = "A page of targets, by name", body = TargetList),
    (status = "4XX", description = "422 `invalidRequest`", body = Problem, content_type = "application/problem+json"),
))]
pub async fn list(State(state): State<AppState>, Asked(page): Asked<Page>) -> Result<Json<TargetList>, Problem> {
    let limit = page.limit.unwrap_or(100);
    if !(1..=MOST_LISTED).contains(&limit) {
        let message = format!("{limit} is out of range: expected 1 to {MOST_LISTED}");
        return Err(Problem::invalid(vec![request::Problem::new("limit", message)]));
    }
    let targets = state.store().targets();
    let begin = page.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = targets.range::<str, _>((begin, Bound::Unbounded)).map(|(_, target)| target);
    let now = state.now();
    let lines: Vec<TargetLine> = rest.by_ref().take(limit).map(|target| TargetLine::of(target, now)).collect();
    let next = rest.next().and(lines.last()).map(|last| last.name.clone());
    Ok(Json(TargetList { targets: lines, next }))
}

/// A target: its configuration in force without secrets, and how its source fares.
#[utoipa::path(get, path = "/v1/targets/{name}", tag = "targets", operation_id = "getTarget", params(("name" = String, Path, description = "The target's name")), responses(
    (status = 200, description = "The target", body = TargetView),
    (status = "4XX", description = "404 `targetNotFound`", body = Problem, content_type = "application/problem+json"),
))]
pub async fn show(State(state): State<AppState>, Named(target): Named) -> Json<TargetView> {
    Json(TargetView::of(&target, state.now()))
}

/// How strictly to answer.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Strictness {
    /// With `true`, 503 `adviceExpired` instead of an answer without a number.
    #[serde(default)]
    #[param(required = false, default = false)]
    strict: bool,
}

/// The latest advice of a target.
///
/// After `validUntil` it has `recommended: null`, `active: null` and `outcome: "hold"`, whatever it was before; so has
/// a target of which nothing has been read yet. This is what KEDA's `metrics-api` trigger reads
/// (`valueLocation: recommended`, `targetValue: "1"`).
#[utoipa::path(get, path = "/v1/targets/{name}/advice", tag = "targets", operation_id = "getTargetAdvice", params(("name" = String, Path, description = "The target's name"), Strictness), responses(
    (status = 200, description = "The latest advice", body = TargetAdvice),
    (status = "4XX", description = "404 `targetNotFound`; 422 `invalidRequest`", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", description = "503 `adviceExpired`, with `strict=true` only", body = Problem, content_type = "application/problem+json"),
))]
pub async fn advice(
    State(state): State<AppState>,
    Named(target): Named,
    Asked(strictness): Asked<Strictness>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let now = state.now();
    // a browser shows it to a person: that nobody acts on the advice must not be hidden by someone looking at it
    if !headers.contains_key("sec-fetch-mode") {
        target.note_read(Interface::MetricsApi, now);
    }
    let advice = target.advice_at(now);
    if strictness.strict {
        match &advice {
            Some(advice) if is_valid(advice, now) && advice.recommended.is_some() => {}
            Some(advice) => return Err(Problem::expired(expiry(&target.name, advice))),
            None => return Err(nothing_read(&target)),
        }
    }
    let advice = advice.unwrap_or_else(|| Arc::new(undecided(&target, now)));
    write(&ToldAdvice { advice: &advice, performing: PerformingView::of(&target) })
}

fn expiry(name: &str, advice: &Advice) -> String {
    match advice.valid_until {
        Some(until) => format!("the advice of \"{name}\" has had no valid number since {until}"),
        None => format!("the advice of \"{name}\" rests on no reading"),
    }
}

fn nothing_read(target: &Target) -> Problem {
    Problem::expired(format!("nothing has been decided for \"{}\" yet", target.name))
}

/// What another policy would say.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DryRun {
    /// Merged over the target's policy (RFC 7386): a field that is null goes back to its default.
    #[serde(default)]
    #[schema(value_type = PolicyInput)]
    policy: Map<String, Value>,
}

/// Dry run: judges the latest readings of a target under another policy. Nothing is stored.
///
/// The moment of the decision is that of the latest advice, so that the two differ by the policy alone.
#[utoipa::path(post, path = "/v1/targets/{name}/advice", tag = "targets", operation_id = "dryRun", params(("name" = String, Path, description = "The target's name")),
    request_body(content = DryRun, content_type = "application/json"),
    responses(
        (status = 200, description = "The decision under that policy", body = Advice),
        (status = "4XX", description = "400 `invalidJson`; 404 `targetNotFound`; 413 `tooLarge`; 422 `invalidRequest`", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "503 `adviceExpired`: nothing has been read yet; 503 `overloaded`", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn dry_run(Named(target): Named, payload: Payload) -> Result<Response, Problem> {
    let request = target.state().request.clone().ok_or_else(|| nothing_read(&target))?;
    let advice = payload.judge(move |body| judge_otherwise(&request, body)).await?;
    write(&advice)
}

fn judge_otherwise(request: &Request, body: &[u8]) -> Result<Advice, Problem> {
    let tree: Value = serde_json::from_slice(body).map_err(|error| request::Refusal::NotJson(error.to_string()))?;
    let dry: DryRun = parse_value(tree).map_err(Problem::invalid)?;
    let under_policy = |problems: Vec<request::Problem>| Problem::invalid(problems.into_iter().map(|problem| problem.under("policy")).collect());
    let mut merged = serde_json::to_value(&request.given).map_err(|_| Problem::internal())?;
    merge(&mut merged, Value::Object(dry.policy));
    let given: PolicyInput = parse_value(merged).map_err(under_policy)?;
    let policy = given.resolve(request.readings.kind()).map_err(under_policy)?;
    Ok(crate::core::advise(&Request { given, policy, ..request.clone() }))
}

/// JSON merge patch, RFC 7386: objects merge, null removes, all else replaces.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// The exact `POST /v1/advice` body behind the latest advice: save it, edit it, post it.
#[utoipa::path(get, path = "/v1/targets/{name}/request", tag = "targets", operation_id = "getTargetRequest", params(("name" = String, Path, description = "The target's name")), responses(
    (status = 200, description = "A body of `POST /v1/advice`", body = super::document::AdviceRequest),
    (status = "4XX", description = "404 `targetNotFound`", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", description = "503 `adviceExpired`: nothing has been read yet", body = Problem, content_type = "application/problem+json"),
))]
pub async fn request(Named(target): Named) -> Result<Response, Problem> {
    let request = target.state().request.clone().ok_or_else(|| nothing_read(&target))?;
    write(&request.body())
}

/// Past decisions of a target.
#[derive(Serialize, ToSchema)]
pub struct History<'a> {
    /// The target.
    name: &'a str,
    /// The decisions, oldest first; at most 720.
    decisions: Vec<&'a Past>,
}

/// Past decisions of a target, oldest first, for charts.
#[utoipa::path(get, path = "/v1/targets/{name}/history", tag = "targets", operation_id = "getTargetHistory", params(("name" = String, Path, description = "The target's name")), responses(
    (status = 200, description = "The decisions", body = inline(History<'_>)),
    (status = "4XX", description = "404 `targetNotFound`", body = Problem, content_type = "application/problem+json"),
))]
pub async fn history(Named(target): Named) -> Result<Response, Problem> {
    let state = target.state();
    write(&History { name: &target.name, decisions: state.past.iter().collect() })
}

fn write(answer: &impl Serialize) -> Result<Response, Problem> {
    serde_json::to_vec(answer).map(json).map_err(|error| {
        tracing::error!(%error, "an answer could not be written as JSON");
        Problem::internal()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_follows_the_examples_of_the_rfc() {
        for (mut target, patch, merged) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        ] {
            merge(&mut target, patch);
            assert_eq!(target, merged);
        }
    }
}
