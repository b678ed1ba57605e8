//! The crate as its users see it, over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on says so by panicking; clippy knows tests, not what they call"
)]

mod auth;
mod connect;
mod frames;
mod independent;
mod listen;
mod strangers;
mod support;
