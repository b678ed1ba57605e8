//! Everything the SDK promises, against a server that a test plays itself (`double.rs`), against the
//! embedded Turnlane server, and, where it is installed, against the real Codex.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod approvals;
mod automation;
#[cfg(feature = "blocking")]
mod blocking;
mod default_server;
mod defects;
mod double;
mod ends;
mod examples;
mod fuzzed;
mod hooks;
mod jobs;
mod kills;
mod lag;
mod leaving;
mod link;
mod mixing;
mod queue;
mod reattach;
mod retries;
mod reviews;
mod rig;
mod streams;
mod threads;
mod turns;
mod waiting;
mod world;
