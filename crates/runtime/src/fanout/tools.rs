//! The tool `spawn_agents_on_csv`: an agent runs one worker agent per row of a table file.
//!
//! The invariants here: nothing starts before the output file is known to be allowed; the call returns
//! when the job has ended or is paused; a turn that is interrupted while it waits leaves a paused job
//! behind and no running item.

mod arguments;
mod outcome;
mod paths;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use turnlane_engine::{BoxFuture, RuntimeTool, ToolAnswer, ToolCall, TurnSettings};
use turnlane_protocol::usage::TokenCounts;
use turnlane_store::fanout::{JobNo, JobRow, JobState};

use self::arguments::SpawnArguments;
use super::export::ExportFormat;
use super::ids::OnDuplicate;
use super::input::{Format, InputSpec};
use super::jobs::spec::{ChannelChoice, KeepThreads, is_own_engine};
use super::jobs::{Job, JobError, JobEvent, JobSpec, Jobs, Owner, Watch, Watched, new_id};
use super::prompt::ResultChannel;
use crate::lanes::Lanes;
use crate::options::FanoutOptions;
use crate::runtime_tools::{Tool, ToolTurn};
use crate::settings::Settings;
use crate::shared::Shared;

/// The name of the tool.
pub(crate) const SPAWN_TOOL: &str = "spawn_agents_on_csv";
/// Workers at once that a call gets which does not say.
const CONCURRENCY_DEFAULT: u32 = 16;
/// How often a job is read while the call waits without news of it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The tool; see the module.
pub(crate) struct SpawnTool {
    pub shared: Weak<Shared>,
    pub lanes: Weak<Lanes>,
    pub options: FanoutOptions,
}

impl Tool for SpawnTool {
    fn offer(&self, turn: &ToolTurn) -> Option<RuntimeTool> {
        let is_own = is_own_engine(&turn.engine);
        let wanted = self.options.agent_tools || is_enabled(&turn.settings);
        (is_own && wanted && turn.item.is_none()).then(shown)
    }

    fn call(
        &self,
        turn: Arc<ToolTurn>,
        call: ToolCall,
        _used: Option<TokenCounts>,
    ) -> BoxFuture<'static, ToolAnswer> {
        let (shared, lanes) = (self.shared.upgrade(), self.lanes.upgrade());
        let options = self.options.clone();
        Box::pin(async move {
            let (Some(shared), Some(lanes)) = (shared, lanes) else {
                return failure("the worker stops".to_owned());
            };
            let spawning = Spawning {
                jobs: Jobs::new(shared, lanes),
                options,
                turn,
            };
            match spawning.run(call.arguments).await {
                Ok(text) => ToolAnswer {
                    text,
                    success: true,
                    end_turn: false,
                },
                Err(text) => failure(text),
            }
        })
    }
}

/// Returns true if the configuration of a thread turns the tool on.
fn is_enabled(settings: &TurnSettings) -> bool {
    config(settings, "features", "enable_fanout").and_then(Value::as_bool) == Some(true)
}

/// A key of a thread's configuration, written as a table or with a dot.
fn config<'a>(settings: &'a TurnSettings, table: &str, key: &str) -> Option<&'a Value> {
    let dotted = settings.config.get(&format!("{table}.{key}"));
    dotted.or_else(|| settings.config.get(table)?.get(key))
}

/// The tool as models are shown it.
pub(crate) fn shown() -> RuntimeTool {
    RuntimeTool {
        name: SPAWN_TOOL.to_owned(),
        description:
            "Run one worker agent per row of a table file. {column} in the instruction is \
             replaced by the row's value. Each worker reports one JSON object with \
             report_agent_job_result. Waits until all rows have ended and writes a result CSV."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["csv_path", "instruction"],
            "properties": {
                "csv_path": {"type": "string", "description": "Input file with a header row."},
                "instruction": {
                    "type": "string",
                    "description":
                        "Task for each row; {column} inserts a value, {{ and }} are literal braces."
                },
                "id_column": {
                    "type": "string",
                    "description": "Column with a stable id per row; default: row numbers."
                },
                "output_csv_path": {
                    "type": "string",
                    "description": "Where to write results; default: beside the input."
                },
                "max_concurrency": {
                    "type": "number",
                    "description": "Workers at once, 1 to 64, default 16."
                },
                "max_workers": {
                    "type": "number",
                    "description": "Same as max_concurrency; used only if that is absent."
                },
                "max_runtime_seconds": {
                    "type": "number",
                    "description": "Time limit per worker, default 1800."
                },
                "output_schema": {
                    "type": "object",
                    "properties": {},
                    "description": "JSON Schema every result must satisfy."
                },
                "wait": {
                    "type": "boolean",
                    "description": "false returns the job id at once; default true."
                }
            }
        }),
    }
}

/// One call of the tool.
struct Spawning {
    jobs: Jobs,
    options: FanoutOptions,
    turn: Arc<ToolTurn>,
}

impl Spawning {
    /// Runs the call; the text for the model, or the text of the failure.
    async fn run(&self, arguments: Value) -> Result<String, String> {
        let arguments = SpawnArguments::read(arguments)?;
        let settings = &self.turn.settings;
        let cwd = Path::new(&settings.cwd);
        let input = cwd.join(&arguments.csv_path);
        let id = new_id(self.jobs.now_ms());
        let output = match &arguments.output_csv_path {
            Some(path) => cwd.join(path),
            None => paths::default_output(&input, &id),
        };
        paths::check_output(settings, &input, &output)?;
        let mut events = self.jobs.watch();
        let waits = arguments.wait;
        let spec = self.spec(&arguments, &output);
        let job = self
            .jobs
            .create_with_id(id, spec)
            .await
            .map_err(|error| error.to_string())?;
        let mut guard = Orphaning {
            jobs: self.jobs.clone(),
            job: Some(job.row.no),
        };
        let id = job.row.made.id;
        let spec = InputSpec {
            format: Format::from_path(&input),
            ..InputSpec::default()
        };
        let imported = self.jobs.import_path(&id, &input, spec).await;
        imported.map_err(input_text)?;
        let started = self
            .jobs
            .start(&id)
            .await
            .map_err(|error| error.to_string())?;
        if !waits {
            guard.job = None;
            return outcome::text(&self.jobs, started, &output).await;
        }
        let ended = self
            .wait(&id, &mut events)
            .await
            .map_err(|error| error.to_string())?;
        guard.job = None;
        outcome::text(&self.jobs, ended, &output).await
    }

    fn spec(&self, arguments: &SpawnArguments, output: &Path) -> JobSpec {
        let settings = &self.turn.settings;
        let mut spec = JobSpec::new(
            arguments.instruction.clone(),
            self.turn.engine.clone(),
            thread_settings(settings),
        );
        spec.channel = ChannelChoice::Only(ResultChannel::Tool);
        spec.output_schema.clone_from(&arguments.output_schema);
        spec.owner = if arguments.wait {
            Owner::Turn {
                thread: self.turn.thread,
                turn: self.turn.turn,
            }
        } else {
            Owner::Detached
        };
        let threads_max = config(settings, "agents", "max_threads").and_then(Value::as_u64);
        let threads_max = threads_max.and_then(|max| u32::try_from(max).ok());
        let threads_max = threads_max.or(self.options.max_threads);
        let concurrency = arguments.concurrency.unwrap_or(CONCURRENCY_DEFAULT);
        spec.limits.concurrency = concurrency.min(threads_max.unwrap_or(u32::MAX)).max(1);
        let runtime = config(settings, "agents", "job_max_runtime_seconds");
        let runtime = runtime.and_then(Value::as_u64).map(Duration::from_secs);
        let runtime = runtime.or(self.options.job_max_runtime);
        let runtime = arguments.max_runtime.or(runtime);
        if let Some(runtime) = runtime {
            spec.limits.timeout_ms = u64::try_from(runtime.as_millis()).unwrap_or(u64::MAX);
        }
        spec.limits.max_failures = None;
        spec.options.id_column.clone_from(&arguments.id_column);
        spec.options.on_duplicate = OnDuplicate::Suffix;
        spec.options.agent_tool = true;
        if self.jobs.is_ephemeral(self.turn.thread) {
            // What works for a thread that leaves nothing behind leaves its results alone.
            spec.options.keep_threads = Some(KeepThreads::None);
        }
        spec.options.export_overwrite = true;
        spec.options.export_format = ExportFormat::from_path(output);
        spec.export_path = Some(output.to_string_lossy().into_owned());
        spec
    }

    /// Waits until a job has ended, or is paused and nothing of it runs.
    async fn wait(&self, job: &str, events: &mut Watch<JobEvent>) -> Result<Job, JobError> {
        loop {
            match tokio::time::timeout(LOOK_EVERY, events.recv()).await {
                Ok(Some(Watched::Event(JobEvent::Ended(row)))) if row.made.id == job => {
                    return self.jobs.read(job).await;
                }
                Ok(Some(Watched::Event(_))) => {}
                // Too slow, or no news: the job itself says whether it has ended.
                Ok(Some(Watched::Dropped(_))) | Err(_) => {
                    let read = self.jobs.read(job).await?;
                    if rests(&read.row) {
                        return Ok(read);
                    }
                }
                Ok(None) => return self.jobs.read(job).await,
            }
        }
    }
}

/// Returns true if a job has ended and its export is decided, or is paused and nothing of it runs.
fn rests(row: &JobRow) -> bool {
    let is_exported = row.export_digest.is_some() || row.export_error.is_some();
    match row.state {
        JobState::Paused => row.counts.running == 0,
        state => state.is_terminal() && is_exported,
    }
}

/// Leaves no running item behind when the calling turn is stopped.
struct Orphaning {
    jobs: Jobs,
    job: Option<JobNo>,
}

impl Drop for Orphaning {
    fn drop(&mut self) {
        let (Some(job), Ok(runtime)) = (self.job, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let jobs = self.jobs.clone();
        runtime.spawn(async move {
            if let Err(error) = jobs.orphan(job).await {
                tracing::warn!(%error, "a fan-out job without its turn was not paused");
            }
        });
    }
}

/// The settings of the calling turn, for the threads of the items.
fn thread_settings(turn: &TurnSettings) -> Settings {
    Settings {
        model: turn.model.clone(),
        provider: turn.provider.clone(),
        cwd: turn.cwd.clone(),
        runtime_workspace_roots: turn.runtime_workspace_roots.clone(),
        config: turn.config.clone(),
        approval_policy: turn.approval_policy,
        approvals_reviewer: None,
        sandbox_policy: turn.sandbox_policy.clone(),
        permission_profile: None,
        effort: turn.effort.clone(),
        summary: turn.summary,
        personality: None,
        service_tier: turn.service_tier.clone(),
        base_instructions: turn.base_instructions.clone(),
        developer_instructions: turn.developer_instructions.clone(),
    }
}

/// The text of a problem of the input; what a parser says is named as such.
fn input_text(error: JobError) -> String {
    match error {
        JobError::BadInput(problems) => {
            let first = problems.first();
            let message = first.map_or_else(String::new, |problem| problem.message.clone());
            if message.starts_with("csv ")
                || message.starts_with("failed to ")
                || message.starts_with("unknown placeholder")
                || message.starts_with("id_column ")
            {
                return message;
            }
            format!("failed to parse csv input: {message}")
        }
        other => other.to_string(),
    }
}

fn failure(text: String) -> ToolAnswer {
    ToolAnswer {
        text,
        success: false,
        end_turn: false,
    }
}

/// The status that the model is told.
pub(super) fn status_word(state: JobState, succeeded: i64, failed: i64) -> &'static str {
    match state {
        JobState::Failed => "failed",
        JobState::Cancelled | JobState::Cancelling => "cancelled",
        JobState::Paused => "paused",
        JobState::Importing | JobState::Ready | JobState::Running => "running",
        JobState::Succeeded | JobState::FinishedWithFailures => {
            if succeeded == 0 && failed > 0 {
                "failed"
            } else {
                "completed"
            }
        }
    }
}

#[cfg(test)]
mod tests;
