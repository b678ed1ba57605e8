//! What each command does, one file a command.

pub(crate) mod app_server;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod exec_server;
pub(crate) mod schema;
pub(crate) mod serve;
