//! What must hold between two steps, of the lane and the world together.
//!
//! The invariant here: nobody is forgotten, no slot is lost, and whatever only time can end has a
//! timer. These are checked after every step of every path.
//!
//! What must hold of the steps themselves is in `watch`.

use std::time::Duration;

use super::super::{Phase, Slot};
use super::watch::{Broken, must};
use super::world::{AFTER_MS, Node, OpIs, Place, SlotIs};
use crate::lane::event::{HeadLook, WaitLook};

impl Node {
    /// What holds between two steps.
    pub(super) fn settled(&self) -> Result<(), Broken> {
        let world = &self.world;
        let takes = world.ops.iter().filter(|op| op.takes_or_closes()).count();
        must!(
            takes + usize::from(world.engine.is_some()) + usize::from(world.asking) <= 1,
            "single flight"
        );
        if world.ended {
            must!(
                self.lane.phase == Phase::Lost,
                "a lane that ended stays ended"
            );
            must!(world.slot == SlotIs::None, "no slot is held after the end");
            let mut open = world
                .asked
                .iter()
                .filter(|asked| !world.under_way(asked.no));
            must!(open.next().is_none(), "nobody waits for a lane that ended");
            return Ok(());
        }
        must!(self.lane.look == self.shown, "a lane goes by the last look");
        let slot = match self.lane.slot {
            Slot::None => SlotIs::None,
            Slot::Asked => SlotIs::Asked,
            Slot::Held => SlotIs::Held,
        };
        must!(slot == world.slot, "slots are balanced");
        let idle = self.lane.is_idle();
        let free = world.place == Place::Free && takes == 0 && world.engine.is_none();
        must!(
            idle == free,
            "a lane is idle exactly if nothing is under way"
        );
        must!(
            !idle || world.slot != SlotIs::Held,
            "an idle lane holds no slot"
        );
        must!(
            world.by_itself || world.slot != SlotIs::Held,
            "a turn that somebody asked for holds no slot"
        );
        must!(
            !idle || world.stop_at.is_none(),
            "an idle lane ends when the worker stops"
        );
        self.accounted()?;
        self.timer(idle)
    }

    /// Whoever waits is remembered exactly once: by an operation, or by the lane.
    fn accounted(&self) -> Result<(), Broken> {
        let mut known: Vec<u64> = self.lane.kept.iter().map(|kept| kept.request.0).collect();
        known.extend(self.world.ops.iter().filter_map(|op| match op {
            OpIs::Steer(no) | OpIs::Append(no) => Some(*no),
            OpIs::Start(_)
            | OpIs::Claim { .. }
            | OpIs::Accept
            | OpIs::Unclaim(_)
            | OpIs::Complete { .. }
            | OpIs::Settle => None,
        }));
        match &self.lane.phase {
            Phase::Taking { request, .. } | Phase::Claimed { request } => {
                known.extend(request.map(|request| request.0));
            }
            Phase::Running(running) => {
                let requests = running.stop.iter().flat_map(|stop| &stop.requests);
                known.extend(requests.map(|request| request.0));
            }
            Phase::Closing(closing) => {
                known.extend(closing.interrupts.iter().map(|request| request.0));
                known.extend(closing.request.map(|request| request.0));
            }
            Phase::Idle | Phase::Reconciling { .. } | Phase::Lost => {}
        }
        let mut asked: Vec<u64> = self.world.asked.iter().map(|asked| asked.no).collect();
        known.sort_unstable();
        asked.sort_unstable();
        must!(known == asked, "whoever waits is remembered exactly once");
        Ok(())
    }

    /// Whatever only time can end has a timer.
    fn timer(&self, idle: bool) -> Result<(), Broken> {
        let world = &self.world;
        let by = |at: Duration| world.wake_mono == Some(at);
        if let Some(engine) = &world.engine {
            match (engine.cancel, world.stop_at) {
                (Some(deadline), _) => must!(by(deadline), "a deadline has a timer"),
                (None, Some(at)) => must!(by(at), "the grace of a stop has a timer"),
                (None, None) => {}
            }
        }
        if let (true, true, Some(at)) = (world.asking, world.worker_stops, world.stop_at) {
            must!(by(at), "a worker that stops does not wait for an engine");
        }
        let nothing = world.ops.iter().all(|op| !op.takes_or_closes());
        let nothing = nothing && !world.hooks && !world.asking;
        if world.place != Place::Free && world.engine.is_none() && nothing {
            must!(
                world.wake_mono.is_some(),
                "an end that failed is tried again"
            );
        }
        let later = self.shown.is_some_and(|look| {
            let head = look.head == HeadLook::Due(AFTER_MS);
            let wait = look.waiting == WaitLook::Until(AFTER_MS);
            let due = head || matches!(look.head, HeadLook::Due(_));
            let held = look.paused || look.elsewhere || look.waiting == WaitLook::Person;
            due && (head || wait) && !held && world.wall_ms < AFTER_MS
        });
        if idle && later {
            must!(
                world.wake_ms == Some(AFTER_MS),
                "a head that comes due has a timer"
            );
        }
        Ok(())
    }
}
