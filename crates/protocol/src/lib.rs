//! The words on Turnlane's wire.
//!
//! This crate owns every shape that crosses a process boundary: the JSON-RPC [`envelope`] and its
//! [`error`] object, [`thread`]s, [`turn`]s and their [`item`]s, what callers say ([`input`]) and
//! allow ([`policy`]), the params and answers of [`method`]s, [`approval`]s and
//! [`notification`]s, jobs over many rows ([`fanout`]), and the arithmetic of recurring turns ([`schedule`]). It has no I/O, no tokio
//! and no clock: a type here can be used by a server, a client and a test alike.
//!
//! Two rules decide how strictly something is read. What callers ask of us is read strictly: a word
//! that is not listed is refused, so that nobody gets something near what they wanted. What other
//! engines and servers tell us is read without loss: members, words and types that are not listed
//! are kept and written back as they came.
//!
//! A frame is decoded first, its params when somebody knows their type:
//!
//! ```
//! use turnlane_protocol::envelope::{Message, decode, encode_result};
//! use turnlane_protocol::method::{TurnStartAnswer, TurnStartParams, turn_start};
//! use turnlane_protocol::params;
//! use turnlane_protocol::turn::Turn;
//!
//! let frame = br#"{"id":7,"method":"turn/start","params":{"threadId":"t","input":[]}}"#;
//! let Ok(Message::Request { id, method, params }) = decode(frame) else { unreachable!() };
//! assert_eq!((id.as_i64(), method.as_ref()), (Some(7), turn_start::METHOD));
//!
//! let params: TurnStartParams = params::read(params)?;
//! assert_eq!(params.thread_id, "t");
//!
//! let turn = Turn::accepted("0198c0de-0000-7000-8000-000000000002".parse()?);
//! let answer = encode_result(&id, &TurnStartAnswer { turn, queued_turn: None })?;
//! assert!(answer.starts_with(br#"{"id":7,"result":{"turn":{"id":"0198c0de-"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `schema`, every type also has a JSON Schema, and `schema::documents` makes the
//! files that `turnlane app-server generate-json-schema` writes.

#![forbid(unsafe_code)]

pub mod approval;
pub mod bounds;
pub mod envelope;
pub mod error;
pub mod exec_events;
pub mod exec_server;
pub mod fanout;
pub mod handshake;
pub mod hook;
pub mod ids;
pub mod input;
pub mod item;
pub mod method;
pub mod notification;
pub mod output_schema;
pub mod params;
pub mod policy;
pub mod queue;
pub mod schedule;
#[cfg(feature = "schema")]
pub mod schema;
pub mod strict;
pub mod thread;
pub mod turn;
pub mod turn_error;
pub mod usage;
