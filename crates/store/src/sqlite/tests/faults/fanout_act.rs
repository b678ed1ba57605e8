//! The act of fan-out jobs: import, claim, report, settlement, retry, deletion.

use super::player::Player;
use super::*;
use crate::fanout::{
    AttemptOutcome, BegunItem, ClaimItems, Company, CreatedJob, FanoutStore, ImportBatch,
    ImportProgress, ItemAttempt, ItemReport, ItemStart, ItemUsage, JobChange, JobNo, JobOwner,
    JobTo, Making, NewItemRow, NewJob, RetryItems, RetryWhich, ReturnUses, SealJob, SettleTo,
    Settlement,
};
use crate::queue::Fate;
use crate::sqlite::fixture::{accept, complete, json, new_row, new_thread};
use crate::thread::NewThread;
use crate::turn::Keep;

fn new_job() -> NewJob {
    NewJob {
        id: "job".to_owned(),
        name: None,
        owner: JobOwner::Detached,
        owner_worker: None,
        parent_thread: None,
        parent_turn: None,
        client_job_id: Some("client".to_owned()),
        instruction: "do {a}".to_owned(),
        schema: None,
        channel: "tool".to_owned(),
        settings: json("settings"),
        limits: json("limits"),
        options: json("options"),
        current_limit: 2,
        input_ref: None,
        export_path: None,
        at_ms: 100,
    }
}

/// Two rows at an offset.
fn batch(job: JobNo, from: i64) -> ImportBatch {
    let row = |seq| NewItemRow {
        seq,
        item_id: Some(format!("id-{seq}")),
        cells: json("cells"),
        skipped: None,
        dup_of: None,
    };
    ImportBatch {
        job,
        from_offset: from,
        progress: ImportProgress {
            offset: from + 2,
            ..ImportProgress::default()
        },
        columns: json("columns"),
        rows: vec![row(from), row(from + 1)],
    }
}

fn claiming(job: JobNo) -> ClaimItems {
    let making = Making::new(|item| {
        let seq = u128::try_from(item.seq).unwrap();
        let number = 50_000 + seq * 10 + u128::from(item.attempt);
        let thread = NewThread {
            source: "subAgentOther".to_owned(),
            ..new_thread(number)
        };
        ItemStart::Begin {
            thread: Some(Box::new(thread)),
            row: Box::new(new_row(number)),
            accept: Box::new(accept("item")),
            branch: None,
        }
    });
    ClaimItems {
        job,
        max: 2,
        company: Company::Others,
        making,
        at_ms: 110,
    }
}

async fn claim(player: &mut Player<'_>, name: &str, job: JobNo) -> Vec<BegunItem> {
    let step = player.step(name, |store| store.claim_items(claiming(job)));
    let begun = step.await.map(|claimed| claimed.begun);
    begun.unwrap_or_default()
}

async fn change(player: &mut Player<'_>, name: &str, job: JobNo, version: i64, to: JobTo) {
    let change = JobChange {
        job,
        version,
        to,
        at_ms: 120,
    };
    let step = player.step(name, |store| store.change_job(change.clone()));
    step.await;
}

async fn end_turn(player: &mut Player<'_>, name: &str, begun: &BegunItem) {
    let mut end = complete(&begun.accepted, Fate::Done, 111);
    end.keep = Keep::UnlessIdle;
    player.step(name, |store| store.complete(end.clone())).await;
}

fn settlement(job: JobNo, begun: &BegunItem, to: SettleTo) -> Settlement {
    Settlement {
        item: ItemAttempt {
            job,
            seq: begun.item.seq,
            attempt: begun.item.attempt,
        },
        outcome: AttemptOutcome::Failed,
        error: None,
        usage: ItemUsage {
            total_tokens: 5,
            ..ItemUsage::default()
        },
        to,
    }
}

/// Items that report, come back and fail.
async fn run_items(player: &mut Player<'_>, job: JobNo) {
    let begun = claim(player, "new-claim-1", job).await;
    if let [first, second] = &begun[..] {
        let report = ItemReport {
            item: ItemAttempt {
                job,
                seq: first.item.seq,
                attempt: 1,
            },
            result: json("result"),
            digest: [2; 32],
            usage: ItemUsage::default(),
            stop: false,
            at_ms: 111,
        };
        let step = player.step("report", |store| store.report_item(report.clone()));
        step.await;
        end_turn(player, "end-turn-1", first).await;
        end_turn(player, "end-turn-2", second).await;
        let back = SettleTo::Pending {
            not_before_ms: 0,
            same_thread: false,
            uses: ReturnUses::Retry,
        };
        let settlements = vec![
            settlement(job, first, SettleTo::AsReported),
            settlement(job, second, back),
        ];
        let step = player.step("settle-1", |store| {
            store.settle_items(settlements.clone(), 112)
        });
        step.await;
    }
    let begun = claim(player, "new-claim-2", job).await;
    for (begun, (end, settle)) in begun
        .iter()
        .zip([("end-turn-3", "settle-2"), ("end-turn-4", "settle-3")])
    {
        end_turn(player, end, begun).await;
        let failed = vec![settlement(job, begun, SettleTo::Failed)];
        let step = player.step(settle, |store| store.settle_items(failed.clone(), 113));
        step.await;
    }
}

/// A job from its making to its deletion.
pub(in crate::sqlite::tests) async fn fan_out(player: &mut Player<'_>) {
    let made = player.step("new-job", |store| store.create_job(new_job()));
    let Some(CreatedJob::Made(made)) = made.await else {
        return;
    };
    let job = made.no;
    for (name, from) in [("new-import-1", 0), ("new-import-2", 2)] {
        let step = player.step(name, |store| store.import_rows(batch(job, from)));
        step.await;
    }
    let seal = SealJob {
        job,
        fingerprint: [1; 32],
        at_ms: 105,
    };
    let step = player.step("new-seal", |store| store.seal_job(seal.clone()));
    step.await;
    let to = JobTo::Running {
        owner: JobOwner::Detached,
        owner_worker: None,
    };
    change(player, "run", job, 2, to).await;
    run_items(player, job).await;
    // Only a job that was sealed runs and has this version.
    change(
        player,
        "cancel",
        job,
        3,
        JobTo::Cancelling { message: None },
    )
    .await;
    let retry = RetryItems {
        job,
        which: RetryWhich::Failed,
        instruction: None,
        at_ms: 121,
    };
    let step = player.step("retry-items", |store| store.retry_items(retry.clone()));
    step.await;
    change(
        player,
        "cancel-again",
        job,
        5,
        JobTo::Cancelling { message: None },
    )
    .await;
    let step = player.step("delete-job", |store| store.delete_job(job));
    step.await;
}
