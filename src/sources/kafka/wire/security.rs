//! TLS and logins of connections to brokers.
//!
//! Certificates, passwords and tokens are read from their files for each connection, because they rotate. What a broker
//! says of a refused login is not repeated: it may quote what was sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::engine::source::{FailureKind, SourceError};

/// How brokers are spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Over TLS.
    pub tls: Option<Tls>,
    /// With a login.
    pub sasl: Option<Sasl>,
}

/// TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates, PEM, that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// A certificate of our own and its key, PEM, for brokers that ask for one.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// A login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sasl {
    /// `PLAIN`: user and password as they are.
    Plain(Account),
    /// `SCRAM-SHA-256`.
    ScramSha256(Account),
    /// `SCRAM-SHA-512`.
    ScramSha512(Account),
    /// `OAUTHBEARER`: a file with a token.
    OAuthBearer(PathBuf),
}

/// A user and the file of the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user.
    pub username: String,
    /// A file with the password.
    pub password_file: PathBuf,
}

impl Sasl {
    /// Its name in the protocol.
    #[must_use]
    pub const fn mechanism(&self) -> &'static str {
        match self {
            Self::Plain(_) => "PLAIN",
            Self::ScramSha256(_) => "SCRAM-SHA-256",
            Self::ScramSha512(_) => "SCRAM-SHA-512",
            Self::OAuthBearer(_) => "OAUTHBEARER",
        }
    }

    /// The password or the token, as it stands in its file now.
    pub(super) async fn secret(&self) -> Result<SecretString, SourceError> {
        let (path, what) = match self {
            Self::Plain(account) | Self::ScramSha256(account) | Self::ScramSha512(account) => (&account.password_file, "password"),
            Self::OAuthBearer(path) => (path, "token"),
        };
        let text = tokio::fs::read_to_string(path).await.map_err(|error| unusable(FailureKind::Unauthorized, what, &error))?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(SourceError::new(FailureKind::Unauthorized, format!("the {what} file is empty: expected a {what}")));
        }
        Ok(SecretString::from(text.to_owned()))
    }
}

/// The first message of `PLAIN`.
pub(super) fn plain(username: &str, password: &SecretString) -> Vec<u8> {
    format!("\0{username}\0{}", password.expose_secret()).into_bytes()
}

/// The first and only message of `OAUTHBEARER` (RFC 7628).
pub(super) fn bearer(token: &SecretString) -> Vec<u8> {
    format!("n,,\u{1}auth=Bearer {}\u{1}\u{1}", token.expose_secret()).into_bytes()
}

impl Tls {
    /// Whether its files can be used as they are now.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), SourceError> {
        self.config().map(|_| ())
    }

    /// Puts TLS onto a connection.
    pub(super) async fn secure(&self, stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, SourceError> {
        let config = self.config()?;
        let name = ServerName::try_from(host.to_owned()).map_err(|_| tls(format!("\"{host}\" is no name that a certificate can be for")))?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(refused @ rustls::Error::InvalidCertificate(_)) => tls(format!("the broker's certificate is not accepted: {refused}")),
            _ => tls("the TLS handshake failed: does this port speak TLS, and does it want a certificate of ours?".to_owned()),
        })
    }

    fn config(&self) -> Result<ClientConfig, SourceError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|_| tls("the TLS settings are not usable".to_owned()))?;
        let builder = if let Some(path) = &self.ca_file {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates(path, "CA")?);
            if roots.is_empty() {
                return Err(tls("the CA file holds no certificate: expected PEM".to_owned()));
            }
            builder.with_root_certificates(roots)
        } else {
            let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(|_| tls("the system has no certificates of authorities".to_owned()))?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        };
        match &self.client {
            None => Ok(builder.with_no_client_auth()),
            Some((certificate, key)) => {
                let chain = certificates(certificate, "certificate")?;
                let pem = std::fs::read(key).map_err(|error| unusable(FailureKind::Tls, "key", &error))?;
                let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| tls("the key file holds no key: expected PEM without a password".to_owned()))?;
                builder.with_client_auth_cert(chain, key).map_err(|_| tls("the certificate and the key do not belong together".to_owned()))
            }
        }
    }
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, SourceError> {
    let pem = std::fs::read(path).map_err(|error| unusable(FailureKind::Tls, what, &error))?;
    Ok(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect())
}

fn unusable(kind: FailureKind, what: &str, error: &std::io::Error) -> SourceError {
    SourceError::new(kind, format!("the {what} file cannot be read: {}", error.kind()))
}

fn tls(message: String) -> SourceError {
    SourceError::new(FailureKind::Tls, message)
}
