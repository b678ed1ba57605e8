//! Turns of foreign engines that may outlive their worker: the mark before they are handed over, and
//! what becomes of one that a dead worker left.
//!
//! The invariants here: an engine is answered that it may hand over only when the mark is on disk; the
//! items and the end of a turn that an engine was asked about are one transaction; a decision that could
//! not be recorded is submitted again as it was.
//!
//! The rules are in [`crate::lane::recovery`] and [`crate::lane::fate`]; the question itself is in
//! [`crate::lane::reconcile`].

use std::collections::HashSet;
use std::sync::Arc;

use turnlane_engine::{Fenced, Reconciled, Reply, TurnOutcome};
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::thread::ThreadStatus;
use turnlane_protocol::usage::TurnUsage;
use turnlane_store::lane::LaneView;
use turnlane_store::recovery::Decision;
use turnlane_store::turn::Level;
use turnlane_store::{StoreError, crash};

use super::Actor;
use super::completion::{EndedTurn, ended_turn};
use super::results::Done;
use crate::lane::event::{AfterInterrupt, AfterReconcile, Committed, EndHow, Event, FailedOp};
use crate::lane::fate::HandOver;
use crate::lane::reconcile::{self, UndecidedTurn};
use crate::lane::recovery::{EngineDoubt, after_asking};
use crate::lane::turn::{BegunBy, RunningTurn};
use crate::lane::{request, rows};
use crate::options::Drain;

/// A turn that the engine is asked about.
pub(super) struct AskedTurn {
    stored_items: HashSet<String>,
    boot_id: String,
    /// The decision, where the engine has no end to tell.
    decision: Option<Box<Decision>>,
}

impl Actor {
    /// Makes it durable that a foreign engine may see the turn, with what it said before.
    pub(super) fn mark_sent(&mut self, reply: Reply<Result<(), Fenced>>) {
        let Some(running) = &self.running else {
            return;
        };
        let (grip, row) = (running.accepted.grip, running.accepted.row.id);
        if !running.put.is_empty() {
            // The mark behind it makes it durable.
            self.write(Level::Visible, None);
        }
        let work = self.shared.store.mark_sent(grip, row, self.now_ms());
        self.submit(async move {
            let result = work.await;
            Done::Sent { result, reply }
        });
    }

    pub(super) fn marked_sent(
        &mut self,
        result: Result<(), StoreError>,
        reply: Reply<Result<(), Fenced>>,
    ) {
        match result {
            Ok(()) => {
                crash::point("engine:sent");
                if let Some(running) = &mut self.running {
                    running.hand_over = HandOver::Sent;
                }
                let _ = reply.send(Ok(()));
            }
            // Dropped, the reply tells the engine to stop: nothing has left us.
            Err(StoreError::Fenced) => {
                drop(reply);
                self.events.push_back(Event::Committed(Committed::Fenced));
            }
            Err(error) => {
                tracing::warn!(%error, "a turn could not be marked as sent; it is not handed over");
                drop(reply);
            }
        }
    }

    /// A dead worker left a turn here that only its engine can decide about.
    pub(super) fn left_undecided(&mut self, undecided: Box<UndecidedTurn>) {
        let turn = undecided.accepted.turn.id;
        self.undecided = Some(undecided);
        self.events.push_back(Event::Undecided { turn });
    }

    pub(super) fn ask_engine(&mut self) {
        let Some(undecided) = self.undecided.take() else {
            return;
        };
        let UndecidedTurn {
            accepted,
            stored_items,
            had_effect,
            last_message,
            boot_id,
        } = *undecided;
        self.saw(accepted.lane.clone());
        let engine = self.shared.engines.get(&accepted.thread.engine).cloned();
        let kind = reconcile::kind(&accepted);
        let request = request::from_accepted(&accepted, kind).map(|ready| ready.request);
        let model = request.as_ref().ok();
        let model = model.map(|request| request.settings.model.clone());
        self.turn_kind = kind;
        // In a task of its own: an engine that panics must not take the lane with it.
        let task = tokio::spawn(reconcile::ask(engine, request));
        let mut running = RunningTurn::new(accepted, None, task.abort_handle());
        running.model = model.unwrap_or_default();
        running.begun_by = BegunBy::DeadWorker;
        running.hand_over = HandOver::Sent;
        running.had_effect = had_effect;
        running.last_message = last_message;
        self.running = Some(Box::new(running));
        self.asking = Some(Box::pin(async move {
            task.await.unwrap_or(Reconciled::Unknown)
        }));
        self.asked = Some(AskedTurn {
            stored_items,
            boot_id,
            decision: None,
        });
        // It counts as running until it is decided.
        self.tell_status(ThreadStatus::Active {
            active_flags: Vec::new(),
        });
    }

    /// The engine has answered, or did not in time.
    pub(super) fn reconciled(&mut self, answer: Reconciled) {
        match answer {
            Reconciled::Ended { outcome, items } => {
                self.take_items_over(items);
                if let Some(running) = &mut self.running {
                    running.outcome = Some(*outcome);
                }
            }
            Reconciled::Absent => self.prepare_decision(EngineDoubt::Absent),
            Reconciled::Unknown | Reconciled::Running => {
                self.prepare_decision(EngineDoubt::Unknown);
            }
        }
        let leaves = self.shared.options.drain == Drain::Loaded && !self.face.is_wanted();
        self.events.push_back(Event::Reconciled {
            then: if leaves {
                AfterReconcile::Leave
            } else {
                AfterReconcile::Stay
            },
        });
    }

    /// Tells and keeps the items that the dead worker has not stored.
    fn take_items_over(&mut self, items: Vec<ThreadItem>) {
        let now_ms = self.now_ms();
        for item in items {
            let Some(asked) = &mut self.asked else {
                return;
            };
            if !asked.stored_items.insert(item.id.as_str().to_owned()) {
                continue;
            }
            if let Some(running) = &mut self.running {
                let ord = running.item_ord();
                running.finish(ord, &item, now_ms);
            }
            self.tell_item_started(item.clone(), now_ms);
            self.tell_item_completed(item, now_ms);
        }
    }

    fn prepare_decision(&mut self, doubt: EngineDoubt) {
        let now_ms = self.now_ms();
        let losses_max = self.shared.options.losses_max;
        let (Some(running), Some(asked)) = (&self.running, &mut self.asked) else {
            return;
        };
        let row = &running.accepted.row;
        let decision = after_asking(row, doubt, &asked.boot_id, losses_max, now_ms);
        let error = decision.turn_error.as_ref();
        let usage = TurnUsage {
            turn: running.turn_usage,
            thread: Some(running.usage.total.into()),
        };
        let outcome = TurnOutcome::interrupted();
        let error = error.and_then(|error| rows::read(error).ok());
        let turn = ended_turn(running, &outcome, error, usage, now_ms);
        self.ended = Some(Box::new(EndedTurn {
            turn,
            model: running.model.clone(),
        }));
        asked.decision = Some(Box::new(decision));
    }

    /// Records what became of the turn: its end, or the fate of its row.
    pub(super) fn commit_settle(&mut self) {
        crash::point("reconcile:decided");
        let decision = self.asked.as_ref().and_then(|asked| asked.decision.clone());
        let (Some(decision), Some(running)) = (decision, &self.running) else {
            self.commit_complete(EndHow::Ended, AfterInterrupt::Continue);
            return;
        };
        let (grip, row) = (running.accepted.grip, running.accepted.row.id);
        let store = Arc::clone(&self.shared.store);
        let work = store.decide(grip, row, *decision, self.now_ms());
        self.submit(async move { Done::Decide(work.await) });
    }

    pub(super) fn decided(&mut self, result: Result<LaneView, StoreError>) -> Committed {
        match result {
            Ok(lane) => {
                self.settled();
                Committed::Completed(self.saw(lane))
            }
            Err(error) => self.failed(None, FailedOp::Closing, error),
        }
    }

    /// The fate of a turn that a dead worker left is on disk.
    pub(super) fn settled(&mut self) {
        if self.asked.take().is_some() {
            self.shared.undecided.settled(self.thread);
        }
    }

    /// The lane's task ends; a turn that is not decided is left to the next worker.
    pub(super) fn leave_undecided(&mut self) {
        self.asking = None;
        if self.asked.take().is_some() || self.undecided.take().is_some() {
            tracing::warn!(
                thread = %self.thread,
                "a dead worker's turn is not decided yet; the next `turnlane serve` asks its engine again"
            );
            self.shared.undecided.settled(self.thread);
        }
    }
}
