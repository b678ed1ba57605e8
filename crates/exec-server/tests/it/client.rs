//! The client: against a scripted peer, our own server and Codex's.

mod cutting;
mod fake;
mod launching;
mod losing;
mod resuming;
mod scripted;
mod suite;
