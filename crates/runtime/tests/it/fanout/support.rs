//! Jobs of tests: rows that follow from their numbers, an engine that counts the turns it is given.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Sink, TurnControl, TurnOutcome, TurnRequest,
};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::input::UserInput;
use turnlane_runtime::fanout::jobs::{Job, JobSpec, Jobs};
use turnlane_runtime::store::fanout::{
    FanoutItem, ImportBatch, ImportProgress, ImportedBatch, ItemDetail, ItemState, JobKey, JobRow,
    JobState, NewItemRow, SealJob,
};
use turnlane_runtime::{Handle, Options, Runtime};
use turnlane_store::{Json, Store};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Home, NOW_MS, World, scripted, settings};

/// Reports a result at once.
pub(crate) const REPORTS: &str = r#"
version: 1
fallback:
  - call:
      tool: report_agent_job_result
      arguments: '{"job_id":"{line:Job ID: }","item_id":"{line:Item ID: }","result":{"ok":true}}'
"#;

/// An engine that plays a script and remembers what it was asked.
pub(crate) struct Recorder {
    inner: turnlane_engine::scripted::Scripted,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Engine for Recorder {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn continues(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let text = request.input.iter().find_map(|part| match part {
            UserInput::Text { text, .. } => Some(text.clone()),
            _ => None,
        });
        self.asked.lock().unwrap().push(text.unwrap_or_default());
        self.inner.run_turn(request, events, control)
    }

    fn close(&self, thread: ThreadId) -> BoxFuture<'_, ()> {
        self.inner.close(thread)
    }
}

/// A runtime whose engine remembers what it was asked.
pub(crate) struct Floor {
    pub(crate) world: World,
    pub(crate) jobs: Jobs,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl Floor {
    pub(crate) async fn start(home: &Home, script: &str) -> Self {
        Self::start_with(home, script, Options::default()).await
    }

    pub(crate) async fn start_with(home: &Home, script: &str, options: Options) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let inner = scripted(script, &home.clock);
        let gates = inner.gates();
        let engine = Recorder {
            inner,
            asked: Arc::clone(&asked),
        };
        let world = home.start_engine(Arc::new(engine), options).await;
        Self {
            jobs: world.handle.jobs(),
            world: World { gates, ..world },
            asked,
        }
    }

    /// The prompts that the engine was given.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.world.handle
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.world.handle.store()
    }

    /// Makes a job with so many rows, which is ready.
    pub(crate) async fn job(&self, rows: i64, change: impl FnOnce(&mut JobSpec)) -> String {
        let mut spec = JobSpec::new("Handle {n}", "scripted", settings());
        spec.limits.grace_ms = 0;
        change(&mut spec);
        let job = self.jobs.create(spec).await.unwrap();
        fill(self.store().as_ref(), &job.row, rows).await;
        job.row.made.id
    }

    /// Makes a job with so many rows and starts it.
    pub(crate) async fn run(&self, rows: i64, change: impl FnOnce(&mut JobSpec)) -> String {
        let id = self.job(rows, change).await;
        self.jobs.start(&id).await.unwrap();
        id
    }

    /// Waits until a job is in a state and nothing of it runs.
    pub(crate) async fn rests(&self, job: &str, state: JobState) -> Job {
        let what = format!("the job to be {state:?}");
        let waited = eventually(&what, DEADLINE, async || {
            let job = self.jobs.read(job).await.unwrap().row;
            job.state == state && job.counts.running == 0 && self.jobs.running_items() == 0
        })
        .await;
        let found = self.jobs.read(job).await.unwrap();
        assert!(waited.is_ok(), "{what}: {:?}", found.row);
        found
    }

    pub(crate) async fn item(&self, job: &str, item: &str) -> ItemDetail {
        *self.jobs.item(job, item).await.unwrap().detail
    }

    pub(crate) async fn items(&self, job: &str) -> Vec<FanoutItem> {
        let page = self.jobs.items(job, 0, Vec::new(), 1_000).await;
        page.unwrap().items
    }

    /// Fails unless the stored counts are those of the items.
    pub(crate) async fn assert_counts(&self, job: &str) {
        let row = self.jobs.read(job).await.unwrap().row;
        let items = self.items(job).await;
        let count = |state: ItemState| {
            let count = items.iter().filter(|item| item.state == state).count();
            i64::try_from(count).unwrap()
        };
        assert_eq!(row.counts.succeeded, count(ItemState::Succeeded));
        assert_eq!(row.counts.failed, count(ItemState::Failed));
        assert_eq!(row.counts.running, count(ItemState::Running));
        assert_eq!(row.counts.cancelled, count(ItemState::Cancelled));
        assert_eq!(row.pending(), count(ItemState::Pending));
    }

    pub(crate) async fn stop(self) {
        let Self { world, .. } = self;
        world.runtime.stop(std::time::Duration::ZERO).await.unwrap();
    }

    /// Ends as a killed process does: nothing is recorded.
    pub(crate) fn kill(self) -> Runtime {
        self.world.runtime
    }
}

/// Adds rows to a job and seals it.
pub(crate) async fn fill(store: &dyn Store, job: &JobRow, rows: i64) {
    let row = |seq: i64| NewItemRow {
        seq,
        item_id: None,
        cells: Json::from(json!([seq.to_string()]).to_string()),
        skipped: None,
        dup_of: None,
    };
    let batch = ImportBatch {
        job: job.no,
        from_offset: 0,
        progress: ImportProgress {
            offset: rows.max(1),
            ..ImportProgress::default()
        },
        columns: Json::new("[\"n\"]"),
        rows: (0..rows).map(row).collect(),
    };
    let imported = store.import_rows(batch).await.unwrap();
    assert!(matches!(imported, ImportedBatch::Added(_)), "{imported:?}");
    let seal = SealJob {
        job: job.no,
        fingerprint: [7; 32],
        at_ms: NOW_MS,
    };
    store.seal_job(seal).await.unwrap();
}

/// The answers that the report tool gave in the thread of an item, in order.
pub(crate) async fn answers(floor: &Floor, item: &FanoutItem) -> Vec<Value> {
    let thread = ThreadId::from_uuid(item.thread.unwrap().as_uuid());
    let items = floor.world.items(thread).await;
    let calls = items.iter().filter(|item| item.kind == "dynamicToolCall");
    calls
        .map(|item| {
            let body: Value = serde_json::from_str(item.body.as_str()).unwrap();
            let text = body["contentItems"][0]["text"].as_str().unwrap().to_owned();
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        })
        .collect()
}

/// The stored job.
pub(crate) async fn stored(store: &dyn Store, job: &str) -> JobRow {
    store
        .job(JobKey::Id(job.to_owned()))
        .await
        .unwrap()
        .unwrap()
}
