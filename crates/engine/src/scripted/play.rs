//! Plays one turn of a script, step by step.
//!
//! The invariant here: an interrupt ends the turn at every step, and a steer that was accepted is
//! taken: between steps, by `await`, or at the end, where the lane says whether one is left.
//!
//! Commands and patches are in the neighbour `tools`, steers in `listen`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use turnlane_protocol::item::{AgentMessage, Extra, ItemBody, Reasoning};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_protocol::usage::TokenCounts;

use super::entries::{Scribe, ScriptPosition, turns_in};
use super::gates::Gates;
use super::real::RealTools;
use super::script::{Approve, Await, Awaited, End, Failure, Say, Script, Step, Tool};
use super::stage::Stage;
use super::tools::{Called, Consent};
use crate::cancel::{CancelReason, Cancelled};
use crate::control::TurnControl;
use crate::engine::BoxFuture;
use crate::event::Event;
use crate::hooks::{BeforeCompact, CompactTrigger, Gate, Limited};
use crate::outcome::TurnOutcome;
use crate::request::{TurnKind, TurnRequest};
use crate::said::Fenced;

/// What a turn claims to have used when its script does not say.
const DEFAULT_USAGE: TokenCounts = TokenCounts {
    input_tokens: 10,
    cached_input_tokens: 0,
    cache_write_input_tokens: 0,
    output_tokens: 2,
    reasoning_output_tokens: 0,
};

/// Why the steps of a turn do not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// The script is done with this turn.
    Completed,
    /// Somebody stopped it; with an error when a hook did.
    Interrupted(Option<Box<TurnError>>),
    Failed(Box<TurnError>),
    /// The lane is not ours: not another word.
    Fenced,
}

impl Stop {
    pub(super) fn by_hook(text: String) -> Self {
        let error = TurnError::new(text, CodexErrorInfo::Other, ErrorKind::Interrupted);
        Self::Interrupted(Some(Box::new(error)))
    }
}

impl From<Fenced> for Stop {
    fn from(_: Fenced) -> Self {
        Self::Fenced
    }
}

impl From<Cancelled> for Stop {
    fn from(_: Cancelled) -> Self {
        Self::Interrupted(None)
    }
}

/// One turn on its way.
pub(super) struct Player {
    pub(super) stage: Stage,
    /// What does real steps.
    pub(super) real: Option<RealTools>,
    pub(super) scribe: Scribe,
    pub(super) control: TurnControl,
    pub(super) cwd: String,
    pub(super) provider: String,
    pub(super) gates: Gates,
    /// The call that has no answer yet.
    pub(super) open_call: Option<String>,
    /// The diff of the turn so far.
    pub(super) diff: String,
    /// What `{input}` stands for: what was said last.
    pub(super) heard: String,
    /// What was said first in the thread.
    pub(super) first_heard: String,
    /// The step that is played; a turn that continues this one goes on here.
    pub(super) place: ScriptPosition,
    pub(super) last_message: Option<String>,
}

/// What a player has to do.
pub(super) struct Part {
    pub(super) request: TurnRequest,
    pub(super) script: Arc<Script>,
}

impl Player {
    /// Plays a turn to its end.
    pub(super) async fn play(mut self, part: Part) -> TurnOutcome {
        let ended = self.turn(part).await;
        if let Some(real) = self.real.take() {
            real.end(&ended).await;
        }
        let outcome = match ended {
            Ok(()) | Err(Stop::Completed) => TurnOutcome::completed(),
            Err(Stop::Failed(error)) => TurnOutcome::failed(*error),
            Err(Stop::Interrupted(error)) => {
                // Fenced or not, the outcome is the same; the lane knows which.
                let _ = self.break_off().await;
                TurnOutcome {
                    error: error.map(|error| *error),
                    ..TurnOutcome::interrupted()
                }
            }
            Err(Stop::Fenced) => TurnOutcome::interrupted(),
        };
        TurnOutcome {
            usage: self.stage.used(),
            last_agent_message: self.last_message,
            ..outcome
        }
    }

    async fn turn(&mut self, part: Part) -> Result<(), Stop> {
        let Part { request, script } = part;
        self.pass_gate().await?;
        self.note_all(&request.context).await?;
        if request.kind == TurnKind::Compact {
            return self.compact(turns_in(&request.history)).await;
        }
        let unrecorded = &request.unrecorded;
        let recorded: Vec<_> = unrecorded
            .iter()
            .filter_map(|m| self.scribe.late(m))
            .collect();
        if !recorded.is_empty() {
            self.stage.record(recorded).await?;
        }
        if let Some(item_id) = &request.item_id {
            let entry = self.scribe.user(item_id, &self.heard);
            self.stage.record(vec![entry]).await?;
        }
        loop {
            let rule = self.place.rule.and_then(|rule| script.turns.get(rule));
            let steps = rule.map_or(&script.fallback, |rule| &rule.steps);
            match self.steps_from_place(steps).await {
                Ok(()) | Err(Stop::Completed) => {}
                Err(stop) => return Err(stop),
            }
            // A stop from here on cuts no step.
            self.place.step = steps.len();
            if self.stage.used().is_none() {
                self.stage.use_tokens(DEFAULT_USAGE).await?;
            }
            if self.may_end().await? {
                return Ok(());
            }
            // Whatever was said last is answered as any other input would be.
            self.place = ScriptPosition::FALLBACK;
        }
    }

    /// Plays the steps of a rule from the place of the turn on.
    async fn steps_from_place(&mut self, steps: &[Step]) -> Result<(), Stop> {
        while let Some(step) = steps.get(self.place.step) {
            self.steps(std::slice::from_ref(step)).await?;
            self.place.step += 1;
        }
        Ok(())
    }

    /// Boxed because a step may hold steps.
    fn steps<'a>(&'a mut self, steps: &'a [Step]) -> BoxFuture<'a, Result<(), Stop>> {
        Box::pin(async move {
            for step in steps {
                self.stop_if_cancelled()?;
                // What comes before an `await` is for the `await`.
                if !matches!(step, Step::Await(_)) {
                    self.take_waiting().await?;
                }
                self.step(step).await?;
            }
            Ok(())
        })
    }

    async fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Reasoning(say) => self.think(say).await,
            Step::Say(say) => self.say(say).await,
            Step::Exec(exec) => {
                let tool = Tool::Exec(exec.clone());
                self.call(&tool, Consent::NotNeeded).await.map(drop)
            }
            Step::Patch(patch) => {
                let tool = Tool::Patch(patch.clone());
                self.call(&tool, Consent::NotNeeded).await.map(drop)
            }
            Step::Call(call) => self.call_runtime(call).await,
            Step::Approve(approve) => self.approve(approve).await,
            Step::Plan(plan) => {
                let plan = plan.clone();
                let explanation = None;
                Ok(self.stage.emit(Event::Plan { explanation, plan }).await?)
            }
            Step::Usage(counts) => Ok(self.stage.use_tokens(*counts).await?),
            Step::Await(wait) => self.wait(wait).await,
            Step::Error(failure) => self.fail(failure).await,
            Step::End(end) => self.end(*end).await,
        }
    }

    async fn think(&mut self, say: &Say) -> Result<(), Stop> {
        let text = self.filled(&say.text);
        let id = self.stage.next_item_id();
        let mut body = Reasoning::default();
        if say.chunk == 0 {
            body.summary.push(text.clone());
        }
        self.stage
            .start(id.clone(), ItemBody::Reasoning(body))
            .await?;
        if say.chunk > 0 {
            let part = Event::SummaryPartAdded {
                item_id: id,
                summary_index: 0,
            };
            self.stage.emit(part).await?;
        }
        self.stream(say, &text).await?;
        self.stage.complete(|_| ()).await?;
        let entry = self.scribe.reasoning(&text);
        Ok(self.stage.record(vec![entry]).await?)
    }

    async fn say(&mut self, say: &Say) -> Result<(), Stop> {
        let text = self.filled(&say.text);
        let id = self.stage.next_item_id();
        let mut body = AgentMessage {
            phase: say.phase.clone(),
            ..AgentMessage::default()
        };
        if say.chunk == 0 {
            body.text.clone_from(&text);
        }
        self.stage.start(id, ItemBody::AgentMessage(body)).await?;
        self.stream(say, &text).await?;
        self.stage.complete(|_| ()).await?;
        let entry = self.scribe.agent_message(&text);
        self.last_message = Some(text);
        Ok(self.stage.record(vec![entry]).await?)
    }

    async fn stream(&mut self, say: &Say, text: &str) -> Result<(), Stop> {
        if say.chunk == 0 {
            return self.pause(say.pause).await;
        }
        let mut rest = text;
        while !rest.is_empty() {
            let cut = rest.char_indices().nth(say.chunk);
            let (piece, after) = rest.split_at(cut.map_or(rest.len(), |(at, _)| at));
            self.pause(say.pause).await?;
            self.stage.grow(piece).await?;
            rest = after;
        }
        Ok(())
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{input}", &self.heard)
    }

    async fn approve(&mut self, approve: &Approve) -> Result<(), Stop> {
        let reason = approve.reason.as_deref();
        let called = self.call(&approve.tool, Consent::Needed { reason }).await?;
        match called {
            Called::Ran => self.steps(&approve.accepted).await,
            Called::Declined => self.steps(&approve.declined).await,
        }
    }

    async fn wait(&mut self, wait: &Await) -> Result<(), Stop> {
        let at_most = wait.at_most.unwrap_or(Duration::MAX);
        let cancel = self.control.cancel.clone();
        match &wait.what {
            Awaited::Time => self.pause(at_most).await,
            Awaited::Gate(name) => {
                let passed = timeout(at_most, self.gates.pass(name));
                // Opened or too late, the script goes on.
                cancel.unless_cancelled(passed).await.map(drop)?;
                Ok(())
            }
            Awaited::Steer => {
                let steer = timeout(at_most, self.control.steer.recv());
                let Ok(steer) = cancel.unless_cancelled(steer).await? else {
                    return Ok(());
                };
                self.take(steer.ok_or(Fenced)?).await?;
                self.take_waiting().await
            }
        }
    }

    async fn fail(&mut self, failure: &Failure) -> Result<(), Stop> {
        let mut error = TurnError::new(
            failure.message.as_str(),
            failure.info.clone(),
            failure.kind.clone(),
        );
        if let Some(after) = failure.retry_after {
            let after_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            let at_ms = self.stage.now_ms().saturating_add(after_ms);
            // Rounded up: a second too early would be a second refusal.
            error.retry_at = Some(at_ms.saturating_add(999).div_euclid(1000));
            error.additional_details = Some(format!("retry_after_ms={after_ms}"));
        }
        if !failure.will_retry {
            return Err(Stop::Failed(Box::new(error)));
        }
        self.stage.emit(Event::Retry(Box::new(error))).await?;
        let delay = failure.retry_after.unwrap_or_default();
        let is_limit = matches!(failure.kind, ErrorKind::RateLimited | ErrorKind::Overloaded);
        let held = is_limit && {
            let limited = self.control.ask.limited(&self.provider, delay).await;
            limited == Limited::Hold
        };
        if !held {
            self.pause(delay).await?;
        }
        self.pass_gate().await
    }

    async fn end(&mut self, end: End) -> Result<(), Stop> {
        match end {
            End::Completed => Err(Stop::Completed),
            End::Interrupted => Err(Stop::Interrupted(None)),
            End::Failed => Err(Stop::Failed(Box::new(TurnError::new(
                "the script ends this turn as failed",
                CodexErrorInfo::Other,
                ErrorKind::Other,
            )))),
            End::Hang => Err(self.control.cancel.cancelled().await.into()),
            // Only in scripts that were read with AbortSteps::Allowed.
            End::Abort => std::process::abort(),
        }
    }

    async fn compact(&mut self, turns: u64) -> Result<(), Stop> {
        let hooked = self.control.ask.before_compact(CompactTrigger::Manual);
        let hooked = hooked.await;
        self.note_all(&hooked.context).await?;
        self.stop_if_cancelled()?;
        match hooked.answer {
            BeforeCompact::Go => {}
            BeforeCompact::Skip => return Ok(()),
            BeforeCompact::Stop(text) => return Err(Stop::by_hook(text)),
        }
        let id = self.stage.next_item_id();
        let body = ItemBody::ContextCompaction(Extra::new());
        self.stage.start(id, body).await?;
        let entry = self.scribe.compaction(turns);
        self.stage.record(vec![entry]).await?;
        self.stage.complete(|_| ()).await?;
        self.stage.use_tokens(DEFAULT_USAGE).await?;
        let hooked = self.control.ask.after_compact(CompactTrigger::Manual).await;
        self.note_all(&hooked.context).await
    }

    /// As every request to a provider has to.
    async fn pass_gate(&mut self) -> Result<(), Stop> {
        let gate = self.control.ask.gate(&self.provider).await;
        self.stop_if_cancelled()?;
        match gate {
            Gate::Go => Ok(()),
            Gate::Stop(error) => Err(Stop::Failed(error)),
        }
    }

    pub(super) async fn pause(&mut self, time: Duration) -> Result<(), Stop> {
        if time.is_zero() {
            return self.stop_if_cancelled();
        }
        self.control.cancel.unless_cancelled(sleep(time)).await?;
        Ok(())
    }

    pub(super) fn stop_if_cancelled(&self) -> Result<(), Stop> {
        match self.control.cancel.get() {
            Some(cancelled) => Err(cancelled.into()),
            None => Ok(()),
        }
    }

    /// Leaves items and history as an interrupt should.
    async fn break_off(&mut self) -> Result<(), Fenced> {
        self.stage.cut_off().await?;
        let cause = self.control.cancel.get().map(|cancelled| cancelled.reason);
        let by_server = cause == Some(CancelReason::Shutdown);
        let mut entries = Vec::new();
        if let Some(call_id) = self.open_call.take() {
            let text = if by_server {
                "stopped with the server; it may have partly run"
            } else {
                "aborted by user; it may have partly run"
            };
            entries.push(self.scribe.answer(&call_id, text));
        }
        entries.push(if by_server {
            let note = "<turn_stopped>The server was stopped before the turn's end.</turn_stopped>";
            self.scribe.stopped(note, self.place)
        } else {
            let note = "<turn_aborted>The turn was stopped before its end.</turn_aborted>";
            self.scribe.note(note)
        });
        self.stage.record(entries).await
    }
}
