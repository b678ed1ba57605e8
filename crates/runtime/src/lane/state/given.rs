//! A turn that another transaction has begun: a fan-out item or its repair turn.
//!
//! The invariants here: such a turn takes no slot and passes no claim, since its transaction has
//! occupied the lane; from then on it is a turn as any other. A lane that ran one is unloaded as soon
//! as no client needs it.

use std::time::Duration;

use super::super::event::Effect;
use super::{LaneState, Phase, Slot, Take};

impl LaneState {
    /// A turn has begun in this lane, which is ours now.
    pub(super) fn give(&mut self, effects: &mut Vec<Effect>) {
        self.unload_after = Duration::ZERO;
        match &self.phase {
            Phase::Idle => self.take_given(effects),
            // The store lets nothing begin in a lane that is occupied, so that this phase ends without
            // a turn, or its turn has ended in the store.
            Phase::Taking { .. }
            | Phase::Claimed { .. }
            | Phase::Reconciling { .. }
            | Phase::Running(_)
            | Phase::Closing(_) => self.given = true,
            Phase::Lost => {}
        }
    }

    pub(super) fn take_given(&mut self, effects: &mut Vec<Effect>) {
        if self.slot != Slot::None {
            self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        self.phase = Phase::Taking {
            request: None,
            take: Take::Begin,
        };
        effects.push(Effect::TakeGiven);
    }
}
