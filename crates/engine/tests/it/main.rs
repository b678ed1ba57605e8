//! The boundary and the scripted engine as a lane sees them.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod boundary;
mod endings;
mod hooked;
mod scripts;
mod steers;
mod steps;
mod support;
