//! Tests that cannot run here say so.
//!
//! Written past the test harness, which would keep the text of a passing test to itself.

use std::io::Write as _;

/// Says on standard error that something was not tested, and why.
pub fn skipped(why: impl std::fmt::Display) {
    // Who cannot be told is not listening.
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED: {why}");
}
