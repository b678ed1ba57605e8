//! The exec-server from outside.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod client;
