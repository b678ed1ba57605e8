//! The handle of one process: input, output, signals, end, waiting, pictures.
//!
//! A handle waits for no other caller: it changes shared state and wakes the driver, the one task
//! that reads and writes the process's streams. An end goes to the containment directly and waits
//! for nothing.

mod input;
mod output;

use std::fmt;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

pub use input::Permit;
pub use output::Output;

use crate::driver::{Order, Shared, check_size, resize};
use crate::error::{InputError, OutputTaken, ResizeError};
use crate::event::{Page, StreamName};
use crate::report::{Listed, ProcessInfo};
use crate::sandbox;
use crate::snapshot::Snapshot;
use crate::spec::{End, Io, Signal, Target, TerminalSize, Until};
use crate::status::ExitStatus;

/// Names a process of one service; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u64);

/// Rung when output is there after there was none. Called from the driver's task: it must be quick
/// and must not call back into the process.
pub type Doorbell = Arc<dyn Fn() + Send + Sync>;

/// One process. Clones are the same process; dropping the last one ends it unless the spec said
/// otherwise. An [`Output`] does not keep it from being ended.
#[derive(Clone)]
pub struct Process {
    owner: Arc<Owner>,
}

/// What all clones of a handle have in common: when it goes, so does the process.
struct Owner {
    shared: Arc<Shared>,
}

/// What [`Process::communicate`] brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicated {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote.
    pub snapshot: Snapshot,
}

impl Process {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let owner = Arc::new(Owner { shared });
        Self { owner }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }

    /// Its name in the service.
    pub fn id(&self) -> ProcessId {
        self.shared().id
    }

    /// Pid, containment, sandbox and start.
    pub fn info(&self) -> &ProcessInfo {
        &self.shared().info
    }

    /// The line of this process in the service's list.
    pub fn listed(&self) -> Listed {
        self.shared().listed()
    }

    /// Queues `bytes` for standard input, in the order of the calls; waits while the queue (1 MiB)
    /// is full. Cancelled before it is done, it has queued nothing.
    pub async fn write(&self, bytes: Bytes) -> Result<(), InputError> {
        self.reserve(bytes.len()).await?.send(bytes)
    }

    /// Waits for room for `len` bytes, first come first served. A permit that is dropped gives its
    /// room back. What is reserved later is written later: a permit that is kept holds up the rest.
    pub async fn reserve(&self, len: usize) -> Result<Permit, InputError> {
        Permit::reserve(self.shared(), len).await
    }

    /// Ends standard input after what is queued. Again: nothing.
    pub fn close_stdin(&self) -> Result<(), InputError> {
        match self.shared().io {
            Io::Pty(_) => Err(InputError::NotAPipe),
            Io::Pipe { .. } => {
                self.shared().change(|state| state.input.end());
                Ok(())
            }
        }
    }

    /// Changes the terminal's size; the kernel tells the foreground group.
    pub fn resize(&self, size: TerminalSize) -> Result<(), ResizeError> {
        check_size(size)?;
        let mut state = self.shared().lock();
        if state.size.is_none() {
            return Err(ResizeError::NotATerminal);
        }
        state.size = Some(size);
        let terminal = state.terminal.clone();
        drop(state);
        if let Some(terminal) = terminal {
            resize(terminal.as_fd(), size);
        }
        Ok(())
    }

    /// Sends a signal; false when there was nobody left to get it, as always after the exit.
    pub fn signal(&self, signal: Signal, target: Target) -> bool {
        self.shared().signal(signal, target)
    }

    /// Ends it and everything it started. Returns at once; whether the leader still ran. A later
    /// [`End::Force`] overrides a graceful end; a later graceful end changes nothing.
    pub fn end(&self, end: End) -> bool {
        match end {
            End::Force => self.shared().force(),
            End::Graceful { interrupt, term } => {
                self.shared().order(Order::Graceful { interrupt, term })
            }
        }
    }

    /// Ends what is left after the leader exited; nothing while it runs.
    pub fn end_survivors(&self) {
        if self.shared().done(Until::Exited).is_some() {
            self.shared().force();
        }
    }

    /// Waits for exit or close without consuming output; `None` when `timeout` passed. An exit is
    /// told whether or not anybody takes the output.
    pub async fn wait(&self, until: Until, limit: Option<Duration>) -> Option<ExitStatus> {
        let shared = self.shared();
        let done = async {
            loop {
                let mut ended = pin!(shared.ended.notified());
                // From here on a notice is not missed; only then is it safe to look.
                ended.as_mut().enable();
                if let Some(status) = shared.done(until) {
                    return status;
                }
                ended.await;
            }
        };
        match limit {
            None => Some(done.await),
            Some(limit) => timeout(limit, done).await.ok(),
        }
    }

    /// Resolves when `stream` has ended: whatever was written to it was told, and nobody can write
    /// to it any more. That may be long before the exit, and no later than the close. A stream whose
    /// reading waits for a full window has not ended.
    pub async fn stream_ended(&self, stream: StreamName) {
        let shared = self.shared();
        loop {
            let mut ended = pin!(shared.ended.notified());
            // From here on a notice is not missed; only then is it safe to look.
            ended.as_mut().enable();
            let is_over = {
                let state = shared.lock();
                state.ended.contains(&stream) || state.store.closed().is_some()
            };
            if is_over {
                return;
            }
            ended.await;
        }
    }

    /// A picture of what is kept.
    pub fn snapshot(&self) -> Snapshot {
        self.shared().snapshot()
    }

    /// Whether it looks as if its sandbox made it fail: a hint from exit code and kept output, never a
    /// decision. False while it runs and where nothing is enforced, at no cost.
    pub fn looks_denied(&self) -> bool {
        let confined = &self.info().sandbox;
        if !confined.is_enforced() {
            return false;
        }
        let kept = self.snapshot();
        let streams = [&kept.stdout, &kept.stderr, &kept.terminal];
        let pieces = streams
            .into_iter()
            .flat_map(|stream| [&stream.head[..], &stream.tail[..]]);
        kept.status
            .is_some_and(|status| sandbox::looks_denied(confined, &status, pieces))
    }

    /// Writes `input`, closes standard input, waits for the close and returns status and output.
    /// Takes the output of the process for good: from now on nothing waits for a reader, and what
    /// exceeds the retention loses its middle. At the timeout the process is ended as by the spec's
    /// own, and what there is is returned. Cancelled, the process goes on.
    pub async fn communicate(
        &self,
        input: Bytes,
        limit: Option<Duration>,
    ) -> Result<Communicated, OutputTaken> {
        Output::take_for_good(self.shared())?;
        let exchange = async {
            if !input.is_empty() && self.write(input).await.is_err() {
                tracing::debug!("input was not read to its end");
            }
            if self.close_stdin().is_err() {
                tracing::debug!("input of a terminal stays open");
            }
            self.closed().await
        };
        let in_time = match limit {
            None => Some(exchange.await),
            Some(limit) => timeout(limit, exchange).await.ok(),
        };
        let status = if let Some(status) = in_time {
            status
        } else {
            self.shared().order(Order::Timeout);
            self.closed().await
        };
        let snapshot = self.snapshot();
        Ok(Communicated { status, snapshot })
    }

    async fn closed(&self) -> ExitStatus {
        loop {
            if let Some(status) = self.wait(Until::Closed, None).await {
                return status;
            }
        }
    }

    /// The one lossless stream of events. Taken again after it was dropped, it goes on where it was.
    /// Of a process that retains, it tells what is still kept: the child does not wait for it.
    pub fn output(&self) -> Result<Output, OutputTaken> {
        Output::take(self.shared())
    }

    /// Retained output after `after_seq`, whether delivered or not. With `max_bytes` at least one
    /// chunk, then none that would exceed it; `next_seq` is then the last returned number plus one,
    /// otherwise the next number the process will use.
    pub fn read(&self, after_seq: u64, max_bytes: Option<usize>) -> Page {
        self.shared().lock().store.read(after_seq, max_bytes)
    }

    /// Resolves when there is output after `after_seq`, an exit after it, or the process is closed.
    pub async fn readable(&self, after_seq: u64) {
        output::readable(self.shared(), after_seq).await;
    }

    /// How much undelivered output is held before the child is made to wait; 256 KiB at first. Zero
    /// makes it wait at once.
    pub fn set_window(&self, bytes: usize) {
        self.shared().set_window(bytes);
    }
}

impl Drop for Owner {
    /// The last handle is gone: what it owned is killed before this returns.
    fn drop(&mut self) {
        let ends = self.shared.ends_on_drop;
        let is_read = {
            let mut state = self.shared.lock();
            state.is_owned = false;
            state.consumer.is_taken
        };
        if ends {
            self.shared.force();
        }
        if !is_read {
            // Nobody can ask for it any more, so that nothing may wait for them.
            self.shared.retain();
        }
        self.shared.registry.disowned(&self.shared);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("id", &self.shared().id)
            .field("info", &self.shared().info)
            .finish_non_exhaustive()
    }
}
