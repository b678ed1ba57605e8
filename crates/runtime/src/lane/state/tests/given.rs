//! Turns that another transaction has begun, by example.

use super::rules::{Bench, NOTHING_WAITS, ROW_DUE};
use crate::lane::event::{
    Committed, Effect, Event, Op, RequestNo, StartHow, Steering, StopHow, Tell, Unload,
};

#[test]
fn an_idle_lane_runs_a_given_turn_without_a_slot_and_is_unloaded_at_once() {
    let mut bench = Bench::idle();
    assert_eq!(bench.does(Event::Given), [Effect::TakeGiven]);
    let began = bench.began(1, Steering::Open);
    assert_eq!(began, [Effect::Tell(Tell::Began), Effect::RunEngine]);
    bench.does(Event::Ended);
    let closed = bench.committed(Committed::Completed(NOTHING_WAITS));
    let ends = [
        Effect::Tell(Tell::Completed),
        Effect::Commit(Op::Release),
        Effect::Unload(Unload::Idle),
    ];
    assert_eq!(closed, ends);
}

#[test]
fn a_given_turn_waits_until_what_is_under_way_has_ended() {
    let mut bench = Bench::running();
    assert_eq!(bench.does(Event::Given), []);
    bench.does(Event::Ended);
    let closed = bench.committed(Committed::Completed(NOTHING_WAITS));
    assert_eq!(closed, [Effect::Tell(Tell::Completed), Effect::TakeGiven]);
}

#[test]
fn a_lane_that_asked_for_a_slot_gives_it_back_for_a_given_turn() {
    let mut bench = Bench::idle();
    assert_eq!(bench.does(Event::Looked(ROW_DUE)), [Effect::AskSlot]);
    let given = bench.does(Event::Given);
    assert_eq!(given, [Effect::GiveSlot, Effect::TakeGiven]);
}

#[test]
fn a_start_meanwhile_is_kept_behind_a_given_turn() {
    let mut bench = Bench::idle();
    bench.does(Event::Given);
    let refused = bench.start(4, StartHow::OrReject);
    assert!(matches!(refused[..], [Effect::Answer(RequestNo(4), _)]));
}

#[test]
fn a_given_turn_in_a_lane_that_stops_is_cancelled_and_recorded() {
    let mut bench = Bench::running();
    bench.does(Event::Given);
    bench.does(Event::Stop(StopHow::Now));
    bench.does(Event::Ended);
    let closed = bench.committed(Committed::Completed(NOTHING_WAITS));
    assert_eq!(closed, [Effect::Tell(Tell::Completed), Effect::TakeGiven]);
    let began = bench.began(2, Steering::Open);
    assert!(
        began
            .iter()
            .any(|effect| matches!(effect, Effect::Cancel(_)))
    );
}
