//! The demonstration: a small Druid and a small Flink of our own, on loopback, that live through a day of load in minutes.
//!
//! `serve --demo` needs nothing else: no cluster, no configuration. The simulated clusters speak the wire format of the
//! real ones, exactly the part that Loadline asks for, so everything behind the sources is the service as it is: it
//! polls, judges and serves as always. What is simulated is named so in the log, in the targets' names (`demo-`) and here.
//!
//! - `druid`: pods of a `StatefulSet` with task slots, one Kafka supervisor whose tasks hand over each simulated hour,
//!   batch tasks that come with the load.
//! - `flink`: a job of five vertices, as a fluid that waits before the slowest of them.
//! - `day`: the load. `orders`: what the clusters are told to do; the loop in [`start`] carries it out.
//!
//! Times and rates on the wire are real ones (a record per real second); only the day goes by faster. The models are pure:
//! they are moved forward to a moment given in seconds since the start and read no clock, so a test can live through a
//! day in milliseconds.

mod day;
mod druid;
mod flink;
mod orders;
mod random;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use day::Pace;
pub use orders::{Orders, follow_store};

use crate::engine::clock;

/// The name of the simulated Druid's target.
pub const DRUID_TARGET: &str = "demo-druid-middlemanagers";
/// The name of the simulated Flink job's target.
pub const FLINK_TARGET: &str = "demo-orders-job";

/// How often the advice is followed.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);
/// The step of the models, in seconds.
const STEP: f64 = 0.1;

/// The simulated clusters. They stop when this is dropped.
#[derive(Debug)]
pub struct Demo {
    /// The configuration of Loadline that watches them, as text of the configuration file.
    pub config_yaml: String,
    /// Where the simulated Druid Overlord answers.
    pub druid: SocketAddr,
    /// Where the simulated Flink `JobManager` answers.
    pub flink: SocketAddr,
    _stop: DropGuard,
}

/// Starts the simulated clusters on free loopback ports. `follow` gives the orders for a target ([`follow_store`] reads
/// them from the advice store); the clusters carry them out every two seconds.
///
/// Must be called within a tokio runtime.
pub async fn start(pace: Pace, follow: impl Fn(&str) -> Option<Orders> + Send + Sync + 'static) -> io::Result<Demo> {
    let stop = CancellationToken::new();
    let druid = Shared::new(druid::Cluster::new(pace));
    let flink = Shared::new(flink::Job::new(pace));
    let druid_address = serve(druid::router(druid.clone()), &stop).await?;
    let flink_address = serve(flink::router(flink.clone()), &stop).await?;
    let until = stop.clone();
    tokio::spawn(async move {
        let mut beat = tokio::time::interval(FOLLOW_EVERY);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while until.run_until_cancelled(beat.tick()).await.is_some() {
            if let Some(orders) = follow(DRUID_TARGET) {
                druid.now().obey(&orders);
            }
            if let Some(orders) = follow(FLINK_TARGET) {
                flink.now().obey(&orders);
            }
        }
    });
    tracing::warn!(
        druid = %druid_address,
        flink = %flink_address,
        day_seconds = pace.real(86_400.0),
        "this is a demonstration: both clusters are simulated, and they follow the advice by themselves"
    );
    Ok(Demo { config_yaml: config_yaml(pace, druid_address, flink_address), druid: druid_address, flink: flink_address, _stop: stop.drop_guard() })
}

/// Serves one cluster until the token is cancelled.
async fn serve(router: Router, stop: &CancellationToken) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let until = stop.clone().cancelled_owned();
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(until).await {
            tracing::error!(%error, %address, "a simulated cluster stopped answering");
        }
    });
    Ok(address)
}

/// The configuration for the two targets. Its times are short because the clusters live fast: what takes a `MiddleManager`
/// minutes is seconds here.
fn config_yaml(pace: Pace, druid: SocketAddr, flink: SocketAddr) -> String {
    let startup = whole(pace.real(druid::BOOT_SECONDS).ceil()) + 2;
    format!(
        r#"# The demonstration: simulated clusters on this machine, with times as short as theirs.
defaults: {{ interval: 2s, timeout: 2s }}
targets:
  - name: {DRUID_TARGET}
    namespace: demo
    kind: druidWorkers
    cluster: demo-druid
    source: {{ druid: {{ url: "http://{druid}" }} }}
    policy:
      min: 1
      max: {most_pods}
      staleAfter: 10s
      startup: {startup}s
      pendingGrace: 2s
      drain: advise
      scaleDown: {{ stabilization: 20s }}
  - name: {FLINK_TARGET}
    namespace: demo
    kind: flinkJob
    source: {{ flink: {{ url: "http://{flink}", job: {job} }} }}
    policy:
      # the session cluster has so many TaskManagers; the parallelism moves within their slots
      min: {task_managers}
      max: {task_managers}
      staleAfter: 10s
      window: 30s
      stabilizationAfterStart: 5s
      restart: 3s
      catchUpWithin: 60s
      scaleDown: {{ stabilization: 30s }}
"#,
        most_pods = druid::MOST_PODS,
        job = flink::JOB_NAME,
        task_managers = flink::TASK_MANAGERS,
    )
}

/// A model that is moved forward by steps of [`STEP`] to a moment given in seconds since its start.
trait Model: Send + 'static {
    /// The moment it stands at.
    fn time(&self) -> f64;
    /// One step further.
    fn step(&mut self, seconds: f64);

    /// Moves it forward to a moment.
    fn advance(&mut self, to: f64) {
        while self.time() + STEP <= to {
            self.step(STEP);
        }
    }
}

/// A model and the clock that it lives by.
struct Shared<M> {
    model: Arc<Mutex<M>>,
    started: Instant,
    epoch: Timestamp,
}

impl<M> Clone for Shared<M> {
    fn clone(&self) -> Self {
        Self { model: Arc::clone(&self.model), started: self.started, epoch: self.epoch }
    }
}

impl<M: Model> Shared<M> {
    fn new(model: M) -> Self {
        Self { model: Arc::new(Mutex::new(model)), started: clock::instant(), epoch: clock::now() }
    }

    /// The model at the present moment.
    fn now(&self) -> MutexGuard<'_, M> {
        // a panic of another handler leaves a model between two steps at worst: it can go on
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        model.advance(clock::instant().duration_since(self.started).as_secs_f64());
        model
    }

    /// The time of day at so many seconds since the start.
    fn at(&self, seconds: f64) -> Timestamp {
        Duration::try_from_secs_f64(seconds.max(0.0)).ok().and_then(|since| self.epoch.checked_add(since).ok()).unwrap_or(self.epoch)
    }
}

/// The whole part of a number; what is negative or not a number is 0.
fn whole(number: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the whole part is wanted, and a cast saturates")]
    let whole = number as u64;
    whole
}

/// A count as a double; counts of the demonstration are far below 2^53.
fn float(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of the demonstration are far below 2^53")]
    let float = count as f64;
    float
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::policy::PolicyInput;
    use crate::core::request::Kind;

    #[test]
    fn the_configuration_names_both_targets_and_where_they_answer() {
        let (druid, flink) = (SocketAddr::from(([127, 0, 0, 1], 4001)), SocketAddr::from(([127, 0, 0, 1], 4002)));
        let text = config_yaml(Pace::default(), druid, flink);
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["targets"][0]["name"], DRUID_TARGET);
        assert_eq!(value["targets"][0]["source"]["druid"]["url"], "http://127.0.0.1:4001");
        assert_eq!(value["targets"][0]["policy"]["startup"], "8s");
        assert_eq!(value["targets"][1]["name"], FLINK_TARGET);
        assert_eq!(value["targets"][1]["source"]["flink"]["url"], "http://127.0.0.1:4002");
        for target in value["targets"].as_array().unwrap() {
            let policy: PolicyInput = serde_json::from_value(target["policy"].clone()).unwrap();
            let kind: Kind = serde_json::from_value(target["kind"].clone()).unwrap();
            assert!(policy.resolve(kind).is_ok(), "{target}");
        }
    }

    #[test]
    fn what_is_not_a_count_is_zero() {
        assert_eq!([whole(-3.0), whole(f64::NAN), whole(2.9)], [0, 0, 2]);
    }
}
