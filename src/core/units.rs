//! Quantities with one meaning each: durations as people write them, and the few conversions between time and seconds.
//!
//! Durations are text on the wire (`"30s"`, `"5m"`, `"PT5M"`) and never negative; inside they are seconds as a double,
//! because every formula here divides rates by them. Times are RFC 3339 and stay [`jiff::Timestamp`].

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use jiff::Timestamp;

/// A number of replicas, tasks, slots or subtasks.
pub type Count = u64;

/// The largest count that leaves this service: what a Kubernetes `replicas` field can hold.
pub const COUNT_MAX: Count = i32::MAX as Count;

/// A length of time that is not negative, written as text: `"30s"`, `"5m"`, `"1h 30m"` or ISO 8601 `"PT5M"`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Duration(f64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0.0);

    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u32) -> Self {
        Self(seconds as f64)
    }

    /// A duration of whole minutes.
    #[must_use]
    pub const fn from_mins(minutes: u32) -> Self {
        Self(minutes as f64 * 60.0)
    }

    /// The length in seconds: finite and at least 0.
    #[must_use]
    pub const fn seconds(self) -> f64 {
        self.0
    }

    /// The longer of two.
    #[must_use]
    pub fn longer(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    /// Reads `"30s"`, `"5m"`, `"PT5M"`. The error names the value and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let span: jiff::SignedDuration =
            text.trim().parse().map_err(|_| format!("\"{text}\" is not a duration: expected text such as \"30s\", \"5m\" or \"PT5M\""))?;
        if span.is_negative() {
            return Err(format!("\"{text}\" is negative: expected a duration of at least 0s"));
        }
        Ok(Self(span.as_secs_f64()))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `try_from_secs_f64` fails only beyond 292 billion years
        match jiff::SignedDuration::try_from_secs_f64(self.0) {
            Ok(span) => write!(f, "{span:#}"),
            Err(_) => write!(f, "{}s", self.0),
        }
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "examples": ["30s", "5m", "PT5M"] })
    }
}

impl utoipa::PartialSchema for Duration {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};
        ObjectBuilder::new().schema_type(Type::String).description(Some("A duration as text: 30s, 5m, PT5M")).examples(["5m"]).into()
    }
}
impl utoipa::ToSchema for Duration {}

/// A measured amount: finite and at least 0. Rates are per second, ratios between 0 and 1, durations in seconds, as
/// the name of the field says. Anything else is refused when a request is read, so no formula meets NaN or a sign.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default, Serialize)]
#[serde(transparent)]
pub struct Amount(f64);

impl Amount {
    /// The amount, where it is finite and not negative.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (value.is_finite() && value >= 0.0).then_some(Self(value))
    }

    /// The plain number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Self::new(value).ok_or_else(|| serde::de::Error::custom(format!("{value} is out of range: expected a finite number of at least 0")))
    }
}

impl schemars::JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "number", "minimum": 0 })
    }
}

impl utoipa::PartialSchema for Amount {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};
        ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).into()
    }
}
impl utoipa::ToSchema for Amount {}

/// The plain numbers of optional amounts: unknown stays unknown.
pub trait Known {
    /// The number, where it is known.
    fn known(&self) -> Option<f64>;
}

impl Known for Option<Amount> {
    fn known(&self) -> Option<f64> {
        self.map(Amount::get)
    }
}

/// Seconds from `earlier` to `later`, negative when the order is the other way round.
#[must_use]
pub fn seconds_between(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64()
}

/// `time` moved by a number of seconds, held at the ends of the calendar.
#[must_use]
pub fn shifted(time: Timestamp, seconds: f64) -> Timestamp {
    let end = if seconds < 0.0 { Timestamp::MIN } else { Timestamp::MAX };
    jiff::SignedDuration::try_from_secs_f64(seconds).ok().and_then(|by| time.checked_add(by).ok()).unwrap_or(end)
}

/// Rounds a wish up to a whole count, once. Not finite or beyond what a count can hold: the largest count that a
/// double holds exactly (2^53), so that the wish is still a number that can be compared and cut.
///
/// A wish such as 3.0000000001 comes from floating-point noise, not from demand, so up to one part in a billion is
/// rounded down.
#[must_use]
pub fn ceil_count(wish: f64) -> Count {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    if wish.is_nan() || wish <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^53 by the clamp")]
    let count = (wish * (1.0 - 1e-9)).ceil().clamp(0.0, LARGEST) as Count;
    count
}

/// A count as a double, for the formulas.
#[must_use]
pub const fn as_f64(count: Count) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let value = count as f64;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_both_forms_and_printed_short() {
        for (text, seconds, printed) in
            [("30s", 30.0, "30s"), ("5m", 300.0, "5m"), ("PT5M", 300.0, "5m"), ("0s", 0.0, "0s"), ("1h", 3600.0, "1h"), ("90s", 90.0, "1m 30s")]
        {
            let duration = Duration::parse(text).expect(text);
            assert!((duration.seconds() - seconds).abs() < 1e-9, "{text}");
            assert_eq!(duration.to_string(), printed);
        }
    }

    #[test]
    fn a_duration_that_is_none_is_refused_with_the_value_and_what_was_expected() {
        assert!(Duration::parse("five").expect_err("not a duration").contains("\"five\""));
        assert!(Duration::parse("-5m").expect_err("negative").contains("at least 0s"));
    }

    #[test]
    fn a_wish_is_rounded_up_once_and_never_overflows() {
        assert_eq!(ceil_count(2.1), 3);
        assert_eq!(ceil_count(3.000_000_000_1), 3, "noise is no demand");
        assert_eq!(ceil_count(f64::INFINITY), 9_007_199_254_740_992);
        assert_eq!(ceil_count(f64::NAN), 0);
        assert_eq!(ceil_count(-4.0), 0);
    }
}
