//! The guarded client against servers that misbehave in one way each.
#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use loadline::engine::source::{FailureKind, SourceError};
use loadline::sources::http::{BasicAuth, Client, ClientOptions};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use url::Url;

/// A server on a port of its own; gives `host:port`.
async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A server that counts its requests and keeps what they were authorized with.
#[derive(Clone, Default)]
struct Seen {
    requests: Arc<AtomicUsize>,
    authorized: Arc<std::sync::Mutex<Vec<Option<String>>>>,
}

impl Seen {
    fn count(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn authorized(&self) -> Vec<Option<String>> {
        self.authorized.lock().expect("not poisoned").clone()
    }

    fn router(&self) -> Router {
        async fn note(State(seen): State<Seen>, headers: HeaderMap) -> &'static str {
            seen.requests.fetch_add(1, Ordering::SeqCst);
            let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
            seen.authorized.lock().expect("not poisoned").push(value);
            "{}"
        }
        Router::new().fallback(note).with_state(self.clone())
    }
}

fn client(address: &str, options: ClientOptions) -> Client {
    Client::new(Url::parse(&format!("http://{address}")).expect("URL"), options).expect("client")
}

fn with_password(file: &NamedTempFile, allowed_hosts: Vec<String>) -> ClientOptions {
    let basic_auth = Some(BasicAuth { username: "loadline".into(), password_file: file.path().to_owned() });
    ClientOptions { basic_auth, allowed_hosts, ..ClientOptions::default() }
}

/// A file that holds a secret.
fn secret(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

fn moved(to: impl Into<String>) -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to.into())]).into_response()
}

/// What asking a server that always answers `response` fails with.
async fn failing<R: IntoResponse>(response: impl Fn() -> R + Clone + Send + Sync + 'static, options: ClientOptions) -> SourceError {
    let address = serve(Router::new().fallback(move || std::future::ready(response().into_response()))).await;
    client(&address, options).session().get_json::<Value>("/x").await.expect_err("a failure")
}

#[tokio::test]
async fn a_chain_of_twenty_redirects_is_left_after_five() {
    let router = Router::new().route("/{n}", get(|Path(n): Path<u32>| async move { if n < 20 { moved(format!("/{}", n + 1)) } else { "{}".into_response() } }));
    let client = client(&serve(router).await, ClientOptions::default());
    let session = client.session();
    let error = session.get("/0").await.err().expect("refused");
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Redirect, "more than 5 redirects (/0)"));
    assert_eq!(session.calls(), 6);
    let session = client.session();
    session.get("/15").await.expect("five redirects are followed");
    assert_eq!(session.calls(), 6);
}

#[tokio::test]
async fn a_redirect_to_where_it_came_from_is_a_loop() {
    let router = Router::new().route("/a", get(|| async { moved("/b") })).route("/b", get(|| async { moved("/a#again") }));
    let client = client(&serve(router).await, ClientOptions::default());
    let session = client.session();
    let error = session.get("/a").await.err().expect("refused");
    assert_eq!((error.kind, error.message.as_str(), session.calls()), (FailureKind::Redirect, "redirect loop (/a)", 2));
}

#[tokio::test]
async fn another_host_never_sees_a_request() {
    let other = Seen::default();
    let port = serve(other.router()).await.rsplit_once(':').expect("a port").1.to_owned();
    let password = secret("hunter2");
    let error = failing(move || moved(format!("http://user:secret@localhost:{port}/steal?token=1")), with_password(&password, vec![])).await;
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Redirect, "redirect to another host: localhost (/x)"));
    assert_eq!(other.count(), 0);
    assert_eq!(failing(|| moved("file:///etc/passwd"), ClientOptions::default()).await.kind, FailureKind::Redirect);
}

#[tokio::test]
async fn credentials_go_to_the_server_and_to_listed_hosts_only() {
    let other = Seen::default();
    let (target, password) = (serve(other.router()).await, secret("hunter2"));
    for (allowed, expected) in [(vec![], false), (vec![target.clone()], true), (vec!["127.0.0.1".to_owned()], true)] {
        let to = format!("http://{target}/");
        let address = serve(Router::new().fallback(move || std::future::ready(moved(to.clone())))).await;
        client(&address, with_password(&password, allowed)).session().get("/").await.expect("another port of the same host is followed");
        assert_eq!(other.authorized().pop().expect("asked").is_some(), expected);
    }
    let own = Seen::default();
    client(&serve(own.router()).await, with_password(&password, vec![])).session().get("/").await.expect("ok");
    assert_eq!(own.authorized(), [Some("Basic bG9hZGxpbmU6aHVudGVyMg==".to_owned())]);
}

#[tokio::test]
async fn a_bearer_token_is_read_again_for_each_session() {
    let seen = Seen::default();
    let address = serve(seen.router()).await;
    let file = NamedTempFile::new().expect("a file");
    let client = client(&address, ClientOptions { bearer_file: Some(file.path().to_owned()), ..ClientOptions::default() });
    for token in ["one\n", "two\n"] {
        std::fs::write(file.path(), token).expect("written");
        client.session().get("/").await.expect("ok");
    }
    assert_eq!(seen.authorized(), [Some("Bearer one".to_owned()), Some("Bearer two".to_owned())]);
    file.close().expect("removed");
    let error = client.session().get("/").await.err().expect("no token");
    assert_eq!((error.kind, seen.count()), (FailureKind::Unauthorized, 2), "without its token nothing is sent");
}

#[tokio::test]
async fn a_password_that_was_changed_is_used_from_the_next_session_on() {
    let seen = Seen::default();
    let (address, password) = (serve(seen.router()).await, secret("one\n"));
    let client = client(&address, with_password(&password, vec![]));
    client.session().get("/").await.expect("ok");
    std::fs::write(password.path(), "two\n").expect("written");
    client.session().get("/").await.expect("ok");
    let expected = ["bG9hZGxpbmU6b25l", "bG9hZGxpbmU6dHdv"].map(|text| Some(format!("Basic {text}")));
    assert_eq!(seen.authorized(), expected);
    password.close().expect("removed");
    let error = client.session().get("/").await.err().expect("no password");
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Unauthorized, "the password file cannot be read: entity not found (/)"));
    assert_eq!(seen.count(), 2, "without its password nothing is sent");
}

#[tokio::test]
async fn no_more_questions_are_on_their_way_than_allowed_and_waiting_costs_no_time_of_the_server() {
    #[derive(Clone, Default)]
    struct Busy(Arc<AtomicUsize>, Arc<AtomicUsize>);
    async fn slow(State(Busy(now, most)): State<Busy>) -> &'static str {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
        now.fetch_sub(1, Ordering::SeqCst);
        "{}"
    }
    let busy = Busy::default();
    let address = serve(Router::new().fallback(slow).with_state(busy.clone())).await;
    let client = client(&address, ClientOptions { at_a_time: 3, timeout: Duration::from_millis(1500), ..ClientOptions::default() });
    let other = client.with_timeout(Duration::from_millis(1600));
    let asked = (0..18).map(|n| if n % 2 == 0 { client.session() } else { other.session() });
    let answers = futures_util::future::join_all(asked.map(|session| async move { session.get("/").await.map(|answer| answer.status) })).await;
    assert!(answers.iter().all(Result::is_ok), "six rounds of 300 ms, each question with 1.5 s of its own: {answers:?}");
    assert_eq!(busy.1.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_login_page_is_not_json_and_none_of_it_is_repeated() {
    let error = failing(|| axum::response::Html("<html>secret</html>"), ClientOptions::default()).await;
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::NotJson, "not JSON: content type text/html (/x)"));
}

#[tokio::test]
async fn a_status_without_success_is_named_with_the_wait_that_was_asked_for() {
    let error = failing(|| (StatusCode::INTERNAL_SERVER_ERROR, "secret"), ClientOptions::default()).await;
    assert_eq!((error.kind, error.message.as_str(), error.retry_after), (FailureKind::Status, "HTTP 500 (/x)", None));
    let error = failing(|| (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "7")]), ClientOptions::default()).await;
    assert_eq!((error.kind, error.retry_after), (FailureKind::Status, Some(Duration::from_secs(7))));
    for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
        assert_eq!(failing(move || status, ClientOptions::default()).await.kind, FailureKind::Unauthorized);
    }
}

#[tokio::test]
async fn a_body_beyond_the_cap_is_refused_whether_its_length_is_announced_or_not() {
    let options = || ClientOptions { max_body_bytes: 1000, ..ClientOptions::default() };
    let announced = failing(|| "1".repeat(1001), options()).await;
    let streamed = failing(|| axum::body::Body::from_stream(futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>("1".repeat(100)))), options()).await;
    assert_eq!((announced.kind, streamed.kind), (FailureKind::TooLarge, FailureKind::TooLarge));
    assert_eq!(failing(|| (StatusCode::BAD_GATEWAY, "1".repeat(5000)), options()).await.kind, FailureKind::Status, "the status matters more");
}

#[tokio::test]
async fn a_body_that_never_ends_runs_out_of_time() {
    let drip = || {
        axum::body::Body::from_stream(futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::io::Error>(" "), ()))
        }))
    };
    let error = failing(drip, ClientOptions { timeout: Duration::from_millis(200), ..ClientOptions::default() }).await;
    assert_eq!(error.kind, FailureKind::Timeout);
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_unreachable_and_a_server_without_tls_is_no_https() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    drop(listener);
    let error = client(&address, ClientOptions::default()).session().get("/").await.err().expect("refused");
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Unreachable, "connection refused (/)"));

    let plain = serve(Seen::default().router()).await;
    let client = Client::new(Url::parse(&format!("https://{plain}")).expect("URL"), ClientOptions::default()).expect("client");
    assert_eq!(client.session().get("/").await.err().expect("refused").kind, FailureKind::Tls);
}

#[tokio::test]
async fn paths_go_below_the_path_of_the_base_with_their_query() {
    let echo = Router::new().fallback(|uri: Uri| async move { uri.to_string() });
    let address = serve(echo).await;
    for base in ["proxy", "proxy/"] {
        let client = client(&format!("{address}/{base}"), ClientOptions::default());
        let (status, body) = client.session().get_with_status("/a%2Fb/c?full&x=1").await.expect("answer");
        assert_eq!((status, body.as_ref()), (200, b"/proxy/a%2Fb/c?full&x=1".as_slice()));
    }
}

#[test]
fn options_show_no_secret_and_an_address_with_a_password_is_refused() {
    let error = Client::new(Url::parse("http://user:hunter2@localhost").expect("URL"), ClientOptions::default()).err().expect("refused");
    assert!(!error.to_string().contains("hunter2"));
}
