//! Clocks that jump: suspends, and clocks set either way.
//!
//! The invariant under test: the wall clock decides, nothing is due twice, and nothing is missed for
//! longer than a minute.

use super::double::{Stage, Step, at, pass};
use super::*;

const MS: Duration = Duration::from_millis(1);

/// Every second from then on.
fn later(seconds: i64) -> AutomationSpec {
    AutomationSpec {
        start_at: Some(at(seconds)),
        ..spec(SECOND)
    }
}

#[tokio::test(start_paused = true)]
async fn a_due_time_passed_in_a_suspend_runs_within_a_minute_of_waking_and_once() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(2),
        ..AutomationSpec {
            every: 600 * SECOND,
            ..later(3_600)
        }
    });
    pass(30 * SECOND).await;
    // Two hours asleep: seven due times pass.
    stage.clock.jump(7_200);
    let woke = stage.clock.now();
    handle.wait().await;
    let starts = stage.starts();
    assert!(starts[0] >= woke && starts[0] <= woke + 60 * SECOND);
    let next = at(3_600 + 7 * 600);
    assert_eq!(starts[1], next, "no burst: the next point of the grid");
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_delays_the_due_time_and_repeats_none() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(3),
        ..spec(60 * SECOND)
    });
    pass(90 * SECOND).await;
    assert_eq!(stage.starts().len(), 2);
    let began = tokio::time::Instant::now();
    stage.clock.jump(-7_200);
    handle.wait().await;
    assert_eq!(stage.starts(), [at(0), at(60), at(120)]);
    assert_eq!(
        began.elapsed(),
        7_230 * SECOND,
        "it waited for the wall clock"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_during_a_run_repeats_no_point() {
    let stage = Stage::with([Step::takes(10 * SECOND), Step::completes()]);
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(2),
        ..spec(60 * SECOND)
    });
    pass(5 * SECOND).await;
    stage.clock.jump(-3_600);
    handle.wait().await;
    let dues: Vec<_> = handle.runs().iter().map(|run| run.due_at).collect();
    assert_eq!(dues, [at(0), at(60)]);
    assert_eq!(stage.starts()[1], at(60));
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_forward_over_the_stop_starts_nothing() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        stop_at: Some(at(7_000)),
        ..later(3_600)
    });
    pass(SECOND).await;
    stage.clock.jump(7_200);
    let end = handle.wait().await;
    assert_eq!(end.state, AutomationState::Stopped);
    assert_eq!(stage.starts(), []);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_looks_at_the_wall_clock_every_minute() {
    let stage = Stage::new(Step::completes());
    let handle = stage.spawn(AutomationSpec {
        max_runs: Some(1),
        ..later(3_600)
    });
    handle.wait().await;
    assert_eq!(stage.starts(), [at(3_600)]);
    assert_eq!(stage.clock.waits(), 60);
}

#[tokio::test]
async fn the_system_clock_naps_for_a_minute_at_most() {
    let clock = SystemClock;
    let now = clock.now();
    let hour = Duration::from_hours(1);
    assert_eq!(clock::nap(now, now + hour), Duration::from_mins(1));
    assert_eq!(clock::nap(now, now + 5 * MS), 5 * MS);
    assert_eq!(clock::nap(now + hour, now), Duration::ZERO);
    clock.wait(now).await;
}
