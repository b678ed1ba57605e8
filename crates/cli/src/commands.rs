//! What each command does, one file a command.

pub(crate) mod app_server;
pub(crate) mod approvals;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod exec_server;
pub(crate) mod fanout;
pub(crate) mod man;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod shim;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod thread;
