//! The native engine: it runs turns by itself, against any provider of the Responses API, with its
//! own tools on the process service.
//!
//! The invariants here: what a provider or a model sends is input, bounded and never trusted; what a
//! model is sent follows from stored entries and settings alone, so a turn after a restart sends the
//! same bytes as one before it; no value of a key leaves this module other than to the provider it
//! belongs to.
//!
//! Lanes, approvals, hooks and the store are the runtime's business; starting and ending processes is
//! the process service's.

pub mod documents;
pub mod failure;
pub mod history;
pub mod instructions;
mod model;
pub mod patch;
pub mod provider;
pub mod redact;
pub mod request;
pub mod retry;
mod sessions;
pub mod sse;
pub mod stream;
mod tools;
