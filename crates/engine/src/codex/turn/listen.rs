//! Listening to a Codex turn until it has ended.
//!
//! The invariant here: only the typed `turn/completed` of Codex's thread and turn ends it, or its
//! stored status when that message does not come. While it runs, cancellation, steers, approvals and
//! events are served side by side; none of them waits for another.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use turnlane_protocol::notification::method;
use turnlane_protocol::turn_error::{ErrorKind, TurnError};
use turnlane_rpc::Notification;

use super::active::ActiveTurn;
use super::deliver::INTERRUPT_LIMIT;
use super::notices::NoticeEffect;
use super::questions::{QuestionEffect, Questions};
use super::shapes::{TurnNotice, read};
use super::steering::SteerInFlight;
use super::{Halt, Turn};
use crate::cancel::{CancelReason, Cancelled};
use crate::codex::connection::CALL_LIMIT;
use crate::codex::errors::ours;
use crate::codex::history::{RecordedStatus, read_from};
use crate::codex::routes::{Subscription, ThreadMessage};
use crate::codex::usage::UsageUpdate;
use crate::event::Event;
use crate::outcome::TurnOutcome;

/// How long `turn/completed` may take after the last error of a turn; then its stored status counts.
const ERROR_GRACE: Duration = Duration::from_secs(10);
/// How often the stored status is read.
const ERROR_CHECKS_MAX: u32 = 3;

/// The end of a Codex turn.
pub(super) struct TurnEnd {
    pub(super) status: RecordedStatus,
    pub(super) error: Option<TurnError>,
    pub(super) approval_timed_out: bool,
}

/// A turn that is listened to.
pub(super) struct Listening {
    pub(super) active: ActiveTurn,
    questions: Questions,
    pub(super) steer: Option<SteerInFlight>,
    interrupt: Option<Interrupt>,
    pub(super) is_started: bool,
    /// When the begin of the turn, or its end after an error, is overdue.
    overdue: Option<Instant>,
    error_checks: u32,
    approval_timed_out: bool,
}

struct Interrupt {
    deadline: Instant,
    /// None: the turn has not begun yet.
    request: Option<JoinHandle<()>>,
}

impl Listening {
    fn new(active: ActiveTurn) -> Self {
        Self {
            active,
            questions: Questions::default(),
            steer: None,
            interrupt: None,
            is_started: false,
            overdue: Some(Instant::now() + CALL_LIMIT),
            error_checks: 0,
            approval_timed_out: false,
        }
    }

    /// Tells Codex to stop, as soon as its turn has begun.
    fn interrupt(&mut self, deadline: Instant) {
        let interrupt = self.interrupt.get_or_insert(Interrupt {
            deadline,
            request: None,
        });
        let Some(turn) = self.active.turn().filter(|_| self.is_started) else {
            return;
        };
        if interrupt.request.is_none() {
            let connection = std::sync::Arc::clone(self.active.connection());
            let (thread, turn) = (self.active.thread().to_owned(), turn.to_owned());
            let request = async move { connection.interrupt(&thread, &turn).await };
            interrupt.request = Some(tokio::spawn(request));
        }
    }

    fn cancel(&mut self, cancelled: Cancelled) {
        let limit = Instant::now() + INTERRUPT_LIMIT;
        self.interrupt(limit.min(cancelled.deadline));
    }

    /// Waits until an interrupted turn has left no command.
    async fn cleaned(&mut self) {
        if let Some(interrupt) = &mut self.interrupt
            && let Some(request) = &mut interrupt.request
        {
            let left = interrupt.deadline.saturating_duration_since(Instant::now());
            let _ = timeout(left, request).await;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let interrupt = self.interrupt.as_ref().map(|interrupt| interrupt.deadline);
        interrupt.into_iter().chain(self.overdue).min()
    }

    /// No more messages: the child died, or this turn was cut off.
    fn cut(&mut self) -> Halt {
        if self.active.connection().is_dead() {
            self.active.end();
            return Halt::Died;
        }
        let text = "more events of Codex waited than the lane took";
        let outcome = TurnOutcome::failed(ours(text, ErrorKind::Protocol));
        Halt::Over(Box::new(TurnOutcome {
            outcome_known: false,
            ..outcome
        }))
    }

    /// The end of the turn, if this is it.
    fn completed(&self, notice: &Notification) -> Option<TurnEnd> {
        let TurnNotice { turn } = read(notice)?;
        let is_ours = self.active.turn() == Some(turn.id.as_str());
        if !is_ours || turn.status == RecordedStatus::InProgress {
            return None;
        }
        Some(TurnEnd {
            status: turn.status,
            error: turn.error,
            approval_timed_out: self.approval_timed_out,
        })
    }

    fn answered(&mut self, effect: QuestionEffect) {
        match effect {
            QuestionEffect::None => {}
            QuestionEffect::TimedOut => {
                self.approval_timed_out = true;
                self.interrupt(Instant::now() + INTERRUPT_LIMIT);
            }
            QuestionEffect::Stop => self.interrupt(Instant::now() + INTERRUPT_LIMIT),
        }
    }

    fn takes_steers(&self) -> bool {
        self.is_started && self.steer.is_none() && self.interrupt.is_none()
    }
}

/// Resolves at the deadline; never without one.
async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl Turn {
    pub(super) async fn listen(
        &mut self,
        active: ActiveTurn,
        inbox: &mut Subscription,
    ) -> Result<TurnEnd, Halt> {
        let mut listening = Listening::new(active);
        let ended = self.listen_on(&mut listening, inbox).await;
        if let Ok(end) = &ended {
            listening.active.end();
            if end.status == RecordedStatus::Interrupted {
                listening.cleaned().await;
            }
        }
        if let Some(steer) = listening.steer.take() {
            let answer = steer.answer().await;
            self.steered(answer).await?;
        }
        ended
    }

    async fn listen_on(
        &mut self,
        listening: &mut Listening,
        inbox: &mut Subscription,
    ) -> Result<TurnEnd, Halt> {
        loop {
            let deadline = listening.deadline();
            tokio::select! {
                biased;
                cancelled = self.cancel.cancelled(), if listening.interrupt.is_none() => {
                    if cancelled.reason == CancelReason::LaneGone {
                        return Err(Halt::Fenced);
                    }
                    listening.cancel(cancelled);
                }
                () = at(deadline) => {
                    if let Some(end) = self.overdue(listening).await? {
                        return Ok(end);
                    }
                }
                effect = listening.questions.next() => listening.answered(effect),
                answer = SteerInFlight::next(&mut listening.steer) => {
                    listening.steer = None;
                    self.steered(answer).await?;
                }
                message = inbox.next() => {
                    let Some(message) = message else {
                        return Err(listening.cut());
                    };
                    if let Some(end) = self.take(listening, message).await? {
                        return Ok(end);
                    }
                }
                steer = self.steer.recv(),
                    if listening.takes_steers() && self.refused_steer.is_none() => match steer {
                    Some(steer) => self.send_steer(listening, steer),
                    None => return Err(Halt::Fenced),
                }
            }
        }
    }

    async fn take(
        &mut self,
        listening: &mut Listening,
        message: ThreadMessage,
    ) -> Result<Option<TurnEnd>, Halt> {
        match message {
            ThreadMessage::RateLimits(limits) => {
                self.limits.clone_from(&limits);
                self.emit(Event::RateLimits(limits)).await?;
            }
            ThreadMessage::Question(request) => {
                let is_ours = self.question(&mut listening.questions, &listening.active, request);
                if let Some(text) = is_ours {
                    self.emit(Event::Warning(text)).await?;
                }
            }
            ThreadMessage::Notice(notice) => match notice.method.as_str() {
                method::TURN_STARTED => self.started(listening, &notice).await?,
                method::TURN_COMPLETED => return Ok(listening.completed(&notice)),
                method::SERVER_REQUEST_RESOLVED => listening.questions.withdraw(&notice),
                _ => {
                    let turn = listening.active.turn();
                    if self.notice(turn, &notice).await? == NoticeEffect::LastError {
                        listening.overdue = Some(Instant::now() + ERROR_GRACE);
                    }
                }
            },
        }
        Ok(None)
    }

    async fn started(
        &mut self,
        listening: &mut Listening,
        notice: &Notification,
    ) -> Result<(), Halt> {
        let Some(TurnNotice { turn }) = read(notice) else {
            return Ok(());
        };
        // The answer to a compaction does not name its turn.
        if listening.active.turn().is_none() {
            listening.active.set_turn(&turn.id);
            self.progress.codex_turn = Some(turn.id.clone());
        }
        if listening.active.turn() != Some(turn.id.as_str()) || listening.is_started {
            return Ok(());
        }
        listening.is_started = true;
        listening.overdue = None;
        if let Some(interrupt) = &listening.interrupt {
            let deadline = interrupt.deadline;
            listening.interrupt(deadline);
        }
        if !self.progress.is_accepted {
            self.progress.is_accepted = true;
            self.sink.accepted().await?;
        }
        Ok(())
    }

    /// Something that had to be told was not.
    async fn overdue(&mut self, listening: &mut Listening) -> Result<Option<TurnEnd>, Halt> {
        let now = Instant::now();
        let interrupt = listening.interrupt.as_ref();
        if interrupt.is_some_and(|interrupt| interrupt.deadline <= now) {
            if listening.approval_timed_out {
                let error = crate::outcome::approval_timeout();
                return Err(Halt::Over(Box::new(TurnOutcome::failed(error))));
            }
            return Err(Halt::Cancelled);
        }
        if !listening.is_started {
            // Answered and never begun: nothing that this child says about the thread can be trusted.
            listening.active.connection().kill();
            listening.active.end();
            return Err(Halt::Died);
        }
        listening.overdue = Some(now + ERROR_GRACE);
        listening.error_checks += 1;
        let status = self.stored_status(listening).await?;
        let is_last = listening.error_checks >= ERROR_CHECKS_MAX;
        Ok(match status {
            Some(status) if status != RecordedStatus::InProgress => Some(status),
            _ => is_last.then_some(RecordedStatus::Failed),
        }
        .map(|status| TurnEnd {
            status,
            error: None,
            approval_timed_out: listening.approval_timed_out,
        }))
    }

    async fn stored_status(&self, listening: &Listening) -> Result<Option<RecordedStatus>, Halt> {
        let active = &listening.active;
        let since_s = self.request.accepted_ms.div_euclid(1_000);
        let turns = read_from(active.connection(), active.thread(), since_s);
        let turns = self.cancel.unless_cancelled(turns).await;
        let turns = turns.map_err(|_cancelled| Halt::Cancelled)?;
        let mut turns = turns.unwrap_or_default().into_iter();
        let turn = turns.find(|turn| active.turn() == Some(turn.id.as_str()));
        Ok(turn.map(|turn| turn.status))
    }

    /// Takes what earlier turns left in the backlog, for the totals in it.
    pub(super) fn drop_stale(&mut self, inbox: &mut Subscription) {
        while let Some(message) = inbox.try_next() {
            match message {
                ThreadMessage::Notice(notice) => {
                    if notice.method == method::THREAD_TOKEN_USAGE_UPDATED
                        && let Some(update) = read::<UsageUpdate>(&notice)
                    {
                        self.meter.note_base(&update);
                    }
                }
                ThreadMessage::RateLimits(limits) => self.limits = limits,
                // Dropping a request refuses it.
                ThreadMessage::Question(_) => {}
            }
        }
    }
}
