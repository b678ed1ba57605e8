//! Fixed intervals: when something recurring is due next.
//!
//! This module owns the arithmetic of a [`Grid`], for automation in clients and for schedules in
//! servers alike. The invariant here: every due time stands on the grid of the first one, so runs
//! that take long make nothing drift, and points that passed meanwhile are left out, never made up
//! for in a burst.
//!
//! It has no clock and knows no calendar: cron, zones and policies for what was missed belong to the
//! runtime.

/// The instants `due_ns + k * every_ns`.
///
/// Where zero is does not matter, only that all instants count from the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// One point of it: when the latest run was due, in nanoseconds.
    pub due_ns: u128,
    /// From one point to the next, in nanoseconds.
    pub every_ns: u128,
}

/// The first point of the grid after the due one that is later than `finished_ns`.
///
/// A point exactly at `finished_ns` counts as missed. `None` when there is no such point in 128 bits,
/// or when the interval is zero.
///
/// ```
/// use turnlane_protocol::schedule::{Grid, next_on_grid};
///
/// let grid = Grid { due_ns: 100, every_ns: 10 };
/// assert_eq!(next_on_grid(grid, 103), Some(110));
/// assert_eq!(next_on_grid(grid, 135), Some(140));
/// assert_eq!(next_on_grid(grid, 140), Some(150));
/// ```
pub fn next_on_grid(grid: Grid, finished_ns: u128) -> Option<u128> {
    let Grid { due_ns, every_ns } = grid;
    // A clock set back during a run makes it end before it was due; the next point is the next one
    // all the same, for no point is due twice.
    let passed = finished_ns
        .saturating_sub(due_ns)
        .checked_div(every_ns)?
        .checked_add(1)?;
    due_ns.checked_add(passed.checked_mul(every_ns)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u128 = 1_000_000;
    const SECOND: u128 = 1_000 * MS;

    fn next(due_ns: u128, every_ns: u128, finished_ns: u128) -> Option<u128> {
        next_on_grid(Grid { due_ns, every_ns }, finished_ns)
    }

    #[test]
    fn the_examples_of_the_contract_hold() {
        let due = 100 * SECOND;
        assert_eq!(
            next(due, 10 * MS, due + 35 * MS),
            Some(due + 40 * MS),
            "three points were missed"
        );
        assert_eq!(
            next(due, 10 * MS, due + 40 * MS),
            Some(due + 50 * MS),
            "a point exactly at the end counts as missed"
        );
    }

    #[test]
    fn a_run_that_ends_in_time_is_followed_by_the_next_point() {
        assert_eq!(next(100, 10, 100), Some(110));
        assert_eq!(next(100, 10, 109), Some(110));
        assert_eq!(next(100, 10, 110), Some(120));
    }

    #[test]
    fn a_run_that_ended_before_it_was_due_repeats_nothing() {
        assert_eq!(next(100, 10, 3), Some(110));
    }

    #[test]
    fn what_does_not_fit_is_none() {
        assert_eq!(next(u128::MAX, 1, 0), None, "the sum");
        assert_eq!(next(0, u128::MAX, u128::MAX), None, "the product");
        assert_eq!(next(0, 1, u128::MAX), None, "the count");
        assert_eq!(next(0, u128::MAX, 0), Some(u128::MAX), "the last that fits");
        assert_eq!(next(7, 0, 9), None, "an interval of zero has no next point");
    }

    proptest! {
        #[test]
        fn the_next_point_is_on_the_grid_later_than_the_end_and_the_first_such(
            due in 0..u128::from(u64::MAX),
            every in 1..u128::from(u64::MAX),
            finished in 0..u128::from(u64::MAX),
        ) {
            let next = next(due, every, finished).unwrap();
            prop_assert!(next > finished && next > due);
            prop_assert_eq!((next - due) % every, 0);
            let before = next - every;
            prop_assert!(before == due || before <= finished, "a point was left out");
        }

        #[test]
        fn no_sequence_of_runs_drifts_or_bursts(
            first in 0..u128::from(u64::MAX),
            every in 1..1_000_000_u128,
            lengths in prop::collection::vec(0..5_000_000_u128, 1..50),
        ) {
            let mut due = first;
            for length in lengths {
                let finished = due + length;
                let following = next(due, every, finished).unwrap();
                prop_assert_eq!((following - first) % every, 0);
                prop_assert!(following > finished);
                prop_assert!(following - finished <= every, "it waits for one interval at most");
                due = following;
            }
        }

        #[test]
        fn no_number_panics_and_what_is_given_is_right(
            due in any::<u128>(),
            every in any::<u128>(),
            finished in any::<u128>(),
        ) {
            if let Some(next) = next(due, every, finished) {
                prop_assert!(next > finished && next > due);
                prop_assert_eq!((next - due) % every, 0);
            }
        }
    }
}
