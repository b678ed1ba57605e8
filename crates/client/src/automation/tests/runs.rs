//! The loop: what follows which end of a run, and which due times runs get.
//!
//! The invariant under test: the order of the checks after a run, the grid, and the words.

use super::double::{Stage, Step, StepEnd, at, pass};
use super::*;
use crate::automation::AutomationState as State;

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn runs_are_counted_up_to_their_bound() {
    let stage = Stage::new(Step::takes(100 * MS));
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(3),
        ..spec(SECOND)
    });
    let end = handle.wait().await;
    let expected = AutomationStatus {
        thread_id: ThreadId::from("thread"),
        runs_completed: 3,
        next_due_at: None,
        last_started_at: Some(at(2)),
        last_finished_at: Some(at(2) + 100 * MS),
        state: AutomationState::Stopped,
        last_error: None,
    };
    assert_eq!(end, expected);
    assert_eq!(stage.starts(), [at(0), at(1), at(2)]);
}

#[tokio::test(start_paused = true)]
async fn the_states_between_are_waiting_and_running() {
    let stage = Stage::new(Step::takes(100 * MS));
    let handle = stage.spawn(AutomationSpec {
        start_at: Some(at(5)),
        max_runs: Some(2),
        ..spec(SECOND)
    });
    let mut seen = Vec::new();
    let mut watch = handle.watch();
    loop {
        let status = watch.borrow_and_update().clone();
        seen.push((status.state, status.next_due_at, status.runs_completed));
        if watch.changed().await.is_err() {
            break;
        }
    }
    let expected = [
        (State::Waiting, Some(at(5)), 0),
        (State::Running, None, 0),
        (State::Waiting, Some(at(6)), 1),
        (State::Running, None, 1),
        (State::Stopped, None, 2),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn a_run_longer_than_the_interval_leaves_points_out_and_stays_on_the_grid() {
    let long = [35 * MS, 40 * MS, 3 * MS, 9 * MS, 10 * MS];
    let stage = Stage::with(long.map(Step::takes));
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(6),
        ..spec(10 * MS)
    });
    handle.wait().await;
    let starts = [0, 40, 90, 100, 110, 130].map(|ms| at(0) + ms * MS);
    assert_eq!(stage.starts(), starts);
}

#[tokio::test(start_paused = true)]
async fn any_error_of_a_run_fails_the_automation_without_a_retry() {
    let words = [
        "the turn failed: no money",
        "the turn was interrupted",
        "blocked by hook 'gate' at pre_turn: not today",
        "the turn did not end within 120s",
    ];
    for why in words {
        let failing = Step {
            takes: 20 * MS,
            end: StepEnd::Fails(why),
        };
        let stage = Stage::with([Step::completes(), failing]);
        let handle = stage.spawn(spec(SECOND));
        let end = handle.wait().await;
        assert_eq!(end.state, AutomationState::Failed);
        assert_eq!(end.last_error.as_deref(), Some(why));
        assert_eq!((end.runs_completed, end.next_due_at), (1, None));
        assert_eq!(end.last_finished_at, Some(at(1) + 20 * MS));
        pass(100 * SECOND).await;
        assert_eq!(stage.starts().len(), 2);
        let outcomes: Vec<_> = handle.runs().into_iter().map(|run| run.outcome).collect();
        let error = why.to_owned();
        assert_eq!(
            outcomes,
            [RunOutcome::Completed, RunOutcome::Failed { error }]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_due_time_beyond_every_clock_fails_after_the_run_counted() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(spec(Duration::MAX));
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Failed);
    let text = "automation schedule overflowed next due timestamp";
    assert_eq!(end.last_error.as_deref(), Some(text));
    assert_eq!(end.runs_completed, 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_run_wanted_stops_before_the_overflow_is_looked_at() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(1),
        ..spec(Duration::MAX)
    });
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!(end.last_error, None);
}

#[tokio::test(start_paused = true)]
async fn the_overflow_is_looked_at_before_the_wish_to_stop() {
    let stage = Stage::new(Step::takes(SECOND));
    let handle = stage.spawn(spec(Duration::MAX));
    pass(MS).await;
    handle.stop().await;
    assert_eq!(handle.wait().await.state, AutomationState::Failed);
}

#[tokio::test(start_paused = true)]
async fn the_stop_is_exclusive_for_starting_and_a_run_may_pass_it() {
    let stage = Stage::with([Step::completes(), Step::takes(10 * SECOND)]);
    let handle = stage.spawn(AutomationSpec {
        stop_at: Some(at(2)),
        ..spec(SECOND)
    });
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!(stage.starts(), [at(0), at(1)], "none at the stop itself");
    assert_eq!(end.runs_completed, 2, "the run that passed the stop counts");
    assert_eq!(end.last_finished_at, Some(at(11)));
}

#[tokio::test(start_paused = true)]
async fn runs_are_recorded_with_their_turns_and_the_oldest_go() {
    let stage = Stage::new(Step::takes(100 * MS));
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(130),
        ..spec(SECOND)
    });
    pass(50 * MS).await;
    let run = AutomationRun {
        number: 1,
        due_at: at(0),
        started_at: at(0),
        finished_at: None,
        turn_id: Some(TurnId::from("turn-1")),
        outcome: RunOutcome::Running,
    };
    assert_eq!(handle.runs(), [run], "the run in flight is listed");
    handle.wait().await;
    let runs = handle.runs();
    assert_eq!(runs.len(), 100);
    for (number, run) in (31_u64..=130).zip(&runs) {
        let due_at = at(i64::try_from(number).unwrap() - 1);
        let expected = AutomationRun {
            number,
            due_at,
            started_at: due_at,
            finished_at: Some(due_at + 100 * MS),
            turn_id: Some(TurnId::from(format!("turn-{number}"))),
            outcome: RunOutcome::Completed,
        };
        assert_eq!(*run, expected);
    }
}
