//! Sets the parallelism of a Flink job in place, through `PUT /jobs/:id/resource-requirements`
//! (<https://nightlies.apache.org/flink/flink-docs-stable/docs/deployment/elastic_scaling/>).
//!
//! Only the adaptive scheduler takes that call; the default scheduler answers 500. It is told beforehand by
//! `features.web-rescale` of `GET /config`, and by `schedulerType` of the job where Flink says it (2.x).
//!
//! The answer 200 means that Flink has the wish. It rescales with the next checkpoint or after its own cooldown (seconds
//! to half a minute), and with too few slots after a minute to what there is. So the job is followed: its tasks in
//! `/jobs/overview`, which is not cached, tell when it stops and when it runs again, and `/jobs/:id`, which is cached for
//! 3 s, tells the parallelism. The downtime is from the last look at which every task ran to the first at which every task
//! ran again, so it is at most two distances of looks too long, and never too short; a rescale that falls between two looks
//! has none.
//!
//! Before the call the requirements in force are read: where they are the wish already, somebody has asked for it (this
//! service before a restart, or another instance), and nothing is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;

use crate::core::advice::{Action, ActionKind};
use crate::core::units::Count;
use crate::engine::actuator::{Accepted, Actuator, Effect, Followed};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Snapshot, SourceError};
use crate::sources::flink::wire::{Job, JobsOverview, Number};
use crate::sources::http::{Client, Session};

/// Between two looks while a rescale is expected at any moment.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between two looks once it has not come within [`SOON`].
const LOOK_LATER: Duration = Duration::from_secs(1);
/// How long a rescale is expected at any moment: Flink's own cooldown is 30 s, and its wait for slots 60 s.
const SOON: Duration = Duration::from_secs(90);
/// Between two questions for the parallelism, which Flink caches for 3 s.
const PARALLELISM_EVERY: Duration = Duration::from_secs(2);
/// A rescale without effect for so long has failed.
const EFFECT_WITHIN: Duration = Duration::from_secs(600);

/// The jobs of a `JobManager`.
pub struct FlinkActuator {
    client: Client,
}

/// Answer of `GET /config`.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    features: Features,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Features {
    web_rescale: Option<bool>,
}

/// The part of `GET /jobs/:id` that names the scheduler.
#[derive(Deserialize)]
struct Scheduled {
    #[serde(rename = "schedulerType")]
    scheduler_type: Option<String>,
}

/// Resource requirements, as they are read and written.
#[derive(Deserialize)]
struct Requirement {
    parallelism: Bounds,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Bounds {
    lower_bound: Count,
    upper_bound: Count,
}

impl FlinkActuator {
    /// Tells through `client`, whose base is the `JobManager`'s REST address.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    async fn is_adaptive(&self, snapshot: &Snapshot) -> Result<(), SourceError> {
        let session = self.client.session();
        let config: Config = session.get_json("/config").await?;
        if config.features.web_rescale != Some(true) {
            return Err(unsupported("the cluster does not rescale jobs in place (features.web-rescale is not true): expected jobmanager.scheduler: adaptive"));
        }
        let Snapshot::FlinkJob(job) = snapshot else { return Ok(()) };
        let Some(id) = &job.job_id else { return Ok(()) };
        let scheduled: Scheduled = session.get_json(&format!("/jobs/{}", utf8_percent_encode(id, NON_ALPHANUMERIC))).await?;
        match scheduled.scheduler_type {
            Some(other) if other != "Adaptive" => Err(unsupported(format!("the job runs under the scheduler {other}: expected Adaptive"))),
            _ => Ok(()),
        }
    }

    async fn put(&self, action: &Action) -> Result<Accepted, SourceError> {
        let Some(call) = &action.request else { return Err(unsupported("the step has no call")) };
        let session = self.client.session();
        // where it cannot be read the call itself says what is wrong
        let in_force = session.get_json::<Value>(&call.path).await.ok();
        if in_force.is_some() && bounds(in_force.as_ref()) == bounds(call.body.as_ref()) {
            return Ok(Accepted::AlreadyAsked);
        }
        session.submit(Method::PUT, &call.path, call.body.as_ref()).await?.success()?;
        Ok(Accepted::Sent)
    }

    async fn watch(&self, action: &Action) -> Option<Followed> {
        let id = job_id(action)?;
        let wish = wish(action);
        let began = clock::instant();
        let mut looks = Looks::default();
        let mut asked = began;
        loop {
            let session = self.client.session();
            if let Ok(runs) = all_run(&session, id).await {
                looks.look(clock::instant().duration_since(began), runs);
            }
            if looks.runs == Some(true) && clock::instant().duration_since(asked) >= PARALLELISM_EVERY {
                asked = clock::instant();
                let job = session.get_json::<Job>(&format!("/jobs/{id}")).await;
                if job.is_ok_and(|job| has(&job, &wish)) {
                    return Some(Followed { downtime_seconds: looks.downtime.map(|downtime| downtime.as_secs_f64()) });
                }
            }
            sleep(if clock::instant().duration_since(began) < SOON { LOOK_EVERY } else { LOOK_LATER }).await;
        }
    }
}

impl Actuator for FlinkActuator {
    fn performs(&self, action: ActionKind) -> bool {
        action == ActionKind::SetParallelism
    }

    fn able<'a>(&'a self, snapshot: &'a Snapshot) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(self.is_adaptive(snapshot))
    }

    fn perform<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Result<Accepted, SourceError>> {
        Box::pin(self.put(action))
    }

    fn effect(&self, action: &Action, snapshot: &Snapshot) -> Effect {
        let Snapshot::FlinkJob(job) = snapshot else { return Effect::Gone };
        if job.job_id.as_deref() != job_id(action) {
            return Effect::Gone;
        }
        let has: BTreeMap<&str, Count> = job.vertices.iter().map(|vertex| (vertex.id.as_str(), vertex.parallelism)).collect();
        if has == wish(action) { Effect::Seen } else { Effect::NotYet }
    }

    fn follow<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Option<Followed>> {
        Box::pin(self.watch(action))
    }

    fn effect_within(&self) -> Duration {
        EFFECT_WITHIN
    }
}

/// What the looks at a job have shown, as time since they began.
#[derive(Default)]
struct Looks {
    runs: Option<bool>,
    /// When everything last ran.
    ran_at: Option<Duration>,
    /// Since when it has not, where it does not.
    down_since: Option<Duration>,
    /// The newest time without service.
    downtime: Option<Duration>,
}

impl Looks {
    fn look(&mut self, at: Duration, runs: bool) {
        if runs {
            if let Some(since) = self.down_since.take() {
                self.downtime = Some(at.saturating_sub(since));
            }
            self.ran_at = Some(at);
        } else if self.down_since.is_none() {
            self.down_since = Some(self.ran_at.unwrap_or(at));
        }
        self.runs = Some(runs);
    }
}

/// Whether a job runs with every task it has.
async fn all_run(session: &Session, id: &str) -> Result<bool, SourceError> {
    let jobs: JobsOverview = session.get_json("/jobs/overview").await?;
    let Some(row) = jobs.jobs.iter().find(|row| row.jid == id) else { return Ok(false) };
    let count = |state: &str| row.tasks.get(state).copied().and_then(Number::count).unwrap_or(0);
    Ok(row.state == "RUNNING" && count("total") > 0 && count("running").saturating_add(count("finished")) >= count("total"))
}

fn job_id(action: &Action) -> Option<&str> {
    action.request.as_ref()?.path.strip_prefix("/jobs/")?.strip_suffix("/resource-requirements")
}

/// The parallelism that a step asks for, by vertex.
fn wish(action: &Action) -> BTreeMap<&str, Count> {
    let body = action.request.as_ref().and_then(|call| call.body.as_ref()).and_then(Value::as_object);
    body.into_iter().flatten().filter_map(|(vertex, bounds)| Some((vertex.as_str(), bounds.pointer("/parallelism/upperBound")?.as_u64()?))).collect()
}

fn has(job: &Job, wish: &BTreeMap<&str, Count>) -> bool {
    let has: BTreeMap<&str, Count> = job.vertices.iter().filter_map(|vertex| Some((vertex.id.as_str(), vertex.parallelism.count()?))).collect();
    has == *wish
}

/// Requirements as they are compared; `None` where they are of another shape.
fn bounds(body: Option<&Value>) -> Option<BTreeMap<String, (Count, Count)>> {
    let read: BTreeMap<String, Requirement> = serde_json::from_value(body?.clone()).ok()?;
    Some(read.into_iter().map(|(vertex, requirement)| (vertex, (requirement.parallelism.lower_bound, requirement.parallelism.upper_bound))).collect())
}

fn unsupported(why: impl Into<String>) -> SourceError {
    SourceError::new(FailureKind::Unsupported, why)
}
