//! The words on Turnlane's wire.
//!
//! This crate owns every shape that crosses a process boundary: the JSON-RPC [`envelope`], the
//! [`error`] object. It has no I/O, no tokio and no clock: a type here can be used by a server, a
//! client and a test alike.
//!
//! ```
//! use turnlane_protocol::envelope::{Message, decode};
//!
//! let frame = br#"{"id":7,"method":"thread/read","params":{"threadId":"t"}}"#;
//! let Ok(Message::Request { id, method, .. }) = decode(frame) else { unreachable!() };
//! assert_eq!((id.as_i64(), method.as_ref()), (Some(7), "thread/read"));
//! ```

#![forbid(unsafe_code)]

pub mod approval;
pub mod envelope;
pub mod error;
pub mod handshake;
pub mod ids;
pub mod input;
pub mod item;
pub mod method;
pub mod notification;
pub mod params;
pub mod policy;
pub mod thread;
pub mod turn;
pub mod turn_error;
pub mod usage;
