//! `StreamIsActive`: what is true at once, then each change, for as long as the target is there.

use std::pin::Pin;

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tonic::Status;

use super::Scaler;
use super::proto::IsActiveResponse;
use crate::engine::store::Event;

/// A stream of states.
pub type ActiveStream = Pin<Box<dyn Stream<Item = Result<IsActiveResponse, Status>> + Send>>;

/// Follows a target until it goes, the caller goes, or the service stops.
pub fn follow(scaler: Scaler, name: String, slot: OwnedSemaphorePermit) -> ActiveStream {
    let events = scaler.setup.store.follow();
    let following = Following { scaler, name, events, told: None, over: false, _slot: slot };
    Box::pin(unfold(following, async |mut following| following.next().await.map(|told| (told, following))))
}

struct Following {
    scaler: Scaler,
    name: String,
    events: Receiver<Event>,
    told: Option<bool>,
    over: bool,
    _slot: OwnedSemaphorePermit,
}

impl Following {
    async fn next(&mut self) -> Option<Result<IsActiveResponse, Status>> {
        while !self.over {
            // looked up anew each time: a reload puts another in its place
            match self.scaler.target(&self.name) {
                Ok(target) => {
                    let active = self.scaler.active(&target);
                    if let Some(result) = active.filter(|_| active != self.told) {
                        self.told = active;
                        return Some(Ok(IsActiveResponse { result }));
                    }
                }
                Err(status) => {
                    self.over = true;
                    return Some(Err(status));
                }
            }
            self.over = !self.wait().await;
        }
        None
    }

    /// Waits until there may be something to say; false when the service stops.
    async fn wait(&mut self) -> bool {
        let Self { scaler, name, events, .. } = self;
        tokio::select! {
            () = scaler.setup.shutdown.cancelled() => false,
            () = decided(events, name) => true,
            // a target that is removed makes no event
            () = tokio::time::sleep(scaler.setup.limits.look_again) => true,
        }
    }
}

/// Until something was decided for this target.
async fn decided(events: &mut Receiver<Event>, name: &str) {
    loop {
        match events.recv().await {
            Ok(event) if event.name == name => return,
            Ok(_) => {}
            // some were lost, maybe those of this target
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
