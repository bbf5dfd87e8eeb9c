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
