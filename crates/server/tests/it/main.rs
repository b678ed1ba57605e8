//! What clients of an app-server see, over connections in memory and over sockets.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod apart;
mod approvals;
mod bad_input;
mod bindings;
mod bounds;
mod codex_words;
mod command_exec;
mod decisions;
mod embedded;
mod engines;
mod errors;
mod full_disk;
mod handshake;
mod holds;
mod host;
mod interrupting;
mod leaving;
mod load;
mod many_threads;
mod mishaps;
mod offers;
mod paging;
mod peers;
mod permissions;
mod process_refusals;
mod process_spawn;
mod queue;
mod queue_codex;
mod queue_errors;
mod queue_files;
mod queue_follow;
mod queue_held;
mod queue_keys;
mod races;
mod recovering;
mod refusals;
mod resuming;
mod reviewers;
mod rights;
mod rights_native;
mod slow_reader;
mod support;
mod threads;
mod turns;
