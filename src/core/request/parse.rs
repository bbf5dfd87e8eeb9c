//! From bytes to a checked [`Request`].
//!
//! The body is read in two passes. The first only finds the members; the second reads each by its kind, straight into
//! its type. When a member does not fit, a slower third pass sifts it as a tree (`misfit`), and what of it fits is
//! checked like the rest: a member that is not known, or one wrong value, hides no other problem.

use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, from_str};

use super::misfit::{self, MOST_PROBLEMS, Sifted};
use super::{Failure, Kind, Readings, Replicas, Request, Series, check};
use crate::core::memory::{self, Memory};
use crate::core::policy::PolicyInput;
use crate::core::problem::Problem;
use crate::core::units::Timestamp;

/// The most readings of the past in one request.
pub const MOST_HISTORY: usize = 1_000;
/// The most requests in one array.
pub const MOST_REQUESTS: usize = 1_000;

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
    #[error("kind \"{0}\" is not supported: expected one of druidWorkers, druidSupervisor, flinkJob, kafkaGroup, pubsubSubscription, backlog")]
    KindNotSupported(String),
}

/// The members of a request.
const MEMBERS: [&str; 9] = ["kind", "name", "now", "replicas", "snapshot", "failure", "history", "policy", "memory"];

/// The members as they stand in the text, and what else stands there.
#[derive(Default)]
struct Members<'a> {
    known: [Option<&'a RawValue>; MEMBERS.len()],
    unknown: Vec<String>,
    twice: Vec<&'static str>,
}

impl<'a> Members<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        MEMBERS.iter().zip(self.known).find(|(known, _)| **known == name).and_then(|(_, raw)| raw)
    }

    /// What stands in the text and is no member, or is one for the second time.
    fn problems(&self) -> Vec<Problem> {
        let unknown = self.unknown.iter().map(|key| Problem::new(key.as_str(), format!("is not known: expected one of {}", MEMBERS.join(", "))));
        let twice = self.twice.iter().map(|key| Problem::new(*key, "stands twice: expected each member once"));
        unknown.chain(twice).take(MOST_PROBLEMS).collect()
    }
}

impl<'a> Deserialize<'a> for Members<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'a> Visitor<'a> for Reader {
            type Value = Members<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members::default();
                while let Some(key) = map.next_key::<String>()? {
                    let Some((name, place)) = MEMBERS.into_iter().zip(&mut members.known).find(|(name, _)| *name == key) else {
                        map.next_value::<IgnoredAny>()?;
                        members.unknown.push(key);
                        continue;
                    };
                    let value = map.next_value()?;
                    if place.replace(value).is_some() {
                        members.twice.push(name);
                    }
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reader)
    }
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
    let Ok(members) = from_str::<Members<'_>>(text) else {
        // either no JSON at all, or JSON that is no object
        from_str::<&RawValue>(text).map_err(|error| Refusal::NotJson(error.to_string()))?;
        return Err(Refusal::Invalid(vec![Problem::new("", "is not an object: expected a request, or an array of requests")]));
    };
    let mut problems = members.problems();
    let named = read::<String>(members.get("kind"), "kind", &mut problems);
    if named.is_none() && !problems.iter().any(|problem| problem.path == "kind") {
        problems.push(Problem::new("kind", "is missing: expected one of druidWorkers, druidSupervisor, flinkJob, kafkaGroup, pubsubSubscription, backlog"));
    }
    let of_name = |name: String| Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(Refusal::KindNotSupported(name));
    let kind = named.map(of_name).transpose()?;
    let name = read::<String>(members.get("name"), "name", &mut problems);
    let now = read(members.get("now"), "now", &mut problems).unwrap_or(clock);
    let replicas: Replicas = read(members.get("replicas"), "replicas", &mut problems).unwrap_or_default();
    check::replicas(&replicas, &mut problems);
    let failure: Option<Failure> = read(members.get("failure"), "failure", &mut problems);
    let before_policy = problems.len();
    let given: PolicyInput = read(members.get("policy"), "policy", &mut problems).unwrap_or_default();
    // without the kind, neither the readings nor the meaning of the policy can be judged
    let Some(kind) = kind else { return Err(invalid(problems)) };
    let policy = if problems.len() == before_policy { given.resolve(kind) } else { Err(given.faults(kind)) };
    let policy = policy.map_err(|found| add(&mut problems, found.into_iter().map(|problem| problem.under("policy")))).ok();
    let readings = match kind {
        Kind::DruidWorkers => Readings::DruidWorkers(series(&members, &mut problems)),
        Kind::DruidSupervisor => Readings::DruidSupervisor(series(&members, &mut problems)),
        Kind::FlinkJob => Readings::FlinkJob(series(&members, &mut problems)),
        Kind::KafkaGroup => Readings::KafkaGroup(series(&members, &mut problems)),
        Kind::PubsubSubscription => Readings::PubsubSubscription(series(&members, &mut problems)),
        Kind::Backlog => Readings::Backlog(series(&members, &mut problems)),
    };
    let mut found = Vec::new();
    check::readings(&readings, &mut found);
    add(&mut problems, found);
    let (memory, memory_ignored) = read_memory(members.get("memory"), kind, now, &readings, &mut problems);
    match policy {
        Some(policy) if problems.is_empty() => Ok(Request { name, now, replicas, failure, readings, given, policy, memory, memory_ignored }),
        _ => Err(invalid(problems)),
    }
}

fn invalid(mut problems: Vec<Problem>) -> Refusal {
    problems.truncate(MOST_PROBLEMS);
    Refusal::Invalid(problems)
}

/// Adds what is not only the consequence of a problem that is already there.
fn add(problems: &mut Vec<Problem>, found: impl IntoIterator<Item = Problem>) {
    for problem in found {
        let follows = |known: &Problem| problem.path.strip_prefix(known.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        if !problems.iter().any(follows) {
            problems.push(problem);
        }
    }
}

fn series<S: DeserializeOwned>(members: &Members<'_>, problems: &mut Vec<Problem>) -> Series<S> {
    let latest = read(members.get("snapshot"), "snapshot", problems);
    let history: Vec<std::sync::Arc<S>> = read(members.get("history"), "history", problems).unwrap_or_default();
    if history.len() > MOST_HISTORY {
        problems.push(Problem::new("history", format!("{} readings are too many: expected at most {MOST_HISTORY}", history.len())));
    }
    Series { latest: latest.map(std::sync::Arc::new), history }
}

/// Reads a member; absent and null are `None`. Of one that does not fit, what fits is given for further checks.
fn read<T: DeserializeOwned>(raw: Option<&RawValue>, path: &str, problems: &mut Vec<Problem>) -> Option<T> {
    let raw = raw?;
    if let Ok(value) = from_str::<Option<T>>(raw.get()) {
        return value;
    }
    let mut found = Vec::new();
    let sifted = misfit::tree(raw.get(), &mut found).map(misfit::sift::<T>);
    let rest = sifted.and_then(|Sifted { rest, problems }| {
        add(&mut found, problems);
        rest
    });
    if found.is_empty() {
        // a tree holds each key once, so a key that stands twice is only seen in the text
        found.push(Problem::new("", misfit::text_problem::<T>(raw.get())));
    }
    problems.extend(found.into_iter().map(|problem| problem.under(path)));
    rest
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
    T::deserialize(&tree).map_err(|_| misfit::sift::<T>(tree).problems)
}
