//! One reading of a Pub/Sub subscription.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::kinds::observed;
use crate::core::units::{Amount, Count, Timestamp};

/// A subscription of Pub/Sub and its subscribers. All fields are optional: absent is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PubsubSubscriptionSnapshot {
    /// When it was measured: the time of the data point, which is minutes before it can be read.
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
    /// Messages that are not acknowledged, those that are out with subscribers included. Negative contradicts itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undelivered: Option<i64>,
    /// Age of the oldest message that is not acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_unacked_seconds: Option<Amount>,
    /// Messages that are published to the subscription per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish_per_second: Option<Amount>,
    /// Messages that are acknowledged per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_per_second: Option<Amount>,
    /// Messages that are delivered per second, redeliveries included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_per_second: Option<Amount>,
    /// Messages that are out with subscribers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outstanding: Option<Count>,
    /// Ack deadlines that pass per second: each is a redelivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired_ack_deadlines_per_second: Option<Amount>,
    /// Streaming pulls that are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_streams: Option<Count>,
    /// Seconds from the begin of the work on a message to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing_seconds: Option<Amount>,
    /// Mean size of a message, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_bytes: Option<Amount>,
    /// True when the source was asked and had no data point: neither a failure nor an empty subscription.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_data: bool,
    /// What could not be had of this reading, in words. What is known may raise; nothing is lowered without the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

observed!(PubsubSubscriptionSnapshot, missing);
