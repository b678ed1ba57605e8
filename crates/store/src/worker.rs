//! A worker: one run of one process that shares the store.
//!
//! The invariant here: a worker row is there as long as its run may still write, and every open
//! store is exactly one worker. How the death of one is noticed differs per backend.

use std::fmt;

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
    /// The system does not let this process write the database's files: nothing is written until
    /// their permissions are mended.
    NotWritable,
    /// Writing failed too often: nothing is written until the next start.
    WritesOff,
}

/// Whether a worker may still write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerLife {
    /// It may.
    Alive,
    /// It can never write again: its lanes are taken over.
    Dead,
    /// The system does not tell. Its lanes wait until a person releases them.
    Unknown(Unjudged),
}

/// The reason why it cannot be decided whether a worker lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unjudged {
    /// It was recorded without the facts that tell its process from others.
    NoRecord,
    /// It ran on another host.
    OtherHost {
        /// That host; empty where it is not known.
        host: String,
    },
    /// A process has its number, and the system does not say when that process started.
    HiddenProcess {
        /// The number.
        pid: u32,
    },
}

impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => f.write_str("nothing is recorded that tells its process from others"),
            Self::OtherHost { host } if host.is_empty() => {
                f.write_str("it is not known on which host it ran")
            }
            Self::OtherHost { host } => write!(f, "it ran on the host {host}"),
            Self::HiddenProcess { pid } => {
                write!(f, "the system does not say when process {pid} started")
            }
        }
    }
}
