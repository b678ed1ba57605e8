//! A turn that a dead worker left and that only its engine can decide about.
//!
//! The invariants here: while the engine is asked nothing begins in the lane, and requests that depend
//! on the answer are kept until it is recorded; a worker that stops does not wait longer than its grace
//! and leaves the question to the next worker, which asks again.
//!
//! What follows from the answer is decided in `lane::recovery` and `lane::fate`.

use super::super::event::{AfterReconcile, Answer, Effect, Op, Unload};
use super::{ClosingPhase, LaneState, Phase, Slot, StopWhy};
use turnlane_store::TurnId;

impl LaneState {
    /// A dead worker left a turn in this lane, which is ours now.
    pub(super) fn left_undecided(&mut self, turn: TurnId, effects: &mut Vec<Effect>) {
        match &self.phase {
            Phase::Idle => self.ask_engine(turn, effects),
            // The store lets nothing begin in a lane with an undecided turn, so that this phase ends
            // without a turn.
            Phase::Taking { .. } | Phase::Claimed { .. } | Phase::Closing(_) => {
                self.undecided = Some(turn);
            }
            // Told twice, or too late.
            Phase::Reconciling { .. } | Phase::Running(_) | Phase::Lost => {}
        }
    }

    pub(super) fn ask_engine(&mut self, turn: TurnId, effects: &mut Vec<Effect>) {
        if self.slot == Slot::Held {
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        self.phase = Phase::Reconciling { turn };
        effects.push(Effect::AskEngine);
    }

    /// The answer is in: it is recorded as the end of any turn is.
    pub(super) fn reconciled(&mut self, then: AfterReconcile, effects: &mut Vec<Effect>) {
        let Phase::Reconciling { turn } = self.phase else {
            return;
        };
        self.leaves = then == AfterReconcile::Leave;
        self.phase = Phase::Closing(ClosingPhase {
            op: Op::Settle,
            turn: Some(turn),
            interrupts: Vec::new(),
            request: None,
            retry_at: None,
        });
        effects.push(Effect::Commit(Op::Settle));
    }

    /// Gives the lane up if no client has asked for it since: unloads it if it was loaded for the
    /// question alone, and lets other workers have it if nothing waits in it.
    pub(super) fn leave_if_unneeded(&mut self, effects: &mut Vec<Effect>) {
        let leaves = std::mem::take(&mut self.leaves);
        let idle = self.phase == Phase::Idle && self.stopping.is_none();
        if !idle || self.subscribers > 0 {
            return;
        }
        if leaves {
            self.unload(Unload::Idle, effects);
        } else if !self.has_rows() {
            effects.push(Effect::Commit(Op::Release));
        }
    }

    /// The worker stops: the row stays undecided, and the next worker asks again.
    pub(super) fn leave_undecided(&mut self, effects: &mut Vec<Effect>) {
        if self.stop == StopWhy::Close {
            // A thread can be archived or deleted only when nothing is under way.
            return;
        }
        for kept in std::mem::take(&mut self.kept) {
            effects.push(Effect::Answer(kept.request, Answer::Stopping));
        }
        if self.slot != Slot::None {
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        effects.push(Effect::Unload(Unload::Stopping));
        self.phase = Phase::Lost;
    }
}
