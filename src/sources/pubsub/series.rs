//! Time series of Cloud Monitoring as they are sent, and what of them counts.
//!
//! Points come newest first; 64-bit integers are text. A gauge counts with its newest value. A delta counts events between
//! its two times, and becomes a rate over the time that its points cover: a minute without a point is not a minute without
//! events. Several series of one metric differ in a label (the kind of delivery, a response code) and are added up.

use serde::Deserialize;

use crate::core::units::{Timestamp, as_f64, seconds_between};

/// A page of an answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// The series.
    #[serde(default)]
    pub time_series: Vec<Wire>,
    /// Where it goes on.
    #[serde(default)]
    pub next_page_token: Option<String>,
    /// What could not be read: the answer is not complete.
    #[serde(default)]
    pub execution_errors: Vec<serde::de::IgnoredAny>,
}

/// One series as it is sent.
#[derive(Debug, Deserialize)]
pub struct Wire {
    #[serde(default)]
    points: Vec<WirePoint>,
}

#[derive(Debug, Deserialize)]
struct WirePoint {
    interval: WireInterval,
    value: WireValue,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireInterval {
    /// Absent, or the same, for a gauge.
    #[serde(default)]
    start_time: Option<Timestamp>,
    end_time: Timestamp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireValue {
    int64_value: Option<Text>,
    double_value: Option<f64>,
}

/// A 64-bit integer: text by the rules of JSON for protocol buffers, a number by some servers.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    Text(String),
    Number(i64),
}

/// A point with a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    start: Timestamp,
    end: Timestamp,
    value: f64,
}

/// One series, oldest point first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(Vec<Point>);

impl Series {
    /// The points that hold a number.
    #[must_use]
    pub fn of(wire: Wire) -> Self {
        let mut points: Vec<Point> = wire
            .points
            .into_iter()
            .filter_map(|WirePoint { interval, value }| {
                let number = match value.int64_value {
                    Some(Text::Number(number)) => Some(signed(number)),
                    Some(Text::Text(text)) => text.parse::<i64>().ok().map(signed),
                    None => value.double_value,
                };
                let end = interval.end_time;
                Some(Point { start: interval.start_time.unwrap_or(end), end, value: number.filter(|number| number.is_finite())? })
            })
            .collect();
        points.sort_by_key(|point| point.end);
        Self(points)
    }

    fn last(&self) -> Option<Point> {
        self.0.last().copied()
    }
}

fn signed(number: i64) -> f64 {
    let size = as_f64(number.unsigned_abs());
    if number < 0 { -size } else { size }
}

/// The time of the newest point.
#[must_use]
pub fn newest(series: &[Series]) -> Option<Timestamp> {
    series.iter().filter_map(Series::last).map(|point| point.end).max()
}

/// The newest values added up, and their time. Series that have ended before are not added: they are of another time.
#[must_use]
pub fn sum_at_newest(series: &[Series]) -> Option<(f64, Timestamp)> {
    let at = newest(series)?;
    let values = series.iter().filter_map(Series::last).filter(|point| is_with(point.end, at)).map(|point| point.value);
    Some((values.sum(), at))
}

/// The largest of the newest values, and their time.
#[must_use]
pub fn most_at_newest(series: &[Series]) -> Option<(f64, Timestamp)> {
    let at = newest(series)?;
    let values = series.iter().filter_map(Series::last).filter(|point| is_with(point.end, at)).map(|point| point.value);
    values.max_by(f64::total_cmp).map(|value| (value, at))
}

/// Points of series of one metric are written together, give or take a sample.
fn is_with(end: Timestamp, newest: Timestamp) -> bool {
    seconds_between(end, newest) < 60.0
}

/// Events per second over the last `seconds` that were counted, and when that ended. `None` without a point that counts.
#[must_use]
pub fn rate(series: &[Series], seconds: f64) -> Option<(f64, Timestamp)> {
    let until = newest(series)?;
    let counted = || series.iter().flat_map(|series| &series.0).filter(|point| seconds_between(point.end, until) < seconds && point.start < point.end);
    let from = counted().map(|point| point.start).min()?;
    let covered = seconds_between(from, until);
    (covered > 0.0).then(|| (counted().map(|point| point.value).sum::<f64>() / covered, until))
}

/// How fast a gauge grew over the last `seconds` or the next longer time there are points for, per second.
#[must_use]
pub fn slope(series: &[Series], seconds: f64) -> Option<f64> {
    let (now, until) = sum_at_newest(series)?;
    let before = series.iter().flat_map(|series| &series.0).map(|point| point.end).filter(|end| seconds_between(*end, until) >= seconds).max();
    // fewer points than that time: the oldest there is
    let before = before.or_else(|| series.iter().filter_map(|series| series.0.first()).map(|point| point.end).min())?;
    let passed = seconds_between(before, until);
    let then: f64 = series.iter().flat_map(|series| &series.0).filter(|point| point.end == before).map(|point| point.value).sum();
    (passed > 0.0).then(|| (now - then) / passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Series> {
        let page: Page = serde_json::from_str(text).expect("a page");
        page.time_series.into_iter().map(Series::of).collect()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_gauge_counts_with_its_newest_value_and_integers_are_text() {
        let series = read(
            r#"{"timeSeries":[{"points":[
                {"interval":{"startTime":"2026-11-30T10:03:00Z","endTime":"2026-11-30T10:03:00Z"},"value":{"int64Value":"900000"}},
                {"interval":{"endTime":"2026-11-30T10:01:00Z"},"value":{"int64Value":"840000"}}]}]}"#,
        );
        assert_eq!(sum_at_newest(&series), Some((900_000.0, at("2026-11-30T10:03:00Z"))));
        assert_eq!(slope(&series, 120.0), Some(500.0));
        assert_eq!(rate(&series, 120.0), None, "a gauge is no count of events");
    }

    #[test]
    fn deltas_of_several_series_are_added_over_the_time_that_they_cover() {
        let minute = |start: &str, end: &str, value: &str| {
            format!(r#"{{"interval":{{"startTime":"2026-11-30T10:{start}:00Z","endTime":"2026-11-30T10:{end}:00Z"}},"value":{{"int64Value":"{value}"}}}}"#)
        };
        let text = format!(
            r#"{{"timeSeries":[{{"points":[{},{},{}]}},{{"points":[{}]}}]}}"#,
            minute("02", "03", "600"),
            minute("01", "02", "300"),
            minute("00", "01", "99999"),
            minute("02", "03", "300"),
        );
        let series = read(&text);
        // 1,200 events in two minutes; what was counted before is not of them
        assert_eq!(rate(&series, 120.0), Some((10.0, at("2026-11-30T10:03:00Z"))));
    }

    #[test]
    fn what_is_no_number_is_no_point() {
        let series = read(
            r#"{"timeSeries":[{"points":[{"interval":{"endTime":"2026-11-30T10:03:00Z"},"value":{"distributionValue":{"count":"3"}}},
                {"interval":{"endTime":"2026-11-30T10:02:00Z"},"value":{"int64Value":"many"}}]}]}"#,
        );
        assert_eq!((newest(&series), sum_at_newest(&series), slope(&series, 60.0)), (None, None, None));
        assert!(read("{}").is_empty(), "no series at all is an answer");
    }

    #[test]
    fn one_point_has_no_slope() {
        let series = read(r#"{"timeSeries":[{"points":[{"interval":{"endTime":"2026-11-30T10:03:00Z"},"value":{"int64Value":"5"}}]}]}"#);
        assert_eq!(slope(&series, 120.0), None);
    }
}
