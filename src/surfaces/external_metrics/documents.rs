//! The documents of the API as Kubernetes writes them: discovery in its old and its aggregated form, the least of
//! OpenAPI that the API server's collectors take, the list of values, and errors.
//!
//! - The availability controller asks for `/apis/GROUP/VERSION` and takes any success.
//! - The discovery aggregator asks for `/apis` with an `Accept` that names `as=APIGroupDiscoveryList`, and takes it only
//!   with a content type that says the same. An `Accept` that has only a form that is unknown here gets 406, after which it
//!   asks for the old form.
//! - The OpenAPI collectors ask for `/openapi/v2` and `/openapi/v3`, and ask for ever where there is neither, so both
//!   are there, without a path: clients find the one resource by discovery, and a schema of its answers belongs to Kubernetes.
//!
//! Sources: `k8s.io/kube-aggregator` and `k8s.io/metrics` 0.37.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::core::units::{Count, Timestamp};

/// The API group.
pub const GROUP: &str = "external.metrics.k8s.io";
/// Its version.
pub const VERSION: &str = "v1beta1";
/// The one metric.
pub const METRIC: &str = "loadline-recommended";
/// The one label of its values: the target's name.
pub const LABEL: &str = "target";

/// An error as the Kubernetes API has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Status {
    /// The request is wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self { code: StatusCode::BAD_REQUEST, reason: "BadRequest", message: message.into() }
    }

    /// Nobody is known to ask.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self { code: StatusCode::UNAUTHORIZED, reason: "Unauthorized", message: message.into() }
    }

    /// Who asks may not.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self { code: StatusCode::FORBIDDEN, reason: "Forbidden", message: message.into() }
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { code: StatusCode::NOT_FOUND, reason: "NotFound", message: message.into() }
    }

    /// Everything is only read.
    pub fn method_not_allowed() -> Self {
        Self { code: StatusCode::METHOD_NOT_ALLOWED, reason: "MethodNotAllowed", message: "expected GET: everything here is only read".to_owned() }
    }

    /// No form that is asked for is known.
    pub fn not_acceptable() -> Self {
        let message = "expected an Accept with application/json, or with application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        Self { code: StatusCode::NOT_ACCEPTABLE, reason: "NotAcceptable", message: message.to_owned() }
    }

    /// It cannot be told now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { code: StatusCode::SERVICE_UNAVAILABLE, reason: "ServiceUnavailable", message: message.into() }
    }

    /// A fault of this service.
    pub fn internal() -> Self {
        let message = "something went wrong here: the log tells what".to_owned();
        Self { code: StatusCode::INTERNAL_SERVER_ERROR, reason: "InternalError", message }
    }
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let Self { code, reason, message } = self;
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        let mut response = (code, document("application/json", &body)).into_response();
        if code == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}

/// A document of this content type.
pub fn document(content_type: &'static str, body: &Value) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body.to_string()).into_response()
}

/// `/apis`: in the form that is asked for.
pub fn groups(headers: &HeaderMap) -> Result<Response, Status> {
    let accepts: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).collect();
    if accepts.is_empty() {
        return Ok(document(OLD, &group_list()));
    }
    // the weights that HTTP knows are not looked at, as the API server does not either: the first that is known
    match accepts.iter().find_map(|accept| form(accept)).ok_or_else(Status::not_acceptable)? {
        Form::Old => Ok(document(OLD, &group_list())),
        Form::Aggregated(content_type, api_version) => Ok(document(content_type, &aggregated(api_version))),
    }
}

const OLD: &str = "application/json";

enum Form {
    Old,
    /// With its content type and the version of the document.
    Aggregated(&'static str, &'static str),
}

/// The form that a member of `Accept` asks for, where it is known.
fn form(accept: &str) -> Option<Form> {
    let mut parts = accept.split(';').map(str::trim);
    let media_type = parts.next()?;
    if !matches!(media_type.to_ascii_lowercase().as_str(), "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let named = |name: &str| parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    match (named("as"), named("g"), named("v")) {
        (None, _, _) => Some(Form::Old),
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
            Some(Form::Aggregated("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"))
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
            Some(Form::Aggregated("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", "apidiscovery.k8s.io/v2beta1"))
        }
        _ => None,
    }
}

fn versions() -> (Value, Value) {
    let version = json!({ "groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION });
    (json!([version]), version)
}

fn group_list() -> Value {
    let (versions, preferred) = versions();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [{ "name": GROUP, "versions": versions, "preferredVersion": preferred }] })
}

/// `/apis/GROUP`.
pub fn group() -> Value {
    let (versions, preferred) = versions();
    json!({ "kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": versions, "preferredVersion": preferred })
}

/// `/apis/GROUP/VERSION`.
pub fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [{ "name": METRIC, "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": ["get"] }],
    })
}

fn aggregated(api_version: &str) -> Value {
    let kind = json!({ "group": GROUP, "version": VERSION, "kind": "ExternalMetricValueList" });
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {},
        "items": [{
            "metadata": { "name": GROUP },
            "versions": [{
                "version": VERSION, "freshness": "Current",
                "resources": [{ "resource": METRIC, "responseKind": kind, "scope": "Namespaced", "singularResource": "", "verbs": ["get"] }],
            }],
        }],
    })
}

/// `/openapi/v2`.
pub fn openapi_v2() -> Value {
    json!({ "swagger": "2.0", "info": { "title": "Loadline external metrics", "version": env!("CARGO_PKG_VERSION") }, "paths": {} })
}

/// `/openapi/v3`: the list of documents, of which there are none.
pub fn openapi_v3() -> Value {
    json!({ "paths": {} })
}

/// `/version`.
pub fn version() -> Value {
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    json!({ "major": major, "minor": minor, "gitVersion": concat!("v", env!("CARGO_PKG_VERSION")) })
}

/// The values of the metric: at most one, as an HPA adds up what it gets. A whole number is a quantity as it is; it is
/// text because quantities are.
pub fn values(value: Option<(&str, Count, Timestamp)>) -> Value {
    let items: Vec<Value> = value
        .into_iter()
        .map(|(target, count, at)| {
            // as Kubernetes writes times: whole seconds
            let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            json!({ "metricName": METRIC, "metricLabels": { LABEL: target }, "timestamp": at, "value": count.to_string() })
        })
        .collect();
    json!({ "kind": "ExternalMetricValueList", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": {}, "items": items })
}
