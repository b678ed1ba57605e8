//! What the test kit can do, shown from outside: over sockets, with processes, on disk; and what
//! the JSON-RPC peer does as a process of its own, under bursts and hostile input.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails is a failed test, and says where"
)]

mod burst;
mod clients;
mod echo;
mod failures;
mod gates;
mod homes;
mod hostile;
mod http;
mod processes;
mod replies;
mod scripts;
