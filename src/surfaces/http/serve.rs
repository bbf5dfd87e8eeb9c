//! The accept loop.
//!
//! The framework's own never ends a connection whose request head does not arrive, and can wait for ever at shutdown.
//! This one times out heads, bounds the connections, and after a shutdown began serves what is in flight for a bounded
//! time. At the bound it stops accepting, so that new connections wait in the kernel's queue and not in our memory.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Limits;

/// Serves until `shutdown`, then what is in flight for at most `limits.shutdown_grace`.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken, limits: Limits) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    // ends those that are still open after the grace
    let end = CancellationToken::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);

    while let Some((stream, slot)) = accept(&listener, &slots, &shutdown).await {
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        let end = end.clone();
        tokio::spawn(async move {
            tokio::select! {
                // a client that goes away or sends nonsense is its own affair
                done = connection => if let Err(error) = done { tracing::debug!(%error, "a connection ended early") },
                () = end.cancelled() => {}
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.shutdown_grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(grace_seconds = limits.shutdown_grace.as_secs(), "requests were still in flight when the time to finish them was over");
    }
    end.cancel();
}

/// The next connection with its slot; `None` once a shutdown began.
pub async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>, shutdown: &CancellationToken) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let next = async {
        // the semaphore is never closed
        let slot = Arc::clone(slots).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // answers are written whole: waiting to fill a packet would only delay them
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "a connection without TCP_NODELAY");
                    }
                    return Some((stream, slot));
                }
                Err(error) if is_of_one_connection(&error) => tracing::debug!(%error, "a connection ended before it was accepted"),
                // out of file descriptors or memory: it would fail again at once
                Err(error) => {
                    tracing::error!(%error, "no connection can be accepted now");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        next = next => next,
    }
}

fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
