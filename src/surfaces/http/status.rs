//! How the service itself fares: which configuration is in force, and whether the last reload went well.

use arc_swap::ArcSwap;
use serde::Serialize;
use utoipa::ToSchema;

use crate::core::units::Timestamp;

/// The state of the configuration, written by whoever loads it and read by `/v1/status`, `/readyz` and the metrics.
#[derive(Debug, Default)]
pub struct ServiceStatus {
    configuration: ArcSwap<Configuration>,
}

/// What is known of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// Loaded, not yet, or in force although a newer one was refused.
    pub state: ConfigurationState,
    /// When the one in force was loaded.
    pub loaded_at: Option<Timestamp>,
    /// When a load was last tried.
    pub last_reload_at: Option<Timestamp>,
    /// Why the last try was refused, where it was: one line for each problem.
    pub problems: Vec<String>,
}

/// The state of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConfigurationState {
    /// Not loaded yet.
    #[default]
    Starting,
    /// The newest one is in force. Also without a file: posted requests only.
    Loaded,
    /// The newest one was refused; the one before is in force.
    ReloadFailed,
}

impl ServiceStatus {
    /// A service that has not loaded its configuration.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a configuration is in force since `now`.
    pub fn loaded(&self, now: Timestamp) {
        self.configuration
            .store(Configuration { state: ConfigurationState::Loaded, loaded_at: Some(now), last_reload_at: Some(now), problems: Vec::new() }.into());
    }

    /// Notes that a newer configuration was refused at `now`, and why; the last good one stays in force.
    pub fn reload_failed(&self, now: Timestamp, problems: Vec<String>) {
        let before = self.configuration.load();
        let state = if before.loaded_at.is_some() { ConfigurationState::ReloadFailed } else { ConfigurationState::Starting };
        self.configuration.store(Configuration { state, loaded_at: before.loaded_at, last_reload_at: Some(now), problems }.into());
    }

    /// What is known now.
    #[must_use]
    pub fn configuration(&self) -> std::sync::Arc<Configuration> {
        self.configuration.load_full()
    }

    /// True once a configuration is in force, whatever the sources do.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.configuration.load().loaded_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_reload_keeps_the_service_ready_and_says_why() {
        let status = ServiceStatus::new();
        assert!(!status.is_ready());
        status.loaded(Timestamp::UNIX_EPOCH);
        status.reload_failed(Timestamp::UNIX_EPOCH, vec!["targets[0].name is missing".to_owned()]);
        assert!(status.is_ready());
        assert_eq!(status.configuration().state, ConfigurationState::ReloadFailed);
        assert_eq!(status.configuration().problems, ["targets[0].name is missing"]);
    }
}
