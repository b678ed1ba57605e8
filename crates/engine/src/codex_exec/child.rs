//! One `codex exec` process, from its start until nothing of it is left.
//!
//! The invariants: the three streams are served at the same time, so neither a long prompt nor a
//! chatty child makes the two wait for each other; the prompt leaves only after the lane has recorded
//! that it is about to; and whatever the process started is ended after every end of it.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use turnlane_process::{
    End, Event as ProcessEvent, ExitStatus, Output, Process, Signal, StreamName, Target, Until,
};
use turnlane_protocol::usage::TokenCounts;

use super::Shared;
use super::command::ExecCommand;
use super::lines::LineSplitter;
use super::outcome::{self, EndCause, ProcessEnd, refused};
use super::texts::reset::ChildZone;
use super::transcript::{Step, TerminalLine, Transcript};
use super::usage;
use crate::cancel::{CancelReason, CancelToken, Cancelled};
use crate::codex_program::{CodexThreadState, StderrLog};
use crate::event::Event;
use crate::outcome::TurnOutcome;
use crate::said::Fenced;
use crate::sink::Sink;

/// Time between SIGINT and SIGTERM, and between SIGTERM and SIGKILL.
const SIGNAL_GRACE: Duration = Duration::from_secs(2);
/// Time that a process which outlived Codex may hold standard output open.
const HELD_OUTPUT_LIMIT: Duration = Duration::from_secs(2);
/// Time to wait until what was killed is gone.
const SURVIVORS_LIMIT: Duration = Duration::from_secs(2);
/// Bytes of the prompt that are queued at once.
const PROMPT_PIECE_BYTES: usize = 64 * 1024;

/// The parts of a turn that its child works with.
pub(super) struct Child<'a> {
    pub(super) shared: &'a Shared,
    pub(super) command: &'a ExecCommand,
    pub(super) zone: &'a ChildZone,
    pub(super) sink: &'a Sink,
    pub(super) cancel: &'a CancelToken,
    pub(super) turn_id: String,
    /// The thread to resume; none before the first turn.
    pub(super) state: Option<CodexThreadState>,
}

/// A process that runs.
struct Running<'a> {
    child: Child<'a>,
    process: Process,
    transcript: Transcript,
    splitter: LineSplitter,
    stderr: StderrLog,
    has_output: bool,
    status: Option<ExitStatus>,
    cause: Option<EndCause>,
    started: Instant,
    last_progress: Instant,
    has_warned_of_silence: bool,
    /// When SIGTERM follows SIGINT, and how long SIGKILL waits after that.
    escalation: Option<(Instant, Duration)>,
    /// When survivors that hold standard output are ended.
    held_output_end: Option<Instant>,
}

impl Child<'_> {
    /// Runs the process to its end.
    pub(super) async fn run(self) -> Result<TurnOutcome, Fenced> {
        let (shared, command) = (self.shared, self.command);
        let spawned = shared
            .program
            .spawn(command.args.iter().cloned(), &command.cwd);
        let process = match spawned.await {
            Ok(process) => process,
            Err(error) => return Ok(refused(error.to_error())),
        };
        // Dropped on the way out of an error, the process is ended by force.
        self.sink.handing_over(None).await?;
        let Ok(output) = process.output() else {
            // Only this function has the process.
            return Ok(TurnOutcome::lost());
        };
        let now = Instant::now();
        let running = Running {
            transcript: Transcript::new(
                self.turn_id.clone(),
                command.cwd.display().to_string(),
                self.state.as_ref().map(|state| state.thread_id.clone()),
            ),
            splitter: LineSplitter::default(),
            stderr: StderrLog::new(shared.program.redactor()),
            has_output: false,
            status: None,
            cause: None,
            started: now,
            last_progress: now,
            has_warned_of_silence: false,
            escalation: None,
            held_output_end: None,
            child: self,
            process,
        };
        running.serve(output).await
    }
}

impl Running<'_> {
    async fn serve(mut self, mut output: Output) -> Result<TurnOutcome, Fenced> {
        let prompt = Bytes::from(self.child.command.prompt.clone());
        let mut feeding = Box::pin(feed(self.process.clone(), prompt));
        let mut is_fed = false;
        let cancel = self.child.cancel.clone();
        loop {
            let deadline = self.next_deadline();
            let wake = sleep_until(deadline.unwrap_or(self.started));
            tokio::select! {
                cancelled = cancel.cancelled(), if self.cause.is_none() => {
                    self.end_process(EndCause::Cancelled, Some(cancelled));
                }
                event = output.next() => match event {
                    Some(ProcessEvent::Output { stream, bytes, .. }) => {
                        self.read(stream, &bytes).await?;
                    }
                    Some(ProcessEvent::Exited { status, .. }) => {
                        self.status = Some(status);
                        self.held_output_end = Some(Instant::now() + HELD_OUTPUT_LIMIT);
                    }
                    Some(ProcessEvent::Closed { .. }) | None => break,
                },
                () = &mut feeding, if !is_fed => is_fed = true,
                () = wake, if deadline.is_some() => self.pass_deadline().await?,
            }
        }
        drop(feeding);
        self.finish().await
    }

    async fn read(&mut self, stream: StreamName, bytes: &[u8]) -> Result<(), Fenced> {
        if stream == StreamName::Stderr {
            self.stderr.push(bytes);
            return Ok(());
        }
        self.has_output = true;
        let now_ms = (self.child.shared.clock)();
        let (transcript, mut steps) = (&mut self.transcript, Vec::new());
        let progress = transcript.progress;
        self.splitter
            .push(bytes, |line| transcript.read_line(line, now_ms, &mut steps));
        if self.transcript.progress != progress {
            self.last_progress = Instant::now();
        }
        self.perform(steps).await
    }

    async fn perform(&mut self, steps: Vec<Step>) -> Result<(), Fenced> {
        for step in steps {
            match step {
                Step::Emit(event) => self.child.sink.emit(event).await?,
                Step::TurnStarted => self.child.sink.accepted().await?,
                Step::ThreadStarted(id) => {
                    // A new thread has used nothing yet.
                    let state = CodexThreadState::new(id, Some(TokenCounts::default()));
                    self.save(&state).await?;
                    self.child.state = Some(state);
                }
            }
        }
        if let Some(fault) = self.transcript.thread_fault
            && self.cause.is_none()
        {
            tracing::warn!(
                ?fault,
                "Codex works in a thread that is not ours and is ended"
            );
            self.cause = Some(fault);
            self.process.end(End::Force);
        }
        Ok(())
    }

    async fn save(&self, state: &CodexThreadState) -> Result<(), Fenced> {
        match state.to_raw() {
            Some(raw) => self.child.sink.save_state(raw).await,
            None => Ok(()),
        }
    }

    /// Asks Codex alone to stop: its own clean stop ends its commands and closes its log. SIGTERM
    /// first would make it die at once and leave its command running.
    fn end_process(&mut self, cause: EndCause, cancelled: Option<Cancelled>) {
        self.cause = Some(cause);
        if cancelled.is_some_and(|cancelled| cancelled.reason == CancelReason::LaneGone) {
            self.process.end(End::Force);
            return;
        }
        let now = Instant::now();
        // Both graces and the kill have to fit before the lane gives up.
        let grace = cancelled.map_or(SIGNAL_GRACE, |cancelled| {
            let left = cancelled.deadline.saturating_duration_since(now);
            SIGNAL_GRACE.min(left * 2 / 5)
        });
        self.process.signal(Signal::Interrupt, Target::Leader);
        self.escalation = Some((now + grace, grace));
    }

    fn first_event_deadline(&self) -> Option<Instant> {
        let limit = self.child.shared.limits.first_event;
        let waits = self.transcript.events == 0 && self.cause.is_none() && self.status.is_none();
        (waits && !limit.is_zero()).then(|| self.started + limit)
    }

    fn silence_deadline(&self) -> Option<Instant> {
        let limit = self.child.shared.limits.silence;
        let waits = !self.has_warned_of_silence && self.cause.is_none() && self.status.is_none();
        (waits && !limit.is_zero()).then(|| self.last_progress + limit)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let escalation = self.escalation.map(|(at, _)| at);
        let deadlines = [
            self.first_event_deadline(),
            self.silence_deadline(),
            escalation,
            self.held_output_end,
        ];
        deadlines.into_iter().flatten().min()
    }

    async fn pass_deadline(&mut self) -> Result<(), Fenced> {
        let now = Instant::now();
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_past(self.first_event_deadline()) {
            self.end_process(EndCause::FirstEventLimit, None);
        }
        if let Some((at, grace)) = self.escalation
            && at <= now
        {
            self.escalation = None;
            self.process.end(End::Graceful {
                interrupt: Duration::ZERO,
                term: grace,
            });
        }
        if is_past(self.held_output_end) {
            self.held_output_end = None;
            self.process.end_survivors();
        }
        if is_past(self.silence_deadline()) {
            self.has_warned_of_silence = true;
            let seconds = self.child.shared.limits.silence.as_secs();
            let text = format!("Codex has told nothing for {seconds} s; the turn goes on");
            self.child.sink.emit(Event::Warning(text)).await?;
        }
        Ok(())
    }

    /// Ends what the process left, completes what it told and decides the outcome.
    async fn finish(mut self) -> Result<TurnOutcome, Fenced> {
        self.process.end_survivors();
        let gone = self.process.wait(Until::Gone, Some(SURVIVORS_LIMIT)).await;
        if gone.is_none() {
            tracing::warn!("a process that Codex started could not be ended");
        }
        let now_ms = (self.child.shared.clock)();
        let (transcript, mut steps) = (&mut self.transcript, Vec::new());
        self.splitter
            .finish(|line| transcript.read_line(line, now_ms, &mut steps));
        transcript.close_items(now_ms, &mut steps);
        self.perform(steps).await?;
        let mut outcome = outcome::decide(&ProcessEnd {
            transcript: &self.transcript,
            cause: self.cause,
            status: self.status,
            has_output: self.has_output,
            stderr: &self.stderr.text(),
            zone: self.child.zone,
            now_ms,
        });
        if let Some(TerminalLine::Completed { usage }) = self.transcript.terminal {
            self.warn_of_exit().await?;
            if let Some(total) = usage {
                outcome.usage = self.count(total).await?;
            }
        }
        Ok(outcome)
    }

    async fn warn_of_exit(&self) -> Result<(), Fenced> {
        match self.status {
            Some(status) if status.code != 0 && self.cause.is_none() => {
                let text = format!(
                    "Codex completed the turn and ended with code {}",
                    status.code
                );
                self.child.sink.emit(Event::Warning(text)).await
            }
            _ => Ok(()),
        }
    }

    /// Tells and saves the tokens of the turn.
    async fn count(&self, total: TokenCounts) -> Result<Option<TokenCounts>, Fenced> {
        let Some(state) = &self.child.state else {
            return Ok(None);
        };
        let tokens = usage::of_turn(state.total, total);
        if let Some(turn) = tokens.turn {
            let usage = Event::Usage {
                last: usage::as_call(turn),
                context_window: None,
            };
            self.child.sink.emit(usage).await?;
        }
        if tokens.total != state.total {
            let state = CodexThreadState::new(state.thread_id.clone(), tokens.total);
            self.save(&state).await?;
        }
        Ok(tokens.turn)
    }
}

/// Writes the prompt and closes standard input. A child that ends early does not read all of it.
async fn feed(process: Process, prompt: Bytes) {
    let mut rest = prompt;
    while !rest.is_empty() {
        let piece = rest.split_to(rest.len().min(PROMPT_PIECE_BYTES));
        if process.write(piece).await.is_err() {
            return;
        }
    }
    // Closed already by the end of the child.
    let _ = process.close_stdin();
}
