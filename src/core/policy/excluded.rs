//! Times in which nothing is changed, in the form of Flink's autoscaler: a daily `HH:MM:SS-HH:MM:SS`, a cron expression,
//! or one of each joined by `&&`, and then both have to hold.
//!
//! The daily time includes both of its ends and does not go past midnight: two entries do. In UTC unless a time zone is
//! given (Flink takes that of its process).
//! Source: flink-autoscaler `CalendarUtils`; Quartz `DailyCalendar`, `CronExpression`.

use jiff::civil::Time;
use jiff::tz::TimeZone;

use super::cron::Cron;
use super::period::{parse_time, zone};
use crate::core::units::Timestamp;

/// A time in which nothing is changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ExcludedPeriod {
    daily: Option<(Time, Time)>,
    cron: Option<Cron>,
    zone: TimeZone,
}

impl ExcludedPeriod {
    /// Reads an entry. The error names it and what was expected.
    pub fn parse(text: &str, time_zone: Option<&str>) -> Result<Self, String> {
        let mut period = Self { daily: None, cron: None, zone: zone(time_zone)? };
        for part in text.split("&&").map(str::trim) {
            let twice = if let Some((from, to)) = daily(part) {
                if from >= to {
                    return Err(format!(
                        "\"{text}\" does not end after it begins: expected the earlier time of the day first; write two entries to go past midnight"
                    ));
                }
                period.daily.replace((from, to)).is_some()
            } else {
                let expected =
                    "expected a daily time such as \"09:30:00-17:00:00\", a cron expression such as \"* * 14-16 ? * MON-FRI\", or one of each joined by \"&&\"";
                let cron = Cron::parse(part).map_err(|problem| format!("\"{text}\" is neither a daily time nor a cron expression ({problem}): {expected}"))?;
                period.cron.replace(cron).is_some()
            };
            if twice {
                return Err(format!("\"{text}\" joins two of a kind: expected one daily time and one cron expression on the two sides of \"&&\""));
            }
        }
        Ok(period)
    }

    /// True when `now` lies in the period, both ends of its daily time included.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        let local = self.zone.to_datetime(now);
        self.daily.is_none_or(|(from, to)| from <= local.time() && local.time() <= to) && self.cron.as_ref().is_none_or(|cron| cron.contains(local))
    }
}

/// Two times of a day, `None` for what is no such thing.
fn daily(text: &str) -> Option<(Time, Time)> {
    let (from, to) = text.split_once('-')?;
    Some((parse_time(from)?, parse_time(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn both_sides_of_a_joined_entry_have_to_hold() {
        let period = ExcludedPeriod::parse("* * * ? * 2,5 && 14:01:20-16:00:00", None).expect("a period");
        assert!(period.contains(at("2023-12-14T14:01:20Z")), "a Thursday, at the first second");
        assert!(period.contains(at("2023-12-14T16:00:00Z")), "at the last");
        assert!(!period.contains(at("2023-12-14T16:00:01Z")));
        assert!(!period.contains(at("2023-12-13T14:30:00Z")), "a Wednesday");
    }

    #[test]
    fn times_are_those_of_the_zone() {
        let period = ExcludedPeriod::parse("09:00:00-10:00:00", Some("Europe/Berlin")).expect("a period");
        assert!(period.contains(at("2026-12-01T08:30:00Z")));
        assert!(!period.contains(at("2026-12-01T09:30:00Z")));
    }

    #[test]
    fn what_is_no_period_is_refused_with_the_entry_and_what_was_expected() {
        for (text, said) in [
            ("09:13:17-08:15:18", "earlier time"),
            ("09:13:17-09:13:17", "earlier time"),
            ("09:13:17-25:15:18", "neither"),
            ("09:13:17-11:15:18 && 12:01:20-16:00:00", "two of a kind"),
            ("* * * ? * 2,5 && * * 11-13 * * ?", "two of a kind"),
            ("* * * ? * 2,5 && 18:01:20-16:00:00", "earlier time"),
            ("* * * ? * 2,5555", "day of week \"5555\""),
            ("", "0 fields"),
        ] {
            let error = ExcludedPeriod::parse(text, None).expect_err(text);
            assert!(error.contains(text) && error.contains(said) && error.contains("expected"), "{error}");
        }
        assert!(ExcludedPeriod::parse("09:00:00-10:00:00", Some("Mars/Base")).expect_err("a zone").contains("Mars/Base"));
    }
}
