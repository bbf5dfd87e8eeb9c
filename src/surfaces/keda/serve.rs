//! The accept loop of the gRPC interface: HTTP/2 without negotiation, as gRPC clients speak it.
//!
//! It bounds connections as that of the HTTP interface does. A connection has to begin with the client's preface in time,
//! behind TLS where that is configured, after which the keepalive watches over it: KEDA keeps one connection open for all that it asks, and asks rarely. At a
//! shutdown open streams end first, so that a client connects anew at once and does not wait for the grace to pass.

use std::io::{self, Cursor};
use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, HealthService};
use tower_http::catch_panic::CatchPanicLayer;

use super::around::{Around, around, panicked};
use super::proto::DESCRIPTOR;
use super::proto::external_scaler_server::SERVICE_NAME;
use super::{Limits, Scaler};
use crate::surfaces::http::accept;
use crate::surfaces::tls::Tls;

/// What a client of HTTP/2 sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest list of headers, in bytes.
const HEADERS: u32 = 16 * 1024;
/// The services whose health is told: this one, and the server as a whole.
const HEALTHY: [&str; 2] = ["", SERVICE_NAME];

/// Serves until `shutdown`, then what is in flight for at most `limits.shutdown_grace`.
pub async fn serve(listener: TcpListener, scaler: Scaler, tls: Option<Tls>, shutdown: CancellationToken) {
    let tls = tls.map(Arc::new);
    let followed = async {
        if let Some(tls) = &tls {
            tls.watch(shutdown.clone()).await;
        }
    };
    tokio::join!(followed, connections(listener, scaler, tls.clone(), shutdown.clone()));
}

async fn connections(listener: TcpListener, scaler: Scaler, tls: Option<Arc<Tls>>, shutdown: CancellationToken) {
    let limits = scaler.setup.limits;
    let slots = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    // ends those that are still open after the grace
    let end = CancellationToken::new();
    let mut health = HealthReporter::new();
    for service in HEALTHY {
        health.set_service_status(service, ServingStatus::Serving).await;
    }
    let connections = Connections { http: http(limits), router: router(scaler, health.clone()), tls, limits, shutdown: shutdown.clone() };
    while let Some((stream, slot)) = accept(&listener, &slots, &shutdown).await {
        let (connections, watcher, end) = (connections.clone(), graceful.watcher(), end.clone());
        tokio::spawn(async move {
            tokio::select! {
                // a client that goes away or sends nonsense is its own affair
                done = connections.open(stream, watcher) => if let Err(error) = done { tracing::debug!(error, "a gRPC connection ended early") },
                () = end.cancelled() => {}
            }
            drop(slot);
        });
    }
    drop(listener);
    for service in HEALTHY {
        // who watches the health is told, and the stream ends with its subject
        health.set_service_status(service, ServingStatus::NotServing).await;
        health.clear_service_status(service).await;
    }
    if tokio::time::timeout(limits.shutdown_grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(grace_seconds = limits.shutdown_grace.as_secs(), "gRPC calls were still in flight when the time to finish them was over");
    }
    end.cancel();
}

/// All calls.
fn router(scaler: Scaler, health: HealthReporter) -> Router {
    let limits = scaler.setup.limits;
    let health = tonic_health::pb::health_server::HealthServer::new(HealthService::from_health_reporter(health));
    let mut routes = Routes::new(scaler.service()).add_service(health.max_decoding_message_size(limits.message_bytes));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // both versions: command line tools ask one or the other
    match (reflection().build_v1(), reflection().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes = routes.add_service(v1).add_service(v1alpha),
        (v1, v1alpha) => tracing::error!(error = ?v1.err().or(v1alpha.err()), "the service cannot describe itself"),
    }
    routes.into_axum_router().layer(CatchPanicLayer::custom(panicked)).layer(from_fn_with_state(Around::new(limits.call_timeout, limits.calls_in_work), around))
}

fn http(limits: Limits) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .keep_alive_interval(limits.keep_alive)
        .keep_alive_timeout(limits.keep_alive)
        .max_concurrent_streams(limits.calls_per_connection)
        .max_header_list_size(HEADERS);
    http
}

/// What every connection is served with.
#[derive(Clone)]
struct Connections {
    http: http2::Builder<TokioExecutor>,
    router: Router,
    tls: Option<Arc<Tls>>,
    limits: Limits,
    shutdown: CancellationToken,
}

impl Connections {
    async fn open(mut self, stream: TcpStream, watcher: Watcher) -> Result<(), String> {
        let Some(tls) = self.tls.take() else { return self.serve(stream, watcher).await };
        // one that has asked nothing yet has nothing in flight
        match self.shutdown.clone().run_until_cancelled(tls.accept(stream)).await {
            Some(stream) => self.serve(stream?, watcher).await,
            None => Ok(()),
        }
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + 'static, watcher: Watcher) -> Result<(), String> {
        let (mut read, write) = split(stream);
        let mut preface = [0; PREFACE.len()];
        let opened = async {
            read.read_exact(&mut preface).await?;
            if &preface == PREFACE { Ok(()) } else { Err(io::Error::other("it does not begin as HTTP/2 does")) }
        };
        tokio::select! {
            // one that has asked nothing yet has nothing in flight
            () = self.shutdown.cancelled() => return Ok(()),
            opened = tokio::time::timeout(self.limits.opening_timeout, opened) => match opened {
                Ok(opened) => opened.map_err(|error| error.to_string())?,
                Err(_) => return Err("its beginning did not arrive in time".to_owned()),
            },
        }
        let stream = join(Cursor::new(preface).chain(read), write);
        let service = TowerToHyperService::new(self.router);
        watcher.watch(self.http.serve_connection(TokioIo::new(stream), service)).await.map_err(|error| error.to_string())
    }
}
