//! Tests of what is decided after a crash.
