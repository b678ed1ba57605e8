//! The words on the orchestrator's channel: commands in, events out.
//!
//! Owned here: the JSON of dialect v1 and v2, which command a frame is, and how an event is cut until it
//! fits a frame. The invariant: every frame that comes in is a command or an error with a reason, and
//! every event that goes out fits the frame of its channel. Nothing here does I/O.
//!
//! Which event follows which happening is decided by [`crate::state`]; how frames travel, by
//! [`crate::channel`].

mod command;
mod cut;
mod event;

pub(crate) use command::{
    AfterInterrupt, BadCommand, Command, Cursor, Hello, Injection, Message, Request,
    ShutdownReason, parse,
};
pub(crate) use cut::last_lines;
pub(crate) use event::{Event, Reach, Stamp, Weight};
