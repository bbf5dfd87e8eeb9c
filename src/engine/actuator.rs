//! What the engine asks of an actuator: to carry out a step of an advice, and to say what became of it. Actuators implement
//! these traits; the engine knows no system.
//!
//! An actuator is stateless. What it has done is seen in the next readings, not remembered, so that a restart forgets
//! nothing and does nothing twice.

use std::time::Duration;

use super::source::{BoxFuture, Snapshot, SourceError};
use crate::core::advice::{Action, ActionKind};

/// A system that can be told to change.
pub trait Actuator: Send + Sync + 'static {
    /// The steps that it carries out.
    fn performs(&self, action: ActionKind) -> bool;

    /// Whether it can act on what was read at all; why not is an error in words for people.
    fn able<'a>(&'a self, snapshot: &'a Snapshot) -> BoxFuture<'a, Result<(), SourceError>>;

    /// Sends the call of a step. `Ok` means that it was accepted, which is not yet done.
    fn perform<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Result<Accepted, SourceError>>;

    /// Whether a reading shows what a step asked for.
    fn effect(&self, action: &Action, snapshot: &Snapshot) -> Effect;

    /// Follows a step that was accepted until its effect is there, where that can be seen better than by readings. It may
    /// go on for ever: the engine ends it after [`effect_within`](Self::effect_within). `None`: readings alone tell.
    fn follow<'a>(&'a self, action: &'a Action) -> BoxFuture<'a, Option<Followed>>;

    /// A step without effect for so long has failed.
    fn effect_within(&self) -> Duration;
}

/// How a call was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It was sent and taken.
    Sent,
    /// The system has been asked for the same already: nothing was sent.
    AlreadyAsked,
}

/// What a reading shows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Not yet what was asked for.
    NotYet,
    /// What was asked for.
    Seen,
    /// What it was about is gone: it will never be seen.
    Gone,
}

/// What was seen while a step took effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Followed {
    /// Seconds without service: from the last moment at which everything ran to the first at which it ran again. `None`
    /// where no such moment was seen.
    pub downtime_seconds: Option<f64>,
}

/// Who may act. Of several instances with the same configuration one holds the permit.
pub trait Permit: Send + Sync + 'static {
    /// For how long this instance may act from now on (`None`: without end), or why it may not.
    fn check(&self) -> Result<Option<Duration>, String>;

    /// Who this instance is, for the audit.
    fn identity(&self) -> &str;
}

/// The permit of an instance that is alone.
pub struct Alone {
    identity: String,
}

impl Alone {
    /// An instance of this name.
    #[must_use]
    pub const fn new(identity: String) -> Self {
        Self { identity }
    }
}

impl Permit for Alone {
    fn check(&self) -> Result<Option<Duration>, String> {
        Ok(None)
    }

    fn identity(&self) -> &str {
        &self.identity
    }
}
