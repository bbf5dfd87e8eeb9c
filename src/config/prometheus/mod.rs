//! `source.prometheus`: a map from fields of the snapshot to queries, and constants for what no metric tells.
//!
//! Everything that can be known of a map without asking is checked here: that each key leads to a field ([`field`]), that
//! an expression is closed ([`promql`]), that constants fit, and that nothing is missing without which there can be no
//! element of a list. The last two are left to the parser of posted requests: it is given a snapshot of constants
//! and of a number in each place of a query, so that there is no second opinion of what fits.

pub mod field;
pub mod promql;
pub mod tree;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use self::field::{Holds, Shape, Step};
use self::tree::{Required, Tree};
use super::HttpSource;
use super::file::PrometheusFile;
use crate::core::request::{Kind, Problem, Refusal, parse};
use crate::core::units::Timestamp;

/// The most queries of one source.
pub const MOST_QUERIES: usize = 100;
/// The longest query, in bytes.
const LONGEST_QUERY: usize = 10_000;
/// The field that says when the reading was measured.
const OBSERVED_AT: &str = "observedAt";

/// A map from fields to queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusMap {
    /// The kind of snapshot.
    pub kind: Kind,
    /// The fields, in the order of their keys.
    pub fields: Vec<FieldQuery>,
    /// A query for the time of the reading, in seconds since 1970; `None` where nothing is read from.
    pub observed_at: Option<String>,
    /// True when that query is one of the configuration.
    pub observed_at_given: bool,
    /// What no metric tells.
    pub constants: Map<String, Value>,
    /// Members without which an object is unknown.
    pub required: Required,
}

/// A field and its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldQuery {
    /// The key as it is written.
    pub key: String,
    /// The way to the field.
    pub steps: Vec<Step>,
    /// What it holds.
    pub holds: Holds,
    /// The query.
    pub query: String,
}

impl FieldQuery {
    /// The path without brackets.
    #[must_use]
    pub fn path(&self) -> String {
        pattern(&self.steps)
    }
}

/// The map as it is meant; all that is wrong with it goes to `problems`.
pub(super) fn meant(given: &PrometheusFile, kind: Kind, problems: &mut Vec<Problem>) -> PrometheusMap {
    let before = problems.len();
    let mut problem = |member: &str, message: String| problems.push(Problem::new(format!("source.prometheus.{member}"), message));
    let shape = Shape::of(kind);
    let mut map =
        PrometheusMap { kind, fields: Vec::new(), observed_at: None, observed_at_given: false, constants: given.constants.clone(), required: Required::new() };
    if given.queries.keys().all(|key| key == OBSERVED_AT) {
        problem("queries", "is empty: expected a query for at least one field of the snapshot".to_owned());
    }
    if given.queries.len() > MOST_QUERIES {
        problem("queries", format!("{} queries are too many: expected at most {MOST_QUERIES}", given.queries.len()));
    }
    let mut selectors = Vec::new();
    for (key, query) in &given.queries {
        let member = format!("queries.{key}");
        match expression(query) {
            Ok(found) => selectors.extend(found),
            Err(why) => problem(&member, why),
        }
        match shape.find(key) {
            Ok((steps, holds)) if key == OBSERVED_AT => {
                debug_assert!(steps.len() == 1 && holds == Holds::Time, "every snapshot has it");
                map.observed_at = Some(query.clone());
                map.observed_at_given = true;
            }
            Ok((steps, holds)) => {
                let path = pattern(&steps);
                if let Some(other) = map.fields.iter().find(|other| other.path() == path) {
                    problem(&member, format!("leads to the same field as \"{}\": expected one query for it", other.key));
                }
                map.fields.push(FieldQuery { key: key.clone(), steps, holds, query: query.clone() });
            }
            Err(why) => problem(&member, why),
        }
    }
    for own in [OBSERVED_AT, "receivedAt", "senderClockOffsetSeconds", "missing"] {
        if map.constants.contains_key(own) {
            problem(&format!("constants.{own}"), "is no constant: expected none".to_owned());
        }
    }
    map.required = shape.required(&map.fields);
    let constants = Tree::of(&map.constants);
    for field in map.fields.iter().filter(|field| constants.has(&field.steps)) {
        problem(&format!("queries.{}", field.key), "stands among the constants as well: expected it in one of them".to_owned());
    }
    if problems.len() == before {
        problems.extend(sample(&map).into_iter().map(|problem| problem.under("source.prometheus")));
    }
    if !map.observed_at_given {
        map.observed_at = promql::age(selectors.iter());
    }
    map
}

fn expression(query: &str) -> Result<Vec<String>, String> {
    if query.trim().is_empty() {
        return Err("is empty: expected a PromQL expression".to_owned());
    }
    if query.len() > LONGEST_QUERY {
        return Err(format!("{} bytes are too many: expected at most {LONGEST_QUERY}", query.len()));
    }
    promql::selectors(query).map_err(|why| format!("is no PromQL expression: {why}"))
}

/// What the parser of requests says to a snapshot of constants and of a value in each place of a query.
fn sample(map: &PrometheusMap) -> Vec<Problem> {
    let mut tree = Tree::of(&map.constants);
    for field in &map.fields {
        let value = match &field.holds {
            Holds::Whole { .. } | Holds::Number => json!(1),
            Holds::Flag => json!(true),
            Holds::Time => json!("2026-01-01T00:00:00Z"),
            Holds::Text(_) => json!("?"),
        };
        fill(&mut tree, field, &value);
    }
    let (snapshot, _) = tree.close(&Required::new());
    let body = json!({ "kind": map.kind, "snapshot": snapshot });
    let Err(Refusal::Invalid(found)) = parse(body.to_string().as_bytes(), Timestamp::UNIX_EPOCH) else { return Vec::new() };
    let mut problems: Vec<Problem> = Vec::new();
    for Problem { path, message } in found {
        let path = path.strip_prefix("snapshot.").unwrap_or(&path);
        let plain = without_indices(path);
        if map.fields.iter().any(|field| plain == field.path() || plain.starts_with(&format!("{}.", field.path()))) {
            // the value there is made up
            continue;
        }
        let told = match message.strip_prefix("is missing") {
            Some(_) => Problem::new("queries", format!("{path} is missing: expected a query or a constant for it")),
            None => Problem::new(format!("constants.{path}"), message),
        };
        if !problems.contains(&told) {
            problems.push(told);
        }
    }
    problems
}

/// Puts a value into each element that there is on the way; where there is none, into one of the name 0.
fn fill(tree: &mut Tree, field: &FieldQuery, value: &Value) {
    for idents in tree.elements(&field.steps) {
        tree.put(&field.steps, &idents, value.clone());
    }
}

/// A path without the brackets of lists.
fn pattern(steps: &[Step]) -> String {
    let names = steps.iter().filter_map(|step| if let Step::Member(name) = step { Some(name.as_str()) } else { None });
    names.collect::<Vec<_>>().join(".")
}

fn without_indices(path: &str) -> String {
    path.split('.').map(|segment| segment.split('[').next().unwrap_or_default()).collect::<Vec<_>>().join(".")
}

impl Shape {
    /// Members without which the objects on the way to any of the fields are unknown: those that the schema requires, and
    /// fields of theirs that have a query and could not be told apart from a default.
    fn required(&self, fields: &[FieldQuery]) -> Required {
        let mut required: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for field in fields {
            for (path, names) in self.needs(&field.steps) {
                required.entry(path).or_default().extend(names);
            }
        }
        required
    }
}

/// What is in force, as JSON.
pub(super) fn effective(mut http: Value, map: &PrometheusMap) -> Value {
    if let Some(object) = http.as_object_mut() {
        let mut queries: BTreeMap<&str, &str> = map.fields.iter().map(|field| (field.key.as_str(), field.query.as_str())).collect();
        if let Some(query) = &map.observed_at {
            queries.insert(OBSERVED_AT, query);
        }
        object.insert("queries".to_owned(), json!(queries));
        object.insert("constants".to_owned(), Value::Object(map.constants.clone()));
    }
    json!({ "prometheus": http })
}

/// A Prometheus server and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusSource {
    /// The server.
    pub http: HttpSource,
    /// The map.
    pub map: PrometheusMap,
}
