//! Answers of Prometheus' query API, and what of them is a number.
//!
//! A sample is a time and a text (`"12"`, `"1.5e+06"`, `"NaN"`, `"+Inf"`): anything can be in it, and what cannot be
//! used is told by a word and never becomes a number. Source: Prometheus' HTTP API, `/api/v1/query`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::engine::source::{FailureKind, SourceError};
use crate::sources::http::{Answer, read_json};

/// The most series that one query may have.
pub const MOST_SERIES: usize = 50_000;
/// Annotations that say nothing of what is missing begin so, where the server does not keep them apart.
const ONLY_INFO: &str = "PromQL info:";
/// What the server calls its errors.
const ERROR_TYPES: [&str; 8] = ["timeout", "canceled", "execution", "bad_data", "internal", "unavailable", "not_found", "not_acceptable"];

#[derive(Deserialize)]
struct Envelope {
    status: String,
    data: Option<Data>,
    #[serde(default, rename = "errorType")]
    error_type: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Sample>),
    Scalar((f64, String)),
    String(IgnoredAny),
    Matrix(IgnoredAny),
}

#[derive(Deserialize)]
struct Sample {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    value: Option<(f64, String)>,
}

/// A series of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value as it stands in the answer; `None` where it is a histogram.
    pub value: Option<String>,
}

/// The series of an answer, or why there are none to be had.
pub fn read(answer: &Answer) -> Result<Vec<Series>, SourceError> {
    let unusable = |message: String| SourceError::new(FailureKind::Unexpected, message);
    if !(200..300).contains(&answer.status) {
        let mut refusal = answer.refusal();
        // one of the words that the API has, and nothing else of what was answered
        if let Some(word) = read_json::<Envelope>(&answer.bytes).ok().and_then(|envelope| error_type(&envelope)) {
            refusal.message = format!("{} {word}", refusal.message);
        }
        return Err(refusal);
    }
    let envelope: Envelope = answer.json()?;
    if envelope.status != "success" {
        let word = error_type(&envelope).unwrap_or("unknown");
        return Err(unusable(format!("the answer is an error ({word}): expected success")));
    }
    if envelope.warnings.iter().any(|warning| !warning.starts_with(ONLY_INFO)) {
        // a part of the stores did not answer, or values were left out: what there is may be half of it
        return Err(unusable("the answer came with a warning, so it may be a part of the whole: expected none".to_owned()));
    }
    match envelope.data {
        None => Err(unusable("the answer has no data".to_owned())),
        Some(Data::Vector(samples)) if samples.len() > MOST_SERIES => {
            Err(unusable(format!("{} series are too many: expected at most {MOST_SERIES}", samples.len())))
        }
        Some(Data::Vector(samples)) => {
            Ok(samples.into_iter().map(|Sample { metric, value }| Series { labels: metric, value: value.map(|(_, value)| value) }).collect())
        }
        Some(Data::Scalar((_, value))) => Ok(vec![Series { labels: BTreeMap::new(), value: Some(value) }]),
        Some(Data::String(_)) => Err(unusable("the answer is a string: expected a vector".to_owned())),
        Some(Data::Matrix(_)) => Err(unusable("the answer is a range of samples: expected a vector, as from rate() or without [...]".to_owned())),
    }
}

fn error_type(envelope: &Envelope) -> Option<&'static str> {
    let given = envelope.error_type.as_deref()?;
    ERROR_TYPES.into_iter().find(|known| *known == given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: u16, body: &str) -> String {
        match read(&Answer::of(status, body.to_owned())) {
            Ok(series) => format!("{} series", series.len()),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn only_a_whole_vector_or_a_scalar_is_an_answer() {
        let vector =
            |rest: &str| format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{"a":"b"}},"value":[1.5,"3"]}}]}}{rest}}}"#);
        for (status, body, expected) in [
            (200, vector(""), "1 series"),
            (200, vector(r#","infos":["PromQL info: x"]"#), "1 series"),
            (200, vector(r#","warnings":["PromQL info: metric might not be a counter"]"#), "1 series"),
            (
                200,
                vector(r#","warnings":["store a: connection refused"]"#),
                "unexpected: the answer came with a warning, so it may be a part of the whole: expected none",
            ),
            (200, r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}"#.to_owned(), "1 series"),
            (200, r#"{"status":"success","data":{"result":[1,"3"],"resultType":"scalar"}}"#.to_owned(), "1 series"),
            (200, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#.to_owned(), "0 series"),
            (
                200,
                r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#.to_owned(),
                "unexpected: the answer is a string: expected a vector",
            ),
            (
                200,
                r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.to_owned(),
                "unexpected: the answer is a range of samples: expected a vector, as from rate() or without [...]",
            ),
            (200, r#"{"status":"success"}"#.to_owned(), "unexpected: the answer has no data"),
            (
                200,
                r#"{"status":"error","errorType":"execution","error":"secret"}"#.to_owned(),
                "unexpected: the answer is an error (execution): expected success",
            ),
            (400, r#"{"status":"error","errorType":"bad_data","error":"secret"}"#.to_owned(), "status: HTTP 400 bad_data"),
            (503, r#"{"status":"error","errorType":"hunter2"}"#.to_owned(), "status: HTTP 503"),
            (429, "slow down".to_owned(), "status: HTTP 429"),
            (401, String::new(), "unauthorized: HTTP 401"),
            (200, "<html>".to_owned(), "notJson: not JSON"),
            (
                200,
                r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,3]}]}}"#.to_owned(),
                "unexpected: unexpected value at data.result[0].value[1]",
            ),
        ] {
            assert_eq!(said(status, &body), expected, "{body}");
        }
    }

    #[test]
    fn a_histogram_is_a_series_without_a_number() {
        let body = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"3"}]}]}}"#;
        assert_eq!(read(&Answer::of(200, body)).expect("a vector"), [Series { labels: BTreeMap::new(), value: None }]);
    }
}
