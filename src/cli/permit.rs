//! Which instance may act: the holder of a lease where there is a cluster, else this one, which is then the only one.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::actuators::lease::{Lease, LeaseOptions};
use crate::config::LeaseConfig;
use crate::core::request::Problem;
use crate::engine::TargetSpec;
use crate::engine::actuator::{Alone, Permit};
use crate::sources::kubernetes::in_cluster_within;

/// The permit of this process.
pub enum Active {
    /// It is kept by a lease.
    Lease(Arc<Lease>),
    /// There is no lease: this has to be the only instance.
    Alone(Arc<Alone>),
}

impl Active {
    /// By the configuration: a lease unless it says no, or there is no cluster and it does not insist.
    pub fn of(config: &LeaseConfig) -> Result<Self, Problem> {
        let alone = || Self::Alone(Arc::new(Alone::new(identity())));
        if config.enabled == Some(false) {
            return Ok(alone());
        }
        let duration = Duration::from_secs(config.seconds);
        // a call must not take the time in which the lease could be renewed
        match in_cluster_within(duration / 5) {
            Ok((api, own)) => {
                let options = LeaseOptions { namespace: config.namespace.clone().unwrap_or(own), name: config.name.clone(), duration };
                Ok(Self::Lease(Arc::new(Lease::new(api, options, identity()))))
            }
            Err(error) if config.enabled == Some(true) => Err(Problem::new("server.lease", error.to_string())),
            Err(_) => Ok(alone()),
        }
    }

    /// What the engine asks.
    pub fn permit(&self) -> Arc<dyn Permit> {
        match self {
            Self::Lease(lease) => Arc::clone(lease) as Arc<dyn Permit>,
            Self::Alone(alone) => Arc::clone(alone) as Arc<dyn Permit>,
        }
    }

    /// Says which targets there are: without one that performs no lease is needed.
    pub fn want<'a>(&self, targets: impl IntoIterator<Item = &'a TargetSpec>) {
        let performs = targets.into_iter().any(|target| target.actuator.is_some());
        match self {
            Self::Lease(lease) => lease.want(performs),
            Self::Alone(_) if performs => info!("targets are performed for without a lease: this must be the only instance"),
            Self::Alone(_) => {}
        }
    }

    /// Keeps the permit until it is stopped, then gives it back.
    pub async fn keep(&self, stop: CancellationToken) {
        match self {
            Self::Lease(lease) => Arc::clone(lease).run(stop).await,
            Self::Alone(_) => stop.cancelled().await,
        }
    }
}

/// Who this process is: its host (in Kubernetes the pod) and a part that no other process has.
fn identity() -> String {
    let named = || std::fs::read_to_string("/etc/hostname").ok().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()).or_else(named).unwrap_or_else(|| "loadline".to_owned());
    // each state of the standard library's hashing begins at random
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
    format!("{host}_{random:016x}")
}
