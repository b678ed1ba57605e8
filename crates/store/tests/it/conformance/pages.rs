//! Lists of the rows that wait, whole and in parts.

use turnlane_store::queue::{QueueFrom, QueueQuery};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    a_page_names_the_next_one_only_when_there_is_more,
    a_page_may_begin_behind_so_many_rows,
    a_page_beyond_the_end_is_empty,
    paging_while_the_lane_drains_loses_nothing_that_stays,
    a_page_and_its_lane_are_one_picture,
];

fn page(from: QueueFrom, limit: u32) -> QueueQuery {
    QueueQuery {
        from,
        limit,
        ..whole_queue()
    }
}

fn names(page: &turnlane_store::queue::QueuePage) -> Vec<&str> {
    page.rows.iter().map(|row| row.client_id.as_str()).collect()
}

async fn a_page_names_the_next_one_only_when_there_is_more(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c", "d"]).await;
    let first = hand.queue(page(QueueFrom::Head, 2)).await.unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first.next, first.rows[1].position);
    let after = QueueFrom::After(first.next.unwrap());
    let second = hand.queue(page(after, 2)).await.unwrap();
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second.next, None);
}

async fn a_page_may_begin_behind_so_many_rows(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b", "c", "d"]).await;
    let part = hand.queue(page(QueueFrom::Offset(1), 2)).await.unwrap();
    assert_eq!(names(&part), ["b", "c"]);
    assert!(part.next.is_some());
    let rest = hand.queue(page(QueueFrom::Offset(3), 2)).await.unwrap();
    assert_eq!((names(&rest), rest.next), (vec!["d"], None));
}

async fn a_page_beyond_the_end_is_empty(db: Db) {
    let hand = db.one().await;
    hand.add(&["a"]).await;
    for from in [QueueFrom::Offset(1), QueueFrom::After(i64::MAX)] {
        let part = hand.queue(page(from, 2)).await.unwrap();
        assert!(part.rows.is_empty() && part.next.is_none());
        assert_eq!(part.lane.depth, 1);
    }
}

async fn paging_while_the_lane_drains_loses_nothing_that_stays(db: Db) {
    let hand = db.one().await;
    let all = ["a", "b", "c", "d", "e", "f", "g", "h"];
    hand.add(&all).await;
    let mut seen = Vec::new();
    let mut from = QueueFrom::Head;
    loop {
        let part = hand.queue(page(from, 2)).await.unwrap();
        seen.extend(part.rows.iter().map(|row| row.client_id.clone()));
        let Some(next) = part.next else { break };
        from = QueueFrom::After(next);
        let turn = hand.begin().await;
        hand.finish(&turn).await;
    }
    let left = hand.names().await;
    assert_eq!(left.len(), all.len() - 3);
    assert!(left.iter().all(|name| seen.contains(name)), "{seen:?}");
    seen.dedup();
    assert_eq!(seen, all);
}

async fn a_page_and_its_lane_are_one_picture(db: Db) {
    let hand = db.one().await;
    hand.add(&["a", "b"]).await;
    let turn = hand.begin().await;
    let part = hand.queue(whole_queue()).await.unwrap();
    assert_eq!(part.lane, hand.lane().await);
    assert_eq!(part.lane.depth as usize, part.rows.len());
    assert_eq!(part.lane.active.unwrap().turn, turn.turn.id);
}
