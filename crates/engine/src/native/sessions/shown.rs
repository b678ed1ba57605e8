//! A command as clients see it: one commandExecution item.
//!
//! The invariant here: an item that was started is completed once, because completing consumes it;
//! its deltas come before that, each at most [`DELTA_BYTES_MAX`], and joined they are its output
//! unless that is so long that its middle is left out. Nothing is told that has not been redacted.
//!
//! Who holds a [`Shown`] speaks for the item: the call until its process runs, then the task that
//! attends to the process.

use std::sync::Arc;

use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::item::{
    CommandAction, CommandExecution, CommandOutcome, CommandSource, Extra, ItemBody, ItemStatus,
    ThreadItem,
};
use turnlane_protocol::notification::DeltaKind;

use super::kept::Kept;
use crate::event::Event;
use crate::native::redact::Redactor;
use crate::native::tools::{Clock, ToolTurn};
use crate::said::Fenced;
use crate::sink::Sink;

/// The longest piece of output in one delta.
pub(crate) const DELTA_BYTES_MAX: usize = 8 * 1024;
/// What a completed item holds of its output.
const AGGREGATED_BYTES_MAX: usize = 256 * 1024;

/// The item of a command, or of a later look at it.
pub(crate) struct Shown {
    turn_id: TurnId,
    sink: Sink,
    clock: Clock,
    redactor: Arc<Redactor>,
    item_id: ItemId,
    started_at_ms: i64,
    is_started: bool,
    /// When its process began; none: there was none.
    ran_from_ms: Option<i64>,
    command: CommandExecution,
    output: Kept,
}

/// What an item shows from its beginning.
pub(crate) struct Face {
    /// The whole command line.
    pub(crate) command: String,
    pub(crate) cwd: String,
    pub(crate) actions: Vec<CommandAction>,
}

/// How an item ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The process ended; the signal, if one ended it.
    Exited { code: i32, signal: Option<i32> },
    /// The turn was stopped, and the process with it unless it was an earlier one's.
    Interrupted { signal: Option<i32> },
    /// The process runs on without the item.
    GoesOn,
    /// Somebody or something said no.
    Declined,
    /// There was no process.
    NotStarted,
}

impl Shown {
    /// An item nobody was told of yet.
    pub(crate) fn new(turn: &ToolTurn, item_id: ItemId, face: Face) -> Self {
        let command = CommandExecution {
            command: turn.redactor.text(&face.command).into_owned(),
            cwd: turn.redactor.text(&face.cwd).into_owned(),
            status: ItemStatus::InProgress,
            command_actions: face.actions,
            process_id: None,
            source: Some(CommandSource::Agent),
            aggregated_output: None,
            exit_code: None,
            duration_ms: None,
            plugin_id: None,
            script_path: None,
            outcome: None,
            extra: Extra::new(),
        };
        Self {
            turn_id: turn.turn_id,
            sink: turn.sink.clone(),
            clock: Arc::clone(&turn.clock),
            redactor: Arc::clone(&turn.redactor),
            item_id,
            started_at_ms: (turn.clock)(),
            is_started: false,
            ran_from_ms: None,
            command,
            output: Kept::new(AGGREGATED_BYTES_MAX),
        }
    }

    pub(crate) fn item_id(&self) -> &ItemId {
        &self.item_id
    }

    pub(crate) fn turn_id(&self) -> TurnId {
        self.turn_id
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The whole command line, redacted.
    pub(crate) fn command(&self) -> &str {
        &self.command.command
    }

    pub(crate) fn cwd(&self) -> &str {
        &self.command.cwd
    }

    pub(crate) fn actions(&self) -> &[CommandAction] {
        &self.command.command_actions
    }

    /// From now on the item shows which session it is about.
    pub(crate) fn of_session(&mut self, number: u64, source: CommandSource) {
        self.command.process_id = Some(number.to_string());
        self.command.source = Some(source);
    }

    /// Its process runs since now.
    pub(crate) fn runs(&mut self) {
        self.ran_from_ms.get_or_insert((self.clock)());
    }

    pub(crate) fn is_started(&self) -> bool {
        self.is_started
    }

    /// Announces the item. Again: nothing.
    pub(crate) async fn start(&mut self) -> Result<(), Fenced> {
        if std::mem::replace(&mut self.is_started, true) {
            return Ok(());
        }
        let body = ItemBody::CommandExecution(Box::new(self.command.clone()));
        let item = ThreadItem::started(self.item_id.clone(), self.started_at_ms, body);
        self.sink.emit(Event::ItemStarted(Box::new(item))).await
    }

    /// Tells what the command wrote, in pieces; waits while the lane has not listened.
    pub(crate) async fn grow(&mut self, mut text: &str) -> Result<(), Fenced> {
        self.output.push(text);
        while !text.is_empty() {
            let (piece, rest) = text.split_at(text.floor_char_boundary(DELTA_BYTES_MAX));
            text = rest;
            let delta = Event::Delta {
                item_id: self.item_id.clone(),
                kind: DeltaKind::CommandOutput,
                text: piece.to_owned(),
            };
            self.sink.emit(delta).await?;
        }
        Ok(())
    }

    /// Ends the item; it is stored as it is now.
    pub(crate) async fn complete(mut self, how: How) -> Result<(), Fenced> {
        let now_ms = (self.clock)();
        let command = &mut self.command;
        if !self.output.is_empty() {
            // Two streams may have put a key together that neither of them wrote.
            let output = self.output.text();
            command.aggregated_output = Some(self.redactor.text(&output).into_owned());
        }
        command.duration_ms = self.ran_from_ms.map(|from| (now_ms - from).max(0));
        let (status, exit_code, outcome) = match how {
            How::Exited { code, signal } => {
                let ended = match signal {
                    Some(_) => CommandOutcome::Signalled,
                    None => CommandOutcome::Exited,
                };
                let status = match code {
                    0 => ItemStatus::Completed,
                    _ => ItemStatus::Failed,
                };
                (status, Some(code), Some(ended))
            }
            How::Interrupted { signal } => {
                let code = signal.map(|signal| 128 + signal);
                (ItemStatus::Failed, code, Some(CommandOutcome::Interrupted))
            }
            How::GoesOn => (ItemStatus::Completed, None, None),
            How::Declined => {
                command.source = Some(CommandSource::Agent);
                command.process_id = None;
                (ItemStatus::Declined, None, Some(CommandOutcome::Declined))
            }
            How::NotStarted => (ItemStatus::Failed, None, None),
        };
        command.status = status;
        command.exit_code = exit_code;
        command.outcome = outcome;
        let body = ItemBody::CommandExecution(Box::new(self.command));
        let mut item = ThreadItem::started(self.item_id, self.started_at_ms, body);
        item.completed_at_ms = Some(now_ms);
        self.sink.emit(Event::ItemCompleted(Box::new(item))).await
    }
}
