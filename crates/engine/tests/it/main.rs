//! The boundary and the scripted engine as a lane sees them.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![expect(unsafe_code, reason = "a test binary has no `main` of its own to hook")]

mod boundary;
mod codex;
mod codex_exec;
mod endings;
mod hooked;
mod native;
mod real_steps;
mod scripts;
mod steers;
mod steps;
mod stops;
mod support;

/// Runs before the test runner's `main`: this binary is its own keeper, so that every containment
/// can be tried.
#[used]
#[unsafe(link_section = ".init_array")]
static HOOK: extern "C" fn() = {
    extern "C" fn hook() {
        turnlane_process::keeper_hook();
    }
    hook
};
