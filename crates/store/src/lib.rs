//! Durable state behind one trait: threads, turns, items, lanes and their queues, fan-out jobs.
//!
//! This crate owns what survives a crash. Its promise: an operation is carried out whole or not at
//! all, in the order of submission, and its end is reported only when it is as durable as its
//! documentation says. At most one row of a lane is claimed, started or being decided, whoever
//! asks and however many processes share the store; the database itself holds that.
//!
//! ```
//! use turnlane_store::sqlite::SqliteStore;
//! use turnlane_store::thread::{Listed, NewThread, ThreadQuery};
//! use turnlane_store::{Json, Store, Worker};
//! use uuid::Uuid;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnlane_store::StoreError> {
//! let worker = Worker {
//!     id: Uuid::from_u128(1).into(),
//!     pid: std::process::id(),
//!     pid_start: 0,
//!     boot_id: String::new(),
//!     host: String::new(),
//!     endpoint: None,
//!     kind: "example".into(),
//!     started_ms: 0,
//! };
//! let store = SqliteStore::open_in_memory(worker)?;
//! let made = store.create_thread(NewThread {
//!     id: Uuid::from_u128(2).into(),
//!     engine: "scripted".into(),
//!     settings: Json::new("{}"),
//!     facts: Json::new("{}"),
//!     name: Some("first".into()),
//!     cwd: "/".into(),
//!     source: "example".into(),
//!     provider: "nobody".into(),
//!     parent: None,
//!     binding: None,
//!     listed: Listed::Yes,
//!     max_depth: 1_000,
//!     at_ms: 1,
//! });
//! let made = made.await?; // submitted above, committed here
//! let page = store.threads(ThreadQuery::default()).await?;
//! assert_eq!(page.rows, [made]);
//! store.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Payloads are opaque: the store knows the order, the state and the owner of things, never their
//! meaning. What should happen to a row is decided by the lane's rules in the runtime.

#![forbid(unsafe_code)]

pub mod approval;
mod census;
pub mod crash;
mod error;
pub mod fanout;
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

pub use census::{Census, Times};
pub use error::{LockHolder, Source, StoreError};
pub use ids::{ApprovalId, Fence, Grip, RowId, ThreadId, TurnId, WorkerId};
pub use json::Json;
pub use store::{Store, Work};
pub use worker::{Health, Unjudged, Worker, WorkerLife};
