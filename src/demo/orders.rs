//! What the simulated clusters are told to do: the part of an advice that an operator would carry out.
//!
//! Loadline itself only advises here. Something has to follow the advice, or the day would show one number for ever; the
//! demonstration does what a careful operator (or an HPA with a drain hook) does with it, and no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::advice::{ActionKind, Advice};
use crate::engine::clock;
use crate::engine::store::Store;

/// Orders for one cluster, taken from its newest advice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// The count to set.
    pub recommended: Option<u64>,
    /// Workers that shall get no new tasks (host and port).
    pub disable: Vec<String>,
    /// Workers that shall get tasks again.
    pub enable: Vec<String>,
    /// The parallelism to set, by vertex id.
    pub parallelism: BTreeMap<String, u64>,
}

impl Orders {
    /// The orders that an advice amounts to. One that carries no number orders nothing.
    #[must_use]
    pub fn from_advice(advice: &Advice) -> Self {
        if advice.recommended.is_none() {
            return Self::default();
        }
        let workers = |kind: ActionKind| {
            let with = advice.actions.iter().filter(|action| action.action == kind);
            with.filter_map(|action| Some(action.worker.as_ref()?.host.clone())).collect()
        };
        Self {
            recommended: advice.recommended,
            disable: workers(ActionKind::DisableWorker),
            enable: workers(ActionKind::EnableWorker),
            parallelism: advice.parts.iter().filter_map(|part| Some((part.id.clone(), part.recommended?))).collect(),
        }
    }
}

/// Reads orders from the advice store: what to hand to [`start`](super::start) in the service.
pub fn follow_store(store: Arc<Store>) -> impl Fn(&str) -> Option<Orders> + Send + Sync + 'static {
    move |target| Some(Orders::from_advice(store.target(target)?.advice_at(clock::now())?.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::advice::{Action, Bounds, Confidence, Direction, Forecast, Outcome, Part, Unit, WorkerRef};
    use crate::core::memory::Memory;
    use crate::core::request::Kind;

    fn advice(recommended: Option<u64>) -> Advice {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let worker = |kind, ordinal: u64| Action {
            worker: Some(WorkerRef { host: format!("mm-{ordinal}:8091"), ordinal: Some(ordinal) }),
            ..Action::new(kind, String::new())
        };
        let part = |id: &str, recommended| Part {
            id: id.to_owned(),
            name: id.to_owned(),
            current: Some(1),
            recommended,
            wanted: None,
            reasons: Vec::new(),
            limits: Vec::new(),
            vertex: None,
        };
        Advice {
            kind: Kind::DruidWorkers,
            name: None,
            outcome: Outcome::Change,
            current: Some(3),
            recommended,
            wanted: recommended,
            direction: Direction::Up,
            unit: Unit::Replicas,
            active: None,
            bounds: Bounds { min: 1, max: 8, partitions: None },
            reasons: Vec::new(),
            limits: Vec::new(),
            actions: vec![worker(ActionKind::DisableWorker, 2), worker(ActionKind::EnableWorker, 1), Action::new(ActionKind::Investigate, String::new())],
            parts: vec![part("a", Some(4)), part("b", None)],
            forecast: Forecast::default(),
            inputs: Vec::new(),
            confidence: Confidence::High,
            consumer: None,
            evaluated_at: now,
            observed_at: None,
            valid_until: None,
            memory: Memory::new(Kind::DruidWorkers, now),
        }
    }

    #[test]
    fn an_advice_orders_its_number_its_worker_actions_and_the_parts_that_have_one() {
        let expected = Orders {
            recommended: Some(4),
            disable: vec!["mm-2:8091".to_owned()],
            enable: vec!["mm-1:8091".to_owned()],
            parallelism: [("a".to_owned(), 4)].into(),
        };
        assert_eq!(Orders::from_advice(&advice(Some(4))), expected);
    }

    #[test]
    fn an_advice_without_a_number_orders_nothing() {
        assert_eq!(Orders::from_advice(&advice(None)), Orders::default());
    }
}
