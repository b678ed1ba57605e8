//! Fan-out jobs: claimed, run, settled, stopped and recovered, with an engine that plays scripts.

mod choices;
mod crashes;
mod disk;
mod recovery;
mod reports;
mod scheduling;
mod states;
mod stopping;
mod support;
mod tools;
mod trees;
mod workers;
