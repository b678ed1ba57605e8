//! Durable state behind one trait: threads, turns, items, lanes and their queues.
//!
//! This crate owns what survives a crash. Its promise: an operation is carried out whole or not at
//! all, in the order of submission, and its end is reported only when it is as durable as its
//! documentation says. At most one row of a lane is claimed, started or being decided, whoever
//! asks and however many processes share the store; the database itself holds that.
//!
//! Payloads are opaque: the store knows the order, the state and the owner of things, never their
//! meaning. What should happen to a row is decided by the lane's rules in the runtime.

#![forbid(unsafe_code)]

pub mod approval;
pub mod crash;
mod error;
mod ids;
mod json;
pub mod lane;
pub mod queue;
pub mod recovery;
pub mod sqlite;
mod store;
pub mod thread;
pub mod turn;
mod worker;

pub use error::{Source, StoreError};
pub use ids::{ApprovalId, Fence, Grip, RowId, ThreadId, TurnId, WorkerId};
pub use json::Json;
pub use store::{Store, Work};
pub use worker::{Health, Worker};
