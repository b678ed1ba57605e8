//! The tables of `turn/start`, `turn/steer` and `turn/interrupt`, cell by cell.
//!
//! The invariant here: one test per cell, named after it; what the lane says is compared whole.
//!
//! What an answer looks like on the wire is the server's business.

use super::super::STOP_GRACE;
use super::rules::{Bench, NOTHING_WAITS, ROW_DUE, answer, turn};
use crate::lane::event::{
    AfterInterrupt, Answer, CancelWhy, Closing, Committed, Effect, EndHow, Event, HeadLook,
    HookVerdict, Look, Op, RequestNo, StartHow, Steering, Tell,
};

const WHEN_BUSY: [StartHow; 3] = [StartHow::OrSteer, StartHow::OrQueue, StartHow::OrReject];

/// The request whose answer a test is about.
const ME: u64 = 7;

fn start_of_mine() -> [Effect; 1] {
    [Effect::Commit(Op::Start(RequestNo(ME)))]
}

fn row_of_mine() -> [Effect; 1] {
    [Effect::Commit(Op::Append(RequestNo(ME)))]
}

fn interrupt(bench: &mut Bench, no: u64, number: Option<u8>, queue: AfterInterrupt) -> Vec<Effect> {
    bench.does(Event::Interrupt {
        request: Some(RequestNo(no)),
        turn: number.map(turn),
        queue,
        why: CancelWhy::Interrupt,
    })
}

/// A lane whose running turn was told to stop by request 1.
fn interrupted() -> Bench {
    let mut bench = Bench::running();
    let told = interrupt(&mut bench, 1, Some(1), AfterInterrupt::Continue);
    assert_eq!(told, [Effect::Cancel(CancelWhy::Interrupt)]);
    bench
}

fn complete(how: EndHow, queue: AfterInterrupt) -> Effect {
    Effect::Commit(Op::Complete { how, queue })
}

// turn/start on an idle lane.

#[test]
fn a_start_on_an_idle_lane_starts_a_turn_whatever_it_says_about_busy_lanes() {
    for how in WHEN_BUSY {
        let mut bench = Bench::idle();
        assert_eq!(bench.start(ME, how), start_of_mine());
        let began = [
            answer(ME, Answer::Result),
            Effect::Tell(Tell::Began),
            Effect::RunEngine,
        ];
        assert_eq!(bench.began(1, Steering::Open), began);
    }
}

#[test]
fn a_start_goes_past_the_rows_of_a_paused_or_blocked_queue() {
    let paused = Look {
        paused: true,
        ..ROW_DUE
    };
    let blocked = Look {
        head: HeadLook::Held,
        ..ROW_DUE
    };
    for look in [paused, blocked] {
        let mut bench = Bench::idle();
        assert_eq!(bench.does(Event::Looked(look)), []);
        assert_eq!(bench.start(ME, StartHow::OrSteer), start_of_mine());
    }
}

#[test]
fn a_start_that_was_queued_behind_waiting_rows_is_answered_and_leaves_the_lane_idle() {
    let mut bench = Bench::idle();
    assert_eq!(bench.start(ME, StartHow::OrQueue), start_of_mine());
    assert_eq!(
        bench.committed(Committed::Settled),
        [answer(ME, Answer::Result)]
    );
    assert!(bench.lane.is_idle());
}

// turn/start while a turn runs.

#[test]
fn a_start_while_a_turn_runs_steers_it_and_is_answered_with_its_id() {
    let mut bench = Bench::running();
    let steer = [Effect::Commit(Op::Steer(RequestNo(ME)))];
    assert_eq!(bench.start(ME, StartHow::OrSteer), steer);
    let steered = [
        Effect::HandSteer(RequestNo(ME)),
        answer(ME, Answer::Steered(turn(1))),
    ];
    assert_eq!(bench.committed(Committed::Steered(RequestNo(ME))), steered);
}

#[test]
fn a_start_that_would_rather_queue_adds_a_row_while_a_turn_runs() {
    let mut bench = Bench::running();
    assert_eq!(bench.start(ME, StartHow::OrQueue), row_of_mine());
    let appended = bench.committed(Committed::Appended(RequestNo(ME)));
    assert_eq!(appended, [answer(ME, Answer::Result)]);
}

#[test]
fn a_start_that_would_rather_be_rejected_is_busy_while_a_turn_runs() {
    let mut bench = Bench::running();
    assert_eq!(
        bench.start(ME, StartHow::OrReject),
        [answer(ME, Answer::Busy)]
    );
}

// turn/start while an interrupt is under way.

#[test]
fn a_start_during_an_interrupt_waits_for_the_end_and_comes_before_any_row() {
    let mut bench = interrupted();
    assert_eq!(bench.start(ME, StartHow::OrSteer), []);
    let ends = [complete(EndHow::Ended, AfterInterrupt::Continue)];
    assert_eq!(bench.does(Event::Ended), ends);
    let ended = bench.committed(Committed::Completed(ROW_DUE));
    let mut expected = vec![
        answer(1, Answer::Interrupted),
        Effect::Tell(Tell::Completed),
    ];
    expected.extend(start_of_mine());
    assert_eq!(ended, expected);
}

#[test]
fn a_start_that_would_rather_queue_adds_a_row_during_an_interrupt() {
    assert_eq!(interrupted().start(ME, StartHow::OrQueue), row_of_mine());
}

#[test]
fn a_start_that_would_rather_be_rejected_is_busy_during_an_interrupt() {
    let busy = [answer(ME, Answer::Busy)];
    assert_eq!(interrupted().start(ME, StartHow::OrReject), busy);
}

// turn/start while a row is being claimed.

#[test]
fn a_start_while_a_row_is_claimed_steers_its_turn_once_it_is_accepted() {
    let mut bench = Bench::claimed();
    assert_eq!(bench.start(ME, StartHow::OrSteer), []);
    let accept = [Effect::Commit(Op::Accept)];
    assert_eq!(bench.does(Event::Hooked(HookVerdict::Go)), accept);
    let began = [
        Effect::Tell(Tell::Began),
        Effect::RunEngine,
        Effect::Commit(Op::Steer(RequestNo(ME))),
    ];
    assert_eq!(bench.began(1, Steering::Open), began);
}

#[test]
fn a_start_while_a_row_is_claimed_begins_a_turn_once_the_row_is_refused() {
    let mut bench = Bench::claimed();
    assert_eq!(bench.start(ME, StartHow::OrSteer), []);
    bench.does(Event::Hooked(HookVerdict::Go));
    let refused = bench.committed(Committed::Refused(ROW_DUE));
    let mut expected = vec![Effect::GiveSlot];
    expected.extend(start_of_mine());
    assert_eq!(refused, expected);
}

#[test]
fn a_start_that_would_rather_queue_adds_a_row_while_a_row_is_claimed() {
    assert_eq!(Bench::claimed().start(ME, StartHow::OrQueue), row_of_mine());
}

#[test]
fn a_start_that_would_rather_be_rejected_is_busy_while_a_row_is_claimed() {
    let busy = [answer(ME, Answer::Busy)];
    assert_eq!(Bench::claimed().start(ME, StartHow::OrReject), busy);
}

// turn/start while a turn runs that cannot be steered.

#[test]
fn a_turn_that_is_not_steerable_says_so_and_lets_rows_be_added() {
    let expected = [
        vec![answer(ME, Answer::NotSteerable)],
        row_of_mine().to_vec(),
        vec![answer(ME, Answer::Busy)],
    ];
    for (how, expected) in WHEN_BUSY.into_iter().zip(expected) {
        let mut bench = Bench::idle();
        bench.start(0, StartHow::OrReject);
        bench.began(1, Steering::Never);
        assert_eq!(bench.start(ME, how), expected);
    }
}

// turn/steer.

fn steer(bench: &mut Bench, number: u8) -> Vec<Effect> {
    bench.does(Event::Steer {
        request: RequestNo(ME),
        turn: turn(number),
    })
}

#[test]
fn a_steer_is_written_before_it_is_answered() {
    let mut bench = Bench::running();
    assert_eq!(
        steer(&mut bench, 1),
        [Effect::Commit(Op::Steer(RequestNo(ME)))]
    );
}

#[test]
fn a_steer_of_another_turn_is_told_which_one_runs() {
    let other = [answer(ME, Answer::OtherTurn(turn(1)))];
    assert_eq!(steer(&mut Bench::running(), 2), other);
}

#[test]
fn a_steer_finds_no_turn_on_an_idle_lane_during_an_interrupt_and_after_steering_was_closed() {
    let none = [answer(ME, Answer::NoActiveTurn)];
    assert_eq!(steer(&mut Bench::idle(), 1), none);
    assert_eq!(steer(&mut interrupted(), 1), none);
    let mut bench = Bench::running();
    let closed = [Effect::CloseSteer(Closing::Closed)];
    assert_eq!(bench.does(Event::CloseSteer { waiting: 0 }), closed);
    assert_eq!(steer(&mut bench, 1), none);
}

#[test]
fn steering_stays_open_while_a_steer_waits_to_be_taken() {
    let mut bench = Bench::running();
    steer(&mut bench, 1);
    let more = [Effect::CloseSteer(Closing::More)];
    assert_eq!(bench.does(Event::CloseSteer { waiting: 1 }), more);
    assert_eq!(
        steer(&mut bench, 1),
        [Effect::Commit(Op::Steer(RequestNo(ME)))]
    );
}

// turn/interrupt.

#[test]
fn an_interrupt_of_the_running_turn_is_answered_when_its_end_is_on_disk() {
    for queue in [AfterInterrupt::Continue, AfterInterrupt::Pause] {
        let mut bench = Bench::running();
        let told = interrupt(&mut bench, ME, Some(1), queue);
        assert_eq!(told, [Effect::Cancel(CancelWhy::Interrupt)]);
        assert_eq!(bench.does(Event::Ended), [complete(EndHow::Ended, queue)]);
        let ended = [
            answer(ME, Answer::Interrupted),
            Effect::Tell(Tell::Completed),
        ];
        assert_eq!(bench.committed(Committed::Completed(NOTHING_WAITS)), ended);
    }
}

#[test]
fn a_second_interrupt_is_answered_together_with_the_first() {
    let mut bench = interrupted();
    assert_eq!(interrupt(&mut bench, 2, Some(1), AfterInterrupt::Pause), []);
    let ends = [complete(EndHow::Ended, AfterInterrupt::Pause)];
    assert_eq!(bench.does(Event::Ended), ends);
    assert_eq!(
        interrupt(&mut bench, 3, Some(1), AfterInterrupt::Continue),
        []
    );
    let ended = bench.committed(Committed::Completed(NOTHING_WAITS));
    let expected = [
        answer(1, Answer::Interrupted),
        answer(2, Answer::Interrupted),
        answer(3, Answer::Interrupted),
        Effect::Tell(Tell::Completed),
    ];
    assert_eq!(ended, expected);
}

#[test]
fn an_interrupt_on_an_idle_lane_is_answered_at_once_whatever_it_names() {
    let mut bench = interrupted();
    bench.does(Event::Ended);
    bench.committed(Committed::Completed(NOTHING_WAITS));
    // What became of the turn, or whether it is queued, is looked up by the task.
    for number in [Some(1), Some(2), None] {
        let told = interrupt(&mut bench, ME, number, AfterInterrupt::Continue);
        assert_eq!(told, [answer(ME, Answer::NotRunning)]);
    }
}

#[test]
fn an_interrupt_of_another_turn_is_told_which_one_runs_and_stops_nothing() {
    let mut bench = Bench::running();
    let told = interrupt(&mut bench, ME, Some(2), AfterInterrupt::Pause);
    assert_eq!(told, [answer(ME, Answer::OtherTurn(turn(1)))]);
    let ends = [complete(EndHow::Ended, AfterInterrupt::Continue)];
    assert_eq!(bench.does(Event::Ended), ends);
}

#[test]
fn an_interrupt_without_a_turn_stops_whatever_runs() {
    let mut bench = Bench::running();
    let told = interrupt(&mut bench, ME, None, AfterInterrupt::Continue);
    assert_eq!(told, [Effect::Cancel(CancelWhy::Interrupt)]);
}

#[test]
fn an_interrupt_while_a_row_is_claimed_waits_for_its_turn() {
    let mut bench = Bench::claimed();
    assert_eq!(
        interrupt(&mut bench, ME, Some(1), AfterInterrupt::Continue),
        []
    );
    bench.does(Event::Hooked(HookVerdict::Go));
    let began = [
        Effect::Tell(Tell::Began),
        Effect::RunEngine,
        Effect::Cancel(CancelWhy::Interrupt),
    ];
    assert_eq!(bench.began(1, Steering::Open), began);
}

#[test]
fn an_engine_that_does_not_stop_is_given_up_after_five_seconds() {
    let mut bench = interrupted();
    bench.mono += STOP_GRACE / 2;
    assert_eq!(bench.does(Event::Tick), []);
    bench.mono += STOP_GRACE / 2;
    let given_up = [
        Effect::Drop,
        complete(EndHow::Dropped, AfterInterrupt::Continue),
    ];
    assert_eq!(bench.does(Event::Tick), given_up);
    // Whatever it says now is too late.
    assert_eq!(bench.does(Event::Ended), []);
}

#[test]
fn a_limit_of_our_own_stops_the_turn_and_nobody_is_answered() {
    let mut bench = Bench::running();
    let told = bench.does(Event::Interrupt {
        request: None,
        turn: Some(turn(1)),
        queue: AfterInterrupt::Continue,
        why: CancelWhy::Timeout,
    });
    assert_eq!(told, [Effect::Cancel(CancelWhy::Timeout)]);
    bench.does(Event::Ended);
    let ended = bench.committed(Committed::Completed(NOTHING_WAITS));
    assert_eq!(ended, [Effect::Tell(Tell::Completed)]);
}
