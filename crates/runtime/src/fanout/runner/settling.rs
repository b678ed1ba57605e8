//! Ended attempts: closed in batches, by what the store shows of their turns.
//!
//! The invariant here: an attempt is settled behind the end of its turn. A pause that follows from it
//! is on disk before anything more is claimed.

use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_protocol::usage::TurnUsage;
use turnlane_store::fanout::{
    BegunItem, FanoutItem, ItemState, ItemUsage, JobNo, JobState, ReturnUses, SettleTo, Settled,
    Settlement, UnsettledItem,
};
use turnlane_store::turn::{TurnRow, TurnStatus};
use turnlane_store::{StoreError, crash};

use super::{ActiveJob, Runner};
use crate::fanout::board::RunningItem;
use crate::fanout::jobs::ItemEvent;
use crate::fanout::plan::RepairTurn;
use crate::fanout::prompt::ResultChannel;
use crate::fanout::rules::{
    Access, Consequence, Decision, EndedAttempt, Harvest, RepairCause, decide,
};
use crate::ids;
use crate::lane::rows;

/// Attempts that one transaction closes.
const SETTLED_AT_ONCE: u32 = 64;

/// What a turn of an item begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// An attempt, whose tree has to be there.
    Attempt,
    /// A repair turn in the tree of its attempt.
    Repair,
}

/// A repair turn that follows from an ended one.
struct Repair {
    found: UnsettledItem,
    cause: RepairCause,
    otherwise: Settlement,
}

impl Runner {
    /// Closes every attempt of a job that has ended.
    pub(super) async fn settle(&mut self, no: JobNo) -> Result<(), StoreError> {
        let mut any = false;
        loop {
            let found = self.shared.store.unsettled_items(no, SETTLED_AT_ONCE);
            let found = found.await?;
            if found.is_empty() {
                break;
            }
            any = true;
            self.settle_found(no, found).await?;
        }
        if any {
            self.refresh(no).await?;
        }
        Ok(())
    }

    async fn settle_found(
        &mut self,
        no: JobNo,
        found: Vec<UnsettledItem>,
    ) -> Result<(), StoreError> {
        let mut closing = Vec::with_capacity(found.len());
        let mut repairs = Vec::new();
        let mut follows = Consequence::default();
        for found in found {
            let (decision, consequence) = self.decide(no, &found).await?;
            if let Some(active) = self.active.get_mut(&no) {
                active.forbidden = match consequence.access {
                    Access::Unknown => active.forbidden,
                    Access::Granted => false,
                    Access::Forbidden => true,
                };
            }
            follows.halves |= consequence.halves;
            follows.hold_until_ms = follows.hold_until_ms.max(consequence.hold_until_ms);
            follows.pause = follows.pause.or(consequence.pause);
            match decision {
                Decision::Settle(settlement) => closing.push((found, settlement)),
                Decision::Repair { cause, otherwise } => repairs.push(Repair {
                    found,
                    cause,
                    otherwise,
                }),
            }
        }
        // Running items make no further request while the pause is being committed.
        self.hold_back(no, &follows);
        crash::point("fanout:settle:before-submit");
        let settlements: Vec<_> = closing.iter().map(|(_, settled)| settled.clone()).collect();
        let settled = self.settle_items(settlements).await?;
        crash::point("fanout:settle:before-news");
        if let Some(pause) = follows.pause {
            self.pause(no, pause).await?;
        }
        for ((found, settlement), settled) in closing.iter().zip(settled) {
            self.settled(no, found, settlement, settled).await?;
        }
        for repair in repairs {
            self.repair(no, repair).await?;
        }
        if follows.halves {
            self.halve(no).await?;
        }
        Ok(())
    }

    async fn settle_items(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let now_ms = self.now_ms();
        self.shared.store.settle_items(settlements, now_ms).await
    }

    /// Decides about one attempt, with its final message where that may be the result.
    async fn decide(
        &self,
        no: JobNo,
        found: &UnsettledItem,
    ) -> Result<(Decision, Consequence), StoreError> {
        let Some(active) = self.active.get(&no) else {
            return Err(StoreError::JobNotFound(no));
        };
        let plan = &active.plan;
        let completed = found.turn.as_ref();
        let completed = completed.filter(|turn| turn.status == TurnStatus::Completed);
        let harvest = match completed {
            Some(turn)
                if plan.channel != ResultChannel::Tool
                    && found.item.state == ItemState::Running =>
            {
                plan.harvest(self.final_message(found, turn).await?.as_deref())
            }
            _ => Harvest::Nothing,
        };
        let turn = found.turn.as_ref();
        Ok(decide(&EndedAttempt {
            found,
            limits: &plan.limits,
            options: &plan.options,
            harvest,
            verdict: self.board().take_verdict(found.attempt),
            usage: found.usage + turn.map_or_else(ItemUsage::default, turn_usage),
            jitter: turn.map_or(0, |turn| jitter(turn.id)),
            after_forbidden: active.forbidden,
            now_ms: self.now_ms(),
        }))
    }

    async fn final_message(
        &self,
        found: &UnsettledItem,
        turn: &TurnRow,
    ) -> Result<Option<String>, StoreError> {
        let Some(thread) = found.item.thread else {
            return Ok(None);
        };
        let shown = self.shared.store.summaries(thread, vec![turn.ord]).await?;
        let message = shown.iter().rev().find_map(|row| {
            let item: ThreadItem = rows::read(&row.body).ok()?;
            match item.body {
                ItemBody::AgentMessage(message) => Some(message.text),
                _ => None,
            }
        });
        Ok(message)
    }

    /// Keeps running items from further requests, as far as the ends say.
    fn hold_back(&self, no: JobNo, follows: &Consequence) {
        let Some(active) = self.active.get(&no) else {
            return;
        };
        if let Some(until_ms) = follows.hold_until_ms {
            let wait = u64::try_from(until_ms - self.now_ms()).unwrap_or(0);
            let provider = &active.plan.settings.thread.provider;
            let wait = std::time::Duration::from_millis(wait);
            self.board().gates.hold(provider, wait);
        }
        if let Some(pause) = &follows.pause {
            let kind = match pause.reason {
                "quota" => ErrorKind::Quota,
                "budget" => ErrorKind::Budget,
                _ => ErrorKind::Auth,
            };
            let error = TurnError::new(pause.message.clone(), CodexErrorInfo::Other, kind);
            self.board().gates.halt(no, error);
        }
    }

    /// What follows from a closed attempt besides its state.
    async fn settled(
        &mut self,
        no: JobNo,
        found: &UnsettledItem,
        settlement: &Settlement,
        settled: Settled,
    ) -> Result<(), StoreError> {
        self.board().settled(settlement.item);
        let usage = settlement.usage.total_tokens;
        if let Some(active) = self.active.get_mut(&no) {
            match settled.state {
                ItemState::Succeeded | ItemState::Failed => active.usages.add(usage),
                _ => {}
            }
            if settled.changed {
                count_end(active, settled.state, settlement);
            }
        }
        if settled.changed && settled.state == ItemState::Succeeded {
            self.grow(no).await?;
        }
        self.forget_thread(no, found, settlement, settled).await?;
        self.look_at_tree(no, found, settlement, settled);
        self.tell_item(no, &found.item).await
    }

    /// Tells those who watch items what became of one.
    pub(super) async fn tell_item(&self, no: JobNo, item: &FanoutItem) -> Result<(), StoreError> {
        if !self.board().items_are_watched() {
            return Ok(());
        }
        let detail = self.shared.store.item_of_job(no, item.item_id.clone());
        let detail = detail.await?;
        let plan = self.active.get(&no).map(|active| &active.plan);
        if let (Some(detail), Some(plan)) = (detail, plan) {
            self.board().tell_item(ItemEvent {
                job_id: plan.id.clone(),
                source_id: plan.source_id(&detail.cells),
                item: Box::new(detail.item),
            });
        }
        Ok(())
    }

    async fn repair(&mut self, no: JobNo, repair: Repair) -> Result<(), StoreError> {
        let Some(plan) = self.active.get(&no).map(|active| active.plan.clone()) else {
            return Ok(());
        };
        let usage = repair.otherwise.usage;
        let turn = RepairTurn {
            item: repair.found.attempt,
            item_id: &repair.found.item.item_id,
            nth: repair.found.item.repairs + 1,
            cause: &repair.cause,
            usage,
        };
        // A job that was paused or cancelled meanwhile begins nothing, nor does a worker that stops.
        let runs = self
            .active
            .get(&no)
            .is_some_and(|active| active.row.state == JobState::Running);
        let begun = if runs && !self.shutdown.is_cancelled() {
            let repair = plan.repair(&turn, self.now_ms());
            self.shared.store.repair_item(repair).await?
        } else {
            None
        };
        if let Some(begun) = begun {
            // The repair counted the usage of the turn before it.
            self.board().settled(repair.found.attempt);
            self.run_begun(no, *begun, Begins::Repair);
            return Ok(());
        }
        let settlement = self.without_repair(repair.otherwise, runs);
        let settled = self.settle_items(vec![settlement.clone()]).await?;
        if let Some(settled) = settled.first() {
            let found = &repair.found;
            self.settled(no, found, &settlement, *settled).await?;
        }
        Ok(())
    }

    /// An attempt that gets no repair turn uses a retry, unless its job was stopped in between.
    fn without_repair(&self, otherwise: Settlement, runs: bool) -> Settlement {
        if runs {
            return otherwise;
        }
        Settlement {
            to: SettleTo::Pending {
                not_before_ms: self.now_ms(),
                same_thread: false,
                uses: ReturnUses::Nothing,
            },
            ..otherwise
        }
    }

    /// Has the lane of an item run its turn.
    pub(super) fn run_begun(&self, no: JobNo, begun: BegunItem, begins: Begins) {
        let Some(active) = self.active.get(&no) else {
            return;
        };
        let BegunItem { item, accepted } = begun;
        let thread = accepted.grip.thread;
        let attempt = turnlane_store::fanout::ItemAttempt {
            job: no,
            seq: item.seq,
            attempt: item.attempt,
        };
        let running = RunningItem::new(attempt, active.plan.clone());
        let tree = active.plan.tree(&item);
        let tree = tree.filter(|_| begins == Begins::Attempt);
        let mut place = self.board().place(thread, running);
        if let Some(tree) = tree {
            place = place.preparing(self.shared.trees.prepare(tree));
        }
        self.lanes.load_begun(accepted, place);
    }

    /// The threads of an item that nobody keeps.
    async fn forget_thread(
        &mut self,
        no: JobNo,
        found: &UnsettledItem,
        settlement: &Settlement,
        settled: Settled,
    ) -> Result<(), StoreError> {
        use crate::fanout::jobs::spec::KeepThreads;
        let Some(keeps) = self.active.get(&no).map(|active| active.plan.keeps) else {
            return Ok(());
        };
        let continues = matches!(
            settlement.to,
            SettleTo::Pending {
                same_thread: true,
                ..
            }
        );
        let unwanted = match keeps {
            KeepThreads::All => false,
            KeepThreads::Failed => {
                matches!(settled.state, ItemState::Succeeded | ItemState::Skipped)
            }
            KeepThreads::None => !continues || settled.state != ItemState::Pending,
        };
        if !unwanted {
            return Ok(());
        }
        if found.attempt.attempt == 1 {
            self.unwanted.threads.extend(found.item.thread);
            return Ok(());
        }
        let detail = self
            .shared
            .store
            .item_of_job(no, found.item.item_id.clone());
        for attempt in detail.await?.into_iter().flat_map(|item| item.attempts) {
            if attempt.ended_ms.is_some() {
                self.unwanted.threads.push(attempt.thread);
            }
        }
        Ok(())
    }
}

fn count_end(active: &mut ActiveJob, state: ItemState, settlement: &Settlement) {
    let limited = matches!(
        settlement.to,
        SettleTo::Pending {
            uses: ReturnUses::Limit | ReturnUses::Nothing,
            ..
        }
    );
    if state != ItemState::Succeeded && !limited {
        active.pace.failed();
    }
}

/// The tokens that a turn used.
pub(crate) fn turn_usage(turn: &TurnRow) -> ItemUsage {
    let usage: Option<TurnUsage> = turn.usage.as_ref().and_then(|usage| rows::read(usage).ok());
    let counts = usage.and_then(|usage| usage.turn);
    counts.map_or_else(ItemUsage::default, crate::fanout::report::usage_of)
}

/// A number from 0 to 999 that differs from turn to turn and needs no randomness of its own.
fn jitter(turn: turnlane_store::TurnId) -> u32 {
    let bits = ids::wire_turn(turn).as_uuid().as_u128();
    u32::try_from(bits % 1_000).unwrap_or(0)
}
