//! `exec_command`: a command of the model, from its arguments to what the model is told.
//!
//! The invariant here: a command runs only after its item was announced and nobody's consent is
//! missing; whatever happens then, its item is completed before the call returns, or is in the hands
//! of a session that completes it. A command that is declined has no process.
//!
//! What a session does by itself is in [`sessions`](crate::native::sessions), whether somebody is
//! asked in [`policy`], applying patches in the sibling `patch`.

mod amendment;
pub(super) mod arguments;
mod command;
mod launch;
mod quote;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use launch::sandbox_for;
pub(super) use report::{Report, Wait, aborted};

use std::path::Path;
use std::sync::Arc;

use tokio::time::Instant;
use turnlane_process::Process;
use turnlane_protocol::approval::Decision;
use turnlane_protocol::item::CommandSource;

use self::arguments::Arguments;
use self::command::Command;
use super::{Called, Output, Permission, Stop, ToolTurn, patch};
use crate::native::patch::{BARE_PATCH, Script, recognise};
use crate::native::policy::{self, COMMAND_REJECTED, Denied, Escalation, Stance};
use crate::native::rules::Verdict;
use crate::native::sessions::{Face, How, OnDenial, RUNNING_MAX, Reserved, Session, Shown};
use crate::said::{ApprovalRequest, Decided};

/// What a person is told who is asked to run a denied command again.
const DENIED_REASON: &str = "the sandbox denied the command something; run it without a sandbox?";

/// Runs a command, or applies the patch it turns out to be.
///
/// Dropped while it runs, the command is ended with its turn.
pub(crate) async fn exec_command(turn: &Arc<ToolTurn>, called: &Called) -> Result<Output, Stop> {
    let begun = Instant::now();
    let arguments: Arguments = match arguments::read(&called.arguments) {
        Ok(arguments) => arguments,
        Err(why) => return Ok(failure(turn, &why)),
    };
    let script = match turn.rules.judge(&arguments.cmd, &arguments.cmd) {
        // A patch in disguise of a command is judged as the command.
        Verdict::Forbidden(_) | Verdict::Prompt(_) => Script::Command,
        Verdict::Unmatched | Verdict::Allowed | Verdict::AllowedUnconfined => {
            recognise(&arguments.cmd)
        }
    };
    match script {
        Script::Patch { cd, text } => {
            let mut folder = Path::new(arguments.folder()).to_owned();
            folder.extend(cd);
            let folder = folder.to_str().filter(|folder| !folder.is_empty());
            return patch::apply(turn, called, folder, &text).await;
        }
        Script::Bare => return Ok(Output::failure(BARE_PATCH)),
        Script::Command => {}
    }
    let command = match Command::of(turn, arguments) {
        Ok(command) => command,
        Err(why) => return Ok(failure(turn, &why)),
    };
    if turn.cancel.is_cancelled() {
        return Err(aborted(turn, begun));
    }
    let Some(place) = turn.sessions.reserve() else {
        let text = format!("too many running commands ({RUNNING_MAX})");
        return Ok(Output::failure(text));
    };
    let run = Run {
        turn,
        called,
        command,
        begun,
        place,
    };
    run.run().await
}

fn failure(turn: &ToolTurn, why: &str) -> Output {
    Output::failure(turn.redactor.text(why))
}

/// What came of a question.
enum Consent {
    Given,
    /// The model is told why.
    Declined(String),
    /// The turn is to stop.
    Stopped(Stop),
}

/// One command on its way.
struct Run<'a> {
    turn: &'a Arc<ToolTurn>,
    called: &'a Called,
    command: Command,
    begun: Instant,
    place: Reserved,
}

impl Run<'_> {
    async fn run(mut self) -> Result<Output, Stop> {
        let face = Face {
            command: self.command.line.clone(),
            cwd: self.command.cwd.clone(),
            actions: self.command.actions.clone(),
        };
        let mut shown = Shown::new(self.turn, self.called.item_id.clone(), face);
        let (stance, refusal) = self.stance();
        if stance == Stance::Run && self.called.permission == Permission::Usual {
            shown.of_session(self.place.number, CommandSource::UnifiedExecStartup);
        }
        shown.start().await?;
        let consent = match (&self.called.permission, stance) {
            (Permission::Blocked(text), _) => Consent::Declined(text.clone()),
            // Nobody is asked about what a rule forbids, not even where a hook wants it.
            (Permission::Asked, Stance::Refuse) if self.command.is_forbidden() => {
                Consent::Declined(refusal.to_owned())
            }
            (Permission::Usual, Stance::Refuse) => Consent::Declined(refusal.to_owned()),
            (Permission::Asked, _) | (Permission::Usual, Stance::Ask) => {
                self.ask(&shown, self.command.escalation(), self.command.reason())
                    .await?
            }
            (Permission::Usual, Stance::Run) => Consent::Given,
        };
        match consent {
            Consent::Given => {}
            Consent::Declined(text) => {
                shown.complete(How::Declined).await?;
                return Ok(failure(self.turn, &text).declined());
            }
            Consent::Stopped(stop) => {
                let how = match stop {
                    Stop::Interrupted | Stop::Unanswered => How::Declined,
                    // Nobody declined it.
                    Stop::Cancelled(_) | Stop::Fenced => How::Interrupted { signal: None },
                };
                shown.complete(how).await?;
                return Err(stop);
            }
        }
        shown.of_session(self.place.number, CommandSource::UnifiedExecStartup);
        let on_denial = match policy::after_denial(self.turn.settings.approval_policy) {
            Denied::AskUnconfined if self.command.escalation() == Escalation::Confined => {
                OnDenial::HandBack
            }
            Denied::AskUnconfined | Denied::Tell => OnDenial::Complete,
        };
        self.go(shown, self.command.escalation(), on_denial).await
    }

    fn stance(&self) -> (Stance, &str) {
        self.command.stance(self.turn.settings.approval_policy)
    }

    /// Asks somebody; when they agree, the lane is still ours.
    async fn ask(
        &self,
        shown: &Shown,
        escalation: Escalation,
        reason: Option<String>,
    ) -> Result<Consent, Stop> {
        let reason = reason.map(|reason| self.turn.redactor.text(&reason).into_owned());
        let request = ApprovalRequest {
            item_id: shown.item_id().clone(),
            subject: self.command.subject(shown, escalation),
            reason,
            available_decisions: self.command.decisions(),
        };
        let decided = self.called.approve(&self.turn.ask, request).await;
        // A stop answers the question too, but then nobody has decided.
        if self.turn.cancel.is_cancelled() {
            return Ok(Consent::Stopped(aborted(self.turn, self.begun)));
        }
        if decided.is_timed_out() {
            return Ok(Consent::Stopped(Stop::Unanswered));
        }
        let Decided {
            decision, reason, ..
        } = decided;
        Ok(match decision {
            Decision::Accept
            | Decision::AcceptForSession
            | Decision::AcceptWithExecpolicyAmendment { .. } => {
                // Deciding may have taken an hour.
                self.turn.sink.commit().await?;
                Consent::Given
            }
            Decision::Decline => Consent::Declined(policy::rejected(COMMAND_REJECTED, reason)),
            Decision::Cancel => Consent::Stopped(Stop::Interrupted),
        })
    }

    /// Starts the process and waits for it as long as the model wants.
    async fn go(
        &mut self,
        shown: Shown,
        escalation: Escalation,
        on_denial: OnDenial,
    ) -> Result<Output, Stop> {
        let process = match self.spawn(escalation).await {
            Ok(process) => process,
            Err(Some(why)) => {
                // There may have been a denied one before.
                self.turn.sessions.forget(self.place.number);
                shown.complete(How::NotStarted).await?;
                return Ok(failure(self.turn, &why));
            }
            Err(None) => {
                self.turn.sessions.forget(self.place.number);
                shown.complete(How::Interrupted { signal: None }).await?;
                return Err(aborted(self.turn, self.begun));
            }
        };
        let stdin = self.command.stdin;
        let sessions = &self.turn.sessions;
        let session = sessions.open(&mut self.place, process, stdin, shown, on_denial);
        let wait = Wait {
            turn: self.turn,
            session: &session,
            begun: self.begun,
        };
        let waited = wait.for_call(self.command.yield_time).await?;
        if let Some(shown) = session.take_back() {
            return self.denied(&session, shown).await;
        }
        let limit = self.command.tokens_max;
        Ok(waited.output(self.turn, &session, limit))
    }

    /// None: the turn was stopped meanwhile.
    async fn spawn(&self, escalation: Escalation) -> Result<Process, Option<String>> {
        let spec = launch::spec(self.turn, &self.command, escalation);
        let spawned = self
            .turn
            .cancel
            .unless_cancelled(self.turn.service.spawn(spec))
            .await;
        match spawned {
            Ok(Ok(process)) => Ok(process),
            Ok(Err(error)) => Err(Some(format!("the command could not be started: {error}"))),
            Err(_cancelled) => Err(None),
        }
    }

    /// The sandbox denied the command something: somebody may let it run without one.
    async fn denied(&mut self, session: &Arc<Session>, shown: Shown) -> Result<Output, Stop> {
        let ended = session.end().await;
        let how = How::Exited {
            code: ended.code,
            signal: ended.signal,
        };
        let reason = Some(DENIED_REASON.to_owned());
        let consent = self.ask(&shown, Escalation::Escalated, reason).await?;
        match consent {
            Consent::Given => {
                let again = self.go(shown, Escalation::Escalated, OnDenial::Complete);
                Box::pin(again).await
            }
            // It ran, in its sandbox: that is what the model is told.
            Consent::Declined(_) => {
                shown.complete(how).await?;
                let report = Report::ended(self.begun, ended);
                Ok(report.output(self.turn, session, self.command.tokens_max))
            }
            Consent::Stopped(stop) => {
                let how = match stop {
                    Stop::Interrupted | Stop::Unanswered => how,
                    Stop::Cancelled(_) | Stop::Fenced => How::Interrupted {
                        signal: ended.signal,
                    },
                };
                shown.complete(how).await?;
                self.turn.sessions.forget(session.number);
                Err(stop)
            }
        }
    }
}
