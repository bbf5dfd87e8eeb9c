//! TLS of the interfaces: a certificate that can be replaced while it is shown, and what is asked of callers.
//!
//! The files are looked at every few seconds, as the issuers of a cluster replace them in place, and a mounted Secret is
//! swapped by a symbolic link that a watch on the file would miss. All of them are read, and only if they fit together do they
//! take effect, for connections from then on; what cannot be used changes nothing and is logged once. TLS 1.2 and 1.3.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether the files have changed.
const WATCH_EVERY: Duration = Duration::from_secs(5);
/// A handshake takes no longer.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What is asked of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Nothing.
    Anyone,
    /// Any certificate, or none; only that they have its key is proved. Whom it makes them is judged later.
    Shown,
    /// A certificate of the authorities in this file, PEM.
    Of(PathBuf),
}

/// Which files, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What is served behind it, for the log.
    pub what: &'static str,
    /// A file with the certificate, those between it and its authority after it, PEM.
    pub cert_file: PathBuf,
    /// A file with its key, PEM.
    pub key_file: PathBuf,
    /// What is asked of callers.
    pub callers: Callers,
    /// The protocol that is spoken, as ALPN names it.
    pub protocol: &'static [u8],
}

/// TLS as it is in force.
pub struct Tls {
    setting: Setting,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the files, or says what is wrong with which of them.
    pub fn read(setting: Setting) -> Result<Self, String> {
        let config = Files::read(&setting)?.config(&setting)?;
        Ok(Self { setting, config: ArcSwap::new(config) })
    }

    /// Takes a connection: the handshake, in bounded time.
    pub async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(self.config.load_full()).accept(stream)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(format!("a TLS handshake failed: {error}")),
            Err(_) => Err("a TLS handshake took too long".to_owned()),
        }
    }

    /// Follows the files until `shutdown`.
    pub async fn watch(&self, shutdown: CancellationToken) {
        let what = self.setting.what;
        let mut seen = Files::read(&self.setting);
        while shutdown.run_until_cancelled(tokio::time::sleep(WATCH_EVERY)).await.is_some() {
            let files = Files::read(&self.setting);
            if files == seen {
                continue;
            }
            match files.clone().and_then(|files| files.config(&self.setting)) {
                Ok(config) => {
                    tracing::info!(file = %self.setting.cert_file.display(), "{what} shows a new certificate");
                    self.config.store(config);
                }
                Err(error) => tracing::error!(error, "the new certificate of {what} cannot be used; the last good one stays in force"),
            }
            seen = files;
        }
    }
}

/// The files as they are.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificates: Vec<u8>,
    key: Vec<u8>,
    authorities: Vec<u8>,
}

impl Files {
    fn read(setting: &Setting) -> Result<Self, String> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
        let authorities = if let Callers::Of(path) = &setting.callers { read(path)? } else { Vec::new() };
        Ok(Self { certificates: read(&setting.cert_file)?, key: read(&setting.key_file)?, authorities })
    }

    fn config(&self, setting: &Setting) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let (cert_file, key_file) = (setting.cert_file.display(), setting.key_file.display());
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| format!("{key_file} holds no key: expected PEM"))?;
        let key = CertifiedKey::from_der(certificates(&self.certificates, &setting.cert_file)?, key, &provider)
            .map_err(|error| format!("{cert_file} and {key_file} do not fit: {error}"))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let builder = match &setting.callers {
            Callers::Anyone => builder.with_no_client_auth(),
            Callers::Shown => builder.with_client_cert_verifier(Arc::new(AnyShown(provider))),
            Callers::Of(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(&self.authorities, path)? {
                    roots.add(certificate).map_err(|error| format!("{} holds a certificate that is none of an authority: {error}", path.display()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| format!("{}: {error}", path.display()))?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.alpn_protocols = vec![setting.protocol.to_vec()];
        Ok(Arc::new(config))
    }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap_or_default();
    if certificates.is_empty() { Err(format!("{} holds no certificate: expected PEM", path.display())) } else { Ok(certificates) }
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
