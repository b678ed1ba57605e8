//! Standard input of one process on the wire: in order, and the same write id once.
//!
//! Writes and the close of the input pass one gate, first come first served, and wait behind it
//! while the process's queue is full. A repeated write waits at the gate like any other and finds,
//! when it passes, that its id was taken; or that the first one was dropped with its connection, and
//! then it is the one that is written. Taking the id and queueing the bytes are one step.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::Semaphore;
use turnlane_process::{InputError, Process};

/// How many accepted ids are remembered.
const IDS_MAX: usize = 4096;

/// The gate and the memory of one process.
#[derive(Debug)]
pub(crate) struct Input {
    /// Has no permit before the process runs, then one.
    gate: Semaphore,
    accepted: Mutex<WriteIds>,
}

impl Input {
    /// Nobody passes before [`Input::open`].
    pub(crate) fn new() -> Self {
        Self {
            gate: Semaphore::new(0),
            accepted: Mutex::default(),
        }
    }

    /// The process runs.
    pub(crate) fn open(&self) {
        self.gate.add_permits(1);
    }

    /// There will be no process; whoever waits is released.
    pub(crate) fn give_up(&self) {
        self.gate.close();
    }

    /// Resolves when the process runs; false if it never will.
    pub(crate) async fn opened(&self) -> bool {
        self.gate.acquire().await.is_ok()
    }

    /// Queues `bytes` unless `id` was accepted before. Cancelled before it is done, it has queued
    /// and remembered nothing.
    pub(crate) async fn write(
        &self,
        process: &Process,
        id: Option<&str>,
        bytes: Bytes,
    ) -> Result<(), InputError> {
        if self.has_accepted(id) {
            return Ok(());
        }
        let _passing = self.pass().await?;
        if self.has_accepted(id) {
            return Ok(());
        }
        let room = process.reserve(bytes.len()).await?;
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if !bytes.is_empty() {
            room.send(bytes)?;
        }
        if let Some(id) = id {
            accepted.remember(id);
        }
        Ok(())
    }

    /// Ends standard input after the writes before.
    pub(crate) async fn close(&self, process: &Process) -> Result<(), InputError> {
        let _passing = self.pass().await?;
        process.close_stdin()
    }

    async fn pass(&self) -> Result<tokio::sync::SemaphorePermit<'_>, InputError> {
        let passing = self.gate.acquire().await;
        passing.map_err(|_closed| InputError::StdinClosed)
    }

    fn has_accepted(&self, id: Option<&str>) -> bool {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        id.is_some_and(|id| accepted.knows(id))
    }
}

/// The last ids that were accepted.
#[derive(Debug, Default)]
struct WriteIds {
    known: HashSet<Arc<str>>,
    oldest_first: VecDeque<Arc<str>>,
}

impl WriteIds {
    fn knows(&self, id: &str) -> bool {
        self.known.contains(id)
    }

    fn remember(&mut self, id: &str) {
        let id: Arc<str> = id.into();
        if !self.known.insert(Arc::clone(&id)) {
            return;
        }
        self.oldest_first.push_back(id);
        if self.oldest_first.len() > IDS_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_4096_ids_are_remembered() {
        let mut ids = WriteIds::default();
        for number in 0..=IDS_MAX {
            ids.remember(&number.to_string());
            ids.remember(&number.to_string());
        }
        assert!(!ids.knows("0"));
        assert!(ids.knows("1") && ids.knows(&IDS_MAX.to_string()));
        assert_eq!(ids.known.len(), IDS_MAX);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_process_that_never_starts_is_released() {
        let input = Arc::new(Input::new());
        let waiting = tokio::spawn({
            let input = Arc::clone(&input);
            async move { input.opened().await }
        });
        input.give_up();
        assert!(!waiting.await.unwrap());
    }
}
