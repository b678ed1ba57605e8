//! A worker: one run of one process that shares the store.
//!
//! The invariant here: a worker row is there as long as its run may still write, and every open
//! store is exactly one worker. How the death of one is noticed differs per backend.

use crate::ids::WorkerId;

/// Who opens the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// New at every start.
    pub id: WorkerId,
    /// Its process; for people, and for the children of foreign engines.
    pub pid: u32,
    /// When that process started, in the system's own count.
    pub pid_start: u64,
    /// The run of the machine it belongs to.
    pub boot_id: String,
    /// The machine.
    pub host: String,
    /// Where it listens, if it does.
    pub endpoint: Option<String>,
    /// What kind of program it is: `serve`, `app-server`, `exec`.
    pub kind: String,
    /// When it started, in milliseconds since 1970.
    pub started_ms: i64,
}

/// Whether the store takes writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Good,
    /// The disk is full: ends of turns are recorded, nothing new is taken in.
    Full,
    /// Another process holds a lock on the database: nothing is written until it lets go.
    Locked,
    /// Writing failed too often: nothing is written until the next start.
    WritesOff,
}
