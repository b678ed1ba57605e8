//! The model: a few vectors, every state written down, every count counted.

use turnlane_store::ThreadId;
use turnlane_store::fanout::{
    AttemptOutcome, Company, ItemDetail, ItemState, JobCounts, JobNo, JobState, JobTo, Reported,
    RetryWhich, ReturnUses,
};

use super::Fate;
use crate::build::fanout::*;

/// What is compared of a job.
#[derive(Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) state: JobState,
    pub(super) pending: i64,
    pub(super) counts: JobCounts,
    pub(super) items: Vec<ShownItem>,
    pub(super) unsettled: Vec<(i64, u32)>,
}

/// What is compared of an item: state, attempt, retries, losses, returns by limits, repairs, result,
/// usage, and of each attempt its outcome and whether it is closed.
type ShownItem = (
    ItemState,
    [u32; 5],
    Option<String>,
    i64,
    Vec<(Option<AttemptOutcome>, bool)>,
);

pub(super) fn item_of(detail: &ItemDetail) -> ShownItem {
    let item = &detail.item;
    let attempts = detail.attempts.iter();
    (
        item.state,
        [
            item.attempt,
            item.retries_used,
            item.losses,
            item.limit_returns,
            item.repairs,
        ],
        detail
            .result
            .as_ref()
            .map(|result| result.as_str().to_owned()),
        item.usage.total_tokens,
        attempts
            .map(|row| (row.outcome, row.ended_ms.is_some()))
            .collect(),
    )
}

#[derive(Clone, Debug)]
struct Attempt {
    /// The attempt that made its thread.
    thread: u32,
    runs: bool,
    outcome: Option<AttemptOutcome>,
    closed: bool,
    tokens: i64,
}

#[derive(Clone, Debug)]
struct Item {
    state: ItemState,
    /// No claim and no retry has made an item of the row.
    fresh: bool,
    wait_ms: i64,
    same_thread: bool,
    retries: u32,
    losses: u32,
    limits: u32,
    repairs: u32,
    result: Option<u8>,
    attempts: Vec<Attempt>,
}

impl Item {
    fn attempt(&mut self, attempt: u32) -> Option<&mut Attempt> {
        let at = usize::try_from(attempt).unwrap().checked_sub(1)?;
        self.attempts.get_mut(at)
    }

    fn last(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap()
    }

    fn is_busy(&self, thread: u32) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|row| row.thread == thread && row.runs)
    }
}

pub(super) struct Reference {
    state: JobState,
    limit: i64,
    items: Vec<Item>,
}

impl Reference {
    pub(super) fn new(rows: i64) -> Self {
        let item = Item {
            state: ItemState::Pending,
            fresh: true,
            wait_ms: 0,
            same_thread: false,
            retries: 0,
            losses: 0,
            limits: 0,
            repairs: 0,
            result: None,
            attempts: Vec::new(),
        };
        Self {
            state: JobState::Running,
            limit: 100,
            items: vec![item; usize::try_from(rows).unwrap()],
        }
    }

    fn item(&mut self, seq: i64) -> &mut Item {
        &mut self.items[usize::try_from(seq).unwrap()]
    }

    fn count(&self, state: ItemState) -> i64 {
        let items = self.items.iter().filter(|item| item.state == state);
        i64::try_from(items.count()).unwrap()
    }

    pub(super) fn shown(&self) -> Shown {
        let mut counts = JobCounts {
            running: self.count(ItemState::Running),
            succeeded: self.count(ItemState::Succeeded),
            failed: self.count(ItemState::Failed),
            skipped: self.count(ItemState::Skipped),
            cancelled: self.count(ItemState::Cancelled),
            ..JobCounts::default()
        };
        let mut items = Vec::new();
        let mut unsettled = Vec::new();
        for (seq, item) in (0..).zip(&self.items) {
            let mut used = 0;
            for (number, row) in (1..).zip(&item.attempts) {
                counts.attempts += 1;
                counts.usage = counts.usage + tokens(row.tokens);
                used += row.tokens;
                if !row.closed && !row.runs {
                    unsettled.push((seq, number));
                }
            }
            let attempts = item.attempts.iter();
            items.push((
                item.state,
                [
                    item.last(),
                    item.retries,
                    item.losses,
                    item.limits,
                    item.repairs,
                ],
                item.result.map(super::result_of),
                used,
                attempts.map(|row| (row.outcome, row.closed)).collect(),
            ));
        }
        Shown {
            state: self.state,
            pending: self.count(ItemState::Pending),
            counts,
            items,
            unsettled,
        }
    }

    pub(super) fn claim(&mut self, max: u32, company: Company) -> (Vec<i64>, bool, Option<i64>) {
        let mut begun = Vec::new();
        if self.state == JobState::Running {
            let free = (self.limit - self.count(ItemState::Running)).clamp(0, max.into());
            let places = match company {
                Company::Others => free,
                Company::Alone => free.min(1),
            };
            let alone = company == Company::Alone;
            let mut order: Vec<(i64, i64)> = Vec::new();
            for (seq, item) in (0..).zip(&self.items) {
                let waits = item.state == ItemState::Pending && !item.fresh;
                let own = item.attempts.last().filter(|_| item.same_thread);
                let busy = own.is_some_and(|row| item.is_busy(row.thread));
                if waits && item.wait_ms <= 0 && (item.losses >= 2) == alone && !busy {
                    order.push((item.wait_ms, seq));
                }
            }
            order.sort_unstable();
            let mut seqs: Vec<i64> = order.into_iter().map(|(_, seq)| seq).collect();
            if !alone {
                let items = (0..).zip(&self.items);
                let fresh =
                    items.filter(|(_, item)| item.fresh && item.state == ItemState::Pending);
                seqs.extend(fresh.map(|(seq, _)| seq));
            }
            seqs.truncate(usize::try_from(places).unwrap());
            for seq in &seqs {
                self.begin(*seq);
            }
            begun = seqs;
        }
        let pending = || {
            let items = self.items.iter();
            items.filter(|item| item.state == ItemState::Pending)
        };
        let alone = pending().any(|item| item.losses >= 2 && item.wait_ms <= 0);
        let due = pending().map(|item| if item.fresh { 0 } else { item.wait_ms });
        (begun, alone, due.min())
    }

    fn begin(&mut self, seq: i64) {
        let item = self.item(seq);
        let own = item.attempts.last().filter(|_| item.same_thread);
        let thread = own.map_or(item.last() + 1, |row| row.thread);
        item.attempts.push(Attempt {
            thread,
            runs: true,
            outcome: None,
            closed: false,
            tokens: 0,
        });
        item.state = ItemState::Running;
        item.fresh = false;
        item.same_thread = false;
        item.repairs = 0;
    }

    pub(super) fn end_turn(&mut self, seq: i64, attempt: u32) {
        self.item(seq).attempt(attempt).unwrap().runs = false;
    }

    pub(super) fn report(
        &mut self,
        job: JobNo,
        seq: i64,
        attempt: u32,
        result: u8,
        stop: bool,
        used: i64,
    ) -> String {
        let item = self.item(seq);
        if item.attempt(attempt).is_none() {
            return "refused".to_owned();
        }
        if let Some(known) = item.result {
            let same = known == result;
            let outcome = if same {
                Reported::Duplicate
            } else {
                Reported::Other
            };
            return format!("{outcome:?}");
        }
        if !matches!(item.state, ItemState::Pending | ItemState::Running) {
            return format!("{:?}", Reported::Ended(item.state));
        }
        let mut superseded: Option<ThreadId> = None;
        let last = item.last();
        let thread = item.attempt(attempt).unwrap().thread;
        if item.state == ItemState::Running && last != attempt {
            let newer = item.attempt(last).unwrap();
            newer.outcome = Some(AttemptOutcome::Superseded);
            if newer.thread != thread {
                superseded = Some(item_thread(job, seq, newer.thread));
            }
        }
        let row = item.attempt(attempt).unwrap();
        row.outcome = Some(AttemptOutcome::Reported);
        row.tokens = row.tokens.max(used);
        item.result = Some(result);
        item.state = ItemState::Succeeded;
        if stop && !self.state.is_terminal() && self.state != JobState::Cancelling {
            self.cancel();
        }
        format!("{:?}", Reported::Accepted { superseded })
    }

    fn cancel(&mut self) {
        self.state = JobState::Cancelling;
        for item in &mut self.items {
            if item.state == ItemState::Pending {
                item.state = ItemState::Cancelled;
            }
        }
    }

    pub(super) fn settle(
        &mut self,
        seq: i64,
        attempt: u32,
        to: Fate,
        used: i64,
    ) -> (ItemState, bool) {
        let cancels = matches!(self.state, JobState::Cancelling | JobState::Cancelled);
        let item = self.item(seq);
        let state = item.state;
        let runs = state == ItemState::Running && item.last() == attempt;
        let Some(row) = item.attempt(attempt) else {
            return (ItemState::Cancelled, false);
        };
        if row.closed || runs && matches!(to, Fate::AsReported) {
            return (state, false);
        }
        row.closed = true;
        row.tokens = row.tokens.max(used);
        row.outcome = row.outcome.or(Some(AttemptOutcome::Failed));
        if !runs {
            return (state, false);
        }
        if matches!(to, Fate::Succeeded(_)) {
            row.outcome = Some(AttemptOutcome::Reported);
        }
        item.state = match to {
            Fate::Succeeded(result) => {
                item.result = Some(result);
                ItemState::Succeeded
            }
            Fate::AsReported | Fate::Failed => ItemState::Failed,
            Fate::Cancelled => ItemState::Cancelled,
            Fate::Skipped => ItemState::Skipped,
            Fate::Pending { .. } if cancels => ItemState::Cancelled,
            Fate::Pending {
                wait_ms,
                same_thread,
                uses,
            } => {
                item.wait_ms = wait_ms;
                item.same_thread = same_thread;
                match uses {
                    ReturnUses::Nothing => {}
                    ReturnUses::Retry => item.retries += 1,
                    ReturnUses::Loss => item.losses += 1,
                    ReturnUses::Limit => item.limits += 1,
                }
                ItemState::Pending
            }
        };
        (item.state, true)
    }

    pub(super) fn repairs(&self, seq: i64) -> u32 {
        self.items[usize::try_from(seq).unwrap()].repairs
    }

    pub(super) fn repair(&mut self, seq: i64, attempt: u32, used: i64) -> &'static str {
        let item = self.item(seq);
        let runs = item.state == ItemState::Running && item.last() == attempt;
        let Some(row) = item.attempt(attempt).cloned() else {
            return "refused";
        };
        if !runs || row.closed || item.is_busy(row.thread) {
            return "no";
        }
        item.repairs += 1;
        let row = item.attempt(attempt).unwrap();
        row.tokens = row.tokens.max(used);
        row.runs = true;
        "begun"
    }

    pub(super) fn change(&mut self, to: &JobTo) -> bool {
        use JobState::{Cancelled, Cancelling, FinishedWithFailures, Paused, Running, Succeeded};
        let running = self.count(ItemState::Running);
        match (to, self.state) {
            (JobTo::Limit(limit), _) => self.limit = i64::from(*limit),
            (JobTo::Running { .. }, Running | Paused) => self.state = Running,
            (JobTo::Paused { .. }, Running | Paused) => self.state = Paused,
            (JobTo::Cancelling { .. }, Running | Paused) => {
                self.cancel();
                if running == 0 {
                    self.state = Cancelled;
                }
            }
            (JobTo::EndIfDone, Cancelling) if running == 0 => self.state = Cancelled,
            (JobTo::EndIfDone, Running) if running + self.count(ItemState::Pending) == 0 => {
                self.state = if self.count(ItemState::Cancelled) > 0 {
                    Cancelled
                } else if self.count(ItemState::Failed) > 0 {
                    FinishedWithFailures
                } else {
                    Succeeded
                };
            }
            _ => return false,
        }
        true
    }

    pub(super) fn retry(&mut self, which: &RetryWhich) -> i64 {
        if self.state == JobState::Cancelling {
            return 0;
        }
        let mut retried = 0;
        for (seq, item) in (0..).zip(&mut self.items) {
            let failed = item.state == ItemState::Failed;
            let cancelled = item.state == ItemState::Cancelled;
            let id = format!("row-{}", seq + 1);
            let chosen = match which {
                RetryWhich::Failed => failed,
                RetryWhich::Cancelled => cancelled,
                RetryWhich::FailedOrCancelled => failed || cancelled,
                RetryWhich::Items(ids) => (failed || cancelled) && ids.contains(&id),
            };
            if !chosen {
                continue;
            }
            retried += 1;
            item.state = ItemState::Pending;
            if matches!(which, RetryWhich::Items(_)) {
                item.fresh = false;
            }
            item.wait_ms = 0;
            item.same_thread = false;
            item.retries = 0;
            item.limits = 0;
            item.losses = item.losses.min(2);
        }
        if retried > 0 && self.state.is_terminal() {
            self.state = JobState::Running;
        }
        retried
    }
}
