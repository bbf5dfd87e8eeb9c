//! From answers to a snapshot: no question is asked here.
//!
//! Each field is known or unknown, and an unknown one has a reason that names the field, the query, what came and what was
//! expected. A reading goes on without it: the snapshot carries the reasons along as `missing`, and the core lowers nothing
//! while there are any. Why not give up the reading as a whole: one metric of an exporter that is down would then hide
//! a backlog that grows.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::value;
use super::wire::Series;
use crate::config::prometheus::field::{Holds, Step};
use crate::config::prometheus::tree::{Ident, Tree};
use crate::config::prometheus::{FieldQuery, PrometheusMap};
use crate::engine::source::{FailureKind, SourceError};

/// What a query may be cut to in a reason.
const SHOWN_QUERY: usize = 200;
/// Reasons of one reading.
const MOST_REASONS: usize = 50;
/// Fields that not every element has: of a job's vertices only the sources. What the core makes of one without is its own.
const NOT_OF_ALL: &str = "vertices.";
/// The field for which a negative offset is an answer: nothing is committed.
const COMMITTED: &str = "topics.partitions.committed";

/// A snapshot that is not checked yet, and what is unknown of it.
pub struct Assembled {
    /// The members that are known.
    pub snapshot: Map<String, Value>,
    /// Why others are not.
    pub missing: Vec<String>,
}

/// Puts the answers together, one for each field of the map. The error says that nothing is known at all.
pub fn assemble(map: &PrometheusMap, answers: &[Result<Vec<Series>, SourceError>]) -> Result<Assembled, SourceError> {
    let mut tree = Tree::of(&map.constants);
    let mut notes = Notes::default();
    let mut known = 0;
    let mut first_error: Option<&SourceError> = None;
    let mut answered = Vec::new();
    for (field, answer) in map.fields.iter().zip(answers) {
        match answer {
            Err(error) => {
                first_error = first_error.or(Some(error));
                notes.say(field, &error.message, "");
            }
            Ok(series) if series.is_empty() => notes.say(field, "no series", "expected at least one, as nothing found is not zero"),
            Ok(series) => {
                known += place(&mut tree, field, series, &mut notes);
                answered.push(field);
            }
        }
    }
    let of_elements = |field: &&FieldQuery| field.steps.iter().any(|step| matches!(step, Step::Element(_))) && !field.path().starts_with(NOT_OF_ALL);
    for field in answered.into_iter().filter(of_elements) {
        let lacking = tree.lacking(&field.steps);
        if let Some((one, others)) = lacking.split_first() {
            notes.say(field, &format!("no series for {one}{}", and_more(others.len())), "expected one for each element");
        }
    }
    if known == 0 {
        // when all failed alike the failure is of the server, and says when to ask again
        return Err(match first_error.filter(|_| answers.iter().all(Result::is_err)) {
            Some(error) => SourceError { retry_after: answers.iter().filter_map(|answer| answer.as_ref().err()?.retry_after).max(), ..error.clone() },
            None => SourceError::new(FailureKind::NotFound, format!("no field is known: {}", notes.first())),
        });
    }
    let (snapshot, unknown) = tree.close(&map.required);
    notes.others.extend(unknown);
    Ok(Assembled { snapshot, missing: notes.list() })
}

/// Puts the series of one field in their places; gives how many of them are known.
fn place(tree: &mut Tree, field: &FieldQuery, series: &[Series], notes: &mut Notes) -> usize {
    let labels: Vec<&str> = field.steps.iter().filter_map(label).collect();
    if labels.is_empty() && series.len() > 1 {
        let differ = differing(series);
        notes.say(field, &format!("{} series, which differ in {differ}", series.len()), "expected one, as from sum() or max()");
        return 0;
    }
    let mut faults = Faults::default();
    let mut known = 0;
    for one in series {
        let Some(idents) = idents(&field.steps, one) else {
            faults.note(&format!("a series without a usable label {}", labels.join(", ")), "expected its labels to name the element", String::new());
            continue;
        };
        let place = || named(&field.steps, &idents);
        let value = match &field.holds {
            Holds::Text(label) => {
                one.labels.get(label).filter(|text| !text.is_empty()).map(|text| Value::from(text.as_str())).ok_or_else(|| format!("no label {label}"))
            }
            holds => match &one.value {
                None => Err("a histogram: expected a number".to_owned()),
                Some(text) if field.path() == COMMITTED && text.starts_with('-') => Ok(Value::Null),
                Some(text) => value::of(holds, text),
            },
        };
        let value = value.unwrap_or_else(|why| {
            faults.note(&why, "", place());
            Value::Null
        });
        known += usize::from(!value.is_null());
        if !tree.put(&field.steps, &idents, value) {
            faults.note("several series", "expected one for each element, as from max by (...)", place());
        }
    }
    faults.say(field, notes);
    known
}

fn label(step: &Step) -> Option<&str> {
    match step {
        Step::Member(_) => None,
        Step::Element(element) => Some(&element.label),
        Step::Entry(label) | Step::Item(label) => Some(label),
    }
}

/// What makes out the elements on the way to the field of a series; `None` where a label is missing or no number.
fn idents(steps: &[Step], series: &Series) -> Option<Vec<Ident>> {
    let mut idents = Vec::new();
    for step in steps {
        let Some(label) = label(step) else { continue };
        let text = series.labels.get(label).filter(|text| !text.is_empty());
        idents.push(match step {
            Step::Element(element) if element.is_number => Ident::Number(text?.parse().ok()?),
            // values of replicas need no name of their own as long as there is one series
            Step::Item(_) => Ident::Text(text.cloned().unwrap_or_default()),
            _ => Ident::Text(text?.clone()),
        });
    }
    Some(idents)
}

/// The place of a value in words: `topics[orders].partitions[3].lag`.
fn named(steps: &[Step], idents: &[Ident]) -> String {
    let mut text = String::new();
    let mut idents = idents.iter();
    for step in steps {
        match step {
            Step::Member(name) if text.is_empty() => text.push_str(name),
            Step::Member(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Element(_) | Step::Entry(_) | Step::Item(_) => {
                let ident = idents.next().map(ToString::to_string).unwrap_or_default();
                text.extend(["[", ident.as_str(), "]"]);
            }
        }
    }
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

/// Labels in which series differ, for whoever has to tell them apart.
fn differing(series: &[Series]) -> String {
    let mut values: BTreeMap<&str, Vec<Option<&String>>> = BTreeMap::new();
    for one in series.iter().take(100) {
        for name in one.labels.keys() {
            values.entry(name).or_default();
        }
    }
    let differ: Vec<&str> = values
        .keys()
        .copied()
        .filter(|name| {
            let mut all = series.iter().take(100).map(|one| one.labels.get(*name));
            let first = all.next().flatten();
            all.any(|value| value != first)
        })
        .take(5)
        .collect();
    if differ.is_empty() { "nothing that tells them apart".to_owned() } else { differ.join(", ") }
}

fn and_more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" and {others} more") }
}

/// What is wrong with series of one query, each kind of fault once.
#[derive(Default)]
struct Faults(Vec<(String, &'static str, String, usize)>);

impl Faults {
    fn note(&mut self, what: &str, expected: &'static str, place: String) {
        if let Some((.., others)) = self.0.iter_mut().find(|(known, ..)| known == what) {
            *others += 1;
        } else if self.0.len() < 5 {
            self.0.push((what.to_owned(), expected, place, 0));
        }
    }

    fn say(self, field: &FieldQuery, notes: &mut Notes) {
        for (what, expected, place, others) in self.0 {
            let at = if place.is_empty() || place == field.key { String::new() } else { format!(" at {place}") };
            notes.say(field, &format!("{what}{at}{}", and_more(others)), expected);
        }
    }
}

/// Why fields are unknown.
#[derive(Default)]
struct Notes {
    of_queries: Vec<String>,
    others: Vec<String>,
}

impl Notes {
    fn say(&mut self, field: &FieldQuery, came: &str, expected: &str) {
        let query: String = field.query.split_whitespace().collect::<Vec<_>>().join(" ");
        let query = match query.char_indices().nth(SHOWN_QUERY) {
            Some((at, _)) => format!("{}...", query.get(..at).unwrap_or_default()),
            None => query,
        };
        let expected = if expected.is_empty() { String::new() } else { format!(": {expected}") };
        self.of_queries.push(format!("{} ({came} from `{query}`{expected})", field.key));
    }

    /// The first few, for a sentence.
    fn first(&self) -> String {
        const FEW: usize = 3;
        let few: Vec<&str> = self.of_queries.iter().chain(&self.others).take(FEW).map(String::as_str).collect();
        format!("{}{}", few.join("; "), and_more((self.of_queries.len() + self.others.len()).saturating_sub(FEW)))
    }

    fn list(&self) -> Vec<String> {
        let all = self.of_queries.len() + self.others.len();
        let mut list: Vec<String> = self.of_queries.iter().chain(&self.others).take(MOST_REASONS).cloned().collect();
        if let Some(more) = all.checked_sub(MOST_REASONS).filter(|more| *more > 0) {
            list.push(format!("{more} more"));
        }
        list
    }
}
