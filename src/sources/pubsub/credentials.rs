//! Access tokens of Google Cloud: a service account's key, a federated identity, a user's own, or the metadata server, by
//! Google's own library, which keeps a token until it is about to end.
//!
//! What is read (a file, the environment) is read when the first token is asked for, and again after a failure, since keys
//! rotate. Nothing of an answer or of a key is in an error. Source: application default credentials, AIP-4110.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use google_cloud_auth::credentials::{AccessTokenCredentials, Builder, external_account, service_account, user_account};
use http::HeaderValue;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::engine::source::{FailureKind, SourceError};

/// What the tokens are for: reading metrics, nothing else.
const SCOPE: &str = "https://www.googleapis.com/auth/monitoring.read";
/// Kinds of files that are known.
const KINDS: &str = "service_account, external_account or authorized_user";

/// Where tokens come from.
#[derive(Clone)]
pub struct Credentials {
    file: Option<PathBuf>,
    timeout: Duration,
    made: Arc<Mutex<Option<AccessTokenCredentials>>>,
}

impl Credentials {
    /// From a file, or by the rules of application default credentials where there is none. A token has to be had within
    /// `timeout`.
    #[must_use]
    pub fn new(file: Option<PathBuf>, timeout: Duration) -> Self {
        Self { file, timeout, made: Arc::default() }
    }

    /// The header with a token.
    pub async fn bearer(&self) -> Result<HeaderValue, SourceError> {
        let mut made = self.made.lock().await;
        let credentials = match &*made {
            Some(credentials) => credentials.clone(),
            None => made.insert(build(self.file.as_deref())?).clone(),
        };
        drop(made);
        let asked = tokio::time::timeout(self.timeout, credentials.access_token()).await;
        let token = match asked {
            Ok(Ok(token)) => token.token,
            Ok(Err(error)) => {
                *self.made.lock().await = None;
                let what = if error.is_transient() { "no access token: the token server does not answer as it should" } else { "no access token" };
                return Err(SourceError::new(FailureKind::Unauthorized, format!("{what}: expected {}", self.expected())));
            }
            Err(_) => {
                let what = format!("no access token within {:?}: expected {}", self.timeout, self.expected());
                return Err(SourceError::new(FailureKind::Timeout, what));
            }
        };
        let mut value =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| SourceError::new(FailureKind::Unauthorized, "the access token is no header"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    fn expected(&self) -> String {
        match &self.file {
            Some(_) => "credentialsFile to be accepted".to_owned(),
            None => "application default credentials: GOOGLE_APPLICATION_CREDENTIALS, gcloud's own file, or a metadata server".to_owned(),
        }
    }
}

fn build(file: Option<&Path>) -> Result<AccessTokenCredentials, SourceError> {
    let refused = |what: String| SourceError::new(FailureKind::Unauthorized, what);
    let Some(path) = file else {
        let built = Builder::default().with_scopes([SCOPE]).build_access_token_credentials();
        return built.map_err(|_| refused("the application default credentials are not usable".to_owned()));
    };
    let (kind, json) = read(path).map_err(refused)?;
    let scopes = service_account::AccessSpecifier::from_scopes([SCOPE]);
    let built = match kind {
        Kind::ServiceAccount => service_account::Builder::new(json).with_access_specifier(scopes).build_access_token_credentials(),
        Kind::ExternalAccount => external_account::Builder::new(json).with_scopes([SCOPE]).build_access_token_credentials(),
        Kind::AuthorizedUser => user_account::Builder::new(json).with_scopes([SCOPE]).build_access_token_credentials(),
    };
    built.map_err(|_| refused("the credentials file misses something, or its key is none".to_owned()))
}

#[derive(Clone, Copy)]
enum Kind {
    ServiceAccount,
    ExternalAccount,
    AuthorizedUser,
}

fn read(path: &Path) -> Result<(Kind, Value), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("the credentials file cannot be read: {}", error.kind()))?;
    let json: Value = serde_json::from_str(&text).map_err(|_| "the credentials file is not JSON".to_owned())?;
    let kind = match json.get("type").and_then(Value::as_str) {
        Some("service_account") => Kind::ServiceAccount,
        Some("external_account") => Kind::ExternalAccount,
        Some("authorized_user") => Kind::AuthorizedUser,
        _ => return Err(format!("the credentials file has a type that is not known: expected {KINDS}")),
    };
    Ok((kind, json))
}

/// Whether a file can hold credentials; it is read again for tokens.
pub fn check_file(path: &Path) -> Result<(), String> {
    read(path).map(|_| ())
}
