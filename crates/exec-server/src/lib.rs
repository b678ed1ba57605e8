//! Processes and files over the wire: one server for both dialects, and a client.
//!
//! The [`server`] speaks `exec-server.v0` and `process.v1` on stdio, websockets and unix sockets; the
//! processes themselves belong to `turnlane-process`, the shapes to `turnlane_protocol::exec_server`.
//! The [`client`] speaks to any server of either dialect, Codex's own included, and to a
//! [`ProcessService`](turnlane_process::ProcessService) of the same program without a wire between.
//! [`policy`] turns a thread's sandbox policy into the service's own, for everybody who starts
//! commands.

#![forbid(unsafe_code)]

pub mod client;
mod failure;
mod fs;
mod intent;
mod local;
pub mod policy;
pub mod server;
