//! Readings of any kind from Prometheus, or from another server with its query API.
//!
//! A reading is one batch: every query of the map at the same moment (`time`), a few at a time, all within one time limit.
//! Beside them goes one query for the time of the oldest sample that any of them reads from, as an answer has the time of
//! the question: without it a target that went silent would be fresh for another five minutes. The answers become the
//! same JSON that a caller would post, and the same parser judges it, so a kind needs nothing of its own here.
//!
//! Why not a client library: it would bring an HTTP client of its own past the guarded one. Unknown is never zero: see
//! `assemble`. At start nothing is remembered, and nothing later on either. Source: Prometheus' HTTP API.

mod assemble;
mod value;
mod wire;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};

use self::assemble::{Assembled, assemble};
use self::wire::Series;
use super::http::{Client, Session};
use crate::config::prometheus::PrometheusMap;
use crate::config::prometheus::field::Holds;
use crate::core::request::{Kind, Problem, Readings, Refusal, parse};
use crate::core::units::Timestamp;
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};

/// Queries of one reading on their way at a time.
pub const AT_A_TIME: usize = 8;
/// Where queries go.
const QUERY: &str = "/api/v1/query";
/// How often what does not fit is taken out of a snapshot before it is given up.
const ROUNDS: usize = 4;

/// Reads one target's snapshot.
pub struct PrometheusReader {
    client: Client,
    map: PrometheusMap,
    timeout: Duration,
}

impl PrometheusReader {
    /// A reader of the server behind `client`; a whole reading may take `timeout`.
    #[must_use]
    pub const fn new(client: Client, map: PrometheusMap, timeout: Duration) -> Self {
        Self { client, map, timeout }
    }

    async fn reading(&self) -> Result<Reading, SourceError> {
        let session = self.client.session();
        let asked_at = clock::now();
        let deadline = tokio::time::Instant::now() + self.timeout;
        let ask = async |query: &str| {
            let answer = tokio::time::timeout_at(deadline, self.ask(&session, query, asked_at)).await;
            answer.unwrap_or_else(|_| {
                Err(SourceError::new(FailureKind::Timeout, format!("no answer within {:?}, which all queries of a reading share", self.timeout)))
            })
        };
        let age = async {
            match &self.map.observed_at {
                Some(query) => Some(ask(query).await),
                None => None,
            }
        };
        let (answers, age) = tokio::join!(join_all(self.map.fields.iter().map(|field| ask(&field.query))), age);
        let received_at = clock::now();
        let assembled = assemble(&self.map, &answers)?;
        // what has no samples behind it is known as of now
        let observed_at = age.map_or(Ok(asked_at), |answer| self.observed_at(answer))?;
        let snapshot = snapshot(self.map.kind, assembled, observed_at, received_at)?;
        Ok(Reading { snapshot, calls: session.calls() })
    }

    async fn ask(&self, session: &Session, query: &str, at: Timestamp) -> Result<Vec<Series>, SourceError> {
        let time = format!("{}.{:03}", at.as_second(), at.subsec_millisecond());
        let timeout = format!("{}ms", self.timeout.as_millis());
        wire::read(&session.ask_with_form(QUERY, &[("query", query), ("time", &time), ("timeout", &timeout)]).await?)
    }

    /// The time of the oldest sample.
    fn observed_at(&self, answer: Result<Vec<Series>, SourceError>) -> Result<Timestamp, SourceError> {
        let whose = if self.map.observed_at_given { "observedAt" } else { "the age of the samples" };
        let unknown = |why: String| SourceError::new(FailureKind::Unexpected, format!("{whose} is unknown: {why}"));
        let series = answer.map_err(|error| SourceError { message: format!("{whose} is unknown: {}", error.message), ..error })?;
        let text = match series.as_slice() {
            [one] => one.value.as_deref().unwrap_or_default(),
            [] => return Err(unknown("no series, so nothing that was asked for has a sample: expected one".to_owned())),
            many => return Err(unknown(format!("{} series: expected one, as from min()", many.len()))),
        };
        // the check of the text is that of any field
        value::of(&Holds::Time, text).map_err(unknown)?;
        text.parse().ok().and_then(value::time).ok_or_else(|| unknown(format!("{text} is no time")))
    }
}

impl Source for PrometheusReader {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.reading())
    }
}

/// The snapshot, as the parser of requests sees it. What does not fit is taken out, and named.
fn snapshot(kind: Kind, assembled: Assembled, observed_at: Timestamp, received_at: Timestamp) -> Result<Snapshot, SourceError> {
    let Assembled { snapshot, mut missing } = assembled;
    let mut tree = Value::Object(snapshot);
    let mut removed: Vec<String> = Vec::new();
    for _ in 0..ROUNDS {
        let mut body = json!({ "kind": kind, "now": received_at, "snapshot": tree });
        if let Some(Value::Object(members)) = body.get_mut("snapshot") {
            stamp(members, observed_at, received_at, &missing);
        }
        match parse(body.to_string().as_bytes(), received_at) {
            Ok(request) => return latest(request.readings).ok_or_else(|| SourceError::new(FailureKind::Unexpected, "no snapshot")),
            Err(Refusal::Invalid(problems)) => {
                for Problem { path, message } in problems {
                    let path = path.strip_prefix("snapshot.").unwrap_or(&path).to_owned();
                    // once it is out and still wrong, everything around it goes
                    let goes = if removed.contains(&path) { path.split(['.', '[']).next().unwrap_or_default().to_owned() } else { path.clone() };
                    if remove(&mut tree, &goes) {
                        missing.push(format!("{goes} ({}{message})", if goes == path { String::new() } else { format!("{path} ") }));
                    }
                    removed.push(path);
                }
            }
            Err(other) => return Err(SourceError::new(FailureKind::Unexpected, other.to_string())),
        }
    }
    Err(SourceError::new(FailureKind::Unexpected, format!("the values make no snapshot: {}", missing.join("; "))))
}

fn stamp(members: &mut Map<String, Value>, observed_at: Timestamp, received_at: Timestamp, missing: &[String]) {
    members.insert("observedAt".to_owned(), json!(observed_at));
    members.insert("receivedAt".to_owned(), json!(received_at));
    if !missing.is_empty() {
        members.insert("missing".to_owned(), json!(missing));
    }
}

/// Takes a value out, by a path such as `topics[0].partitions[3].lag`.
fn remove(tree: &mut Value, path: &str) -> bool {
    let Some((parents, last)) = path.rsplit_once('.').map_or(Some(("", path)), Some) else { return false };
    let mut here = tree;
    for segment in parents.split('.').filter(|segment| !segment.is_empty()) {
        let (name, indices) = segment.split_once('[').unwrap_or((segment, ""));
        let Some(inside) = here.get_mut(name) else { return false };
        here = inside;
        for index in indices.split(['[', ']']).filter_map(|index| index.parse::<usize>().ok()) {
            let Some(inside) = here.get_mut(index) else { return false };
            here = inside;
        }
    }
    let name = last.split('[').next().unwrap_or_default();
    here.as_object_mut().is_some_and(|members| members.remove(name).is_some())
}

fn latest(readings: Readings) -> Option<Snapshot> {
    fn own<T: Clone>(series: crate::core::request::Series<T>) -> Option<T> {
        series.latest.map(std::sync::Arc::unwrap_or_clone)
    }
    match readings {
        Readings::DruidWorkers(series) => own(series).map(Snapshot::DruidWorkers),
        Readings::DruidSupervisor(series) => own(series).map(|one| Snapshot::DruidSupervisor(Box::new(one))),
        Readings::FlinkJob(series) => own(series).map(Snapshot::FlinkJob),
        Readings::KafkaGroup(series) => own(series).map(|one| Snapshot::KafkaGroup(Box::new(one))),
        Readings::PubsubSubscription(series) => own(series).map(|one| Snapshot::PubsubSubscription(Box::new(one))),
        Readings::Backlog(series) => own(series).map(Snapshot::Backlog),
    }
}
