//! The one guarded client that all sources ask through.
//!
//! A source is somebody else's server, and may be slow, broken, or not what it says it is. So each call has a time limit,
//! each answer a size limit, redirects are followed by hand (at most five, to the source's own host or to allowed
//! ones, never from TLS to plain text), credentials go to those hosts only, and no body or credential ever gets into an
//! error. What is not JSON is not an empty list.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use url::Url;

use crate::engine::clock;
use crate::engine::source::{FailureKind, SourceError};

/// The most redirects of one call.
const MOST_REDIRECTS: usize = 5;

/// A user and its password.
#[derive(Clone, Debug)]
pub struct BasicAuth {
    /// The user.
    pub username: String,
    /// The password.
    pub password: SecretString,
}

/// How a source is asked.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Time of one call, redirects and body included.
    pub timeout: Duration,
    /// The largest answer.
    pub max_body_bytes: usize,
    /// Hosts (`name` or `name:port`) that redirects may lead to, besides the source's own.
    pub allowed_hosts: Vec<String>,
    /// Basic authentication.
    pub basic_auth: Option<BasicAuth>,
    /// A file with a bearer token, read again for each reading, since mounted tokens are renewed.
    pub bearer_file: Option<PathBuf>,
    /// A file with further certificates of authorities, PEM.
    pub ca_file: Option<PathBuf>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            max_body_bytes: 16 * 1024 * 1024,
            allowed_hosts: Vec::new(),
            basic_auth: None,
            bearer_file: None,
            ca_file: None,
        }
    }
}

/// A client of one source. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    options: Arc<ClientOptions>,
}

impl Client {
    /// A client of the source at `base`.
    pub fn new(base: Url, options: ClientOptions) -> Result<Self, SourceError> {
        let fault = |message: String| SourceError::new(FailureKind::Unexpected, message);
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(fault(format!("{base} is no address: expected http:// or https:// and a host")));
        }
        let mut builder =
            reqwest::Client::builder().redirect(Policy::none()).no_proxy().connect_timeout(options.timeout).timeout(options.timeout).tcp_nodelay(true);
        if let Some(path) = &options.ca_file {
            let pem = std::fs::read(path).map_err(|error| SourceError::new(FailureKind::Tls, format!("{} cannot be read: {error}", path.display())))?;
            for certificate in Certificate::from_pem_bundle(&pem)
                .map_err(|_| SourceError::new(FailureKind::Tls, format!("{} holds no certificates: expected PEM", path.display())))?
            {
                builder = builder.add_root_certificate(certificate);
            }
        }
        let http = builder.build().map_err(|error| SourceError::new(FailureKind::Tls, format!("no client can be made: {}", without_url(error))))?;
        Ok(Self { http, base, options: Arc::new(options) })
    }

    /// Begins a reading: its calls are counted together.
    #[must_use]
    pub fn session(&self) -> Session {
        Session { client: self.clone(), calls: Arc::default() }
    }
}

/// The calls of one reading.
#[derive(Clone, Debug)]
pub struct Session {
    client: Client,
    calls: Arc<AtomicU32>,
}

impl Session {
    /// Calls so far, redirects included.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The JSON answer to a path with query, below the base's own path.
    pub async fn get_json<T: DeserializeOwned>(&self, path_and_query: &str) -> Result<T, SourceError> {
        json(&self.get(path_and_query).await?, path_and_query)
    }

    /// The body of a successful answer that says it is JSON, or says nothing.
    pub async fn get(&self, path_and_query: &str) -> Result<Bytes, SourceError> {
        let answer = self.ask(path_and_query).await?;
        let status = answer.status();
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            return Err(SourceError::new(
                FailureKind::Unauthorized,
                format!("HTTP {} for {path_and_query}: the credentials are missing or refused", status.as_u16()),
            ));
        }
        if !status.is_success() {
            let kind = if status == StatusCode::NOT_FOUND { FailureKind::NotFound } else { FailureKind::Status };
            let mut error = SourceError::new(kind, format!("HTTP {} for {path_and_query}", status.as_u16()));
            error.retry_after = retry_after(answer.headers());
            return Err(error);
        }
        let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let body = self.body(answer, path_and_query).await?;
        if content_type.starts_with("text/html") {
            return Err(SourceError::new(FailureKind::NotJson, format!("the answer to {path_and_query} is not JSON but {content_type}")));
        }
        Ok(body)
    }

    /// Status and body of any answer, for callers that can read errors.
    pub async fn get_with_status(&self, path_and_query: &str) -> Result<(u16, Bytes), SourceError> {
        let answer = self.ask(path_and_query).await?;
        let status = answer.status().as_u16();
        Ok((status, self.body(answer, path_and_query).await?))
    }

    /// Asks and follows redirects.
    async fn ask(&self, path_and_query: &str) -> Result<Response, SourceError> {
        let mut url = self.url(path_and_query)?;
        let mut seen = vec![url.clone()];
        loop {
            self.calls.fetch_add(1, Ordering::Relaxed);
            let mut request = self.client.http.get(url.clone()).header(ACCEPT, "application/json");
            if let Some(value) = self.credentials(&url)? {
                request = request.header(AUTHORIZATION, value);
            }
            let answer = request.send().await.map_err(transport)?;
            if !answer.status().is_redirection() || answer.status() == StatusCode::NOT_MODIFIED {
                return Ok(answer);
            }
            url = self.follow(&url, &answer)?;
            if seen.contains(&url) {
                return Err(SourceError::new(FailureKind::Redirect, format!("redirect loop at {}", place(&url))));
            }
            if seen.len() > MOST_REDIRECTS {
                return Err(SourceError::new(FailureKind::Redirect, format!("more than {MOST_REDIRECTS} redirects for {path_and_query}")));
            }
            seen.push(url.clone());
        }
    }

    fn url(&self, path_and_query: &str) -> Result<Url, SourceError> {
        let base = self.client.base.as_str().split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        Url::parse(&format!("{base}{path_and_query}"))
            .map_err(|error| SourceError::new(FailureKind::Unexpected, format!("{path_and_query} is no path: {error}")))
    }

    fn follow(&self, from: &Url, answer: &Response) -> Result<Url, SourceError> {
        let refuse = |message: String| Err(SourceError::new(FailureKind::Redirect, message));
        let Some(location) = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok()) else {
            return refuse(format!("HTTP {} without a Location", answer.status().as_u16()));
        };
        let Ok(to) = from.join(location) else { return refuse("a redirect to something that is no address".to_owned()) };
        if !matches!(to.scheme(), "http" | "https") {
            return refuse(format!("a redirect to {}: expected http or https", to.scheme()));
        }
        if from.scheme() == "https" && to.scheme() == "http" {
            return refuse(format!("a redirect from https to http at {}", place(&to)));
        }
        if !self.is_ours(&to) {
            return refuse(format!("redirect to another host: {}; list it in allowedHosts if it is one of the source's", place(&to)));
        }
        Ok(to)
    }

    /// The source's own host and port, or one that has been allowed by name.
    fn is_ours(&self, url: &Url) -> bool {
        let base = &self.client.base;
        if url.host_str() == base.host_str() && url.port_or_known_default() == base.port_or_known_default() {
            return true;
        }
        let (Some(host), port) = (url.host_str(), url.port_or_known_default()) else { return false };
        self.client.options.allowed_hosts.iter().any(|allowed| allowed == host || port.is_some_and(|port| *allowed == format!("{host}:{port}")))
    }

    fn credentials(&self, url: &Url) -> Result<Option<HeaderValue>, SourceError> {
        use base64::Engine as _;
        let options = &self.client.options;
        if !self.is_ours(url) || (self.client.base.scheme() == "https" && url.scheme() != "https") {
            return Ok(None);
        }
        let text = if let Some(path) = &options.bearer_file {
            let token = std::fs::read_to_string(path)
                .map_err(|error| SourceError::new(FailureKind::Unauthorized, format!("{} cannot be read: {error}", path.display())))?;
            format!("Bearer {}", token.trim())
        } else if let Some(auth) = &options.basic_auth {
            let pair = format!("{}:{}", auth.username, auth.password.expose_secret());
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        } else {
            return Ok(None);
        };
        let mut value =
            HeaderValue::try_from(text).map_err(|_| SourceError::new(FailureKind::Unauthorized, "the credentials hold characters that no header can carry"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Reads a body up to the limit.
    async fn body(&self, mut answer: Response, path_and_query: &str) -> Result<Bytes, SourceError> {
        let most = self.client.options.max_body_bytes;
        let too_large = || SourceError::new(FailureKind::TooLarge, format!("the answer to {path_and_query} is larger than {most} bytes"));
        if answer.content_length().is_some_and(|length| usize::try_from(length).map_or(true, |length| length > most)) {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(transport)? {
            if body.len() + chunk.len() > most {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

/// Reads JSON of a known shape; names what does not fit, never the text itself.
pub fn json<T: DeserializeOwned>(body: &[u8], what: &str) -> Result<T, SourceError> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let inner = error.inner();
        if inner.is_syntax() || inner.is_eof() {
            return SourceError::new(FailureKind::NotJson, format!("the answer to {what} is not JSON"));
        }
        SourceError::new(FailureKind::Unexpected, format!("the answer to {what} has an unexpected {} (line {})", error.path(), inner.line()))
    })
}

/// Host and port of an address: no user, no path, no query.
fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}

/// What went wrong below HTTP, in our words.
fn transport(error: reqwest::Error) -> SourceError {
    use std::error::Error as _;
    let error = without_url(error);
    let mut cause = error.source();
    let mut deepest = error.to_string();
    while let Some(inner) = cause {
        deepest = inner.to_string();
        cause = inner.source();
    }
    let words = deepest.to_lowercase();
    let kind = if error.is_timeout() {
        FailureKind::Timeout
    } else if words.contains("certificate") || words.contains("tls") || words.contains("handshake") {
        FailureKind::Tls
    } else {
        FailureKind::Unreachable
    };
    let message = if kind == FailureKind::Timeout { "no answer in time".to_owned() } else { deepest };
    SourceError::new(kind, message)
}

/// `Retry-After`, as seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Duration::try_from_secs_f64(at.duration_since(clock::now()).as_secs_f64()).ok()
}
