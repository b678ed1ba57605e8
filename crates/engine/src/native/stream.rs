//! A model's answer: events in, typed [`Step`]s out.
//!
//! Owned here: the meaning of every event of a streamed response, in whatever disorder a provider
//! sends them, and of a response that comes whole. The invariant: a response has at most one
//! [`Terminal`]; every item that was opened is completed or [left open](Step::LeftOpen) exactly
//! once; a [`Call`] is given out only right before a `Terminal::Completed`, so that trying a broken
//! response again never repeats an effect.
//!
//! Theory of operation: [`ResponseStream`] frames bytes and hands events to an [`Assembler`]. That
//! keeps one slot per output item, found by `output_index`, else by the provider's item id, else as
//! the one opened last, and always of the kind the event speaks of. A slot is done once. At the
//! terminal event the response's own `output` fills what is not done, and what it does not know
//! ends with what arrived.
//!
//! Not here: sockets, timers and retries (the turn loop), what an error means (the error table),
//! and how items are written into the next request. For that, the history must know:
//!
//! - steps come in the order in which items end; their `place` is the order of the output, in
//!   which they are replayed: reasoning before the call it led to.
//! - `raw` is there only for what may be replayed: a message with text, reasoning with
//!   `encrypted_content` from an authoritative item (for the same provider only), a call.
//! - a message is replayed under our id with `status:"completed"`, its refusals as `output_text`;
//!   a call from its fields rather than its `raw`, without an id, and with `{}` for arguments that
//!   are not a JSON object.

mod assemble;
mod complete;
mod grow;
mod locate;
mod reader;
mod slot;
mod step;
mod terminal;
mod wire;

pub use assemble::{Assembler, ITEMS_MAX, Skipped};
pub use reader::{Body, ResponseStream};
pub use step::{Call, CallKind, CompletedItem, Step, StreamError, Terminal};

#[cfg(test)]
mod tests;
