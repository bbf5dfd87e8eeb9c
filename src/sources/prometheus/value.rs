//! From the text of a sample to a value of a field, or why it is none.
//!
//! Prometheus holds doubles. A whole number is exact up to 2^53 and may be another one above it, so none above that is
//! taken; a fraction is no whole number, and is not rounded behind the back of whoever wrote the query. What is not a
//! number at all (`NaN` of 0/0, infinity) is unknown, and unknown is never zero.

use serde_json::Value;

use crate::config::prometheus::field::Holds;
use crate::core::units::Timestamp;

/// Whole numbers up to this are exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// So far from a whole number a sum of doubles may lie by rounding alone.
const ROUNDING: f64 = 1e-9;

/// The value of a sample. The error says what came and what was expected.
pub fn of(holds: &Holds, text: &str) -> Result<Value, String> {
    let shown = || text.chars().filter(|letter| !letter.is_control()).take(40).collect::<String>();
    let number: f64 = text.parse().map_err(|_| format!("\"{}\" is no number", shown()))?;
    if !number.is_finite() {
        return Err(format!("{}, which is no number: expected a finite one", shown()));
    }
    match holds {
        Holds::Whole { signed } => whole(number, *signed).ok_or_else(|| {
            if number.abs() > EXACT {
                return format!("{} is too large to be exact: expected at most 2^53", shown());
            }
            if number.fract().abs() > ROUNDING * number.abs().max(1.0) {
                return format!("{} is no whole number: expected one, as from round() or ceil()", shown());
            }
            format!("{} is negative: expected at least 0", shown())
        }),
        Holds::Number if number < 0.0 => Err(format!("{} is negative: expected at least 0", shown())),
        Holds::Number => Ok(Value::from(number)),
        Holds::Flag => match text.parse() {
            Ok(0.0) => Ok(Value::from(false)),
            Ok(1.0) => Ok(Value::from(true)),
            Ok(_) | Err(_) => Err(format!("{} is neither 0 nor 1", shown())),
        },
        Holds::Time => time(number).map(|at| Value::from(at.to_string())).ok_or_else(|| format!("{} is no time: expected seconds since 1970", shown())),
        Holds::Text(_) => Ok(Value::Null),
    }
}

fn whole(number: f64, signed: bool) -> Option<Value> {
    let near = number.round();
    if near.abs() > EXACT || (number - near).abs() > ROUNDING * near.abs().max(1.0) || (near < 0.0 && !signed) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole and at most 2^53 by the checks above")]
    let exact = near as i64;
    Some(Value::from(exact))
}

/// A time in seconds since 1970. Milliseconds, which end up some thousand years ahead, are none.
pub fn time(seconds: f64) -> Option<Timestamp> {
    const LATEST_SECONDS: f64 = 10_000_000_000.0;
    if !(seconds > 0.0 && seconds < LATEST_SECONDS) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^53 milliseconds by the check above")]
    let millis = (seconds * 1000.0).round() as i64;
    Timestamp::from_millisecond(millis).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_come_out_exact_or_not_at_all() {
        let (whole, signed) = (Holds::Whole { signed: false }, Holds::Whole { signed: true });
        for (holds, text, expected) in [
            (&whole, "12", json!(12)),
            (&whole, "1.5e+06", json!(1_500_000)),
            (&whole, "9.007199254740992e+15", json!(9_007_199_254_740_992_u64)),
            (&whole, "119.99999999999999", json!(120)),
            (&whole, "-0", json!(0)),
            (&signed, "-5", json!(-5)),
            (&Holds::Number, "0.25", json!(0.25)),
            (&Holds::Flag, "1", json!(true)),
            (&Holds::Flag, "0", json!(false)),
            (&Holds::Time, "1796092800.5", json!("2026-12-01T02:40:00.5Z")),
        ] {
            assert_eq!(of(holds, text), Ok(expected), "{text}");
        }
        for (holds, text, words) in [
            (&whole, "NaN", "NaN, which is no number"),
            (&whole, "+Inf", "+Inf, which is no number"),
            (&Holds::Number, "-Inf", "-Inf, which is no number"),
            (&whole, "12.5", "12.5 is no whole number: expected one, as from round() or ceil()"),
            (&whole, "1e16", "too large to be exact"),
            (&whole, "-1", "-1 is negative"),
            (&signed, "-1e17", "too large to be exact"),
            (&Holds::Number, "-0.5", "-0.5 is negative"),
            (&Holds::Flag, "2", "2 is neither 0 nor 1"),
            (&Holds::Time, "1796092800000", "is no time"),
            (&Holds::Time, "0", "is no time"),
            (&whole, "many", "\"many\" is no number"),
            (&whole, "", "\"\" is no number"),
        ] {
            let error = of(holds, text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
