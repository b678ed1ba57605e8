//! The rules of automation, row by row, on clocks and threads that tests move.
//!
//! The state at spawn is tested here, the loop in `tests/runs.rs`, its edges in `tests/edges.rs` and
//! `tests/clocks.rs`, a year of a thousand of them in `tests/year.rs`.

mod clocks;
mod double;
mod edges;
mod runs;
mod spans;
mod year;

use std::time::Duration;

use double::{Stage, Step, at};

use super::*;

fn spec(every: Duration) -> AutomationSpec {
    AutomationSpec::new("look", every)
}

const SECOND: Duration = Duration::from_secs(1);

/// A handle that is terminal and never ran, with this error.
async fn assert_ended_at_once(
    handle: &AutomationHandle,
    state: AutomationState,
    error: Option<&str>,
) {
    let status = handle.status().await;
    let nothing_ran = AutomationStatus {
        thread_id: ThreadId::from("thread"),
        runs_completed: 0,
        next_due_at: None,
        last_started_at: None,
        last_finished_at: None,
        state,
        last_error: error.map(str::to_owned),
    };
    assert_eq!(status, nothing_ran);
    assert_eq!(handle.wait().await, nothing_ran);
    assert_eq!(handle.runs(), []);
}

#[tokio::test(start_paused = true)]
async fn an_interval_of_zero_fails_whatever_else_is_wrong() {
    let stage = Stage::new(Step::completes());
    stage.close("session is closed");
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(0),
        ..spec(Duration::ZERO)
    });
    let text = "automation interval must be greater than zero";
    assert_ended_at_once(&handle, AutomationState::Failed, Some(text)).await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_thread_fails_before_the_bounds_are_looked_at() {
    let stage = Stage::new(Step::completes());
    stage.close("session is closed");
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(0),
        ..spec(SECOND)
    });
    assert_ended_at_once(&handle, AutomationState::Failed, Some("session is closed")).await;
}

#[tokio::test(start_paused = true)]
async fn no_runs_wanted_is_stopped_at_once() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(0),
        ..spec(SECOND)
    });
    assert_ended_at_once(&handle, AutomationState::Stopped, None).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_at_or_after_the_stop() {
    let bounds = [
        (None, at(0), "now is the stop"),
        (None, at(-5), "the stop has passed"),
        (Some(at(10)), at(10), "start and stop are one"),
        (Some(at(11)), at(10), "the start is after the stop"),
        (Some(at(-20)), at(-10), "both have passed"),
    ];
    for (start_at, stop_at, case) in bounds {
        let stage = Stage::new(Step::completes());
        let handle = stage.spawn(AutomationSpec {
            start_at,
            stop_at: Some(stop_at),
            ..spec(SECOND)
        });
        assert_ended_at_once(&handle, AutomationState::Stopped, None).await;
        assert_eq!(stage.starts(), [], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_due_time_is_the_start_or_now() {
    let starts = [(None, at(0)), (Some(at(-7)), at(0)), (Some(at(7)), at(7))];
    for (start_at, due) in starts {
        let stage = Stage::new(Step::completes());
        let handle = stage.spawn(AutomationSpec {
            start_at,
            ..spec(SECOND)
        });
        let status = handle.watch().borrow().clone();
        assert_eq!(status.state, AutomationState::Waiting);
        assert_eq!(status.next_due_at, Some(due));
        assert_eq!((status.runs_completed, status.last_error), (0, None));
    }
}

#[test]
fn outside_a_runtime_the_handle_is_terminal() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let stage = runtime.block_on(async { Stage::new(Step::completes()) });
    let handle = stage.spawn(spec(SECOND));
    let text = "automation must be spawned inside a tokio runtime";
    let end = runtime.block_on(handle.wait());
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some(text));
}

#[test]
fn the_end_of_the_runtime_is_an_end_for_who_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let handle = runtime.block_on(async {
        let stage = Stage::new(Step::completes());
        stage.spawn(AutomationSpec {
            start_at: Some(at(3600)),
            ..spec(SECOND)
        })
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let end = other.block_on(handle.wait());
    assert_eq!(end.state, AutomationState::Failed);
    let text = "the tokio runtime of the automation ended";
    assert_eq!(end.last_error.as_deref(), Some(text));
}

#[test]
fn the_count_of_runs_saturates_and_a_bound_at_its_end_is_met() {
    let run = plan::Success {
        due: at(0),
        finished: at(0),
        runs_completed: u32::MAX,
    };
    let endless = spec(SECOND);
    let next = plan::after_success(&endless, run, Wish::GoOn);
    assert_eq!(next, Verdict::Due(at(1)));
    let bounded = AutomationSpec {
        max_runs: Some(u32::MAX),
        ..endless
    };
    let next = plan::after_success(&bounded, run, Wish::GoOn);
    assert_eq!(next, Verdict::End(plan::End::Stopped));
}

#[test]
fn a_grid_may_begin_before_1970() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(100);
    let finished = SystemTime::UNIX_EPOCH - Duration::from_secs(65);
    let next = plan::next_due(before, 10 * SECOND, finished);
    assert_eq!(next, Some(SystemTime::UNIX_EPOCH - Duration::from_mins(1)));
}

#[test]
fn the_examples_of_due_times_hold() {
    let ms = Duration::from_millis;
    let due = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
    let next = |took| plan::next_due(due, ms(10), due + took);
    assert_eq!(next(ms(35)), Some(due + ms(40)));
    assert_eq!(next(ms(40)), Some(due + ms(50)));
    assert_eq!(
        plan::next_due(due, ms(10), due - SECOND),
        Some(due + ms(10))
    );
}
