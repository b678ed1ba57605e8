//! The handle of one process, wherever it runs.
//!
//! The same calls mean the same on every transport. What a peer cannot do is
//! [`ClientError::Unsupported`]; what can be made from events is made from them, so waiting and
//! pictures work against every peer. The invariant here: a handle that is dropped ends its process by
//! force, unless it was put into the background.

pub(super) mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use turnlane_process::{End, Io, Signal, StreamName, StreamSnapshot, Target, TerminalSize, Until};

use super::cell::Cell;
use super::error::ClientError;
use super::events::{Exit, ProcessId};
use super::in_process::LocalProcess;
use super::output::{KeptBy, ProcessOutput};
use wire::WireProcess;

/// Input is sent in pieces of this size, so that other calls get in between.
const WRITE_BYTES_MAX: usize = 256 * 1024;

/// SIGTERM to SIGKILL for a process whose time is up.
const TIMEOUT_GRACE: Duration = Duration::from_millis(500);

/// One process that was started by a client. Dropping it ends the process by force.
#[derive(Debug)]
pub struct RemoteProcess {
    cell: Arc<Cell>,
    started: Started,
    place: Place,
    on_drop: OnDrop,
}

/// Where a process runs.
#[derive(Debug)]
pub(super) enum Place {
    Wire(WireProcess),
    Local(LocalProcess),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    End,
    Nothing,
}

/// What was told at the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// The leader, if the peer tells.
    pub pid: Option<i32>,
    /// `cgroup`, `reaper` or `group`, if the peer tells.
    pub containment: Option<String>,
    /// Whether any policy was applied, if the peer tells.
    pub is_sandboxed: Option<bool>,
}

/// What is kept of a process's output, as a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Standard output of a process with pipes.
    pub stdout: StreamSnapshot,
    /// Standard error of a process with pipes.
    pub stderr: StreamSnapshot,
    /// The terminal's stream.
    pub terminal: StreamSnapshot,
    /// Whether any stream lost its middle.
    pub truncated: bool,
    /// Whether the leader lives.
    pub running: bool,
    /// The code the leader ended with.
    pub exit_code: Option<i32>,
    /// The terminal's size, if the peer tells.
    pub size: Option<TerminalSize>,
}

/// What [`RemoteProcess::communicate`] brings back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicated {
    /// How it ended.
    pub exit: Exit,
    /// What it wrote.
    pub snapshot: Snapshot,
}

impl RemoteProcess {
    pub(super) fn new(cell: Arc<Cell>, place: Place) -> Self {
        Self {
            cell,
            started: Started::default(),
            place,
            on_drop: OnDrop::End,
        }
    }

    /// The same, now that its start was answered.
    pub(super) fn started_as(mut self, started: Started) -> Self {
        self.started = started;
        self
    }

    /// There is no process behind it.
    pub(super) fn disarm(&mut self) {
        self.on_drop = OnDrop::Nothing;
    }

    /// Its name, as in events.
    pub fn id(&self) -> &ProcessId {
        &self.cell.id
    }

    /// What was told at the start.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Queues `bytes` for standard input, in the order of the calls; waits while the process does
    /// not read. Cancelled, a part of it may have been queued.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), ClientError> {
        let mut bytes = bytes.into();
        loop {
            let piece = bytes.split_to(bytes.len().min(WRITE_BYTES_MAX));
            match &self.place {
                Place::Wire(wire) => wire.write(&self.cell, &piece).await?,
                Place::Local(local) => local.write(piece).await?,
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Ends standard input after what is queued. Again: nothing. A terminal refuses: send the byte
    /// 0x04 instead.
    pub async fn close_stdin(&self) -> Result<(), ClientError> {
        match &self.place {
            Place::Wire(wire) => wire.close_stdin(&self.cell).await,
            Place::Local(local) => local.close_stdin(),
        }
    }

    /// Changes the terminal's size.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), ClientError> {
        match &self.place {
            Place::Wire(wire) => wire.resize(&self.cell, size).await,
            Place::Local(local) => local.resize(self.id(), size),
        }
    }

    /// Sends a signal. False when there was nobody left to get it; a peer that does not tell is
    /// believed to have delivered it.
    pub async fn signal(&self, signal: Signal, target: Target) -> Result<bool, ClientError> {
        match &self.place {
            Place::Wire(wire) => wire.signal(&self.cell, signal, target).await,
            Place::Local(local) => Ok(local.signal(signal, target)),
        }
    }

    /// Ends it and everything it started; whether the leader still ran. Returns before the end,
    /// which events tell. After the leader's exit it leaves what outlived it alone.
    pub async fn end(&self, end: End) -> Result<bool, ClientError> {
        match &self.place {
            Place::Wire(wire) => wire.end(&self.cell, end).await,
            Place::Local(local) => Ok(local.end(end)),
        }
    }

    /// Ends by force what outlived the leader; nothing while that runs.
    pub async fn end_survivors(&self) -> Result<(), ClientError> {
        match &self.place {
            Place::Wire(wire) => wire.end_survivors(&self.cell).await,
            Place::Local(local) => {
                local.end_survivors();
                Ok(())
            }
        }
    }

    /// Waits for exit or close without taking output; `None` when `limit` passed. Any number may
    /// wait. In v0 the close is told with the exit.
    pub async fn wait(
        &self,
        until: Until,
        limit: Option<Duration>,
    ) -> Result<Option<Exit>, ClientError> {
        let done = self.cell.wait(until);
        match limit {
            None => done.await.map(Some),
            Some(limit) => match timeout(limit, done).await {
                Ok(exit) => exit.map(Some),
                Err(_) => Ok(None),
            },
        }
    }

    /// A picture of what is kept: the first and the last bytes of each stream.
    pub async fn snapshot(&self) -> Result<Snapshot, ClientError> {
        match &self.place {
            Place::Wire(wire) => wire.snapshot(&self.cell).await,
            Place::Local(local) => Ok(local.snapshot()),
        }
    }

    /// Writes `input`, closes standard input, waits for the close and returns exit and output. At
    /// the limit the process is ended and what there is comes back. Cancelled, it goes on without
    /// its owner until this handle is dropped.
    pub async fn communicate(
        &self,
        input: impl Into<Bytes>,
        limit: Option<Duration>,
    ) -> Result<Communicated, ClientError> {
        let exchange = self.exchange(input.into());
        let exit = match limit {
            None => Some(exchange.await?),
            Some(limit) => timeout(limit, exchange).await.ok().transpose()?,
        };
        let exit = match exit {
            Some(exit) => exit,
            None => self.end_and_wait().await?,
        };
        let snapshot = self.snapshot().await?;
        Ok(Communicated { exit, snapshot })
    }

    async fn exchange(&self, input: Bytes) -> Result<Exit, ClientError> {
        let has_stdin = self.cell.io
            == Io::Pipe {
                stdin: turnlane_process::Stdin::Open,
            };
        let feeding = async {
            let fed = if input.is_empty() {
                Ok(())
            } else {
                self.write(input).await
            };
            match fed {
                Ok(()) if has_stdin => self.close_stdin().await,
                fed => fed,
            }
        };
        let closed = self.cell.wait(Until::Closed);
        tokio::pin!(closed);
        tokio::select! {
            // A process that ends without reading its input has ended well.
            exit = &mut closed => return exit,
            fed = feeding => match fed {
                Ok(()) | Err(ClientError::StdinClosed) => {}
                Err(error) => return Err(error),
            }
        }
        closed.await
    }

    async fn end_and_wait(&self) -> Result<Exit, ClientError> {
        let graceful = End::Graceful {
            interrupt: Duration::ZERO,
            term: TIMEOUT_GRACE,
        };
        match self.end(graceful).await {
            Err(ClientError::Unsupported { .. }) => _ = self.end(End::Force).await?,
            ended => _ = ended?,
        }
        self.cell.wait(Until::Closed).await
    }

    /// The one lossless stream of events, from the first. Dropped, it cannot be taken again.
    pub fn output(&self) -> Result<ProcessOutput, ClientError> {
        let kept_by = match &self.place {
            Place::Wire(wire) => wire.kept_by(),
            Place::Local(local) => KeptBy::Service(local.process().clone()),
        };
        ProcessOutput::take(Arc::clone(&self.cell), kept_by)
    }

    /// Lets it run without a handle, until the client ends.
    pub fn into_background(mut self) {
        self.on_drop = OnDrop::Nothing;
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        match (&self.place, self.on_drop) {
            (_, OnDrop::Nothing) => {}
            (Place::Wire(wire), OnDrop::End) => wire.abandon(&self.cell),
            (Place::Local(local), OnDrop::End) => local.abandon(),
        }
    }
}

/// The names of a snapshot's streams, where a snapshot is made on this side.
pub(super) fn snapshot_of(
    mut stream: impl FnMut(StreamName) -> StreamSnapshot,
    exit_code: Option<i32>,
    size: Option<TerminalSize>,
) -> Snapshot {
    let [stdout, stderr, terminal] =
        [StreamName::Stdout, StreamName::Stderr, StreamName::Pty].map(&mut stream);
    let truncated = [&stdout, &stderr, &terminal]
        .iter()
        .any(|stream| stream.omitted_bytes > 0);
    Snapshot {
        stdout,
        stderr,
        terminal,
        truncated,
        running: exit_code.is_none(),
        exit_code,
        size,
    }
}
