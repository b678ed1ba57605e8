//! The runtime's integration tests, one module per subject.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod approvals;
mod bindings;
mod crash;
mod drain;
mod dropped;
mod ephemeral;
mod fanout;
mod fanout_files;
mod foreign;
mod held;
mod idle;
mod large;
mod past;
mod processes;
mod requests;
mod retention;
mod sharing;
mod stopping;
mod subscribing;
mod support;
mod threads;
