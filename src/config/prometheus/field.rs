//! Keys of a map from fields to queries: the way from the snapshot to the field, and what the field holds.
//!
//! ```text
//! backlog                                one number
//! pending.count                          a field of an object
//! topics[].partitions[].logEnd           one number for each element: labels say which
//! topics[topic_name].partitions[id].lag  the same, where the labels have other names
//! partitionLag[partition]                a map, whose key is the value of the label
//! state[state]                           text, which is the value of the label
//! ```
//! A name in brackets is always that of a label. What fields there are and what they hold is read from the schema of the
//! snapshot, the same that the API documents, so that a new field or a new kind needs nothing here. Only what makes out
//! an element of a list is written down.

use serde_json::Value;
use utoipa::{PartialSchema, ToSchema};

use crate::core::kinds::{BacklogSnapshot, DruidSupervisorSnapshot, DruidWorkersSnapshot, FlinkJobSnapshot, KafkaGroupSnapshot, PubsubSubscriptionSnapshot};
use crate::core::request::Kind;

/// Lists of objects that queries can fill: the list, the member that makes out an element, and the label that is its
/// value where none is named.
const LISTS: [(&str, &str, &str); 6] = [
    ("topics", "name", "topic"),
    ("partitions", "partition", "partition"),
    ("vertices", "id", "task_id"),
    ("workers", "host", "host"),
    ("streaming", "supervisor", "supervisor"),
    ("signals", "name", "signal"),
];
/// The label that is the key of a map where none is named.
const MAP_LABELS: [(&str, &str); 2] = [("partitionsByTopic", "topic"), ("", "partition")];
/// The label that tells the values of a list of numbers apart where none is named.
const ITEM_LABEL: &str = "pod";
/// What the source itself fills in.
const OWN: [&str; 3] = ["receivedAt", "senderClockOffsetSeconds", "missing"];

/// A step from the snapshot towards a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A member of an object.
    Member(String),
    /// The element of a list.
    Element(Element),
    /// A member of a map, named by the value of the label.
    Entry(String),
    /// A value of a list of numbers; the label tells them apart.
    Item(String),
}

/// The element of a list of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The member that makes it out.
    pub key: String,
    /// That member is a number.
    pub is_number: bool,
    /// The label with the value of that member.
    pub label: String,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// A whole number; `signed` where it may be negative, and is then held as a contradiction.
    Whole {
        /// It may be negative.
        signed: bool,
    },
    /// A number of at least 0.
    Number,
    /// Yes or no: 1 or 0.
    Flag,
    /// A time: seconds since 1970.
    Time,
    /// The value of this label.
    Text(String),
}

/// The schema of a kind's snapshot.
pub struct Shape {
    root: Value,
    named: Vec<(String, Value)>,
}

impl Shape {
    /// The shape of the snapshots of a kind.
    #[must_use]
    pub fn of(kind: Kind) -> Self {
        match kind {
            Kind::DruidWorkers => Self::read::<DruidWorkersSnapshot>(),
            Kind::DruidSupervisor => Self::read::<DruidSupervisorSnapshot>(),
            Kind::FlinkJob => Self::read::<FlinkJobSnapshot>(),
            Kind::KafkaGroup => Self::read::<KafkaGroupSnapshot>(),
            Kind::PubsubSubscription => Self::read::<PubsubSubscriptionSnapshot>(),
            Kind::Backlog => Self::read::<BacklogSnapshot>(),
        }
    }

    fn read<T: ToSchema>() -> Self {
        let json = |schema| serde_json::to_value(schema).unwrap_or_default();
        let mut named = Vec::new();
        T::schemas(&mut named);
        Self { root: json(<T as PartialSchema>::schema()), named: named.into_iter().map(|(name, schema)| (name, json(schema))).collect() }
    }

    /// The schema itself, behind references and without "or null".
    fn resolved<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..8 {
            if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
                let name = path.rsplit('/').next().unwrap_or_default();
                let Some((_, found)) = self.named.iter().find(|(known, _)| known == name) else { return schema };
                schema = found;
            } else if let Some(one) = schema.get("oneOf").and_then(Value::as_array).and_then(|list| list.iter().find(|one| !is(one, "null"))) {
                schema = one;
            } else {
                return schema;
            }
        }
        schema
    }

    /// The way to a field, and what it holds; or what is wrong with the key, in words.
    pub fn find(&self, key: &str) -> Result<(Vec<Step>, Holds), String> {
        let mut steps = Vec::new();
        let mut here = self.resolved(&self.root);
        let mut segments = key.split('.').peekable();
        let mut so_far = String::new();
        while let Some(segment) = segments.next() {
            let (name, label) = split(segment)?;
            let found = here.get("properties").and_then(|properties| properties.get(name)).filter(|_| !OWN.contains(&name));
            let Some(found) = found else {
                let of = if so_far.is_empty() { String::new() } else { format!(" of {so_far}") };
                return Err(format!("\"{name}\" is no field{of}: expected one of {}", members(here).join(", ")));
            };
            so_far = if so_far.is_empty() { name.to_owned() } else { format!("{so_far}.{name}") };
            here = self.resolved(found);
            steps.push(Step::Member(name.to_owned()));
            let is_last = segments.peek().is_none();
            if is(here, "array") {
                let items = self.resolved(here.get("items").unwrap_or(&Value::Null));
                let label = label.ok_or_else(|| format!("{so_far} is a list: expected {name}[] or {name}[LABEL]"))?;
                here = items;
                if is(items, "object") {
                    steps.push(Step::Element(self.element(name, label, items).ok_or_else(|| not_by_queries(&so_far))?));
                } else if is(items, "number") && is_last {
                    steps.push(Step::Item(or(label, ITEM_LABEL)));
                    return Ok((steps, Holds::Number));
                } else {
                    return Err(not_by_queries(&so_far));
                }
            } else if let Some(values) = values_of_map(here) {
                let label = label.ok_or_else(|| format!("{so_far} is a map: expected {name}[] or {name}[LABEL]"))?;
                let usual = MAP_LABELS.into_iter().find(|(map, _)| *map == name || map.is_empty()).map_or("", |(_, label)| label);
                steps.push(Step::Entry(or(label, usual)));
                here = self.resolved(values);
                if is_last {
                    return Ok((steps, holds(here, None).ok_or_else(|| not_by_queries(&so_far))?));
                }
            } else if is_last {
                return Ok((steps, leaf(&so_far, here, label)?));
            } else if label.is_some() {
                return Err(format!("{so_far} is no list: expected it without brackets"));
            } else if !is(here, "object") {
                return Err(format!("{so_far} has no fields of its own: expected it at the end"));
            }
        }
        Err(format!("{so_far} is no single field: expected one of its own, {}", members(here).join(", ")))
    }

    fn element(&self, list: &str, label: &str, items: &Value) -> Option<Element> {
        let (_, key, usual) = LISTS.into_iter().find(|(name, _, _)| *name == list)?;
        let key_schema = self.resolved(items.get("properties")?.get(key)?);
        Some(Element { key: key.to_owned(), is_number: is(key_schema, "integer"), label: or(label, usual) })
    }
}

impl Shape {
    /// The objects on the way to a field, by their path, and the members without which each of them is unknown.
    #[must_use]
    pub fn needs(&self, steps: &[Step]) -> Vec<(String, Vec<String>)> {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        let mut here = self.resolved(&self.root);
        let mut path = String::new();
        for step in steps {
            match step {
                Step::Member(name) => {
                    let Some(schema) = here.get("properties").and_then(|properties| properties.get(name)) else { return found };
                    // a plain number that has a default instead of null: absent, it would be taken for that
                    let plain = holds(self.resolved(schema), None).is_some() && !may_be_null(schema);
                    if let (true, Some((_, names))) = (plain, found.last_mut()) {
                        names.push(name.clone());
                    }
                    path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    here = self.resolved(schema);
                }
                Step::Element(_) => here = self.resolved(here.get("items").unwrap_or(&Value::Null)),
                Step::Entry(_) | Step::Item(_) => return found,
            }
            if is(here, "object") && values_of_map(here).is_none() {
                let required = here.get("required").and_then(Value::as_array).into_iter().flatten();
                found.push((path.clone(), required.filter_map(Value::as_str).map(str::to_owned).collect()));
            }
        }
        found
    }
}

/// The schema of the values of a map; an object of fixed members has none.
fn values_of_map(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|values| values.is_object())
}

fn may_be_null(schema: &Value) -> bool {
    is(schema, "null") || schema.get("oneOf").and_then(Value::as_array).is_some_and(|list| list.iter().any(|one| is(one, "null")))
}

/// The member that makes out an element of a list, where queries can fill the list.
#[must_use]
pub fn key_of(list: &str) -> Option<&'static str> {
    LISTS.into_iter().find(|(name, _, _)| *name == list).map(|(_, key, _)| key)
}

fn leaf(path: &str, schema: &Value, label: Option<&str>) -> Result<Holds, String> {
    if is(schema, "object") {
        let fields = members(schema);
        return Err(if fields.is_empty() {
            not_by_queries(path)
        } else {
            format!("{path} is no single field: expected one of its own, {}", fields.join(", "))
        });
    }
    match (holds(schema, label), label) {
        (Some(Holds::Text(label)), _) if label.is_empty() => {
            let name = path.rsplit('.').next().unwrap_or(path);
            Err(format!("{path} is text: expected {name}[LABEL], whose value it takes, or a constant"))
        }
        (Some(Holds::Text(label)), _) => Ok(Holds::Text(label)),
        (Some(_), Some(_)) => Err(format!("{path} is no list: expected it without brackets")),
        (Some(found), None) => Ok(found),
        (None, _) => Err(not_by_queries(path)),
    }
}

fn holds(schema: &Value, label: Option<&str>) -> Option<Holds> {
    if is(schema, "integer") {
        return Some(Holds::Whole { signed: schema.get("minimum").is_none() });
    }
    if is(schema, "number") {
        return Some(Holds::Number);
    }
    if is(schema, "boolean") {
        return Some(Holds::Flag);
    }
    if is(schema, "string") {
        let is_time = schema.get("format").and_then(Value::as_str) == Some("date-time");
        return Some(if is_time { Holds::Time } else { Holds::Text(label.unwrap_or_default().to_owned()) });
    }
    None
}

/// The name and the label of a segment; `[]` is an empty label.
fn split(segment: &str) -> Result<(&str, Option<&str>), String> {
    let Some((name, rest)) = segment.split_once('[') else { return Ok((segment, None)) };
    let label = rest.strip_suffix(']').filter(|label| label.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric()));
    label
        .map(|label| (name, Some(label)))
        .ok_or_else(|| format!("\"{segment}\" is no field: expected a name, and the name of a label in brackets where it is a list"))
}

fn or(label: &str, usual: &str) -> String {
    if label.is_empty() { usual.to_owned() } else { label.to_owned() }
}

fn not_by_queries(path: &str) -> String {
    format!("{path} cannot come from queries: expected it among the constants")
}

fn is(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => false,
    }
}

fn members(schema: &Value) -> Vec<&str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys()).map(String::as_str).filter(|name| !OWN.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_key_leads_to_what_its_field_holds() {
        let whole = Holds::Whole { signed: false };
        for (kind, key, steps, holds) in [
            (Kind::Backlog, "backlog", 1, Holds::Whole { signed: true }),
            (Kind::Backlog, "arrivalPerSecond", 1, Holds::Number),
            (Kind::Backlog, "observedAt", 1, Holds::Time),
            (Kind::Backlog, "perReplica[]", 2, Holds::Number),
            (Kind::Backlog, "signals[].wanted", 3, whole.clone()),
            (Kind::DruidWorkers, "pending.count", 2, whole.clone()),
            (Kind::DruidWorkers, "workers[instance].enabled", 3, Holds::Flag),
            (Kind::DruidSupervisor, "partitionLag[]", 2, Holds::Whole { signed: true }),
            (Kind::DruidSupervisor, "workerSlots.total", 2, whole.clone()),
            (Kind::KafkaGroup, "topics[].partitions[].committed", 5, whole.clone()),
            (Kind::KafkaGroup, "state[state]", 1, Holds::Text("state".to_owned())),
            (Kind::KafkaGroup, "type[protocol]", 1, Holds::Text("protocol".to_owned())),
            (Kind::FlinkJob, "vertices[].busyRatio.max", 4, Holds::Number),
            (Kind::FlinkJob, "vertices[].partitionsByTopic[]", 4, whole),
            (Kind::FlinkJob, "runningSince", 1, Holds::Time),
        ] {
            assert_eq!(Shape::of(kind).find(key).map(|(found, held)| (found.len(), held)), Ok((steps, holds)), "{key}");
        }
        let (steps, _) = Shape::of(Kind::KafkaGroup).find("topics[topic_name].partitions[].lag").expect("a key");
        let elements: Vec<_> = steps
            .iter()
            .filter_map(
                |step| if let Step::Element(Element { key, label, is_number }) = step { Some((key.as_str(), label.as_str(), *is_number)) } else { None },
            )
            .collect();
        assert_eq!(elements, [("name", "topic_name", false), ("partition", "partition", true)]);
    }

    #[test]
    fn a_key_that_leads_nowhere_is_told_what_there_is() {
        for (kind, key, words) in [
            (Kind::Backlog, "backlogs", "\"backlogs\" is no field: expected one of arrivalPerSecond, arrivedTotal, backlog"),
            (Kind::Backlog, "missing", "\"missing\" is no field"),
            (Kind::Backlog, "backlog[pod]", "expected it without brackets"),
            (Kind::Backlog, "perReplica", "expected perReplica[] or perReplica[LABEL]"),
            (Kind::Backlog, "signals[].name.x", "no fields of its own"),
            (Kind::DruidWorkers, "pending", "expected one of its own, count"),
            (Kind::DruidWorkers, "pending.tasks[].id", "cannot come from queries"),
            (Kind::KafkaGroup, "topics[]", "expected one of its own"),
            (Kind::KafkaGroup, "topics.partitions[].lag", "topics is a list"),
            (Kind::KafkaGroup, "topics[].partitions[].lagg", "is no field of topics.partitions: expected one of"),
            (Kind::KafkaGroup, "topics[topic", "is no field"),
            (Kind::KafkaGroup, "state", "state is text: expected state[LABEL]"),
            (Kind::FlinkJob, "vertices[].inputs[].from", "cannot come from queries"),
            (Kind::DruidSupervisor, "spec", "cannot come from queries"),
        ] {
            let error = Shape::of(kind).find(key).expect_err(key);
            assert!(error.contains(words), "{key}: {error}");
        }
    }
}
