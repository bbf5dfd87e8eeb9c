//! `POST /v1/advice`: one decision or an array of them; nothing is stored.

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::AppState;
use super::payload::Payload;
use super::problem::Problem;
use crate::core::advice::Advice;
use crate::core::request::{Batch, parse_batch};
use crate::core::{self, units::Timestamp};

/// One place of an array of answers.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Advice(Box<Advice>),
    Problem(Problem),
}

/// Judges one request, or an array of at most 1,000.
///
/// A pure function of the body: with `now` in it, the same body gives the same answer. Of an array each request is
/// judged alone; the answer is 200 with an array in the same order, and a bad request has its problem document in its
/// place. The content type is not looked at.
#[utoipa::path(
    post,
    path = "/v1/advice",
    tag = "advice",
    operation_id = "advise",
    request_body(content = super::document::AdviceBody, content_type = "application/json", description = "One request, or an array of them"),
    responses(
        (status = 200, description = "The decision, or an array of decisions and problem documents", body = super::document::AdviceAnswer),
        (status = "4XX", description = "400 `invalidJson`; 408 `requestTimeout`; 413 `tooLarge`; 422 `invalidRequest` with all problems at once, or `kindNotSupported`", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "503 `overloaded`; 500 `internal`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn advise(State(state): State<AppState>, payload: Payload) -> Result<Response, Problem> {
    let clock = state.now();
    payload.judge(move |body| judge(body, clock)).await.map(json)
}

/// From the posted bytes to the bytes of the answer, without a copy between.
fn judge(body: &[u8], clock: Timestamp) -> Result<Vec<u8>, Problem> {
    let written = match parse_batch(body, clock)? {
        Batch::One(request) => serde_json::to_vec(&core::advise(&request)),
        Batch::Many(requests) => {
            let answers: Vec<Answer> = requests
                .into_iter()
                .map(|request| match request {
                    Ok(request) => Answer::Advice(Box::new(core::advise(&request))),
                    Err(refusal) => Answer::Problem(refusal.into()),
                })
                .collect();
            serde_json::to_vec(&answers)
        }
    };
    written.map_err(|error| {
        tracing::error!(%error, "an advice could not be written as JSON");
        Problem::internal()
    })
}

/// An answer that is JSON already.
pub fn json(body: Vec<u8>) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}
