//! Fan-out jobs: claimed, run, settled, stopped and recovered, with an engine that plays scripts.

mod reports;
mod support;
