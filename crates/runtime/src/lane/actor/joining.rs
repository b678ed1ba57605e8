//! How a subscriber joins: a cut in the task, reads outside of it, then live.
//!
//! The invariant here: the picture and the notices that follow meet exactly at the cut. What was
//! written before the cut is read after a flush; what is open at the cut is in the cut; what happens
//! after it is held until the picture was given.

use std::sync::Arc;

use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::usage::ThreadTokenUsage;
use turnlane_store::lane::{LaneView, Taken};
use turnlane_store::queue::{QueueFrom, QueuePage, QueueQuery};
use turnlane_store::thread::{Direction, ThreadRow};
use turnlane_store::turn::{ItemQuery, ItemRow, TurnQuery, TurnRow, TurnStatus};
use turnlane_store::{StoreError, ThreadId};

use super::Actor;
use super::telling::QUEUE_ROWS_TOLD;
use crate::approvals::Asking;
use crate::dispatcher::recover_dead;
use crate::error::Error;
use crate::ids;
use crate::lane::command::Reply;
use crate::lane::event::Event;
use crate::lane::ring::Missed;
use crate::lane::rows;
use crate::lane::subscribers::{Replay, RunningSnapshot, Since, Snapshot};
use crate::notice::{Notice, NoticeBody, Subscriber, SubscriberId};
use crate::shared::Shared;

/// How many items of the running turn a picture holds; the rest is read by pages.
const ITEMS_MAX: u32 = 10_000;

/// What is known in the task at the cut.
struct Cut {
    seq: u64,
    turn: Option<TurnRow>,
    open: Vec<(i64, ThreadItem)>,
    next_item_ord: i64,
    usage: Option<ThreadTokenUsage>,
    approvals: Vec<Asking>,
}

/// What was read outside of the task.
struct Read {
    lane: LaneView,
    thread: ThreadRow,
    queue: QueuePage,
    ended: Vec<ItemRow>,
    /// How the last turn ended, where that is asked.
    last: Option<TurnStatus>,
}

/// A subscriber whose picture is complete.
pub(super) struct Joined {
    id: SubscriberId,
    cut: Cut,
    read: Result<Read, StoreError>,
    missed: Option<Missed>,
    reply: Reply<Box<Snapshot>>,
}

impl Actor {
    pub(super) fn subscribe(
        &mut self,
        id: SubscriberId,
        subscriber: Arc<dyn Subscriber>,
        since: Option<Since>,
        reply: Reply<Box<Snapshot>>,
    ) {
        let missed = since.and_then(|since| self.subscribers.missed(&since));
        let seq = self.subscribers.cut(id, subscriber);
        let cut = self.cut(seq);
        self.subscribers_changed();
        let shared = Arc::clone(&self.shared);
        let thread = self.thread;
        let ask_last = self.face.is_fresh();
        self.joins.push(Box::pin(async move {
            let read = match read(&shared, thread, &cut).await {
                Ok(read) if ask_last => with_last(&shared, thread, read).await,
                read => read,
            };
            Box::new(Joined {
                id,
                cut,
                read,
                missed,
                reply,
            })
        }));
    }

    fn cut(&self, seq: u64) -> Cut {
        let running = self.running.as_ref();
        let began = self.began.as_ref();
        let turn = running
            .map(|running| running.accepted.turn.clone())
            .or_else(|| began.map(|accepted| accepted.turn.clone()));
        Cut {
            seq,
            turn,
            open: running.map_or_else(Vec::new, |running| {
                let open = running.items.in_order();
                open.into_iter().map(|open| (open.ord, open.item)).collect()
            }),
            next_item_ord: running.map_or(i64::MAX, |running| running.next_item_ord()),
            usage: running.map(|running| running.usage),
            approvals: running.map_or_else(Vec::new, |running| running.approvals.list()),
        }
    }

    /// The picture is complete: answers, tells what was missed or held, and goes live.
    pub(super) fn join(&mut self, joined: Joined) {
        let Joined {
            id,
            cut,
            read,
            missed,
            reply,
        } = joined;
        if !self.subscribers.has(id) {
            // It left, or so much happened meanwhile that it would never catch up.
            reply.send(Err(Error::Overloaded));
            self.subscribers_changed();
            return;
        }
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                self.subscribers.remove(id);
                self.subscribers_changed();
                reply.send(Err(error.into()));
                return;
            }
        };
        if read.last == Some(TurnStatus::Failed) {
            self.face.show_old_failure();
        }
        let look = self.saw(read.lane);
        self.events.push_back(Event::Looked(look));
        let usage = read.thread.usage.as_ref();
        let usage = usage.and_then(|usage| rows::read(usage).ok());
        let replay = if missed.is_some() {
            Replay::Events
        } else {
            Replay::Snapshot
        };
        let mut missed = missed.unwrap_or_default();
        if missed.queue {
            // What it showed then is not kept; that it showed something else is.
            missed.notices.push(Arc::new(Notice {
                thread: ids::wire_thread(self.thread),
                seq: cut.seq,
                at_ms: self.now_ms(),
                body: NoticeBody::Queue(Box::new(read.queue.clone())),
            }));
        }
        let holds = self.holds_for_joiner(cut.seq, &missed.notices);
        missed.notices.extend(holds);
        let open: Vec<_> = cut.open.into_iter().map(|(_, item)| item).collect();
        self.note_source(&read.thread.source);
        reply.send(Ok(Box::new(Snapshot {
            epoch: self.subscribers.epoch().to_owned(),
            seq: cut.seq,
            replay,
            running: cut.turn.map(|turn| RunningSnapshot {
                turn,
                ended: read.ended,
                open,
            }),
            usage: cut.usage.or(usage),
            approvals: cut.approvals,
            thread: read.thread,
            queue: read.queue,
        })));
        self.subscribers.go_live(id, &missed.notices);
    }
}

/// Makes the lane ours, also when its owner is dead and left a turn.
async fn take(shared: &Shared, thread: ThreadId) -> Result<LaneView, StoreError> {
    if let Taken::Ours(lane) = shared.store.take(thread).await? {
        return Ok(lane);
    }
    recover_dead(shared).await?;
    match shared.store.take(thread).await? {
        Taken::Ours(lane) => Ok(lane),
        Taken::Elsewhere(worker) => Err(StoreError::OwnedElsewhere { thread, worker }),
    }
}

async fn read(shared: &Shared, thread: ThreadId, cut: &Cut) -> Result<Read, StoreError> {
    // Whoever listens here must see everything, so the lane is ours from now on.
    let lane = take(shared, thread).await?;
    let store = shared.store.as_ref();
    store.flush().await?;
    let row = store.thread(thread).await?;
    let row = row.ok_or(StoreError::ThreadNotFound(thread))?;
    let queue = store
        .queue(QueueQuery {
            thread,
            from: QueueFrom::Head,
            limit: QUEUE_ROWS_TOLD,
        })
        .await?;
    let mut ended = Vec::new();
    if let Some(turn) = &cut.turn {
        let page = store
            .items(ItemQuery {
                thread,
                turn_ord: Some(turn.ord),
                after_ord: None,
                direction: Direction::Ascending,
                limit: ITEMS_MAX,
            })
            .await?;
        // What ended after the cut is told as a notice; what was open at it is shown as open.
        let before = |item: &ItemRow| {
            item.ord < cut.next_item_ord && !cut.open.iter().any(|(ord, _)| *ord == item.ord)
        };
        ended.extend(page.rows.into_iter().filter(before));
    }
    Ok(Read {
        lane,
        thread: row,
        queue,
        ended,
        last: None,
    })
}

/// Adds how the last turn ended: a thread whose last turn failed still shows it when it is loaded.
async fn with_last(shared: &Shared, thread: ThreadId, read: Read) -> Result<Read, StoreError> {
    let newest = TurnQuery {
        thread,
        after_ord: None,
        direction: Direction::Descending,
        limit: 1,
    };
    let page = shared.store.turns(newest).await?;
    let last = page.rows.first().map(|turn| turn.status);
    Ok(Read { last, ..read })
}
