//! Edges: stops, closed threads, lost connections, panics, dropped handles.
//!
//! The invariant under test: whatever happens, at most one turn at a time, and an end for everyone who
//! waits.

use super::double::{Stage, Step, StepEnd, at, pass};
use super::*;
use crate::automation::plan::End;

const MS: Duration = Duration::from_millis(1);

fn hangs() -> Step {
    Step::ends(StepEnd::WhenInterrupted(200 * MS))
}

fn later(seconds: i64) -> AutomationSpec {
    AutomationSpec {
        start_at: Some(at(seconds)),
        ..spec(SECOND)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_waiting_is_an_end_at_once() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(later(1_000));
    pass(3 * SECOND).await;
    let before = stage.clock.now();
    handle.stop().await;
    let status = handle.status().await;
    assert_eq!(status.state, AutomationState::Stopped);
    assert_eq!((status.next_due_at, &status.last_error), (None, &None));
    assert_eq!(stage.clock.now(), before, "no time passed");
    handle.stop().await;
    handle.stop_now().await;
    assert_eq!(
        handle.status().await,
        status,
        "a later stop changes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_right_after_spawn_is_not_lost() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(spec(SECOND));
    handle.stop().await;
    assert_eq!(handle.status().await.state, AutomationState::Stopped);
    assert_eq!(stage.starts(), []);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_running_lets_the_run_finish_and_count() {
    let stage = Stage::new(Step::takes(10 * SECOND));
    let handle = stage.spawn(spec(SECOND));
    pass(SECOND).await;
    handle.stop().await;
    assert_eq!(handle.status().await.state, AutomationState::Running);
    pass(8 * SECOND).await;
    assert_eq!(handle.status().await.state, AutomationState::Running);
    let end = handle.wait().await;
    assert_eq!(
        (end.state, end.runs_completed),
        (AutomationState::Stopped, 1)
    );
    assert_eq!(end.last_finished_at, Some(at(10)));
    assert_eq!(stage.interrupts(), 0);
    assert_eq!(stage.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_after_a_stop_fails_the_automation() {
    let failing = Step {
        takes: 10 * SECOND,
        end: StepEnd::Fails("no money"),
    };
    let stage = Stage::new(failing);
    let handle = stage.spawn(spec(SECOND));
    pass(SECOND).await;
    handle.stop().await;
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some("no money"));
}

#[tokio::test(start_paused = true)]
async fn stop_now_interrupts_the_run_and_does_not_count_it() {
    let stage = Stage::new(hangs());
    let handle = stage.spawn(spec(SECOND));
    pass(30 * SECOND).await;
    assert_eq!(stage.in_flight(), 1);
    handle.stop_now().await;
    assert_eq!((stage.interrupts(), stage.in_flight()), (1, 0));
    let end = handle.status().await;
    assert_eq!(
        (end.state, end.runs_completed),
        (AutomationState::Stopped, 0)
    );
    assert_eq!(end.last_error, None);
    assert_eq!(end.last_started_at, Some(at(0)));
    assert_eq!(end.last_finished_at, Some(at(30) + 200 * MS));
    let runs = handle.runs();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].outcome, RunOutcome::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn stop_now_goes_without_a_turn_that_does_not_end_within_five_seconds() {
    let stage = Stage::new(Step::ends(StepEnd::Never));
    let handle = stage.spawn(spec(SECOND));
    pass(SECOND).await;
    handle.stop_now().await;
    let end = handle.status().await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!(end.last_finished_at, Some(at(6)));
    assert_eq!(handle.runs()[0].outcome, RunOutcome::Interrupted);
    assert_eq!(stage.in_flight(), 0, "its future was dropped");
}

#[tokio::test(start_paused = true)]
async fn stop_now_after_stop_still_interrupts() {
    let stage = Stage::new(hangs());
    let handle = stage.spawn(spec(SECOND));
    pass(SECOND).await;
    handle.stop().await;
    handle.stop_now().await;
    assert_eq!(stage.interrupts(), 1);
    handle.stop().await;
    assert_eq!(handle.status().await.state, AutomationState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_completes_before_the_interrupt_counts() {
    let stage = Stage::new(Step::takes(2 * SECOND));
    let handle = stage.spawn(spec(SECOND));
    pass(SECOND).await;
    handle.stop_now().await;
    let end = handle.status().await;
    assert_eq!(
        (end.state, end.runs_completed),
        (AutomationState::Stopped, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn any_number_of_tasks_may_wait_before_and_after_the_end() {
    let stage = Stage::new(Step::takes(SECOND));
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(2),
        ..spec(SECOND)
    });
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let handle = handle.clone();
            tokio::spawn(async move { handle.wait().await })
        })
        .collect();
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Stopped);
    for task in waiting {
        assert_eq!(task.await.unwrap(), end);
    }
    assert_eq!(handle.wait().await, end);
}

#[tokio::test(start_paused = true)]
async fn a_thread_closed_while_waiting_fails_at_once() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(later(1_000));
    pass(SECOND).await;
    stage.close("session is closed");
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some("session is closed"));
    assert_eq!(stage.clock.now(), at(1), "no time passed");
}

#[tokio::test(start_paused = true)]
async fn a_thread_closed_while_running_fails_after_the_run_ended_by_itself() {
    let stage = Stage::new(Step::takes(10 * SECOND));
    let handle = stage.spawn(spec(SECOND));
    pass(SECOND).await;
    stage.close("session is closed");
    pass(SECOND).await;
    assert_eq!(handle.status().await.state, AutomationState::Running);
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some("session is closed"));
    assert_eq!((end.runs_completed, end.next_due_at), (1, None));
    assert_eq!(handle.runs()[0].outcome, RunOutcome::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_connection_lost_while_waiting_is_waited_for_and_missed_points_do_not_burst() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(3),
        ..later(10)
    });
    stage.connected(false);
    pass(20 * SECOND + 500 * MS).await;
    let status = handle.status().await;
    assert_eq!(status.state, AutomationState::Waiting);
    assert_eq!(status.next_due_at, Some(at(10)));
    stage.connected(true);
    handle.wait().await;
    assert_eq!(stage.starts(), [at(20) + 500 * MS, at(21), at(22)]);
    assert_eq!(handle.runs()[0].due_at, at(10));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_back_by_the_stop_ends_the_waiting() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        stop_at: Some(at(30)),
        ..later(10)
    });
    stage.connected(false);
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!((stage.clock.now(), stage.starts().len()), (at(30), 0));
}

#[tokio::test(start_paused = true)]
async fn a_connection_closed_for_good_fails_with_its_text() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(later(10));
    stage.connected(false);
    pass(20 * SECOND).await;
    stage.close("the connection was closed: the server ended");
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Failed);
    let text = "the connection was closed: the server ended";
    assert_eq!(end.last_error.as_deref(), Some(text));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_loop_is_a_failure_and_ends_every_wait() {
    let stage = Stage::with([Step::completes(), Step::ends(StepEnd::Panics)]);
    let handle = stage.spawn(spec(SECOND));
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Failed);
    assert_eq!(end.last_error.as_deref(), Some("automation task panicked"));
    assert_eq!((end.runs_completed, end.next_due_at), (1, None));
    let error = "automation task panicked".to_owned();
    assert_eq!(handle.runs()[1].outcome, RunOutcome::Failed { error });
}

#[tokio::test(start_paused = true)]
async fn waiting_for_no_due_time_is_reported_as_the_bug_it_is() {
    let stage = Stage::new(Step::completes());
    let (ledger, status, _runs) = Ledger::new(ThreadId::from("thread"));
    let (_wish, wishes) = watch::channel(Wish::GoOn);
    let clock = Arc::new(stage.clock.clone());
    let rounds = Rounds::new(stage, spec(SECOND), clock, wishes);
    rounds::own(rounds, ledger).await;
    let status = status.borrow().clone();
    assert_eq!(status.state, AutomationState::Failed);
    let text = "automation status invariant violated: missing next due time";
    assert_eq!(status.last_error.as_deref(), Some(text));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_stops_and_no_sooner() {
    let stage = Stage::new(Step::takes(500 * MS));
    let handle = stage.spawn(spec(SECOND));
    let mut watch = handle.watch();
    let clone = handle.clone();
    drop(handle);
    pass(2 * SECOND + 100 * MS).await;
    assert_eq!(watch.borrow().state, AutomationState::Running);
    drop(clone);
    let end = watch.wait_for(|it| it.state.is_terminal()).await.unwrap();
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!(
        end.runs_completed, 3,
        "the run in flight finished and counts"
    );
    assert_eq!(stage.interrupts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_detached_automation_goes_on_without_handles() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(5),
        ..spec(SECOND)
    });
    let mut watch = handle.watch();
    handle.detach();
    let end = watch.wait_for(|it| it.state.is_terminal()).await.unwrap();
    assert_eq!(end.runs_completed, 5);
}

#[tokio::test(start_paused = true)]
async fn a_clone_of_a_detached_handle_still_stops() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(later(10));
    handle.clone().detach();
    handle.stop().await;
    assert_eq!(handle.status().await.state, AutomationState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn the_thread_is_let_go_before_the_end_is_shown() {
    let stage = Stage::new(Step::completes());
    let held = stage.handles();
    let handle = stage.spawn(later(10));
    assert_eq!(stage.handles(), held + 1);
    handle.stop().await;
    assert_eq!(stage.handles(), held);
}

#[test]
fn a_stop_comes_before_a_closed_thread_and_that_before_the_bounds() {
    let bounded = AutomationSpec {
        stop_at: Some(at(0)),
        ..spec(SECOND)
    };
    let seen = |wish, gone: Option<&str>| plan::Seen {
        now: at(0),
        wish,
        gone: gone.map(str::to_owned),
    };
    let gone = Some("session is closed");
    let before = |seen| plan::before_run(&bounded, at(0), seen);
    assert_eq!(before(seen(Wish::Stop, gone)), Some(End::Stopped));
    let failed = End::failed("session is closed");
    assert_eq!(before(seen(Wish::GoOn, gone)), Some(failed));
    assert_eq!(before(seen(Wish::GoOn, None)), Some(End::Stopped));
    let open = spec(SECOND);
    assert_eq!(plan::before_run(&open, at(0), seen(Wish::GoOn, None)), None);
}
