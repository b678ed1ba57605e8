//! The process service against real processes.
//!
//! The binary of these tests is also its own keeper, so that every containment can be tried.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![expect(unsafe_code, reason = "a test binary has no `main` of its own to hook")]

mod beginning;
mod containment;
mod containment_host;
mod double_kills;
mod ending;
mod environment;
mod exit;
mod input;
mod limits;
mod many;
mod output;
mod peers;
mod sandbox;
mod speed;
mod support;

/// Runs before the test runner's `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static HOOK: extern "C" fn() = {
    extern "C" fn hook() {
        turnlane_process::keeper_hook();
    }
    hook
};
