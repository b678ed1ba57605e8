//! `write_stdin`: writes to a running command, or waits for it.
//!
//! The invariant here: the model is told only output it was not told before. In the turn that
//! started the command its own item shows what happens; in a later one each call has an item, which
//! is completed when the call returns.
//!
//! Ctrl-C is a byte like others: the terminal makes a signal of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use turnlane_process::FsEnforcement;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{CommandAction, CommandSource};

use super::exec::{Report, Wait, aborted, arguments};
use super::{Called, Output, Permission, Stop, ToolTurn};
use crate::event::Event;
use crate::native::danger::Danger;
use crate::native::policy::{
    self, COMMAND_REJECTED, CommandFacts, Escalation, REFUSED_BY_POLICY, Stance,
};
use crate::native::sessions::{Ended, Face, How, Session, SessionInput, Shown};
use crate::said::{ApprovalRequest, ApprovalSubject, Decided};

/// How long a call waits after writing, in milliseconds, if the model does not say.
const WRITE_DEFAULT_MS: u64 = 250;
/// The least and the most it may say.
const WRITE_BOUNDS_MS: (u64, u64) = (0, 30_000);
/// The same for a call that writes nothing.
const POLL_DEFAULT_MS: u64 = 5_000;
const POLL_BOUNDS_MS: (u64, u64) = (5_000, 300_000);
/// What the model is told who writes to a command without a terminal.
const STDIN_CLOSED: &str = "stdin is closed for this session; rerun exec_command with tty=true";
/// What it is told when its input waits for too long.
const NOT_READ: &str = "write_stdin failed: the command does not read its input";

#[derive(Debug, Deserialize)]
struct Arguments {
    session_id: f64,
    #[serde(default)]
    chars: Option<String>,
    yield_time_ms: Option<f64>,
    max_output_tokens: Option<f64>,
}

/// Writes to a session and reports what it did; with nothing to write it only waits.
///
/// Dropped while it waits, what was written stays written.
pub(crate) async fn write_stdin(turn: &Arc<ToolTurn>, called: &Called) -> Result<Output, Stop> {
    let begun = Instant::now();
    let arguments: Arguments = match arguments::read(&called.arguments) {
        Ok(arguments) => arguments,
        Err(why) => return Ok(Output::failure(turn.redactor.text(&why))),
    };
    let number = arguments::whole(arguments.session_id);
    let Some(session) = turn.sessions.get(number) else {
        let text = format!("write_stdin failed: Unknown process id {number}");
        return Ok(Output::failure(text));
    };
    let chars = arguments.chars.unwrap_or_default();
    let runs = session.has_ended().is_none();
    if runs && !chars.is_empty() && session.stdin == SessionInput::Closed {
        return Ok(Output::failure(STDIN_CLOSED));
    }
    let (default, bounds) = match chars.as_str() {
        "" => (POLL_DEFAULT_MS, POLL_BOUNDS_MS),
        _ => (WRITE_DEFAULT_MS, WRITE_BOUNDS_MS),
    };
    let writing = Writing {
        turn,
        called,
        session,
        chars,
        limit: arguments::milliseconds(arguments.yield_time_ms, default, bounds),
        tokens_max: arguments::tokens(arguments.max_output_tokens, turn.tools.output_tokens_max),
        begun,
    };
    match writing.consent().await? {
        Ok(item) => writing.write(item).await,
        Err(refused) => Ok(refused),
    }
}

struct Writing<'a> {
    turn: &'a Arc<ToolTurn>,
    called: &'a Called,
    session: Arc<Session>,
    chars: String,
    limit: Duration,
    tokens_max: u64,
    begun: Instant,
}

impl Writing<'_> {
    /// An item of this call that nobody was told of.
    fn item(&self) -> Shown {
        let command = self.session.command.clone();
        let face = Face {
            actions: vec![CommandAction::unknown(command.as_str())],
            command,
            cwd: self.session.cwd.clone(),
        };
        let mut shown = Shown::new(self.turn, self.called.item_id.clone(), face);
        shown.of_session(self.session.number, CommandSource::UnifiedExecInteraction);
        shown
    }

    fn is_later_turn(&self) -> bool {
        self.session.turn_id != self.turn.turn_id
    }

    /// Returns true if the command runs without a sandbox.
    fn is_unconfined(&self) -> bool {
        self.session.process.info().sandbox.fs == FsEnforcement::None
    }

    /// The policy's say. A command keeps the rights of its start, so a later turn with a sandbox
    /// would leave its sandbox by writing to a shell that has none. Everything else belongs to the
    /// command that the policy let run.
    fn stance(&self) -> Stance {
        let leaves_sandbox = self.is_later_turn()
            && !self.chars.is_empty()
            && self.turn.settings.sandbox_policy.is_confined()
            && self.is_unconfined();
        if !leaves_sandbox {
            return Stance::Run;
        }
        let facts = CommandFacts {
            dangerous: Danger::No,
            escalated: Escalation::Escalated,
        };
        policy::for_command(self.turn.settings.approval_policy, facts)
    }

    /// The call's item, if it needs one, or what the model is told instead.
    async fn consent(&self) -> Result<Result<Option<Shown>, Output>, Stop> {
        let stance = self.stance();
        if self.called.permission == Permission::Usual && stance == Stance::Run {
            return Ok(Ok(self.is_later_turn().then(|| self.item())));
        }
        let mut shown = self.item();
        shown.start().await?;
        let refused = match &self.called.permission {
            Permission::Blocked(text) => Some(text.clone()),
            Permission::Asked | Permission::Usual if stance == Stance::Refuse => {
                Some(REFUSED_BY_POLICY.to_owned())
            }
            Permission::Asked | Permission::Usual => match self.ask(&shown).await {
                Ok(refused) => refused,
                Err(stop) => {
                    let how = match stop {
                        Stop::Interrupted | Stop::Unanswered => How::Declined,
                        Stop::Cancelled(_) | Stop::Fenced => How::Interrupted { signal: None },
                    };
                    shown.complete(how).await?;
                    return Err(stop);
                }
            },
        };
        match refused {
            Some(text) => {
                shown.complete(How::Declined).await?;
                Ok(Err(Output::failure(self.turn.redactor.text(&text))))
            }
            None if self.is_later_turn() => Ok(Ok(Some(shown))),
            // The command's own item is open and shows what comes of it.
            None => {
                shown.complete(How::GoesOn).await?;
                Ok(Ok(None))
            }
        }
    }

    /// Why it is not done, if it is not.
    async fn ask(&self, shown: &Shown) -> Result<Option<String>, Stop> {
        let request = ApprovalRequest {
            item_id: shown.item_id().clone(),
            subject: ApprovalSubject::Command {
                command: shown.command().to_owned(),
                cwd: shown.cwd().to_owned(),
                actions: shown.actions().to_vec(),
                words: None,
                stdin: Some(self.redacted_chars()),
                escalated: self.is_unconfined(),
                proposed_amendment: None,
            },
            reason: Some(format!("to write {:?} to it", self.redacted_chars())),
            available_decisions: None,
        };
        let decided = self.called.approve(&self.turn.ask, request).await;
        if self.turn.cancel.is_cancelled() {
            return Err(aborted(self.turn, self.begun));
        }
        if decided.is_timed_out() {
            return Err(Stop::Unanswered);
        }
        let Decided {
            decision, reason, ..
        } = decided;
        match decision {
            Decision::Accept
            | Decision::AcceptForSession
            | Decision::AcceptWithExecpolicyAmendment { .. } => {
                self.turn.sink.commit().await?;
                Ok(None)
            }
            Decision::Decline => Ok(Some(policy::rejected(COMMAND_REJECTED, reason))),
            Decision::Cancel => Err(Stop::Interrupted),
        }
    }

    fn redacted_chars(&self) -> String {
        self.turn.redactor.text(&self.chars).into_owned()
    }

    async fn write(&self, item: Option<Shown>) -> Result<Output, Stop> {
        let item_id = match item {
            Some(item) => self.show(item).await?,
            None => None,
        };
        let told = match self.send(item_id.as_ref()).await {
            Ok(None) => self.wait().await,
            Ok(Some(refused)) => Ok(refused),
            Err(stop) => Err(stop),
        };
        if item_id.is_some() {
            let signal = None;
            let how = match told {
                Ok(_) => How::GoesOn,
                Err(_) => How::Interrupted { signal },
            };
            self.session.hide(how).await;
        }
        told
    }

    /// Lets the session show itself in the call's item; none if it shows itself elsewhere.
    async fn show(&self, item: Shown) -> Result<Option<ItemId>, Stop> {
        let item_id = item.item_id().clone();
        let Err(mut item) = self.session.show(item).await else {
            return Ok(Some(item_id));
        };
        match self.session.has_ended() {
            // All there is to show is how it ended.
            Some(Ended { code, signal }) => {
                item.start().await?;
                item.grow(&self.session.unreported()).await?;
                item.complete(How::Exited { code, signal }).await?;
            }
            // Another call of this turn shows it.
            None if item.is_started() => item.complete(How::GoesOn).await?,
            None => {}
        }
        Ok(None)
    }

    /// Writes; what the model is told if the command does not take it.
    async fn send(&self, item_id: Option<&ItemId>) -> Result<Option<Output>, Stop> {
        if self.chars.is_empty() || self.session.has_ended().is_some() {
            return Ok(None);
        }
        let item_id = item_id.unwrap_or(&self.session.item_id).clone();
        let interaction = Event::TerminalInteraction {
            item_id,
            process_id: self.session.number.to_string(),
            stdin: self.redacted_chars(),
        };
        self.turn.sink.emit(interaction).await?;
        let bytes = Bytes::copy_from_slice(self.chars.as_bytes());
        let limit = self.limit.max(Duration::from_millis(WRITE_DEFAULT_MS));
        let written = timeout(limit, self.session.process.write(bytes));
        match self.turn.cancel.unless_cancelled(written).await {
            // A command that has just ended takes nothing, and its end is told.
            Ok(Ok(Ok(()) | Err(_))) => Ok(None),
            Ok(Err(_elapsed)) => Ok(Some(Output::failure(NOT_READ))),
            Err(_cancelled) => Err(self.stopped().await),
        }
    }

    async fn wait(&self) -> Result<Output, Stop> {
        let wait = Wait {
            turn: self.turn,
            session: &self.session,
            begun: self.begun,
        };
        let report = match wait.until(self.limit).await {
            Ok(Some(ended)) => Report::ended(self.begun, ended),
            Ok(None) => Report::running(self.begun),
            Err(_stopped) => return Err(self.stopped().await),
        };
        Ok(report.output(self.turn, &self.session, self.tokens_max))
    }

    /// The turn stops: its own command ends with it, an earlier turn's goes on.
    async fn stopped(&self) -> Stop {
        if self.is_later_turn() {
            return aborted(self.turn, self.begun);
        }
        let wait = Wait {
            turn: self.turn,
            session: &self.session,
            begun: self.begun,
        };
        wait.interrupt().await
    }
}
