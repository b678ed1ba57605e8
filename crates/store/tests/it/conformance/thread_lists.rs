//! Lists of threads: sorted, filtered, in pages.

use turnlane_store::queue::{Accepting, Verdict};
use turnlane_store::thread::{
    Direction, Listed, NewThread, ThreadChange, ThreadPlace, ThreadQuery, ThreadSort,
};
use turnlane_store::turn::{Accept, Started};

use crate::backend::on_one_worker;
use crate::build::*;

on_one_worker![
    the_newest_thread_comes_first,
    threads_of_the_same_time_are_sorted_by_id,
    every_sort_key_sorts_both_ways,
    pages_go_on_where_the_last_one_ended,
    a_page_that_holds_all_names_no_next_one,
    threads_that_leave_between_pages_hide_nothing,
    threads_are_filtered_by_what_they_are,
    archived_threads_are_a_list_of_their_own,
    a_search_finds_names_and_previews_whatever_the_case,
    a_search_takes_its_text_as_it_is,
    unlisted_threads_are_left_out,
    a_thread_is_listed_from_its_first_message_on,
    a_thread_that_something_waits_for_is_listed,
    a_page_may_begin_with_the_thread_at_a_place,
    threads_and_sources_can_be_left_out,
    lanes_of_many_threads_are_one_picture,
];

async fn listed(hand: &Hand, query: ThreadQuery) -> Vec<String> {
    let page = hand.threads(query).await.unwrap();
    let name = |id: uuid::Uuid| {
        let bytes = id.into_bytes();
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(16);
        String::from_utf8_lossy(&bytes[1..end]).into_owned()
    };
    page.rows.iter().map(|row| name(row.id.as_uuid())).collect()
}

/// Makes threads of these names at these times.
async fn make(hand: &Hand, threads: &[(&str, i64)]) {
    for (name, at_ms) in threads {
        let thread = NewThread {
            at_ms: *at_ms,
            ..new_thread(name)
        };
        hand.create_thread(thread).await.unwrap();
    }
}

async fn the_newest_thread_comes_first(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("b", 2), ("c", 3), ("a", 1)]).await;
    assert_eq!(listed(&hand, ThreadQuery::default()).await, ["c", "b", "a"]);
}

async fn threads_of_the_same_time_are_sorted_by_id(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("b", 1), ("c", 1), ("a", 1)]).await;
    assert_eq!(listed(&hand, ThreadQuery::default()).await, ["c", "b", "a"]);
    let up = ThreadQuery {
        direction: Direction::Ascending,
        ..ThreadQuery::default()
    };
    assert_eq!(listed(&hand, up).await, ["a", "b", "c"]);
}

async fn every_sort_key_sorts_both_ways(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1), ("b", 2), ("c", 3)]).await;
    // Something is said on a and ends; then b is only renamed.
    let mut start = start("x");
    (start.thread, start.at_ms) = (thread_id("a"), 10);
    hand.start_turn(start).await.unwrap();
    let rename = ThreadChange {
        name: Some(Some("b".to_owned())),
        ..ThreadChange::of(thread_id("b"), 20)
    };
    hand.change_thread(rename).await.unwrap();
    let sorted = [
        (ThreadSort::Created, ["a", "b", "c"]),
        (ThreadSort::Updated, ["c", "a", "b"]),
        (ThreadSort::Recency, ["b", "c", "a"]),
    ];
    for (sort, mut expected) in sorted {
        for direction in [Direction::Ascending, Direction::Descending] {
            let query = ThreadQuery {
                sort,
                direction,
                ..ThreadQuery::default()
            };
            assert_eq!(
                listed(&hand, query).await,
                expected,
                "{sort:?} {direction:?}"
            );
            expected.reverse();
        }
    }
}

async fn pages_go_on_where_the_last_one_ended(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 3)]).await;
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut query = ThreadQuery {
            direction,
            limit: 2,
            ..ThreadQuery::default()
        };
        let mut seen = Vec::new();
        loop {
            let page = hand.threads(query.clone()).await.unwrap();
            seen.extend(listed(&hand, query.clone()).await);
            let Some(next) = page.next else { break };
            let last = page.rows.last().unwrap();
            let place = ThreadPlace {
                key_ms: last.created_ms,
                thread: last.id,
            };
            assert_eq!(next, place);
            query.after = Some(next);
        }
        if direction == Direction::Descending {
            seen.reverse();
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    }
}

async fn a_page_that_holds_all_names_no_next_one(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1), ("b", 2)]).await;
    for limit in [2, 3] {
        let query = ThreadQuery {
            limit,
            ..ThreadQuery::default()
        };
        assert_eq!(hand.threads(query).await.unwrap().next, None);
    }
}

async fn threads_that_leave_between_pages_hide_nothing(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)]).await;
    let mut query = ThreadQuery {
        limit: 2,
        ..ThreadQuery::default()
    };
    let page = hand.threads(query.clone()).await.unwrap();
    hand.delete_thread(thread_id("d")).await.unwrap();
    hand.delete_thread(thread_id("c")).await.unwrap();
    query.after = page.next;
    assert_eq!(listed(&hand, query).await, ["b", "a"]);
}

async fn threads_are_filtered_by_what_they_are(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1)]).await;
    let other = NewThread {
        source: "app".to_owned(),
        provider: "remote".to_owned(),
        cwd: "/else".to_owned(),
        parent: Some(thread_id("a")),
        at_ms: 2,
        ..new_thread("b")
    };
    hand.create_thread(other).await.unwrap();
    let all = ThreadQuery::default;
    let texts = |text: &str| vec![text.to_owned()];
    let queries = [
        (
            ThreadQuery {
                sources: texts("app"),
                ..all()
            },
            vec!["b"],
        ),
        (
            ThreadQuery {
                sources: vec!["app".to_owned(), "cli".to_owned()],
                ..all()
            },
            vec!["b", "a"],
        ),
        (
            ThreadQuery {
                providers: texts("local"),
                ..all()
            },
            vec!["a"],
        ),
        (
            ThreadQuery {
                cwds: texts("/else"),
                ..all()
            },
            vec!["b"],
        ),
        (
            ThreadQuery {
                parent: Some(thread_id("a")),
                ..all()
            },
            vec!["b"],
        ),
        (
            ThreadQuery {
                sources: texts("app"),
                cwds: texts("/project"),
                ..all()
            },
            vec![],
        ),
    ];
    for (query, expected) in queries {
        assert_eq!(listed(&hand, query).await, expected);
    }
}

async fn archived_threads_are_a_list_of_their_own(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1), ("b", 2)]).await;
    let archive = ThreadChange {
        archived: Some(true),
        ..ThreadChange::of(thread_id("a"), 3)
    };
    hand.change_thread(archive).await.unwrap();
    assert_eq!(listed(&hand, ThreadQuery::default()).await, ["b"]);
    let archived = ThreadQuery {
        archived: true,
        ..ThreadQuery::default()
    };
    assert_eq!(listed(&hand, archived).await, ["a"]);
}

fn search(text: &str) -> ThreadQuery {
    ThreadQuery {
        search: Some(text.to_owned()),
        ..ThreadQuery::default()
    }
}

async fn a_search_finds_names_and_previews_whatever_the_case(db: Db) {
    let hand = db.one().await;
    hand.run("Hello").await;
    let named = NewThread {
        name: Some("Say hELLo again".to_owned()),
        at_ms: NOW + 1,
        ..new_thread("u")
    };
    hand.create_thread(named).await.unwrap();
    make(&hand, &[("v", NOW + 2)]).await;
    assert_eq!(listed(&hand, search("hello")).await, ["u", "t"]);
    assert_eq!(listed(&hand, search("AGAIN")).await, ["u"]);
    assert!(listed(&hand, search("bye")).await.is_empty());
}

async fn a_search_takes_its_text_as_it_is(db: Db) {
    let hand = db.open("one").await;
    for (id, name) in [
        ("a", "100%"),
        ("b", "100 per cent"),
        ("c", "a_b\\c"),
        ("d", "axb"),
    ] {
        let named = NewThread {
            name: Some(name.to_owned()),
            ..new_thread(id)
        };
        hand.create_thread(named).await.unwrap();
    }
    assert_eq!(listed(&hand, search("0%")).await, ["a"]);
    assert_eq!(listed(&hand, search("a_b")).await, ["c"]);
    assert_eq!(listed(&hand, search("b\\c")).await, ["c"]);
    assert_eq!(listed(&hand, search("' or 1")).await, Vec::<String>::new());
}

async fn unlisted_threads_are_left_out(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1)]).await;
    let unlisted = NewThread {
        listed: Listed::FromFirstTurn,
        ..new_thread("b")
    };
    hand.create_thread(unlisted).await.unwrap();
    assert_eq!(listed(&hand, ThreadQuery::default()).await, ["a"]);
    assert!(hand.thread(thread_id("b")).await.unwrap().is_some());
}

async fn a_thread_is_listed_from_its_first_message_on(db: Db) {
    let hand = db.open("one").await;
    let unlisted = NewThread {
        listed: Listed::FromFirstTurn,
        ..new_thread("t")
    };
    hand.create_thread(unlisted).await.unwrap();
    let mut silent = start("silent");
    silent.accepting = Accepting::new(|_| {
        Verdict::Accept(Box::new(Accept {
            item: None,
            preview: None,
            ..said("")
        }))
    });
    let Started::Begun(turn) = hand.start_turn(silent).await.unwrap() else {
        panic!("nothing stands in its way");
    };
    hand.finish(&turn).await;
    assert!(
        hand.threads(ThreadQuery::default())
            .await
            .unwrap()
            .rows
            .is_empty()
    );
    hand.direct("a").await;
    assert_eq!(
        hand.threads(ThreadQuery::default())
            .await
            .unwrap()
            .rows
            .len(),
        1
    );
}

async fn a_thread_that_something_waits_for_is_listed(db: Db) {
    let hand = db.open("one").await;
    let unlisted = NewThread {
        listed: Listed::FromFirstTurn,
        ..new_thread("t")
    };
    hand.create_thread(unlisted).await.unwrap();
    assert!(listed(&hand, ThreadQuery::default()).await.is_empty());
    hand.add(&["a"]).await;
    assert_eq!(listed(&hand, ThreadQuery::default()).await, ["t"]);
}

async fn a_page_may_begin_with_the_thread_at_a_place(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1), ("b", 2), ("c", 2), ("d", 3)]).await;
    let place = ThreadPlace {
        key_ms: 2,
        thread: thread_id("c"),
    };
    for (direction, expected) in [
        (Direction::Ascending, ["c", "d"].as_slice()),
        (Direction::Descending, &["c", "b", "a"]),
    ] {
        let query = ThreadQuery {
            direction,
            at: Some(place),
            ..ThreadQuery::default()
        };
        assert_eq!(listed(&hand, query).await, expected, "{direction:?}");
    }
    // A thread that left takes nothing with it.
    hand.delete_thread(thread_id("c")).await.unwrap();
    let query = ThreadQuery {
        at: Some(place),
        ..ThreadQuery::default()
    };
    assert_eq!(listed(&hand, query).await, ["b", "a"]);
}

async fn threads_and_sources_can_be_left_out(db: Db) {
    let hand = db.open("one").await;
    make(&hand, &[("a", 1), ("b", 2), ("c", 3)]).await;
    let item = NewThread {
        source: "subAgentOther".to_owned(),
        at_ms: 4,
        ..new_thread("item")
    };
    hand.create_thread(item).await.unwrap();
    let query = ThreadQuery {
        not_sources: vec!["subAgentOther".to_owned()],
        excluded: vec![thread_id("b"), thread_id("never")],
        ..ThreadQuery::default()
    };
    assert_eq!(listed(&hand, query).await, ["c", "a"]);
}

async fn lanes_of_many_threads_are_one_picture(db: Db) {
    let hand = db.one().await;
    hand.create_thread(new_thread("u")).await.unwrap();
    hand.add(&["a", "b"]).await;
    let threads = vec![thread_id("u"), thread_id("never"), thread()];
    let lanes = hand.lanes(threads).await.unwrap();
    let told: Vec<_> = lanes.iter().map(|lane| (lane.thread, lane.depth)).collect();
    assert_eq!(told, [(thread_id("u"), 0), (thread(), 2)]);
    assert_eq!(lanes[1], hand.lane().await);
}
