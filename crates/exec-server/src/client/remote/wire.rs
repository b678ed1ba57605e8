//! The calls of one process, to a server.
//!
//! One place knows which method of which dialect a call is, and which of them a peer has. The
//! invariant here: nothing is sent that the peer would ignore or misunderstand.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use turnlane_process::{End, Io, Signal, StreamSnapshot, Target, TerminalSize};
use turnlane_protocol::exec_server::process as v1;
use turnlane_protocol::exec_server::{Blob, v0};

use super::{Snapshot, snapshot_of};
use crate::client::cell::Cell;
use crate::client::core::{Core, Kind, result};
use crate::client::error::ClientError;
use crate::client::options::Dialect;
use crate::client::output::KeptBy;
use crate::client::peer;
use crate::client::start_spec::millis;
use crate::client::wire::write_frame;

/// A process of a server.
#[derive(Debug)]
pub(in crate::client) struct WireProcess {
    pub(in crate::client) core: Arc<Core>,
}

impl WireProcess {
    pub(in crate::client) async fn write(
        &self,
        cell: &Cell,
        bytes: &Bytes,
    ) -> Result<(), ClientError> {
        if self.core.peer.dialect == Dialect::V0 {
            return self.write_v0(cell, bytes).await;
        }
        let id = self.core.next_id();
        let frame = write_frame(id, cell.id.as_str(), bytes);
        let answer = self.core.ask(Kind::Write, id, frame).await?;
        accepted(result(&answer)?)
    }

    async fn write_v0(&self, cell: &Cell, bytes: &Bytes) -> Result<(), ClientError> {
        if cell.is_exited() || matches!(cell.io, Io::Pipe { .. }) {
            return Err(ClientError::StdinClosed);
        }
        let params = v0::WriteParams {
            session_id: cell.id.as_str().to_owned(),
            chunk: Blob(bytes.clone()),
        };
        let kind = Kind::AfterInput;
        match self.core.call_as::<Value>(kind, v0::WRITE, &params).await {
            Ok(_) => Ok(()),
            // It ended meanwhile: the id is forgotten or the terminal gone.
            Err(ClientError::Rpc { .. }) => Err(ClientError::StdinClosed),
            Err(error) => Err(error),
        }
    }

    pub(in crate::client) async fn close_stdin(&self, cell: &Cell) -> Result<(), ClientError> {
        self.core.peer.require(peer::CLOSE_STDIN)?;
        let params = process_params(cell);
        let kind = Kind::AfterInput;
        let answer = self.core.call_as(kind, v1::CLOSE_STDIN, &params).await?;
        match accepted(answer) {
            // Closed is what was asked for.
            Err(ClientError::StdinClosed) => Ok(()),
            other => other,
        }
    }

    pub(in crate::client) async fn resize(
        &self,
        cell: &Cell,
        size: TerminalSize,
    ) -> Result<(), ClientError> {
        self.core.peer.require(peer::RESIZE)?;
        let params = v1::ResizeParams {
            process_id: cell.id.as_str().to_owned(),
            rows: size.rows.into(),
            cols: size.cols.into(),
        };
        self.core.call::<Value>(v1::RESIZE, &params).await?;
        cell.lock().size = Some(size);
        Ok(())
    }

    pub(in crate::client) async fn signal(
        &self,
        cell: &Cell,
        signal: Signal,
        target: Target,
    ) -> Result<bool, ClientError> {
        let is_codexs = signal == Signal::Interrupt
            && target == Target::Group
            && self.core.peer.dialect == Dialect::ProcessV1;
        if !is_codexs {
            self.core.peer.require(peer::SIGNALS)?;
        }
        let params = v1::SignalParams {
            process_id: cell.id.as_str().to_owned(),
            signal: signal_to_wire(signal),
            target: (target != Target::Group).then(|| target_to_wire(target)),
        };
        let answer: v1::SignalAnswer = self.core.call(v1::SIGNAL, &params).await?;
        Ok(answer.delivered.unwrap_or(true))
    }

    pub(in crate::client) async fn end(&self, cell: &Cell, end: End) -> Result<bool, ClientError> {
        let mode = match end {
            End::Force => None,
            End::Graceful { interrupt, term } => {
                self.core.peer.require(peer::END)?;
                Some(v1::TerminateMode::Graceful {
                    interrupt_ms: millis(interrupt),
                    timeout_ms: millis(term),
                })
            }
        };
        if self.core.peer.dialect == Dialect::V0 {
            let session_id = cell.id.as_str().to_owned();
            let params = v0::TerminateParams { session_id };
            let answer: v1::TerminateAnswer = self.core.call(v0::TERMINATE, &params).await?;
            return Ok(answer.running);
        }
        let answer = self.terminate(cell, mode, None).await?;
        Ok(answer.running)
    }

    pub(in crate::client) async fn end_survivors(&self, cell: &Cell) -> Result<(), ClientError> {
        self.core.peer.require(peer::END)?;
        if !cell.is_exited() {
            return Ok(());
        }
        let survivors = Some(v1::Survivors::End);
        self.terminate(cell, None, survivors).await.map(|_| ())
    }

    async fn terminate(
        &self,
        cell: &Cell,
        mode: Option<v1::TerminateMode>,
        survivors: Option<v1::Survivors>,
    ) -> Result<v1::TerminateAnswer, ClientError> {
        let params = v1::TerminateParams {
            process_id: cell.id.as_str().to_owned(),
            mode,
            survivors,
        };
        self.core.call(v1::TERMINATE, &params).await
    }

    pub(in crate::client) async fn snapshot(&self, cell: &Cell) -> Result<Snapshot, ClientError> {
        if !self.core.peer.has(peer::SNAPSHOT) {
            return Ok(kept_snapshot(cell));
        }
        let params = process_params(cell);
        let answer = self.core.call(v1::SNAPSHOT, &params).await?;
        Ok(snapshot_from_wire(answer))
    }

    /// v0 cannot be read from again; what the client keeps has to do.
    pub(in crate::client) fn kept_by(&self) -> KeptBy {
        match self.core.peer.dialect {
            Dialect::V0 => KeptBy::Client,
            Dialect::ProcessV1 => KeptBy::Server(Arc::clone(&self.core)),
        }
    }

    /// The handle is gone: forces the end, of survivors too.
    pub(in crate::client) fn abandon(&self, cell: &Cell) {
        // Only our server knows survivors; elsewhere a leader that ended is all there is to end.
        if self.core.peer.is_ours() || !cell.is_exited() {
            self.core.end_process(&cell.id);
        }
    }
}

fn process_params(cell: &Cell) -> v1::ProcessParams {
    v1::ProcessParams {
        process_id: cell.id.as_str().to_owned(),
    }
}

fn accepted(answer: v1::StatusAnswer) -> Result<(), ClientError> {
    match answer.status {
        v1::WriteStatus::Accepted => Ok(()),
        // A process nobody knows any more has ended.
        v1::WriteStatus::StdinClosed | v1::WriteStatus::UnknownProcess => {
            Err(ClientError::StdinClosed)
        }
        v1::WriteStatus::Starting => Err(ClientError::Protocol(
            "the process was started and is said to be starting".to_owned(),
        )),
    }
}

fn kept_snapshot(cell: &Cell) -> Snapshot {
    let inner = cell.lock();
    let exit_code = inner.exit.map(|(_, exit)| exit.code);
    let stream = |name| {
        inner
            .kept
            .as_ref()
            .map(|kept| kept.stream(name))
            .unwrap_or_default()
    };
    snapshot_of(stream, exit_code, inner.size)
}

fn snapshot_from_wire(answer: v1::SnapshotAnswer) -> Snapshot {
    let v1::SnapshotAnswer {
        stdout,
        stderr,
        terminal,
        truncated,
        exit_code,
        running,
        size,
        streams,
    } = answer;
    let stream = |Blob(mut bytes): Blob, name| {
        let counts = streams.get(&name).copied().unwrap_or_default();
        let head_bytes = usize::try_from(counts.head_bytes).unwrap_or(usize::MAX);
        let head = bytes.split_to(head_bytes.min(bytes.len()));
        StreamSnapshot {
            head,
            tail: bytes,
            total_bytes: counts.total_bytes,
            omitted_bytes: counts.omitted_bytes,
        }
    };
    let narrow = |size: u32| u16::try_from(size).unwrap_or(u16::MAX);
    Snapshot {
        stdout: stream(stdout, v1::StreamName::Stdout),
        stderr: stream(stderr, v1::StreamName::Stderr),
        terminal: stream(terminal, v1::StreamName::Pty),
        truncated,
        running,
        exit_code,
        size: size.map(|size| TerminalSize {
            rows: narrow(size.rows),
            cols: narrow(size.cols),
        }),
    }
}

fn signal_to_wire(signal: Signal) -> v1::Signal {
    match signal {
        Signal::Interrupt => v1::Signal::Interrupt,
        Signal::Terminate => v1::Signal::Terminate,
        Signal::Kill => v1::Signal::Kill,
        Signal::Hangup => v1::Signal::Hangup,
        Signal::Quit => v1::Signal::Quit,
        Signal::Usr1 => v1::Signal::Usr1,
        Signal::Usr2 => v1::Signal::Usr2,
        Signal::Stop => v1::Signal::Stop,
        Signal::Continue => v1::Signal::Continue,
    }
}

fn target_to_wire(target: Target) -> v1::Target {
    match target {
        Target::Group => v1::Target::Group,
        Target::Leader => v1::Target::Leader,
        Target::All => v1::Target::All,
    }
}
