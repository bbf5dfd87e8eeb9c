//! What a server answered, and what of it may be told: a status, a content type, the place of a wrong field. Never the
//! body, which may be anything once a proxy or a login page stands in the way.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::core::units::{Timestamp, seconds_between};
use crate::engine::clock;
use crate::engine::source::{FailureKind, SourceError};

/// The longest wait that a server can ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A complete answer.
#[derive(Clone)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub bytes: Bytes,
    /// The path that was asked for, without its query; errors name it.
    pub(super) path: String,
    pub(super) content_type: Option<String>,
    pub(super) retry_after: Option<Duration>,
}

impl Answer {
    /// An answer with this body, as the tests of parsers need it.
    #[cfg(test)]
    pub(crate) fn of(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, bytes: body.into(), path: String::new(), content_type: None, retry_after: None }
    }

    /// Itself where the status is a success.
    pub fn success(self) -> Result<Self, SourceError> {
        if (200..300).contains(&self.status) { Ok(self) } else { Err(self.refusal()) }
    }

    /// The error that a status without success stands for, with the wait that the server asked for.
    #[must_use]
    pub fn refusal(&self) -> SourceError {
        let kind = if matches!(self.status, 401 | 403) { FailureKind::Unauthorized } else { FailureKind::Status };
        SourceError { kind, message: format!("HTTP {}", self.status), retry_after: self.retry_after }.at(&self.path)
    }

    /// The body as JSON. Text that is no JSON is reported by its content type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, SourceError> {
        read_json(&self.bytes).map_err(|mut error| {
            if let (FailureKind::NotJson, Some(name)) = (error.kind, &self.content_type) {
                error.message = format!("not JSON: content type {name}");
            }
            error.at(&self.path)
        })
    }
}

/// Reads JSON. Another shape than expected is [`FailureKind::Unexpected`] with the path of the field; anything that is
/// no JSON at all is [`FailureKind::NotJson`]. The values that were read are in neither.
pub fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SourceError> {
    let not_json = || SourceError::new(FailureKind::NotJson, if bytes.is_empty() { "not JSON: empty answer" } else { "not JSON" });
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        if error.inner().classify() != serde_json::error::Category::Data {
            return not_json();
        }
        // serde's own words quote the value, except where a field is missing
        let text = error.inner().to_string();
        let missing = text.strip_prefix("missing field ").and_then(|rest| rest.split_whitespace().next());
        let path: String = error.path().to_string().chars().filter(|c| !c.is_control()).take(120).collect();
        let what = missing.map_or_else(|| "unexpected value".to_owned(), |field| format!("missing field {field}"));
        SourceError::new(FailureKind::Unexpected, format!("{what} at {path}"))
    })?;
    reader.end().map_err(|_| not_json())?;
    Ok(value)
}

/// The type and subtype, without parameters and without anything that a log could choke on.
pub(super) fn content_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let name: String = text.split(';').next()?.trim().chars().filter(char::is_ascii_graphic).take(60).collect();
    (!name.is_empty()).then_some(name)
}

/// `Retry-After`: seconds or an HTTP date.
pub(super) fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status.is_success() {
        return None;
    }
    wait(headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim(), clock::now())
}

fn wait(text: &str, now: Timestamp) -> Option<Duration> {
    let seconds = match text.parse::<u32>() {
        Ok(seconds) => f64::from(seconds),
        Err(_) => seconds_between(now, jiff::fmt::rfc2822::parse(text).ok()?.timestamp()),
    };
    Duration::try_from_secs_f64(seconds.max(0.0)).ok().map(|wait| wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    struct Worker {
        #[expect(dead_code, reason = "read for its type")]
        capacity: u64,
    }

    #[test]
    fn a_wrong_shape_names_the_field_and_never_the_value() {
        let error = read_json::<Vec<Worker>>(br#"[{"capacity":1},{"capacity":"hunter2"}]"#).expect_err("text");
        assert_eq!((error.kind, error.message.as_str()), (FailureKind::Unexpected, "unexpected value at [1].capacity"));
        let error = read_json::<Vec<Worker>>(b"[{}]").expect_err("missing");
        assert_eq!((error.kind, error.message.as_str()), (FailureKind::Unexpected, "missing field `capacity` at [0]"));
    }

    #[test]
    fn text_that_is_no_json_is_told_apart_from_another_shape() {
        for text in ["", "<html>", "[{\"capacity\":1}", "[] trailing"] {
            assert_eq!(read_json::<Vec<Worker>>(text.as_bytes()).expect_err(text).kind, FailureKind::NotJson, "{text}");
        }
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date_and_is_bounded() {
        let now: Timestamp = "2026-03-02T10:00:00Z".parse().expect("time");
        assert_eq!(wait("7", now), Some(Duration::from_secs(7)));
        assert_eq!(wait("Mon, 02 Mar 2026 10:00:30 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!(wait("Mon, 02 Mar 2026 09:00:00 GMT", now), Some(Duration::ZERO), "a date that has passed");
        assert_eq!(wait("4000000000", now), Some(LONGEST_WAIT));
        assert_eq!(wait("soon", now), None);
    }
}
