//! The reference, second part: turns, their ends, and what dead workers leave.

use turnlane_store::queue::{Back, CannotStart, Fate, NewRow, Row, RowState};
use turnlane_store::recovery::{Decision, FoundFate, Loss};
use turnlane_store::turn::{
    Accept, Complete, ItemRow, Keep, PauseChange, PauseWhen, TurnEnd, TurnRow, TurnStatus,
    WaitingChange,
};
use turnlane_store::{RowId, StoreError, WorkerId};

use super::{End, Lane};
use crate::build::BOOT;

impl Lane {
    /// Records a turn of a row and its message.
    pub(super) fn record(&mut self, row: &Row, accept: &Accept, end: Option<&TurnEnd>, at_ms: i64) {
        let ord = self.turns.last().map_or(1, |turn| turn.ord + 1);
        self.turns.push(TurnRow {
            ord,
            id: row.turn,
            row: Some(row.id),
            attempt: row.attempts,
            source: row.source.clone(),
            status: end.map_or(TurnStatus::InProgress, |end| end.status),
            muted: end.is_some_and(|end| end.muted),
            error: end.and_then(|end| end.error.clone()),
            usage: end.and_then(|end| end.usage.clone()),
            started_ms: at_ms,
            completed_ms: end.map(|_| at_ms),
        });
        if let Some(said) = &accept.item {
            self.items.push(ItemRow {
                ord: self.next_item(),
                turn_ord: ord,
                id: said.id.clone(),
                kind: said.kind.clone(),
                body: said.body.clone(),
                started_ms: at_ms,
                completed_ms: at_ms,
            });
        }
    }

    pub(crate) fn next_item(&self) -> i64 {
        self.items.last().map_or(1, |item| item.ord + 1)
    }

    pub(crate) fn begin(&mut self, row: RowId, accept: &Accept, at_ms: i64) {
        self.stored(row).state = RowState::Started;
        let row = self.rows[&row].clone();
        self.record(&row, accept, None, at_ms);
    }

    /// Begins a direct turn of a new row.
    pub(crate) fn begin_direct(&mut self, me: WorkerId, new: &NewRow, accept: &Accept, at_ms: i64) {
        let mut row = self.born(new, RowState::Started, at_ms);
        row.attempts = 1;
        self.rows.insert(row.id, row);
        self.occupy(me, new.id);
        self.begin(new.id, accept, at_ms);
    }

    /// Answers for a direct turn that cannot start: only a failed turn is kept.
    pub(crate) fn refuse_direct(&mut self, new: &NewRow, how: &CannotStart, at_ms: i64) -> Row {
        let mut row = self.born(new, RowState::Started, at_ms);
        row.attempts = 1;
        row.ended_ms = Some(at_ms);
        match how {
            CannotStart::Fail(ended) => {
                self.record(&row, &ended.accept, Some(&ended.end), at_ms);
                row.state = RowState::Done;
                self.rows.insert(row.id, row.clone());
            }
            CannotStart::Block { failure, .. } | CannotStart::Dead { failure } => {
                row.failure = Some(failure.clone());
                row.state = RowState::Dead;
            }
            CannotStart::Back { .. } | CannotStart::Cancel => row.state = RowState::Dead,
        }
        row
    }

    fn end_turn(&mut self, ord: i64, end: &TurnEnd, at_ms: i64) {
        let turn = self.turns.iter_mut().find(|turn| turn.ord == ord).unwrap();
        turn.status = end.status;
        turn.muted = end.muted;
        turn.error.clone_from(&end.error);
        turn.usage.clone_from(&end.usage);
        turn.completed_ms = Some(at_ms);
    }

    pub(crate) fn complete(&mut self, complete: &Complete) -> End<()> {
        let started = self.under_way(complete.row, RowState::Started);
        started.or_else(|_| self.under_way(complete.row, RowState::Reconcile))?;
        let runs =
            |turn: &TurnRow| turn.ord == complete.turn_ord && turn.status == TurnStatus::InProgress;
        // A row that is being decided may never have become a turn.
        if !self.turns.iter().any(runs) {
            return Err(StoreError::TurnNotFound);
        }
        let row = complete.row;
        self.items.extend(complete.put.items.iter().cloned());
        self.end_turn(complete.turn_ord, &complete.end, complete.at_ms);
        self.active = None;
        match &complete.fate {
            Fate::Done => self.ended(row, RowState::Done, complete.at_ms),
            Fate::Back {
                turn,
                not_before_ms,
                why,
            } => {
                self.comes_back(row, *turn);
                let stored = self.stored(row);
                stored.not_before_ms = *not_before_ms;
                stored.put_backs += u32::from(*why == Back::Limit);
                stored.stops += u32::from(matches!(why, Back::Continue | Back::Anew));
                stored.continues = match why {
                    Back::Continue => true,
                    Back::Limit => stored.continues,
                    Back::Retry | Back::Anew => false,
                };
            }
            Fate::Block { failure, turn } => {
                self.comes_back(row, *turn);
                self.blocked(row, failure);
                self.stored(row).continues &= complete.end.muted;
            }
        }
        match &complete.waiting {
            WaitingChange::Keep => {}
            WaitingChange::Begin(waiting) => self.waiting = Some(waiting.clone()),
            WaitingChange::End => self.waiting = None,
        }
        match &complete.pause {
            PauseChange::Keep => {}
            PauseChange::Begin { paused, when } => {
                let begins = *when == PauseWhen::Always || !self.visible.is_empty();
                if self.paused.is_none() && begins {
                    self.paused = Some(paused.clone());
                }
            }
            PauseChange::End { reason } => {
                self.paused.take_if(|paused| paused.reason == *reason);
            }
        }
        if complete.keep == Keep::UnlessIdle && self.visible.is_empty() {
            self.give_up();
        }
        Ok(())
    }

    /// Makes it nobody's.
    pub(crate) fn give_up(&mut self) {
        self.owner = None;
        self.fence += 1;
    }

    /// Notes that a foreign engine may see the row under way; all workers here share one boot.
    pub(crate) fn mark_sent(&mut self, row: RowId) -> End<()> {
        let claimed = self.under_way(row, RowState::Claimed);
        claimed.or_else(|_| self.under_way(row, RowState::Started))?;
        let stored = self.stored(row);
        stored.sent = true;
        stored.sent_boot = Some(BOOT.to_owned());
        Ok(())
    }

    // Recovery.

    /// Carries out what was decided about the row under way; whether an engine is asked first.
    pub(crate) fn decided(&mut self, decision: &Decision, at_ms: i64) -> bool {
        let row = self.active.unwrap();
        let turn = self.rows[&row].turn;
        let turn = self
            .turns
            .iter()
            .find(|running| running.id == turn)
            .cloned();
        let accepted = turn.is_some();
        if let (Some(turn), Some(error)) = (turn, &decision.turn_error)
            && turn.status == TurnStatus::InProgress
        {
            let end = TurnEnd {
                status: TurnStatus::Interrupted,
                error: Some(error.clone()),
                usage: turn.usage,
                muted: turn.muted || decision.muted,
            };
            let items = self.items.iter();
            let items = items.filter(|item| item.turn_ord == turn.ord);
            let last = items.map(|item| item.completed_ms).max();
            let last = last.unwrap_or(turn.started_ms).max(turn.started_ms);
            let was_asked = self.rows[&row].state == RowState::Reconcile;
            let ended_ms = if was_asked { at_ms } else { last };
            self.end_turn(turn.ord, &end, ended_ms);
        }
        if matches!(decision.row, FoundFate::Ask | FoundFate::Leave) {
            self.stored(row).state = RowState::Reconcile;
            return true;
        }
        self.stored(row).continues &= !accepted || decision.muted;
        self.active = None;
        match &decision.row {
            FoundFate::Done => self.ended(row, RowState::Done, at_ms),
            FoundFate::Cancel => self.ended(row, RowState::Cancelled, at_ms),
            FoundFate::Back { turn, loss } => {
                self.comes_back(row, *turn);
                self.stored(row).losses += u32::from(*loss == Loss::Counted);
            }
            FoundFate::Block { failure, turn } => {
                self.comes_back(row, *turn);
                self.blocked(row, failure);
            }
            FoundFate::Ask | FoundFate::Leave => {}
        }
        false
    }

    /// Cancels the rows that only that worker could have claimed.
    pub(crate) fn cancel_bound(&mut self, worker: WorkerId, at_ms: i64) {
        for row in self.visible.clone() {
            if self.rows[&row].bound == Some(worker) {
                self.delete(row, at_ms);
            }
        }
    }
}
