//! What the numbers of a step choose: a row, a grip, a fate.

use turnlane_store::lane::Paused;
use turnlane_store::queue::{Back, Fate, NewRow, Policies, Which};
use turnlane_store::recovery::Loss;
use turnlane_store::turn::{
    Complete, Keep, PauseChange, PauseWhen, Put, TurnStatus, WaitingChange,
};
use turnlane_store::{RowId, TurnId, WorkerId};

use super::{Kind, Step};
use crate::build::{completed, failed, json, waiting};
use crate::model::op::{How, What, numbered_turn};
use crate::model::world::{Given, WORKERS, World};

impl Step {
    pub(super) fn complete(self, given: Given, next: TurnId, at_ms: i64) -> Complete {
        let wait = self.wait(at_ms);
        let limited = Fate::Back {
            turn: next,
            not_before_ms: wait.unwrap_or(0),
            why: Back::Limit,
        };
        let begin = WaitingChange::Begin(waiting(wait));
        let stopped = |why| Fate::Back {
            turn: next,
            not_before_ms: 0,
            why,
        };
        let (fate, waiting) = match self.pick % 10 {
            0..3 => (Fate::Done, WaitingChange::End),
            3 => (Fate::Done, begin),
            4 => (limited, begin),
            5 => {
                let again = Fate::Back {
                    turn: next,
                    not_before_ms: at_ms + 2,
                    why: Back::Retry,
                };
                (again, WaitingChange::Keep)
            }
            6 => {
                let failed = Fate::Block {
                    failure: json("\"broken\""),
                    turn: next,
                };
                (failed, WaitingChange::Keep)
            }
            7 => (stopped(Back::Continue), WaitingChange::Keep),
            8 => (stopped(Back::Anew), WaitingChange::Keep),
            _ => (Fate::Done, WaitingChange::Keep),
        };
        let pause = Paused {
            reason: "interrupt".to_owned(),
            by: None,
            since_ms: at_ms,
        };
        let mut end = if self.pick % 10 < 3 {
            completed()
        } else {
            failed()
        };
        if self.more > 220 {
            end.status = TurnStatus::Interrupted;
        }
        Complete {
            grip: given.grip,
            row: given.row,
            turn_ord: 0,
            end,
            put: Put::default(),
            fate,
            waiting,
            pause: match self.more % 7 {
                1 => PauseChange::Begin {
                    paused: pause,
                    when: PauseWhen::Always,
                },
                2 => PauseChange::Begin {
                    paused: pause,
                    when: PauseWhen::RowsWait,
                },
                3 => PauseChange::End {
                    reason: pause.reason,
                },
                _ => PauseChange::Keep,
            },
            keep: [Keep::Ours, Keep::UnlessIdle][usize::from(self.more >> 4) % 2],
            at_ms,
        }
    }

    pub(super) fn new_row(self, world: &mut World) -> NewRow {
        let id = world.new_row();
        let keyed = matches!(self.kind, Kind::AppendKeyed | Kind::StartKeyed);
        let later = self.kind == Kind::AppendLater;
        let bound = self.kind == Kind::AppendBound;
        NewRow {
            id,
            turn: numbered_turn(id, 0),
            source: "queue".to_owned(),
            params: json("{}"),
            client_id: format!("{}", id.as_uuid().as_u128() & 0xffff),
            key: keyed.then(|| format!("k{}", self.pick % 2)),
            content_hash: [u8::from(self.more > 200); 32],
            not_before_ms: if later {
                world.now_ms + i64::from(self.pick % 4)
            } else {
                0
            },
            policies: Policies::default(),
            bound: bound.then(|| world.open[usize::from(self.pick) % WORKERS]),
        }
    }

    /// Mostly a row that is visible, else any that the lane ever had, else none at all.
    pub(super) fn row(self, world: &World, pick: u8) -> RowId {
        let lane = &world.lanes[self.lane];
        let pick = usize::from(pick);
        let any: Vec<RowId> = lane.rows.keys().copied().collect();
        let rows = if pick < 200 && !lane.visible.is_empty() {
            &lane.visible
        } else {
            &any
        };
        let never = uuid::Uuid::from_u128(2 << 120).into();
        rows.get(pick % rows.len().max(1)).copied().unwrap_or(never)
    }

    pub(super) fn now(self, world: &World) -> Which {
        if self.more & 1 == 0 {
            Which::HeadNow
        } else {
            Which::Row(self.row(world, self.pick))
        }
    }

    /// Mostly the grip that holds, else one that was given before.
    pub(super) fn given(self, world: &World) -> Given {
        let lane = &world.lanes[self.lane];
        let holds = |given: &&Given| given.grip == lane.grip();
        let current = world.given.iter().rfind(holds).copied();
        let back = usize::from(self.pick) % world.given.len().clamp(1, 8);
        let older = world.given.iter().rev().nth(back).copied();
        let none = Given {
            grip: lane.grip(),
            row: uuid::Uuid::from_u128(2 << 120).into(),
        };
        let chosen = if self.grip < 4 {
            current.or(older)
        } else {
            older
        };
        chosen.unwrap_or(none)
    }

    /// Another live worker than the one that acts.
    pub(super) fn other(self, world: &World) -> WorkerId {
        let me = self.slot(world);
        let owner = world.lanes[self.lane].owner;
        let live = owner.filter(|owner| !world.is_dead(*owner) && *owner != world.open[me]);
        live.unwrap_or(world.open[(me + 1) % WORKERS])
    }

    pub(super) fn wait(self, at_ms: i64) -> Option<i64> {
        [None, Some(at_ms + 1), Some(at_ms + 3)][usize::from(self.more) % 3]
    }

    pub(super) fn how(self, at_ms: i64) -> How {
        match self.pick % 6 {
            0 => How::Block,
            1 => How::Fail,
            2 => How::Back,
            3 => How::Wait(self.wait(at_ms)),
            4 => How::Dead,
            _ => How::Cancel,
        }
    }

    pub(super) fn what(self) -> What {
        match self.more % 8 {
            0 => What::Done,
            1 => What::Back(Loss::Counted),
            2 => What::Back(Loss::Retry),
            3 => What::Block,
            4 => What::Cancel,
            5 => What::Undo,
            6 => What::Leave,
            _ => What::Ask,
        }
    }
}
