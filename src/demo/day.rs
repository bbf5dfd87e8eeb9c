//! One day of load, and how fast it goes by.
//!
//! The day is real: a Friday of taxi passengers in New York, counted each half hour (`day/nyc_taxi_friday.csv`, cut from
//! the Numenta Anomaly Benchmark; its licence lies beside it). It starts before dawn, where the load is lowest, has a
//! morning rise that is steeper than any scaler likes, and ends with a long evening. Only its shape is used: the load is
//! given as a share of the day's peak. After the last hour the day begins again.

use std::time::Duration;

/// `timestamp,rate` rows, each half hour of one day.
const ROWS: &str = include_str!("day/nyc_taxi_friday.csv");

/// What a day takes, in simulated seconds.
const DAY_SECONDS: f64 = 86_400.0;

/// How long a simulated day takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Real time for one simulated day; at least a minute.
    pub day: Duration,
}

impl Default for Pace {
    /// A day in twelve minutes: an hour of streaming ingestion is half a minute.
    fn default() -> Self {
        Self { day: Duration::from_secs(12 * 60) }
    }
}

impl Pace {
    /// Real seconds for so many simulated ones.
    pub(super) fn real(self, simulated: f64) -> f64 {
        simulated * self.day_seconds() / DAY_SECONDS
    }

    fn day_seconds(self) -> f64 {
        self.day.max(Duration::from_secs(60)).as_secs_f64()
    }
}

/// The load over the day.
pub(super) struct Day {
    shares: Vec<f64>,
    pace: Pace,
}

impl Day {
    /// Reads the embedded rows.
    pub(super) fn new(pace: Pace) -> Self {
        let rates: Vec<f64> = ROWS.lines().filter_map(|row| row.split_once(',')?.1.trim().parse().ok()).collect();
        let peak = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        Self { shares: rates.into_iter().map(|rate| rate / peak).collect(), pace }
    }

    /// The load at so many real seconds since the start, as a share of the day's peak; straight lines between the rows.
    pub(super) fn share(&self, seconds: f64) -> f64 {
        let turn = (seconds / self.pace.day_seconds()).rem_euclid(1.0);
        let count = u32::try_from(self.shares.len()).unwrap_or(0);
        let place = turn * f64::from(count);
        let from = super::whole(place);
        let at = |row: u64| self.shares.get(usize::try_from(row % u64::from(count.max(1))).unwrap_or(0)).copied().unwrap_or(0.0);
        let (left, right) = (at(from), at(from + 1));
        left + (right - left) * place.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_day_has_a_row_for_each_half_hour_and_a_peak_of_one() {
        let day = Day::new(Pace::default());
        assert_eq!(day.shares.len(), 48);
        assert!(day.shares.iter().all(|share| (0.05..=1.0).contains(share)));
        assert!(day.shares.iter().any(|share| *share > 0.999));
    }

    #[test]
    fn the_day_starts_low_and_begins_again_after_its_last_hour() {
        let day = Day::new(Pace::default());
        assert!(day.share(0.0) < 0.25);
        assert!((day.share(0.0) - day.share(720.0)).abs() < 1e-9);
        assert!((day.share(100.0) - day.share(100.0 + 3.0 * 720.0)).abs() < 1e-9);
    }

    #[test]
    fn a_simulated_hour_takes_half_a_minute_at_the_usual_pace() {
        assert!((Pace::default().real(3600.0) - 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_pace_below_a_minute_a_day_is_held_at_a_minute() {
        assert!((Pace { day: Duration::ZERO }.real(86_400.0) - 60.0).abs() < 1e-9);
    }
}
