//! The handle of one process: input, output, signals, end, waiting, pictures.
//!
//! A handle holds no descriptor and waits for no other caller: it changes shared state and wakes the
//! driver, the one task that touches the process's descriptors. An end goes to the containment
//! directly and waits for nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{InputError, OutputTaken, ResizeError};
use crate::event::{Event, Page, TryNext};
use crate::report::{Listed, ProcessInfo};
use crate::snapshot::Snapshot;
use crate::spec::{End, Signal, Target, TerminalSize, Until};
use crate::status::ExitStatus;

/// Names a process of one service; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u64);

/// Rung when output is there after there was none. Called from the driver's task: it must be quick
/// and must not call back into the process.
pub type Doorbell = Arc<dyn Fn() + Send + Sync>;

/// One process. Clones are the same process; dropping the last one ends it unless the spec said
/// otherwise.
#[derive(Clone, Debug)]
pub struct Process {}

/// What [`Process::communicate`] brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicated {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote.
    pub snapshot: Snapshot,
}

/// Room in the input queue; see [`Process::reserve`].
#[derive(Debug)]
pub struct Permit {}

impl Permit {
    /// Queues the bytes the room was reserved for. Never waits.
    pub fn send(self, bytes: Bytes) -> Result<(), InputError> {
        let _ = bytes;
        todo!()
    }
}

impl Process {
    /// Its name in the service.
    pub fn id(&self) -> ProcessId {
        todo!()
    }

    /// Pid, containment, sandbox and start.
    pub fn info(&self) -> &ProcessInfo {
        todo!()
    }

    /// The line of this process in the service's list.
    pub fn listed(&self) -> Listed {
        todo!()
    }

    /// Queues `bytes` for standard input, in the order of the calls; waits while the queue (1 MiB)
    /// is full. Cancelled before it is done, it has queued nothing.
    pub async fn write(&self, bytes: Bytes) -> Result<(), InputError> {
        self.reserve(bytes.len()).await?.send(bytes)
    }

    /// Waits for room for `len` bytes, first come first served. A permit that is dropped gives its
    /// room back.
    pub async fn reserve(&self, len: usize) -> Result<Permit, InputError> {
        let _ = len;
        todo!()
    }

    /// Ends standard input after what is queued. Again: nothing.
    pub fn close_stdin(&self) -> Result<(), InputError> {
        todo!()
    }

    /// Changes the terminal's size; the kernel tells the foreground group.
    pub fn resize(&self, size: TerminalSize) -> Result<(), ResizeError> {
        let _ = size;
        todo!()
    }

    /// Sends a signal; false when there was nobody left to get it.
    pub fn signal(&self, signal: Signal, target: Target) -> bool {
        let _ = (signal, target);
        todo!()
    }

    /// Ends it and everything it started. Returns at once; whether the leader still ran. A later
    /// [`End::Force`] overrides a graceful end.
    pub fn end(&self, end: End) -> bool {
        let _ = end;
        todo!()
    }

    /// Ends what is left after the leader exited; nothing while it runs.
    pub fn end_survivors(&self) {
        todo!()
    }

    /// Waits for exit or close without consuming output; `None` when `timeout` passed.
    pub async fn wait(&self, until: Until, timeout: Option<Duration>) -> Option<ExitStatus> {
        let _ = (until, timeout);
        todo!()
    }

    /// A picture of what is kept.
    pub fn snapshot(&self) -> Snapshot {
        todo!()
    }

    /// Writes `input`, closes standard input, waits for the close and returns status and output.
    /// Takes the output of the process; ends the process at the timeout and returns what there is.
    pub async fn communicate(
        &self,
        input: Bytes,
        timeout: Option<Duration>,
    ) -> Result<Communicated, OutputTaken> {
        let _ = (input, timeout);
        todo!()
    }

    /// The one lossless stream of events.
    pub fn output(&self) -> Result<Output, OutputTaken> {
        todo!()
    }

    /// Retained output after `after_seq`, whether delivered or not. With `max_bytes` at least one
    /// chunk, then none that would exceed it; `next_seq` is then the last returned number plus one,
    /// otherwise the next number the process will use.
    pub fn read(&self, after_seq: u64, max_bytes: Option<usize>) -> Page {
        let _ = (after_seq, max_bytes);
        todo!()
    }

    /// Resolves when there is output after `after_seq`, an exit after it, or the process is closed.
    pub async fn readable(&self, after_seq: u64) {
        let _ = after_seq;
        todo!()
    }

    /// How much undelivered output is held before the child is made to wait; 256 KiB at first.
    pub fn set_window(&self, bytes: usize) {
        let _ = bytes;
        todo!()
    }
}

/// The lossless stream of one process. What is taken from it counts as delivered.
#[derive(Debug)]
pub struct Output {}

impl Output {
    /// The next event, `None` after `Closed`. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<Event> {
        todo!()
    }

    /// The next event if there is one.
    pub fn try_next(&mut self) -> TryNext {
        todo!()
    }

    /// Moves the position forward: everything up to `seq` counts as delivered and is not told again.
    pub fn skip_to(&mut self, seq: u64) {
        let _ = seq;
        todo!()
    }

    /// The number of the last event that was taken.
    pub fn position(&self) -> u64 {
        todo!()
    }

    /// Rings when something comes after [`Output::try_next`] said [`TryNext::Empty`]; at once if
    /// something is there already.
    pub fn set_doorbell(&mut self, doorbell: Doorbell) {
        let _ = doorbell;
        todo!()
    }
}
