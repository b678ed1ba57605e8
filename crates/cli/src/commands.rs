//! What each command does, one file a command.

pub(crate) mod schema;
