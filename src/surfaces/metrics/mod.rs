//! The text of `/metrics`.
//!
//! Two sets of families whose names never overlap. What was decided is rendered from the advice store at the moment of
//! the scrape (`families`): a series exists exactly while there is something to say, a removed target takes its series
//! with it, and nothing that is not finite is ever written. (Gauges kept in a recorder would have to be expired, and an
//! expired gauge whose handle someone holds never comes back.) What the service measures of itself comes from the global
//! recorder (`service`), with bounded labels only.

mod exposition;
mod families;
mod service;

use self::exposition::Exposition;
pub use self::families::names;
pub use self::service::{REVISION, VERSION, install, method_label, note_grpc, note_http, upkeep};
use super::http::{Configuration, ConfigurationState};
use crate::core::units::Timestamp;
use crate::engine::store::Store;

/// The whole text: decisions, the service, and what the recorder has where one is installed.
#[must_use]
pub fn scrape(store: &Store, configuration: &Configuration, now: Timestamp) -> String {
    let mut text = Exposition::new();
    families::render(store, now, &mut text);
    text.family("build_info", "Which build this is; always 1.").sample(&[("version", VERSION), ("revision", REVISION.unwrap_or("unknown"))], Some(1.0));
    // before the first load there is nothing to report
    let reload = match configuration.state {
        ConfigurationState::Loaded => Some(1.0),
        ConfigurationState::ReloadFailed => Some(0.0),
        ConfigurationState::Starting => configuration.last_reload_at.map(|_| 0.0),
    };
    text.family("config_reload_success", "1 when the newest configuration is in force, 0 when it was refused.").sample(&[], reload);
    let mut text = text.finish();
    if let Some(recorded) = service::recorded() {
        text.push_str(&recorded);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
