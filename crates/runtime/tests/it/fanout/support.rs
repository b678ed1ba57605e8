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
    FanoutItem, ImportBatch, ImportProgress, ImportedBatch, ItemDetail, ItemState, JobRow,
    JobState, NewItemRow, SealJob,
};
use turnlane_runtime::{Handle, Options};
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

/// A step that calls the report tool with these arguments.
pub(crate) fn call_step(arguments: &str) -> String {
    format!("{{call: {{tool: report_agent_job_result, arguments: '{arguments}'}}}}")
}

/// A step that reports this result.
pub(crate) fn report_step(result: &str) -> String {
    let ids = r#""job_id":"{line:Job ID: }","item_id":"{line:Item ID: }""#;
    call_step(&format!(r#"{{{ids},"result":{result}}}"#))
}

/// A script whose turns are these, and report at once otherwise.
pub(crate) fn reporting(turns: &str) -> String {
    let report = report_step(r#"{"ok":true}"#);
    format!("version: 1\nturns:\n{turns}\nfallback: [{report}]\n")
}

/// An engine that plays a script and remembers what it was asked.
pub(crate) struct Recorder {
    inner: turnlane_engine::scripted::Scripted,
    asked: Arc<Mutex<Vec<String>>>,
    store: Arc<Mutex<Option<Arc<dyn Store>>>>,
    unstored: Arc<Mutex<usize>>,
}

impl Recorder {
    /// Counts a turn that the store does not have with its message.
    fn look_for(&self, request: &TurnRequest) -> BoxFuture<'static, ()> {
        let store = self.store.lock().unwrap().clone();
        let unstored = Arc::clone(&self.unstored);
        let (thread, turn) = (request.thread_id.as_uuid(), request.turn_id.as_uuid());
        let item = request.item_id.as_ref().map(ToString::to_string);
        Box::pin(async move {
            let Some(store) = store else { return };
            let turn = store.turn(thread.into(), turn.into()).await.unwrap();
            let item = store.item(thread.into(), item.unwrap_or_default());
            if turn.is_none() || item.await.unwrap().is_none() {
                *unstored.lock().unwrap() += 1;
            }
        })
    }
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
        let look = self.look_for(&request);
        let turn = self.inner.run_turn(request, events, control);
        Box::pin(async move {
            look.await;
            turn.await
        })
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
    unstored: Arc<Mutex<usize>>,
}

impl Floor {
    pub(crate) async fn start(home: &Home, script: &str) -> Self {
        Self::start_with(home, script, Options::default()).await
    }

    pub(crate) async fn start_with(home: &Home, script: &str, options: Options) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let inner = scripted(script, &home.clock);
        let gates = inner.gates();
        let (store, unstored) = (Arc::default(), Arc::default());
        let engine = Recorder {
            inner,
            asked: Arc::clone(&asked),
            store: Arc::clone(&store),
            unstored: Arc::clone(&unstored),
        };
        let world = home.start_engine(Arc::new(engine), options).await;
        *store.lock().unwrap() = Some(Arc::clone(world.handle.store()));
        Self {
            unstored,
            jobs: world.handle.jobs(),
            world: World { gates, ..world },
            asked,
        }
    }

    /// The prompts that the engine was given.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The number of turns that were not in the store when the engine was given them.
    pub(crate) fn unstored(&self) -> usize {
        *self.unstored.lock().unwrap()
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
            let rests = job.state == state && job.counts.running == 0;
            let open = self.store().unsettled_items(job.no, 1).await.unwrap();
            rests && self.jobs.running_items() == 0 && open.is_empty()
        })
        .await;
        let found = self.jobs.read(job).await.unwrap();
        assert!(waited.is_ok(), "{what}: {:?}", found.row);
        found
    }

    /// As [`Floor::rests`], while the clock goes on by a second with every look.
    pub(crate) async fn rests_in_time(&self, home: &Home, job: &str, state: JobState) -> Job {
        let what = format!("the job to be {state:?}");
        let waited = eventually(&what, DEADLINE, async || {
            home.clock.jump(1_000);
            let job = self.jobs.read(job).await.unwrap().row;
            let rests = job.state == state && job.counts.running == 0;
            let open = self.store().unsettled_items(job.no, 1).await.unwrap();
            rests && self.jobs.running_items() == 0 && open.is_empty()
        })
        .await;
        let found = self.jobs.read(job).await.unwrap();
        assert!(waited.is_ok(), "{what}: {:?}", found.row);
        found
    }

    /// Waits until so many turns were given to the engine.
    pub(crate) async fn asks(&self, count: usize) {
        let what = format!("{count} turns");
        let asked = async || self.asked().len() >= count;
        eventually(&what, DEADLINE, asked).await.unwrap();
    }

    /// The thread in which an item runs or ran last.
    pub(crate) async fn thread_of(&self, job: &str, item: &str) -> ThreadId {
        let has_thread = async || self.item(job, item).await.item.thread.is_some();
        let waited = eventually("the item to have a thread", DEADLINE, has_thread);
        waited.await.unwrap();
        let thread = self.item(job, item).await.item.thread.unwrap();
        ThreadId::from_uuid(thread.as_uuid())
    }

    pub(crate) async fn item(&self, job: &str, item: &str) -> ItemDetail {
        *self.jobs.item(job, item).await.unwrap().detail
    }

    pub(crate) async fn items(&self, job: &str) -> Vec<FanoutItem> {
        let page = self.jobs.items(job, 0, Vec::new(), 1_000).await;
        page.unwrap().items
    }

    /// The stored counts, and those of the items.
    async fn counts(&self, job: &str) -> ([i64; 6], [i64; 6]) {
        let row = self.jobs.read(job).await.unwrap().row;
        let items = self.items(job).await;
        let count = |state: ItemState| {
            let count = items.iter().filter(|item| item.state == state).count();
            i64::try_from(count).unwrap()
        };
        let counts = &row.counts;
        let stored = [
            counts.succeeded,
            counts.failed,
            counts.running,
            counts.cancelled,
            counts.skipped,
            row.pending(),
        ];
        let found = [
            ItemState::Succeeded,
            ItemState::Failed,
            ItemState::Running,
            ItemState::Cancelled,
            ItemState::Skipped,
            ItemState::Pending,
        ];
        (stored, found.map(count))
    }

    /// Returns true if the stored counts are those of the items.
    pub(crate) async fn counts_agree(&self, job: &str) -> bool {
        let (stored, found) = self.counts(job).await;
        stored == found
    }

    /// Fails unless the stored counts are those of the items.
    pub(crate) async fn assert_counts(&self, job: &str) {
        let (stored, found) = self.counts(job).await;
        assert_eq!(stored, found);
    }

    pub(crate) async fn stop(self) {
        let Self { world, .. } = self;
        world.runtime.stop(std::time::Duration::ZERO).await.unwrap();
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
