//! The HTTP interface: the calls of the API, probes, metrics and the page.
//!
//! [`router`] reads like a table. A handler takes its parts from extractors that answer with problem documents
//! ([`problem`]), so that no caller ever meets plain text of the framework. Posted bodies come through [`payload`],
//! which also bounds how many are in work at once; probes, metrics and reads are outside that bound, so that a flood of
//! questions cannot make the service look dead.

mod advice;
mod document;
mod events;
mod extract;
mod layers;
pub mod payload;
pub mod problem;
mod serve;
mod service;
mod status;
mod targets;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use secrecy::SecretString;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate, SizeAbove};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use self::document::openapi_json;
use self::problem::Problem;
pub use self::serve::{accept, serve};
pub use self::status::{Configuration, ConfigurationState, ServiceStatus};
use crate::core::units::Timestamp;
use crate::engine::clock;
use crate::engine::store::Store;
use crate::surfaces::page;

/// Where the present moment comes from; tests bring their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Bounds of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest posted body, in bytes.
    pub body_bytes: usize,
    /// A body must have arrived after this time.
    pub body_deadline: Duration,
    /// An answer must have begun after this time, body included.
    pub handler_timeout: Duration,
    /// Posted bodies in work at once; more are refused as overload.
    pub posts_in_work: usize,
    /// Bodies above 1 MiB in work at once; more wait for their turn.
    pub large_posts_in_work: usize,
    /// Streams of events at once.
    pub event_streams: usize,
    /// Connections at once; more wait to be accepted.
    pub connections: usize,
    /// A request head must have arrived after this time. A connection that idles for so long is closed as well.
    pub header_timeout: Duration,
    /// Requests in flight are served for at most this time after a shutdown began.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 32 * 1024 * 1024,
            body_deadline: Duration::from_secs(20),
            handler_timeout: Duration::from_secs(30),
            posts_in_work: 256,
            large_posts_in_work: 4,
            event_streams: 64,
            connections: 1024,
            header_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(9),
        }
    }
}

/// What the interface is made of.
pub struct Setup {
    /// Where advice is read.
    pub store: Arc<Store>,
    /// The state of the configuration.
    pub status: Arc<ServiceStatus>,
    /// Where the present moment comes from.
    pub clock: Clock,
    /// Bounds of the service.
    pub limits: Limits,
    /// True when the targets are made up.
    pub demo: bool,
    /// The bearer token that all but probes and metrics asks for; none is asked for without one.
    pub token: Option<SecretString>,
    /// Ends open event streams, and makes the service unready.
    pub shutdown: CancellationToken,
}

impl Setup {
    /// The service's clock, default limits, no token, no demo.
    #[must_use]
    pub fn new(store: Arc<Store>, status: Arc<ServiceStatus>, shutdown: CancellationToken) -> Self {
        Self { store, status, clock: Arc::new(clock::now), limits: Limits::default(), demo: false, token: None, shutdown }
    }
}

/// What handlers work with. Clones share everything.
#[derive(Clone)]
pub struct AppState {
    inner: Arc<Shared>,
}

struct Shared {
    setup: Setup,
    started_at: Timestamp,
    posts: Arc<Semaphore>,
    large_posts: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl AppState {
    /// State of a service that starts now.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        let Limits { posts_in_work, large_posts_in_work, event_streams, .. } = setup.limits;
        let started_at = (setup.clock)();
        let inner = Shared { setup, started_at, posts: places(posts_in_work), large_posts: places(large_posts_in_work), streams: places(event_streams) };
        Self { inner: Arc::new(inner) }
    }

    /// The advice store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.setup.store
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.inner.setup.clock)()
    }

    /// The bounds of the service.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.inner.setup.limits
    }
}

/// The calls that the document describes.
fn documented() -> (OpenApiRouter<AppState>, OpenApiRouter<AppState>) {
    // whoever watches the service must reach these always: no token, no bound
    let open = OpenApiRouter::new().routes(routes!(service::livez)).routes(routes!(service::readyz)).routes(routes!(service::metrics));

    let guarded = OpenApiRouter::new()
        // one decision, nothing stored
        .routes(routes!(advice::advise))
        // pull mode
        .routes(routes!(targets::list))
        .routes(routes!(targets::show))
        .routes(routes!(targets::advice, targets::dry_run))
        .routes(routes!(targets::request))
        .routes(routes!(targets::history))
        .routes(routes!(events::follow))
        // the service itself
        .routes(routes!(service::status));
    (open, guarded)
}

/// All calls, ready to be served.
pub fn router(state: AppState) -> Router {
    let (open, guarded) = documented();
    let (open, _) = open.split_for_parts();
    let (mut guarded, _) = guarded.split_for_parts();
    guarded = guarded.merge(page::router()).merge(document::router());
    if state.inner.setup.token.is_some() {
        guarded = guarded.layer(from_fn_with_state(state.clone(), layers::require_token));
    }
    let smallest_compressed = DefaultPredicate::new().and(SizeAbove::new(1024));
    open.merge(guarded)
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed", "this path has other methods: see the Allow header")
        })
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "notFound", "no such path: /openapi.json lists all of them"))
        .layer(CompressionLayer::new().quality(tower_http::CompressionLevel::Fastest).compress_when(smallest_compressed))
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(layers::Around::new(state.limits().handler_timeout), layers::around))
        .with_state(state)
}
