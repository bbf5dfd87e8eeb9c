//! A Pub/Sub subscription, read from Cloud Monitoring: `GET /v3/projects/{project}/timeSeries`, one question a metric, as
//! the API takes one metric type at a time.
//!
//! The points are asked for as they were written, without aligners: an aligner that does not fit the kind of a metric gives
//! numbers that look right (a gauge aligned as a delta is near zero while 900,000 messages wait). Gauges give their newest
//! value, deltas what was counted over two minutes. What is published is what was acknowledged plus what the backlog
//! grew by: the topic's own counter knows neither filters nor other subscriptions.
//!
//! `observedAt` is the time of the newest point of `num_undelivered_messages`, minutes before it can be read. No point at
//! all is `noData`, neither a failure nor an empty subscription. At start, and with one point only, what is published is
//! unknown. Rates are messages per second. Source: the Cloud Monitoring API v3, metrics `pubsub.googleapis.com`.

mod credentials;
mod series;

use std::fmt::Write;

use futures_util::future::try_join_all;
use jiff::SignedDuration;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

pub use self::credentials::{Credentials, check_file};
use self::series::{Page, Series};
use crate::core::kinds::PubsubSubscriptionSnapshot;
use crate::core::units::{Amount, Count, Timestamp, ceil_count, seconds_between};
use crate::engine::clock;
use crate::engine::source::{BoxFuture, FailureKind, Reading, Snapshot, Source, SourceError};
use crate::sources::http::{Client, Session};

/// How far back points are asked for: they are minutes late, and there are gaps.
const LOOK_BACK: SignedDuration = SignedDuration::from_mins(10);
/// Time over which counts become rates: two samples of a minute.
const RATE_SECONDS: f64 = 120.0;
/// A rate that ends so long before the backlog was measured says nothing of it.
const APART_SECONDS: f64 = 300.0;
/// Pages that one question may have. A subscription has a handful of series, so that more is not meant for us.
const MOST_PAGES: usize = 10;

/// What is asked for; the first is needed.
const METRICS: [&str; 8] = [
    "num_undelivered_messages",
    "oldest_unacked_message_age",
    "ack_message_count",
    "sent_message_count",
    "expired_ack_deadlines_count",
    "num_outstanding_messages",
    "open_streaming_pulls",
    "backlog_bytes",
];

/// A subscription whose numbers Cloud Monitoring has.
pub struct PubsubSource {
    client: Client,
    credentials: Credentials,
    project: String,
    subscription: String,
}

impl PubsubSource {
    /// Asks through `client` for `subscription` of `project`, with what `credentials` gives. Both names are as Google Cloud
    /// allows them: letters, digits and `-_.~+%:`.
    #[must_use]
    pub fn new(client: Client, credentials: Credentials, project: String, subscription: String) -> Self {
        Self { client, credentials, project, subscription }
    }

    async fn reading(&self) -> Result<Reading, SourceError> {
        let session = self.client.session_with(self.credentials.bearer().await?);
        let now = clock::now();
        let all = try_join_all(METRICS.map(|metric| self.series(&session, metric, now))).await?;
        let [waits, oldest, acked, sent, expired, outstanding, streams, bytes]: [Vec<Series>; METRICS.len()] =
            all.try_into().map_err(|_| SourceError::new(FailureKind::Unexpected, "not every metric was answered"))?;
        let numbers = Numbers { waits, oldest, acked, sent, expired, outstanding, streams, bytes };
        let snapshot = PubsubSubscriptionSnapshot { received_at: Some(clock::now()), ..numbers.snapshot(now) };
        Ok(Reading { snapshot: Snapshot::PubsubSubscription(Box::new(snapshot)), calls: session.calls() })
    }

    /// The series of one metric. A project without any subscription does not know the metric: that is none.
    async fn series(&self, session: &Session, metric: &str, now: Timestamp) -> Result<Vec<Series>, SourceError> {
        let filter = format!(
            "metric.type=\"pubsub.googleapis.com/subscription/{metric}\" AND resource.type=\"pubsub_subscription\" AND resource.labels.subscription_id=\"{}\"",
            self.subscription
        );
        let from = now.checked_sub(LOOK_BACK).unwrap_or(now);
        let mut path = format!("/v3/projects/{}/timeSeries?view=FULL&pageSize=1000", utf8_percent_encode(&self.project, NON_ALPHANUMERIC));
        for (name, value) in [("filter", filter), ("interval.startTime", from.to_string()), ("interval.endTime", now.to_string())] {
            // writing to a string cannot fail
            let _ = write!(path, "&{name}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC));
        }
        let mut found = Vec::new();
        let mut next = None::<String>;
        for _ in 0..MOST_PAGES {
            let page = next.as_ref().map_or_else(|| path.clone(), |token| format!("{path}&pageToken={}", utf8_percent_encode(token, NON_ALPHANUMERIC)));
            let answer = session.ask(&page).await?;
            if answer.status == 404 {
                return Ok(found);
            }
            let Page { time_series, next_page_token, execution_errors } = answer.success()?.json()?;
            if !execution_errors.is_empty() {
                return Err(SourceError::new(FailureKind::Unexpected, format!("{metric} came with errors, so that points may be missing")));
            }
            found.extend(time_series.into_iter().map(Series::of));
            next = next_page_token.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(found);
            }
        }
        Err(SourceError::new(FailureKind::TooLarge, format!("{metric} has more than {MOST_PAGES} pages: expected the series of one subscription")))
    }
}

impl Source for PubsubSource {
    fn read(&self) -> BoxFuture<'_, Result<Reading, SourceError>> {
        Box::pin(self.reading())
    }
}

/// The series of each metric.
struct Numbers {
    waits: Vec<Series>,
    oldest: Vec<Series>,
    acked: Vec<Series>,
    sent: Vec<Series>,
    expired: Vec<Series>,
    outstanding: Vec<Series>,
    streams: Vec<Series>,
    bytes: Vec<Series>,
}

impl Numbers {
    fn snapshot(&self, now: Timestamp) -> PubsubSubscriptionSnapshot {
        let Some(at) = series::newest(&self.waits) else {
            return PubsubSubscriptionSnapshot { observed_at: Some(now), no_data: true, ..PubsubSubscriptionSnapshot::default() };
        };
        let near = |rate: Option<(f64, Timestamp)>| rate.filter(|(_, end)| seconds_between(*end, at).abs() <= APART_SECONDS).map(|(rate, _)| rate);
        let rate = |of: &[Series]| near(series::rate(of, RATE_SECONDS));
        let gauge = |of: &[Series]| series::sum_at_newest(of).filter(|(_, end)| seconds_between(*end, at).abs() <= APART_SECONDS).map(|(value, _)| value);
        let count = |of: &[Series]| gauge(of).filter(|value| *value >= 0.0).map(|value| ceil_count(value) as Count);
        let waits = series::sum_at_newest(&self.waits).map(|(value, _)| value);
        let acked = rate(&self.acked);
        let grew = series::slope(&self.waits, RATE_SECONDS);
        let oldest = series::most_at_newest(&self.oldest).filter(|(_, end)| seconds_between(*end, at).abs() <= APART_SECONDS).map(|(value, _)| value);
        let bytes = gauge(&self.bytes).zip(waits.filter(|count| *count > 0.0)).map(|(bytes, count)| bytes / count);
        PubsubSubscriptionSnapshot {
            observed_at: Some(at),
            undelivered: waits.map(whole),
            oldest_unacked_seconds: oldest.and_then(Amount::new),
            publish_per_second: acked.zip(grew).and_then(|(acked, grew)| Amount::new((acked + grew).max(0.0))),
            ack_per_second: acked.and_then(Amount::new),
            sent_per_second: rate(&self.sent).and_then(Amount::new),
            expired_ack_deadlines_per_second: rate(&self.expired).and_then(Amount::new),
            outstanding: count(&self.outstanding),
            open_streams: count(&self.streams),
            message_bytes: bytes.filter(|bytes| *bytes > 0.0).and_then(Amount::new),
            ..PubsubSubscriptionSnapshot::default()
        }
    }
}

/// A count of messages; one below zero contradicts itself, and is shown as it is.
fn whole(value: f64) -> i64 {
    let size = i64::try_from(ceil_count(value.abs())).unwrap_or(i64::MAX);
    if value < 0.0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_whole_whatever_their_sign() {
        assert_eq!((whole(0.0), whole(900_000.0), whole(-3.0)), (0, 900_000, -3));
    }
}
