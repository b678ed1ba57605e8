//! Tests of the order of the rows that wait.
//!
//! Positions differ at every moment: the database refuses the step that breaks that. A model of a few
//! lines says what the order must be.

use super::*;
use crate::lane::Head;
use crate::sqlite::fixture::{Fixture, THREAD, id};

fn with_rows(rows: u128) -> Fixture {
    let fixture = Fixture::with_thread();
    for row in 1..=rows {
        fixture.add(row);
    }
    fixture
}

fn move_to(fixture: &Fixture, row: u128, to: MoveTo) -> Result<Changed<Row>, StoreError> {
    let to = Move {
        thread: id(THREAD),
        row: id(row),
        to,
        at_ms: 50,
    };
    fixture.run(|db| move_row(db, &to))
}

fn reorder_to(fixture: &Fixture, order: &[u128]) -> Result<LaneView, StoreError> {
    let order: Vec<RowId> = order.iter().map(|row| id(*row)).collect();
    fixture.run(|db| reorder(db, id(THREAD), &order, 50))
}

#[test]
fn reordering_takes_every_visible_row_exactly_once() {
    let fixture = with_rows(3);
    for wrong in [&[1, 2][..], &[1, 2, 2], &[1, 2, 3, 4], &[1, 2, 9], &[]] {
        let refused = reorder_to(&fixture, wrong);
        assert!(
            matches!(refused, Err(StoreError::NotAPermutation)),
            "{wrong:?}"
        );
    }
    let before = fixture.look().revision;
    let lane = reorder_to(&fixture, &[3, 1, 2]).unwrap();
    assert_eq!(fixture.order(), [3, 1, 2]);
    assert_eq!(lane.revision, before + 1);
    assert_eq!(
        lane.head,
        Head::Due {
            row: id(3),
            at_ms: 0
        }
    );
    assert_eq!(reorder_to(&fixture, &[3, 1, 2]).unwrap(), lane);
    fixture.add(4);
    assert_eq!(fixture.order(), [3, 1, 2, 4]);
}

#[test]
fn a_row_under_way_is_not_part_of_the_order() {
    let fixture = with_rows(3);
    fixture.begin(20);
    let refused = reorder_to(&fixture, &[3, 2, 1]);
    assert!(matches!(refused, Err(StoreError::NotAPermutation)));
    reorder_to(&fixture, &[3, 2]).unwrap();
    assert_eq!(fixture.order(), [3, 2]);
    let refused = move_to(&fixture, 1, MoveTo::Index(0));
    assert!(matches!(refused, Err(StoreError::RowNotFound(row)) if row == id(1)));
    let refused = move_to(&fixture, 2, MoveTo::Before(id(1)));
    assert!(matches!(refused, Err(StoreError::RowNotFound(row)) if row == id(1)));
}

#[test]
fn one_row_moves_before_behind_or_to_an_index() {
    let fixture = with_rows(4);
    let steps = [
        (4, MoveTo::Before(id(2)), [1, 4, 2, 3]),
        (1, MoveTo::After(id(3)), [4, 2, 3, 1]),
        (3, MoveTo::Index(0), [3, 4, 2, 1]),
        (3, MoveTo::Index(2), [4, 2, 3, 1]),
        (4, MoveTo::Index(9), [2, 3, 1, 4]),
        (2, MoveTo::After(id(4)), [3, 1, 4, 2]),
        (2, MoveTo::Before(id(3)), [2, 3, 1, 4]),
    ];
    for (row, to, order) in steps {
        let before = fixture.look().revision;
        let changed = move_to(&fixture, row, to).unwrap();
        assert_eq!(fixture.order(), order, "{row} to {to:?}");
        assert_eq!(changed.value.id, id(row));
        assert_eq!(changed.lane.revision, before + 1);
    }
}

#[test]
fn a_move_to_where_the_row_is_changes_nothing() {
    let fixture = with_rows(3);
    let before = fixture.look();
    for to in [
        MoveTo::Before(id(2)),
        MoveTo::After(id(2)),
        MoveTo::Before(id(3)),
        MoveTo::After(id(1)),
        MoveTo::Index(1),
    ] {
        assert_eq!(move_to(&fixture, 2, to).unwrap().lane, before, "{to:?}");
    }
    move_to(&fixture, 3, MoveTo::Index(7)).unwrap();
    move_to(&fixture, 1, MoveTo::Index(0)).unwrap();
    assert_eq!(fixture.look(), before);
}

#[test]
fn moves_into_the_same_gap_never_run_out_of_room() {
    let fixture = with_rows(40);
    let mut model: Vec<u128> = (1..=40).collect();
    for round in 0..400 {
        let last = model.remove(model.len() - 1);
        model.insert(1, last);
        move_to(&fixture, last, MoveTo::After(id(model[0]))).unwrap();
        assert_eq!(fixture.order(), model, "round {round}");
    }
}

#[test]
fn any_mix_of_moves_is_what_a_list_would_do() {
    let fixture = with_rows(12);
    let mut model: Vec<u128> = (1..=12).collect();
    // A fixed walk over all pairs, in an order that mixes near and far.
    for step in 0..600_usize {
        let from = step * 7 % 12;
        let to = step * 5 / 3 % 12;
        let row = model.remove(from);
        let anchor = model[to % model.len()];
        let index = model.iter().position(|other| *other == anchor).unwrap();
        let (place, to) = match step % 3 {
            0 => (index, MoveTo::Before(id(anchor))),
            1 => (index + 1, MoveTo::After(id(anchor))),
            _ => (index, MoveTo::Index(u32::try_from(index).unwrap())),
        };
        model.insert(place, row);
        move_to(&fixture, row, to).unwrap();
        assert_eq!(fixture.order(), model, "step {step}");
    }
}

#[test]
fn an_archived_thread_keeps_its_order() {
    let fixture = with_rows(2);
    fixture
        .connection
        .execute("UPDATE thread SET archived = 1", [])
        .unwrap();
    let refused = reorder_to(&fixture, &[2, 1]);
    assert!(matches!(refused, Err(StoreError::Archived(_))));
    let refused = move_to(&fixture, 2, MoveTo::Index(0));
    assert!(matches!(refused, Err(StoreError::Archived(_))));
}
