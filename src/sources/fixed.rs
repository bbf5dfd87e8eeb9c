//! Counts that the configuration names.

use crate::core::request::Replicas;
use crate::core::units::Count;
use crate::engine::source::{BoxFuture, ReplicaSource, SourceError};

/// The count of a scale target that nothing reports.
#[derive(Clone, Copy, Debug)]
pub struct StaticReplicas(pub Count);

impl ReplicaSource for StaticReplicas {
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>> {
        Box::pin(async { Ok(Replicas { spec: Some(self.0), ..Replicas::default() }) })
    }
}
