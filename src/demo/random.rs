//! A small generator of our own (xorshift64*): the demonstration needs variety that is the same on every run, not secrecy.
//!
//! Source: G. Marsaglia, "Xorshift RNGs" (2003), with the multiplication of S. Vigna.

/// A generator with a fixed seed.
pub(super) struct Random(u64);

impl Random {
    /// The same seed gives the same numbers; zero would give only zeros and becomes one.
    pub(super) const fn new(seed: u64) -> Self {
        Self(if seed == 0 { 1 } else { seed })
    }

    /// The next number.
    pub(super) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from `low` up to `high`.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        let top = u32::try_from(self.next() >> 32).unwrap_or(u32::MAX);
        low + (high - low) * (f64::from(top) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        assert_eq!((0..9).map(|_| one.next()).collect::<Vec<_>>(), (0..9).map(|_| two.next()).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_stay_in_their_range_and_spread_over_it() {
        let mut random = Random::new(0);
        let numbers: Vec<f64> = (0..10_000).map(|_| random.between(2.0, 4.0)).collect();
        assert!(numbers.iter().all(|n| (2.0..=4.0).contains(n)));
        #[expect(clippy::cast_precision_loss, reason = "ten thousand fits a double")]
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        assert!((mean - 3.0).abs() < 0.05, "mean {mean}");
    }
}
