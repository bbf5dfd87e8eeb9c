//! KEDA's external scaler: the number of a target over gRPC, for triggers of type `external` and `external-push`.
//!
//! ```text
//! value = recommended        target = 1, per replica        active = recommended > 0
//! ```
//!
//! The HPA divides the value by the target and rounds up, so with a target of 1 it lands on the recommendation whatever
//! runs at present; a changing target, or lag with a threshold, would hand the decision back to it. Active follows the
//! number, not the demand: KEDA takes an inactive target to its own minimum whatever the value is, so "no demand, but keep
//! one" has to be active.
//!
//! Unknown is an error and never a zero: on `UNAVAILABLE` the HPA holds what it has, on 0 it removes it. A target that is not
//! there is no different, as one of an entry that stands for many may only not have been found yet. The status message says
//! why. `GetMetricSpec` rests on nothing and never fails: KEDA asks it first in every round, and where it fails, KEDA
//! does not count the failure and its fallback never comes.
//!
//! Every answer comes from the advice store; KEDA sets no deadline, and one answer that hangs holds up a whole loop of it.
//! At start all targets are unknown until their first reading; idle costs nothing. A stream says what is true at once, then
//! each change, and says nothing while nothing is known: `false` where the truth is "not known" could stop a workload.

mod around;
mod serve;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use self::proto::external_scaler_server::{ExternalScaler, ExternalScalerServer};
use self::proto::{GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec, MetricValue, ScaledObjectRef};
pub use self::serve::serve;
use self::stream::ActiveStream;
use crate::core::units::{Count, Timestamp, as_f64};
use crate::engine::Clock;
use crate::engine::store::{Interface, Store, Target, is_valid};

/// The messages and the service, as they are built from `proto/externalscaler.proto`.
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::default_trait_access,
    clippy::doc_markdown,
    clippy::too_many_lines,
    reason = "code that is built from the contract"
)]
pub mod proto {
    tonic::include_proto!("externalscaler");

    /// The contract itself, for those who ask the service what it can do.
    pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/externalscaler.bin"));
}

/// The metric's name. KEDA puts `s0-` and so on before it, and the HPA has it in a path.
pub const METRIC: &str = "loadline-recommended";
/// What the value is divided by.
const TARGET_SIZE: i64 = 1;
/// The metadata of a trigger that names the target.
const TARGET_KEY: &str = "target";
/// A status message is no longer, in characters: it becomes a header.
const LONGEST_MESSAGE: usize = 400;

/// Bounds of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more wait to be accepted. KEDA has one for all that it asks.
    pub connections: usize,
    /// Calls of one connection at once, open streams included.
    pub calls_per_connection: u32,
    /// Streams at once, over all connections; more are refused.
    pub streams: usize,
    /// Calls in work at once; more wait for their turn.
    pub calls_in_work: usize,
    /// The largest message of a caller, in bytes.
    pub message_bytes: usize,
    /// An answer must have begun after this time.
    pub call_timeout: Duration,
    /// The beginning of a connection must have arrived after this time, and its TLS handshake be over.
    pub opening_timeout: Duration,
    /// A silent connection is asked for a sign of life this often; without one for the same time it is closed.
    pub keep_alive: Duration,
    /// How often a stream looks whether its target is still there.
    pub look_again: Duration,
    /// What is in flight is served for at most this time after a shutdown began.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            calls_per_connection: 2048,
            streams: 1024,
            calls_in_work: 256,
            message_bytes: 256 * 1024,
            call_timeout: Duration::from_secs(5),
            opening_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(20),
            look_again: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(9),
        }
    }
}

/// What the interface is made of.
#[derive(Clone)]
pub struct Setup {
    /// Where advice is read.
    pub store: Arc<Store>,
    /// Where the present moment comes from.
    pub clock: Clock,
    /// Bounds of the interface.
    pub limits: Limits,
    /// Ends open streams.
    pub shutdown: CancellationToken,
}

/// Answers KEDA. Clones share everything.
#[derive(Clone)]
pub struct Scaler {
    setup: Setup,
    streams: Arc<Semaphore>,
}

impl Scaler {
    /// An interface without any stream yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let streams = Arc::new(Semaphore::new(setup.limits.streams));
        Self { setup, streams }
    }

    /// As a service of gRPC.
    fn service(self) -> ExternalScalerServer<Self> {
        let bytes = self.setup.limits.message_bytes;
        ExternalScalerServer::new(self).max_decoding_message_size(bytes)
    }

    /// The target of this name.
    fn target(&self, name: &str) -> Result<Arc<Target>, Status> {
        self.setup.store.target(name).ok_or_else(|| {
            let name: String = name.chars().take(LONGEST_MESSAGE / 4).collect();
            unavailable(format!("no target is called \"{name}\": expected the name of one in the trigger's metadata, under \"{TARGET_KEY}\""))
        })
    }

    /// The number that KEDA may have now, or why there is none.
    fn number(&self, object: Option<&ScaledObjectRef>) -> Result<Count, Status> {
        let target = self.target(named(object))?;
        let now = (self.setup.clock)();
        target.note_read(Interface::Grpc, now);
        target.recommended_at(now).ok_or_else(|| unavailable(why_unknown(&target, now)))
    }

    fn active(&self, target: &Target) -> Option<bool> {
        target.recommended_at((self.setup.clock)()).map(|recommended| recommended > 0)
    }
}

#[tonic::async_trait]
impl ExternalScaler for Scaler {
    async fn is_active(&self, request: Request<ScaledObjectRef>) -> Result<Response<IsActiveResponse>, Status> {
        let recommended = self.number(Some(request.get_ref()))?;
        Ok(Response::new(IsActiveResponse { result: recommended > 0 }))
    }

    type StreamIsActiveStream = ActiveStream;

    async fn stream_is_active(&self, request: Request<ScaledObjectRef>) -> Result<Response<ActiveStream>, Status> {
        let name = named(Some(request.get_ref()));
        self.target(name)?;
        let slot = Arc::clone(&self.streams).try_acquire_owned();
        let slot = slot.map_err(|_| Status::resource_exhausted(format!("{} streams are open already: expected fewer", self.setup.limits.streams)))?;
        Ok(Response::new(stream::follow(self.clone(), name.to_owned(), slot)))
    }

    async fn get_metric_spec(&self, _: Request<ScaledObjectRef>) -> Result<Response<GetMetricSpecResponse>, Status> {
        let spec = MetricSpec { metric_name: METRIC.to_owned(), target_size: TARGET_SIZE, target_size_float: 1.0 };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(&self, request: Request<GetMetricsRequest>) -> Result<Response<GetMetricsResponse>, Status> {
        let recommended = self.number(request.get_ref().scaled_object_ref.as_ref())?;
        let value = MetricValue {
            metric_name: METRIC.to_owned(),
            // older versions read the one, newer the other
            metric_value: i64::try_from(recommended).unwrap_or(i64::MAX),
            metric_value_float: as_f64(recommended),
        };
        // the HPA adds up what is in the list: exactly one
        Ok(Response::new(GetMetricsResponse { metric_values: vec![value] }))
    }

    type StreamMetricSpecStream = ActiveSpecs;

    async fn stream_metric_spec(&self, _: Request<ScaledObjectRef>) -> Result<Response<ActiveSpecs>, Status> {
        Err(Status::unimplemented("the specification never changes: GetMetricSpec tells it"))
    }
}

/// No stream of specifications is ever given.
pub type ActiveSpecs = futures_util::stream::Empty<Result<GetMetricSpecResponse, Status>>;

/// The target that a trigger means: that of its metadata, else the one that is called as the `ScaledObject` is.
fn named(object: Option<&ScaledObjectRef>) -> &str {
    let Some(object) = object else { return "" };
    object.scaler_metadata.get(TARGET_KEY).map(|name| name.trim()).filter(|name| !name.is_empty()).unwrap_or(&object.name)
}

/// Why a target has no number.
fn why_unknown(target: &Target, now: Timestamp) -> String {
    let state = target.state();
    let name = &target.name;
    let Some(advice) = &state.advice else {
        let why = state.source.last_error.as_deref().unwrap_or("its source has not answered yet");
        return format!("nothing has been decided for \"{name}\" yet: {why}");
    };
    let why = advice.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
    match advice.valid_until {
        Some(until) if !is_valid(advice, now) => format!("the advice of \"{name}\" has had no valid number since {until}{why}"),
        _ => format!("the advice of \"{name}\" has no number{why}"),
    }
}

fn unavailable(message: String) -> Status {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => Status::unavailable(format!("{}...", message.get(..end).unwrap_or_default())),
        None => Status::unavailable(message),
    }
}
