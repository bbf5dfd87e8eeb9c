//! Recurring periods of a week: `"Mon-Fri 07:00-09:00"` in a time zone.
//!
//! A period that ends before it begins goes past midnight (`"22:00-06:00"`), and then belongs to the day it began on.

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;

use crate::core::problem::Problem;
use crate::core::units::Timestamp;

/// Days of the week and a time of day.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// Which days it begins on, Monday first.
    days: [bool; 7],
    from: Time,
    to: Time,
    zone: TimeZone,
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Period {
    /// Reads a period. Each problem is at the field that it is one of.
    pub fn parse(text: &str, time_zone: Option<&str>) -> Result<Self, Vec<Problem>> {
        let zone = zone(time_zone).map_err(|message| Problem::new("timeZone", message));
        let times = Self::times(text).map_err(|message| Problem::new("period", message));
        match (times, zone) {
            (Ok((days, from, to)), Ok(zone)) => Ok(Self { days, from, to, zone }),
            (times, zone) => Err(times.err().into_iter().chain(zone.err()).collect()),
        }
    }

    fn times(text: &str) -> Result<([bool; 7], Time, Time), String> {
        let expected = || format!("\"{text}\" is not a period: expected text such as \"07:00-09:00\" or \"Mon-Fri 07:00-09:00\"");
        let trimmed = text.trim();
        let (days, times) = match trimmed.rsplit_once(' ') {
            Some((days, times)) => (parse_days(days).ok_or_else(expected)?, times),
            None => ([true; 7], trimmed),
        };
        let (from, to) = times.split_once('-').ok_or_else(expected)?;
        let from = parse_time(from).ok_or_else(expected)?;
        let to = parse_time(to).ok_or_else(expected)?;
        if from == to {
            return Err(format!("\"{text}\" begins and ends at the same time: expected two different times"));
        }
        Ok((days, from, to))
    }

    /// True when `now` lies in the period; its end is not part of it.
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        let local = self.zone.to_datetime(now);
        let time = local.time();
        let today = self.begins_on(local.weekday());
        if self.from < self.to {
            return today && self.from <= time && time < self.to;
        }
        let yesterday = self.begins_on(local.weekday().wrapping_sub(1));
        (today && time >= self.from) || (yesterday && time < self.to)
    }

    fn begins_on(&self, day: Weekday) -> bool {
        usize::try_from(day.to_monday_zero_offset()).ok().and_then(|index| self.days.get(index)).copied().unwrap_or(false)
    }
}

/// The time zone of a name; UTC without one.
pub(super) fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    name.map_or(Ok(TimeZone::UTC), |name| {
        TimeZone::get(name).map_err(|_| format!("\"{name}\" is not a known time zone: expected an IANA name such as \"Europe/Berlin\""))
    })
}

pub(super) fn parse_time(text: &str) -> Option<Time> {
    let text = text.trim();
    Time::strptime("%H:%M:%S", text).or_else(|_| Time::strptime("%H:%M", text)).ok()
}

fn parse_days(text: &str) -> Option<[bool; 7]> {
    let index = |name: &str| DAYS.iter().position(|day| day.eq_ignore_ascii_case(name.trim()));
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (index(first)?, index(last)?),
            None => (index(part)?, index(part)?),
        };
        let mut day = first;
        loop {
            if let Some(flag) = days.get_mut(day) {
                *flag = true;
            }
            if day == last {
                break;
            }
            day = (day + 1) % 7;
        }
    }
    Some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_period_holds_on_its_days_and_times_in_its_zone() {
        let period = Period::parse("Mon-Fri 07:00-09:00", Some("Europe/Berlin")).expect("a period");
        assert!(period.contains(at("2026-11-30T06:30:00Z")), "Monday 07:30 in Berlin");
        assert!(!period.contains(at("2026-11-30T08:00:00Z")), "Monday 09:00 in Berlin");
        assert!(!period.contains(at("2026-11-29T06:30:00Z")), "a Sunday");
    }

    #[test]
    fn a_period_past_midnight_belongs_to_the_day_it_began_on() {
        let period = Period::parse("Sun 22:00-06:00", None).expect("a period");
        assert!(period.contains(at("2026-11-29T23:00:00Z")), "Sunday night");
        assert!(period.contains(at("2026-11-30T05:00:00Z")), "Monday morning");
        assert!(!period.contains(at("2026-11-30T23:00:00Z")), "Monday night");
    }

    #[test]
    fn what_is_no_period_is_refused_by_name() {
        for text in ["", "07:00", "Mon-Foo 07:00-09:00", "25:00-26:00", "07:00-07:00"] {
            let problems = Period::parse(text, None).expect_err(text);
            assert!(problems[0].path == "period" && problems[0].message.contains(text), "{text}");
        }
        let both = Period::parse("07:00", Some("Mars/Base")).expect_err("a period and a zone");
        assert_eq!(both.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), ["period", "timeZone"]);
    }
}
