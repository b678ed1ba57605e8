//! The store's operations in acts: adds and order, a turn, failures, direct turns, a lost worker, the
//! rest, and fan-out jobs. Everything in them is fixed, times and ids included.

use super::fanout_act::fan_out;
use super::player::{Player, Submit};
use super::*;
use crate::ids::{RowId, ThreadId};
use crate::lane::Paused;
use crate::queue::{
    Accepting, Append, Back, CannotStart, Claim, Claimed, Fate, Move, MoveTo, Update, Which,
};
use crate::recovery::{Deciding, Decision, FoundFate, Loss, Recover, Whose};
use crate::sqlite::fault::Fault as Cause;
use crate::sqlite::fixture::{
    self, Who, accepting, complete, ended, id, json, new_thread, refusing, waiting,
};
use crate::sqlite::{claim, queue, threads};
use crate::thread::{Fork, ThreadChange, UpTo};
use crate::turn::{
    Accepted, AcceptedTurn, Complete, EndedTurn, EntryRow, ItemRow, Keep, Put, StartTurn, Started,
    TurnStatus, WaitingChange, WhenBusy,
};

/// Threads of ours, one of another worker that dies, and a copy.
pub(super) const A: u128 = 1;
const B: u128 = 2;
const C: u128 = 3;
const D: u128 = 4;

/// An add of this row, with a key, to a thread.
pub(super) fn adding(thread: u128, row: u128) -> Append {
    let mut append = fixture::append(row);
    append.thread = id(thread);
    append.row.key = Some(format!("key-{row}"));
    append
}

async fn add(player: &mut Player<'_>, name: &str, thread: u128, row: u128) {
    let step = player.step(name, |store| store.append(adding(thread, row)));
    step.await;
}

fn claiming(thread: u128, which: Which, at_ms: i64) -> Claim {
    let thread = id(thread);
    Claim {
        thread,
        which,
        at_ms,
    }
}

/// Claims and accepts.
async fn begin(
    player: &mut Player<'_>,
    name: &str,
    claim: Claim,
    accepting: Accepting,
) -> Option<AcceptedTurn> {
    let step = player.step(name, |store| {
        store.claim_and_accept(claim.clone(), accepting.clone())
    });
    match step.await? {
        Claimed::Ours(Accepted::Begun(begun)) => Some(*begun),
        Claimed::Ours(Accepted::CannotStart(_) | Accepted::Claimed(_)) | Claimed::NotNow(_) => None,
    }
}

/// Ends a turn that has begun.
async fn end(player: &mut Player<'_>, name: &str, end: Option<Complete>) {
    if let Some(end) = end {
        player.step(name, |store| store.complete(end.clone())).await;
    }
}

/// The item and the entry that a turn produces as its so manyth.
fn produced(begun: &AcceptedTurn, nth: i64) -> Put {
    let item = ItemRow {
        ord: begun.next_item_ord + nth,
        turn_ord: begun.turn.ord,
        id: format!("item-{nth}"),
        kind: "agentMessage".to_owned(),
        body: json("said"),
        started_ms: 20,
        completed_ms: 21,
    };
    let entry = EntryRow {
        ord: begun.next_entry_ord + nth,
        turn_ord: begun.turn.ord,
        turn: begun.turn.id,
        kind: "output".to_owned(),
        provider: None,
        model: None,
        item_id: Some(item.id.clone()),
        call_ids: None,
        items: json("entry"),
    };
    Put {
        items: vec![item],
        entries: vec![entry],
        ..Put::default()
    }
}

fn ignored<T: Send + 'static>(work: Work<T>) -> Work<()> {
    Box::pin(async move { work.await.map(drop) })
}

/// How many acts the script has.
pub(super) const ACTS: usize = 7;

/// The act of fan-out jobs, the last one.
pub(super) const FAN_OUT: usize = 6;

/// One act of the script: what people, lanes and workers do, in a fixed order at fixed times.
pub(super) async fn play(act: usize, player: &mut Player<'_>) {
    match act {
        0 => order(player).await,
        1 => run(player).await,
        2 => fail(player).await,
        3 => start_directly(player).await,
        4 => lose_a_worker(player).await,
        5 => tidy_up(player).await,
        _ => fan_out(player).await,
    }
    // The store is still of use. What ends here is durable and takes all that is visible along.
    add(player, "new-add-99", A, 99).await;
    let change = ThreadChange::of(id(A), 99);
    let step = player.step("end-last", |store| store.change_thread(change.clone()));
    step.await;
}

/// Rows come, move and go.
async fn order(player: &mut Player<'_>) {
    for thread in [A, B] {
        let name = format!("new-thread-{thread}");
        let step = player.step(&name, |store| store.create_thread(new_thread(thread)));
        step.await;
    }
    let a: ThreadId = id(A);
    for row in 1..=4 {
        add(player, &format!("new-add-{row}"), A, row).await;
    }
    add(player, "new-add-1", A, 1).await;
    let rows: Vec<RowId> = [3, 1, 2, 4].map(id).to_vec();
    let reorder = |store: &SqliteStore| store.reorder(a, rows.clone(), 30);
    player.step("reorder", reorder).await;
    let to = Move {
        thread: a,
        row: id(3),
        to: MoveTo::After(id(1)),
        at_ms: 31,
    };
    player
        .step("move", |store| store.move_row(to.clone()))
        .await;
    let update = Update {
        thread: a,
        row: id(1),
        params: json("other").into(),
        at_ms: 32,
    };
    let step = player.step("update", |store| store.update_row(update.clone()));
    step.await;
    let step = player.step("delete", |store| store.delete_row(a, id(4), 33));
    step.await;
}

/// A turn from its claim to its end, while somebody pauses the queue.
async fn run(player: &mut Player<'_>) {
    let a: ThreadId = id(A);
    let begun = begin(
        player,
        "new-begin-1",
        claiming(A, Which::Head, 40),
        accepting(),
    )
    .await;
    if let Some(begun) = &begun {
        let put = |nth, level| {
            move |store: &SqliteStore| store.put(begun.grip, produced(begun, nth), level)
        };
        player.step("put-1", put(0, Level::Visible)).await;
        let steer = produced(begun, 1).items.remove(0);
        let add_steer = |store: &SqliteStore| store.add_steer(begun.grip, steer.clone());
        player.step("steer", add_steer).await;
        player.step("put-2", put(2, Level::Durable)).await;
        player.step("put-3", put(3, Level::Visible)).await;
    }
    let paused = Paused {
        reason: "user".to_owned(),
        by: None,
        since_ms: 41,
    };
    let step = player.step("pause", |store| store.pause(a, paused.clone()));
    step.await;
    // New work, something produced and an end in one transaction.
    let mut steps: Vec<(&str, Submit<'_>)> = vec![(
        "new-add-5",
        Box::new(|store| ignored(store.append(adding(A, 5)))),
    )];
    if let Some(begun) = &begun {
        let mut end = complete(begun, Fate::Done, 42);
        end.put = produced(begun, 5);
        steps.push((
            "put-4",
            Box::new(|store| store.put(begun.grip, produced(begun, 4), Level::Visible)),
        ));
        steps.push((
            "end-1",
            Box::new(move |store| ignored(store.complete(end.clone()))),
        ));
    }
    player.together(steps).await;
    player.step("resume", |store| store.resume(a, 43)).await;
}

/// Turns that do not come to their end, and rows that come back.
async fn fail(player: &mut Player<'_>) {
    let a: ThreadId = id(A);
    let claim = claiming(A, Which::Head, 50);
    let claimed = player.step("new-claim", |store| store.claim(claim.clone()));
    if let Some(Claimed::Ours(claimed)) = claimed.await {
        let (grip, row) = (claimed.grip, claimed.row.id);
        player
            .step("sent", |store| store.mark_sent(grip, row, 51))
            .await;
        let accept = |store: &SqliteStore| store.accept(grip, row, accepting(), 52);
        if let Some(Accepted::Begun(begun)) = player.step("accept", accept).await {
            let back = Fate::Back {
                turn: id(9_001),
                not_before_ms: 60,
                why: Back::Limit,
            };
            let mut limited = complete(&begun, back, 53);
            limited.end = ended(TurnStatus::Failed);
            limited.waiting = WaitingChange::Begin(waiting(Some(60)));
            end(player, "end-by-limit", Some(limited)).await;
        }
    }
    let block = |turn| Fate::Block {
        failure: json("no"),
        turn: id(turn),
    };
    let claim = claiming(A, Which::HeadNow, 54);
    let begun = begin(player, "new-begin-2", claim, accepting()).await;
    let blocked = begun.map(|begun| complete(&begun, block(9_002), 55));
    end(player, "end-blocked", blocked).await;
    player
        .step("retry", |store| store.retry_row(a, None, 56))
        .await;
    let how = CannotStart::Block {
        failure: json("cannot"),
        turn: id(9_003),
    };
    begin(
        player,
        "new-cannot-start",
        claiming(A, Which::Head, 57),
        refusing(how),
    )
    .await;
    let claim = claiming(A, Which::Row(id(2)), 58);
    let claimed = player.step("new-claim-2", |store| store.claim(claim.clone()));
    if let Some(Claimed::Ours(claimed)) = claimed.await {
        let (grip, row) = (claimed.grip, claimed.row.id);
        let how = CannotStart::Dead { failure: json("x") };
        let step = player.step("unclaim", |store| store.unclaim(grip, row, how.clone(), 59));
        step.await;
    }
}

/// Turns without a queue.
async fn start_directly(player: &mut Player<'_>) {
    let b: ThreadId = id(B);
    let start = |row, when_busy| StartTurn {
        thread: id(B),
        row: adding(B, row).row,
        accepting: accepting(),
        when_busy,
        key_window_ms: 1_000,
        at_ms: 70,
    };
    let direct = |store: &SqliteStore| store.start_turn(start(11, WhenBusy::Refuse));
    let started = player.step("new-start", direct).await;
    let queued = |store: &SqliteStore| store.start_turn(start(12, WhenBusy::Queue));
    player.step("new-start-queued", queued).await;
    if let Some(Started::Begun(begun)) = started {
        end(player, "end-direct", Some(complete(&begun, Fate::Done, 71))).await;
    }
    let failed = CannotStart::Fail(Box::new(EndedTurn {
        accept: fixture::accept("never"),
        end: ended(TurnStatus::Failed),
    }));
    begin(
        player,
        "new-fail",
        claiming(B, Which::Head, 72),
        refusing(failed),
    )
    .await;
    player.step("take", |store| store.take(b)).await;
    let mut change = ThreadChange::of(b, 73);
    change.name = Some(Some("B".to_owned()));
    let step = player.step("rename", |store| store.change_thread(change.clone()));
    step.await;
}

/// Another worker begins a turn and is dead: what it did is one operation here.
fn other_begins(store: &SqliteStore, thread: u128, row: u128) -> Work<()> {
    store.write(KEPT, move |db| {
        let db = Db {
            connection: db.connection,
            me: Who::Other.id(),
            locks: db.locks,
        };
        let begin = || -> Result<(), Cause> {
            let sql = "INSERT OR IGNORE INTO worker VALUES (?1, 1, 1, 'b', 'h', NULL, 'serve', 0)";
            db.connection.execute(sql, [db.me])?;
            if thread == C {
                threads::create(&db, &new_thread(C))?;
            }
            queue::append(&db, &adding(thread, row))?;
            claim::claim_and_accept(
                &db,
                &claiming(thread, Which::Row(id(row)), 80),
                &accepting(),
            )?;
            Ok(())
        };
        begin().map_err(|cause| cause.while_trying_to("be another worker"))
    })
}

/// A worker dies under a turn.
async fn lose_a_worker(player: &mut Player<'_>) {
    let deciding = Deciding::new(|found| Decision {
        muted: false,
        turn_error: Some(json("lost")),
        row: if found.thread == id(C) {
            let (turn, loss) = (id(9_004), Loss::Retry);
            FoundFate::Back { turn, loss }
        } else {
            FoundFate::Ask
        },
    });
    let recover = Recover {
        whose: Whose::Dead,
        deciding,
        limit: 10,
        at_ms: 81,
    };
    let release = |store: &SqliteStore| -> Work<()> {
        let look = store.look(id(B));
        let give_up = store.write(KEPT, |db| {
            let idle = "UPDATE lane SET owner = NULL WHERE active IS NULL";
            db.connection.execute(idle, []).map(drop).map_err(noting)
        });
        Box::pin(async move { look.await.and(give_up.await) })
    };
    player.step("give-up-lanes", release).await;
    player
        .step("lose-1", |store| other_begins(store, C, 21))
        .await;
    player
        .step("lose-2", |store| other_begins(store, B, 22))
        .await;
    let step = player.step("recover", |store| store.recover(recover.clone()));
    let lanes = step.await.map(|recovered| recovered.lanes);
    for lane in lanes.into_iter().flatten() {
        let (Some(grip), Some(row)) = (lane.grip, lane.row) else {
            continue;
        };
        let decision = Decision {
            muted: false,
            turn_error: None,
            row: FoundFate::Done,
        };
        let step = player.step("decide", |store| {
            store.decide(grip, row, decision.clone(), 82)
        });
        step.await;
    }
    let begun = begin(
        player,
        "new-begin-3",
        claiming(C, Which::Head, 83),
        accepting(),
    )
    .await;
    let done = begun.map(|begun| {
        let mut done = complete(&begun, Fate::Done, 84);
        done.keep = Keep::UnlessIdle;
        done
    });
    end(player, "end-3", done).await;
}

/// What is left to do.
async fn tidy_up(player: &mut Player<'_>) {
    let fork = Fork {
        from: id(A),
        upto: UpTo::LastEnded,
        to: new_thread(D),
    };
    let step = player.step("new-fork", |store| store.fork_thread(fork.clone()));
    step.await;
    player
        .step("revert", |store| store.revert_thread(id(D), 1, 90))
        .await;
    player
        .step("delete-thread", |store| store.delete_thread(id(D)))
        .await;
    player.step("end-waits", Store::end_endless_waits).await;
    player.step("prune", |store| store.prune(60)).await;
}
