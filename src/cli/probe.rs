//! `loadline probe`: asks a source once and prints the snapshot, as it would be judged.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{EXIT_FAILED, EXIT_FINE, EXIT_INVALID, wiring};
use crate::config::{self, FlinkJobName, HttpSource, SourceConfig};
use crate::core::request::Problem;
use crate::engine::CALLS_TIME;
use crate::engine::source::{Snapshot, SourceError};

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
    /// A Flink job.
    Flink(HttpSource, FlinkJobName),
}

/// Asks and prints. Returns the exit code.
pub async fn run(what: What, out: &mut impl Write, err: &mut impl Write) -> std::io::Result<u8> {
    let (source, timeout) = match resolve(what) {
        Ok(found) => found,
        Err(problems) => {
            writeln!(err, "{}", super::serve::lines(&problems))?;
            return Ok(EXIT_INVALID);
        }
    };
    let source = match wiring::source(&source, timeout, false) {
        Ok(source) => source,
        Err(problem) => {
            writeln!(err, "{}", super::serve::lines(&[problem]))?;
            return Ok(EXIT_INVALID);
        }
    };
    let reading = tokio::time::timeout(timeout * CALLS_TIME, source.read()).await;
    let reading = reading.unwrap_or_else(|_| Err(SourceError::new(crate::engine::source::FailureKind::Timeout, "no complete reading in time")));
    match reading {
        Ok(reading) => {
            let text = match &reading.snapshot {
                Snapshot::DruidWorkers(snapshot) => serde_json::to_string_pretty(snapshot),
                Snapshot::DruidSupervisor(snapshot) => serde_json::to_string_pretty(snapshot),
                Snapshot::FlinkJob(snapshot) => serde_json::to_string_pretty(snapshot),
                Snapshot::Backlog(snapshot) => serde_json::to_string_pretty(snapshot),
            };
            writeln!(out, "{}", text.map_err(std::io::Error::other)?)?;
            writeln!(err, "one reading in {} calls", reading.calls)?;
            Ok(EXIT_FINE)
        }
        Err(error) => {
            writeln!(err, "no reading: {error}")?;
            Ok(EXIT_FAILED)
        }
    }
}

fn resolve(what: What) -> Result<(SourceConfig, Duration), Vec<Problem>> {
    match what {
        What::Druid(http) => Ok((SourceConfig::Druid(http), TIMEOUT)),
        What::Flink(http, job) => Ok((SourceConfig::Flink { http, job }, TIMEOUT)),
        What::Target { config, target } => of_target(&config, target.as_deref()),
    }
}

fn of_target(path: &Path, name: Option<&str>) -> Result<(SourceConfig, Duration), Vec<Problem>> {
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
    Ok((target.source.clone(), Duration::try_from_secs_f64(target.timeout.seconds()).unwrap_or(TIMEOUT)))
}
