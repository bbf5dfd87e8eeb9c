//! The interface behind TLS: a certificate that can be replaced while it serves, and callers that may show one.
//!
//! The handshake takes any certificate, and only has it proved that the caller has its key: whether it is the front
//! proxy's is judged for each request ([`super::front_proxy`]), and one who shows none gets an answer that says so. The own
//! certificate is read again every few seconds, as the cluster's issuers replace it in place; one that cannot be used
//! changes nothing. HTTP/1.1 only: the API server keeps its connections open and needs no more.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{ExternalMetrics, Peer};
use crate::surfaces::http::{Limits, accept};

/// How often it is looked whether the certificate has changed.
const WATCH_EVERY: Duration = Duration::from_secs(5);
/// A handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The certificate that is shown.
#[derive(Debug)]
pub struct Certificate {
    cert_file: PathBuf,
    key_file: PathBuf,
    provider: Arc<CryptoProvider>,
    key: ArcSwap<CertifiedKey>,
}

impl Certificate {
    /// Reads it, or says what is wrong with which file.
    pub fn read(cert_file: &Path, key_file: &Path) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = certified(&provider, &Files::read(cert_file, key_file)?, cert_file, key_file)?;
        Ok(Self { cert_file: cert_file.to_owned(), key_file: key_file.to_owned(), provider, key: ArcSwap::from_pointee(key) })
    }

    async fn watch(&self, stop: CancellationToken) {
        let read = || Files::read(&self.cert_file, &self.key_file);
        let mut seen = read();
        while stop.run_until_cancelled(tokio::time::sleep(WATCH_EVERY)).await.is_some() {
            let files = read();
            if files == seen {
                continue;
            }
            let key = files.as_ref().map_err(Clone::clone).and_then(|files| certified(&self.provider, files, &self.cert_file, &self.key_file));
            match key {
                Ok(key) => {
                    tracing::info!(file = %self.cert_file.display(), "the external metrics API shows a new certificate");
                    self.key.store(Arc::new(key));
                }
                Err(error) => tracing::error!(error, "the new certificate cannot be used; the last good one stays in force"),
            }
            seen = files;
        }
    }
}

/// The two files as they are.
#[derive(PartialEq, Eq)]
struct Files {
    certificates: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn read(cert_file: &Path, key_file: &Path) -> Result<Self, String> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
        Ok(Self { certificates: read(cert_file)?, key: read(key_file)? })
    }
}

fn certified(provider: &CryptoProvider, files: &Files, cert_file: &Path, key_file: &Path) -> Result<CertifiedKey, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&files.certificates).collect::<Result<_, _>>().unwrap_or_default();
    if certificates.is_empty() {
        return Err(format!("{} holds no certificate: expected PEM", cert_file.display()));
    }
    let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|_| format!("{} holds no key: expected PEM", key_file.display()))?;
    CertifiedKey::from_der(certificates, key, provider).map_err(|error| format!("{} and {} do not fit: {error}", cert_file.display(), key_file.display()))
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.key.load_full())
    }
}

/// Takes any certificate whose key the caller has.
#[derive(Debug)]
struct AnyShown(Arc<CryptoProvider>);

impl ClientCertVerifier for AnyShown {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // none: callers show what they have
        &[]
    }

    fn verify_client_cert(&self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: UnixTime) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn acceptor(certificate: Arc<Certificate>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::clone(&certificate.provider);
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AnyShown(provider)))
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until `shutdown`, then what is in flight for at most `limits.shutdown_grace`.
pub async fn serve(listener: TcpListener, external: ExternalMetrics, certificate: Certificate, shutdown: CancellationToken, limits: Limits) {
    let certificate = Arc::new(certificate);
    let acceptor = match acceptor(Arc::clone(&certificate)) {
        Ok(acceptor) => acceptor,
        Err(error) => return tracing::error!(%error, "the external metrics API cannot be served"),
    };
    let background = async { tokio::join!(certificate.watch(shutdown.clone()), external.follow_trust(shutdown.clone())) };
    tokio::join!(background, connections(listener, &external, acceptor, shutdown.clone(), limits));
}

async fn connections(listener: TcpListener, external: &ExternalMetrics, acceptor: TlsAcceptor, shutdown: CancellationToken, limits: Limits) {
    let slots = Arc::new(tokio::sync::Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let end = CancellationToken::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout);
    let router = external.router();
    while let Some((stream, slot)) = accept(&listener, &slots, &shutdown).await {
        let (acceptor, router, http, watcher, end) = (acceptor.clone(), router.clone(), http.clone(), graceful.watcher(), end.clone());
        tokio::spawn(async move {
            let serve = async {
                let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => return tracing::debug!("a TLS handshake took too long"),
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
