//! A JSON-RPC peer.

#![forbid(unsafe_code)]
mod duplex;
mod frame;
pub use duplex::{Duplex, FRAME_BYTES_MAX};
