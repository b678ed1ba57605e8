//! What the moves of the world do: to itself, and by an event to the lane.
//!
//! The invariant here: what the lane wants is done before the next move, and checked while it is.
//! An operation of a client that finds the lane taken over comes back as failed before the lane is
//! told of the loss; nobody else could answer that client.
//!
//! Which moves there are is in `moves`.

use super::super::{HASTY_GRACE, Phase};
use super::moves::{Change, End, Move, ROWS_MAX};
use super::rules::turn;
use super::watch::{Broken, Cause};
use super::world::{Ask, Asked, Named, Node, OpIs, Place, RowIs, SlotIs, Waits, steering};
use crate::lane::event::{
    AfterInterrupt, CancelWhy, Committed, Event, FailedOp, Look, RequestNo, StartHow, StopHow,
};
use turnlane_store::queue::Which;

/// No exploration lets more requests wait at once.
const ASKED_MAX: u64 = 8;

impl Node {
    /// Makes one step; which rule was broken, if one was.
    pub(super) fn step(&mut self, step: Move) -> Result<(), Broken> {
        let (cause, event) = match step {
            Move::Ask(ask) => (Cause::Asked, self.ask(ask)),
            Move::Limit => (Cause::Asked, self.limit()),
            Move::Change(change) => {
                self.change(change);
                return Ok(());
            }
            Move::Look => {
                self.world.changed = false;
                let look = self.world.look();
                self.shown = Some(look);
                (Cause::Other, Event::Looked(look))
            }
            Move::Slot => {
                self.world.slot = SlotIs::Held;
                (Cause::Other, Event::Slot)
            }
            Move::Hook(verdict) => {
                self.world.hooks = false;
                (Cause::Other, Event::Hooked(verdict))
            }
            Move::Left => (Cause::Other, self.left()),
            Move::Reconciled(then) => {
                self.world.asking = false;
                (Cause::Other, Event::Reconciled { then })
            }
            Move::End(end) => return self.end(end),
            Move::CloseSteer => {
                let waiting = self
                    .world
                    .engine
                    .as_ref()
                    .map_or(0, |engine| engine.waiting);
                let waiting = usize::from(waiting);
                (Cause::CloseSteer, Event::CloseSteer { waiting })
            }
            Move::TakeSteer => {
                if let Some(engine) = &mut self.world.engine {
                    engine.handed -= 1;
                    engine.waiting -= 1;
                }
                return Ok(());
            }
            Move::Ended => {
                self.world.engine = None;
                (Cause::Other, Event::Ended)
            }
            Move::Tick => {
                self.pass();
                (Cause::Tick, Event::Tick)
            }
            Move::TickByWall => {
                self.world.wall_ms = self.world.wake_ms.unwrap_or(self.world.wall_ms);
                (Cause::Tick, Event::Tick)
            }
            Move::TickEarly => (Cause::Tick, Event::Tick),
            Move::Late => {
                self.pass();
                self.shift_back();
                return Ok(());
            }
            Move::Wall(wall_ms) => {
                self.world.wall_ms = wall_ms;
                return Ok(());
            }
            Move::Subscribers(count) => {
                self.world.subscribers = count;
                (Cause::Other, Event::Subscribers(count))
            }
            Move::Stop(how) => {
                self.stop(how);
                (Cause::Other, Event::Stop(how))
            }
        };
        self.tell(cause, event)
    }

    /// Tells the lane, and has done what it wants.
    fn tell(&mut self, cause: Cause, event: Event) -> Result<(), Broken> {
        let effects = self.lane.apply(self.world.now(), event);
        self.carry_out(cause, &effects)?;
        self.shift_back();
        Ok(())
    }

    /// The recovery of a dead worker's lane made it this worker's, with an undecided turn.
    fn left(&mut self) -> Event {
        let world = &mut self.world;
        world.place = Place::Undecided;
        world.turn = world.next_turn();
        world.elsewhere = false;
        world.changed = true;
        Event::Undecided {
            turn: turn(world.turn),
        }
    }

    fn limit(&self) -> Event {
        Event::Interrupt {
            request: None,
            turn: Some(turn(self.world.turn)),
            queue: AfterInterrupt::Continue,
            why: CancelWhy::Timeout,
        }
    }

    fn stop(&mut self, how: StopHow) {
        let at = match how {
            StopHow::After(grace) => self.world.mono + grace,
            StopHow::Now | StopHow::InHaste | StopHow::Forced | StopHow::Close => self.world.mono,
        };
        self.world.worker_stops |= how != StopHow::Close;
        if matches!(how, StopHow::InHaste | StopHow::Forced) {
            self.world.haste = true;
            let soon = self.world.mono + HASTY_GRACE;
            if let Some(engine) = &mut self.world.engine {
                engine.cancel = engine.cancel.map(|deadline| deadline.min(soon));
            }
        }
        self.world.stop_at = Some(self.world.stop_at.map_or(at, |set| set.min(at)));
    }

    fn pass(&mut self) {
        let at = self.world.wake_mono.unwrap_or(self.world.mono);
        self.world.mono = self.world.mono.max(at);
    }

    fn ask(&mut self, ask: Ask) -> Event {
        let world = &mut self.world;
        let free = |no: &u64| world.asked.iter().all(|asked| asked.no != *no);
        let no = (0..=ASKED_MAX).find(free).unwrap();
        let request = RequestNo(no);
        let number = |named: Named| match named {
            Named::Current => Some(world.turn),
            Named::Next => Some(world.next_turn()),
            Named::Any => None,
        };
        let start = |how| Event::Start { request, how };
        let interrupt = |named, queue| Event::Interrupt {
            request: Some(request),
            turn: number(named).map(turn),
            queue,
            why: CancelWhy::Interrupt,
        };
        let (event, named) = match ask {
            Ask::OrSteer => (start(StartHow::OrSteer), None),
            Ask::OrQueue => (start(StartHow::OrQueue), None),
            Ask::OrReject => (start(StartHow::OrReject), None),
            Ask::Row => (start(StartHow::Row(Which::HeadNow)), None),
            Ask::Steer(named) => {
                let turn = turn(number(named).unwrap_or(world.turn));
                (Event::Steer { request, turn }, number(named))
            }
            Ask::Interrupt(named) => (interrupt(named, AfterInterrupt::Continue), number(named)),
            Ask::InterruptAndPause(named) => {
                (interrupt(named, AfterInterrupt::Pause), number(named))
            }
        };
        let asked = Asked {
            no,
            ask,
            turn: named,
        };
        world.asked.push(asked);
        self.note_pause(asked);
        event
    }

    fn change(&mut self, change: Change) {
        let world = &mut self.world;
        world.changed = true;
        match change {
            Change::Add(row) => world.rows.push(row),
            Change::DeleteHead => {
                world.rows.remove(0);
            }
            Change::HoldHead => world.rows[0] = RowIs::Held,
            Change::Pause => world.paused = true,
            Change::Resume => world.paused = false,
            Change::Waits(waits) => world.waits = waits,
            Change::Elsewhere(elsewhere) => world.elsewhere = elsewhere,
        }
    }

    /// Ends the first operation under way.
    fn end(&mut self, end: End) -> Result<(), Broken> {
        let Some(op) = self.world.ops.pop_front() else {
            return Err("nothing is under way");
        };
        match end {
            End::Began { steerable } => {
                self.take_row(op);
                self.world.place = Place::Started;
                self.world.turn = self.world.next_turn();
                let began = Committed::Began {
                    turn: turn(self.world.turn),
                    steering: steering(steerable),
                };
                self.result(Cause::Began { steerable }, began)
            }
            End::Claimed => {
                self.take_row(op);
                self.world.place = Place::Claimed;
                self.result(Cause::Result, Committed::Claimed)
            }
            End::Settled => {
                if self.world.rows.len() < ROWS_MAX {
                    self.world.rows.push(RowIs::Due);
                }
                self.world.changed = true;
                self.result(Cause::Result, Committed::Settled)
            }
            End::Refused(row) => {
                self.take_row(op);
                let look = self.free(row);
                self.result(Cause::Result, Committed::Refused(look))
            }
            End::NotNow => {
                let look = self.world.look();
                self.shown = Some(look);
                self.result(Cause::Result, Committed::NotNow(look))
            }
            End::Closed(row, waits) => {
                self.world.waits = waits;
                self.world.paused |= matches!(op, OpIs::Complete { pause: true });
                let look = self.free(row);
                if matches!(op, OpIs::Complete { .. } | OpIs::Settle) {
                    self.world.pause = false;
                    return self.result(Cause::Completed, Committed::Completed(look));
                }
                self.result(Cause::Result, Committed::Unclaimed(look))
            }
            End::Steered | End::Appended | End::Failed => self.request_ended(op, end),
            End::Fenced => {
                self.world.place = Place::Free;
                if let OpIs::Steer(_) = op {
                    self.request_ended(op, End::Failed)?;
                }
                self.result(Cause::Fenced, Committed::Fenced)
            }
        }
    }

    fn request_ended(&mut self, op: OpIs, end: End) -> Result<(), Broken> {
        let failed = end == End::Failed;
        let (cause, committed) = match op {
            OpIs::Steer(no) if failed => {
                if let Some(engine) = &mut self.world.engine {
                    engine.waiting -= 1;
                }
                (
                    Cause::Result,
                    Committed::Failed(FailedOp::Steer(RequestNo(no))),
                )
            }
            OpIs::Steer(no) => (Cause::Steered, Committed::Steered(RequestNo(no))),
            OpIs::Append(no) if failed => (
                Cause::Result,
                Committed::Failed(FailedOp::Append(RequestNo(no))),
            ),
            OpIs::Append(no) => {
                if self.world.rows.len() < ROWS_MAX {
                    self.world.rows.push(RowIs::Due);
                }
                self.world.changed = !self.world.ended;
                (Cause::Result, Committed::Appended(RequestNo(no)))
            }
            OpIs::Start(_) | OpIs::Claim { .. } | OpIs::Accept => {
                (Cause::Result, Committed::Failed(FailedOp::Taking))
            }
            OpIs::Unclaim(_) | OpIs::Complete { .. } | OpIs::Settle => {
                (Cause::Result, Committed::Failed(FailedOp::Closing))
            }
        };
        self.result(cause, committed)
    }

    fn result(&mut self, cause: Cause, committed: Committed) -> Result<(), Broken> {
        self.tell(cause, Event::Committed(committed))
    }

    /// A claim takes the head away; one that names it ends a pause and a wait.
    fn take_row(&mut self, op: OpIs) {
        if let OpIs::Claim { request } = op {
            self.world.rows.remove(0);
            if request.is_some() {
                self.world.paused = false;
                self.world.waits = Waits::No;
            }
        }
    }

    /// The lane's place is free again; a row that comes back goes to the head.
    fn free(&mut self, row: Option<RowIs>) -> Look {
        let world = &mut self.world;
        world.place = Place::Free;
        if let Some(row) = row {
            world.rows.insert(0, row);
            world.rows.truncate(ROWS_MAX);
        }
        let look = world.look();
        self.shown = Some(look);
        look
    }

    /// A lane that has ended and whom nobody waits for is loaded again, over the same queue.
    pub(super) fn load_again(&mut self) {
        let world = &self.world;
        if world.ended && world.asked.is_empty() && world.ops.is_empty() {
            let again = Self::new(&world.rows);
            let (paused, waits, turn) = (world.paused, world.waits, world.turn);
            *self = again;
            self.world.paused = paused;
            self.world.waits = waits;
            self.world.turn = turn;
        }
    }

    /// Whether the lane's task has ended or nothing at all is under way.
    pub(super) fn rests(&self) -> bool {
        let world = &self.world;
        let under_way = !world.ops.is_empty() || world.engine.is_some() || world.hooks;
        let under_way = under_way || world.asking;
        !under_way && matches!(self.lane.phase, Phase::Idle | Phase::Lost)
    }
}
