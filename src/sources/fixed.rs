//! A count that is written in the configuration, for workloads whose count cannot be read.

use crate::core::request::Replicas;
use crate::core::units::Count;
use crate::engine::source::{BoxFuture, ReplicaSource, SourceError};

/// Always the same count. Whether the replicas are ready stays unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticReplicas(pub Count);

impl ReplicaSource for StaticReplicas {
    fn read(&self) -> BoxFuture<'_, Result<Replicas, SourceError>> {
        Box::pin(std::future::ready(Ok(Replicas { spec: Some(self.0), ..Replicas::default() })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_count_is_the_one_that_was_written_and_nothing_else_is_claimed() {
        let replicas = StaticReplicas(3).read().await.expect("always");
        assert_eq!(replicas, Replicas { spec: Some(3), ..Replicas::default() });
    }
}
