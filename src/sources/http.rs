//! The one HTTP client of the sources, with a guard for everything that a server can do wrong: it follows few redirects
//! and only to known hosts, reads a bounded body in a bounded time, shows credentials to nobody else, and reports
//! failures without a word of what was received.
//!
//! Redirects are followed at all because an Overlord that is not the leader answers 307 with the leader's address. The
//! client library's own redirects are off: they are decided here. So are the system's proxy settings.

mod answer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, header};
use serde::de::DeserializeOwned;
use tokio::sync::{OnceCell, Semaphore};
use url::Url;

use crate::engine::source::{FailureKind, SourceError};

pub use answer::{Answer, read_json};

/// Redirects that one question may take.
const MAX_REDIRECTS: usize = 5;

/// A user name and the file of its password.
#[derive(Clone, Debug)]
pub struct BasicAuth {
    /// The user name.
    pub username: String,
    /// A file with the password, read again for each session because passwords rotate.
    pub password_file: PathBuf,
}

/// How a server is asked.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The time for one question, its redirects and its whole body included.
    pub timeout: Duration,
    /// The largest body that is read.
    pub max_body_bytes: usize,
    /// Hosts, as `host` or `host:port`, that a redirect may lead to beside the server's own. They are trusted with
    /// the credentials.
    pub allowed_hosts: Vec<String>,
    /// Sent unless there is a bearer file.
    pub basic_auth: Option<BasicAuth>,
    /// A file with a bearer token, read again for each session because tokens rotate.
    pub bearer_file: Option<PathBuf>,
    /// A file of PEM certificates that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Questions on their way at a time, over all sessions; others wait their turn, which does not count as the
    /// server's time.
    pub at_a_time: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            max_body_bytes: 16 << 20,
            allowed_hosts: Vec::new(),
            basic_auth: None,
            bearer_file: None,
            ca_file: None,
            at_a_time: 64,
        }
    }
}

/// A guarded client of one server.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: reqwest::Client,
    base: Url,
    options: ClientOptions,
    turns: Arc<Semaphore>,
}

impl Client {
    /// A client of the server at `base`, whose path is a prefix of everything that is asked.
    pub fn new(base: Url, options: ClientOptions) -> Result<Self, SourceError> {
        let unusable = |what: &str| SourceError::new(FailureKind::Unexpected, what);
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(unusable("the address of the server is not usable: expected http://host or https://host"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(unusable("the address of the server carries a user name or a password: expected them apart from it"));
        }
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .user_agent(concat!("loadline/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &options.ca_file {
            builder = builder.tls_certs_only(certificates(path)?);
        }
        let http = builder.build().map_err(|_| SourceError::new(FailureKind::Tls, "the TLS settings are not usable"))?;
        let turns = Arc::new(Semaphore::new(options.at_a_time.max(1)));
        Ok(Self { inner: Arc::new(Inner { http, base, options, turns }) })
    }

    /// The same client with another time for one question; both share connections and the questions at a time.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        let Inner { http, base, options, turns } = &*self.inner;
        let options = ClientOptions { timeout, ..options.clone() };
        Self { inner: Arc::new(Inner { http: http.clone(), base: base.clone(), options, turns: Arc::clone(turns) }) }
    }

    /// A session: the questions of one reading.
    #[must_use]
    pub fn session(&self) -> Session {
        Session { inner: Arc::clone(&self.inner), calls: AtomicU32::new(0), credentials: OnceCell::new() }
    }

    /// A session with credentials of its own, a token for example that ends.
    #[must_use]
    pub fn session_with(&self, credentials: HeaderValue) -> Session {
        Session { inner: Arc::clone(&self.inner), calls: AtomicU32::new(0), credentials: OnceCell::new_with(Some(Some(credentials))) }
    }
}

fn certificates(path: &Path) -> Result<Vec<reqwest::Certificate>, SourceError> {
    let pem = std::fs::read(path).map_err(|error| SourceError::new(FailureKind::Tls, format!("the CA file cannot be read: {}", error.kind())))?;
    let list = reqwest::Certificate::from_pem_bundle(&pem).unwrap_or_default();
    if list.is_empty() {
        return Err(SourceError::new(FailureKind::Tls, "the CA file holds no certificate: expected PEM"));
    }
    Ok(list)
}

/// What is sent along.
#[derive(Clone)]
struct Body {
    bytes: Bytes,
    content_type: &'static str,
}

/// The questions of one reading, counted.
pub struct Session {
    inner: Arc<Inner>,
    calls: AtomicU32,
    credentials: OnceCell<Option<HeaderValue>>,
}

impl Session {
    /// Asks, and takes only a success.
    pub async fn get(&self, path_and_query: &str) -> Result<Answer, SourceError> {
        self.ask(path_and_query).await?.success()
    }

    /// Asks for JSON of a known shape.
    pub async fn get_json<T: DeserializeOwned>(&self, path_and_query: &str) -> Result<T, SourceError> {
        self.get(path_and_query).await?.json()
    }

    /// Asks, and gives any status with its body, for callers that read errors.
    pub async fn get_with_status(&self, path_and_query: &str) -> Result<(u16, Bytes), SourceError> {
        let answer = self.ask(path_and_query).await?;
        Ok((answer.status, answer.bytes))
    }

    /// Asks, and gives the answer whatever its status. Errors, and those of reading the answer, name the path.
    pub async fn ask(&self, path_and_query: &str) -> Result<Answer, SourceError> {
        self.call(Method::GET, path_and_query, None).await
    }

    /// Asks with a form, for questions that are too long for an address, and gives the answer whatever its status.
    /// Redirects are followed as those of [`submit`](Self::submit).
    pub async fn ask_with_form(&self, path: &str, form: &[(&str, &str)]) -> Result<Answer, SourceError> {
        let text = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.call(Method::POST, path, Some(Body { bytes: Bytes::from(text), content_type: "application/x-www-form-urlencoded" })).await
    }

    /// Sends something that changes the server, and gives the answer whatever its status. Redirects that keep method and
    /// body (307, 308) are followed like those of a question; others are refused, as they would turn it into one.
    pub async fn submit(&self, method: Method, path: &str, body: Option<&serde_json::Value>) -> Result<Answer, SourceError> {
        self.call(method, path, body.map(|body| Body { bytes: Bytes::from(body.to_string()), content_type: "application/json" })).await
    }

    async fn call(&self, method: Method, path_and_query: &str, body: Option<Body>) -> Result<Answer, SourceError> {
        let limit = self.inner.options.timeout;
        // the semaphore is never closed
        let _turn = self.inner.turns.acquire().await.ok();
        let path = path_and_query.split('?').next().unwrap_or_default();
        tokio::time::timeout(limit, self.follow(method, self.inner.url(path_and_query), body))
            .await
            .unwrap_or_else(|_| Err(SourceError::new(FailureKind::Timeout, format!("no complete answer within {limit:?}"))))
            .map(|answer| Answer { path: path.to_owned(), ..answer })
            .map_err(|error| error.at(path))
    }

    /// Requests sent so far, redirects included.
    #[must_use]
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    async fn follow(&self, method: Method, mut url: Url, body: Option<Body>) -> Result<Answer, SourceError> {
        let mut seen = HashSet::new();
        loop {
            seen.insert(url.clone());
            let response = self.send(&method, &url, body.clone()).await?;
            let status = response.status().as_u16();
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return self.receive(response).await;
            }
            let refused = |why: String| SourceError::new(FailureKind::Redirect, why);
            if method != Method::GET && !matches!(status, 307 | 308) {
                return Err(refused(format!("redirect {status} of a {method}: expected 307 or 308, which keep it one")));
            }
            let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            let mut next = next.ok_or_else(|| refused("redirect without a usable location".to_owned()))?;
            self.inner.may_follow(&url, &next).map_err(refused)?;
            // what the server put there is no credential of ours, and a fragment is not sent
            next.set_fragment(None);
            let _ = next.set_username("").and_then(|()| next.set_password(None));
            if seen.contains(&next) {
                return Err(refused("redirect loop".to_owned()));
            }
            if seen.len() > MAX_REDIRECTS {
                return Err(refused(format!("more than {MAX_REDIRECTS} redirects")));
            }
            url = next;
        }
    }

    async fn send(&self, method: &Method, url: &Url, body: Option<Body>) -> Result<reqwest::Response, SourceError> {
        let mut request = self.inner.http.request(method.clone(), url.clone()).header(header::ACCEPT, "application/json");
        if let Some(Body { bytes, content_type }) = body {
            request = request.header(header::CONTENT_TYPE, content_type).body(bytes);
        }
        if self.inner.trusts(url)
            && let Some(credentials) = self.credentials.get_or_try_init(|| self.inner.credentials()).await?
        {
            request = request.header(header::AUTHORIZATION, credentials.clone());
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        request.send().await.map_err(|error| failure(&error))
    }

    /// Reads the body up to the cap. A larger body of an error is cut: its status is what matters.
    async fn receive(&self, mut response: reqwest::Response) -> Result<Answer, SourceError> {
        let cap = self.inner.options.max_body_bytes;
        let status = response.status();
        let too_large = || SourceError::new(FailureKind::TooLarge, format!("the answer is larger than {cap} bytes"));
        if status.is_success() && response.content_length().is_some_and(|length| usize::try_from(length).map_or(true, |length| length > cap)) {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error))? {
            if body.len().saturating_add(chunk.len()) > cap {
                if status.is_success() {
                    return Err(too_large());
                }
                break;
            }
            body.extend_from_slice(&chunk);
        }
        let headers = response.headers();
        let (content_type, retry_after) = (answer::content_type(headers), answer::retry_after(status, headers));
        Ok(Answer { status: status.as_u16(), bytes: body.freeze(), path: String::new(), content_type, retry_after })
    }
}

impl Inner {
    /// The base with its path before `path_and_query`.
    fn url(&self, path_and_query: &str) -> Url {
        let (path, query) = path_and_query.split_once('?').map_or((path_and_query, None), |(path, query)| (path, Some(query)));
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{}", self.base.path().trim_end_matches('/'), path.trim_start_matches('/')));
        url.set_query(query);
        url.set_fragment(None);
        url
    }

    fn may_follow(&self, from: &Url, to: &Url) -> Result<(), String> {
        let Some(host) = to.host_str().filter(|_| matches!(to.scheme(), "http" | "https")) else {
            return Err("redirect to something that is not HTTP".to_owned());
        };
        if to.host() != self.base.host() && !self.lists(to) {
            return Err(format!("redirect to another host: {host}"));
        }
        if from.scheme() == "https" && to.scheme() != "https" {
            return Err("redirect from https to http".to_owned());
        }
        Ok(())
    }

    /// Whether it may see the credentials: the server itself, or a host that was listed. Another port of the same host
    /// may be another party's.
    fn trusts(&self, url: &Url) -> bool {
        self.lists(url) || (url.host() == self.base.host() && url.port_or_known_default() == self.base.port_or_known_default())
    }

    fn lists(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let with_port = url.port_or_known_default().map(|port| format!("{host}:{port}"));
        let is = |entry: &String| entry.eq_ignore_ascii_case(host) || with_port.as_ref().is_some_and(|name| entry.eq_ignore_ascii_case(name));
        self.options.allowed_hosts.iter().any(is)
    }

    async fn credentials(&self) -> Result<Option<HeaderValue>, SourceError> {
        let unusable = |what: &str| SourceError::new(FailureKind::Unauthorized, what);
        let text = if let Some(path) = &self.options.bearer_file {
            let read = tokio::fs::read_to_string(path).await;
            let token = read.map_err(|error| unusable(&format!("the token file cannot be read: {}", error.kind())))?;
            format!("Bearer {}", token.trim())
        } else if let Some(BasicAuth { username, password_file }) = &self.options.basic_auth {
            let read = tokio::fs::read_to_string(password_file).await;
            let password = read.map_err(|error| unusable(&format!("the password file cannot be read: {}", error.kind())))?;
            format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{}", password.trim_end_matches(['\r', '\n']))))
        } else {
            return Ok(None);
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| unusable("the token file holds no token: expected one line"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// What a failed request was, in words of our own: the library's may carry the address.
fn failure(error: &reqwest::Error) -> SourceError {
    if error.is_timeout() {
        return SourceError::new(FailureKind::Timeout, "no answer in time");
    }
    let io = io_kinds(error);
    // the TLS library reports all it refuses as invalid data; a server that hangs up in the handshake as an early end
    let handshake = io.contains(&std::io::ErrorKind::InvalidData) || io.contains(&std::io::ErrorKind::UnexpectedEof);
    if error.is_connect() && handshake {
        return SourceError::new(FailureKind::Tls, "the TLS handshake failed: the certificate or the protocol is not accepted");
    }
    let message = match io.last() {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused",
        Some(std::io::ErrorKind::ConnectionReset) => "connection reset",
        _ if error.is_connect() => "no connection: the host is not known or does not answer",
        _ => "the connection broke before the answer was complete",
    };
    SourceError::new(FailureKind::Unreachable, message)
}

/// The kinds of the I/O errors under an error, the outermost first.
fn io_kinds(error: &reqwest::Error) -> Vec<std::io::ErrorKind> {
    let mut kinds = Vec::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        cause = match error.downcast_ref::<std::io::Error>() {
            Some(io) => {
                kinds.push(io.kind());
                // its `source` is the source of what it wraps, which would pass over one that is wrapped twice
                io.get_ref().map(|wrapped| -> &(dyn std::error::Error + 'static) { wrapped })
            }
            None => error.source(),
        };
    }
    kinds
}
