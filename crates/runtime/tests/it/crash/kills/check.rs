//! Compares what is in the database, and what the engines were asked, with what was acknowledged.
//!
//! The invariant here: everything is checked, not a sample: every row that was answered for, every
//! turn that is stored, every model call that was logged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use turnlane_store::Store;
use turnlane_store::queue::{Row, RowState};
use turnlane_store::turn::{TurnRow, TurnStatus};

use super::super::log::{Line, overlaps};
use super::super::serving::Place;
use super::Figures;
use super::load::{Load, Wanted};
use crate::support;

/// The model calls: client ids by turn.
type Calls = BTreeMap<String, Vec<String>>;

/// One lane as it is stored.
struct Lane {
    turns: Vec<TurnRow>,
    /// The rows of the turns, by their id.
    rows: HashMap<turnlane_store::RowId, Row>,
}

pub(super) async fn everything(place: &Place, load: &Load, context: &str, figures: &mut Figures) {
    let log = place.log();
    let overlaps = overlaps(&log);
    assert!(
        overlaps.is_empty(),
        "{context}: turns overlap: {overlaps:#?}"
    );
    let mut calls = Calls::new();
    for line in &log {
        if let Line::Begin { turn, client, .. } = line {
            calls.entry(turn.clone()).or_default().push(client.clone());
        }
    }
    let mut stored = BTreeSet::new();
    for (number, thread) in load.threads.iter().enumerate() {
        let context = format!("{context}, lane {number}");
        let lane = read(place, *thread).await;
        stored.extend(lane.turns.iter().map(|turn| turn.id.to_string()));
        check_turns(&lane, &calls, &context);
        check_order(&lane, &load.order[number], &context);
        for client in &load.order[number] {
            let wanted = &load.wanted[client];
            let row = wanted.row.unwrap();
            let row = place.store.row(thread.as_uuid().into(), row).await.unwrap();
            let row = row.unwrap_or_else(|| panic!("{context}: {client} is lost"));
            check_row(&row, wanted, &lane, &calls, &format!("{context}, {client}"));
        }
        for (_, client, turn) in load.started.iter().filter(|(lane, _, _)| *lane == number) {
            let there = lane.turns.iter().any(|known| known.id.to_string() == *turn);
            assert!(there, "{context}: direct turn {client} is lost");
        }
        count(&lane, load, figures);
    }
    for turn in calls.keys() {
        assert!(
            stored.contains(turn),
            "{context}: {turn} ran and is not stored"
        );
    }
    figures.calls += calls.len();
    figures.adds += load.wanted.len();
    figures.repeated += load.repeated;
}

async fn read(place: &Place, thread: turnlane_protocol::ids::ThreadId) -> Lane {
    let turns = support::turns(place.store.as_ref(), thread).await;
    let mut rows = HashMap::new();
    for turn in &turns {
        let id = turn.row.unwrap();
        let row = place.store.row(thread.as_uuid().into(), id).await.unwrap();
        rows.insert(id, row.unwrap());
    }
    Lane { turns, rows }
}

/// Every turn has ended, was run at most once, and is of a row that somebody asked for.
fn check_turns(lane: &Lane, calls: &Calls, context: &str) {
    for turn in &lane.turns {
        let context = format!("{context}, turn {}", turn.id);
        assert_ne!(
            turn.status,
            TurnStatus::InProgress,
            "{context}: never ended"
        );
        let called = calls.get(&turn.id.to_string()).map_or(0, Vec::len);
        assert!(called <= 1, "{context}: ran {called} times");
        if turn.status != TurnStatus::Interrupted {
            assert_eq!(called, 1, "{context}: ended without a model call");
        }
    }
}

/// Rows that were taken once were taken in the order they were added in.
fn check_order(lane: &Lane, added: &[String], context: &str) {
    let place: HashMap<&str, usize> = added
        .iter()
        .enumerate()
        .map(|(place, client)| (client.as_str(), place))
        .collect();
    let once = lane.turns.iter().map(|turn| &lane.rows[&turn.row.unwrap()]);
    let once = once.filter(|row| row.source == "queue" && row.attempts == 1);
    let places: Vec<usize> = once
        .map(|row| match place.get(row.client_id.as_str()) {
            Some(place) => *place,
            None => panic!("{context}: nobody asked for {}", row.client_id),
        })
        .collect();
    assert!(places.is_sorted(), "{context}: out of order: {places:?}");
    let distinct: BTreeSet<_> = places.iter().collect();
    assert_eq!(distinct.len(), places.len(), "{context}: one add, two rows");
}

/// One acknowledged row: how it ended, and how often it was allowed to run.
fn check_row(row: &Row, wanted: &Wanted, lane: &Lane, calls: &Calls, context: &str) {
    let turns: Vec<&TurnRow> = lane
        .turns
        .iter()
        .filter(|turn| turn.row == Some(row.id))
        .collect();
    match row.state {
        RowState::Done => {
            let last = turns.last().map(|turn| turn.id);
            assert_eq!(last, Some(row.turn), "{context}: done without its turn");
        }
        RowState::Cancelled => assert!(wanted.deleted, "{context}: deleted by nobody"),
        other => panic!("{context}: ends as {other:?}"),
    }
    let called: usize = turns
        .iter()
        .map(|turn| calls.get(&turn.id.to_string()).map_or(0, Vec::len))
        .sum();
    let died = |turn: &&&TurnRow| {
        let error = turn.error.as_ref();
        turn.status == TurnStatus::Interrupted
            && error.is_some_and(|error| error.as_str().contains("server stopped"))
    };
    let by_policy = match wanted.policy {
        "retry" => turns.iter().filter(died).count(),
        _ => 0,
    };
    let put_back = turns.iter().filter(|turn| turn.muted).count();
    let allowed = 1 + wanted.retries + by_policy + put_back;
    assert!(
        called <= allowed,
        "{context}: ran {called} times, allowed {allowed}: {turns:#?}"
    );
    // A turn that came to its end is the last one of its row, whatever was asked since.
    if let Some((last, before)) = turns.split_last() {
        let again = before.iter().find(|turn| !died(turn) && !turn.muted);
        assert!(
            again.is_none(),
            "{context}: ran again after {again:?}: {last:?}"
        );
    }
}

fn count(lane: &Lane, load: &Load, figures: &mut Figures) {
    figures.turns += lane.turns.len();
    let died = lane.turns.iter().filter(|turn| {
        let error = turn.error.as_ref();
        error.is_some_and(|error| error.as_str().contains("server stopped"))
    });
    figures.interrupted_by_death += died.count();
    let again = lane.rows.values().filter(|row| row.attempts > 1);
    figures.retried += again.count();
    let deleted = lane.rows.values().filter(|row| {
        let wanted = load.wanted.get(&row.client_id);
        wanted.is_some_and(|wanted| wanted.deleted)
    });
    figures.deleted += deleted.count();
}
