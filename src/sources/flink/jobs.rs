//! Which jobs of a cluster an entry of the configuration stands for.

use std::sync::Arc;

use super::FlinkSource;
use super::assemble::has_ended;
use super::cluster::FlinkCluster;
use super::wire::{JobRow, JobsOverview};
use crate::engine::source::{BoxFuture, Discovery, Found, Source, SourceError};
use crate::sources::Timing;

/// Which job is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobSelector {
    /// By name: the newest of that name that has not ended, else the newest.
    Name(String),
    /// By id, 32 hex digits.
    Id(String),
}

impl std::fmt::Display for JobSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "job \"{name}\""),
            Self::Id(id) => write!(f, "job {id}"),
        }
    }
}

/// The job that is meant. Of several with one name the newest that has not ended, else the newest.
#[must_use]
pub fn choose<'a>(jobs: &'a JobsOverview, wanted: &JobSelector) -> Option<&'a JobRow> {
    let meant = |row: &&JobRow| match wanted {
        JobSelector::Name(name) => row.name == *name,
        JobSelector::Id(id) => row.jid.eq_ignore_ascii_case(id),
    };
    jobs.jobs.iter().filter(meant).max_by_key(|row| (!has_ended(&row.state), row.start_time.count().unwrap_or(0)))
}

/// Names of jobs by pattern: `*` stands for anything, all else for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPattern {
    /// The pattern of all.
    pub job: String,
    /// Where there are any, one of them has to fit too.
    pub include: Vec<String>,
    /// None of them may fit.
    pub exclude: Vec<String>,
}

impl JobPattern {
    /// Whether a job of this name is meant.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| fits(pattern, name));
        fits(&self.job, name) && (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        // the first place is as good as any: what follows may begin anywhere behind it
        let Some(at) = name.find(piece) else { return false };
        name = name.get(at + piece.len()..).unwrap_or_default();
    }
    name.ends_with(last)
}

/// The jobs of a cluster that fit a pattern and have not ended.
pub struct FlinkJobs {
    cluster: Arc<FlinkCluster>,
    pattern: JobPattern,
    timing: Timing,
    grows: bool,
}

impl FlinkJobs {
    /// Jobs of a cluster; `grows` when its TaskManagers are the scale target, or come on demand.
    #[must_use]
    pub fn new(cluster: Arc<FlinkCluster>, pattern: JobPattern, timing: Timing, grows: bool) -> Self {
        Self { cluster, pattern, timing, grows }
    }

    async fn running(&self) -> Result<Vec<Found>, SourceError> {
        let round = self.cluster.round(self.timing).await?;
        let mut rows: Vec<&JobRow> = round.jobs.jobs.iter().filter(|row| !has_ended(&row.state) && self.pattern.fits(&row.name)).collect();
        rows.sort_by_key(|row| (row.start_time.count(), &row.jid));
        Ok(rows.into_iter().map(|row| Found { id: row.jid.clone(), name: row.name.clone() }).collect())
    }
}

impl Discovery for FlinkJobs {
    fn find(&self) -> BoxFuture<'_, Result<Vec<Found>, SourceError>> {
        Box::pin(self.running())
    }

    fn stands_for(&self, name: &str) -> bool {
        self.pattern.fits(name)
    }

    fn source(&self, found: &Found) -> Arc<dyn Source> {
        Arc::new(FlinkSource::new(Arc::clone(&self.cluster), JobSelector::Id(found.id.clone())).timed(self.timing).growing(self.grows))
    }

    fn phase(&self) -> Option<&str> {
        Some(self.cluster.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(rows: &[(&str, &str, &str, u64)]) -> JobsOverview {
        let rows = rows.iter().map(|(jid, name, state, start)| serde_json::json!({ "jid": jid, "name": name, "state": state, "start-time": start }));
        serde_json::from_value(serde_json::json!({ "jobs": rows.collect::<Vec<_>>() })).expect("an overview")
    }

    #[test]
    fn of_several_jobs_with_one_name_the_newest_that_has_not_ended_is_meant() {
        let jobs = overview(&[("a", "x", "RUNNING", 1), ("b", "x", "RESTARTING", 2), ("c", "x", "FAILED", 3), ("d", "y", "RUNNING", 4)]);
        let named = |name: &str| choose(&jobs, &JobSelector::Name(name.to_owned())).map(|row| row.jid.as_str());
        assert_eq!((named("x"), named("y"), named("z")), (Some("b"), Some("d"), None));
        assert_eq!(choose(&jobs, &JobSelector::Id("C".to_owned())).map(|row| row.state.as_str()), Some("FAILED"));
        let ended = overview(&[("a", "x", "FINISHED", 1), ("b", "x", "CANCELED", 2)]);
        assert_eq!(choose(&ended, &JobSelector::Name("x".to_owned())).map(|row| row.jid.as_str()), Some("b"));
    }

    #[test]
    fn a_pattern_is_narrowed_by_what_is_included_and_excluded() {
        let pattern = |job: &str, include: &[&str], exclude: &[&str]| JobPattern {
            job: job.to_owned(),
            include: include.iter().map(|text| (*text).to_owned()).collect(),
            exclude: exclude.iter().map(|text| (*text).to_owned()).collect(),
        };
        for (of, name, expected) in [
            (pattern("*", &[], &[]), "anything (v2)", true),
            (pattern("orders-*", &[], &[]), "orders-eu", true),
            (pattern("orders-*", &[], &[]), "orders", false),
            (pattern("*-orders", &[], &[]), "eu-orders", true),
            (pattern("*-orders", &[], &[]), "eu-orders-2", false),
            (pattern("a*a", &[], &[]), "a", false),
            (pattern("a*b*c", &[], &[]), "a-b-b-c", true),
            (pattern("a*b*c", &[], &[]), "a-c-b", false),
            (pattern("*", &["orders-*", "bills"], &[]), "bills", true),
            (pattern("*", &["orders-*", "bills"], &[]), "bills-2", false),
            (pattern("*", &[], &["test-*"]), "test-orders", false),
            (pattern("*", &["*orders"], &["test-*"]), "test-orders", false),
            (pattern("*", &["*orders"], &["test-*"]), "orders", true),
        ] {
            assert_eq!(of.fits(name), expected, "{of:?} {name}");
        }
    }
}
