//! The exec-server against real processes, over real connections.
//!
//! Servers run in the test's own process unless they are to be killed or measured; then they are
//! `exec_host`, which is also the keeper of the others.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod client;
mod death;
mod extensions;
mod hostile;
mod http;
mod process_v1;
mod resume;
mod stalled;
mod support;
mod terminate;
mod v0;
