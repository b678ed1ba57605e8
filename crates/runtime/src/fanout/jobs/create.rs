//! New jobs: checked before anything is stored.
//!
//! The invariant here: a job that is stored can be run once it has rows. What can be known to be wrong
//! without rows is refused here.

use std::path::Path;

use turnlane_protocol::ids::ThreadId;
use turnlane_store::fanout::{CreatedJob, JobOwner, NewJob};

use super::spec::{ChannelChoice, ItemSettings, JobSpec, Owner, WorktreeChoice, is_own_engine};
use super::{Job, JobError, Jobs};
use crate::fanout::prompt::ResultChannel;
use crate::fanout::schema::ResultSchema;
use crate::fanout::template::Template;
use crate::ids;
use crate::lane::rows;

impl Jobs {
    /// Makes a job without rows, or finds the one that has its client job id. Durable.
    pub async fn create(&self, spec: JobSpec) -> Result<Job, JobError> {
        self.create_with_id(new_id(self.now_ms()), spec).await
    }

    /// As [`Jobs::create`], with the id of the job chosen by the caller.
    pub(crate) async fn create_with_id(&self, id: String, spec: JobSpec) -> Result<Job, JobError> {
        let channel = check(&spec)?;
        let me = self.store().worker();
        let (owner, owner_worker, parent) = match spec.owner {
            Owner::Detached => (JobOwner::Detached, None, None),
            Owner::Connection => (JobOwner::Connection, Some(me), None),
            Owner::Turn { thread, turn } => (JobOwner::Turn, Some(me), Some((thread, turn))),
        };
        let worktree = match spec.worktree {
            WorktreeChoice::None => None,
            WorktreeChoice::Item => {
                let cwd = Path::new(&spec.settings.cwd);
                let pinned = self.shared.trees.pin(&id, cwd).await;
                Some(pinned.map_err(JobError::NoWorktree)?)
            }
        };
        let settings = ItemSettings {
            engine: spec.engine,
            worktree,
            thread: spec.settings,
        };
        let created = self
            .store()
            .create_job(NewJob {
                id,
                name: spec.name,
                owner,
                owner_worker,
                parent_thread: parent.map(|(thread, _)| ids::thread(thread)),
                parent_turn: parent.map(|(_, turn)| ids::turn(turn)),
                client_job_id: spec.client_job_id,
                instruction: spec.instruction,
                schema: spec.output_schema.as_ref().map(rows::write),
                channel: channel.as_str().to_owned(),
                settings: rows::write(&settings),
                current_limit: spec.limits.concurrency,
                limits: rows::write(&spec.limits),
                options: rows::write(&spec.options),
                input_ref: None,
                export_path: spec.export_path,
                at_ms: self.now_ms(),
            })
            .await?;
        let row = match created {
            CreatedJob::Made(row) => {
                self.tell_changed(&row);
                row
            }
            CreatedJob::Existing(row) => row,
        };
        self.show(*row).await
    }
}

/// A new id of a job.
pub(crate) fn new_id(now_ms: i64) -> String {
    ThreadId::new(u64::try_from(now_ms).unwrap_or(0)).to_string()
}

/// Refuses what cannot be run; the channel of the job.
fn check(spec: &JobSpec) -> Result<ResultChannel, JobError> {
    let template = Template::parse(&spec.instruction);
    template.map_err(|error| JobError::BadTemplate(error.to_string()))?;
    if let Some(problem) = spec.limits.problem() {
        return Err(JobError::BadLimit(problem));
    }
    if spec.limits.max_cost_usd.is_some() {
        return Err(JobError::NoPrice(spec.settings.model.clone()));
    }
    if let Some(schema) = &spec.output_schema {
        ResultSchema::compile(schema).map_err(|error| JobError::BadSchema(error.to_string()))?;
    }
    let is_own = is_own_engine(&spec.engine);
    match spec.channel {
        ChannelChoice::Auto if is_own => Ok(ResultChannel::Tool),
        ChannelChoice::Auto if spec.output_schema.is_some() => Ok(ResultChannel::Message),
        ChannelChoice::Auto => Ok(ResultChannel::Text),
        ChannelChoice::Only(ResultChannel::Tool) if !is_own => Err(JobError::ChannelUnsupported {
            engine: spec.engine.clone(),
            channel: ResultChannel::Tool.as_str(),
        }),
        ChannelChoice::Only(channel) => Ok(channel),
    }
}
