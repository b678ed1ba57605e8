//! The keeper of this crate's tests, which are no program of their own.
//!
//! `server_host __keeper` is what ends everything a test's process service has started. It does
//! nothing else; the product's command line is `turnlane`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    turnlane_process::keeper_hook();
    ExitCode::FAILURE
}
