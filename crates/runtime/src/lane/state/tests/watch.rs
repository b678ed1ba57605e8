//! What must hold, whatever happens in whatever order.
//!
//! The invariant here: every rule has a name and is checked on every step of every path, from what
//! the lane says and what the world knows. What the lane does is carried out in the world at the
//! same time, so the two can never disagree unseen.
//!
//! What the world may do is in `step`.

use super::super::{HASTY_GRACE, STOP_GRACE};
use super::rules::turn;
use super::world::{Ask, Asked, EngineIs, Node, OpIs, Place, SlotIs, Stays};
use crate::lane::event::{
    AfterInterrupt, Answer, CancelWhy, Closing, Effect, EndHow, HeadLook, Op, Tell, UnclaimWhy,
    Unload, WaitLook,
};
use turnlane_store::queue::Which;

/// A rule that did not hold.
pub(super) type Broken = &'static str;

/// What the lane was told when it did this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Asked,
    /// A turn began; whether its engine takes steers.
    Began {
        steerable: bool,
    },
    /// The end of a turn is on disk.
    Completed,
    Fenced,
    /// Any other result of an operation.
    Result,
    Steered,
    Tick,
    CloseSteer,
    Other,
}

/// What holds of one step, beside the world.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says of one thing whether it was seen"
)]
pub(super) struct Step {
    pub cause: Cause,
    dropped: bool,
    unloads: bool,
    ran: bool,
    completed: bool,
}

macro_rules! must {
    ($holds:expr, $rule:literal) => {
        if !$holds {
            return Err($rule);
        }
    };
}
pub(super) use must;

impl Node {
    /// Carries out what the lane wants, and checks it.
    pub(super) fn carry_out(&mut self, cause: Cause, effects: &[Effect]) -> Result<(), Broken> {
        let gone = self.world.ended;
        let mut step = Step {
            cause,
            dropped: false,
            unloads: effects
                .iter()
                .any(|effect| matches!(effect, Effect::Unload(_))),
            ran: false,
            completed: false,
        };
        for effect in effects {
            must!(
                !gone || matches!(effect, Effect::Answer(..)),
                "after its end a lane only answers"
            );
            self.one(&mut step, effect)?;
        }
        let began = matches!(cause, Cause::Began { .. });
        must!(
            began == step.ran,
            "an engine runs exactly when a turn has begun"
        );
        must!(
            (cause == Cause::Completed && !gone) == step.completed,
            "clients are told of every end exactly once"
        );
        self.world.by_itself &= !self.lane.is_idle();
        self.settled()
    }

    fn one(&mut self, step: &mut Step, effect: &Effect) -> Result<(), Broken> {
        match *effect {
            Effect::Commit(op) => self.submitted(step, op),
            Effect::AskSlot => {
                must!(
                    self.world.slot == SlotIs::None,
                    "one slot is asked for at a time"
                );
                self.world.slot = SlotIs::Asked;
                Ok(())
            }
            Effect::GiveSlot => {
                let asked = self.world.slot == SlotIs::Asked && step.unloads;
                must!(
                    asked || self.world.slot == SlotIs::Held,
                    "a slot is given back exactly once"
                );
                self.world.slot = SlotIs::None;
                Ok(())
            }
            Effect::RunHooks => {
                let claimed = self.world.place == Place::Claimed && !self.world.hooks;
                must!(claimed, "hooks are asked about a claimed row, once");
                self.world.hooks = true;
                Ok(())
            }
            Effect::RunEngine => self.run_engine(step),
            Effect::TakeGiven => {
                must!(false, "a begun turn is taken over only where one was given");
                Ok(())
            }
            Effect::AskEngine => self.ask_engine(),
            Effect::HandSteer(_) => {
                must!(
                    step.cause == Cause::Steered,
                    "a steer is handed over once it is on disk"
                );
                if let Some(engine) = &mut self.world.engine {
                    engine.handed += 1;
                }
                Ok(())
            }
            Effect::CloseSteer(closing) => self.close_steer(step, closing),
            Effect::Cancel(why) => self.cancel(step, why),
            Effect::Drop => self.drop_engine(step),
            Effect::Answer(request, answer) => self.answer(step, request.0, answer),
            Effect::Tell(Tell::Began) => {
                must!(
                    matches!(step.cause, Cause::Began { .. }),
                    "told of a turn that did not begin"
                );
                Ok(())
            }
            Effect::Tell(Tell::Completed) => {
                must!(
                    step.cause == Cause::Completed,
                    "told of an end that is not on disk"
                );
                step.completed = true;
                Ok(())
            }
            Effect::WakeAt(wake) => {
                self.world.wake_ms = wake.wall_ms;
                self.world.wake_mono = wake.mono;
                Ok(())
            }
            Effect::Unload(why) => self.unload(step, why),
        }
    }

    fn submitted(&mut self, step: &Step, op: Op) -> Result<(), Broken> {
        let world = &self.world;
        let busy = world.ops.iter().any(|op| op.takes_or_closes());
        let free = world.place == Place::Free && world.engine.is_none() && !busy;
        let op = match op {
            Op::Release => {
                must!(free, "only an idle lane is given up");
                return Ok(());
            }
            Op::Start(request) => {
                must!(free, "single flight: a start while something is under way");
                self.in_order(request.0)?;
                OpIs::Start(request.0)
            }
            Op::Claim { which, request } => {
                must!(free, "single flight: a claim while something is under way");
                match request {
                    Some(request) => self.in_order(request.0)?,
                    None => self.head_may_be_claimed(which)?,
                }
                OpIs::Claim {
                    request: request.map(|request| request.0),
                }
            }
            Op::Accept => {
                let ours = world.place == Place::Claimed && !world.hooks && !busy;
                must!(ours, "only a claimed row is accepted, after its hooks");
                OpIs::Accept
            }
            Op::Unclaim(why) => {
                must!(
                    world.place == Place::Claimed && !busy,
                    "only a claimed row is unclaimed"
                );
                must!(
                    why != UnclaimWhy::Blocked || !world.hooks,
                    "a row is blocked by the verdict of its hooks"
                );
                OpIs::Unclaim(match why {
                    UnclaimWhy::Blocked => Stays::Held,
                    UnclaimWhy::GoBack => Stays::Due,
                })
            }
            Op::Complete { how, queue } => {
                must!(
                    world.place == Place::Started && world.engine.is_none() && !busy,
                    "single flight: a turn is completed once, after its engine"
                );
                must!(
                    step.cause == Cause::Tick || how == EndHow::Ended,
                    "an engine that ended was not given up"
                );
                must!(
                    !step.dropped || how == EndHow::Dropped,
                    "an engine was given up unrecorded"
                );
                let pause = queue == AfterInterrupt::Pause;
                must!(
                    pause == self.world.pause,
                    "the queue stops exactly if an interrupt said so"
                );
                OpIs::Complete { pause }
            }
            Op::Settle => self.settles(busy)?,
            Op::Steer(request) => {
                self.may_be_steered(request.0)?;
                OpIs::Steer(request.0)
            }
            Op::Append(request) => {
                let queue = |asked: &Asked| asked.no == request.0 && asked.ask == Ask::OrQueue;
                must!(world.asked.iter().any(queue), "a row nobody asked for");
                OpIs::Append(request.0)
            }
        };
        if let OpIs::Start(_) | OpIs::Claim { .. } = op {
            self.world.by_itself = op == OpIs::Claim { request: None };
        }
        self.world.ops.push_back(op);
        Ok(())
    }

    fn settles(&self, busy: bool) -> Result<OpIs, Broken> {
        let world = &self.world;
        must!(
            world.place == Place::Undecided && !world.asking && !busy,
            "a turn of a dead worker is decided once, after its engine was asked"
        );
        Ok(OpIs::Settle)
    }

    /// Starts that were kept are looked at in the order they came in.
    fn in_order(&self, no: u64) -> Result<(), Broken> {
        let before = self.world.asked.iter().take_while(|asked| asked.no != no);
        let mut kept =
            before.filter(|asked| asked.ask.is_start() && !self.world.under_way(asked.no));
        must!(kept.next().is_none(), "kept starts are taken in order");
        must!(
            self.world.stop_at.is_none(),
            "a worker that stops takes no new turn"
        );
        Ok(())
    }

    fn head_may_be_claimed(&self, which: Which) -> Result<(), Broken> {
        must!(which == Which::Head, "nobody asked for a row out of order");
        must!(self.world.slot == SlotIs::Held, "no claim without a slot");
        must!(
            self.world.stop_at.is_none(),
            "no claim while the worker stops"
        );
        let Some(look) = self.shown else {
            return Err("no claim without a look");
        };
        must!(!look.paused, "no claim while paused");
        must!(!look.elsewhere, "no claim of a lane that is elsewhere");
        match look.waiting {
            WaitLook::No => {}
            WaitLook::Until(until_ms) => {
                must!(until_ms <= self.world.wall_ms, "no claim while waiting");
            }
            WaitLook::Person => return Err("no claim while waiting for a person"),
        }
        match look.head {
            HeadLook::Due(at_ms) => must!(at_ms <= self.world.wall_ms, "no claim before its time"),
            HeadLook::None => return Err("no claim without a row"),
            HeadLook::Held => return Err("no claim of a failed head"),
            HeadLook::Others => return Err("no claim of another worker's head"),
        }
        let mut kept = self
            .world
            .asked
            .iter()
            .filter(|asked| !self.world.under_way(asked.no));
        must!(
            kept.next().is_none(),
            "requests that were kept come before any row"
        );
        Ok(())
    }

    fn may_be_steered(&mut self, no: u64) -> Result<(), Broken> {
        self.world
            .asked
            .iter()
            .find(|asked| asked.no == no)
            .filter(|asked| match asked.ask {
                Ask::OrSteer => true,
                Ask::Steer(_) => asked.turn == Some(self.world.turn),
                Ask::OrQueue
                | Ask::OrReject
                | Ask::Row
                | Ask::Interrupt(_)
                | Ask::InterruptAndPause(_) => false,
            })
            .ok_or("a steer for another turn")?;
        let Some(engine) = &mut self.world.engine else {
            return Err("a steer without a running turn");
        };
        must!(engine.open, "a steer after steering was closed");
        must!(engine.cancel.is_none(), "a steer after an interrupt");
        engine.waiting += 1;
        Ok(())
    }

    fn ask_engine(&mut self) -> Result<(), Broken> {
        let world = &mut self.world;
        let busy = world.ops.iter().any(|op| op.takes_or_closes());
        must!(
            world.place == Place::Undecided && !world.asking && !busy,
            "an engine is asked once, about a turn that is undecided"
        );
        must!(
            world.slot != SlotIs::Held,
            "a question to an engine needs no slot"
        );
        world.asking = true;
        Ok(())
    }

    fn run_engine(&mut self, step: &mut Step) -> Result<(), Broken> {
        let Cause::Began { steerable } = step.cause else {
            return Err("accept before effect: an engine runs before its turn is on disk");
        };
        must!(
            self.world.engine.is_none() && !step.ran,
            "single flight: two engines"
        );
        step.ran = true;
        self.world.engine = Some(EngineIs {
            waiting: 0,
            handed: 0,
            open: steerable,
            steerable,
            cancel: None,
        });
        self.world.pause = false;
        // Interrupts that were kept are looked at now.
        for asked in self.world.asked.clone() {
            self.note_pause(asked);
        }
        Ok(())
    }

    /// Remembers that an interrupt of the running turn wants the queue to stop.
    pub(super) fn note_pause(&mut self, asked: Asked) {
        let this = asked.turn.is_none_or(|turn| turn == self.world.turn);
        let pauses = matches!(asked.ask, Ask::InterruptAndPause(_));
        if this && pauses && self.world.engine.is_some() {
            self.world.pause = true;
        }
    }

    fn close_steer(&mut self, step: &Step, closing: Closing) -> Result<(), Broken> {
        must!(
            step.cause == Cause::CloseSteer,
            "an answer to a question nobody asked"
        );
        let Some(engine) = &mut self.world.engine else {
            return Ok(());
        };
        let more = engine.waiting > 0 && engine.cancel.is_none();
        must!(
            (closing == Closing::More) == more,
            "steers that wait are taken before a turn ends"
        );
        if closing == Closing::Closed {
            engine.open = false;
        }
        Ok(())
    }

    fn cancel(&mut self, step: &Step, why: CancelWhy) -> Result<(), Broken> {
        let now = self.world.mono;
        let stops = self.world.stop_at.is_some_and(|at| at <= now);
        let Some(engine) = &mut self.world.engine else {
            return Err("nothing runs that could be told to stop");
        };
        must!(engine.cancel.is_none(), "an engine is told to stop once");
        match why {
            CancelWhy::Shutdown => must!(
                stops && self.world.worker_stops,
                "a shutdown before its grace was over"
            ),
            CancelWhy::Interrupt | CancelWhy::Timeout => must!(
                matches!(step.cause, Cause::Asked | Cause::Began { .. })
                    || (stops && !self.world.worker_stops),
                "an interrupt nobody asked for"
            ),
        }
        let grace = if self.world.haste {
            HASTY_GRACE
        } else {
            STOP_GRACE
        };
        engine.cancel = Some(now + grace);
        Ok(())
    }

    fn drop_engine(&mut self, step: &mut Step) -> Result<(), Broken> {
        let Some(engine) = self.world.engine.take() else {
            return Err("nothing runs that could be given up");
        };
        let late = engine
            .cancel
            .is_some_and(|deadline| deadline <= self.world.mono);
        must!(
            late || step.cause == Cause::Fenced,
            "an engine is given up after its deadline only"
        );
        step.dropped = true;
        Ok(())
    }

    fn unload(&mut self, step: &Step, why: Unload) -> Result<(), Broken> {
        let world = &mut self.world;
        must!(world.engine.is_none(), "no lane ends while an engine runs");
        must!(world.slot == SlotIs::None, "no slot is held after the end");
        let holds = match why {
            Unload::Lost => step.cause == Cause::Fenced,
            Unload::Stopping => {
                let undecided = world.place == Place::Undecided;
                world.worker_stops && (undecided || world.place == Place::Free)
            }
            Unload::Closed => {
                world.stop_at.is_some() && !world.worker_stops && world.place == Place::Free
            }
            Unload::Idle => world.subscribers == 0 && world.place == Place::Free,
        };
        must!(holds, "a lane ends for a reason");
        must!(
            why == Unload::Lost || !world.ops.iter().any(|op| op.takes_or_closes()),
            "no lane ends with its own operation under way"
        );
        world.ended = true;
        world.hooks = false;
        world.asking = false;
        world.wake_ms = None;
        world.wake_mono = None;
        Ok(())
    }

    fn answer(&mut self, step: &Step, no: u64, answer: Answer) -> Result<(), Broken> {
        let world = &mut self.world;
        let Some(at) = world.asked.iter().position(|asked| asked.no == no) else {
            return Err("a request is answered once");
        };
        let asked = world.asked.remove(at);
        must!(
            !world.under_way(no),
            "no answer while its operation is under way"
        );
        let committed = !matches!(
            step.cause,
            Cause::Asked | Cause::Tick | Cause::CloseSteer | Cause::Other
        );
        let undecided = world.place == Place::Undecided;
        let runs = (undecided || world.place == Place::Started) && !world.ended;
        let open = world
            .engine
            .as_ref()
            .is_some_and(|engine| engine.open && engine.cancel.is_none());
        let start = asked.ask.is_start();
        let interrupt = asked.ask.is_interrupt();
        let other = asked.turn.is_some_and(|turn| turn != world.turn);
        let holds = match answer {
            Answer::Result => committed && !interrupt,
            Answer::Steered(which) => {
                step.cause == Cause::Steered && which == turn(world.turn) && !interrupt
            }
            Answer::Interrupted => step.cause == Cause::Completed && interrupt && !other,
            Answer::NotRunning => interrupt && !runs,
            Answer::NoActiveTurn => !start && !interrupt && !open,
            Answer::OtherTurn(which) => !start && other && runs && which == turn(world.turn),
            Answer::NotSteerable => {
                !interrupt
                    && world
                        .engine
                        .as_ref()
                        .is_some_and(|engine| !engine.steerable)
            }
            Answer::Busy => {
                let free = world.place == Place::Free && world.ops.is_empty();
                matches!(asked.ask, Ask::OrReject | Ask::Row) && !free
            }
            Answer::Overloaded => false,
            Answer::Stopping => (start || undecided && step.unloads) && world.worker_stops,
            Answer::Closing => start && world.stop_at.is_some() && !world.worker_stops,
            // What an operation brought is told, also after the end.
            Answer::Lost => match step.cause {
                Cause::Fenced => step.unloads,
                Cause::Asked => world.ended,
                Cause::Began { .. }
                | Cause::Completed
                | Cause::Result
                | Cause::Steered
                | Cause::Tick
                | Cause::CloseSteer
                | Cause::Other => false,
            },
        };
        must!(holds, "an answer says what is so");
        Ok(())
    }
}
