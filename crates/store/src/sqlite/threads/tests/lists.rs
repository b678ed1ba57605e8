//! Tests of lists of threads: their order, their pages, and what they leave out.
//!
//! Threads are made in pairs at the same time, so that equal keys are met in every list.

use super::super::*;
use crate::sqlite::fixture::{Fixture, THREAD, id, new_thread};

/// Threads 1 to 6, made in pairs at the same time.
fn six() -> Fixture {
    let fixture = Fixture::new();
    for number in 1..=6_u128 {
        let mut new = new_thread(number);
        new.at_ms = i64::try_from(number.div_ceil(2)).unwrap();
        new.source = if number % 2 == 0 { "cli" } else { "web" }.to_owned();
        new.cwd = format!("/{}", number % 3);
        new.name = (number == 3).then(|| "100% Grün_Ärger".to_owned());
        new.parent = (number == 4).then(|| id(1));
        fixture.run(|db| create(db, &new)).unwrap();
    }
    fixture
}

fn list(fixture: &Fixture, query: &ThreadQuery) -> (Vec<u128>, Option<ThreadPlace>) {
    let page = fixture.run(|db| threads(db, query)).unwrap();
    let rows = page.rows.iter().map(|row| row.id.as_uuid().as_u128());
    (rows.collect(), page.next)
}

#[test]
fn pages_of_threads_meet_whatever_the_sort_and_the_direction() {
    let fixture = six();
    for sort in [
        ThreadSort::Created,
        ThreadSort::Updated,
        ThreadSort::Recency,
    ] {
        for (direction, expected) in [
            (Direction::Ascending, [1, 2, 3, 4, 5, 6]),
            (Direction::Descending, [6, 5, 4, 3, 2, 1]),
        ] {
            for limit in 1..=6 {
                let mut query = ThreadQuery {
                    sort,
                    direction,
                    limit,
                    ..ThreadQuery::default()
                };
                let mut seen = Vec::new();
                loop {
                    let (rows, next) = list(&fixture, &query);
                    seen.extend(rows);
                    query.after = next;
                    if next.is_none() {
                        break;
                    }
                }
                assert_eq!(seen, expected, "{sort:?} {direction:?} by {limit}");
            }
        }
    }
}

#[test]
fn a_list_goes_on_behind_a_thread_that_is_gone() {
    let fixture = six();
    let mut query = ThreadQuery {
        limit: 2,
        ..ThreadQuery::default()
    };
    let (rows, next) = list(&fixture, &query);
    assert_eq!(rows, [6, 5]);
    fixture.run(|db| delete(db, id(5))).unwrap();
    query.after = next;
    assert_eq!(list(&fixture, &query).0, [4, 3]);
}

#[test]
fn lists_are_narrowed_by_what_is_asked_for() {
    let fixture = six();
    let all = ThreadQuery {
        direction: Direction::Ascending,
        ..ThreadQuery::default()
    };
    let with = |change: &dyn Fn(&mut ThreadQuery)| {
        let mut query = all.clone();
        change(&mut query);
        list(&fixture, &query).0
    };
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        with(&|query| query.sources = words(&["web", "x\"y"])),
        [1, 3, 5]
    );
    assert_eq!(
        with(&|query| query.cwds = words(&["/1", "/2"])),
        [1, 2, 4, 5]
    );
    assert_eq!(
        with(&|query| query.providers = words(&["other"])),
        [0_u128; 0]
    );
    assert_eq!(with(&|query| query.parent = Some(id(1))), [4]);
    for found in ["gRÜN", "0%", "n_ä", ""] {
        let rows = with(&|query| query.search = Some(found.to_owned()));
        assert!(rows.contains(&3), "{found}");
    }
    for not_found in ["1_0", "1%G", "ärgert"] {
        let rows = with(&|query| query.search = Some(not_found.to_owned()));
        assert_eq!(rows, [0_u128; 0], "{not_found}");
    }
    fixture
        .connection
        .execute("UPDATE thread SET archived = 1 WHERE cwd = '/0'", [])
        .unwrap();
    assert_eq!(with(&|_| ()), [1, 2, 4, 5]);
    assert_eq!(with(&|query| query.archived = true), [3, 6]);
}

#[test]
fn a_thread_is_listed_from_its_first_message_on() {
    let fixture = Fixture::new();
    let mut new = new_thread(THREAD);
    new.listed = Listed::FromFirstTurn;
    fixture.run(|db| create(db, &new)).unwrap();
    assert_eq!(list(&fixture, &ThreadQuery::default()).0, [0_u128; 0]);
    fixture.add(5);
    fixture.begin(20);
    assert_eq!(list(&fixture, &ThreadQuery::default()).0, [THREAD]);
}

#[test]
fn a_search_goes_on_until_a_page_is_full() {
    let fixture = six();
    fixture
        .connection
        .execute("UPDATE thread SET preview = 'x' WHERE source = 'web'", [])
        .unwrap();
    let mut query = ThreadQuery {
        search: Some("X".to_owned()),
        limit: 2,
        ..ThreadQuery::default()
    };
    let (rows, next) = list(&fixture, &query);
    assert_eq!(rows, [5, 3]);
    query.after = next;
    assert_eq!(list(&fixture, &query), (vec![1], None));
}
