//! Fan-out jobs against a model of themselves: random steps of two workers on one job.
//!
//! The invariant here: the model writes every state down and counts by looking at all items; the store
//! keeps counts and lets a cancellation write nothing. Both must show the same after every step.
//! `TURNLANE_PROPTEST_CASES` and `TURNLANE_PROPTEST_SEED` mean what they mean in `model`.
//!
//! `reference` is the model, this file the steps and the comparison.

mod reference;

use proptest::collection::vec;
use proptest::prelude::*;
use turnlane_store::fanout::{
    AttemptOutcome, BegunItem, ChangedJob, ClaimItems, Company, ItemReport, JobNo, JobOwner, JobTo,
    RepairItem, RetryWhich, ReturnUses, SettleTo, Settlement,
};

use crate::backend::SqliteFile;
use crate::build::fanout::*;
use crate::build::*;
use crate::model::try_cases;
use reference::{Reference, Shown};

const CASES: u32 = 96;

/// How many rows the job has.
const ROWS: i64 = 5;

/// One step; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Claim {
        max: u32,
        company: Company,
    },
    EndTurn {
        item: i64,
        attempt: u32,
    },
    Report {
        item: i64,
        attempt: u32,
        result: u8,
        stop: bool,
        tokens: i64,
    },
    Settle {
        item: i64,
        attempt: u32,
        to: Fate,
        tokens: i64,
    },
    Repair {
        item: i64,
        attempt: u32,
        tokens: i64,
    },
    Run,
    Pause,
    Cancel,
    End,
    Limit(u32),
    Retry(Retried),
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Succeeded(u8),
    AsReported,
    Failed,
    Cancelled,
    Skipped,
    Pending {
        wait_ms: i64,
        same_thread: bool,
        uses: ReturnUses,
    },
}

#[derive(Clone, Copy, Debug)]
enum Retried {
    Failed,
    Cancelled,
    Both,
    Item(i64),
}

fn fates() -> impl Strategy<Value = Fate> {
    let uses = prop_oneof![
        1 => Just(ReturnUses::Nothing),
        1 => Just(ReturnUses::Retry),
        3 => Just(ReturnUses::Loss),
        1 => Just(ReturnUses::Limit),
    ];
    let pending =
        (-2_i64..2, any::<bool>(), uses).prop_map(|(wait_ms, same_thread, uses)| Fate::Pending {
            wait_ms,
            same_thread,
            uses,
        });
    prop_oneof![
        1 => (0_u8..2).prop_map(Fate::Succeeded),
        1 => Just(Fate::AsReported),
        2 => Just(Fate::Failed),
        1 => Just(Fate::Cancelled),
        1 => Just(Fate::Skipped),
        6 => pending,
    ]
}

fn steps() -> impl Strategy<Value = Vec<(bool, Step)>> {
    let of = || (0..ROWS, 1_u32..4);
    let company = prop_oneof![4 => Just(Company::Others), 1 => Just(Company::Alone)];
    let claim = (1_u32..4, company).prop_map(|(max, company)| Step::Claim { max, company });
    let end = of().prop_map(|(item, attempt)| Step::EndTurn { item, attempt });
    let report = (of(), 0_u8..2, prop::bool::weighted(0.1), 0_i64..50).prop_map(
        |((item, attempt), result, stop, tokens)| Step::Report {
            item,
            attempt,
            result,
            stop,
            tokens,
        },
    );
    let settle =
        (of(), fates(), 0_i64..50).prop_map(|((item, attempt), to, tokens)| Step::Settle {
            item,
            attempt,
            to,
            tokens,
        });
    let repair = (of(), 0_i64..50).prop_map(|((item, attempt), tokens)| Step::Repair {
        item,
        attempt,
        tokens,
    });
    let retry = prop_oneof![
        1 => Just(Retried::Failed),
        1 => Just(Retried::Cancelled),
        1 => Just(Retried::Both),
        2 => (0..ROWS + 1).prop_map(Retried::Item),
    ];
    let step = prop_oneof![
        8 => claim,
        5 => end,
        4 => report,
        8 => settle,
        2 => repair,
        2 => Just(Step::Run),
        1 => Just(Step::Pause),
        1 => Just(Step::Cancel),
        2 => Just(Step::End),
        1 => (0_u32..5).prop_map(Step::Limit),
        2 => retry.prop_map(Step::Retry),
    ];
    vec((any::<bool>(), step), 1..60)
}

/// One run: two workers, the turns that run, and the model.
struct Run {
    hands: [Hand; 2],
    job: JobNo,
    /// Turns that were begun and not ended, with the worker that began them.
    begun: Vec<(usize, BegunItem)>,
    reference: Reference,
}

impl Run {
    async fn begin(db: &Db) -> Self {
        let hands = [db.open("one").await, db.open("two").await];
        let job = hands[0].running("job", ROWS).await.no;
        Self {
            hands,
            job,
            begun: Vec::new(),
            reference: Reference::new(ROWS),
        }
    }

    /// Carries a step out on both; what each said of it.
    async fn step(&mut self, who: usize, step: &Step) -> (String, String) {
        let (hand, job) = (&self.hands[who], self.job);
        let model = &mut self.reference;
        match step {
            Step::Claim { max, company } => self.claim(who, *max, *company).await,
            Step::EndTurn { item, attempt } => {
                let at = self.begun.iter().position(|(_, begun)| {
                    (begun.item.seq, begun.item.attempt) == (*item, *attempt)
                });
                if let Some(at) = at {
                    let (who, begun) = self.begun.remove(at);
                    self.hands[who].end_turn(&begun).await;
                    model.end_turn(*item, *attempt);
                }
                Default::default()
            }
            Step::Report {
                item,
                attempt,
                result,
                stop,
                tokens: used,
            } => {
                let report = ItemReport {
                    stop: *stop,
                    usage: tokens(*used),
                    ..reporting(attempt_of(job, *item, *attempt), &result_of(*result))
                };
                let said = hand.report_item(report).await;
                let said = said.map_or_else(|_| "refused".to_owned(), |said| format!("{said:?}"));
                let expected = model.report(job, *item, *attempt, *result, *stop, *used);
                (said, expected)
            }
            Step::Settle {
                item,
                attempt,
                to,
                tokens: used,
            } => {
                let settlement = Settlement {
                    usage: tokens(*used),
                    ..settling(
                        attempt_of(job, *item, *attempt),
                        AttemptOutcome::Failed,
                        settle_to(*to),
                    )
                };
                let settled = hand.settle_items(vec![settlement], NOW + 6).await.unwrap();
                let said = format!("{:?} {}", settled[0].state, settled[0].changed);
                let (state, changed) = model.settle(*item, *attempt, *to, *used);
                (said, format!("{state:?} {changed}"))
            }
            Step::Repair {
                item,
                attempt,
                tokens: used,
            } => self.repair(who, *item, *attempt, *used).await,
            Step::Run | Step::Pause | Step::Cancel | Step::End | Step::Limit(_) => {
                self.change(who, step).await
            }
            Step::Retry(which) => {
                let which = match which {
                    Retried::Failed => RetryWhich::Failed,
                    Retried::Cancelled => RetryWhich::Cancelled,
                    Retried::Both => RetryWhich::FailedOrCancelled,
                    Retried::Item(seq) => RetryWhich::Items(vec![format!("row-{}", seq + 1)]),
                };
                let retried = hand.retry(job, which.clone()).await.retried;
                (retried.to_string(), model.retry(&which).to_string())
            }
        }
    }

    async fn claim(&mut self, who: usize, max: u32, company: Company) -> (String, String) {
        let claim = ClaimItems {
            company,
            ..claiming(self.job, max)
        };
        let claimed = self.hands[who].claim_items(claim).await.unwrap();
        let said = format!("{:?} {:?}", seqs(&claimed), claimed.alone_waits);
        let due = claimed.next_due_ms.map(|due| due - NOW);
        let begun = claimed.begun.into_iter().map(|begun| (who, begun));
        self.begun.extend(begun);
        let (seqs, alone, expected_due) = self.reference.claim(max, company);
        (
            format!("{said} {due:?}"),
            format!("{seqs:?} {alone:?} {expected_due:?}"),
        )
    }

    async fn repair(&mut self, who: usize, item: i64, attempt: u32, used: i64) -> (String, String) {
        let nth = self.reference.repairs(item) + 1;
        let repair = RepairItem {
            usage: tokens(used),
            ..repairing(attempt_of(self.job, item, attempt), nth)
        };
        let said = match self.hands[who].repair_item(repair).await {
            Ok(Some(begun)) => {
                self.begun.push((who, *begun));
                "begun"
            }
            Ok(None) => "no",
            Err(_) => "refused",
        };
        let expected = self.reference.repair(item, attempt, used);
        (said.to_owned(), expected.to_owned())
    }

    async fn change(&mut self, who: usize, step: &Step) -> (String, String) {
        let to = match step {
            Step::Pause => JobTo::Paused {
                reason: "user".to_owned(),
                message: None,
                resume_ms: None,
            },
            Step::Cancel => JobTo::Cancelling { message: None },
            Step::End => JobTo::EndIfDone,
            Step::Limit(limit) => JobTo::Limit(*limit),
            _ => JobTo::Running {
                owner: JobOwner::Detached,
                owner_worker: None,
            },
        };
        let answer = self.hands[who].try_change(self.job, to.clone()).await;
        let changed = matches!(answer, ChangedJob::Changed(_));
        (changed.to_string(), self.reference.change(&to).to_string())
    }

    /// What the store shows of the job.
    async fn shown(&self) -> Shown {
        let hand = &self.hands[0];
        let row = hand.job_now(self.job).await;
        let mut items = Vec::new();
        for seq in 0..ROWS {
            items.push(reference::item_of(&hand.detail(self.job, seq).await));
        }
        let unsettled = hand.unsettled_items(self.job, 100).await.unwrap();
        let open = unsettled.iter();
        Shown {
            state: row.state,
            pending: row.pending(),
            counts: row.counts,
            items,
            unsettled: open
                .map(|one| (one.attempt.seq, one.attempt.attempt))
                .collect(),
        }
    }
}

fn result_of(result: u8) -> String {
    format!("{{\"r\":{result}}}")
}

fn settle_to(fate: Fate) -> SettleTo {
    match fate {
        Fate::Succeeded(result) => {
            let report = reporting(attempt_of(JobNo(0), 0, 1), &result_of(result));
            SettleTo::Succeeded {
                result: report.result,
                digest: report.digest,
            }
        }
        Fate::AsReported => SettleTo::AsReported,
        Fate::Failed => SettleTo::Failed,
        Fate::Cancelled => SettleTo::Cancelled,
        Fate::Skipped => SettleTo::Skipped,
        Fate::Pending {
            wait_ms,
            same_thread,
            uses,
        } => SettleTo::Pending {
            not_before_ms: NOW + wait_ms,
            same_thread,
            uses,
        },
    }
}

#[test]
fn fanout_jobs_do_what_the_model_does() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    try_cases(CASES, &steps(), |steps| {
        runtime.block_on(async {
            let db = Db::on(SqliteFile::small());
            let mut run = Run::begin(&db).await;
            for (nth, (second, step)) in steps.iter().enumerate() {
                let (said, expected) = run.step(usize::from(*second), step).await;
                let context = format!("step {nth}, {step:?}");
                if said != expected {
                    return Err(format!("{context}: {said} instead of {expected}"));
                }
                let (shown, expected) = (run.shown().await, run.reference.shown());
                if shown != expected {
                    return Err(format!("{context}:\n{shown:#?}\ninstead of\n{expected:#?}"));
                }
            }
            Ok(())
        })
    });
}
