//! The rules of running jobs: pure functions of what the store shows and of the time.
//!
//! The invariants here: the end of a turn means the same for its item whether the worker that ran it
//! settles it or another one after a crash; a limit of the provider, a pause or an orderly stop uses
//! no retry; three lost workers fail an item.
//!
//! `ends` decides about ended attempts, `pace` about places, caps and the breaker. The doing is in
//! `runner`.

mod ends;
mod pace;

pub(crate) use ends::{
    Access, Consequence, Decision, EndedAttempt, Harvest, IDLE_TIMEOUT, Pause, RepairCause, decide,
    schema_error,
};
pub(crate) use pace::{Pace, UsageWindow, breaker, claimable};

#[cfg(test)]
mod tests;
