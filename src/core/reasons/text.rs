//! Numbers as they appear in sentences. Each keeps its plain value for `values`, and prints it with its unit.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::core::units::{Count, Duration};

/// A plain number, at most three digits behind the point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Num(pub f64);

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        #[expect(clippy::cast_possible_truncation, reason = "whole and within what a double holds exactly")]
        if self.0.fract() == 0.0 && self.0.abs() < EXACT { serializer.serialize_i64(self.0 as i64) } else { serializer.serialize_f64(self.0) }
    }
}

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0;
        if !value.is_finite() {
            return f.write_str("unbounded");
        }
        let digits = match value.abs() {
            size if size >= 100.0 => 0,
            size if size >= 1.0 => 1,
            _ => 3,
        };
        let text = format!("{value:.digits$}");
        f.write_str(if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
    }
}

/// Items per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Num(self.0))
    }
}

/// A length of time in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Secs(pub f64);

impl From<Duration> for Secs {
    fn from(duration: Duration) -> Self {
        Self(duration.seconds())
    }
}

impl fmt::Display for Secs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.is_finite() || self.0 > 1e9 {
            return f.write_str("for ever");
        }
        if self.0.abs() < 10.0 {
            return write!(f, "{} s", Num(self.0));
        }
        let whole = self.0.round();
        match jiff::SignedDuration::try_from_secs_f64(whole) {
            Ok(span) => write!(f, "{span:#}"),
            Err(_) => write!(f, "{whole} s"),
        }
    }
}

/// When something is over, in seconds from now; `None` is never.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Gone(pub Option<f64>);

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(seconds) if seconds <= 0.0 => f.write_str("at once"),
            Some(seconds) => write!(f, "in {}", Secs(seconds)),
            None => f.write_str("never"),
        }
    }
}

/// How many vertices are meant, with the verb: "the one vertex is", "all 3 vertices are".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Vertices(pub u64);

impl fmt::Display for Vertices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 1 { f.write_str("the one vertex is") } else { write!(f, "all {} vertices are", self.0) }
    }
}

/// A share of one, printed as percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Share(pub f64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", Num(self.0 * 100.0))
    }
}

/// Something that may be unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Maybe<T>(pub Option<T>);

impl<T: fmt::Display> fmt::Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

impl<T: Serialize> Serialize for Maybe<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Counts with their noun: "1 task", "12 tasks".
macro_rules! counted {
    ($( $(#[doc = $doc:literal])+ $name:ident ($none:literal, $one:literal, $many:literal); )+) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub Count);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    0 => f.write_str($none),
                    1 => write!(f, "1 {}", $one),
                    more => write!(f, "{more} {}", $many),
                }
            }
        }
    )+ };
}

counted! {
    /// Running tasks.
    Tasks("0 tasks", "task", "tasks");
    /// Tasks that wait for a slot.
    PendingTasks("0 pending tasks", "pending task", "pending tasks");
    /// Task slots.
    Slots("0 slots", "slot", "slots");
    /// Task slots that can be had now.
    FreeSlots("0 usable free slots", "usable free slot", "usable free slots");
    /// Task slots of workers that start.
    StartingSlots("0 starting slots", "starting slot", "starting slots");
    /// Workers.
    Workers("0 workers", "worker", "workers");
    /// Workers to be added.
    MoreWorkers("no more workers", "more worker", "more workers");
}

/// The slots of a worker, where they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct WorkerSize(pub Option<Count>);

impl fmt::Display for WorkerSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(slots) => Slots(slots).fmt(f),
            None => f.write_str("a size that is not known yet"),
        }
    }
}

/// Names in a list, the first few of many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Names(pub Vec<String>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        for (index, name) in self.0.iter().take(SHOWN).enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            f.write_str(name)?;
        }
        match self.0.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_short_and_with_their_unit() {
        assert_eq!(Num(12_000.0).to_string(), "12000");
        assert_eq!(Num(8.42).to_string(), "8.4");
        assert_eq!(Num(0.0).to_string(), "0");
        assert_eq!(Num(0.25).to_string(), "0.25");
        assert_eq!(Rate(330.0).to_string(), "330/s");
        assert_eq!(Secs(300.0).to_string(), "5m");
        assert_eq!(Secs(2.0).to_string(), "2 s");
        assert_eq!(Share(0.8).to_string(), "80 %");
        assert_eq!((Gone(None).to_string(), Gone(Some(90.0)).to_string()), ("never".to_owned(), "in 1m 30s".to_owned()));
        assert_eq!((Tasks(1).to_string(), Tasks(0).to_string()), ("1 task".to_owned(), "0 tasks".to_owned()));
        assert_eq!((Vertices(1).to_string(), Vertices(3).to_string()), ("the one vertex is".to_owned(), "all 3 vertices are".to_owned()));
        assert_eq!(Maybe::<Num>(None).to_string(), "unknown");
        assert_eq!((Tasks(1).to_string(), Slots(2).to_string(), MoreWorkers(0).to_string()), ("1 task".into(), "2 slots".into(), "no more workers".into()));
        assert_eq!(Names(vec!["a".into(), "b".into()]).to_string(), "a, b");
    }
}
