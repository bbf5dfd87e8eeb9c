//! The leases of a fake API server, which refuses a write of an old version as the real one does, and its faults.

#![allow(dead_code, reason = "each test uses its own part")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use loadline::actuators::lease::{Lease, LeaseOptions};
use loadline::sources::http::{Client, ClientOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::Url;

/// How long a lease lasts in tests: the shortest that its whole seconds allow.
pub const DURATION: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct State_ {
    pub lease: Option<Value>,
    pub version: u64,
    /// Calls, as method and path.
    pub calls: Vec<String>,
    /// Answers every call with this status; 0 hangs.
    pub fault: Option<u16>,
    /// The next writes are refused as too late.
    pub conflicts: u32,
}

#[derive(Clone)]
pub struct Api {
    pub state: Arc<Mutex<State_>>,
    base: Url,
}

async fn serve(State(state): State<Arc<Mutex<State_>>>, method: Method, uri: Uri, body: Bytes) -> Response {
    let fault = {
        let mut state = state.lock().expect("no panic");
        state.calls.push(format!("{method} {}", uri.path()));
        state.fault
    };
    match fault {
        Some(0) => return std::future::pending().await,
        Some(status) => return (StatusCode::from_u16(status).expect("a status"), Json(json!({ "kind": "Status" }))).into_response(),
        None => {}
    }
    let mut state = state.lock().expect("no panic");
    let refuse = |status: StatusCode| (status, Json(json!({ "kind": "Status", "code": status.as_u16() }))).into_response();
    if method == Method::GET {
        return state.lease.clone().map_or_else(|| refuse(StatusCode::NOT_FOUND), |lease| Json(lease).into_response());
    }
    let mut lease: Value = serde_json::from_slice(&body).expect("JSON");
    let there = state.lease.as_ref().and_then(|lease| lease.pointer("/metadata/resourceVersion").cloned());
    let given = lease.pointer("/metadata/resourceVersion").cloned();
    let late = if method == Method::POST { there.is_some() } else { there != given };
    if state.conflicts > 0 || late {
        state.conflicts = state.conflicts.saturating_sub(1);
        return refuse(StatusCode::CONFLICT);
    }
    state.version += 1;
    lease["metadata"]["resourceVersion"] = json!(state.version.to_string());
    state.lease = Some(lease.clone());
    Json(lease).into_response()
}

impl Api {
    pub async fn start() -> Self {
        let state = Arc::new(Mutex::new(State_::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = Url::parse(&format!("http://{}", listener.local_addr().expect("bound"))).expect("URL");
        let router = Router::new().fallback(serve).with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { state, base }
    }

    pub fn with<T>(&self, change: impl FnOnce(&mut State_) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }

    /// A lease as an instance of this name wants it.
    pub fn lease(&self, identity: &str) -> Arc<Lease> {
        let options = ClientOptions { timeout: DURATION / 3, ..ClientOptions::default() };
        let client = Client::new(self.base.clone(), options).expect("a client");
        let options = LeaseOptions { namespace: "streams".to_owned(), name: "loadline".to_owned(), duration: DURATION };
        let lease = Lease::new(client, options, identity.to_owned());
        lease.want(true);
        Arc::new(lease)
    }

    pub fn holder(&self) -> Option<String> {
        self.with(|state| Some(state.lease.as_ref()?.pointer("/spec/holderIdentity")?.as_str()?.to_owned()))
    }

    /// Another instance writes the lease, whoever holds it.
    pub fn take(&self, holder: &str, renew_time: &str) {
        self.with(|state| {
            state.version += 1;
            state.lease = Some(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": "loadline", "namespace": "streams", "resourceVersion": state.version.to_string(), "labels": { "app": "loadline" } },
                "spec": { "holderIdentity": holder, "leaseDurationSeconds": 1, "renewTime": renew_time, "acquireTime": renew_time, "leaseTransitions": 3 },
            }));
        });
    }
}
