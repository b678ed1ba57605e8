//! A worker that dies while a thread takes over from another: every row is in exactly one lane.

use turnlane_protocol::ids::ThreadId;
use turnlane_store::queue::RowState;
use turnlane_store::thread::ThreadQuery;
use turnlane_store::{RowId, Store, ThreadId as StoredThread};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::serving::Place;
use crate::support;

const SCRIPT: &str = "{version: 1}";
const KEY: &str = "key";
const ROWS: usize = 5;

/// Where the worker dies, and whether the successor is there afterwards.
const POINTS: &[(&str, bool)] = &[
    ("supersede:thread-made", false),
    ("supersede:row-moved:1", false),
    ("supersede:row-moved:3", false),
    ("supersede:row-moved:5", false),
    ("supersede:rows-moved", false),
    ("supersede-a-thread:before-commit", false),
    ("supersede-a-thread:after-commit", true),
];

async fn bound(place: &Place) -> StoredThread {
    let query = ThreadQuery {
        limit: 100,
        ..ThreadQuery::default()
    };
    let threads = place.store.threads(query).await.unwrap().rows;
    let bound: Vec<_> = threads
        .iter()
        .filter(|row| row.binding.as_deref() == Some(KEY))
        .collect();
    assert_eq!(bound.len(), 1, "{threads:?}");
    bound[0].id
}

async fn waiting(place: &Place, thread: StoredThread) -> Vec<RowId> {
    let query = support::queue_query(ThreadId::from_uuid(thread.as_uuid()));
    let page = place.store.queue(query).await.unwrap();
    assert_eq!(page.lane.depth as usize, page.rows.len());
    page.rows.iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn a_worker_that_dies_anywhere_in_a_takeover_leaves_each_row_in_one_lane() {
    for (point, taken) in POINTS {
        let place = Place::new();
        let mut first = place.start(place.child(SCRIPT).env("TURNLANE_CRASH_AT", point));
        assert!(first.ready().await, "{point}");
        let old: ThreadId = first.done(&format!("bind {KEY}")).await.parse().unwrap();
        first.done(&format!("pause {old}")).await;
        let mut rows: Vec<RowId> = Vec::new();
        for number in 0..ROWS {
            let answer = first
                .done(&format!("add {old} c{number} block hello"))
                .await;
            let row: uuid::Uuid = answer.strip_prefix("new ").unwrap().parse().unwrap();
            rows.push(row.into());
        }
        let answer = first.ask(&format!("supersede {old} {KEY}")).await;
        assert_eq!(answer, None, "{point}");
        first.dies().await;

        let old: StoredThread = old.as_uuid().into();
        let holder = bound(&place).await;
        assert_eq!(holder != old, *taken, "{point}");
        assert_eq!(waiting(&place, holder).await, rows, "{point}");
        if holder != old {
            assert!(waiting(&place, old).await.is_empty(), "{point}");
        }

        // The next worker makes the step again where it is missing, and all rows run once, in order.
        let mut next = place.start(place.child(SCRIPT));
        assert!(next.ready().await, "{point}");
        let new = if *taken {
            ThreadId::from_uuid(holder.as_uuid())
        } else {
            let old = ThreadId::from_uuid(old.as_uuid());
            let made = next.done(&format!("supersede {old} {KEY}")).await;
            made.parse().unwrap()
        };
        next.done(&format!("resume {new}")).await;
        eventually("all rows to run", DEADLINE, async || {
            let turns = support::turns(place.store.as_ref(), new).await;
            turns.len() == ROWS && turns.iter().all(|turn| turn.completed_ms.is_some())
        })
        .await
        .unwrap();
        next.stop().await;
        let turns = support::turns(place.store.as_ref(), new).await;
        let ran: Vec<RowId> = turns.iter().map(|turn| turn.row.unwrap()).collect();
        assert_eq!(ran, rows, "{point}");
        for row in rows {
            let stored = place.store.row(new.as_uuid().into(), row).await.unwrap();
            assert_eq!(stored.unwrap().state, RowState::Done, "{point}");
            assert_eq!(place.store.row(old, row).await.unwrap(), None, "{point}");
        }
    }
}
