//! One lane behind the Command/Event protocol of an orchestrator.
//!
//! Owned here: the words of that protocol (`wire`), the pure state machine that decides which event
//! follows which happening (`state`), the channel to the orchestrator (`channel`) and the loop that
//! connects them to a server ([`run()`]). The invariant: a shim holds no truth. Messages, attempts, outcomes
//! and usage are the lane's, in the store of the server; losing a shim loses nothing, and the next one with
//! the same name goes on.
//!
//! The crate speaks to any server through an SDK client that the caller made. It starts no agent, has no
//! queue and retries no turn: those are the lane's rules. It starts git, to preserve uncommitted work.
//!
//! ```no_run
//! use turnlane_shim::{Exit, Options, Server, ServerKind, Transport, run};
//!
//! # async fn example(client: turnlane::Client, options: Options) {
//! let (_signals, receiver) = tokio::sync::mpsc::channel(1);
//! let kind = ServerKind::Embedded;
//! let linking = async move { Ok(Server { client, kind }) };
//! let exit = run(linking, options, Transport::Stdio, receiver).await;
//! assert!(matches!(exit, Exit::Ordered));
//! # }
//! ```

#![forbid(unsafe_code)]

mod capture;
mod channel;
mod error;
mod lane;
mod log_file;
mod options;
mod preserve;
mod receipts;
mod run;
mod state;
mod stats;
mod wire;

pub use channel::Transport;
pub use error::Exit;
pub use options::{
    Clock, OnBlock, OnDisconnect, OnUnknown, Options, ServerKind, ThreadSettings, binding,
    is_valid_id,
};
pub use run::{Server, StopSignal, run};
