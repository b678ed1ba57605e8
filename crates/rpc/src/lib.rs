//! A JSON-RPC peer that never loses a request, and the ways to reach one.
//!
//! This crate owns framing, ids and back-pressure and knows no method: what a request means is its
//! taker's business. A [`Duplex`] is one framed connection (lines, length prefix, websocket, or an
//! in-memory pair); [`Peer::start`] makes it talk. Both sides may ask. Every request is answered
//! exactly once, every call resolves, and nobody ever waits for a reader that is slow.
//!
//! The rules about slow readers and bursts are in one place, the outbox, and are described at
//! [`Limits`]; the tasks of a connection are described in the module `peer`.
//!
//! ```
//! use serde_json::{Value, json};
//! use turnlane_rpc::{Duplex, Incoming, Peer, PeerOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnlane_rpc::CallError> {
//! let (near, far) = Duplex::memory();
//! let (_server, mut inbox) = Peer::start(far, PeerOptions::default());
//! tokio::spawn(async move {
//!     while let Some(Incoming::Request(request)) = inbox.next().await {
//!         request.responder.respond(request.params.parse::<Value>());
//!     }
//! });
//!
//! let (client, _inbox) = Peer::start(near, PeerOptions::default());
//! let answer: Value = client.call("echo", &json!({"n": 1})).await?;
//! assert_eq!(answer, json!({"n": 1}));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod auth;
pub mod connect;
mod duplex;
mod error;
mod frame;
pub mod listen;
mod peer;
mod private_path;

pub use duplex::{Counted, Duplex, FRAME_BYTES_MAX, Frames};
pub use error::{CallError, CloseReason};
pub use frame::{
    BinaryMessages, FrameError, FrameReader, FrameWriter, Framing, Inbound, TooLarge, WriteError,
};
pub use peer::{
    Budget, Inbox, Incoming, LagNotice, Limits, Notification, Outgoing, Params, Peer, PeerOptions,
    Request, RequestIds, Responder, Scope, Stream, UNANSWERED_IN_PROCESS_MAX, Waiting,
};
