//! The answers of a `JobManager`, as far as they are read.
//!
//! The shapes are those of Flink's REST API, versions 1.18 to 2.3:
//! <https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/rest_api/>. Unknown fields are skipped. Numbers are
//! read leniently: plain metrics carry them as text, and `"NaN"` stands in for a number anywhere, totals included.

use std::collections::BTreeMap;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::core::units::{Amount, Count};

/// A number that may be text, null or not a number. Only a finite one is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Number(pub Option<f64>);

impl Number {
    /// The number where it is finite and at least 0.
    #[must_use]
    pub fn amount(self) -> Option<Amount> {
        self.0.and_then(Amount::new)
    }

    /// The nearest whole number where it is at least 0.
    #[must_use]
    pub fn count(self) -> Option<Count> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and the cast saturates")]
        self.amount().map(|value| value.get().round() as Count)
    }

    /// A whole number that counts something there is: -1 and 0 stand for none.
    #[must_use]
    pub fn positive(self) -> Option<Count> {
        self.count().filter(|value| *value > 0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lenient;
        impl Visitor<'_> for Lenient {
            type Value = Number;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number, or text that holds one")
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number(Some(value).filter(|value| value.is_finite())))
            }

            #[expect(clippy::cast_precision_loss, reason = "counters and times are far below 2^53")]
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Number, E> {
                self.visit_f64(value as f64)
            }

            #[expect(clippy::cast_precision_loss, reason = "counters and times are far below 2^53")]
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Number, E> {
                self.visit_f64(value as f64)
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Number, E> {
                self.visit_f64(value.trim().parse().unwrap_or(f64::NAN))
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Number, E> {
                Ok(Number(None))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Number, E> {
                Ok(Number(None))
            }
        }
        deserializer.deserialize_any(Lenient)
    }
}

/// `/jobs/overview`.
#[derive(Debug, Deserialize)]
pub struct JobsOverview {
    /// All jobs that the cluster remembers, ended ones too.
    pub jobs: Vec<JobRow>,
}

/// A job in `/jobs/overview`. Not cached by the server, unlike `/jobs/:id`.
#[derive(Clone, Debug, Deserialize)]
pub struct JobRow {
    /// The id, 32 hex digits.
    pub jid: String,
    /// The name.
    pub name: String,
    /// `RUNNING`, `RESTARTING`, `FINISHED`, ...
    pub state: String,
    /// Milliseconds since 1970.
    #[serde(default, rename = "start-time")]
    pub start_time: Number,
    /// Tasks by state in small letters, and `total`.
    #[serde(default)]
    pub tasks: BTreeMap<String, Number>,
}

/// `/jobs/:id`.
#[derive(Debug, Deserialize)]
pub struct Job {
    /// The id.
    pub jid: String,
    /// The state, up to 3 s old.
    pub state: String,
    /// When this answer was written, milliseconds since 1970 by the server's clock.
    #[serde(default)]
    pub now: Number,
    /// When it last came into each state, milliseconds since 1970; 0 is never.
    #[serde(default)]
    pub timestamps: BTreeMap<String, Number>,
    /// The vertices: in topological order once the job runs. None while it initializes.
    #[serde(default)]
    pub vertices: Vec<JobVertex>,
    /// The edges.
    #[serde(default)]
    pub plan: Plan,
}

/// A vertex in `/jobs/:id`.
#[derive(Debug, Deserialize)]
pub struct JobVertex {
    /// The id, 32 hex digits; the same in another job with the same uid.
    pub id: String,
    /// The name.
    #[serde(default)]
    pub name: Option<String>,
    /// The state of all its tasks together.
    #[serde(default)]
    pub status: Option<String>,
    /// Subtasks.
    pub parallelism: Number,
    /// Key groups; -1 is not set.
    #[serde(default, rename = "maxParallelism")]
    pub max_parallelism: Number,
    /// Which vertices share slots.
    #[serde(default, rename = "slotSharingGroupId")]
    pub slot_sharing_group: Option<String>,
    /// When this attempt started, milliseconds since 1970; -1 is not yet.
    #[serde(default, rename = "start-time")]
    pub start_time: Number,
    /// Tasks by state in capital letters.
    #[serde(default)]
    pub tasks: BTreeMap<String, Number>,
    /// Totals since the last start, summed over the subtasks.
    #[serde(default)]
    pub metrics: Totals,
}

/// Totals of a vertex since the last start.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Totals {
    /// Records read.
    pub read_records: Number,
    /// False: not known yet, and the 0 beside it is no 0.
    pub read_records_complete: Option<bool>,
    /// Records written.
    pub write_records: Number,
    /// The same for the records written.
    pub write_records_complete: Option<bool>,
    /// Milliseconds busy.
    pub accumulated_busy_time: Number,
}

/// The plan in `/jobs/:id`.
#[derive(Debug, Default, Deserialize)]
pub struct Plan {
    /// One for each vertex, with the same ids.
    #[serde(default)]
    pub nodes: Vec<Node>,
}

/// A vertex in the plan.
#[derive(Debug, Deserialize)]
pub struct Node {
    /// The id of the vertex.
    pub id: String,
    /// The edges into it; absent for a source.
    #[serde(default)]
    pub inputs: Vec<Input>,
}

/// An edge in the plan.
#[derive(Debug, Deserialize)]
pub struct Input {
    /// The id of the vertex that sends.
    pub id: String,
    /// `FORWARD`, `HASH`, `REBALANCE`, ...
    #[serde(default)]
    pub ship_strategy: Option<String>,
}

/// `/overview`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Overview {
    /// All slots.
    #[serde(default)]
    pub slots_total: Number,
    /// Free slots.
    #[serde(default)]
    pub slots_available: Number,
}

/// `/taskmanagers`.
#[derive(Debug, Deserialize)]
pub struct TaskManagers {
    /// Those registered.
    pub taskmanagers: Vec<TaskManager>,
}

/// A `TaskManager`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManager {
    /// Its slots.
    #[serde(default)]
    pub slots_number: Number,
    /// What its slots share.
    #[serde(default)]
    pub total_resource: TotalResource,
    /// How its memory is laid out.
    #[serde(default)]
    pub memory_configuration: MemoryConfiguration,
}

/// What the slots of a `TaskManager` share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TotalResource {
    /// CPUs.
    pub cpu_cores: Number,
}

/// How the memory of a `TaskManager` is laid out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryConfiguration {
    /// All of the process, in bytes.
    pub total_process_memory: Number,
}

/// `/config`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Config {
    /// For how long the details of a job are cached, in milliseconds.
    #[serde(default)]
    pub refresh_interval: Number,
}

/// One row of any metric answer: only the name in a list, `value` as text in a plain answer, the rest where the server
/// aggregated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metric {
    /// The name.
    pub id: String,
    /// The value, not aggregated.
    pub value: Number,
    /// The smallest.
    pub min: Number,
    /// The largest.
    pub max: Number,
    /// The mean.
    pub avg: Number,
    /// The sum.
    pub sum: Number,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_be_text_and_nan_is_none() {
        let read = |text: &str| serde_json::from_str::<Number>(text).expect(text);
        assert_eq!(read("3").count(), Some(3));
        assert_eq!(read("\"12.6\"").count(), Some(13));
        for text in ["\"NaN\"", "null", "\"\"", "true", "\"Infinity\""] {
            assert_eq!(read(text), Number(None), "{text}");
        }
        assert_eq!(read("-1").positive(), None);
        assert_eq!(read("-784").amount(), None);
    }
}
