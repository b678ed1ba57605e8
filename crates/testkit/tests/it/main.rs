//! What the test kit can do, shown from outside: over sockets, with processes, on disk.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a failed test, and says where"
)]

mod failures;
mod gates;
mod homes;
mod http;
mod processes;
mod replies;
mod scripts;
