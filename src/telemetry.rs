//! Logs: one line an event on standard error, as text for people or as JSON for collectors.
//!
//! `LOADLINE_LOG` filters (`info` by default, for example `loadline=debug`), `LOADLINE_LOG_FORMAT=json` chooses JSON.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging. A second call changes nothing: tests start several services in one process.
pub fn start() {
    let filter = std::env::var("LOADLINE_LOG").ok().and_then(|text| EnvFilter::try_new(text).ok()).unwrap_or_else(|| EnvFilter::new("info"));
    let json = std::env::var("LOADLINE_LOG_FORMAT").is_ok_and(|format| format == "json");
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let result = if json { builder.json().flatten_event(true).try_init() } else { builder.with_ansi(std::io::stderr().is_terminal()).try_init() };
    // already started
    drop(result);
}
