//! What can go wrong in the store, sorted by what the caller does about it.
//!
//! The invariant here: code outside this crate never sees a driver's error but as a `source`, and
//! can tell every case apart without reading a text. An error means that the operation changed
//! nothing, with one exception: an operation that ended with [`StoreError::Failed`] may be found
//! whole after a crash, because a sync that failed says nothing about what reached the disk.
//!
//! The texts for clients are made by the server.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::fanout::{ItemAttempt, JobNo};
use crate::ids::{RowId, ThreadId, TurnId, WorkerId};
use crate::json::Json;

/// An error of the driver or the operating system, shared by all operations of a failed batch.
pub type Source = Arc<dyn StdError + Send + Sync>;

/// The process that holds a lock; both members are unknown where the system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockHolder {
    /// Its process id.
    pub pid: Option<u32>,
    /// The name that it goes by, in visible ASCII.
    pub program: Option<String>,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.program) {
            (Some(pid), Some(program)) => write!(f, "process {pid} ({program})"),
            (Some(pid), None) => write!(f, "process {pid}"),
            (None, _) => f.write_str("a process that cannot be named"),
        }
    }
}

/// An error of any store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    // The request does not fit what is stored: tell the caller.
    /// There is no such thread, or it was deleted.
    #[error("thread {0} is not in the store")]
    ThreadNotFound(ThreadId),
    /// The id of a new thread is in use.
    #[error("thread {0} is in the store already")]
    ThreadExists(ThreadId),
    /// The thread is put away; its queue and turns are refused until it is taken back.
    #[error("thread {0} is archived")]
    Archived(ThreadId),
    /// The thread is not put away.
    #[error("thread {0} is not archived")]
    NotArchived(ThreadId),
    /// Another thread that is not archived has this name.
    #[error("thread {thread} has the name {name:?}")]
    NameInUse {
        /// The name.
        name: String,
        /// The thread that has it.
        thread: ThreadId,
    },
    /// Another thread that is not archived has this binding.
    #[error("thread {thread} has the binding {key:?}")]
    BindingTaken {
        /// The binding.
        key: String,
        /// The thread that has it.
        thread: ThreadId,
    },
    /// The thread does not have this binding, or is archived.
    #[error("thread {thread} does not hold the binding {key:?}")]
    BindingNotHeld {
        /// The thread.
        thread: ThreadId,
        /// The binding.
        key: String,
    },
    /// The settings are others than the caller thought: read them again.
    #[error("the settings of thread {0} were changed by somebody else")]
    SettingsChanged(ThreadId),
    /// The lane shows no such row: it never had it, or the row is under way or ended.
    #[error("queued turn {0} is not in the visible queue")]
    RowNotFound(RowId),
    /// Only failed rows can be retried.
    #[error("queued turn {0} is not failed")]
    RowNotFailed(RowId),
    /// There is no row to act on.
    #[error("the queue is empty")]
    QueueEmpty,
    /// The head failed and was not named, so that it is not started.
    #[error("the head of the queue failed: {row}")]
    HeadFailed {
        /// The head.
        row: RowId,
        /// Why it failed, as it was stored.
        failure: Json,
    },
    /// The order does not name every visible row exactly once.
    #[error("the new order must name every visible queued turn exactly once")]
    NotAPermutation,
    /// As many rows wait as may.
    #[error("the queue holds {max_depth} queued turns already")]
    QueueFull {
        /// How many may wait.
        max_depth: u32,
    },
    /// The key stands for other content.
    #[error("the key {key:?} was used for a different queued turn")]
    KeyTaken {
        /// The key.
        key: String,
    },
    /// The thread has no such turn.
    #[error("the thread has no such turn")]
    TurnNotFound,
    /// There is no such fan-out job, or it is being deleted.
    #[error("there is no fan-out job {}", .0.0)]
    JobNotFound(JobNo),
    /// The fan-out job has no such item, or the item no such attempt.
    #[error("fan-out job {} has no attempt {} of item {}", .0.job.0, .0.attempt, .0.seq)]
    AttemptNotFound(ItemAttempt),
    /// A fan-out item was to go on in its own thread, but it has none.
    #[error("item {seq} of fan-out job {} has no thread to go on in", .job.0)]
    ItemWithoutThread {
        /// The job.
        job: JobNo,
        /// The item's number.
        seq: i64,
    },
    /// The turn has not ended.
    #[error("turn {0} is in progress")]
    TurnInProgress(TurnId),
    /// The lane runs a turn, or is about to.
    #[error("thread {0} runs a turn")]
    Busy(ThreadId),
    /// A live worker owns the lane.
    #[error("thread {thread} is owned by worker {worker}")]
    OwnedElsewhere {
        /// The thread.
        thread: ThreadId,
        /// Its owner.
        worker: WorkerId,
    },

    // Somebody else acted: stop, and forget what was known of the lane.
    /// The grip is out of date: the lane was taken over.
    #[error("the lane was taken over by another worker")]
    Fenced,

    // The store cannot do it now: try later.
    /// There is no room on the disk; completions are still recorded.
    #[error("the store is full")]
    DiskFull {
        /// What the system said.
        #[source]
        source: Source,
    },
    /// Too many operations wait.
    #[error("too many operations wait for the store")]
    Overloaded,
    /// Another process holds a lock on the database for longer than the store waits. The store goes
    /// on by itself when the lock is gone.
    #[error("{holder} holds a lock on the database; cannot {doing}")]
    Locked {
        /// A verb phrase: "claim a turn".
        doing: &'static str,
        /// The process, as far as the system names it.
        holder: LockHolder,
        /// What the database said.
        #[source]
        source: Source,
    },
    /// Writing failed too often; reading works.
    #[error("the store does not write any more since writing failed too often")]
    WritesOff,
    /// Pages of the database are damaged. Other threads may still be readable.
    #[error(
        "the database is damaged, cannot {doing}; `turnlane store check` says what is wrong, and a \
         backup helps"
    )]
    Damaged {
        /// A verb phrase: "list threads".
        doing: &'static str,
        /// What the database said.
        #[source]
        source: Source,
    },
    /// The database could not do it.
    #[error("the database failed while it tried to {doing}")]
    Failed {
        /// A verb phrase: "claim a turn".
        doing: &'static str,
        /// What it said.
        #[source]
        source: Source,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,

    /// The system does not let this process write a file of the database. The store goes on by
    /// itself when the permissions are mended.
    #[error("{path} cannot be written")]
    NotWritable {
        /// The file or directory.
        path: PathBuf,
        /// What the system or the database said.
        #[source]
        source: Source,
    },

    // The store cannot be opened: a person must act.
    /// The database was written by a later version.
    #[error(
        "the database {path} has schema {found}, this version knows {known}; \
         use the newer turnlane that wrote it, or name another directory in TURNLANE_HOME"
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest one we know.
        known: i64,
    },
    /// The file is a database of another program.
    #[error("{path} is not a Turnlane database")]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file has tables but no schema number: it was damaged, or copied only in part.
    #[error(
        "the database {path} holds tables but no schema number, so it was damaged or copied in part; \
         nothing was changed in it"
    )]
    NoSchema {
        /// The database.
        path: PathBuf,
    },
    /// File locks and shared memory do not work across machines.
    #[error(
        "the database {path} lies on a network file system ({kind}); \
         keep it on a local disk, or use PostgreSQL to share work between machines"
    )]
    NetworkFileSystem {
        /// The database.
        path: PathBuf,
        /// The kind of file system.
        kind: String,
    },
}

impl StoreError {
    /// Wraps an error of the driver or the system; `doing` is a verb phrase.
    pub fn failed<E>(doing: &'static str) -> impl FnOnce(E) -> Self
    where
        E: StdError + Send + Sync + 'static,
    {
        move |source| Self::Failed {
            doing,
            source: Arc::new(source),
        }
    }
}
