//! Disables and enables Druid workers through the Overlord: `POST /druid/indexer/v1/worker/HOST/disable` and `/enable`
//! (<https://druid.apache.org/docs/latest/api-reference/service-status-api/#middle-manager>).
//!
//! The Overlord passes the call on to the worker. Why not to the worker itself: one host, one account, and the Overlord
//! that leads learns of it at once. A Router passes it on as well; an Overlord that does not lead redirects with 307,
//! which keeps the call what it is.
//!
//! What is disabled and what is empty is read from Druid each time and remembered nowhere: a disabled worker announces an
//! empty version. The flag lives in the worker's memory, so that one that restarts is enabled again, and the next decision
//! disables it anew.

use std::time::Duration;

use http::Method;
use serde_json::{Map, Value};

use crate::core::advice::{Action, ActionKind};
use crate::engine::actuator::{Accepted, Actuator, Effect, Followed};
use crate::engine::source::{BoxFuture, FailureKind, Snapshot, SourceError};
use crate::sources::http::Client;

/// The Overlord shows a change at once where it watches `ZooKeeper`, and at its next look at the worker where it asks over
/// HTTP.
const EFFECT_WITHIN: Duration = Duration::from_secs(300);

/// The workers of a cluster.
pub struct DruidActuator {
    client: Client,
}

impl DruidActuator {
    /// Tells through `client`, whose base is a Router or an Overlord.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    async fn post(&self, action: &Action) -> Result<Accepted, SourceError> {
        let Some(call) = &action.request else { return Err(SourceError::new(FailureKind::Unsupported, "the step has no call")) };
        let answer = self.client.session().submit(Method::POST, &call.path, None).await?.success()?;
        // a login page in the way answers 200 as well
        let told: Map<String, Value> = answer.json()?;
        let wanted = if enables(action) { "enabled" } else { "disabled" };
        if told.values().any(|state| state == wanted) {
            Ok(Accepted::Sent)
        } else {
            Err(SourceError::new(FailureKind::Unexpected, format!("the answer does not say {wanted}")))
        }
    }
}

impl Actuator for DruidActuator {
    fn performs(&self, action: ActionKind) -> bool {
        matches!(action, ActionKind::DisableWorker | ActionKind::EnableWorker)
    }

    fn able<'a>(&'a self, _: &'a Snapshot) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async { Ok(()) })
    }

    fn perform<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Result<Accepted, SourceError>> {
        Box::pin(self.post(action))
    }

    fn effect(&self, action: &Action, snapshot: &Snapshot) -> Effect {
        let Snapshot::DruidWorkers(reading) = snapshot else { return Effect::Gone };
        let Some(host) = action.worker.as_ref().map(|worker| &worker.host) else { return Effect::Gone };
        let Some(workers) = reading.workers.as_deref() else { return Effect::NotYet };
        match workers.iter().find(|worker| worker.host == *host) {
            None => Effect::Gone,
            Some(worker) if worker.enabled == enables(action) => Effect::Seen,
            Some(_) => Effect::NotYet,
        }
    }

    fn follow<'a>(&'a self, _: &'a Action) -> BoxFuture<'a, Option<Followed>> {
        Box::pin(async { None })
    }

    fn effect_within(&self) -> Duration {
        EFFECT_WITHIN
    }
}

fn enables(action: &Action) -> bool {
    action.action == ActionKind::EnableWorker
}
