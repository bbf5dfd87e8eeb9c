//! The guarded client against servers that misbehave in every way we know of.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use loadline::engine::source::{FailureKind, SourceError};
use loadline::sources::http::{BasicAuth, Client, ClientOptions};
use secrecy::SecretString;
use serde_json::Value;
use tokio::net::TcpListener;

const PASSWORD: &str = "marked-secret-9f3a";

async fn start(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn options() -> ClientOptions {
    ClientOptions {
        timeout: Duration::from_millis(800),
        max_body_bytes: 64 * 1024,
        basic_auth: Some(BasicAuth { username: "loadline".to_owned(), password: SecretString::from(PASSWORD) }),
        ..ClientOptions::default()
    }
}

fn client(address: SocketAddr, options: ClientOptions) -> Client {
    Client::new(format!("http://{address}").parse().expect("an address"), options).expect("a client")
}

/// The error of one call; it must never carry a credential.
async fn error(client: &Client, path: &str) -> SourceError {
    let error = client.session().get_json::<Value>(path).await.expect_err("an error");
    let text = format!("{error} {error:?} {client:?}");
    assert!(!text.contains(PASSWORD), "{text}");
    error
}

#[tokio::test]
async fn a_redirect_to_itself_ends_after_a_few_hops_as_a_loop() {
    let asked = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&asked);
    let address = start(Router::new().route(
        "/workers",
        get(move || async move {
            seen.fetch_add(1, Ordering::Relaxed);
            Redirect::temporary("/workers")
        }),
    ))
    .await;
    let error = error(&client(address, options()), "/workers").await;
    assert_eq!(error.kind, FailureKind::Redirect);
    assert!(error.message.contains("redirect loop"), "{error}");
    assert!(asked.load(Ordering::Relaxed) <= 5);
}

#[tokio::test]
async fn an_endless_chain_of_redirects_ends_after_five() {
    let address = start(Router::new().fallback(|request: Request| async move { Redirect::temporary(&format!("{}x", request.uri().path())) })).await;
    let error = error(&client(address, options()), "/a").await;
    assert_eq!(error.kind, FailureKind::Redirect);
    assert!(error.message.contains("more than 5 redirects"), "{error}");
}

/// A server that notes what reaches it.
async fn noting() -> (SocketAddr, Arc<Mutex<Vec<HeaderMap>>>) {
    let notes: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
    let into = Arc::clone(&notes);
    let router = Router::new().fallback(move |headers: HeaderMap| {
        let into = Arc::clone(&into);
        async move {
            into.lock().expect("no panic").push(headers);
            axum::Json(serde_json::json!([]))
        }
    });
    (start(router).await, notes)
}

#[tokio::test]
async fn another_host_is_never_asked_and_never_gets_a_credential() {
    let (elsewhere, notes) = noting().await;
    let address = start(Router::new().fallback(move || async move { Redirect::temporary(&format!("http://{elsewhere}/stats")) })).await;
    let error = error(&client(address, options()), "/stats").await;
    assert_eq!(error.kind, FailureKind::Redirect);
    assert!(error.message.contains("redirect to another host"), "{error}");
    assert!(notes.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn an_allowed_host_is_followed_with_the_credentials() {
    let (leader, notes) = noting().await;
    let address = start(Router::new().fallback(move || async move { Redirect::temporary(&format!("http://{leader}/workers")) })).await;
    let options = ClientOptions { allowed_hosts: vec![leader.to_string()], ..options() };
    let session = client(address, options).session();
    session.get_json::<Value>("/workers").await.expect("an answer of the leader");
    assert_eq!(session.calls(), 2, "a redirect is a call");
    let notes = notes.lock().expect("no panic");
    assert!(notes.iter().any(|headers| headers.contains_key(header::AUTHORIZATION)));
}

#[tokio::test]
async fn a_page_of_html_is_no_empty_list() {
    let address =
        start(Router::new().fallback(|| async { ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], "<html>please log in marked-body</html>") })).await;
    let error = error(&client(address, options()), "/pendingTasks").await;
    assert_eq!(error.kind, FailureKind::NotJson);
    assert!(error.message.contains("not JSON") && !error.message.contains("marked-body"), "{error}");
}

#[tokio::test]
async fn text_that_only_claims_to_be_json_is_refused_without_being_quoted() {
    let address = start(Router::new().fallback(|| async { ([(header::CONTENT_TYPE, "application/json")], "marked-body: oops") })).await;
    let error = error(&client(address, options()), "/pendingTasks").await;
    assert_eq!(error.kind, FailureKind::NotJson);
    assert!(!error.message.contains("marked-body"), "{error}");
}

#[tokio::test]
async fn json_of_another_shape_names_the_field() {
    #[derive(Debug, serde::Deserialize)]
    struct Line {
        #[expect(dead_code, reason = "only its type matters")]
        id: String,
    }
    let address = start(Router::new().fallback(|| async { axum::Json(serde_json::json!([{ "id": 5 }])) })).await;
    let error = client(address, options()).session().get_json::<Vec<Line>>("/tasks").await.expect_err("another shape");
    assert_eq!(error.kind, FailureKind::Unexpected);
    assert!(error.message.contains("[0].id"), "{error}");
}

#[tokio::test]
async fn statuses_say_what_they_are() {
    let answer = |request: Request| async move {
        let after = |status, value: &'static str| -> Response { (status, [(header::RETRY_AFTER, value)], "marked-body").into_response() };
        match request.uri().path() {
            "/500" => (StatusCode::INTERNAL_SERVER_ERROR, "stack trace marked-body").into_response(),
            "/401" => StatusCode::UNAUTHORIZED.into_response(),
            "/503" => after(StatusCode::SERVICE_UNAVAILABLE, "120"),
            _ => after(StatusCode::TOO_MANY_REQUESTS, "Fri, 31 Dec 2100 23:59:59 GMT"),
        }
    };
    let client = client(start(Router::new().fallback(answer)).await, options());
    let plain = error(&client, "/500").await;
    assert_eq!((plain.kind, plain.retry_after), (FailureKind::Status, None));
    assert!(plain.message.contains("HTTP 500") && !plain.message.contains("marked-body"), "{plain}");
    assert_eq!(error(&client, "/401").await.kind, FailureKind::Unauthorized);
    assert_eq!(error(&client, "/503").await.retry_after, Some(Duration::from_secs(120)));
    assert!(error(&client, "/429").await.retry_after > Some(Duration::from_secs(3600)), "a date counts as well");
}

#[tokio::test]
async fn answers_are_bounded_in_size_whether_they_say_so_or_not() {
    let large = || async { vec![b' '; 200 * 1024] };
    let streamed = || async {
        let chunks = futures_util::stream::iter((0..100).map(|_| Ok::<_, std::convert::Infallible>(vec![b' '; 4096])));
        Body::from_stream(chunks).into_response()
    };
    let client = client(start(Router::new().route("/large", get(large)).route("/streamed", get(streamed))).await, options());
    assert_eq!(error(&client, "/large").await.kind, FailureKind::TooLarge);
    assert_eq!(error(&client, "/streamed").await.kind, FailureKind::TooLarge);
}

#[tokio::test]
async fn a_server_that_hangs_or_drips_is_given_up_in_time() {
    let hang = || async { std::future::pending::<()>().await };
    let drip = || async {
        let chunks = futures_util::stream::unfold(0, |count| async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some((Ok::<_, std::convert::Infallible>(vec![b' ']), count + 1))
        });
        Body::from_stream(chunks).into_response()
    };
    let client = client(start(Router::new().route("/hang", get(hang)).route("/drip", get(drip))).await, options());
    assert_eq!(error(&client, "/hang").await.kind, FailureKind::Timeout);
    assert_eq!(error(&client, "/drip").await.kind, FailureKind::Timeout);
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    assert_eq!(error(&client(address, options()), "/").await.kind, FailureKind::Unreachable);
}

#[tokio::test]
async fn a_prefix_of_the_address_is_kept() {
    let address = start(Router::new().route("/proxy/overlord/tasks", get(|| async { axum::Json(1) }))).await;
    let client = Client::new(format!("http://{address}/proxy/overlord/").parse().expect("an address"), options()).expect("a client");
    assert_eq!(client.session().get_json::<u32>("/tasks").await.expect("an answer"), 1);
}
