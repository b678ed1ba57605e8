//! The parts of the native engine: the one that talks to a model itself.
//!
//! The invariant here: a part is complete by itself and knows no other part's wire; what a model
//! sent is input to be judged, never trusted.
//!
//! Turns are not run here; the engine that joins the parts does that.

pub mod patch;
//! The native engine: turns run by Turnlane itself, against any server of the Responses API.
//!
//! Owned here: the parts of a model call that need no I/O. The invariant: what a provider sends is
//! input, never trusted; every part here is bounded, and no bytes make it panic.
//!
//! Sockets, timers and retries are not here; the turn loop drives these parts with them.

pub mod sse;
pub mod stream;
//! The engine that executes turns by itself: it calls a provider of the Responses API and runs
//! the tools the model asks for.
//!
//! The invariant here: no value of a key leaves this module other than to the provider it belongs
//! to; what is emitted, recorded or logged has passed [`redact`].
//!
//! Lanes, approvals and the store are the runtime's business.

pub mod failure;
pub mod provider;
pub mod redact;
pub mod retry;
//! The engine that runs turns by itself: parts that need neither a network nor a process.
//!
//! The invariant here: what a model is sent follows from stored entries and settings alone, so a
//! turn after a restart sends the same bytes as one before it.
//!
//! Calling a provider, running tools and reporting items is done with these parts, not by them.

pub mod documents;
pub mod history;
pub mod instructions;
pub mod request;
