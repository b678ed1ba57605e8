//! Placeholder charter.
#![forbid(unsafe_code)]
