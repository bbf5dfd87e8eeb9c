//! The spec of a streaming supervisor, as far as it is read: it stands in the full list of supervisors and by itself.
//!
//! Druid writes `ioConfig` under `spec`, older versions beside it. What an `ioConfig` leaves out is 1 there.

use serde::Deserialize;

use crate::core::units::Count;

/// A spec.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) suspended: Option<bool>,
    #[serde(rename = "spec")]
    inner: Option<Inner>,
    io_config: Option<IoConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inner {
    io_config: Option<IoConfig>,
}

/// How the stream is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IoConfig {
    task_count: Option<Count>,
    replicas: Option<Count>,
    pub(super) stop_task_count: Option<Count>,
    pub(super) auto_scaler_config: Option<AutoScaler>,
}

/// Druid's own autoscaler.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AutoScaler {
    #[serde(rename = "enableTaskAutoScaler")]
    pub(super) enabled: Option<bool>,
    #[serde(rename = "autoScalerStrategy")]
    pub(super) strategy: Option<String>,
    pub(super) task_count_min: Option<Count>,
    pub(super) task_count_max: Option<Count>,
}

impl Spec {
    /// How the stream is read; `None` for a supervisor without a stream.
    pub(super) fn io(self) -> Option<IoConfig> {
        self.inner.and_then(|inner| inner.io_config).or(self.io_config)
    }
}

impl IoConfig {
    /// Task groups.
    pub(super) fn task_count(&self) -> Count {
        self.task_count.unwrap_or(1)
    }

    /// Copies of each.
    pub(super) fn replicas(&self) -> Count {
        self.replicas.unwrap_or(1)
    }
}
