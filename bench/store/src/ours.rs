//! A store in a folder that vanishes, and short ways to threads, rows and turns in it.
//!
//! The invariant here: a row is as large as that of a short message, about 200 bytes of params, and
//! so is the pool's.

use std::iter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use turnlane_runtime::{SystemClock, this_worker};
use turnlane_store::queue::{
    Accepting, Append, Appended, Claim, Claimed, Fate, NewRow, Policies, Verdict, Which,
};
use turnlane_store::sqlite::{Options, SqliteStore};
use turnlane_store::thread::{Listed, NewThread};
use turnlane_store::turn::{
    Accept, Accepted, AcceptedTurn, Complete, FirstItem, Keep, PauseChange, Put, TurnEnd,
    TurnStatus, WaitingChange,
};
use turnlane_store::{Json, RowId, Store as _, ThreadId};
use uuid::Uuid;

/// The time of everything that is recorded.
pub(crate) const AT_MS: i64 = 1_800_000_000_000;

/// How many rows are submitted at once when a database is filled: below what the store refuses.
const FILL_AT_ONCE: usize = 4_096;

/// What a row is started with.
pub(crate) fn params() -> String {
    let text = "Please run the tests, look at what fails and tell me what you would do about it.";
    format!(r#"{{"input":[{{"type":"text","text":"{text}","text_elements":[]}}],"model":"none"}}"#)
}

/// A runtime for those who call; the store has threads of its own.
pub(crate) fn callers() -> anyhow::Result<Runtime> {
    Ok(Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?)
}

pub(crate) fn open(folder: &Path) -> anyhow::Result<Arc<SqliteStore>> {
    let worker = this_worker("bench", &SystemClock);
    let store = SqliteStore::open(Options::new(folder.join("turnlane.db"), worker))?;
    Ok(Arc::new(store))
}

/// An id that was never given, in order of time as those of the product.
pub(crate) fn next_id() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Uuid::from_u128(0x0198_c0de_0000_7000_8000_0000_0000_0000 | u128::from(number))
}

/// Makes threads whose lanes take any number of rows.
pub(crate) async fn threads(store: &SqliteStore, count: usize) -> anyhow::Result<Vec<ThreadId>> {
    let mut made = Vec::with_capacity(count);
    while made.len() < count {
        let some = FILL_AT_ONCE.min(count - made.len());
        let works: Vec<_> = (0..some).map(|_| store.create_thread(thread())).collect();
        for work in works {
            made.push(work.await?.id);
        }
    }
    Ok(made)
}

fn thread() -> NewThread {
    NewThread {
        id: next_id().into(),
        engine: "scripted".to_owned(),
        settings: Json::new("{}"),
        facts: Json::new("{}"),
        name: None,
        cwd: "/".to_owned(),
        source: "bench".to_owned(),
        provider: "nobody".to_owned(),
        parent: None,
        binding: None,
        listed: Listed::FromFirstTurn,
        max_depth: u32::MAX,
        at_ms: AT_MS,
    }
}

/// A row for that lane.
pub(crate) fn append(thread: ThreadId) -> Append {
    let id = next_id();
    Append {
        thread,
        row: NewRow {
            id: id.into(),
            turn: next_id().into(),
            source: "queue".to_owned(),
            params: Json::new(params()),
            client_id: id.to_string(),
            key: None,
            content_hash: [7; 32],
            not_before_ms: 0,
            policies: Policies::default(),
            bound: None,
        },
        key_window_ms: 0,
        at_ms: AT_MS,
    }
}

/// Adds so many rows to each of the lanes, one lane after the other; the rows in their order.
pub(crate) async fn fill(
    store: &SqliteStore,
    threads: &[ThreadId],
    rows: usize,
) -> anyhow::Result<Vec<RowId>> {
    let mut lanes = threads.iter().flat_map(|lane| iter::repeat_n(lane, rows));
    let mut added = Vec::new();
    loop {
        let some = lanes.by_ref().take(FILL_AT_ONCE);
        let works: Vec<_> = some.map(|lane| store.append(append(*lane))).collect();
        if works.is_empty() {
            return Ok(added);
        }
        for work in works {
            if let Appended::New(row) = work.await?.value {
                added.push(row.id);
            }
        }
    }
}

pub(crate) fn claim_of(thread: ThreadId) -> Claim {
    Claim {
        thread,
        which: Which::Head,
        at_ms: AT_MS,
    }
}

/// Accepts a row with the item that its message becomes.
pub(crate) fn accepting() -> Accepting {
    Accepting::new(|acceptance| {
        Verdict::Accept(Box::new(Accept {
            item: Some(FirstItem {
                id: acceptance.row.id.to_string(),
                kind: "userMessage".to_owned(),
                body: acceptance.row.params.clone(),
            }),
            settings: None,
            cwd: None,
            preview: Some("Please run the tests".to_owned()),
        }))
    })
}

/// Claims and accepts the head of a lane that is idle.
pub(crate) async fn begin(store: &SqliteStore, thread: ThreadId) -> anyhow::Result<AcceptedTurn> {
    match store
        .claim_and_accept(claim_of(thread), accepting())
        .await?
    {
        Claimed::Ours(Accepted::Begun(begun)) => Ok(*begun),
        Claimed::Ours(Accepted::CannotStart(_) | Accepted::Claimed(_)) | Claimed::NotNow(_) => {
            anyhow::bail!("an idle lane with rows must run one")
        }
    }
}

/// The end of a turn that said nothing.
pub(crate) fn complete(begun: &AcceptedTurn) -> Complete {
    Complete {
        grip: begun.grip,
        row: begun.row.id,
        turn_ord: begun.turn.ord,
        end: TurnEnd {
            status: TurnStatus::Completed,
            error: None,
            usage: None,
            muted: false,
        },
        put: Put::default(),
        fate: Fate::Done,
        waiting: WaitingChange::Keep,
        pause: PauseChange::Keep,
        keep: Keep::Ours,
        at_ms: AT_MS,
    }
}

/// Everything that the tasks of one round made.
pub(crate) async fn all<T: 'static>(
    tasks: JoinSet<anyhow::Result<Vec<T>>>,
) -> anyhow::Result<Vec<T>> {
    let mut made = Vec::new();
    for some in tasks.join_all().await {
        made.extend(some.context("a task of the round failed")?);
    }
    Ok(made)
}
