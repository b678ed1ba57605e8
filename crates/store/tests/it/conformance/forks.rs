//! Copies of a thread's history, and taking a part of it back.

use turnlane_store::StoreError;
use turnlane_store::queue::{Back, Fate};
use turnlane_store::thread::{Fork, Listed, NewThread, ThreadQuery, UpTo};
use turnlane_store::turn::{Complete, ItemQuery, Put, TurnQuery};

use crate::backend::{SqliteMemory, on_one_worker};
use crate::build::*;

on_one_worker![
    a_fork_has_the_history_of_its_origin,
    a_fork_ends_with_the_turn_it_names,
    a_fork_may_end_before_the_turn_it_names,
    a_fork_does_not_end_in_a_running_turn,
    a_fork_is_listed_if_somebody_spoke_in_what_it_copies,
    a_copy_pasted_elsewhere_is_the_same_history,
    a_fork_copies_neither_the_running_turn_nor_rows,
    a_fork_and_its_origin_go_separate_ways,
    a_fork_from_what_is_not_there_is_refused,
    a_fork_needs_an_id_of_its_own,
    a_revert_takes_turns_items_and_entries_back,
    a_revert_leaves_the_queue,
    a_revert_of_a_cut_turn_makes_its_row_an_ordinary_one,
    the_turn_after_a_revert_has_the_next_number,
];

/// Runs turns of these names, each with an item and an entry; `b` is muted.
async fn talk(hand: &Hand, names: &[&str]) {
    for name in names {
        let turn = hand.direct(name).await;
        let mut end = completed();
        end.muted = *name == "b";
        let put = Put {
            items: vec![item(&turn, 0, "agentMessage")],
            entries: vec![entry(&turn, 0, "output")],
            thread_usage: Some(json(&format!("\"{name}\""))),
            ..Put::default()
        };
        let end = Complete {
            end,
            put,
            ..complete(&turn, Fate::Done)
        };
        hand.complete(end).await.unwrap();
    }
}

fn fork(through: Option<&str>) -> Fork {
    Fork {
        from: thread(),
        upto: through.map_or(UpTo::LastEnded, |through| UpTo::Turn(turn_id(through))),
        to: new_thread("fork"),
    }
}

fn its_turns() -> TurnQuery {
    TurnQuery {
        thread: thread_id("fork"),
        ..whole_thread()
    }
}

fn its_items() -> ItemQuery {
    ItemQuery {
        thread: thread_id("fork"),
        ..all_items()
    }
}

async fn a_fork_has_the_history_of_its_origin(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a", "b", "c"]).await;
    let row = hand.fork_thread(fork(None)).await.unwrap();
    assert_eq!(row, hand.thread(thread_id("fork")).await.unwrap().unwrap());
    let origin = hand.thread(thread()).await.unwrap().unwrap();
    assert_eq!((row.usage, row.preview), (origin.usage, origin.preview));
    let copied = hand.turns(its_turns()).await.unwrap().rows;
    let mut turns = hand.all_turns().await;
    // A copy was not made by a row of the new lane.
    for (turn, copy) in turns.iter_mut().zip(&copied) {
        turn.row = copy.row;
    }
    assert_eq!(copied, turns);
    assert_eq!(
        hand.items(its_items()).await.unwrap().rows,
        hand.all_items().await
    );
    let history = hand.history(thread()).await.unwrap();
    assert_eq!(hand.history(thread_id("fork")).await.unwrap(), history);
}

async fn a_fork_ends_with_the_turn_it_names(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a", "b", "c"]).await;
    hand.fork_thread(fork(Some("b"))).await.unwrap();
    let copied = hand.turns(its_turns()).await.unwrap().rows;
    let ids: Vec<_> = copied.iter().map(|turn| (turn.id, turn.muted)).collect();
    assert_eq!(ids, [(turn_id("a"), false), (turn_id("b"), true)]);
    assert_eq!(
        hand.items(its_items()).await.unwrap().rows,
        hand.all_items().await[..4]
    );
    let entries = hand.history(thread_id("fork")).await.unwrap().entries;
    assert_eq!(entries.len(), 1);
}

async fn a_fork_may_end_before_the_turn_it_names(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a", "b", "c"]).await;
    let mut before = fork(None);
    before.upto = UpTo::Before(turn_id("c"));
    hand.fork_thread(before).await.unwrap();
    let copied = hand.turns(its_turns()).await.unwrap().rows;
    let told: Vec<_> = copied.iter().map(|turn| turn.id).collect();
    assert_eq!(told, [turn_id("a"), turn_id("b")]);
}

async fn a_fork_does_not_end_in_a_running_turn(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a"]).await;
    hand.direct("runs").await;
    for upto in [UpTo::Turn(turn_id("runs")), UpTo::Before(turn_id("runs"))] {
        let mut running = fork(None);
        running.upto = upto;
        refused!(hand.fork_thread(running), StoreError::TurnInProgress(turn) if *turn == turn_id("runs"));
        refused!(
            hand.copy_thread(thread(), upto),
            StoreError::TurnInProgress(_)
        );
    }
    assert_eq!(hand.thread(thread_id("fork")).await.unwrap(), None);
}

async fn a_fork_is_listed_if_somebody_spoke_in_what_it_copies(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a"]).await;
    let unlisted = |upto, name: &str| Fork {
        from: thread(),
        upto,
        to: NewThread {
            listed: Listed::FromFirstTurn,
            ..new_thread(name)
        },
    };
    let all = hand.fork_thread(unlisted(UpTo::LastEnded, "all")).await;
    assert!(!all.unwrap().preview.is_empty());
    let none = UpTo::Before(turn_id("a"));
    let none = hand.fork_thread(unlisted(none, "none")).await.unwrap();
    assert_eq!(none.preview, "", "its first words are still to come");
    let page = hand.threads(ThreadQuery::default()).await.unwrap();
    let shown: Vec<_> = page.rows.iter().map(|row| row.id).collect();
    assert!(shown.contains(&thread_id("all")) && !shown.contains(&thread_id("none")));
}

async fn a_copy_pasted_elsewhere_is_the_same_history(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a", "b", "c"]).await;
    hand.add(&["waits"]).await;
    hand.direct("runs").await;
    let copy = hand.copy_thread(thread(), UpTo::LastEnded).await.unwrap();
    let elsewhere = Db::on(SqliteMemory);
    let there = elsewhere.open("there").await;
    let pasted = there.paste_thread(new_thread("fork"), copy.clone()).await;
    let pasted = pasted.unwrap();
    let forked = hand.fork_thread(fork(None)).await.unwrap();
    assert_eq!(pasted, forked, "as a fork in the same store");
    assert_eq!(
        there.turns(its_turns()).await.unwrap(),
        hand.turns(its_turns()).await.unwrap()
    );
    assert_eq!(
        there.items(its_items()).await.unwrap(),
        hand.items(its_items()).await.unwrap()
    );
    let history = |hand: &Hand| hand.history(thread_id("fork"));
    assert_eq!(
        history(&there).await.unwrap(),
        history(&hand).await.unwrap()
    );
    let again = there.copy_thread(thread_id("fork"), UpTo::LastEnded).await;
    assert_eq!(again.unwrap(), copy, "nothing is lost on the way");
}

async fn a_fork_copies_neither_the_running_turn_nor_rows(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a"]).await;
    hand.add(&["waits"]).await;
    hand.direct("runs").await;
    hand.fork_thread(fork(None)).await.unwrap();
    assert_eq!(hand.turns(its_turns()).await.unwrap().rows.len(), 1);
    assert_eq!(hand.items(its_items()).await.unwrap().rows.len(), 2);
    let lane = hand.look(thread_id("fork")).await.unwrap();
    assert_eq!((lane.depth, lane.active, lane.owner), (0, None, None));
}

async fn a_fork_and_its_origin_go_separate_ways(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a"]).await;
    hand.fork_thread(fork(None)).await.unwrap();
    talk(&hand, &["b"]).await;
    let mut there = start("c");
    there.thread = thread_id("fork");
    hand.start_turn(there).await.unwrap();
    let copied = hand.turns(its_turns()).await.unwrap().rows;
    let told: Vec<_> = copied.iter().map(|turn| (turn.ord, turn.id)).collect();
    assert_eq!(told, [(1, turn_id("a")), (2, turn_id("c"))]);
    hand.delete_thread(thread()).await.unwrap();
    assert_eq!(hand.turns(its_turns()).await.unwrap().rows.len(), 2);
}

async fn a_fork_from_what_is_not_there_is_refused(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a"]).await;
    refused!(
        hand.fork_thread(fork(Some("never"))),
        StoreError::TurnNotFound
    );
    let mut lost = fork(None);
    lost.from = thread_id("lost");
    refused!(hand.fork_thread(lost), StoreError::ThreadNotFound(_));
    assert_eq!(hand.thread(thread_id("fork")).await.unwrap(), None);
}

async fn a_fork_needs_an_id_of_its_own(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a"]).await;
    let mut same = fork(None);
    same.to = new_thread("t");
    refused!(hand.fork_thread(same), StoreError::ThreadExists(_));
    assert_eq!(hand.all_turns().await.len(), 1);
}

async fn a_revert_takes_turns_items_and_entries_back(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a", "c", "d"]).await;
    hand.revert_thread(thread(), 2, NOW + 5).await.unwrap();
    let ids: Vec<_> = hand.all_turns().await.iter().map(|turn| turn.id).collect();
    assert_eq!(ids, [turn_id("a")]);
    assert_eq!(hand.all_items().await.len(), 2);
    assert_eq!(hand.history(thread()).await.unwrap().entries.len(), 1);
    assert_eq!(
        hand.thread(thread()).await.unwrap().unwrap().updated_ms,
        NOW + 5
    );
}

async fn a_revert_of_a_cut_turn_makes_its_row_an_ordinary_one(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    let turn = hand.begin().await;
    let cut = complete(&turn, back("a2", Back::Continue));
    hand.complete(cut).await.unwrap();
    hand.revert_thread(thread(), turn.turn.ord + 1, NOW)
        .await
        .unwrap();
    assert!(
        hand.stored("a").await.continues,
        "its message is still there"
    );
    hand.revert_thread(thread(), turn.turn.ord, NOW)
        .await
        .unwrap();
    assert!(!hand.stored("a").await.continues);
}

async fn a_revert_leaves_the_queue(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a"]).await;
    hand.add(&["b"]).await;
    hand.revert_thread(thread(), 1, NOW).await.unwrap();
    assert_eq!(hand.names().await, ["b"]);
    assert!(hand.all_turns().await.is_empty());
}

async fn the_turn_after_a_revert_has_the_next_number(db: Db) {
    let hand = db.one().await;
    talk(&hand, &["a", "c"]).await;
    hand.revert_thread(thread(), 2, NOW).await.unwrap();
    let turn = hand.direct("d").await;
    assert_eq!((turn.turn.ord, turn.item.unwrap().ord), (2, 3));
    assert_eq!(turn.next_entry_ord, 2);
}
