//! How long to wait before something is tried again.
//!
//! The invariant here: pauses grow to a bound and two clients do not keep step. Whether something may
//! be tried again at all is decided by whoever asks.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Doubling pauses with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// The first pause.
    pub(super) first: Duration,
    /// No pause is longer, jitter aside.
    pub(super) longest: Duration,
    /// How far a pause may be off, in percent, to either side.
    pub(super) jitter_percent: u32,
}

impl Pace {
    /// The pause before the try after `failed` failed ones.
    pub(super) fn pause(&self, failed: u32) -> Duration {
        let grown = 1_u32
            .checked_shl(failed)
            .and_then(|times| self.first.checked_mul(times))
            .unwrap_or(self.longest);
        jittered(grown.min(self.longest), self.jitter_percent, random())
    }
}

/// Tries since a connection was last steady.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tries(u32);

impl Tries {
    /// A connection that was up for `up` has ended; one that was steady gives all tries back.
    pub(super) fn ended(&mut self, up: Duration, steady: Duration) {
        if up >= steady {
            self.0 = 0;
        }
    }

    /// Takes the next try, unless there were `max`; how many there were before.
    pub(super) fn take(&mut self, max: Option<u32>) -> Result<u32, u32> {
        let before = self.0;
        if max.is_some_and(|max| before >= max) {
            return Err(before);
        }
        self.0 = before.saturating_add(1);
        Ok(before)
    }
}

/// `pause`, moved by up to `percent` to either side, as `random` says.
fn jittered(pause: Duration, percent: u32, random: u32) -> Duration {
    let spread = f64::from(percent) / 100.0;
    let place = f64::from(random) / f64::from(u32::MAX) * 2.0 - 1.0;
    Duration::try_from_secs_f64(pause.as_secs_f64() * (1.0 + spread * place)).unwrap_or(pause)
}

/// Enough for jitter, and nothing else: the standard library's seed of hash tables.
fn random() -> u32 {
    let bits = RandomState::new().build_hasher().finish();
    u32::try_from(bits >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(10),
        jitter_percent: 10,
    };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let bare = Pace {
            jitter_percent: 0,
            ..PACE
        };
        let pauses: Vec<u128> = (0..9).map(|n| bare.pause(n).as_millis()).collect();
        assert_eq!(
            pauses,
            [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
        );
        assert_eq!(bare.pause(40), PACE.longest);
        assert_eq!(bare.pause(u32::MAX), PACE.longest);
    }

    #[test]
    fn tries_are_given_back_by_a_connection_that_was_steady_and_by_no_other() {
        let steady = Duration::from_secs(30);
        let mut tries = Tries::default();
        assert_eq!([tries.take(Some(2)), tries.take(Some(2))], [Ok(0), Ok(1)]);
        tries.ended(Duration::from_secs(29), steady);
        assert_eq!(tries.take(Some(2)), Err(2));
        tries.ended(steady, steady);
        assert_eq!(tries.take(Some(2)), Ok(0));
        assert_eq!(Tries(u32::MAX).take(None), Ok(u32::MAX));
    }

    #[test]
    fn jitter_stays_in_its_bounds_on_both_sides() {
        let pause = Duration::from_secs(1);
        assert_eq!(jittered(pause, 10, 0).as_millis(), 900);
        assert_eq!(jittered(pause, 10, u32::MAX).as_millis(), 1100);
        for _ in 0..100 {
            let pause = PACE.pause(0).as_millis();
            assert!((90..=110).contains(&pause), "{pause}");
        }
    }
}
