//! One operation on one lane, what it ends with, and how it is put to a store.
//!
//! The invariant here: an [`Op`] holds everything that decides its result, so the store and the
//! reference are asked the same thing. Results are compared without positions, revisions and times
//! of change: those are the store's own affair and have rules of their own in `invariants`.

use turnlane_store::lane::{LaneView, Paused, Taken};
use turnlane_store::queue::{
    Accepting, Append, Appended, CannotStart, Claim, Claimed, Move, NewRow, Row, RowState, Update,
    Verdict,
};
use turnlane_store::recovery::{Deciding, Decision, Found, FoundFate, Loss, Recover, Whose};
use turnlane_store::turn::{
    Accepted, AcceptedTurn, Complete, EndedTurn, ItemRow, Level, Refused, StartTurn, Started,
    TurnRow, TurnStatus, WhenBusy,
};
use turnlane_store::{Grip, RowId, StoreError, ThreadId, TurnId, WorkerId};
use uuid::Uuid;

use crate::build::{Hand, failed, items, json, said, waiting};

/// For how long the keys of ended rows are remembered here.
pub(crate) const KEY_WINDOW: i64 = 8;

/// One operation of one worker.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Append(Append),
    Update(Update),
    Delete(ThreadId, RowId, i64),
    Reorder(ThreadId, Vec<RowId>, i64),
    Move(Move),
    Retry(ThreadId, Option<RowId>, i64),
    Pause(ThreadId, Paused),
    Resume(ThreadId, i64),
    Claim(Claim),
    Begin(Claim, Option<How>),
    Accept(Grip, RowId, Option<How>, i64),
    Unclaim(Grip, Row, How, i64),
    MarkSent(Grip, RowId, i64),
    Steer(Grip, ItemRow),
    Put(Grip, ItemRow),
    Complete(Box<Complete>),
    Start(ThreadId, NewRow, Option<How>, WhenBusy, i64),
    Take(ThreadId),
    Release(Grip),
    Recover(Whose, What, i64),
    Decide(Grip, Row, What, i64),
}

/// How a row that cannot start is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Block,
    Fail,
    Back,
    /// Back, and the lane waits until then.
    Wait(Option<i64>),
    Dead,
    Cancel,
}

/// What is decided about a row that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Done,
    Back(Loss),
    Block,
    Cancel,
    Ask,
    /// Back and counted, with a turn that did nothing.
    Undo,
    Leave,
}

/// What an operation ends with, and the lanes it showed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) end: End,
    pub(crate) lanes: Vec<LaneView>,
}

/// What an operation ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Refused(String),
    Nothing,
    Deleted(bool),
    Row(Row),
    New(Row),
    Repeated(Row, Option<TurnRow>),
    NotNow,
    Busy,
    Claimed(Grip, Row),
    Begun(Box<Begun>),
    CannotStart(Row, Option<TurnRow>),
    Ours,
    Elsewhere(WorkerId),
    Recovered(Vec<(ThreadId, Option<RowId>, Option<Grip>)>),
}

/// A turn that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) grip: Grip,
    pub(crate) row: Row,
    pub(crate) turn: TurnRow,
    pub(crate) item: Option<ItemRow>,
    pub(crate) next_item: i64,
}

/// The turn that a row becomes next: its number, and how often it was claimed.
pub(crate) fn next_turn(row: &Row) -> TurnId {
    numbered_turn(row.id, row.attempts)
}

pub(crate) fn numbered_turn(row: RowId, attempts: u32) -> TurnId {
    let number = row.as_uuid().as_u128() & (u128::MAX >> 8);
    Uuid::from_u128(3 << 120 | number << 32 | u128::from(attempts)).into()
}

impl How {
    pub(crate) fn of(self, row: &Row) -> CannotStart {
        let turn = next_turn(row);
        match self {
            Self::Block => CannotStart::Block {
                failure: json("\"no\""),
                turn,
            },
            Self::Fail => CannotStart::Fail(Box::new(EndedTurn {
                accept: said("failed"),
                end: failed(),
            })),
            Self::Back => CannotStart::Back {
                turn,
                not_before_ms: 0,
                waiting: None,
            },
            Self::Wait(until_ms) => CannotStart::Back {
                turn,
                not_before_ms: until_ms.unwrap_or(0),
                waiting: Some(waiting(until_ms)),
            },
            Self::Dead => CannotStart::Dead {
                failure: json("\"gone\""),
            },
            Self::Cancel => CannotStart::Cancel,
        }
    }
}

impl What {
    pub(crate) fn of(self, row: &Row, turn: Option<&TurnRow>) -> Decision {
        let running = turn.filter(|turn| turn.status == TurnStatus::InProgress);
        let next = next_turn(row);
        let row = match self {
            Self::Done => FoundFate::Done,
            Self::Back(loss) => FoundFate::Back { turn: next, loss },
            Self::Block => FoundFate::Block {
                failure: json("\"stopped\""),
                turn: next,
            },
            Self::Cancel => FoundFate::Cancel,
            Self::Ask => FoundFate::Ask,
            Self::Leave => FoundFate::Leave,
            Self::Undo => FoundFate::Back {
                turn: next,
                loss: Loss::Counted,
            },
        };
        let undecided = matches!(row, FoundFate::Ask | FoundFate::Leave);
        let error = running.map(|_| json("\"stopped\""));
        Decision {
            turn_error: error.filter(|_| !undecided),
            muted: self == Self::Undo,
            row,
        }
    }
}

fn accepting(how: Option<How>) -> Accepting {
    Accepting::new(move |acceptance| match how {
        None => Verdict::Accept(Box::new(said(&acceptance.row.client_id))),
        Some(how) => Verdict::CannotStart(Box::new(how.of(acceptance.row))),
    })
}

/// Puts an operation to a store.
pub(crate) async fn ask(hand: &Hand, op: Op) -> Answer {
    let end = match op {
        Op::Append(append) => hand.append(append).await.map(|added| match added.value {
            Appended::New(row) => shown(End::New(row), added.lane),
            Appended::Repeated(found) => shown(End::Repeated(found.row, found.turn), added.lane),
        }),
        Op::Update(update) => hand.update_row(update).await.map(row),
        Op::Delete(thread, row, at_ms) => {
            let deleted = hand.delete_row(thread, row, at_ms).await;
            deleted.map(|deleted| shown(End::Deleted(deleted.value), deleted.lane))
        }
        Op::Reorder(thread, rows, at_ms) => hand.reorder(thread, rows, at_ms).await.map(lane),
        Op::Move(to) => hand.move_row(to).await.map(row),
        Op::Retry(thread, which, at_ms) => hand.retry_row(thread, which, at_ms).await.map(row),
        Op::Pause(thread, paused) => hand.pause(thread, paused).await.map(lane),
        Op::Resume(thread, at_ms) => hand.resume(thread, at_ms).await.map(lane),
        op => return ask_owner(hand, op).await,
    };
    answer(end)
}

/// Puts an operation to a store that concerns the lane's owner.
async fn ask_owner(hand: &Hand, op: Op) -> Answer {
    let end = match op {
        Op::Claim(claim) => hand.claim(claim).await.map(|claimed| match claimed {
            Claimed::Ours(ours) => shown(End::Claimed(ours.grip, ours.row), ours.lane),
            Claimed::NotNow(lane) => shown(End::NotNow, lane),
        }),
        Op::Begin(claim, how) => {
            let claimed = hand.claim_and_accept(claim, accepting(how)).await;
            claimed.map(|claimed| match claimed {
                Claimed::Ours(accepted) => end_of(accepted),
                Claimed::NotNow(lane) => shown(End::NotNow, lane),
            })
        }
        Op::Accept(grip, row, how, at_ms) => hand
            .accept(grip, row, accepting(how), at_ms)
            .await
            .map(end_of),
        Op::Unclaim(grip, row, how, at_ms) => {
            let refused = hand.unclaim(grip, row.id, how.of(&row), at_ms).await;
            refused.map(cannot_start)
        }
        Op::MarkSent(grip, row, at_ms) => hand.mark_sent(grip, row, at_ms).await.map(nothing),
        Op::Steer(grip, item) => hand.add_steer(grip, item).await.map(nothing),
        Op::Put(grip, item) => {
            let put = hand.put(grip, items(vec![item]), Level::Visible);
            put.await.map(nothing)
        }
        Op::Complete(complete) => hand.complete(*complete).await.map(row),
        Op::Start(thread, row, how, when_busy, at_ms) => {
            let start = StartTurn {
                thread,
                row,
                accepting: accepting(how),
                when_busy,
                key_window_ms: KEY_WINDOW,
                at_ms,
            };
            hand.start_turn(start).await.map(started)
        }
        Op::Take(thread) => hand.take(thread).await.map(|taken| match taken {
            Taken::Ours(lane) => shown(End::Ours, lane),
            Taken::Elsewhere(worker) => hidden(End::Elsewhere(worker)),
        }),
        Op::Release(grip) => hand.release(grip).await.map(nothing),
        Op::Recover(whose, what, at_ms) => return recover(hand, whose, what, at_ms).await,
        Op::Decide(grip, row, what, at_ms) => {
            let turn = hand.turn(grip.thread, row.turn).await.unwrap();
            let decision = what.of(&row, turn.as_ref());
            hand.decide(grip, row.id, decision, at_ms).await.map(lane)
        }
        op => unreachable!("{op:?} is not of the owner"),
    };
    answer(end)
}

async fn recover(hand: &Hand, whose: Whose, what: What, at_ms: i64) -> Answer {
    let deciding = Deciding::new(move |found: Found<'_>| what.of(found.row, found.turn));
    let search = Recover {
        whose,
        deciding,
        limit: 100,
        at_ms,
    };
    let end = hand.recover(search).await.map(|recovered| {
        let (mut lanes, mut found) = (Vec::new(), Vec::new());
        for lane in recovered.lanes {
            found.push((lane.thread, lane.row, lane.grip));
            lanes.push(lane.lane);
        }
        found.sort_by_key(|(thread, _, _)| *thread);
        (End::Recovered(found), lanes)
    });
    answer(end)
}

type Told = (End, Vec<LaneView>);

fn shown(end: End, lane: LaneView) -> Told {
    (end, vec![lane])
}

fn hidden(end: End) -> Told {
    (end, Vec::new())
}

fn nothing((): ()) -> Told {
    hidden(End::Nothing)
}

fn lane(lane: LaneView) -> Told {
    shown(End::Nothing, lane)
}

fn row(changed: turnlane_store::lane::Changed<Row>) -> Told {
    shown(End::Row(changed.value), changed.lane)
}

fn cannot_start(refused: Refused) -> Told {
    shown(End::CannotStart(refused.row, refused.turn), refused.lane)
}

fn begun(turn: AcceptedTurn) -> Told {
    let begun = Begun {
        grip: turn.grip,
        row: turn.row,
        turn: turn.turn,
        item: turn.item,
        next_item: turn.next_item_ord,
    };
    shown(End::Begun(Box::new(begun)), turn.lane)
}

fn end_of(accepted: Accepted) -> Told {
    match accepted {
        Accepted::Begun(turn) => begun(*turn),
        Accepted::CannotStart(refused) => cannot_start(*refused),
        Accepted::Claimed(claimed) => panic!("only claimed: {claimed:?}"),
    }
}

fn started(started: Started) -> Told {
    match started {
        Started::Begun(turn) => begun(*turn),
        Started::Queued(queued) => shown(End::New(queued.value), queued.lane),
        Started::CannotStart(refused) => cannot_start(*refused),
        Started::Busy(lane) => shown(End::Busy, *lane),
        Started::Repeated(found) => hidden(End::Repeated(found.row, found.turn)),
    }
}

fn answer(end: Result<Told, StoreError>) -> Answer {
    let (end, lanes) = end.unwrap_or_else(|error| hidden(refused(&error)));
    let end = match end {
        End::Row(row) => End::Row(plain(row)),
        End::New(row) => End::New(plain(row)),
        End::Repeated(row, turn) => End::Repeated(plain(row), turn),
        End::Claimed(grip, row) => End::Claimed(grip, plain(row)),
        End::CannotStart(row, turn) => End::CannotStart(plain(row), turn),
        End::Begun(mut begun) => {
            begun.row = plain(begun.row);
            End::Begun(begun)
        }
        other => other,
    };
    Answer { end, lanes }
}

pub(crate) fn refused(error: &StoreError) -> End {
    End::Refused(format!("{error:?}"))
}

/// A row without what is not compared.
pub(crate) fn plain(row: Row) -> Row {
    // Those that go with a store that is closed end at no time that anybody has passed in.
    let cancelled = row.state == RowState::Cancelled;
    Row {
        position: None,
        ahead: None,
        updated_ms: 0,
        ended_ms: row.ended_ms.map(|at_ms| if cancelled { 0 } else { at_ms }),
        ..row
    }
}

/// A lane without what is not compared.
pub(crate) fn plain_lane(lane: LaneView) -> LaneView {
    LaneView {
        revision: 0,
        ..lane
    }
}
