//! Looking for work, giving the lane up, and the one timer.
//!
//! The invariant here: a claim is submitted only with a slot in hand, on an idle lane, by a look
//! that shows a head that is due and nothing that holds it. Whether it is still so is decided by
//! the store.

use std::time::Duration;

use turnlane_store::queue::Which;

use super::super::event::{Effect, HeadLook, Look, Now, Op, Unload, WaitLook, Wake};
use super::{LaneState, Phase, Slot, StopWhy, Take};

impl LaneState {
    /// Whether the head may be claimed now, as far as the last look tells.
    pub(super) fn may_claim(&self, now: Now) -> bool {
        let due = |look: Look| {
            matches!(look.head, HeadLook::Due(at_ms) if at_ms <= now.wall_ms)
                && !look.paused
                && !look.elsewhere
                && waited_out(look.waiting, now.wall_ms)
        };
        self.stopping.is_none()
            && self.claim_after.is_none_or(|after| after <= now.mono)
            && self.look.is_some_and(due)
    }

    /// Runs after every event: begins what can begin, gives up what nobody needs.
    pub(super) fn look_for_work(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.stop_what_runs(now, effects);
        if self.phase != Phase::Idle {
            self.unneeded_since = None;
            return;
        }
        if self.stopping.is_some() {
            let why = match self.stop {
                StopWhy::Close => Unload::Closed,
                StopWhy::Worker | StopWhy::WorkerInHaste => Unload::Stopping,
            };
            self.unload(why, effects);
            return;
        }
        if self.may_claim(now) {
            match self.slot {
                Slot::None => {
                    self.slot = Slot::Asked;
                    effects.push(Effect::AskSlot);
                }
                Slot::Held => {
                    self.phase = Phase::Taking {
                        request: None,
                        take: Take::Begin,
                    };
                    effects.push(Effect::Commit(Op::Claim {
                        which: Which::Head,
                        request: None,
                    }));
                }
                Slot::Asked => {}
            }
            return;
        }
        if self.slot == Slot::Held {
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        self.leave_to_others(effects);
        self.unload_if_unneeded(now, effects);
    }

    /// Gives the lane up when it holds others from the row that only they may claim, whoever listens
    /// here; it is taken again when it is needed.
    fn leave_to_others(&mut self, effects: &mut Vec<Effect>) {
        let holds = |look: Look| look.head == HeadLook::Others && look.owned;
        // Once per look: the next one shows whose it is.
        if !self.left && self.look.is_some_and(holds) {
            self.left = true;
            effects.push(Effect::Commit(Op::Release));
        }
    }

    /// A slot has come; it is used by [`Self::look_for_work`] or given back there.
    pub(super) fn slot_given(&mut self, effects: &mut Vec<Effect>) {
        if self.slot != Slot::Asked {
            // Never asked for: somebody else's.
            effects.push(Effect::GiveSlot);
        } else if self.phase == Phase::Idle {
            self.slot = Slot::Held;
        } else {
            // A request was faster; the slot is asked for again when the lane is idle.
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
    }

    pub(super) fn subscribers_changed(&mut self, count: usize, effects: &mut Vec<Effect>) {
        let last_left = self.subscribers > 0 && count == 0;
        self.subscribers = count;
        if last_left && self.phase == Phase::Idle && self.slot == Slot::None && !self.has_rows() {
            effects.push(Effect::Commit(Op::Release));
        }
    }

    /// Whether rows wait that this lane may claim sooner or later.
    pub(super) fn has_rows(&self) -> bool {
        let claimable = |look: Look| {
            matches!(look.head, HeadLook::Due(_))
                && !look.paused
                && !look.elsewhere
                && look.waiting != WaitLook::Person
        };
        self.look.is_some_and(claimable)
    }

    fn unload_if_unneeded(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let needed = self.subscribers > 0 || self.slot != Slot::None || self.has_rows();
        if needed {
            self.unneeded_since = None;
            return;
        }
        let since = *self.unneeded_since.get_or_insert(now.mono);
        if now.mono.saturating_sub(since) >= self.unload_after {
            self.unload(Unload::Idle, effects);
        }
    }

    pub(super) fn unload(&mut self, why: Unload, effects: &mut Vec<Effect>) {
        if self.slot != Slot::None {
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        effects.push(Effect::Commit(Op::Release));
        effects.push(Effect::Unload(why));
        self.phase = Phase::Lost;
    }

    /// Sets the timer anew when it has to fire at another time than before.
    pub(super) fn set_timer(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let wake = match &self.phase {
            Phase::Idle => Wake {
                wall_ms: self.next_due_ms(now),
                mono: earlier(
                    self.unload_at(),
                    self.claim_after.filter(|at| *at > now.mono),
                ),
            },
            Phase::Running(running) => Wake {
                wall_ms: None,
                mono: match &running.stop {
                    Some(stop) => Some(stop.deadline),
                    None => self.stopping,
                },
            },
            Phase::Closing(closing) => Wake {
                wall_ms: None,
                mono: closing.retry_at,
            },
            Phase::Reconciling { .. } => Wake {
                wall_ms: None,
                // A thread that is closed waits for the answer.
                mono: self.stopping.filter(|_| self.stop != StopWhy::Close),
            },
            Phase::Taking { .. } | Phase::Claimed { .. } | Phase::Lost => Wake::default(),
        };
        if wake != self.wake {
            self.wake = wake;
            effects.push(Effect::WakeAt(wake));
        }
    }

    fn unload_at(&self) -> Option<Duration> {
        self.unneeded_since.map(|since| since + self.unload_after)
    }

    /// When the wall clock next changes what may be claimed.
    fn next_due_ms(&self, now: Now) -> Option<i64> {
        let look = self.look.filter(|look| !look.paused && !look.elsewhere)?;
        let HeadLook::Due(due_ms) = look.head else {
            return None;
        };
        let free_ms = match look.waiting {
            WaitLook::No => due_ms,
            WaitLook::Until(until_ms) => due_ms.max(until_ms),
            WaitLook::Person => return None,
        };
        (free_ms > now.wall_ms).then_some(free_ms)
    }
}

fn waited_out(waiting: WaitLook, now_ms: i64) -> bool {
    match waiting {
        WaitLook::No => true,
        WaitLook::Until(until_ms) => until_ms <= now_ms,
        WaitLook::Person => false,
    }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
