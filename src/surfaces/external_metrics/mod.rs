//! The external metrics API of Kubernetes (`external.metrics.k8s.io/v1beta1`), so that a plain HPA can follow the advice: one
//! metric, `loadline-recommended`, with the label `target`.
//!
//! ```text
//! HPA ──► API server ──(front proxy's certificate, caller in headers)──► here ──► advice store
//! ```
//!
//! - Its value is the recommended count. With `type: AverageValue` and `averageValue: "1"` an HPA makes `ceil(value / 1)` replicas
//!   of it, whatever the count is now; with `tolerance: "0"` exactly that.
//! - A target is told in its own namespace only: the API server's rules are by namespace, and so an HPA cannot follow
//!   what its namespace may not see.
//! - Without a valid number, without such a target, or in another namespace the list is empty, at which an HPA holds. It is
//!   never a zero.
//! - A selector that fits several targets is refused: an HPA adds up what it gets. Also this makes it hold.
//! - Answers come from memory alone. What goes over the network is the question who may read (`access`), which is
//!   kept for seconds, and, in the background, whom to believe (`front_proxy`).
//!
//! A cluster has one server for this API. This one never claims it: whoever runs the cluster creates the `APIService`, and
//! `loadline check --kubernetes` says who has it.
//!
//! Source: <https://github.com/kubernetes/metrics>, `k8s.io/kube-aggregator` 0.37.

mod access;
mod documents;
mod front_proxy;
mod selector;
mod serve;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::extract::{MatchedPath, Path, Query, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use rustls::pki_types::UnixTime;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{info, warn};

use self::access::Access;
pub use self::access::Rule;
pub use self::documents::{GROUP, LABEL, METRIC, VERSION};
use self::documents::{Status, document};
pub use self::front_proxy::{FrontProxy, Identity};
use self::selector::Selector;
pub use self::serve::serve;

use crate::core::advice::Advice;
use crate::engine::Clock;
use crate::engine::clock;
use crate::engine::source::BoxFuture;
use crate::engine::store::{Interface, Store};
use crate::surfaces::metrics;

/// How often it is looked up whom to believe.
const LOOKED_UP_EVERY: Duration = Duration::from_secs(60);
/// An answer takes no longer; the API server itself gives up after 5 s where it is only probing.
const LONGEST: Duration = Duration::from_secs(10);

/// A question to the cluster's rules: whether someone may read the metric in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Review {
    /// Who asks.
    pub identity: Identity,
    /// In which namespace.
    pub namespace: String,
}

/// What is asked of the cluster itself.
pub trait Cluster: Send + Sync {
    /// The data of the ConfigMap that says whom to believe, or why it cannot be had.
    fn authentication(&self) -> BoxFuture<'_, Result<BTreeMap<String, String>, String>>;

    /// Whether its rules allow it, or why that cannot be told.
    fn allows<'a>(&'a self, review: &'a Review) -> BoxFuture<'a, Result<bool, String>>;
}

/// What the interface is made of.
pub struct Setup {
    /// Where advice is read.
    pub store: Arc<Store>,
    /// The present moment.
    pub clock: Clock,
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// Who may read.
    pub rule: Rule,
}

/// The interface. Clones share everything.
#[derive(Clone)]
pub struct ExternalMetrics {
    inner: Arc<Shared>,
}

struct Shared {
    setup: Setup,
    /// Whom to believe, or why it is not known yet.
    trust: ArcSwap<Result<FrontProxy, String>>,
    access: Access,
}

impl ExternalMetrics {
    /// The interface, which believes nobody yet.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let trust = ArcSwap::from_pointee(Err("it has not been looked up yet".to_owned()));
        Self { inner: Arc::new(Shared { setup, trust, access: Access::default() }) }
    }

    /// Looks up whom to believe, again and again. What was known stays in force where that fails.
    pub async fn follow_trust(&self, stop: CancellationToken) {
        let (mut failures, mut seen) = (0_u32, None);
        loop {
            match self.look_up(&mut seen).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    if failures == 0 {
                        warn!(%error, "it cannot be looked up whom the external metrics API believes");
                    }
                    failures = failures.saturating_add(1);
                    if self.inner.trust.load().is_err() {
                        self.inner.trust.store(Arc::new(Err(error)));
                    }
                }
            }
            let soon = Duration::from_secs(1 << failures.min(5));
            let wait = if failures == 0 { LOOKED_UP_EVERY } else { soon };
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    async fn look_up(&self, seen: &mut Option<BTreeMap<String, String>>) -> Result<(), String> {
        let data = self.inner.setup.cluster.authentication().await?;
        if seen.as_ref() == Some(&data) {
            return Ok(());
        }
        let front_proxy = FrontProxy::parse(&data)?;
        info!(allowed_names = ?front_proxy.allowed_names(), "the external metrics API believes the API server's front proxy");
        self.inner.trust.store(Arc::new(Ok(front_proxy)));
        *seen = Some(data);
        Ok(())
    }

    /// All calls, ready to be served behind TLS that puts the [`Peer`] into each request.
    pub fn router(&self) -> Router {
        let told = |body: fn() -> serde_json::Value| get(async move || document("application/json", &body()));
        let open = Router::new().route("/livez", get(async || "ok")).route("/readyz", get(async || "ok")).route("/healthz", get(async || "ok"));
        let guarded = Router::new()
            .route("/apis", get(async |request: Request| documents::groups(request.headers())))
            .route(&format!("/apis/{GROUP}"), told(documents::group))
            .route(&format!("/apis/{GROUP}/{VERSION}"), told(documents::resources))
            .route(&format!("/apis/{GROUP}/{VERSION}/namespaces/{{namespace}}/{{metric}}"), get(values))
            .route("/openapi/v2", told(documents::openapi_v2))
            .route("/openapi/v3", told(documents::openapi_v3))
            .route("/version", told(documents::version))
            .fallback(async || Status::not_found("no such path"))
            .method_not_allowed_fallback(async || Status::method_not_allowed())
            .layer(from_fn_with_state(self.clone(), identified));
        open.merge(guarded).layer(CatchPanicLayer::custom(panicked)).layer(from_fn(around)).with_state(self.clone())
    }
}

/// The certificates that the other end of a connection has shown, its own first; it has proved that it has the key.
#[derive(Clone, Debug, Default)]
pub struct Peer(pub Arc<[rustls::pki_types::CertificateDer<'static>]>);

/// A panic in a handler is a fault of this request only. Its text goes to the log, never to the caller.
#[expect(clippy::needless_pass_by_value, reason = "the signature that the layer asks for")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text.unwrap_or("not text"), "a handler of the external metrics API panicked");
    Status::internal().into_response()
}

/// Bounds the time of a request, and measures it.
async fn around(request: Request, next: Next) -> Response {
    let begun = clock::instant();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = metrics::method_label(request.method());
    let answered = tokio::time::timeout(LONGEST, next.run(request)).await;
    let response = answered.unwrap_or_else(|_| Status::unavailable(format!("there was no answer after {} s", LONGEST.as_secs())).into_response());
    metrics::note_http(route.as_ref().map_or("unmatched", MatchedPath::as_str), method, response.status(), begun.elapsed());
    response
}

/// Finds out who asks, and lets nobody else pass.
async fn identified(State(external): State<ExternalMetrics>, mut request: Request, next: Next) -> Response {
    let identity = {
        let trust = external.inner.trust.load();
        let front_proxy = match trust.as_ref() {
            Ok(front_proxy) => front_proxy,
            Err(why) => return Status::unavailable(format!("it is not known whom to believe: {why}")).into_response(),
        };
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        let now = u64::try_from((external.inner.setup.clock)().as_second()).unwrap_or_default();
        front_proxy.identify(&peer.0, request.headers(), UnixTime::since_unix_epoch(Duration::from_secs(now)))
    };
    match identity {
        Ok(identity) => {
            request.extensions_mut().insert(identity);
            next.run(request).await
        }
        Err(why) => Status::unauthorized(why).into_response(),
    }
}

/// What is asked of a metric. The API has many more parameters, and callers send some of them: they are not looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    label_selector: String,
}

async fn values(
    State(external): State<ExternalMetrics>,
    Extension(identity): Extension<Identity>,
    Path((namespace, metric)): Path<(String, String)>,
    asked: Result<Query<Asked>, axum::extract::rejection::QueryRejection>,
) -> Result<Response, Status> {
    let Shared { setup, access, .. } = &*external.inner;
    let user = identity.user.clone();
    let review = Review { identity, namespace: namespace.clone() };
    if metric != METRIC {
        return Err(Status::not_found(format!("there is no metric \"{metric}\": the one here is {METRIC}")));
    }
    match access.allows(&setup.rule, &*setup.cluster, review).await {
        Ok(true) => {}
        Ok(false) => return Err(Status::forbidden(format!("{user} may not list {METRIC}.{GROUP} in the namespace {namespace}"))),
        Err(error) => {
            warn!(%error, user, namespace, "it cannot be told who may read the external metrics");
            return Err(Status::unavailable(format!("it cannot be told whether {user} may read this: {error}")));
        }
    }
    let Query(asked) = asked.map_err(|error| Status::bad_request(error.body_text()))?;
    let selector = Selector::parse(&asked.label_selector).map_err(|why| Status::bad_request(format!("labelSelector: {why}")))?;
    let targets = setup.store.targets();
    let fits = targets.values().filter(|target| target.namespace == namespace && selector.fits(&[(LABEL, &target.name)]));
    let fits: Vec<_> = fits.take(3).collect();
    let now = (setup.clock)();
    let value = match fits.as_slice() {
        [] => None,
        [target] => {
            target.note_read(Interface::ExternalMetrics, now);
            let number = |advice: &Advice| Some((advice.recommended?, advice.observed_at.unwrap_or(advice.evaluated_at)));
            target.advice_at(now).and_then(|advice| number(&advice)).map(|(count, at)| (target.name.as_str(), count, at))
        }
        [first, second, ..] => {
            let both = format!("\"{}\" and \"{}\"", first.name, second.name);
            return Err(Status::bad_request(format!("the selector fits several targets, {both} among them: expected one, as an HPA adds them up")));
        }
    };
    Ok(document("application/json", &documents::values(value)))
}
