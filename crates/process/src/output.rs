//! What a process told: numbered, delivered once, kept head and tail.
//!
//! Everything here is a plain value without I/O, locks or time. The one number line of a process is
//! made here and nowhere else: output, exit and close get their numbers when they are put in, so
//! that there are no gaps. Who reads the streams, and who is woken, is the driver's business.

mod store;
mod stream;

pub(crate) use store::{Picture, Store};
