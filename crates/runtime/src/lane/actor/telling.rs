//! What subscribers are told about turns, items and the queue, in the order of the documentation.
//!
//! The invariant here: for one change the order is answer, queue, status, turn, items; every
//! `turn/started` and `item/started` has its end; nothing is told of a turn after its end.

use turnlane_protocol::approval::Decision;
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::notification::{
    Decider, ItemCompleted, ItemStarted, ServerNotification, ThreadStatusChanged, TurnCompleted,
    TurnFailing, TurnStarted,
};
use turnlane_protocol::thread::{ActiveFlag, ThreadStatus};
use turnlane_protocol::turn::{ItemsView, Turn, TurnStatus};
use turnlane_store::approval::ApprovalResolved;
use turnlane_store::queue::{QueueFrom, QueueQuery};
use turnlane_store::turn::AcceptedTurn;

use super::completion::EndedTurn;
use super::{Actor, Audience};
use crate::ids;
use crate::journal;
use crate::lane::approvals::Open;
use crate::lane::rows;
use crate::notice::NoticeBody;

/// How many rows of a queue are told.
pub(crate) const QUEUE_ROWS_TOLD: u32 = 100;

impl Actor {
    /// Tells the subscribers of this thread.
    pub(super) fn tell(&mut self, body: NoticeBody) {
        let at_ms = self.now_ms();
        self.subscribers.tell(at_ms, body);
    }

    pub(super) fn tell_said(&mut self, said: ServerNotification) {
        self.tell(NoticeBody::Said(Box::new(said)));
    }

    /// Tells everybody, subscribed or not.
    pub(super) fn tell_all(&mut self, said: ServerNotification) {
        let body = NoticeBody::Said(Box::new(said));
        if self.audience == Audience::Subscribers {
            // Thousands of items would drown what clients want to know of other threads.
            self.shared.board.count_notice();
            self.tell(body);
        } else {
            self.tell_everybody(body);
        }
    }

    /// Tells everybody, subscribed or not, what has no notification of its own.
    pub(super) fn tell_everybody(&mut self, body: NoticeBody) {
        let at_ms = self.now_ms();
        let notice = self.subscribers.tell(at_ms, body);
        self.shared.tell_watchers(&notice);
    }

    pub(super) fn tell_status(&mut self, status: ThreadStatus) {
        self.face.show(&status);
        let thread_id = ids::wire_thread(self.thread);
        self.tell_all(ServerNotification::ThreadStatusChanged(
            ThreadStatusChanged { thread_id, status },
        ));
    }

    /// Tells that a turn runs, and whether it waits for somebody.
    pub(super) fn tell_active(&mut self) {
        let waits = self
            .running
            .as_ref()
            .is_some_and(|running| !running.approvals.is_empty());
        let active_flags = if waits {
            vec![ActiveFlag::WaitingOnApproval]
        } else {
            Vec::new()
        };
        self.tell_status(ThreadStatus::Active { active_flags });
    }

    /// Tells what the queue looks like now, if it is another than before and somebody listens.
    pub(super) async fn tell_queue(&mut self) {
        if !std::mem::take(&mut self.queue_changed) || self.subscribers.count() == 0 {
            return;
        }
        let page = self.shared.store.queue(QueueQuery {
            thread: self.thread,
            from: QueueFrom::Head,
            limit: QUEUE_ROWS_TOLD,
        });
        match page.await {
            Ok(page) => {
                self.tell(NoticeBody::Queue(Box::new(page)));
                self.tell_holds();
            }
            Err(error) => {
                tracing::warn!(%error, "the queue could not be read; it is told later");
                self.look_again();
            }
        }
    }

    pub(super) async fn tell_began(&mut self) {
        self.tell_queue().await;
        let Some(accepted) = &self.began else {
            return;
        };
        let (thread_id, turn) = (ids::wire_thread(self.thread), running_turn(accepted));
        let item = accepted.item.as_ref().map(|item| rows::read(&item.body));
        let started_ms = accepted.turn.started_ms;
        let changed = accepted.settings_changed;
        let settings = changed.then(|| rows::read(&accepted.thread.settings));
        if let Some(Ok(settings)) = settings {
            self.tell(NoticeBody::Settings(Box::new(settings)));
        }
        self.tell_status(ThreadStatus::Active {
            active_flags: Vec::new(),
        });
        let turn_id = turn.id;
        self.tell_said(ServerNotification::TurnStarted(TurnStarted {
            thread_id,
            turn: Box::new(turn),
        }));
        if let Some(Ok(item)) = item {
            let item: ThreadItem = item;
            self.tell_said(ServerNotification::ItemStarted(ItemStarted {
                item: item.clone(),
                thread_id,
                turn_id,
                started_at_ms: started_ms,
            }));
            self.tell_said(ServerNotification::ItemCompleted(ItemCompleted {
                item,
                thread_id,
                turn_id,
                completed_at_ms: started_ms,
            }));
        }
    }

    pub(super) fn tell_item_started(&mut self, item: ThreadItem, now_ms: i64) {
        let Some(turn_id) = self.running.as_ref().map(|running| running.turn_id()) else {
            return;
        };
        self.tell_said(ServerNotification::ItemStarted(ItemStarted {
            started_at_ms: item.started_at_ms.unwrap_or(now_ms),
            item,
            thread_id: ids::wire_thread(self.thread),
            turn_id,
        }));
    }

    pub(super) fn tell_item_completed(&mut self, item: ThreadItem, now_ms: i64) {
        let Some(turn_id) = self.running.as_ref().map(|running| running.turn_id()) else {
            return;
        };
        self.tell_said(ServerNotification::ItemCompleted(ItemCompleted {
            completed_at_ms: item.completed_at_ms.unwrap_or(now_ms),
            item,
            thread_id: ids::wire_thread(self.thread),
            turn_id,
        }));
    }

    /// Ends an approval with its turn: the store resolves it in the transaction that ends the turn.
    pub(super) fn resolve_at_end(&mut self, open: Open, decision: Decision, by: Decider) {
        let now_ms = self.now_ms();
        if let Some(running) = &mut self.running {
            running.put.resolved.push(ApprovalResolved {
                id: open.asking.approval.approval_id.as_uuid().into(),
                decision: "interrupt".to_owned(),
                decided_by: Some("interrupt".to_owned()),
                reason: None,
                resolved_ms: now_ms,
            });
        }
        self.tell_everybody(NoticeBody::ApprovalResolved {
            approval: Box::new(open.asking.approval),
            decision,
            by,
            reason: None,
        });
    }

    /// The end of the turn is on disk: tells it, and forgets the turn.
    pub(super) fn tell_completed(&mut self) {
        self.running = None;
        let Some(ended) = self.ended.take() else {
            return;
        };
        // The runner settles the item by what is on disk now.
        self.place = None;
        let EndedTurn { turn, model } = *ended;
        if let Some(used) = turn.usage.and_then(|usage| usage.turn) {
            self.shared.tokens.add(&model, used);
        }
        let thread_id = ids::wire_thread(self.thread);
        let failed = turn.status == TurnStatus::Failed;
        self.tell_status(if failed {
            ThreadStatus::SystemError
        } else {
            ThreadStatus::Idle
        });
        if let (true, Some(error)) = (failed, &turn.error) {
            self.shared.failures.add(error.kind.as_ref());
            let error = Box::new(error.clone());
            self.tell_said(ServerNotification::Error(TurnFailing {
                error,
                will_retry: false,
                thread_id,
                turn_id: turn.id,
            }));
        }
        journal::turn_ended(&self.shared, thread_id, &turn);
        self.tell_said(ServerNotification::TurnCompleted(TurnCompleted {
            thread_id,
            turn: Box::new(turn),
            output_valid: None,
        }));
    }
}

/// A turn that has begun, as clients see it.
pub(super) fn running_turn(accepted: &AcceptedTurn) -> Turn {
    let turn = &accepted.turn;
    Turn {
        items_view: ItemsView::NotLoaded,
        started_at: Some(turn.started_ms.div_euclid(1_000)),
        queued_turn_id: turn.row.map(ids::wire_row),
        attempt: Some(turn.attempt),
        source: rows::source(&turn.source),
        ..Turn::accepted(ids::wire_turn(turn.id))
    }
}
