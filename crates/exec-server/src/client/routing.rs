//! Where a frame goes: to the call it answers or to the process it is about.
//!
//! The invariant here: routing never waits. A process learns of an event before the next frame is
//! looked at, so an answer never overtakes the events that were sent before it. What is about a
//! process nobody knows is ignored, since its owner may have gone; what is no message at all ends the
//! connection.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;
use turnlane_process::{Io, StreamName};
use turnlane_protocol::envelope::{Message, decode};
use turnlane_protocol::exec_server::v0::ExecAnswer;

use super::cell::{Cell, Failure, Told};
use super::core::{Core, Outcome, Pending, result};
use super::error::ClientError;
use super::events::ProcessId;
use super::kept::Kept;
use super::resume;
use super::wire::{self, Notice};

impl Core {
    /// Takes one frame; an error ends the connection.
    pub(super) fn route(self: &Arc<Self>, frame: &Bytes) -> Result<(), String> {
        if let Some(output) = wire::quick_output(frame) {
            if let Some(cell) = self.cell(output.process) {
                let (stream, bytes) = (output.stream, output.bytes);
                if cell.accept(output.seq, Told::Output { stream, bytes }) {
                    self.forget(&cell);
                }
            }
            return Ok(());
        }
        match decode(frame) {
            Ok(Message::Notification { method, params, .. }) => self.notice(&method, params),
            Ok(Message::Answer { id, outcome }) => {
                let id = id.and_then(|id| id.as_i64());
                let outcome = match outcome {
                    Ok(json) => Ok(frame.slice_ref(json.get().as_bytes())),
                    Err(error) => Err(ClientError::from(error)),
                };
                if let Some(id) = id {
                    self.answered(id, outcome);
                } else {
                    tracing::debug!("an answer to nobody was ignored");
                }
            }
            // Servers of both dialects ask nothing; one that does gets no answer.
            Ok(Message::Request { method, .. }) => {
                tracing::debug!(%method, "a request of the server was ignored");
            }
            Err(refusal) => {
                return Err(format!(
                    "the server sent no message: {}",
                    refusal.error.message
                ));
            }
        }
        Ok(())
    }

    fn cell(&self, process: &str) -> Option<Arc<Cell>> {
        self.lock().cells.get(process).cloned()
    }

    fn notice(self: &Arc<Self>, method: &str, params: Option<&RawValue>) {
        let Notice { process, seq, told } = match wire::notice(method, params) {
            Some(Ok(notice)) => notice,
            Some(Err(error)) => return self.malformed(method, params, &error),
            None => return tracing::debug!(%method, "an unknown notification was ignored"),
        };
        let Some(cell) = self.cell(&process) else {
            return;
        };
        let is_last = matches!(told, Told::Closed { .. });
        let is_over = match (seq, told) {
            (Some(seq), told) => cell.accept(seq, told),
            (None, Told::Output { stream, bytes }) => {
                let stream = stream_of(&cell, stream);
                cell.accept_next(Told::Output { stream, bytes })
            }
            // v0 tells no close. Output of survivors may follow and is not waited for.
            (None, exited) => {
                cell.accept_next(exited);
                cell.accept_next(Told::Closed {
                    drain_timed_out: false,
                })
            }
        };
        if is_over {
            self.forget(&cell);
        } else if is_last && let Some(after) = cell.begin_replay() {
            // Nothing follows a close, so what is missing before it will not come by itself.
            tokio::spawn(resume::catch_up(Arc::clone(self), cell, after));
        }
    }

    /// An event we cannot read is a gap that never fills: the process it names has failed.
    fn malformed(&self, method: &str, params: Option<&RawValue>, error: &serde_json::Error) {
        #[derive(serde::Deserialize)]
        struct Named {
            #[serde(rename = "processId", alias = "sessionId")]
            process: String,
        }
        let named = params.and_then(|params| serde_json::from_str::<Named>(params.get()).ok());
        if let Some(cell) = named.and_then(|named| self.cell(&named.process)) {
            cell.fail(Failure::Protocol(format!("{method}: {error}")));
        }
    }

    fn answered(&self, id: i64, outcome: Outcome) {
        let pending = self.lock().pending.remove(&id);
        match pending {
            Some(Pending::StartV0 { answer, born }) => {
                let named = outcome.as_ref().ok();
                let named = named.and_then(|json| result::<ExecAnswer>(json).ok());
                let id = named.map(|named| ProcessId::new(&named.session_id));
                if let Some(id) = &id {
                    let _ = born.cell.set(self.adopt(id, born.io));
                }
                // Nobody waits for the start any more: nobody will own the process either.
                if answer.send(outcome).is_err()
                    && let Some(id) = id
                {
                    self.end_process(&id);
                }
            }
            Some(Pending::Replay { answer, cell }) => {
                // What follows the answer comes right behind it: it must be in place by then.
                let taken = outcome
                    .as_ref()
                    .is_ok_and(|json| resume::take_live(&cell, json));
                let outcome = if taken { Ok(Bytes::new()) } else { outcome };
                let _ = answer.send(outcome);
            }
            Some(pending) => pending.resolve(outcome),
            None => {}
        }
    }

    /// No more events of this process are expected.
    pub(super) fn forget(&self, cell: &Cell) {
        self.lock().cells.remove(cell.id.as_str());
    }

    /// From now on events of this process are taken.
    pub(super) fn adopt(&self, id: &ProcessId, io: Io) -> Arc<Cell> {
        let has_snapshots = self.peer.has(super::peer::SNAPSHOT);
        let kept = (!has_snapshots).then(|| Kept::new(io));
        let cell = Cell::new(id.clone(), io, Arc::clone(&self.hub), kept);
        let cell = Arc::new(cell);
        self.lock().cells.insert(id.clone(), Arc::clone(&cell));
        cell
    }
}

/// v0 calls a terminal's output `stdout`.
fn stream_of(cell: &Cell, told: StreamName) -> StreamName {
    match cell.io {
        Io::Pty(_) => StreamName::Pty,
        Io::Pipe { .. } => told,
    }
}
