//! From bytes to a checked [`Request`].
//!
//! The body is read in two passes. The first only finds the members; the second reads each by its kind, straight into
//! its type. When a member does not fit, a slower third pass reads it again as a tree: each misfit is noted with its
//! path and removed, until the rest fits, so that a caller sees all problems at once and not one after the other.

use std::fmt::Write;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, from_str};

use super::{Failure, Kind, Readings, Replicas, Request, Series, check};
use crate::core::memory::{self, Memory};
use crate::core::policy::PolicyInput;
use crate::core::problem::Problem;
use crate::core::units::Timestamp;

/// The most readings of the past in one request.
pub const MOST_HISTORY: usize = 1_000;
/// The most requests in one array.
pub const MOST_REQUESTS: usize = 1_000;
/// The most problems that are listed.
const MOST_PROBLEMS: usize = 100;

/// Why a body is not judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, but not a valid request.
    #[error("the request is not valid: {} problems", .0.len())]
    Invalid(Vec<Problem>),
    /// Its kind cannot be judged by this version.
    #[error("kind \"{0}\" is not supported: expected one of druidWorkers, druidSupervisor, flinkJob, backlog")]
    KindNotSupported(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Members<'a> {
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    now: Option<&'a RawValue>,
    #[serde(borrow)]
    replicas: Option<&'a RawValue>,
    #[serde(borrow)]
    snapshot: Option<&'a RawValue>,
    #[serde(borrow)]
    failure: Option<&'a RawValue>,
    #[serde(borrow)]
    history: Option<&'a RawValue>,
    #[serde(borrow)]
    policy: Option<&'a RawValue>,
    #[serde(borrow)]
    memory: Option<&'a RawValue>,
}

/// Reads a body that is one request. `clock` stands for `now` where the body names none.
pub fn parse(body: &[u8], clock: Timestamp) -> Result<Request, Refusal> {
    let text = std::str::from_utf8(body).map_err(|error| Refusal::NotJson(error.to_string()))?;
    parse_str(text, clock)
}

/// Reads a body that is one request or an array of them. Inside an array each is judged alone.
pub fn parse_batch(body: &[u8], clock: Timestamp) -> Result<Batch, Refusal> {
    let text = std::str::from_utf8(body).map_err(|error| Refusal::NotJson(error.to_string()))?;
    if !text.trim_start().starts_with('[') {
        return parse_str(text, clock).map(|request| Batch::One(Box::new(request)));
    }
    let items: Vec<&RawValue> = from_str(text).map_err(|error| Refusal::NotJson(error.to_string()))?;
    if items.len() > MOST_REQUESTS {
        return Err(Refusal::Invalid(vec![Problem::new("", format!("{} requests are too many: expected at most {MOST_REQUESTS}", items.len()))]));
    }
    Ok(Batch::Many(items.into_iter().map(|item| parse_str(item.get(), clock)).collect()))
}

/// A body as it was posted.
#[derive(Debug)]
pub enum Batch {
    /// One request.
    One(Box<Request>),
    /// An array, each read alone.
    Many(Vec<Result<Request, Refusal>>),
}

fn parse_str(text: &str, clock: Timestamp) -> Result<Request, Refusal> {
    let mut problems = Vec::new();
    let Ok(members) = from_str::<Members<'_>>(text) else {
        // Either no JSON at all, or JSON of another form: the tree tells which, and lists unknown members
        let tree: Value = from_str::<&RawValue>(text).and_then(|raw| from_str(raw.get())).map_err(|error| Refusal::NotJson(error.to_string()))?;
        return Err(Refusal::Invalid(members_problems(&tree)));
    };
    let kind = if let Some(name) = read::<String>(members.kind, "kind", &mut problems) {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(Refusal::KindNotSupported(name))?
    } else {
        if problems.is_empty() {
            problems.push(Problem::new("kind", "is missing: expected one of druidWorkers, druidSupervisor, flinkJob, backlog"));
        }
        return Err(Refusal::Invalid(problems));
    };
    let name = read::<String>(members.name, "name", &mut problems);
    let now = read(members.now, "now", &mut problems).unwrap_or(clock);
    let replicas: Replicas = read(members.replicas, "replicas", &mut problems).unwrap_or_default();
    check::replicas(&replicas, &mut problems);
    let failure: Option<Failure> = read(members.failure, "failure", &mut problems);
    let given: PolicyInput = read(members.policy, "policy", &mut problems).unwrap_or_default();
    let readings = match kind {
        Kind::DruidWorkers => Readings::DruidWorkers(series(&members, &mut problems)),
        Kind::DruidSupervisor => Readings::DruidSupervisor(series(&members, &mut problems)),
        Kind::FlinkJob => Readings::FlinkJob(series(&members, &mut problems)),
        Kind::Backlog => Readings::Backlog(series(&members, &mut problems)),
    };
    let (memory, memory_ignored) = read_memory(members.memory, kind, now, &readings, &mut problems);
    let policy = match given.resolve(kind) {
        Ok(policy) => Some(policy),
        Err(found) => {
            problems.extend(found.into_iter().map(|problem| problem.under("policy")));
            None
        }
    };
    check::readings(&readings, &mut problems);
    match policy {
        Some(policy) if problems.is_empty() => Ok(Request { name, now, replicas, failure, readings, given, policy, memory, memory_ignored }),
        _ => {
            problems.truncate(MOST_PROBLEMS);
            Err(Refusal::Invalid(problems))
        }
    }
}

/// The problems of a body that is JSON, but not an object of the known members.
fn members_problems(tree: &Value) -> Vec<Problem> {
    const KNOWN: [&str; 9] = ["kind", "name", "now", "replicas", "snapshot", "failure", "history", "policy", "memory"];
    let Some(object) = tree.as_object() else {
        return vec![Problem::new("", "is not an object: expected a request, or an array of requests")];
    };
    let mut problems: Vec<Problem> = object
        .keys()
        .filter(|key| !KNOWN.contains(&key.as_str()))
        .map(|key| Problem::new(key.as_str(), format!("is not known: expected one of {}", KNOWN.join(", "))))
        .collect();
    if problems.is_empty() {
        problems.push(Problem::new("", "has a member twice: expected each member once"));
    }
    problems.truncate(MOST_PROBLEMS);
    problems
}

fn series<S: DeserializeOwned>(members: &Members<'_>, problems: &mut Vec<Problem>) -> Series<S> {
    let latest = read(members.snapshot, "snapshot", problems);
    let history: Vec<std::sync::Arc<S>> = read(members.history, "history", problems).unwrap_or_default();
    if history.len() > MOST_HISTORY {
        problems.push(Problem::new("history", format!("{} readings are too many: expected at most {MOST_HISTORY}", history.len())));
    }
    Series { latest: latest.map(std::sync::Arc::new), history }
}

/// Reads a member; absent and null are `None`.
fn read<T: DeserializeOwned>(raw: Option<&RawValue>, path: &str, problems: &mut Vec<Problem>) -> Option<T> {
    let raw = raw?;
    if let Ok(value) = from_str::<Option<T>>(raw.get()) {
        return value;
    }
    match from_str::<Value>(raw.get()) {
        Ok(tree) => {
            let found = all_problems::<T>(tree);
            if found.is_empty() {
                // a tree holds each key once, so a key that stands twice is only seen in the text
                problems.push(Problem::new(path, text_problem::<T>(raw.get())));
            }
            problems.extend(found.into_iter().map(|problem| problem.under(path)));
        }
        // for example a number beyond what a double can hold
        Err(error) => problems.push(Problem::new(path, in_words(&error.to_string()))),
    }
    None
}

/// What is wrong with a text whose tree is fine.
fn text_problem<T: DeserializeOwned>(text: &str) -> String {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, Option<T>>(&mut reader) else { return "does not fit: expected another form".to_owned() };
    let inside = error.path().to_string();
    let message = in_words(&error.inner().to_string());
    if inside == "." { message } else { format!("{message}, in {inside}") }
}

fn read_memory(raw: Option<&RawValue>, kind: Kind, now: Timestamp, readings: &Readings, problems: &mut Vec<Problem>) -> (Option<Memory>, Option<String>) {
    #[derive(Deserialize)]
    struct Head {
        version: Option<u32>,
        kind: Option<String>,
    }
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return (None, None) };
    let parts = if let Readings::FlinkJob(series) = readings { series.latest.as_ref().map_or(0, |job| job.vertices.len()) } else { 0 };
    let most = memory::LARGEST_BYTES.max(parts * 1024);
    if raw.get().len() > most {
        problems.push(Problem::new("memory", format!("{} bytes are too many: expected at most {most}", raw.get().len())));
        return (None, None);
    }
    if let Ok(head) = from_str::<Head>(raw.get()) {
        if let Some(version) = head.version.filter(|version| *version != memory::VERSION) {
            return (None, Some(format!("it is of version {version}, this service reads version {}", memory::VERSION)));
        }
        if let Some(other) = head.kind.filter(|name| name != kind.name() && !name.is_empty()) {
            return (None, Some(format!("it belongs to {other}, this is {kind}")));
        }
    }
    let memory: Option<Memory> = read(Some(raw), "memory", problems);
    if let Some(message) = memory.as_ref().and_then(|memory| memory.flaw(now)) {
        problems.push(Problem::new("memory", message));
    }
    (memory, None)
}

/// Checks a value that stands in for a member, for example a policy that was merged.
pub fn parse_value<T: DeserializeOwned>(tree: Value) -> Result<T, Vec<Problem>> {
    T::deserialize(&tree).map_err(|_| all_problems::<T>(tree))
}

/// All misfits of a tree: each is noted and removed until the rest fits, or until nothing is left to remove.
fn all_problems<T: DeserializeOwned>(mut tree: Value) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    while problems.len() < MOST_PROBLEMS {
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&tree) else { break };
        let path: Vec<Segment> = error.path().iter().filter_map(Segment::from).collect();
        let text = error.inner().to_string();
        if let Some(field) = missing_field(&text) {
            let at = join(&path, Some(field));
            // a field that was removed here as a misfit is missing by our own doing
            if !problems.iter().any(|problem| problem.path == at) {
                problems.push(Problem::new(at, "is missing"));
            }
            if !remove(&mut tree, &path) {
                break;
            }
            continue;
        }
        problems.push(Problem::new(join(&path, None), in_words(&text)));
        if !remove(&mut tree, &path) {
            break;
        }
    }
    problems
}

enum Segment {
    Key(String),
    Index(usize),
}

impl Segment {
    fn from(segment: &serde_path_to_error::Segment) -> Option<Self> {
        match segment {
            serde_path_to_error::Segment::Seq { index } => Some(Self::Index(*index)),
            serde_path_to_error::Segment::Map { key } | serde_path_to_error::Segment::Enum { variant: key } => Some(Self::Key(key.clone())),
            serde_path_to_error::Segment::Unknown => None,
        }
    }
}

fn join(path: &[Segment], last: Option<&str>) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            // writing to a String cannot fail
            Segment::Index(index) => _ = write!(text, "[{index}]"),
            Segment::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
        }
    }
    if let Some(last) = last {
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(last);
    }
    text
}

/// Takes the value at `path` out of the tree; an element of an array becomes null so that later indices keep their
/// meaning, and where null does not fit either, the whole array goes.
fn remove(tree: &mut Value, path: &[Segment]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let mut node = &mut *tree;
    for segment in parents {
        let next = match segment {
            Segment::Key(key) => node.get_mut(key.as_str()),
            Segment::Index(index) => node.get_mut(*index),
        };
        match next {
            Some(next) => node = next,
            None => return false,
        }
    }
    match (node, last) {
        (Value::Object(object), Segment::Key(key)) => object.remove(key).is_some(),
        (Value::Array(items), Segment::Index(index)) => match items.get_mut(*index) {
            Some(item) if !item.is_null() => {
                *item = Value::Null;
                true
            }
            _ => remove(tree, parents),
        },
        _ => false,
    }
}

fn missing_field(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.split('`').next()
}

/// The deserializer's words for types, said for people.
fn in_words(text: &str) -> String {
    text.replace("expected u64", "expected a whole number of at least 0")
        .replace("expected u32", "expected a whole number of at least 0")
        .replace("expected i64", "expected a whole number")
        .replace("expected f64", "expected a number")
        .replace("expected a borrowed string", "expected text")
        .replace("expected a string", "expected text")
        .replace("invalid type: ", "")
        .replace("invalid value: ", "")
        .replace("floating point `", "number `")
}
