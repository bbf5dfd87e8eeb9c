//! What Flink's REST API sends, as far as it is read. Numbers may be strings, and NaN is the string "NaN".
//!
//! Source: Flink REST API, version 1 (Flink 1.20 and 2.x).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::core::units::{Amount, Count};

/// `/jobs/overview`.
#[derive(Debug, Deserialize)]
pub struct JobsOverview {
    /// All jobs that the cluster remembers.
    pub jobs: Vec<JobLine>,
}

/// One job in the overview.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobLine {
    /// Its id.
    pub jid: String,
    /// Its name.
    pub name: String,
    /// Its state; fresher here than in the job's own answer, which is cached.
    pub state: String,
    /// When it was started, Unix milliseconds.
    #[serde(default)]
    pub start_time: i64,
    /// Tasks by state, and their total.
    #[serde(default)]
    pub tasks: BTreeMap<String, Count>,
}

/// `/jobs/:id`.
#[derive(Debug, Deserialize)]
pub struct Job {
    /// The vertices; none while the job is initializing.
    #[serde(default)]
    pub vertices: Vec<JobVertex>,
    /// When it entered each state, Unix milliseconds; 0 is never.
    #[serde(default)]
    pub timestamps: BTreeMap<String, i64>,
    /// The job graph.
    #[serde(default)]
    pub plan: Plan,
}

/// A vertex of a job.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobVertex {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The number of key groups; -1 when not known.
    #[serde(default)]
    pub max_parallelism: i64,
    /// Subtasks.
    pub parallelism: Count,
    /// Its state.
    #[serde(default)]
    pub status: String,
    /// Its slot-sharing group, from 1.20 on.
    #[serde(default)]
    pub slot_sharing_group_id: Option<String>,
    /// Totals since the last start.
    #[serde(default)]
    pub metrics: Totals,
}

/// Totals of a vertex since its last start, over its subtasks.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Totals {
    /// Records read.
    pub read_records: Option<Count>,
    /// False: not known yet, whatever the number says.
    pub read_records_complete: Option<bool>,
    /// Records written.
    pub write_records: Option<Count>,
    /// The same for records written.
    pub write_records_complete: Option<bool>,
    /// Busy milliseconds; "NaN" for sources of the old kind.
    #[serde(deserialize_with = "number")]
    pub accumulated_busy_time: Option<f64>,
}

/// The job graph.
#[derive(Debug, Default, Deserialize)]
pub struct Plan {
    /// Its nodes, by vertex id.
    #[serde(default)]
    pub nodes: Vec<Node>,
}

/// A node of the job graph.
#[derive(Debug, Deserialize)]
pub struct Node {
    /// The vertex' id.
    pub id: String,
    /// The edges into it.
    #[serde(default)]
    pub inputs: Vec<Input>,
}

/// An edge.
#[derive(Debug, Deserialize)]
pub struct Input {
    /// The vertex that sends.
    pub id: String,
    /// How records are shared out.
    #[serde(default)]
    pub ship_strategy: Option<String>,
}

/// `/overview`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterOverview {
    /// Slots that no job has.
    #[serde(default)]
    pub slots_available: Option<Count>,
}

/// `/taskmanagers`.
#[derive(Debug, Deserialize)]
pub struct TaskManagers {
    /// Those that are registered.
    pub taskmanagers: Vec<TaskManager>,
}

/// A TaskManager.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManager {
    /// Its slots.
    pub slots_number: Count,
    /// What it has in all.
    #[serde(default)]
    pub total_resource: Option<Resource>,
}

/// Resources of a TaskManager.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// CPUs.
    #[serde(default, deserialize_with = "number")]
    pub cpu_cores: Option<f64>,
}

/// A metric that exists.
#[derive(Debug, Deserialize)]
pub struct MetricName {
    /// Its name.
    pub id: String,
}

/// A metric of a job.
#[derive(Debug, Deserialize)]
pub struct Metric {
    /// Its name.
    pub id: String,
    /// Its value.
    #[serde(default, deserialize_with = "number")]
    pub value: Option<f64>,
}

/// A metric over the subtasks of a vertex, or over the TaskManagers.
#[derive(Debug, Deserialize)]
pub struct Aggregate {
    /// Its name.
    pub id: String,
    /// The smallest.
    #[serde(default, deserialize_with = "number")]
    pub min: Option<f64>,
    /// The largest.
    #[serde(default, deserialize_with = "number")]
    pub max: Option<f64>,
    /// The mean.
    #[serde(default, deserialize_with = "number")]
    pub avg: Option<f64>,
    /// The sum.
    #[serde(default, deserialize_with = "number")]
    pub sum: Option<f64>,
}

/// A number, a number as text, or what stands for none.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Text(String),
        Other(serde::de::IgnoredAny),
    }
    Ok(match Option::<Either>::deserialize(deserializer)? {
        Some(Either::Number(value)) => Some(value),
        Some(Either::Text(text)) => text.parse().ok(),
        Some(Either::Other(_)) | None => None,
    }
    .filter(|value| value.is_finite()))
}

/// A measured amount from a number of Flink's: what is not finite is unknown, and what is negative is the rounding of an
/// idle spell that has not ended (seen: -784 ms busy on an idle sink), hence 0.
#[must_use]
pub fn amount(value: Option<f64>) -> Option<Amount> {
    Amount::new(value?.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_as_numbers_as_text_and_as_nan() {
        let metrics: Vec<Metric> =
            serde_json::from_str(r#"[{"id":"a","value":"12.5"},{"id":"b","value":3},{"id":"c","value":"NaN"},{"id":"d"}]"#).expect("metrics");
        assert_eq!(metrics.iter().map(|metric| metric.value).collect::<Vec<_>>(), [Some(12.5), Some(3.0), None, None]);
    }

    #[test]
    fn busy_time_of_an_old_source_is_unknown_and_a_negative_one_is_none() {
        let totals: Totals = serde_json::from_str(r#"{"read-records":0,"read-records-complete":false,"accumulated-busy-time":"NaN"}"#).expect("totals");
        assert_eq!((totals.accumulated_busy_time, totals.read_records_complete), (None, Some(false)));
        assert_eq!(amount(Some(-784.0)).map(Amount::get), Some(0.0));
    }
}
