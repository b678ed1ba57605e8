//! The types of the wire against JSON written by hand, by chance and by the real Codex.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may stop at the first surprise"
)]

mod approval;
mod documents;
mod envelope;
mod example;
mod exec_server;
mod fanout;
mod handshake;
mod input;
mod item;
mod method;
mod methods_server;
mod methods_threads;
mod notification;
mod policy;
mod queue;
#[cfg(feature = "schema")]
mod schema;
mod thread;
mod transcripts;
mod turn;
