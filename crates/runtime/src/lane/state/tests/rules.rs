//! Single rules by example, each of which was broken once.
//!
//! The invariant here: an example is as short as it can be, so that what breaks is plain at once.
//!
//! That the rules hold in every order of events is shown by `enumerate` and `random`.

use std::time::Duration;

use super::super::{HASTY_GRACE, KEPT_MAX, LaneOptions, LaneState, RETRY_AFTER};
use crate::lane::event::{
    Answer, CancelWhy, Committed, Effect, Event, FailedOp, HeadLook, HookVerdict, Look, Now, Op,
    RequestNo, StartHow, Steering, StopHow, UnclaimWhy, Unload, WaitLook,
};
use turnlane_store::TurnId;
use turnlane_store::queue::Which;
use uuid::Uuid;

/// A lane and a clock.
pub(super) struct Bench {
    pub lane: LaneState,
    pub mono: Duration,
}

pub(super) const NOTHING_WAITS: Look = Look {
    head: HeadLook::None,
    paused: false,
    waiting: WaitLook::No,
    elsewhere: false,
    owned: true,
};

pub(super) const ROW_DUE: Look = Look {
    head: HeadLook::Due(0),
    ..NOTHING_WAITS
};

impl Bench {
    /// An idle lane with nothing to do.
    pub(super) fn idle() -> Self {
        let lane = LaneState::new(LaneOptions {
            unload_after: Duration::from_mins(1),
        });
        let mono = Duration::from_secs(1_000);
        let mut bench = Self { lane, mono };
        bench.does(Event::Looked(NOTHING_WAITS));
        bench
    }

    /// What the lane does, but for its timer.
    pub(super) fn does(&mut self, event: Event) -> Vec<Effect> {
        let now = Now {
            wall_ms: 1_000,
            mono: self.mono,
        };
        let mut effects = self.lane.apply(now, event);
        effects.retain(|effect| !matches!(effect, Effect::WakeAt(_)));
        effects
    }

    pub(super) fn committed(&mut self, committed: Committed) -> Vec<Effect> {
        self.does(Event::Committed(committed))
    }

    pub(super) fn start(&mut self, no: u64, how: StartHow) -> Vec<Effect> {
        let request = RequestNo(no);
        self.does(Event::Start { request, how })
    }

    /// Tells that the turn of this number has begun.
    pub(super) fn began(&mut self, number: u8, steering: Steering) -> Vec<Effect> {
        let turn = turn(number);
        self.committed(Committed::Began { turn, steering })
    }

    /// A lane whose turn 1 was asked for by request 0 and runs.
    pub(super) fn running() -> Self {
        let mut bench = Self::idle();
        bench.start(0, StartHow::OrReject);
        bench.began(1, Steering::Open);
        bench
    }

    /// A lane that has claimed its head and asks the hooks about it.
    pub(super) fn claimed() -> Self {
        let mut bench = Self::idle();
        bench.does(Event::Looked(ROW_DUE));
        bench.does(Event::Slot);
        assert_eq!(bench.committed(Committed::Claimed), [Effect::RunHooks]);
        bench
    }
}

/// A turn, by number.
pub(super) fn turn(number: u8) -> TurnId {
    Uuid::from_u128(u128::from(number)).into()
}

pub(super) fn answer(no: u64, answer: Answer) -> Effect {
    Effect::Answer(RequestNo(no), answer)
}

#[test]
fn a_claimed_row_whose_acceptance_failed_goes_back_and_does_not_hold_the_lane() {
    let mut bench = Bench::claimed();
    bench.does(Event::Hooked(HookVerdict::Go));
    let unclaim = Effect::Commit(Op::Unclaim(UnclaimWhy::GoBack));
    let failed = bench.committed(Committed::Failed(FailedOp::Taking));
    assert_eq!(failed, std::slice::from_ref(&unclaim));
    // Giving it back is tried until it succeeds.
    assert_eq!(bench.committed(Committed::Failed(FailedOp::Closing)), []);
    bench.mono += RETRY_AFTER;
    assert_eq!(bench.does(Event::Tick), [unclaim]);
    let back = bench.committed(Committed::Unclaimed(ROW_DUE));
    assert_eq!(back, [Effect::GiveSlot, Effect::AskSlot]);
}

#[test]
fn an_add_that_was_under_way_when_its_lane_ended_is_answered_with_its_own_result() {
    let mut bench = Bench::running();
    let request = RequestNo(1);
    let append = bench.start(1, StartHow::OrQueue);
    assert_eq!(append, [Effect::Commit(Op::Append(request))]);
    bench.committed(Committed::Fenced);
    // The row is on disk: a caller who were told otherwise would add it again.
    let appended = bench.committed(Committed::Appended(request));
    assert_eq!(appended, [answer(1, Answer::Result)]);
    assert_eq!(bench.start(2, StartHow::OrQueue), [answer(2, Answer::Lost)]);
}

#[test]
fn more_requests_than_can_be_kept_are_refused() {
    let mut bench = Bench::claimed();
    let kept_max = u64::try_from(KEPT_MAX).unwrap();
    for no in 0..kept_max {
        assert_eq!(bench.start(no, StartHow::OrSteer), []);
    }
    let refused = bench.start(kept_max, StartHow::OrSteer);
    assert_eq!(refused, [answer(kept_max, Answer::Overloaded)]);
}

#[test]
fn a_stop_without_grace_cancels_the_turn_and_one_with_grace_lets_it_go_on() {
    let cancels = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Cancel(_)));
    let mut bench = Bench::running();
    let grace = Duration::from_secs(10);
    assert_eq!(bench.does(Event::Stop(StopHow::After(grace))), []);
    bench.mono += grace / 2;
    assert_eq!(bench.does(Event::Tick), []);
    bench.mono += grace / 2;
    assert!(cancels(&bench.does(Event::Tick)));

    let mut bench = Bench::running();
    assert!(cancels(&bench.does(Event::Stop(StopHow::Now))));
}

#[test]
fn a_worker_in_haste_gives_an_engine_next_to_no_time() {
    let drops = |effects: &[Effect]| effects.contains(&Effect::Drop);
    let mut bench = Bench::running();
    bench.does(Event::Stop(StopHow::InHaste));
    bench.mono += HASTY_GRACE;
    assert!(drops(&bench.does(Event::Tick)));

    // Also when it was told to stop before.
    let mut bench = Bench::running();
    bench.does(Event::Stop(StopHow::Now));
    bench.does(Event::Stop(StopHow::InHaste));
    bench.mono += HASTY_GRACE;
    assert!(drops(&bench.does(Event::Tick)));
}

#[test]
fn a_thread_that_is_closed_stops_its_turn_as_by_an_interrupt_and_takes_no_other() {
    let mut bench = Bench::running();
    let cancel = Effect::Cancel(CancelWhy::Interrupt);
    assert!(bench.does(Event::Stop(StopHow::Close)).contains(&cancel));
    let late = bench.start(7, StartHow::OrSteer);
    assert_eq!(late, [answer(7, Answer::Closing)]);
    bench.does(Event::Ended);
    let ended = bench.committed(Committed::Completed(ROW_DUE));
    assert!(ended.contains(&Effect::Unload(Unload::Closed)), "{ended:?}");
}

#[test]
fn a_claim_that_found_the_lane_held_for_no_visible_reason_is_not_tried_again_at_once() {
    let mut bench = Bench::idle();
    let claim = Effect::Commit(Op::Claim {
        which: Which::Head,
        request: None,
    });
    assert_eq!(bench.does(Event::Looked(ROW_DUE)), [Effect::AskSlot]);
    assert_eq!(bench.does(Event::Slot), std::slice::from_ref(&claim));
    assert_eq!(
        bench.committed(Committed::NotNow(ROW_DUE)),
        [Effect::GiveSlot]
    );
    assert_eq!(bench.does(Event::Looked(ROW_DUE)), []);
    bench.mono += RETRY_AFTER;
    assert_eq!(bench.does(Event::Tick), [Effect::AskSlot]);
    assert_eq!(bench.does(Event::Slot), [claim]);
}

#[test]
fn a_lane_whose_head_only_others_may_claim_is_given_up_once_whoever_listens() {
    let mut bench = Bench::idle();
    bench.does(Event::Subscribers(1));
    let others = Look {
        head: HeadLook::Others,
        ..NOTHING_WAITS
    };
    let release = [Effect::Commit(Op::Release)];
    assert_eq!(bench.does(Event::Looked(others)), release);
    assert_eq!(bench.does(Event::Tick), []);
    // Nobody has it, or another worker does.
    let free = Look {
        owned: false,
        ..others
    };
    assert_eq!(bench.does(Event::Looked(free)), []);
    // A turn of its own makes it ours again, and the row still waits for others.
    bench.start(1, StartHow::OrReject);
    bench.began(1, Steering::Open);
    bench.does(Event::Ended);
    let ended = bench.committed(Committed::Completed(others));
    assert_eq!(ended.last(), release.last());
}
