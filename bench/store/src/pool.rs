//! What one would write without thinking: five connections, one statement and one commit per call.
//!
//! The invariant here: it is as durable as ours (WAL, synchronous=FULL) and writes a row of the same
//! size into a table with the same columns and indexes, but does less: no lane is read or changed,
//! so there is no position to find and no depth to keep.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;
use turnlane_store::ThreadId;

use crate::ours::{AT_MS, next_id, params as row_params};

const CONNECTIONS: usize = 5;
/// As many as there are producers at most; a full queue is never met.
const WAITING_MAX: usize = 1_024;
const BUSY: Duration = Duration::from_mins(1);

const TABLE: &str = "
CREATE TABLE queued_turn(thread_id TEXT NOT NULL, id TEXT NOT NULL, turn_id TEXT NOT NULL,
  last_turn_id TEXT, source TEXT NOT NULL, pos INTEGER, state TEXT NOT NULL,
  not_before_ms INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
  losses INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL DEFAULT 1,
  backoff_base_ms INTEGER NOT NULL DEFAULT 1000, backoff_cap_ms INTEGER NOT NULL DEFAULT 300000,
  on_error TEXT NOT NULL, on_crash TEXT NOT NULL, on_cannot_start TEXT NOT NULL,
  on_limit TEXT NOT NULL, put_backs INTEGER NOT NULL DEFAULT 0, bound TEXT, dedupe TEXT,
  content_hash BLOB NOT NULL, client_id TEXT NOT NULL, fence INTEGER NOT NULL DEFAULT 0,
  sent INTEGER NOT NULL DEFAULT 0, params BLOB NOT NULL, failure BLOB, created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL, ended_ms INTEGER,
  PRIMARY KEY(thread_id, id), UNIQUE(thread_id, turn_id));
CREATE UNIQUE INDEX one_flight ON queued_turn(thread_id)
  WHERE state IN ('claimed','started','reconcile');
CREATE UNIQUE INDEX one_pos ON queued_turn(thread_id, pos) WHERE state IN ('queued','blocked');
CREATE UNIQUE INDEX one_key ON queued_turn(thread_id, dedupe)
  WHERE dedupe IS NOT NULL AND state NOT IN ('done','dead','cancelled');
CREATE INDEX ended_key ON queued_turn(thread_id, dedupe)
  WHERE dedupe IS NOT NULL AND state IN ('done','dead');
CREATE INDEX ended ON queued_turn(ended_ms) WHERE ended_ms IS NOT NULL;";

const INSERT: &str = "INSERT INTO queued_turn(thread_id, id, turn_id, source, pos, state, on_error,
  on_crash, on_cannot_start, on_limit, content_hash, client_id, params, created_ms, updated_ms)
  VALUES (?1, ?2, ?3, 'queue', ?4, 'queued', 'continue', 'block', 'block', 'wait', ?5, ?2, ?6, ?7,
  ?7)";

/// A row to be added, and who waits for it.
struct Job {
    thread: ThreadId,
    position: i64,
    done: oneshot::Sender<rusqlite::Result<()>>,
}

/// The pool; its threads end with the last clone.
#[derive(Clone)]
pub(crate) struct Pool {
    jobs: mpsc::SyncSender<Job>,
}

impl Pool {
    #[expect(
        clippy::disallowed_methods,
        reason = "the competitor has a database of its own"
    )]
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("pool.db");
        let (jobs, waiting) = mpsc::sync_channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..CONNECTIONS {
            let connection = Connection::open(&path)?;
            connection.busy_timeout(BUSY)?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            if number == 0 {
                connection.execute_batch(TABLE)?;
            }
            let waiting = Arc::clone(&waiting);
            thread::spawn(move || serve(&connection, &waiting));
        }
        Ok(Self { jobs })
    }

    /// Adds a row; it is on disk when this returns.
    pub(crate) async fn add(&self, thread: ThreadId, position: i64) -> anyhow::Result<()> {
        let (done, end) = oneshot::channel();
        self.jobs.send(Job {
            thread,
            position,
            done,
        })?;
        Ok(end.await??)
    }
}

fn serve(connection: &Connection, waiting: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(job) = next else {
            return;
        };
        // Whoever asked is told, and a round with an error is no result.
        let _ = job.done.send(insert(connection, job.thread, job.position));
    }
}

fn insert(connection: &Connection, thread: ThreadId, position: i64) -> rusqlite::Result<()> {
    let (id, turn) = (next_id().to_string(), next_id().to_string());
    let params = params![
        thread.to_string(),
        id,
        turn,
        position,
        [7_u8; 32],
        row_params().into_bytes(),
        AT_MS
    ];
    connection.prepare_cached(INSERT)?.execute(params)?;
    Ok(())
}
