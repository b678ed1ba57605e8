//! The crash proof of `bench/crash` with our servers, small enough for every change.
//!
//! 50 kills, 1,000 with `TURNLANE_TEST_FULL`; `TURNLANE_TEST_SEED` gives other moments. That the proof
//! would notice is shown on the same servers, with somebody at their database while they are dead.

use std::path::Path;

use rusqlite::Connection;
use turnlane_bench_crash::{Contender, Kind, Options, Report, Sabotage, run};

/// How many kills show a saboteur at work: among them is a command that runs with rows behind it, once
/// in a queued turn and once in a direct one.
const FEW: usize = 7;

/// How often each kind of server is killed.
fn kills() -> usize {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => 500,
        None => 25,
    }
}

fn seed() -> u64 {
    let given = std::env::var("TURNLANE_TEST_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(7)
}

async fn report(kind: Kind, kills: usize, sabotage: Option<Sabotage>) -> Report {
    let program = env!("CARGO_BIN_EXE_turnlane").into();
    let options = Options {
        contender: Contender { kind, program },
        kills,
        seed: seed(),
        sabotage,
    };
    run(options).await.unwrap()
}

#[expect(clippy::print_stderr, reason = "a failed run is repeated by its seed")]
async fn nothing_is_wrong(kind: Kind) {
    let report = report(kind, kills(), None).await;
    eprintln!("{report}");
    assert!(report.faults.is_empty(), "{report}");
    // Else the kills came when nothing was under way, and nothing was proved.
    assert!(report.rows > report.kills, "{report}");
    assert!(report.held > 0, "no kill hit a queued turn: {report}");
    assert!(report.commands > 0, "no kill hit a command: {report}");
}

#[tokio::test]
async fn an_app_server_that_is_killed_loses_doubles_and_blocks_nothing() {
    nothing_is_wrong(Kind::Stdio).await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_loses_doubles_and_blocks_nothing() {
    nothing_is_wrong(Kind::Serve).await;
}

/// Does this to the database of a dead server.
fn sabotage(statements: &'static str) -> Sabotage {
    Box::new(move |home: &Path| {
        #[expect(clippy::disallowed_methods, reason = "the saboteur is no part of us")]
        let database = Connection::open(home.join("turnlane.db"))?;
        Ok(database.execute_batch(statements)?)
    })
}

#[tokio::test]
async fn rows_that_are_lost_between_two_lives_are_noticed() {
    let lose =
        "UPDATE queued_turn SET state='cancelled', pos=NULL, ended_ms=1 WHERE state='queued';
        UPDATE lane SET depth=(SELECT count(*) FROM queued_turn
          WHERE queued_turn.thread_id=lane.thread_id AND state='blocked');";
    let report = report(Kind::Stdio, FEW, Some(sabotage(lose))).await;
    assert!(!report.faults.lost.is_empty(), "{report}");
    assert!(report.faults.doubled.is_empty(), "{report}");
}

#[tokio::test]
async fn turns_that_are_run_again_unasked_are_noticed() {
    let again = "UPDATE queued_turn SET on_crash='retry' WHERE state='started'";
    let report = report(Kind::Serve, FEW, Some(sabotage(again))).await;
    assert!(!report.faults.doubled.is_empty(), "{report}");
    assert!(report.faults.lost.is_empty(), "{report}");
}

#[tokio::test]
async fn rows_that_change_places_are_noticed() {
    let turn_round = "UPDATE OR IGNORE queued_turn SET pos=-pos WHERE state='queued'";
    let report = report(Kind::Stdio, FEW, Some(sabotage(turn_round))).await;
    assert!(!report.faults.disordered.is_empty(), "{report}");
    assert!(report.faults.lost.is_empty(), "{report}");
}

#[tokio::test]
async fn answered_turns_that_a_history_forgets_are_noticed() {
    let forget = "DELETE FROM item WHERE (thread_id, turn_ord) IN
        (SELECT thread_id, ord FROM turn WHERE source='direct' AND status='inProgress')";
    let report = report(Kind::Serve, FEW, Some(sabotage(forget))).await;
    assert!(!report.faults.absent.is_empty(), "{report}");
    assert!(report.faults.lost.is_empty(), "{report}");
}
