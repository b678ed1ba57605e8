//! The rules of a lane: what happens next, and nothing else. No clock, no channel, no database.
//!
//! This file and its parts own every rule about idle, busy, paused, waiting, blocked, interrupted,
//! steered and draining lanes. The invariants: at most one turn is being taken, run or closed at a
//! time; every request that comes in is answered exactly once; a slot that was asked for is given
//! back exactly once; nothing is claimed while somebody has stopped the queue, while it waits, or
//! while a request that came before waits for the lane.
//!
//! Which way a row goes when its turn has ended is decided in `lane::fate`; what a dead worker
//! left is decided in `lane::recovery`. The doing is in `lane::actor`.
//!
//! Theory of operation: [`LaneState::apply`] takes one event and returns what has to be done, in
//! order. Operations are submitted by effects and come back as [`Event::Committed`]; between the
//! two the lane is in a phase that remembers what it waits for, and requests that cannot be decided
//! yet are kept and looked at again when the phase ends, before any row of the queue.

mod given;
mod reconcile;
mod requests;
mod work;

use std::collections::VecDeque;
use std::time::Duration;

use turnlane_store::TurnId;

use self::requests::request_of;
use super::event::{
    AfterInterrupt, Answer, CancelWhy, Closing, Committed, Effect, EndHow, Event, FailedOp,
    HookVerdict, Look, Now, Op, RequestNo, Steering, StopHow, Tell, UnclaimWhy, Unload, Wake,
};

/// How many requests may wait for a lane to become decidable.
pub const KEPT_MAX: usize = 1_024;
/// How long an engine may take to stop.
pub const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long an engine may take to stop when the worker is in haste.
pub const HASTY_GRACE: Duration = Duration::from_millis(250);
/// How long a lane waits before it tries a failed operation again.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a lane is made with.
#[derive(Clone, Copy, Debug)]
pub struct LaneOptions {
    /// How long a lane that nobody needs stays loaded.
    pub unload_after: Duration,
}

/// Where a lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is under way.
    Idle,
    /// A start, a claim or an acceptance is being committed.
    Taking {
        /// Who waits for it.
        request: Option<RequestNo>,
        take: Take,
    },
    /// A row is ours and hooks are asked.
    Claimed {
        /// Who waits for it.
        request: Option<RequestNo>,
    },
    /// A turn runs.
    Running(Running),
    /// The engine is asked what became of a turn that a dead worker left.
    Reconciling { turn: TurnId },
    /// The end of a turn, or of a claim without one, is being committed.
    Closing(ClosingPhase),
    /// Another worker has the lane.
    Lost,
}

/// What is being committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Take {
    /// A start or a claim: until it is done, nothing is ours.
    Begin,
    /// The acceptance of a row that is ours.
    Accept,
}

/// A turn that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Running {
    turn: TurnId,
    steering: Steering,
    /// Set when the engine was told to stop.
    stop: Option<Stop>,
}

/// That an engine was told to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stop {
    /// Who waits for the end.
    requests: Vec<RequestNo>,
    queue: AfterInterrupt,
    /// When the engine is given up.
    deadline: Duration,
}

/// An end that is being committed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClosingPhase {
    /// The operation, for when it has to be tried again.
    op: Op,
    /// The turn that ends; none when a claim ends without one.
    turn: Option<TurnId>,
    /// Who waits for the end of the turn.
    interrupts: Vec<RequestNo>,
    /// Who waits for the result of the claim.
    request: Option<RequestNo>,
    /// When the operation is tried again, after it failed.
    retry_at: Option<Duration>,
}

/// What stops a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum StopWhy {
    /// Somebody closes the thread.
    Close,
    /// The worker stops.
    Worker,
    /// The worker stops and has no time.
    WorkerInHaste,
}

/// Whether the lane may run a queued turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    None,
    Asked,
    Held,
}

/// A request that waits for the lane to become decidable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    request: RequestNo,
    event: Event,
}

/// The state of one lane; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    phase: Phase,
    look: Option<Look>,
    /// Whether the lane was given up since that look, to others who may claim its head.
    left: bool,
    slot: Slot,
    kept: VecDeque<Kept>,
    subscribers: usize,
    /// Since when nobody needs the lane.
    unneeded_since: Option<Duration>,
    unload_after: Duration,
    /// Not claimed before, after a claim that failed or was held for no visible reason.
    claim_after: Option<Duration>,
    /// The lane stops: no new turns, and the running one is cancelled then.
    stopping: Option<Duration>,
    /// What stops it, and how much time is left; without meaning while nothing does.
    stop: StopWhy,
    /// A turn that another transaction has begun, to be run when nothing else is under way.
    given: bool,
    /// A turn that a dead worker left, to be asked about when nothing else is under way.
    undecided: Option<TurnId>,
    /// The lane was loaded for that question alone.
    leaves: bool,
    wake: Wake,
}

impl LaneState {
    /// A lane that was just loaded and has not looked yet.
    pub fn new(options: LaneOptions) -> Self {
        Self {
            phase: Phase::Idle,
            look: None,
            left: false,
            slot: Slot::None,
            kept: VecDeque::new(),
            subscribers: 0,
            unneeded_since: None,
            unload_after: options.unload_after,
            claim_after: None,
            stopping: None,
            stop: StopWhy::Close,
            given: false,
            undecided: None,
            leaves: false,
            wake: Wake::default(),
        }
    }

    /// A lane that was loaded with a slot in hand, to run what waits in it.
    pub fn with_slot(options: LaneOptions) -> Self {
        Self {
            slot: Slot::Held,
            ..Self::new(options)
        }
    }

    /// Takes one event in; what has to be done, in order.
    pub fn apply(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.phase == Phase::Lost {
            // The task is ending; whoever still asks is told so. What was under way has its own
            // result: a row that is on disk must not be called lost, or it is added again.
            if let Some(request) = request_of(&event) {
                let answer = match event {
                    Event::Committed(_) => Answer::Result,
                    _ => Answer::Lost,
                };
                effects.push(Effect::Answer(request, answer));
            }
            return effects;
        }
        self.handle(now, event, &mut effects);
        self.look_for_work(now, &mut effects);
        self.set_timer(now, &mut effects);
        effects
    }

    /// The turn that runs, is being asked about or is about to end.
    pub fn active_turn(&self) -> Option<TurnId> {
        match &self.phase {
            Phase::Running(running) => Some(running.turn),
            Phase::Reconciling { turn } => Some(*turn),
            Phase::Closing(closing) => closing.turn,
            Phase::Idle | Phase::Taking { .. } | Phase::Claimed { .. } | Phase::Lost => None,
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    fn handle(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Start { request, how } => self.start(request, how, effects),
            Event::Steer { request, turn } => self.steer(request, turn, effects),
            Event::Interrupt { .. } => self.interrupt(now, event, effects),
            Event::Looked(look) => self.see(look),
            Event::Slot => self.slot_given(effects),
            Event::Hooked(verdict) => self.hooked(verdict, effects),
            Event::Committed(committed) => self.committed(now, committed, effects),
            Event::CloseSteer { waiting } => self.close_steer(waiting, effects),
            Event::Ended => self.ended(EndHow::Ended, effects),
            Event::Given => self.give(effects),
            Event::Undecided { turn } => self.left_undecided(turn, effects),
            Event::Reconciled { then } => self.reconciled(then, effects),
            Event::Tick => self.tick(now, effects),
            Event::Subscribers(count) => self.subscribers_changed(count, effects),
            Event::Stop(how) => self.stop(now, how),
        }
    }

    fn see(&mut self, look: Look) {
        self.look = Some(look);
        self.left = false;
    }

    fn hooked(&mut self, verdict: HookVerdict, effects: &mut Vec<Effect>) {
        let Phase::Claimed { request } = self.phase else {
            return;
        };
        match verdict {
            HookVerdict::Go => {
                let take = Take::Accept;
                self.phase = Phase::Taking { request, take };
                effects.push(Effect::Commit(Op::Accept));
            }
            HookVerdict::Block => self.unclaim(UnclaimWhy::Blocked, effects),
        }
    }

    /// Gives the claimed row up.
    fn unclaim(&mut self, why: UnclaimWhy, effects: &mut Vec<Effect>) {
        let Phase::Claimed { request } = self.phase else {
            return;
        };
        let op = Op::Unclaim(why);
        self.phase = Phase::Closing(ClosingPhase {
            op,
            turn: None,
            interrupts: Vec::new(),
            request,
            retry_at: None,
        });
        effects.push(Effect::Commit(op));
    }

    fn close_steer(&mut self, waiting: usize, effects: &mut Vec<Effect>) {
        let Phase::Running(running) = &mut self.phase else {
            effects.push(Effect::CloseSteer(Closing::Closed));
            return;
        };
        let closing = if waiting > 0 && running.stop.is_none() {
            Closing::More
        } else {
            if running.steering == Steering::Open {
                running.steering = Steering::Closed;
            }
            Closing::Closed
        };
        effects.push(Effect::CloseSteer(closing));
    }

    /// The engine has ended, or was given up.
    fn ended(&mut self, how: EndHow, effects: &mut Vec<Effect>) {
        let Phase::Running(running) = &self.phase else {
            return;
        };
        let turn = running.turn;
        let (queue, interrupts) = match &running.stop {
            Some(stop) => (stop.queue, stop.requests.clone()),
            None => (AfterInterrupt::Continue, Vec::new()),
        };
        let op = Op::Complete { how, queue };
        self.phase = Phase::Closing(ClosingPhase {
            op,
            turn: Some(turn),
            interrupts,
            request: None,
            retry_at: None,
        });
        effects.push(Effect::Commit(op));
    }

    fn committed(&mut self, now: Now, committed: Committed, effects: &mut Vec<Effect>) {
        match committed {
            Committed::Began { turn, steering } => self.began(now, turn, steering, effects),
            Committed::Claimed => {
                if let Phase::Taking { request, .. } = self.phase {
                    self.phase = Phase::Claimed { request };
                    effects.push(Effect::RunHooks);
                }
            }
            Committed::Settled => self.taken(now, None, effects),
            Committed::Refused(look) => self.taken(now, Some(look), effects),
            Committed::NotNow(look) => self.not_now(now, look, effects),
            Committed::Unclaimed(look) | Committed::Completed(look) => {
                self.closed(now, look, effects);
            }
            Committed::Steered(request) => self.steered(request, effects),
            Committed::Appended(request)
            | Committed::Failed(FailedOp::Append(request) | FailedOp::Steer(request)) => {
                effects.push(Effect::Answer(request, Answer::Result));
            }
            Committed::Failed(FailedOp::Taking) => {
                self.claim_after = Some(now.mono + RETRY_AFTER);
                self.not_taken(now, effects);
            }
            Committed::Failed(FailedOp::Closing) => {
                // An end is never given up: nobody else can record it while we own the lane.
                if let Phase::Closing(closing) = &mut self.phase {
                    closing.retry_at = Some(now.mono + RETRY_AFTER);
                }
            }
            Committed::Fenced => self.lose(effects),
        }
    }

    fn began(&mut self, now: Now, turn: TurnId, steering: Steering, effects: &mut Vec<Effect>) {
        let Phase::Taking { request, .. } = self.phase else {
            return;
        };
        if let Some(request) = request {
            effects.push(Effect::Answer(request, Answer::Result));
        }
        effects.push(Effect::Tell(Tell::Began));
        effects.push(Effect::RunEngine);
        self.claim_after = None;
        self.phase = Phase::Running(Running {
            turn,
            steering,
            stop: None,
        });
        self.look_at_kept(now, effects);
    }

    /// A start or claim has ended without a turn.
    fn taken(&mut self, now: Now, look: Option<Look>, effects: &mut Vec<Effect>) {
        let Phase::Taking { request, .. } = self.phase else {
            return;
        };
        if let Some(request) = request {
            effects.push(Effect::Answer(request, Answer::Result));
        }
        if let Some(look) = look {
            self.see(look);
        }
        self.become_idle(now, effects);
    }

    /// A start, a claim or an acceptance has failed and changed nothing.
    fn not_taken(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Phase::Taking { request, take } = self.phase else {
            return;
        };
        match take {
            Take::Begin => self.taken(now, None, effects),
            Take::Accept => {
                // The row is still ours. It goes back as it came, or it would hold its lane for ever.
                self.phase = Phase::Claimed { request };
                self.unclaim(UnclaimWhy::GoBack, effects);
            }
        }
    }

    fn not_now(&mut self, now: Now, look: Look, effects: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Taking { .. }) {
            return;
        }
        self.see(look);
        if self.may_claim(now) {
            // The store saw what the look does not show; without a pause this would spin.
            self.claim_after = Some(now.mono + RETRY_AFTER);
        }
        self.taken(now, None, effects);
    }

    /// The end of a turn or claim is on disk.
    fn closed(&mut self, now: Now, look: Look, effects: &mut Vec<Effect>) {
        let Phase::Closing(closing) = &self.phase else {
            return;
        };
        let ClosingPhase {
            op,
            turn,
            interrupts,
            request,
            retry_at: _,
        } = closing.clone();
        for request in interrupts {
            effects.push(Effect::Answer(request, Answer::Interrupted));
        }
        if let Some(request) = request {
            effects.push(Effect::Answer(request, Answer::Result));
        }
        if turn.is_some() {
            effects.push(Effect::Tell(Tell::Completed));
        }
        self.see(look);
        self.become_idle(now, effects);
        if op == Op::Settle {
            self.leave_if_unneeded(effects);
        }
    }

    /// Nothing is under way any more: the slot goes back, requests that waited come first.
    fn become_idle(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        if self.slot == Slot::Held {
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        match self.undecided.take() {
            None if std::mem::take(&mut self.given) => self.take_given(effects),
            Some(turn) => self.ask_engine(turn, effects),
            None => self.look_at_kept(now, effects),
        }
    }

    fn steered(&mut self, request: RequestNo, effects: &mut Vec<Effect>) {
        // Accepted before it was written, so it is handed over whatever has happened since.
        effects.push(Effect::HandSteer(request));
        effects.push(match self.active_turn() {
            Some(turn) => Effect::Answer(request, Answer::Steered(turn)),
            None => Effect::Answer(request, Answer::Result),
        });
    }

    /// Another worker has the lane: everybody is told, nothing is written, the task ends.
    fn lose(&mut self, effects: &mut Vec<Effect>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Lost);
        let mut waiting = Vec::new();
        match phase {
            Phase::Taking { request, .. } | Phase::Claimed { request } => waiting.extend(request),
            Phase::Running(running) => {
                effects.push(Effect::Drop);
                waiting.extend(running.stop.into_iter().flat_map(|stop| stop.requests));
            }
            Phase::Closing(closing) => {
                waiting.extend(closing.interrupts);
                waiting.extend(closing.request);
            }
            Phase::Idle | Phase::Reconciling { .. } | Phase::Lost => {}
        }
        waiting.extend(self.kept.drain(..).map(|kept| kept.request));
        for request in waiting {
            effects.push(Effect::Answer(request, Answer::Lost));
        }
        if self.slot != Slot::None {
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        effects.push(Effect::Unload(Unload::Lost));
    }

    fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        match &mut self.phase {
            Phase::Running(running) => {
                let late = running.stop.as_ref().map(|stop| stop.deadline);
                if late.is_some_and(|deadline| deadline <= now.mono) {
                    effects.push(Effect::Drop);
                    self.ended(EndHow::Dropped, effects);
                }
            }
            Phase::Closing(closing) => {
                if closing.retry_at.is_some_and(|at| at <= now.mono) {
                    closing.retry_at = None;
                    effects.push(Effect::Commit(closing.op));
                }
            }
            Phase::Idle
            | Phase::Taking { .. }
            | Phase::Claimed { .. }
            | Phase::Reconciling { .. }
            | Phase::Lost => {}
        }
    }

    fn stop(&mut self, now: Now, how: StopHow) {
        let (deadline, why) = match how {
            StopHow::After(grace) => (now.mono + grace, StopWhy::Worker),
            StopHow::Now => (now.mono, StopWhy::Worker),
            StopHow::InHaste | StopHow::Forced => (now.mono, StopWhy::WorkerInHaste),
            StopHow::Close => (now.mono, StopWhy::Close),
        };
        // A second, sooner stop wins; a later one changes nothing.
        self.stopping = Some(self.stopping.map_or(deadline, |set| set.min(deadline)));
        self.stop = self.stop.max(why);
        if self.stop == StopWhy::WorkerInHaste
            && let Phase::Running(running) = &mut self.phase
            && let Some(stop) = &mut running.stop
        {
            stop.deadline = stop.deadline.min(now.mono + HASTY_GRACE);
        }
    }

    /// How long an engine that is told to stop now may take.
    fn stop_grace(&self) -> Duration {
        match self.stop {
            StopWhy::Close | StopWhy::Worker => STOP_GRACE,
            StopWhy::WorkerInHaste => HASTY_GRACE,
        }
    }

    /// The stop of the lane, as far as it is due for what is under way.
    fn stop_what_runs(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(deadline) = self.stopping else {
            return;
        };
        let grace = self.stop_grace();
        match &mut self.phase {
            Phase::Running(running) if running.stop.is_none() && deadline <= now.mono => {
                let why = match self.stop {
                    StopWhy::Close => CancelWhy::Interrupt,
                    StopWhy::Worker | StopWhy::WorkerInHaste => CancelWhy::Shutdown,
                };
                running.stop = Some(Stop {
                    requests: Vec::new(),
                    queue: AfterInterrupt::Continue,
                    deadline: now.mono + grace,
                });
                effects.push(Effect::Cancel(why));
            }
            Phase::Claimed { .. } => self.unclaim(UnclaimWhy::GoBack, effects),
            Phase::Reconciling { .. } if deadline <= now.mono => self.leave_undecided(effects),
            Phase::Idle
            | Phase::Taking { .. }
            | Phase::Running(_)
            | Phase::Reconciling { .. }
            | Phase::Closing(_)
            | Phase::Lost => {}
        }
    }
}

#[cfg(test)]
mod tests;
