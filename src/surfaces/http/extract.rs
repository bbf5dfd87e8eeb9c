//! Extractors that refuse with problem documents.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::AppState;
use super::problem::Problem;
use crate::core::request;
use crate::engine::store::Target;

/// The target that the path names.
pub struct Named(pub Arc<Target>);

impl FromRequestParts<AppState> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let Path(name) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::new(StatusCode::NOT_FOUND, "targetNotFound", rejection.body_text()))?;
        state.store().target(&name).map(Self).ok_or_else(|| Problem::no_target(&name))
    }
}

/// The query string.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<AppState> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => {
                // the framework's text is `Failed to deserialize query string: limit: invalid digit found in string`
                let text = rejection.body_text();
                let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
                let (path, message) = text.split_once(": ").unwrap_or(("", text));
                Err(Problem::invalid(vec![request::Problem::new(path, message)]))
            }
        }
    }
}
