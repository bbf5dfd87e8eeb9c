//! `loadline probe`: asks a source once and prints the snapshot, as it would be judged. For a pattern of jobs or groups it lists
//! the targets that there would be.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::wiring::{self, Sources, Wiring};
use super::{EXIT_FAILED, EXIT_FINE, EXIT_INVALID};
use crate::config::kafka::{KafkaGroupName, KafkaServer};
use crate::config::{self, FlinkJobName, HttpSource, SourceConfig};
use crate::core::request::Problem;
use crate::engine::source::{FailureKind, Found, Reading, Snapshot, SourceError};
use crate::engine::{self, CALLS_TIME};
use crate::sources::Timing;
use crate::sources::kafka::Wishes;

/// Time of one call where the command line names none.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Clone, Debug)]
pub enum What {
    /// The source of a target in a configuration file; the only one where no name is given.
    Target {
        /// The file.
        config: PathBuf,
        /// The target's name.
        target: Option<String>,
    },
    /// A Druid Router or Overlord.
    Druid(HttpSource),
    /// A Flink job, or jobs.
    Flink(HttpSource, FlinkJobName),
    /// A Kafka consumer group, or groups.
    Kafka(KafkaServer, KafkaGroupName),
}

/// Asks and prints. Returns the exit code.
pub async fn run(what: What, out: &mut impl Write, err: &mut impl Write) -> std::io::Result<u8> {
    let sources = resolve(what).and_then(|asked| {
        // a single reading shares nothing with one before it
        let timing = Timing { interval: Duration::ZERO, timeout: asked.timeout };
        let sources = Wiring::default().sources(&asked.source, asked.wishes.clone(), timing, false).map_err(|problem| vec![problem])?;
        Ok((sources, asked))
    });
    let (sources, asked) = match sources {
        Ok(found) => found,
        Err(problems) => {
            writeln!(err, "{}", super::serve::lines(&problems))?;
            return Ok(EXIT_INVALID);
        }
    };
    let whole = asked.timeout * CALLS_TIME;
    let printed = match &sources {
        Sources::One(source) => within(whole, source.read()).await.map(|reading| print_reading(&reading, source.shared_calls(), out, err)),
        Sources::Many(discovery) => within(whole, discovery.find()).await.map(|found| print_found(&asked, &found, out, err)),
    };
    match printed {
        Ok(printed) => printed.map(|()| EXIT_FINE),
        Err(error) => {
            writeln!(err, "no reading: {error}")?;
            Ok(EXIT_FAILED)
        }
    }
}

async fn within<T>(whole: Duration, asked: impl Future<Output = Result<T, SourceError>>) -> Result<T, SourceError> {
    let answer = tokio::time::timeout(whole, asked).await;
    answer.unwrap_or_else(|_| Err(SourceError::new(FailureKind::Timeout, "no complete reading in time")))
}

fn print_reading(reading: &Reading, shared: u32, out: &mut impl Write, err: &mut impl Write) -> std::io::Result<()> {
    let text = match &reading.snapshot {
        Snapshot::DruidWorkers(snapshot) => serde_json::to_string_pretty(snapshot),
        Snapshot::DruidSupervisor(snapshot) => serde_json::to_string_pretty(snapshot),
        Snapshot::FlinkJob(snapshot) => serde_json::to_string_pretty(snapshot),
        Snapshot::KafkaGroup(snapshot) => serde_json::to_string_pretty(snapshot),
        Snapshot::PubsubSubscription(snapshot) => serde_json::to_string_pretty(snapshot),
        Snapshot::Backlog(snapshot) => serde_json::to_string_pretty(snapshot),
    };
    writeln!(out, "{}", text.map_err(std::io::Error::other)?)?;
    writeln!(err, "one reading in {} calls", reading.calls.saturating_add(shared))
}

/// The targets that an entry would have, under the names that they would have where no other target has them.
fn print_found(asked: &Asked, found: &[Found], out: &mut impl Write, err: &mut impl Write) -> std::io::Result<()> {
    let many = if matches!(asked.source, SourceConfig::Kafka { .. }) { "groups" } else { "jobs" };
    let (targets, left_out) = engine::targets_of(&asked.entry, found);
    let rows: Vec<Value> = targets.iter().map(|(target, found)| json!({ "target": target, "name": found.name, "id": found.id })).collect();
    writeln!(out, "{}", serde_json::to_string_pretty(&json!({ many: rows, "leftOut": left_out })).map_err(std::io::Error::other)?)?;
    writeln!(err, "{} {many} would be watched, {} left out", targets.len(), left_out.len())
}

/// The source that is asked.
struct Asked {
    source: SourceConfig,
    timeout: Duration,
    /// The name of the entry, for one that stands for many.
    entry: String,
    wishes: Wishes,
}

fn resolve(what: What) -> Result<Asked, Vec<Problem>> {
    match what {
        What::Druid(http) => Ok(alone(SourceConfig::Druid(http), "druid")),
        What::Flink(http, job) => Ok(alone(SourceConfig::Flink { http, job }, "flink")),
        What::Kafka(server, group) => Ok(alone(SourceConfig::Kafka { server, group }, "kafka")),
        What::Target { config, target } => of_target(&config, target.as_deref()),
    }
}

/// A source that belongs to no target.
fn alone(source: SourceConfig, entry: &str) -> Asked {
    Asked { source, timeout: TIMEOUT, entry: entry.to_owned(), wishes: Wishes::default() }
}

fn of_target(path: &Path, name: Option<&str>) -> Result<Asked, Vec<Problem>> {
    let problem = |message: String| vec![Problem::new("", message)];
    let text = std::fs::read_to_string(path).map_err(|error| problem(format!("{} cannot be read: {error}", path.display())))?;
    let configuration = config::parse(&text)?;
    let names = || configuration.targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ");
    let target = match (name, configuration.targets.as_slice()) {
        (Some(name), targets) => {
            targets.iter().find(|target| target.name == name).ok_or_else(|| problem(format!("no target \"{name}\": expected one of {}", names())))?
        }
        (None, [only]) => only,
        (None, _) => return Err(problem(format!("--target is missing: expected one of {}", names()))),
    };
    let wishes = wiring::wishes(&target.policy.resolve(target.kind)?);
    Ok(Asked { source: target.source.clone(), timeout: wiring::seconds(target.timeout), entry: target.name.clone(), wishes })
}
