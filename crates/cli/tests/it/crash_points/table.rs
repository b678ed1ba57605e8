//! The cases: a point, what came before it, what is found, what follows.
//!
//! The invariant here: each line of the documented table of crash points that needs neither a hook nor
//! a foreign engine has a case; both sides of a commit are two cases.

mod adding;
mod changing;
mod recovering;
mod running;

use super::{At, Case, Do, Last};

/// All of them.
pub(super) const CASES: &[&[Case]] = &[
    adding::ADD,
    adding::CLAIM,
    running::RUN,
    running::END,
    running::INTERRUPT,
    changing::CHANGE,
    changing::HOLD,
    recovering::TAKE,
    recovering::RECOVER,
];

const fn case(says: &'static str, at: At) -> Case {
    Case {
        says,
        at,
        steps: &[],
        last: Last::Answered,
        found: &[],
        then: &[],
        rest: &[],
    }
}
