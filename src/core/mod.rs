//! The decision.

pub mod advice;
pub mod kinds;
pub mod memory;
pub mod policy;
pub mod reasons;
pub mod request;
pub mod units;

use self::advice::Advice;
use self::request::Request;

/// Judges one request. A pure function: same question, same answer.
#[must_use]
pub fn advise(request: &Request) -> Advice {
    skeleton(request)
}

/// Placeholder while the pipeline is being written.
fn skeleton(request: &Request) -> Advice {
    use self::advice::*;
    Advice {
        kind: request.readings.kind(),
        name: request.name.clone(),
        outcome: Outcome::Unknown,
        current: request.replicas.spec,
        recommended: request.replicas.spec,
        wanted: None,
        direction: Direction::None,
        unit: Unit::Replicas,
        active: None,
        bounds: Bounds { min: request.policy.min, max: request.policy.max, partitions: None },
        reasons: vec![],
        limits: vec![],
        actions: vec![],
        parts: vec![],
        forecast: Forecast::default(),
        inputs: vec![],
        confidence: Confidence::Low,
        consumer: None,
        evaluated_at: request.now,
        observed_at: None,
        valid_until: None,
        memory: memory::Memory::new(request.readings.kind(), request.now),
    }
}
