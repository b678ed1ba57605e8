//! A JSON-RPC peer.

#![forbid(unsafe_code)]
mod duplex;
mod error;
mod frame;
mod peer;

pub use duplex::{Duplex, FRAME_BYTES_MAX};
pub use error::{CallError, CloseReason};
pub use peer::{
    Budget, Inbox, Incoming, LagNotice, Limits, Notification, Outgoing, Params, Peer, PeerOptions,
    Request, RequestIds, Responder, Scope, Stream, UNANSWERED_IN_PROCESS_MAX, Waiting,
};
