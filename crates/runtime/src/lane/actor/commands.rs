//! From commands of clients to events of the lane.
//!
//! The invariant here: nothing is decided here. A call about the queue is submitted at once, in the
//! order it came, and answered in that order; everything else becomes an event.

use std::time::Duration;

use tokio::time::Instant;
use turnlane_engine::{Decided, TurnKind};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::ApprovalId;
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::notification::Decider;

use super::Actor;
use super::answers::Pending;
use super::results::Done;
use crate::error::Error;
use crate::ids;
use crate::lane::approvals::{NO_ONE_ANSWERED, Open, Patience};
use crate::lane::command::{
    Bound, Command, QueueCall, Reply, RowStart, StartAnswer, StartRequest, ThreadCommand,
};
use crate::lane::event::{AfterInterrupt, CancelWhy, Event, StartHow, StopHow};
use crate::lane::rights::CallerRights;
use crate::lane::rows;
use crate::notice::{NoticeBody, SubscriberId};

impl Actor {
    pub(super) async fn command(&mut self, command: Command) {
        match command {
            Command::Start { request, reply } => {
                self.start(request, TurnKind::Turn, reply);
            }
            Command::Compact { reply } => {
                self.start(Box::new(without_input()), TurnKind::Compact, reply);
            }
            Command::StartRow(start) => self.start_row(start),
            Command::Steer {
                turn,
                input,
                client_id,
                caller,
                reply,
            } => {
                let request = self.request(Pending::Steer {
                    input,
                    client_id,
                    caller,
                    reply,
                    result: None,
                    steer: None,
                });
                let turn = ids::turn(turn);
                self.events.push_back(Event::Steer { request, turn });
            }
            Command::Interrupt {
                turn,
                queue,
                by,
                reply,
            } => {
                let request = Some(self.request(Pending::Interrupt { turn, by, reply }));
                self.events.push_back(Event::Interrupt {
                    request,
                    turn: turn.map(ids::turn),
                    queue,
                    why: CancelWhy::Interrupt,
                });
            }
            Command::Queue(call) => self.submit_call(call),
            Command::Decide {
                approval,
                decision,
                by,
                caller,
                reason,
                reply,
            } => match self.decidable(approval, &decision, caller) {
                None => self.answer_closed_approval(approval, reply),
                Some(Err(refused)) => reply.send(Err(refused)),
                Some(Ok(open)) => {
                    self.resolve(open, Decided::new(decision).because(reason), by);
                    reply.send(Ok(()));
                }
            },
            Command::Subscribe {
                id,
                subscriber,
                since,
                start,
                reply,
            } => {
                self.subscribe(id, subscriber, since, reply);
                if let Some(start) = start {
                    self.start_row(start);
                }
            }
            Command::Unsubscribe(id) => self.unsubscribe(id),
            Command::Stop(how) => {
                self.haste |= matches!(how, StopHow::InHaste | StopHow::Forced);
                self.forced |= how == StopHow::Forced;
                self.events.push_back(Event::Stop(how));
            }
            Command::RunBegun(begun) => self.give(begun),
            Command::Reconcile(turn) => self.left_undecided(turn),
            Command::Thread(command) => self.about_the_thread(command).await,
        }
    }

    fn submit_call(&mut self, call: QueueCall) {
        let work = call(self.shared.store.as_ref());
        self.submit(async move { Done::Queue(work.await) });
    }

    fn unsubscribe(&mut self, id: SubscriberId) {
        if self.subscribers.remove(id) {
            self.subscribers_changed();
            self.tell_holds();
        }
    }

    /// What concerns the thread more than its turns.
    async fn about_the_thread(&mut self, command: ThreadCommand) {
        match command {
            ThreadCommand::Revert { to, reply } => self.revert(to, reply).await,
            ThreadCommand::Settings(settings) => {
                if let Some(running) = &mut self.running {
                    running.accepted.thread.settings = rows::write(&settings);
                }
                self.tell(NoticeBody::Settings(settings));
            }
            ThreadCommand::Tell(said) => self.tell_all(*said),
            ThreadCommand::Close { op, reply } => {
                self.closes.push((op, reply));
                self.events.push_back(Event::Stop(StopHow::Close));
            }
        }
    }

    fn start(&mut self, request: Box<StartRequest>, kind: TurnKind, reply: Reply<StartAnswer>) {
        let how = request.how;
        let request = self.request(Pending::Start {
            request,
            kind,
            reply,
            result: None,
            steer: None,
        });
        self.events.push_back(Event::Start { request, how });
    }

    fn start_row(&mut self, RowStart { which, reply }: RowStart) {
        let result = None;
        let request = self.request(Pending::Row { reply, result });
        let how = StartHow::Row(which);
        self.events.push_back(Event::Start { request, how });
    }

    /// Takes an approval out that waits, unless this decision of this caller does not count.
    fn decidable(
        &mut self,
        approval: ApprovalId,
        decision: &Decision,
        caller: CallerRights,
    ) -> Option<Result<Open, Error>> {
        let approvals = &mut self.running.as_mut()?.approvals;
        match approvals.find(approval)?.check(decision, caller) {
            Ok(()) => approvals.take(approval).map(Ok),
            Err(refused) => Some(Err(refused)),
        }
    }

    /// The number of subscribers is another.
    pub(super) fn subscribers_changed(&mut self) {
        let count = self.subscribers.count();
        if self.subscribers.can_answer() {
            self.unattended_since = None;
        } else {
            self.unattended_since.get_or_insert_with(Instant::now);
        }
        self.events.push_back(Event::Subscribers(count));
    }

    pub(super) fn tick(&mut self) {
        self.forget_when_idle();
        let now = Instant::now();
        let patience = self.patience();
        let unattended_since = self.unattended_since;
        let mut expired = Vec::new();
        let mut late = false;
        if let Some(running) = &mut self.running {
            while let Some(open) = running
                .approvals
                .take_expired(now, unattended_since, patience)
            {
                expired.push(open);
            }
            late = running.timeout_at.is_some_and(|at| at <= now);
            if late {
                running.timeout_at = None;
            }
        }
        for open in expired {
            let decided = Decided::by_time_limit(NO_ONE_ANSWERED);
            self.resolve(open, decided, Decider::Timeout);
        }
        if late {
            self.events.push_back(Event::Interrupt {
                request: None,
                turn: None,
                queue: AfterInterrupt::Continue,
                why: CancelWhy::Timeout,
            });
        }
        self.events.push_back(Event::Tick);
    }

    pub(super) fn patience(&self) -> Patience {
        // Beyond this tokio's timers would not hold the time.
        let longest = Duration::from_hours(24 * 365);
        let options = &self.shared.options;
        Patience {
            attended: options.approval_timeout.map(|wait| wait.min(longest)),
            unattended: options.unattended_timeout.map(|wait| wait.min(longest)),
        }
    }
}

/// A turn that nobody says anything in; it begins on an idle lane or not at all.
fn without_input() -> StartRequest {
    StartRequest {
        params: TurnStartParams::default(),
        how: StartHow::OrReject,
        key: None,
        bound: Bound::No,
    }
}
