//! The interface in the test's own process, on a real socket, with a clock and decisions made by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use loadline::core::advise;
use loadline::core::request::{self, Kind};
use loadline::core::units::Timestamp;
use loadline::engine::store::{SourceState, Store, Target};
use loadline::surfaces::keda::{Limits, Scaler, Setup, serve};
use loadline::surfaces::tls::Tls;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::Connection;

/// The moment at which the tests begin.
pub fn start() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().expect("a time")
}

/// Bounds with short times.
pub fn hasty() -> Limits {
    Limits { look_again: Duration::from_millis(50), shutdown_grace: Duration::from_secs(2), ..Limits::default() }
}

pub struct Replica {
    pub store: Arc<Store>,
    pub address: SocketAddr,
    pub shutdown: CancellationToken,
    pub done: JoinHandle<()>,
    later: Arc<AtomicI64>,
}

impl Replica {
    pub async fn start(limits: Limits) -> Self {
        Self::behind(limits, None).await
    }

    pub async fn behind(limits: Limits, tls: Option<Tls>) -> Self {
        let (store, shutdown, later) = (Arc::new(Store::new()), CancellationToken::new(), Arc::new(AtomicI64::new(0)));
        let clock = {
            let later = Arc::clone(&later);
            Arc::new(move || start().checked_add(jiff::SignedDuration::from_secs(later.load(Ordering::Relaxed))).expect("a time"))
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let scaler = Scaler::new(Setup { store: Arc::clone(&store), clock, limits, shutdown: shutdown.clone() });
        let done = tokio::spawn(serve(listener, scaler, tls, shutdown.clone()));
        Self { store, address, shutdown, done, later }
    }

    /// It is so many seconds later now.
    pub fn later(&self, seconds: i64) {
        self.later.fetch_add(seconds, Ordering::Relaxed);
    }

    pub async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// A target of which nothing is known yet.
    pub fn bare(&self, name: &str) -> Arc<Target> {
        let target = Arc::new(Target::new(name.to_owned(), name.to_owned(), "shop".to_owned(), Kind::Backlog, serde_json::json!({})));
        self.store.insert(Arc::clone(&target));
        target
    }

    /// A target for which this count was decided at the beginning, valid for two minutes.
    pub fn decided(&self, name: &str, count: u64) -> Arc<Target> {
        let target = self.bare(name);
        self.decide(&target, count);
        target
    }

    /// Decides anew, at the beginning.
    pub fn decide(&self, target: &Target, count: u64) {
        let body = serde_json::json!({
            "kind": "backlog", "name": target.name, "now": start(), "replicas": { "spec": 5, "ready": 5 },
            "snapshot": { "observedAt": start(), "backlog": count * 10, "inFlight": 0 },
            "policy": { "min": 0, "max": 5000, "perReplicaBacklog": 10, "idleBeforeZero": "0s" }
        });
        let request = request::parse(body.to_string().as_bytes(), start()).expect("a valid question");
        let mut advice = advise(&request);
        if count == 0 {
            // the way to zero is judged elsewhere
            advice.recommended = Some(0);
        }
        assert!(advice.recommended == Some(count), "{advice:?}");
        self.store.publish(target, Arc::new(request), Arc::new(advice), SourceState::default());
    }

    /// Stops and waits for the end.
    pub async fn stop(self) -> Duration {
        #[expect(clippy::disallowed_methods, reason = "a test measures real time")]
        let begun = std::time::Instant::now();
        self.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(15), self.done).await.expect("an end in time").expect("no panic");
        begun.elapsed()
    }
}
