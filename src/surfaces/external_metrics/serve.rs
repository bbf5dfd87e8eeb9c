//! The interface behind TLS, for callers that may show a certificate.
//!
//! The handshake takes any certificate, and only has it proved that the caller has its key: whether it is the front
//! proxy's is judged for each request ([`super::front_proxy`]), and one who shows none gets an answer that says so. HTTP/1.1
//! only: the API server keeps its connections open and needs no more.

use std::sync::Arc;

use axum::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{ExternalMetrics, Peer};
use crate::surfaces::http::{Limits, accept};
use crate::surfaces::tls::Tls;

/// Serves until `shutdown`, then what is in flight for at most `limits.shutdown_grace`.
pub async fn serve(listener: TcpListener, external: ExternalMetrics, tls: Tls, shutdown: CancellationToken, limits: Limits) {
    let tls = Arc::new(tls);
    let background = async { tokio::join!(tls.watch(shutdown.clone()), external.follow_trust(shutdown.clone())) };
    tokio::join!(background, connections(listener, &external, Arc::clone(&tls), shutdown.clone(), limits));
}

async fn connections(listener: TcpListener, external: &ExternalMetrics, tls: Arc<Tls>, shutdown: CancellationToken, limits: Limits) {
    let slots = Arc::new(tokio::sync::Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let end = CancellationToken::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
    let router = external.router();
    while let Some((stream, slot)) = accept(&listener, &slots, &shutdown).await {
        let (tls, router, http, watcher, end) = (Arc::clone(&tls), router.clone(), http.clone(), graceful.watcher(), end.clone());
        tokio::spawn(async move {
            let serve = async {
                let stream = match tls.accept(stream).await {
                    Ok(stream) => stream,
                    Err(error) => return tracing::debug!(error, "a connection ended early"),
                };
                let peer =
                    Peer(stream.get_ref().1.peer_certificates().unwrap_or_default().iter().map(|certificate| certificate.clone().into_owned()).collect());
                let service = TowerToHyperService::new(router.layer(Extension(peer)));
                if let Err(error) = watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await {
                    tracing::debug!(%error, "a connection ended early");
                }
            };
            tokio::select! {
                () = serve => {}
                () = end.cancelled() => {}
            }
            drop(slot);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(limits.shutdown_grace, graceful.shutdown()).await;
    end.cancel();
}
