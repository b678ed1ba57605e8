//! What a connection is shown that joins in the middle.
//!
//! The invariant here: after the picture a client knows the running turn, every open item with its
//! text so far, what was used, what waits and what it is asked; the next delta goes on exactly after
//! that text. Everything carries the number of the cut.

use std::sync::Arc;

use turnlane_protocol::envelope::Stamp;
use turnlane_protocol::ids::{ApprovalId, TurnId};
use turnlane_protocol::notification::{
    ItemStarted, ServerNotification, ThreadTokenUsageUpdated, TurnStarted,
};
use turnlane_protocol::turn::ItemsView;
use turnlane_rpc::Outgoing;
use turnlane_runtime::Snapshot;

use crate::broker;
use crate::connection::Connection;
use crate::encode::{Feed, QUEUE_CHANGED, queue_changed};
use crate::view;

/// Shows everything to a connection that has just joined.
pub(super) fn show(
    cx: &Arc<Connection>,
    feed: &Feed,
    snapshot: &Snapshot,
    last_turn: Option<TurnId>,
    pending: impl Fn(ApprovalId) -> bool,
) {
    let thread_id = view::thread_id(snapshot.thread.id);
    if let Some(running) = &snapshot.running {
        let turn = view::turn(&running.turn, Vec::new(), ItemsView::NotLoaded);
        let turn_id = turn.id;
        let started = TurnStarted {
            thread_id,
            turn: Box::new(turn),
        };
        say(
            cx,
            feed,
            snapshot,
            &ServerNotification::TurnStarted(started),
        );
        for item in &running.open {
            let started = ItemStarted {
                started_at_ms: item.started_at_ms.unwrap_or(running.turn.started_ms),
                item: item.clone(),
                thread_id,
                turn_id,
            };
            say(
                cx,
                feed,
                snapshot,
                &ServerNotification::ItemStarted(started),
            );
        }
    }
    show_rest(cx, feed, snapshot, last_turn);
    for asking in &snapshot.approvals {
        if pending(asking.approval.approval_id)
            && let Some(question) = cx.shared().broker.question(asking)
        {
            broker::ask(cx, &question);
        }
    }
}

/// Shows a connection that follows already what it may have missed: usage, queue, approvals.
pub(crate) fn show_to_follower(
    cx: &Arc<Connection>,
    snapshot: &Snapshot,
    last_turn: Option<TurnId>,
) {
    let feed = cx.shared().feeds.of(view::thread_id(snapshot.thread.id));
    show_rest(cx, &feed, snapshot, last_turn);
    for asking in &snapshot.approvals {
        // One that is gone by now was decided, and it knows.
        let known = cx.shared().broker.known(asking.approval.approval_id);
        if let Some(question) = known {
            broker::ask(cx, &question);
        }
    }
}

fn show_rest(cx: &Connection, feed: &Feed, snapshot: &Snapshot, last_turn: Option<TurnId>) {
    let thread_id = view::thread_id(snapshot.thread.id);
    let running = snapshot.running.as_ref();
    let turn = running.map(|running| view::turn_id(running.turn.id));
    // Without a turn there is nobody who used anything.
    if let (Some(token_usage), Some(turn_id)) = (snapshot.usage, turn.or(last_turn)) {
        let used = ThreadTokenUsageUpdated {
            thread_id,
            turn_id,
            token_usage,
        };
        let used = ServerNotification::ThreadTokenUsageUpdated(used);
        say(cx, feed, snapshot, &used);
    }
    if cx.wants(QUEUE_CHANGED)
        && let Some(frame) = queue_changed(thread_id, &snapshot.queue, stamp(cx, snapshot))
    {
        let message = Outgoing::newest(frame, feed.scope().clone(), QUEUE_CHANGED);
        cx.peer().notify(&message);
    }
}

fn stamp(cx: &Connection, snapshot: &Snapshot) -> Stamp {
    Stamp {
        emitted_at_ms: cx.shared().options.clock.now_ms(),
        seq: Some(snapshot.seq),
    }
}

fn say(cx: &Connection, feed: &Feed, snapshot: &Snapshot, said: &ServerNotification) {
    if cx.wants(said.method())
        && let Some(message) = feed.said(said, stamp(cx, snapshot))
    {
        cx.peer().notify(&message);
    }
}
