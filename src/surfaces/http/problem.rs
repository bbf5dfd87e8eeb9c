//! Errors as RFC 9457 problem documents. `code` is stable API; `title` names the class; `detail` and `errors` say what
//! was wrong with this request.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::core::request::{self, Refusal};

/// A problem document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProblemDocument)]
pub struct Problem {
    /// A stable word: `invalidJson`, `invalidRequest`, `kindNotSupported`, `targetNotFound`, `adviceExpired`,
    /// `tooLarge`, `unauthorized`, `overloaded`, `internal`, `notFound`, `methodNotAllowed`, `requestTimeout`.
    #[schema(value_type = String)]
    pub code: &'static str,
    /// The class of the problem.
    #[schema(value_type = String)]
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong, in a sentence.
    pub detail: String,
    /// What is wrong with each field.
    pub errors: Vec<request::Problem>,
}

impl Problem {
    /// A problem without fields at fault.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, title: title(code), status: status.as_u16(), detail: detail.into(), errors: Vec::new() }
    }

    /// 422: fields are at fault.
    #[must_use]
    pub fn invalid(errors: Vec<request::Problem>) -> Self {
        let detail = match errors.as_slice() {
            [only] if only.path.is_empty() => only.message.clone(),
            [only] => format!("{}: {}", only.path, only.message),
            many => format!("{} fields are not valid", many.len()),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalidRequest", detail) }
    }

    /// 503: too much is asked at once.
    pub fn overloaded(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail)
    }

    /// 503: there is no valid advice.
    pub fn expired(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "adviceExpired", detail)
    }

    /// 404: no target of that name.
    #[must_use]
    pub fn no_target(name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "targetNotFound", format!("there is no target \"{name}\": GET /v1/targets lists them"))
    }

    /// 500: a fault of this service. What it was is in its log, not in the answer.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "this is a fault of the service: its log has more under the request's x-request-id")
    }
}

const fn title(code: &'static str) -> &'static str {
    match code.as_bytes() {
        b"invalidJson" => "The body is not JSON",
        b"invalidRequest" => "The request is not valid",
        b"kindNotSupported" => "This kind of workload cannot be judged",
        b"targetNotFound" => "There is no such target",
        b"adviceExpired" => "There is no valid advice",
        b"tooLarge" => "The body is too large",
        b"unauthorized" => "A valid bearer token is needed",
        b"overloaded" => "Too much is asked at once",
        b"notFound" => "There is no such path",
        b"methodNotAllowed" => "This path has other methods",
        b"requestTimeout" => "The body took too long to arrive",
        _ => "A fault of the service",
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotJson(_) => Self::new(StatusCode::BAD_REQUEST, "invalidJson", refusal.to_string()),
            Refusal::Invalid(errors) => Self::invalid(errors),
            Refusal::KindNotSupported(_) => {
                let detail = refusal.to_string();
                let errors = vec![request::Problem::new("kind", detail.clone())];
                Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "kindNotSupported", detail) }
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))], body).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"loadline\""));
        }
        if self.code == "overloaded" {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
