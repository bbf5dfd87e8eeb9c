//! The decision.

pub mod advice;
pub mod cluster;
pub mod decide;
pub mod kind;
pub mod kinds;
pub mod memory;
pub mod policy;
pub mod problem;
pub mod reasons;
pub mod request;
pub mod sizing;
pub mod trust;
pub mod units;

use self::advice::Advice;
use self::request::{Readings, Request};

/// Judges one request. A pure function: same question, same answer.
#[must_use]
pub fn advise(request: &Request) -> Advice {
    match &request.readings {
        Readings::Backlog(series) => kinds::backlog::advise(request, series),
        Readings::DruidWorkers(series) => kinds::druid::advise(request, series),
        Readings::DruidSupervisor(series) => kinds::supervisor::advise(request, series),
        Readings::FlinkJob(series) => kinds::flink::advise(request, series),
        Readings::KafkaGroup(series) => kinds::kafka::advise(request, series),
        Readings::PubsubSubscription(series) => kinds::pubsub::advise(request, series),
    }
}
