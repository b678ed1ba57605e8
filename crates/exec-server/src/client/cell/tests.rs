//! Order, gaps and failures of one process.

use super::*;
use crate::client::events::EventStream;

fn cell() -> (Cell, EventStream) {
    let hub = Arc::new(Hub::default());
    let events = hub.subscribe();
    let io = Io::Pipe {
        stdin: turnlane_process::Stdin::Closed,
    };
    (Cell::new(ProcessId::new("p"), io, hub, None), events)
}

fn output(bytes: usize) -> Told {
    Told::Output {
        stream: StreamName::Stdout,
        bytes: Bytes::from(vec![b'x'; bytes]),
    }
}

fn exit() -> Exit {
    Exit {
        code: 3,
        signal: None,
        reason: None,
        sandbox_denied: false,
    }
}

fn seqs(events: &mut EventStream) -> Vec<u64> {
    std::iter::from_fn(|| events.try_next())
        .map(|event| match event {
            Event::Output { seq, .. } | Event::Exited { seq, .. } | Event::Closed { seq, .. } => {
                seq
            }
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn numbers_that_come_early_or_twice_are_put_in_order() {
    let (cell, mut events) = cell();
    cell.accept(3, output(1));
    cell.accept(2, output(1));
    cell.accept(2, output(1));
    assert!(seqs(&mut events).is_empty());
    cell.accept(1, output(1));
    cell.accept(1, output(1));
    cell.accept(
        5,
        Told::Closed {
            drain_timed_out: false,
        },
    );
    cell.accept(4, Told::Exited(exit()));
    assert_eq!(seqs(&mut events), [1, 2, 3, 4, 5]);
    assert!(cell.is_closed());
}

#[tokio::test]
async fn a_gap_nobody_fills_fails_the_process_and_not_before_it_must() {
    for (events, bytes) in [(256, 1), (2, 400_000)] {
        let (cell, _events) = cell();
        for at in 0..events {
            cell.accept(2 + at, output(bytes));
        }
        assert!(cell.lock().failure.is_none());
        cell.accept(2 + events, output(bytes));
        let error = cell.wait(Until::Exited).await.unwrap_err();
        assert!(matches!(error, ClientError::Protocol(_)), "{error}");
    }
}

#[tokio::test]
async fn a_wait_ends_with_the_exit_the_close_or_the_failure() {
    let (cell, _events) = cell();
    cell.accept(1, Told::Exited(exit()));
    assert_eq!(cell.wait(Until::Exited).await.unwrap(), exit());
    cell.fail(Failure::Closed("gone".to_owned()));
    assert_eq!(cell.wait(Until::Exited).await.unwrap(), exit());
    let error = cell.wait(Until::Closed).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");
}

#[test]
fn while_missed_events_are_read_many_live_ones_are_no_failure() {
    let (cell, mut events) = cell();
    cell.accept(1, output(1));
    assert_eq!(cell.begin_replay(), Some(1));
    for seq in 4..400 {
        cell.accept(seq, output(1));
    }
    cell.accept(2, output(1));
    cell.accept(3, output(1));
    let read_on = 3 + HELD_EVENTS_MAX as u64;
    assert_eq!(cell.end_replay(), Some(read_on), "the rest was not held");
    for seq in read_on + 1..400 {
        cell.accept(seq, output(1));
    }
    assert_eq!(cell.end_replay(), None);
    assert_eq!(seqs(&mut events), (1..400).collect::<Vec<_>>());
}

#[test]
fn what_will_never_come_is_counted_at_its_place() {
    let (cell, mut events) = cell();
    cell.accept(1, output(1));
    cell.skip_to(4, 70);
    cell.accept(4, output(1));
    assert!(matches!(
        events.try_next(),
        Some(Event::Output { seq: 1, .. })
    ));
    assert_eq!(
        events.try_next(),
        Some(Event::Lagged {
            process: ProcessId::new("p"),
            events: 2,
            bytes: 70
        })
    );
    assert!(matches!(
        events.try_next(),
        Some(Event::Output { seq: 4, .. })
    ));
}
