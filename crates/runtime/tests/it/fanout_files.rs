//! Files of fan-out jobs: inputs become rows of a job, jobs become result files.

mod choices;
mod cut_off;
mod exports;
mod ids;
mod inputs;
mod stray_quote;
mod streams;
mod targets;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnlane_runtime::fanout::import::{ImportError, Imports};
use turnlane_runtime::fanout::input::{Format, InputSpec};
use turnlane_store::fanout::{CreatedJob, ItemDetail, JobKey, JobOwner, JobRow, JobState, NewJob};
use turnlane_store::{Json, Store};

use crate::support::{Home, NOW_MS};

/// A store, its imports, and a directory for files.
pub(crate) struct Desk {
    pub(crate) home: Home,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) imports: Imports,
    pub(crate) files: tempfile::TempDir,
}

/// A job with this instruction and options.
pub(crate) fn new_job(id: &str, instruction: &str, options: &str) -> NewJob {
    NewJob {
        id: id.to_owned(),
        name: None,
        owner: JobOwner::Detached,
        owner_worker: None,
        parent_thread: None,
        parent_turn: None,
        client_job_id: None,
        instruction: instruction.to_owned(),
        schema: None,
        channel: "tool".to_owned(),
        settings: Json::new(r#"{"engine":"native","model":"m"}"#),
        limits: Json::new("{}"),
        options: Json::new(options),
        current_limit: 8,
        input_ref: None,
        export_path: None,
        at_ms: NOW_MS,
    }
}

impl Desk {
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let store: Arc<dyn Store> = home.store();
        let clock = Arc::new(home.clock.clone());
        Self {
            imports: Imports::new(Arc::clone(&store), clock),
            store,
            home,
            files: tempfile::tempdir().unwrap(),
        }
    }

    /// The imports of another worker on the same database.
    pub(crate) fn other_imports(&self) -> Imports {
        let clock = Arc::new(self.home.clock.clone());
        Imports::new(self.home.store(), clock)
    }

    pub(crate) async fn create(&self, job: NewJob) -> JobRow {
        match self.store.create_job(job).await.unwrap() {
            CreatedJob::Made(job) => *job,
            CreatedJob::Existing(job) => panic!("{} was there", job.made.id),
        }
    }

    pub(crate) async fn job(&self, id: &str) -> JobRow {
        let key = JobKey::Id(id.to_owned());
        self.store.job(key).await.unwrap().unwrap()
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.files.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Makes a job and imports a file of this name and content into it.
    pub(crate) async fn import(
        &self,
        job: NewJob,
        name: &str,
        content: impl AsRef<[u8]>,
    ) -> Result<JobRow, ImportError> {
        let path = self.file(name, content);
        let job = self.create(job).await;
        self.import_path(job, &path).await
    }

    pub(crate) async fn import_path(
        &self,
        job: JobRow,
        path: &Path,
    ) -> Result<JobRow, ImportError> {
        let spec = spec(Format::from_path(path));
        self.imports.import_path(job, path, spec).await
    }

    pub(crate) async fn rows(&self, job: &JobRow) -> Vec<ItemDetail> {
        let mut rows = Vec::new();
        loop {
            let from = rows.last().map_or(0, |row: &ItemDetail| row.item.seq + 1);
            let page = self.store.export_page(job.no, from, 1_000).await.unwrap();
            if page.is_empty() {
                return rows;
            }
            rows.extend(page);
        }
    }

    pub(crate) async fn ids(&self, job: &JobRow) -> Vec<String> {
        let rows = self.rows(job).await.into_iter();
        rows.map(|row| row.item.item_id).collect()
    }

    /// The texts of the problems; the job must have failed with them and have started nothing.
    pub(crate) async fn refused(
        &self,
        id: &str,
        outcome: Result<JobRow, ImportError>,
    ) -> Vec<String> {
        let error = outcome.unwrap_err();
        let job = self.job(id).await;
        assert_eq!(job.state, JobState::Failed, "{error}");
        assert_eq!(job.reason.as_deref(), Some("import"));
        assert_eq!((job.counts.attempts, job.started_ms), (0, None));
        let texts = match error {
            ImportError::Problems(problems) => {
                let texts = problems.into_iter().map(|problem| problem.message);
                texts.collect()
            }
            other => vec![other.to_string()],
        };
        assert!(job.reason_message.unwrap().starts_with(&texts[0]));
        texts
    }
}

pub(crate) fn spec(format: Format) -> InputSpec {
    InputSpec {
        format,
        ..InputSpec::default()
    }
}
