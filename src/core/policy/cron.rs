//! Cron expressions in Quartz' form, as Flink's autoscaler takes them: `second minute hour day-of-month month
//! day-of-week [year]`.
//!
//! ```text
//! *  every            a-b  from a to b, over the end too (22-2, FRI-MON)     a/n  every n-th from a (*/15, 10-40/5)
//! ?  not looked at    a,b  a list                                            JAN-DEC, SUN-SAT (1 is Sunday)
//! day of month: L last, L-3 three before it, LW last weekday, 15W weekday nearest to the 15th
//! day of week:  6L last Friday of the month, 6#3 third Friday of the month
//! ```
//!
//! Only one of the two days is looked at, so exactly one of them must be `?`. Fields are matched against the local time
//! of a zone, second by second; a moment is matched or not, and no next moment is searched for. A parser of our own,
//! since the fields of other cron dialects mean other days (there 0 is Sunday) and the two days are joined by "or".
//! Source: Quartz `CronExpression`.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Weekday};

/// A cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    seconds: Set,
    minutes: Set,
    hours: Set,
    months: Set,
    day: Day,
    years: Set,
}

/// Values that match; `None` is all of them.
type Set = Option<BTreeSet<i16>>;

/// Which days match.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Day {
    /// These days of the month.
    OfMonth(Set),
    /// So many days before the last of the month.
    BeforeLast(i8),
    /// The weekday nearest to a day of the month.
    NearestTo(i8),
    /// The weekday nearest to so many days before the last of the month.
    NearestBeforeLast(i8),
    /// These days of the week, 1 is Sunday.
    OfWeek(Set),
    /// The last such day of the month.
    LastOfWeek(i16),
    /// The n-th such day of the month.
    NthOfWeek(i16, i8),
}

/// A field: its name, the values that it can have, and names for some of them.
struct Field {
    name: &'static str,
    least: i16,
    most: i16,
    names: &'static [&'static str],
}

const SECOND: Field = Field { name: "second", least: 0, most: 59, names: &[] };
const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY_OF_MONTH: Field = Field { name: "day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field { name: "month", least: 1, most: 12, names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"] };
const DAY_OF_WEEK: Field = Field { name: "day of week", least: 1, most: 7, names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] };
const YEAR: Field = Field { name: "year", least: 1970, most: 2199, names: &[] };

impl Cron {
    /// Reads an expression. The error says which field is wrong and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let fields: Vec<&str> = upper.split_whitespace().collect();
        let (second, minute, hour, of_month, month, of_week, year) = match fields.as_slice() {
            [second, minute, hour, of_month, month, of_week] => (second, minute, hour, of_month, month, of_week, &"*"),
            [second, minute, hour, of_month, month, of_week, year] => (second, minute, hour, of_month, month, of_week, year),
            _ => return Err(format!("{} fields: expected 6 or 7, from second to day of week and perhaps a year", fields.len())),
        };
        let day = match (*of_month == "?", *of_week == "?") {
            (true, false) => day_of_week(of_week)?,
            (false, true) => day_of_month(of_month)?,
            _ => return Err("expected \"?\" as exactly one of day of month and day of week".to_owned()),
        };
        Ok(Self { seconds: SECOND.set(second)?, minutes: MINUTE.set(minute)?, hours: HOUR.set(hour)?, months: MONTH.set(month)?, day, years: YEAR.set(year)? })
    }

    /// True when a local time matches.
    #[must_use]
    pub fn contains(&self, local: DateTime) -> bool {
        has(&self.seconds, local.second().into())
            && has(&self.minutes, local.minute().into())
            && has(&self.hours, local.hour().into())
            && has(&self.months, local.month().into())
            && has(&self.years, local.year())
            && self.day.contains(local.date())
    }
}

fn has(set: &Set, value: i16) -> bool {
    set.as_ref().is_none_or(|set| set.contains(&value))
}

impl Day {
    fn contains(&self, date: Date) -> bool {
        let (day, last) = (date.day(), date.days_in_month());
        let of_week = i16::from(date.weekday().to_sunday_one_offset());
        match self {
            Self::OfMonth(days) => has(days, day.into()),
            Self::BeforeLast(before) => day == last - before,
            Self::NearestTo(to) => nearest_weekday(date, *to) == Some(day),
            Self::NearestBeforeLast(before) => nearest_weekday(date, last - before) == Some(day),
            Self::OfWeek(days) => has(days, of_week),
            Self::LastOfWeek(wanted) => of_week == *wanted && day > last - 7,
            Self::NthOfWeek(wanted, nth) => of_week == *wanted && (day - 1) / 7 + 1 == *nth,
        }
    }
}

/// The day of the weekday nearest to a day, within the month of `date`.
fn nearest_weekday(date: Date, day: i8) -> Option<i8> {
    let last = date.days_in_month();
    let weekday = Date::new(date.year(), date.month(), day).ok()?.weekday();
    Some(match weekday {
        Weekday::Saturday if day == 1 => day + 2,
        Weekday::Saturday => day - 1,
        Weekday::Sunday if day == last => day - 2,
        Weekday::Sunday => day + 1,
        _ => day,
    })
}

fn day_of_month(text: &str) -> Result<Day, String> {
    let wrong = || format!("day of month \"{text}\": expected 1 to 31, L, L-3, LW, 15W, lists or ranges");
    if let Some(rest) = text.strip_prefix('L') {
        let (before, weekday) = rest.strip_suffix('W').map_or((rest, false), |before| (before, true));
        let before: i8 =
            if before.is_empty() { 0 } else { before.strip_prefix('-').and_then(|n| n.parse().ok()).filter(|n| (0..=30).contains(n)).ok_or_else(wrong)? };
        return Ok(if weekday { Day::NearestBeforeLast(before) } else { Day::BeforeLast(before) });
    }
    if let Some(day) = text.strip_suffix('W') {
        return Ok(Day::NearestTo(day.parse().ok().filter(|day| (1..=31).contains(day)).ok_or_else(wrong)?));
    }
    DAY_OF_MONTH.set(text).map(Day::OfMonth)
}

fn day_of_week(text: &str) -> Result<Day, String> {
    if text == "L" {
        return Ok(Day::OfWeek(Some(BTreeSet::from([7]))));
    }
    if let Some((day, nth)) = text.split_once('#') {
        let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth)).ok_or_else(|| format!("day of week \"{text}\": expected 1 to 5 after \"#\""))?;
        return Ok(Day::NthOfWeek(DAY_OF_WEEK.value(day)?, nth));
    }
    match text.strip_suffix('L') {
        Some(day) => DAY_OF_WEEK.value(day).map(Day::LastOfWeek),
        None => DAY_OF_WEEK.set(text).map(Day::OfWeek),
    }
}

impl Field {
    fn value(&self, text: &str) -> Result<i16, String> {
        let named = self.names.iter().zip(self.least..).find(|(name, _)| **name == text).map(|(_, value)| value);
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = named.or_else(|| text.parse().ok().filter(|_| digits)).filter(|value| (self.least..=self.most).contains(value));
        value.ok_or_else(|| format!("{} \"{text}\": expected {} to {}", self.name, self.least, self.most))
    }

    /// A list of values, ranges and steps; `None` is every value.
    fn set(&self, text: &str) -> Result<Set, String> {
        if text == "*" {
            return Ok(None);
        }
        let mut set = BTreeSet::new();
        for part in text.split(',') {
            let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
            let step = match step {
                None => None,
                Some(step) => {
                    let most = self.most - self.least + 1;
                    let wrong = || format!("{} \"{part}\": expected a step of 1 to {most} after \"/\"", self.name);
                    Some(step.parse().ok().filter(|step: &i16| (1..=most).contains(step)).ok_or_else(wrong)?)
                }
            };
            let (first, last) = match (range, range.split_once('-')) {
                ("*", _) => (self.least, self.most),
                // Quartz takes "/15" for "*/15"
                ("", _) if step.is_some() => (self.least, self.most),
                (_, Some((first, last))) => (self.value(first)?, self.value(last)?),
                (single, None) => {
                    let value = self.value(single)?;
                    (value, if step.is_some() { self.most } else { value })
                }
            };
            if last < first && self.name == YEAR.name {
                return Err(format!("{} \"{part}\": expected the earlier year first", self.name));
            }
            // a range that ends before it begins goes over the end of the field
            let span = self.most - self.least + 1;
            let end = if last < first { last + span } else { last };
            let step = usize::try_from(step.unwrap_or(1)).unwrap_or(1);
            set.extend((first..=end).step_by(step).map(|value| if value > self.most { value - span } else { value }));
        }
        Ok(Some(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(expression: &str, time: &str) -> bool {
        Cron::parse(expression).expect(expression).contains(time.parse().expect(time))
    }

    #[test]
    fn every_form_of_a_field_matches_its_values_and_no_others() {
        for (expression, inside, outside) in [
            ("* * 14-16 * * ?", "2023-12-14T14:01:30", "2023-12-14T13:59:50"),
            ("* * 22-2 * * ?", "2023-12-14T01:00:00", "2023-12-14T03:00:00"),
            ("0/15 * * * * ?", "2023-12-14T14:01:45", "2023-12-14T14:01:44"),
            ("* */20 * * * ?", "2023-12-14T14:40:01", "2023-12-14T14:41:01"),
            ("* 10-40/5 * * * ?", "2023-12-14T14:35:01", "2023-12-14T14:45:01"),
            ("* * * ? * 2,5", "2023-12-14T14:01:30", "2023-12-13T14:01:30"),
            ("* * * ? * fri-mon", "2023-12-17T14:01:30", "2023-12-14T14:01:30"),
            ("* * * ? NOV-FEB *", "2024-01-14T14:01:30", "2024-03-14T14:01:30"),
            ("* * * 1,31 * ?", "2024-01-31T00:00:00", "2024-01-30T00:00:00"),
            ("* * * L * ?", "2024-02-29T00:00:00", "2024-02-28T00:00:00"),
            ("* * * L-3 * ?", "2024-02-26T00:00:00", "2024-02-29T00:00:00"),
            ("* * * LW * ?", "2024-03-29T00:00:00", "2024-03-31T00:00:00"),
            ("* * * 15W * ?", "2024-06-14T00:00:00", "2024-06-15T00:00:00"),
            ("* * * 1W * ?", "2024-06-03T00:00:00", "2024-06-01T00:00:00"),
            ("* * * ? * L", "2024-06-08T00:00:00", "2024-06-07T00:00:00"),
            ("* * * ? * 6L", "2024-06-28T00:00:00", "2024-06-21T00:00:00"),
            ("* * * ? * FRI#3", "2024-06-21T00:00:00", "2024-06-14T00:00:00"),
            ("* * * * * ? 2026-2027", "2026-06-21T00:00:00", "2028-06-14T00:00:00"),
        ] {
            assert!(hits(expression, inside), "{expression} at {inside}");
            assert!(!hits(expression, outside), "{expression} at {outside}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused_with_its_field() {
        for (expression, said) in [
            ("* * * * *", "5 fields"),
            ("* * * * * * * *", "8 fields"),
            ("* * * * * *", "exactly one"),
            ("* * * ? * ?", "exactly one"),
            ("* * * ? * 2,5555", "day of week \"5555\""),
            ("60 * * * * ?", "second \"60\""),
            ("* +5 * * * ?", "minute \"+5\""),
            ("* * 24 * * ?", "hour \"24\""),
            ("* * * 0 * ?", "day of month \"0\""),
            ("* * * 32W * ?", "day of month \"32W\""),
            ("* * * L-31 * ?", "day of month \"L-31\""),
            ("* * * * FOO ?", "month \"FOO\""),
            ("* * * ? * 6#6", "after \"#\""),
            ("0/0 * * * * ?", "a step"),
            ("* * * * * ? 2027-2026", "the earlier year"),
        ] {
            let error = Cron::parse(expression).expect_err(expression);
            assert!(error.contains(said), "{expression}: {error}");
        }
    }
}
