//! What a turn writes while it runs, and how turns and items are read.

use turnlane_store::StoreError;
use turnlane_store::queue::{Accepting, Fate, Verdict};
use turnlane_store::thread::Direction;
use turnlane_store::turn::{Accept, Complete, ItemQuery, Level, Put, Started, TurnQuery};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    what_a_turn_produced_is_read_back_as_it_was_written,
    what_was_said_meanwhile_is_an_item_of_the_turn,
    a_number_is_given_once,
    items_may_be_written_out_of_order_and_are_read_in_order,
    an_empty_write_is_no_error,
    the_thread_remembers_usage_and_what_its_engine_keeps,
    turns_are_read_in_pages_both_ways,
    items_are_read_in_pages_of_a_turn_or_of_all,
    a_turn_that_is_not_there_is_none,
    an_item_is_found_by_its_id,
    a_turn_is_summed_up_by_its_first_question_and_its_last_answer,
    a_turn_says_whether_it_has_changed_the_settings,
];

async fn what_a_turn_produced_is_read_back_as_it_was_written(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let put = Put {
        items: vec![item(&turn, 0, "agentMessage"), item(&turn, 1, "command")],
        entries: vec![entry(&turn, 0, "user"), entry(&turn, 1, "output")],
        ..Put::default()
    };
    hand.put(turn.grip, put.clone(), Level::Durable)
        .await
        .unwrap();
    assert_eq!(hand.all_items().await[1..], put.items);
    assert_eq!(hand.history(thread()).await.unwrap().entries, put.entries);
    hand.finish(&turn).await;
    let next = hand.direct("b").await;
    assert_eq!((next.item.unwrap().ord, next.next_item_ord), (4, 5));
    assert_eq!(next.next_entry_ord, 3);
}

async fn what_was_said_meanwhile_is_an_item_of_the_turn(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let steer = item(&turn, 0, "userMessage");
    hand.add_steer(turn.grip, steer.clone()).await.unwrap();
    assert_eq!(hand.all_items().await, [turn.item.unwrap(), steer]);
}

async fn a_number_is_given_once(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let first = item(&turn, 0, "command");
    hand.put(turn.grip, items(vec![first.clone()]), Level::Visible)
        .await
        .unwrap();
    let mut again = items(vec![item(&turn, 1, "command"), item(&turn, 0, "command")]);
    again.entries = vec![entry(&turn, 0, "output")];
    refused!(
        hand.put(turn.grip, again, Level::Visible),
        StoreError::Failed { .. }
    );
    refused!(
        hand.add_steer(turn.grip, first.clone()),
        StoreError::Failed { .. }
    );
    // Refused means that nothing of it is there, neighbours included.
    assert_eq!(hand.all_items().await[1..], [first]);
    assert!(hand.history(thread()).await.unwrap().entries.is_empty());
    hand.finish(&turn).await;
}

async fn items_may_be_written_out_of_order_and_are_read_in_order(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    for further in [2, 0, 1] {
        let put = items(vec![item(&turn, further, "command")]);
        hand.put(turn.grip, put, Level::Visible).await.unwrap();
    }
    let ords: Vec<_> = hand.all_items().await.iter().map(|item| item.ord).collect();
    assert_eq!(ords, [1, 2, 3, 4]);
}

async fn an_empty_write_is_no_error(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    for level in [Level::Durable, Level::Visible] {
        hand.put(turn.grip, Put::default(), level).await.unwrap();
    }
}

async fn the_thread_remembers_usage_and_what_its_engine_keeps(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let put = Put {
        thread_usage: Some(json("{\"total\":7}")),
        engine_state: Some(json("{\"session\":1}")),
        ..Put::default()
    };
    hand.put(turn.grip, put.clone(), Level::Visible)
        .await
        .unwrap();
    hand.put(turn.grip, Put::default(), Level::Visible)
        .await
        .unwrap();
    let row = hand.thread(thread()).await.unwrap().unwrap();
    assert_eq!(
        (row.usage, row.engine_state),
        (put.thread_usage, put.engine_state)
    );
}

async fn turns_are_read_in_pages_both_ways(db: Db) {
    let hand = db.one().await;
    for name in ["a", "b", "c"] {
        hand.run(name).await;
    }
    let page = |after_ord, direction| TurnQuery {
        after_ord,
        direction,
        limit: 2,
        ..whole_thread()
    };
    let ords = async |query| {
        let page = hand.turns(query).await.unwrap();
        let ords: Vec<_> = page.rows.iter().map(|turn| turn.ord).collect();
        (ords, page.next)
    };
    assert_eq!(
        ords(page(None, Direction::Ascending)).await,
        (vec![1, 2], Some(2))
    );
    assert_eq!(
        ords(page(Some(2), Direction::Ascending)).await,
        (vec![3], None)
    );
    assert_eq!(
        ords(page(None, Direction::Descending)).await,
        (vec![3, 2], Some(2))
    );
    assert_eq!(
        ords(page(Some(2), Direction::Descending)).await,
        (vec![1], None)
    );
}

async fn items_are_read_in_pages_of_a_turn_or_of_all(db: Db) {
    let hand = db.one().await;
    for name in ["a", "b"] {
        let turn = hand.direct(name).await;
        let put = items(vec![item(&turn, 0, "command"), item(&turn, 1, "command")]);
        hand.put(turn.grip, put, Level::Visible).await.unwrap();
        hand.finish(&turn).await;
    }
    let page = |turn_ord, after_ord, direction| ItemQuery {
        turn_ord,
        after_ord,
        direction,
        limit: 2,
        ..all_items()
    };
    let ords = async |query| {
        let page = hand.items(query).await.unwrap();
        let ords: Vec<_> = page.rows.iter().map(|item| item.ord).collect();
        (ords, page.next)
    };
    let (up, down) = (Direction::Ascending, Direction::Descending);
    assert_eq!(ords(page(None, None, up)).await, (vec![1, 2], Some(2)));
    assert_eq!(ords(page(None, Some(4), up)).await, (vec![5, 6], None));
    assert_eq!(ords(page(None, None, down)).await, (vec![6, 5], Some(5)));
    assert_eq!(ords(page(Some(1), None, up)).await, (vec![1, 2], Some(2)));
    assert_eq!(ords(page(Some(1), Some(2), up)).await, (vec![3], None));
    assert_eq!(ords(page(Some(2), Some(5), down)).await, (vec![4], None));
    assert_eq!(ords(page(Some(9), None, up)).await, (vec![], None));
}

async fn a_turn_that_is_not_there_is_none(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    assert_eq!(hand.turn(thread(), turn_id("a")).await.unwrap(), None);
    assert_eq!(
        hand.turn(thread_id("lost"), turn_id("a")).await.unwrap(),
        None
    );
}

async fn an_item_is_found_by_its_id(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let said = turn.item.clone().unwrap();
    let wanted = hand.item(thread(), said.id.clone()).await.unwrap();
    assert_eq!(wanted, Some(said));
    let unknown = hand.item(thread(), "never".to_owned()).await.unwrap();
    assert_eq!(unknown, None);
}

async fn a_turn_is_summed_up_by_its_first_question_and_its_last_answer(db: Db) {
    let hand = db.one().await;
    let turn = hand.direct("a").await;
    let put = items(vec![
        item(&turn, 0, "agentMessage"),
        item(&turn, 1, "userMessage"),
        item(&turn, 2, "agentMessage"),
        item(&turn, 3, "commandExecution"),
    ]);
    let end = Complete {
        put,
        ..complete(&turn, Fate::Done)
    };
    hand.complete(end).await.unwrap();
    let other = hand.direct("b").await;
    let ords = vec![turn.turn.ord, other.turn.ord, 99];
    let shown = hand.summaries(thread(), ords).await.unwrap();
    let told: Vec<_> = shown.iter().map(|item| item.ord).collect();
    assert_eq!(
        told,
        [
            turn.item.unwrap().ord,
            turn.next_item_ord + 2,
            other.item.unwrap().ord
        ]
    );
}

async fn a_turn_says_whether_it_has_changed_the_settings(db: Db) {
    let hand = db.one().await;
    let same = hand.direct("a").await;
    hand.finish(&same).await;
    assert!(!same.settings_changed);
    let mut start = start("b");
    start.accepting = Accepting::new(|_| {
        Verdict::Accept(Box::new(Accept {
            settings: Some(json("\"other\"")),
            ..said("b")
        }))
    });
    let Started::Begun(other) = hand.start_turn(start).await.unwrap() else {
        panic!("nothing stands in its way");
    };
    assert!(other.settings_changed);
    assert_eq!(other.thread.settings, json("\"other\""));
}
