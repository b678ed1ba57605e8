//! Numbers that look random and are the same for the same seed.
//!
//! The invariant here: no state but the seed's, so a run that failed is run again by its seed as far
//! as the test's own choices go; what the processes under test do meanwhile is theirs. Not for keys,
//! tokens or anything else that must not be guessed.

use std::time::Duration;

/// A stream of numbers (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        let below = self.next() % u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(below).unwrap_or_default()
    }

    /// A time shorter than `end`, in whole microseconds.
    pub fn shorter(&mut self, end: Duration) -> Duration {
        let end = u64::try_from(end.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.next() % end.max(1))
    }

    /// One of these, of which there is at least one.
    pub fn of<T: Copy>(&mut self, some: &[T]) -> T {
        some[self.below(some.len())]
    }

    /// Whether this time is one in `many`.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_all_of_them() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        let mut seen = [false; 5];
        for _ in 0..100 {
            let number = one.below(5);
            assert_eq!(number, other.below(5));
            seen[number] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(one.below(0), 0);
        assert_eq!(one.shorter(Duration::ZERO), Duration::ZERO);
        let second = Duration::from_secs(1);
        assert!((0..100).all(|_| one.shorter(second) < second));
    }
}
