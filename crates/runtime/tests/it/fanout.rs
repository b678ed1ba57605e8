//! Fan-out jobs: claimed, run, settled, stopped and recovered, with an engine that plays scripts.

mod crashes;
mod recovery;
mod reports;
mod scheduling;
mod stopping;
mod support;
mod tools;
