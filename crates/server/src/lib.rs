//! The app-server: Codex's protocol on one side, the runtime on the other.
//!
//! This crate owns connections: who is at the other end and what it can take, which requests of it
//! are under way and in which order, which threads it follows, what it is asked. A request becomes
//! one call of the runtime, a notice of the runtime becomes bytes, once, for everybody who gets them.
//! The invariant: every request is answered exactly once, and nothing here ever waits for a client
//! to read.
//!
//! It keeps nothing that outlives a connection and decides nothing about turns; that is the
//! runtime's business. Framing and back-pressure are `turnlane-rpc`'s.
//!
//! The file to open first is `methods.rs`, the table of all methods.

#![forbid(unsafe_code)]

mod answers;
mod bindings;
mod broker;
mod commands;
mod connection;
mod cursors;
mod embedded;
mod encode;
mod errors;
mod git;
mod handlers;
mod health;
mod hub;
mod job_feed;
mod journal;
mod listening;
mod methods;
mod metrics;
mod options;
mod rights;
mod server;
mod settings;
mod subscriptions;
mod view;
mod watcher;

pub use answers::{Facts, Key};
pub use embedded::{Embedded, EmbeddedConfig, EmbeddedError};
/// Copies of files that queued turns named, for commands that delete threads without a server.
pub use handlers::thread_queue::{
    of_thread as attachments_of, remove_of_thread as remove_attachments,
    still_of_thread as attachments_still_of,
};
pub use listening::Door;
pub use options::{Defaults, FanoutOptions, Options, PeerKind, ProcessSpawn, Wanted};
#[doc(hidden)]
pub use rights::DOORS;
pub use server::Server;

/// The namespaces of ours that are built, as `initialize` names them.
pub fn features() -> Vec<String> {
    ["queue", "approval", "replay", "fanout"]
        .map(str::to_owned)
        .to_vec()
}
