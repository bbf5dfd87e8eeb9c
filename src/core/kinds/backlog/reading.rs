//! One reading of a queue.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::kinds::observed;
use crate::core::units::{Amount, Count, Timestamp};

/// A queue and those who serve it. All fields are optional: absent is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct BacklogSnapshot {
    /// When it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// When it arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received_at: Option<Timestamp>,
    /// The sender's clock minus ours, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_clock_offset_seconds: Option<f64>,
    /// The ready count then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Count>,
    /// Items that wait. Negative contradicts itself and is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<i64>,
    /// Items that are being worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<Count>,
    /// Seconds that one item takes one replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_per_item: Option<Amount>,
    /// Age of the oldest waiting item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_seconds: Option<Amount>,
    /// Items that arrive per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrival_per_second: Option<Amount>,
    /// Items that are finished per second, by all replicas together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_per_second: Option<Amount>,
    /// Items that have arrived so far: a counter. A fall is a reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_total: Option<Count>,
    /// Busy share of the replicas, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ratio: Option<Amount>,
    /// Partitions that bound how many replicas can work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Count>,
    /// The backlog of each ready replica; null for one that gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_replica: Option<Vec<Option<Amount>>>,
    /// Other wishes for the same target; the largest counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<Signal>,
    /// What could not be had of this reading, in words. What is known may raise; nothing is lowered without the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

observed!(BacklogSnapshot, missing);

/// A wish that someone else has worked out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Signal {
    /// What it stands for, for example `cpu`.
    pub name: String,
    /// Replicas it asks for; null when the signal is missing.
    #[serde(default)]
    pub wanted: Option<Count>,
}
