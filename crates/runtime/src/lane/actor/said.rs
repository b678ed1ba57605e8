//! What the engine says: told to subscribers at once, written with the next write.
//!
//! The invariant here: what stands before a question of the engine was taken in before the question
//! is answered. Items and deltas go past the rules of the lane; only questions about steering and
//! the end of the turn reach them.

use serde_json::{Map, Value};
use tokio::time::Instant;
use turnlane_engine::{
    ApprovalRequest, Decided, Event as Happened, Fenced, HookPhase, Reply, Said, TurnOutcome,
};
use turnlane_protocol::approval::{Decision, OfferedDecision};
use turnlane_protocol::ids::{ItemId, ThreadId, TurnId};
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::notification::{
    Decider, DeltaKind, HookRunChanged, ItemPlace, RateLimitsUpdated, ReasoningSummaryPartAdded,
    ServerNotification, TerminalInteraction, ThreadTokenUsageUpdated, TurnDiffUpdated, TurnFailing,
    TurnPlanUpdated, Warning,
};
use turnlane_protocol::policy::ApprovalsReviewer;
use turnlane_store::approval::{ApprovalAsked, ApprovalResolved};
use turnlane_store::crash;
use turnlane_store::turn::Level;

use super::Actor;
use super::results::Done;
use crate::fanout::pulse::Occupation;
use crate::ids;
use crate::lane::approvals::{self, Open, Subject};
use crate::lane::event::Event;
use crate::lane::rights::CallerRights;
use crate::lane::rows;
use crate::notice::NoticeBody;

impl Actor {
    /// Takes in what the engine said; nothing means that it is gone.
    pub(super) fn hear(&mut self, said: Vec<Said>) {
        if said.is_empty() {
            self.engine_ended(TurnOutcome::lost());
            return;
        }
        for said in said {
            self.hear_one(said);
        }
        self.withdraw_approvals();
        self.write_items();
        self.note_pulse();
    }

    /// Notes that the engine of a fan-out item lives, and whether it waits for more than its model.
    fn note_pulse(&self) {
        let (Some(place), Some(running)) = (&self.place, &self.running) else {
            return;
        };
        let works = running.items.has_work() || !running.approvals.is_empty();
        place.heard(if works {
            Occupation::Work
        } else {
            Occupation::Model
        });
    }

    fn hear_one(&mut self, said: Said) {
        let Some(running) = &mut self.running else {
            return;
        };
        if running.outcome.is_some() {
            // Whatever follows the end is passed over.
            return;
        }
        match said {
            Said::Event(event) => {
                if let (Happened::Usage { last, .. }, Some(place)) = (&event, &self.place) {
                    place.spend(*last);
                }
                self.happened(event);
            }
            Said::Record(entries) => running.record(entries),
            Said::Commit(reply) => self.write(Level::Durable, Some(reply)),
            Said::HandingOver { reply, .. } => self.mark_sent(reply),
            Said::Accepted(reply) => {
                crash::point("engine:handed-over");
                self.write(Level::Durable, Some(reply));
            }
            Said::SaveState { state, reply } => {
                running.put.engine_state = Some(state.get().to_owned().into());
                self.write(Level::Durable, Some(reply));
            }
            Said::Approve { request, reply } => self.ask_approval(&request, reply),
            Said::CloseSteer(reply) => {
                running.close_steer = Some(reply);
                let waiting = running.end.as_ref().map_or(0, |end| end.steer.waiting());
                self.events.push_back(Event::CloseSteer { waiting });
            }
            Said::CallTool { call, reply } => self.call_tool(&call, reply),
            Said::Ended(outcome) => self.engine_ended(*outcome),
        }
    }

    fn engine_ended(&mut self, outcome: TurnOutcome) {
        if let Some(running) = &mut self.running {
            running.end = None;
            running.outcome.get_or_insert(outcome);
            crash::point("turn:ended");
            self.events.push_back(Event::Ended);
        }
    }

    /// Writes what is not written yet, if items have ended.
    fn write_items(&mut self) {
        let Some(running) = &self.running else {
            return;
        };
        // Entries alone wait for the next write, as the engine boundary promises no more.
        let put = &running.put;
        let due = !put.items.is_empty() || !put.asked.is_empty() || !put.resolved.is_empty();
        if due && running.outcome.is_none() {
            self.write(Level::Visible, None);
        }
    }

    pub(super) fn write(&mut self, level: Level, reply: Option<Reply<Result<(), Fenced>>>) {
        let Some(running) = &mut self.running else {
            return;
        };
        let put = std::mem::take(&mut running.put);
        let work = self
            .shared
            .store
            .put(running.accepted.grip, put.clone(), level);
        let put = Box::new(put);
        self.submit(async move {
            let result = work.await;
            Done::Put { result, put, reply }
        });
    }

    fn happened(&mut self, event: Happened) {
        let Some(running) = &mut self.running else {
            return;
        };
        let (thread_id, turn_id) = (ids::wire_thread(self.thread), running.turn_id());
        let said = match event {
            Happened::ItemStarted(item) => return self.item_started(*item),
            Happened::ItemCompleted(item) => return self.item_completed(*item),
            Happened::ItemDropped(item) => return self.item_dropped(*item),
            Happened::Delta {
                item_id,
                kind,
                text,
            } => {
                return self.item_grew(item_id, kind, text);
            }
            Happened::SummaryPartAdded {
                item_id,
                summary_index,
            } => ServerNotification::ReasoningSummaryPartAdded(ReasoningSummaryPartAdded {
                thread_id,
                turn_id,
                item_id,
                summary_index,
            }),
            Happened::TerminalInteraction {
                item_id,
                process_id,
                stdin,
            } => ServerNotification::TerminalInteraction(TerminalInteraction {
                thread_id,
                turn_id,
                item_id,
                process_id,
                stdin,
            }),
            Happened::Usage {
                last,
                context_window,
            } => {
                running.used(last, context_window);
                ServerNotification::ThreadTokenUsageUpdated(ThreadTokenUsageUpdated {
                    thread_id,
                    turn_id,
                    token_usage: running.usage,
                })
            }
            Happened::Plan { explanation, plan } => {
                ServerNotification::TurnPlanUpdated(TurnPlanUpdated {
                    thread_id,
                    turn_id,
                    explanation,
                    plan,
                })
            }
            Happened::Diff(diff) => ServerNotification::TurnDiffUpdated(TurnDiffUpdated {
                thread_id,
                turn_id,
                diff,
            }),
            Happened::Warning(message) => {
                if !self.warned.is_new(&message) {
                    return;
                }
                ServerNotification::Warning(Warning {
                    thread_id: Some(thread_id),
                    message,
                })
            }
            Happened::Retry(error) => ServerNotification::Error(TurnFailing {
                error,
                will_retry: true,
                thread_id,
                turn_id,
            }),
            Happened::RateLimits(rate_limits) => {
                ServerNotification::RateLimitsUpdated(RateLimitsUpdated { rate_limits })
            }
            Happened::Hook { phase, run } => hook_changed(thread_id, turn_id, phase, run),
        };
        self.tell_said(said);
    }

    fn item_grew(&mut self, item_id: ItemId, kind: DeltaKind, text: String) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.items.grow(&item_id, kind, &text);
        let place = ItemPlace {
            thread_id: ids::wire_thread(self.thread),
            turn_id: running.turn_id(),
            item_id,
        };
        self.tell(NoticeBody::Delta { kind, place, text });
    }

    fn item_started(&mut self, item: ThreadItem) {
        let now_ms = self.now_ms();
        let Some(running) = &mut self.running else {
            return;
        };
        // The item of a steer is numbered and stored already.
        if !running.untold.contains_key(&item.id) {
            let ord = running.item_ord();
            running.items.start(ord, item.clone());
        }
        self.tell_item_started(item, now_ms);
    }

    fn item_completed(&mut self, item: ThreadItem) {
        let now_ms = self.now_ms();
        let Some(running) = &mut self.running else {
            return;
        };
        if running.untold.remove(&item.id).is_none() {
            let ord = match running.items.end(&item.id) {
                Some(ord) => ord,
                None => running.item_ord(),
            };
            running.finish(ord, &item, now_ms);
        }
        self.tell_item_completed(item, now_ms);
    }

    /// An item of an answer that is asked for again: it ends for those who saw it begin, and leaves
    /// nothing behind.
    fn item_dropped(&mut self, item: ThreadItem) {
        let now_ms = self.now_ms();
        let began = self.running.as_mut();
        if began.is_some_and(|running| running.items.end(&item.id).is_some()) {
            self.tell_item_completed(item, now_ms);
        }
    }

    fn ask_approval(&mut self, request: &ApprovalRequest, reply: Reply<Decided>) {
        let now_ms = self.now_ms();
        let asked_at = Instant::now();
        let deadline = self.patience().deadline(asked_at, self.unattended_since);
        let Some(running) = &mut self.running else {
            return;
        };
        let subject = Subject::new(&request.subject, &running.rights);
        // The client that accepted it did not accept it for a caller with fewer rights.
        let may_leave =
            !subject.is_unconfined() || running.rights.caller == CallerRights::Unconfined;
        // A request that offers no answer for the session is asked each time, whatever was accepted.
        let for_session = OfferedDecision::Known(Decision::AcceptForSession);
        let offered = request.available_decisions.as_ref();
        let may_repeat = may_leave && offered.is_none_or(|offered| offered.contains(&for_session));
        if may_repeat && self.session.covers(&subject) {
            // Decided before, so nobody is asked and nothing is told.
            let _ = reply.send(Decided::new(Decision::Accept));
            return;
        }
        if running.rights.reviewer == ApprovalsReviewer::AutoReview {
            return self.decline_unreviewed(request, reply);
        }
        let id = ids::new_approval(now_ms);
        let expires_ms = deadline.map(|deadline| {
            let wait = deadline.saturating_duration_since(asked_at).as_millis();
            now_ms.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX))
        });
        let place = (ids::wire_thread(self.thread), running.turn_id());
        let asking = approvals::asking(id, place, request, now_ms, expires_ms);
        running.put.asked.push(ApprovalAsked {
            id: id.as_uuid().into(),
            turn: running.accepted.turn.id,
            body: rows::write(&asking),
            requested_ms: now_ms,
            expires_ms,
        });
        let first = running.approvals.is_empty();
        running
            .approvals
            .ask(asking.clone(), subject, reply, asked_at);
        if first {
            self.tell_active();
        }
        self.tell_everybody(NoticeBody::ApprovalRequested(Box::new(asking)));
        self.tell_holds();
    }

    /// Ends approvals whose engine does not wait for them any more.
    fn withdraw_approvals(&mut self) {
        let Some(running) = &mut self.running else {
            return;
        };
        for open in running.approvals.take_withdrawn() {
            self.resolve(open, Decided::new(Decision::Cancel), Decider::Interrupt);
        }
    }

    /// Ends an approval: the engine is answered, the decision is recorded and told.
    pub(super) fn resolve(&mut self, open: Open, decided: Decided, by: Decider) {
        let now_ms = self.now_ms();
        let (decision, reason) = (decided.decision.clone(), decided.reason.clone());
        self.session.remember(open.subject, &decision);
        if let Some(running) = &mut self.running {
            running.cancelled_by_answer |= decision == Decision::Cancel && by == Decider::Client;
            running.put.resolved.push(ApprovalResolved {
                id: open.asking.approval.approval_id.as_uuid().into(),
                decision: rows::write(&decision).as_str().to_owned(),
                decided_by: Some(rows::write(&by).as_str().trim_matches('"').to_owned()),
                reason: reason.clone(),
                resolved_ms: now_ms,
            });
        }
        // Recorded before the engine can act on it.
        if self.closing.is_none() {
            self.write(Level::Visible, None);
        }
        let _ = open.reply.send(decided);
        self.tell_everybody(NoticeBody::ApprovalResolved {
            approval: Box::new(open.asking.approval),
            decision,
            by,
            reason,
        });
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.approvals.is_empty())
        {
            self.tell_active();
        }
    }
}

/// What is told of a hook of a foreign engine, under our ids.
fn hook_changed(
    thread_id: ThreadId,
    turn_id: TurnId,
    phase: HookPhase,
    run: Map<String, Value>,
) -> ServerNotification {
    let changed = HookRunChanged {
        thread_id: Some(thread_id),
        turn_id: Some(turn_id),
        run,
    };
    match phase {
        HookPhase::Started => ServerNotification::HookStarted(changed),
        HookPhase::Completed => ServerNotification::HookCompleted(changed),
    }
}
