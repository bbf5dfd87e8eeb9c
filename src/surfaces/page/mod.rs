//! The page at `/` and the documentation at `/docs`: static files in the binary. They load nothing from another host,
//! and their policy forbids them to, so they work in a closed cluster.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::http::AppState;

/// Everything from here; no inline script or style, no frame around it.
const STRICT: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";
/// The documentation's viewer styles its elements inline and draws its marks from data addresses.
const VIEWER: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

const INDEX: &str = include_str!("index.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const DETAIL: &str = include_str!("detail.js");
const FORMAT: &str = include_str!("format.js");
const ICON: &str = include_str!("icon.svg");
const DOCS: &str = include_str!("docs.html");
/// `RapiDoc` 9.3.8, MIT licence: see `rapidoc-min.js.LICENSE.txt` beside it.
const RAPIDOC_GZ: &[u8] = include_bytes!("rapidoc-min.js.gz");

/// The routes of the page.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/", get(async || html(INDEX, STRICT)))
        .route("/assets/page.css", get(async || file("text/css; charset=utf-8", STYLE)))
        .route("/assets/page.js", get(async || file("text/javascript; charset=utf-8", SCRIPT)))
        .route("/assets/detail.js", get(async || file("text/javascript; charset=utf-8", DETAIL)))
        .route("/assets/format.js", get(async || file("text/javascript; charset=utf-8", FORMAT)))
        .route("/assets/icon.svg", get(async || file("image/svg+xml", ICON)))
        .route("/docs", get(async || html(DOCS, VIEWER)))
        .route("/assets/rapidoc-9.3.8.js", get(viewer))
}

fn html(text: &'static str, policy: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}

/// The viewer, as it was packed. Every browser unpacks it; its name carries its version, so it may be kept for ever.
async fn viewer() -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8")),
        (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, RAPIDOC_GZ).into_response()
}
