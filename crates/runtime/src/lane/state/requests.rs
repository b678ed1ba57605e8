//! Requests of clients: start, steer, interrupt, in every phase of the lane.
//!
//! The invariant here: a request is answered at once, or kept and looked at again when the phase
//! ends, or answered by the operation it caused. No request steers, starts or stops anything while
//! it is not known what is being taken.

use super::super::event::{
    AfterInterrupt, Answer, Committed, Effect, Event, FailedOp, Now, Op, RequestNo, StartHow,
    Steering,
};
use super::{KEPT_MAX, Kept, LaneState, Phase, Stop, StopWhy, Take};
use turnlane_store::TurnId;

impl LaneState {
    pub(super) fn start(&mut self, request: RequestNo, how: StartHow, effects: &mut Vec<Effect>) {
        if self.stopping.is_some() {
            let answer = match self.stop {
                StopWhy::Close => Answer::Closing,
                StopWhy::Worker | StopWhy::WorkerInHaste => Answer::Stopping,
            };
            effects.push(Effect::Answer(request, answer));
            return;
        }
        match &self.phase {
            Phase::Idle => self.take(request, how, effects),
            Phase::Running(running) if running.stop.is_none() => {
                let steering = running.steering;
                self.start_while_running(request, how, steering, effects);
            }
            Phase::Taking { .. }
            | Phase::Claimed { .. }
            | Phase::Running(_)
            | Phase::Reconciling { .. }
            | Phase::Closing(_) => match how {
                StartHow::OrQueue => effects.push(Effect::Commit(Op::Append(request))),
                StartHow::OrReject => effects.push(Effect::Answer(request, Answer::Busy)),
                StartHow::OrSteer | StartHow::Row(_) => {
                    self.keep(Event::Start { request, how }, effects);
                }
            },
            Phase::Lost => effects.push(Effect::Answer(request, Answer::Lost)),
        }
    }

    fn take(&mut self, request: RequestNo, how: StartHow, effects: &mut Vec<Effect>) {
        let op = match how {
            StartHow::OrSteer | StartHow::OrQueue | StartHow::OrReject => Op::Start(request),
            StartHow::Row(which) => Op::Claim {
                which,
                request: Some(request),
            },
        };
        self.phase = Phase::Taking {
            request: Some(request),
            take: Take::Begin,
        };
        effects.push(Effect::Commit(op));
    }

    fn start_while_running(
        &mut self,
        request: RequestNo,
        how: StartHow,
        steering: Steering,
        effects: &mut Vec<Effect>,
    ) {
        match (how, steering) {
            (StartHow::OrQueue, _) => effects.push(Effect::Commit(Op::Append(request))),
            (StartHow::OrReject | StartHow::Row(_), _) => {
                effects.push(Effect::Answer(request, Answer::Busy));
            }
            (StartHow::OrSteer, Steering::Open) => {
                effects.push(Effect::Commit(Op::Steer(request)));
            }
            (StartHow::OrSteer, Steering::Never) => {
                effects.push(Effect::Answer(request, Answer::NotSteerable));
            }
            // The turn is as good as over: what is said now begins the next one.
            (StartHow::OrSteer, Steering::Closed) => {
                self.keep(Event::Start { request, how }, effects);
            }
        }
    }

    pub(super) fn steer(&mut self, request: RequestNo, turn: TurnId, effects: &mut Vec<Effect>) {
        let answer = match &self.phase {
            Phase::Taking { .. } | Phase::Claimed { .. } | Phase::Reconciling { .. } => {
                self.keep(Event::Steer { request, turn }, effects);
                return;
            }
            Phase::Running(running) if running.stop.is_none() => match running.steering {
                _ if running.turn != turn => Answer::OtherTurn(running.turn),
                Steering::Open => {
                    effects.push(Effect::Commit(Op::Steer(request)));
                    return;
                }
                Steering::Never => Answer::NotSteerable,
                Steering::Closed => Answer::NoActiveTurn,
            },
            Phase::Idle | Phase::Running(_) | Phase::Closing(_) => Answer::NoActiveTurn,
            Phase::Lost => Answer::Lost,
        };
        effects.push(Effect::Answer(request, answer));
    }

    pub(super) fn interrupt(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        let Event::Interrupt {
            request,
            turn,
            queue,
            why,
        } = event
        else {
            return;
        };
        let grace = self.stop_grace();
        let active = self.active_turn();
        let other = active.filter(|active| turn.is_some_and(|turn| turn != *active));
        let answer = match (&mut self.phase, other) {
            (Phase::Taking { .. } | Phase::Claimed { .. } | Phase::Reconciling { .. }, _) => {
                self.keep(event, effects);
                return;
            }
            (_, Some(other)) => Answer::OtherTurn(other),
            (Phase::Running(running), None) => {
                let first = running.stop.is_none();
                let stop = running.stop.get_or_insert_with(|| Stop {
                    requests: Vec::new(),
                    queue: AfterInterrupt::Continue,
                    deadline: now.mono + grace,
                });
                stop.requests.extend(request);
                if queue == AfterInterrupt::Pause {
                    stop.queue = queue;
                }
                if first {
                    effects.push(Effect::Cancel(why));
                }
                return;
            }
            (Phase::Closing(closing), None) if closing.turn.is_some() => {
                closing.interrupts.extend(request);
                return;
            }
            (Phase::Idle | Phase::Closing(_), None) => Answer::NotRunning,
            (Phase::Lost, None) => Answer::Lost,
        };
        if let Some(request) = request {
            effects.push(Effect::Answer(request, answer));
        }
    }

    /// Keeps a request until the phase ends.
    fn keep(&mut self, event: Event, effects: &mut Vec<Effect>) {
        // A limit of our own has no request: it comes again with the next tick of its clock.
        let Some(request) = request_of(&event) else {
            return;
        };
        if self.kept.len() >= KEPT_MAX {
            effects.push(Effect::Answer(request, Answer::Overloaded));
            return;
        }
        self.kept.push_back(Kept { request, event });
    }

    /// The phase has ended: requests that waited are looked at again, in order.
    pub(super) fn look_at_kept(&mut self, now: Now, effects: &mut Vec<Effect>) {
        for kept in std::mem::take(&mut self.kept) {
            self.handle(now, kept.event, effects);
        }
    }
}

/// The request that an event carries, if it is one.
pub(super) fn request_of(event: &Event) -> Option<RequestNo> {
    match event {
        Event::Interrupt { request, .. } => *request,
        Event::Start { request, .. }
        | Event::Steer { request, .. }
        | Event::Committed(
            Committed::Steered(request)
            | Committed::Appended(request)
            | Committed::Failed(FailedOp::Steer(request) | FailedOp::Append(request)),
        ) => Some(*request),
        Event::Looked(_)
        | Event::Slot
        | Event::Hooked(_)
        | Event::Committed(_)
        | Event::CloseSteer { .. }
        | Event::Ended
        | Event::Given
        | Event::Undecided { .. }
        | Event::Reconciled { .. }
        | Event::Tick
        | Event::Subscribers(_)
        | Event::Stop(_) => None,
    }
}
