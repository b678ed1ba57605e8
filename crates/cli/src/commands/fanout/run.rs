//! `turnlane fanout run`: makes a job or finds the one that is the same run, and follows it.
//!
//! The invariant here: everything that can be known to be wrong is refused before a model is called,
//! with exit code 2. A job of the same key that has not ended is continued, never made twice.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};
use turnlane::{
    ExportFormat, FanoutCreateParams, FanoutExportParams, FanoutExportTarget, ImportOptions, Job,
    JobImportError, JobLimits, JobSettings, JobSpec, JobState, JobStatus, JobView, SandboxPolicy,
};
use turnlane_runtime::{Clock as _, SystemClock};

use super::follow::{Followed, OnSignal, Telling, follow};
use super::input::{Input, ReadInput, options};
use super::looking::name;
use super::{export, kept, refusal};
use crate::args::exec::options::SandboxArg;
use crate::args::{FanoutRun, LimitArgs};
use crate::session::Session;
use crate::shown::ids::short;
use crate::shown::{Form, Screen, note};

/// Jobs of the same key that have ended; more of them are not looked through.
const SAME_KEY_MAX: u32 = 10_000;
/// The wait for a quota of which the reset time is not known.
const QUOTA_LOOK: Duration = Duration::from_mins(5);

pub(super) async fn run(session: &Session, args: &FanoutRun) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    if args.detach && !session.outlives_us() {
        return refusal::usage(if session.is_beside_daemon() {
            "--detach leaves the job to the daemon, which --script and -c do not reach\n  \
             leave one of them out, or give the flag to `turnlane serve`"
        } else {
            "--detach needs a daemon, which runs the job after this command has ended\n  \
             start one with `turnlane serve`, or leave --detach out"
        });
    }
    let path = args.input.path();
    let prepared = ReadInput::open(&path).and_then(|input| Ok((input, params(session, args)?)));
    let (input, mut params) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return refusal::usage(&format!("{error:#}")),
    };
    if let Err(error) = check_output(&path, args) {
        return refusal::usage(&format!("{error:#}"));
    }
    let import = options(&args.input);
    let key = input.key(&params, &import)?;
    // Everything on another machine is written here, at the end.
    if !session.shares_files() {
        params.export = None;
    }
    let found = match find_or_create(session, params, &key, args).await {
        Ok(found) => found,
        Err(error) => return refusal::told(&error),
    };
    let FoundJob {
        job,
        mut view,
        finished,
    } = found;
    let resumed = view.status.state != JobState::Importing;
    if view.status.state == JobState::Importing {
        view = match import_rows(session, &job, input.input, import).await {
            Ok(view) => view,
            Err(error) => {
                let told = refusal::told_import(&error);
                if refusal::is_bad_input(&error) {
                    delete_unstarted(&job).await;
                }
                return told;
            }
        };
    }
    let run = Run {
        session,
        args,
        screen: &screen,
        resumed,
    };
    run.tell_before(&view, finished.as_ref()).await;
    let started = match view.status.state {
        JobState::Ready => job.start().await,
        JobState::Paused => job.resume().await,
        _ => Ok(view),
    };
    let view = match started {
        Ok(view) => view,
        Err(error) => {
            if !resumed {
                delete_unstarted(&job).await;
            }
            return match finished {
                Some(finished) if refusal::is_output_exists(&error) => {
                    refusal::usage(&output_of_finished(&refusal::words(&error), &finished))
                }
                _ => refusal::told(&error),
            };
        }
    };
    if args.detach {
        return detached(&screen, &view, resumed);
    }
    watch(session, args, &screen, &job, view, resumed).await
}

/// A run whose job is known.
struct Run<'a> {
    session: &'a Session,
    args: &'a FanoutRun,
    screen: &'a Screen,
    /// True if an earlier run made the job.
    resumed: bool,
}

impl Run<'_> {
    /// Says what a person should know before the job starts.
    async fn tell_before(&self, view: &JobView, finished: Option<&JobStatus>) {
        for warning in &view.status.import.warnings {
            note(&format!("warning: {warning}"));
        }
        if !self.resumed {
            if let Some(finished) = finished {
                let text = format!("{}; this is a new job", has_finished(finished));
                self.screen.hint(&text);
            }
            tell_unlike(self.session, view, self.screen).await;
            return;
        }
        let (name, id) = (name(&view.status), &view.status.id);
        self.screen.hint(&format!(
            "continuing job {name} ({id}); --new makes another one"
        ));
        if let Some(kept) = kept::warning(self.args, view) {
            note(&kept);
        }
    }
}

/// Deletes a job that this command made and that never started: it would be found in the place of the
/// corrected one, by its name and by its key.
async fn delete_unstarted(job: &Job) {
    if let Err(error) = job.delete().await {
        tracing::warn!(%error, "the refused job stays");
    }
}

fn has_finished(job: &JobStatus) -> String {
    let (name, id, counts) = (name(job), &job.id, &job.counts);
    let (ok, total) = (counts.succeeded, counts.total);
    format!("job {name} ({id}) has finished the same run with {ok}/{total} ok")
}

/// Names what can be done where the results of a finished run are in the way of the same run.
fn output_of_finished(refusal: &str, finished: &JobStatus) -> String {
    let id = short(&finished.id);
    let retry = if finished.counts.failed + finished.counts.cancelled > 0 {
        format!("\n  `turnlane fanout retry {id}` runs what failed again")
    } else {
        String::new()
    };
    format!(
        "{refusal}, or name another file to run everything again\n  {}{retry}\n  \
         `turnlane fanout export {id} -o FILE` writes its results once more",
        has_finished(finished)
    )
}

/// Gives a job its rows: by the path where the server reads the same files, else as a stream.
async fn import_rows(
    session: &Session,
    job: &Job,
    input: Input,
    options: ImportOptions,
) -> Result<JobView, JobImportError> {
    match input {
        Input::File(path) if session.shares_files() => {
            let imported = job.import_path(path.display().to_string(), options).await;
            imported.map_err(JobImportError::Call)
        }
        Input::File(path) => {
            let file = tokio::fs::File::open(&path).await;
            let file = file.map_err(JobImportError::Read)?;
            job.import_stream(file, options).await
        }
        Input::Spooled(file) => {
            let file = tokio::fs::File::from_std(file);
            job.import_stream(file, options).await
        }
    }
}

/// Follows a job that runs until it has ended, over waits for a quota.
async fn watch(
    session: &Session,
    args: &FanoutRun,
    screen: &Screen,
    job: &Job,
    mut view: JobView,
    resumed: bool,
) -> anyhow::Result<ExitCode> {
    let mut telling = Telling::new(screen, &args.here);
    telling.started(&view.status, resumed);
    let until = args.wait_quota.map(|max| Instant::now() + max);
    loop {
        let version = view.status.version;
        let followed = follow(job, version, &mut telling, OnSignal::Pause).await?;
        let Some(pause) = waits_for_quota(&followed, until) else {
            if let Some(output) = &args.output
                && let Err(error) = write_output(session, job, &followed, output, args).await
            {
                followed.finish(screen);
                return Err(error);
            }
            return Ok(followed.finish(screen));
        };
        sleep(pause).await;
        view = match job.resume().await {
            Ok(view) => view,
            Err(error) => return refusal::told(&error),
        };
    }
}

/// Writes the results where the job itself does not: on this machine for a job on another one, or to
/// another file than an earlier run named.
async fn write_output(
    session: &Session,
    job: &Job,
    followed: &Followed,
    output: &Path,
    args: &FanoutRun,
) -> anyhow::Result<()> {
    let status = &followed.job.status;
    if !status.state.is_terminal() {
        return Ok(());
    }
    if !session.shares_files() {
        return export::write_here(job, output, format_of(output), args.force).await;
    }
    let path = std::path::absolute(output)?.display().to_string();
    if status.export_path.as_ref() == Some(&path) {
        return Ok(());
    }
    let params = FanoutExportParams {
        format: Some(format_of(output)),
        path: Some(path),
        overwrite: args.force,
        ..FanoutExportParams::default()
    };
    let written = job.export(params).await;
    written.map_err(|error| anyhow::anyhow!("{}", refusal::words(&error)))?;
    Ok(())
}

/// The time to wait before a job that a quota paused is resumed; none where it is not waited for.
fn waits_for_quota(followed: &Followed, until: Option<Instant>) -> Option<Duration> {
    let job = &followed.job.status;
    let is_quota = job.state == JobState::Paused && job.reason.as_deref() == Some("quota");
    if followed.caught.is_some() || !is_quota {
        return None;
    }
    let left = until?.checked_duration_since(Instant::now())?;
    let pause = job.resume_at_ms.map_or(QUOTA_LOOK, |at| {
        let left = u64::try_from(at - SystemClock.now_ms()).unwrap_or(0);
        Duration::from_millis(left)
    });
    (pause <= left).then_some(pause)
}

fn detached(screen: &Screen, view: &JobView, resumed: bool) -> anyhow::Result<ExitCode> {
    let job = &view.status;
    match screen.form {
        Form::Json => screen.json(&serde_json::json!({"type": "fanout.started",
            "job_id": job.id, "total": job.counts.total, "resumed": resumed}))?,
        Form::People => {
            screen.print(&format!("{}\n", job.id))?;
            screen.hint(&format!(
                "the daemon runs it; follow it with `turnlane fanout watch {}`",
                short(&job.id)
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The job of a run.
struct FoundJob {
    job: Job,
    view: JobView,
    /// The newest job of the same key that has ended.
    finished: Option<JobStatus>,
}

/// Finds the unfinished job of this key, or makes one.
async fn find_or_create(
    session: &Session,
    params: FanoutCreateParams,
    key: &str,
    args: &FanoutRun,
) -> Result<FoundJob, turnlane::CallError> {
    let jobs = session.client().jobs();
    let mut finished = None;
    for number in 1..=SAME_KEY_MAX {
        let mut params = params.clone();
        params.client_job_id = match number {
            _ if args.new => None,
            1 => Some(key.to_owned()),
            number => Some(format!("{key}-{number}")),
        };
        let job = jobs.create(JobSpec::from_params(params)).await?;
        let view = job.status().await?;
        if !view.status.state.is_terminal() && view.status.state != JobState::Cancelling {
            return Ok(FoundJob {
                job,
                view,
                finished,
            });
        }
        finished = Some(view.status);
    }
    Err(turnlane::CallError::InvalidArgument {
        what: "input",
        reason: "this input was run too often; use --new".to_owned(),
    })
}

/// Says that an unfinished job of the same name has another input or other settings.
async fn tell_unlike(session: &Session, view: &JobView, screen: &Screen) {
    let mut jobs = session.client().jobs().unfinished();
    while let Some(Ok(other)) = jobs.next().await {
        let is_unlike = other.status.id != view.status.id
            && other.status.name.is_some()
            && other.status.name == view.status.name;
        if is_unlike {
            screen.hint(&format!(
                "job {} of the same name is unfinished and has another input or other settings",
                other.status.id
            ));
            return;
        }
    }
}

/// The params of the job.
fn params(session: &Session, args: &FanoutRun) -> anyhow::Result<FanoutCreateParams> {
    let schema = match &args.schema {
        Some(path) => Some(schema(path)?),
        None => None,
    };
    // A server elsewhere has a directory of its own where none is named.
    let cwd = match &args.cd {
        None if !session.shares_files() => None,
        given => {
            let given = given.as_deref().unwrap_or(Path::new("."));
            Some(session.directory(given)?.display().to_string())
        }
    };
    let sandbox = args.sandbox.map(SandboxArg::word);
    Ok(FanoutCreateParams {
        name: args.name.clone().or_else(|| stem(&args.input.path())),
        instruction: instruction(args)?,
        id_column: args.id.clone(),
        on_duplicate: args.on_duplicate.map(Into::into),
        allow_missing: args.allow_missing.then_some(true),
        output_schema: schema,
        result_channel: args.result.map(Into::into),
        on_crash: args.on_crash.map(Into::into),
        keep_threads: args.keep_threads.map(Into::into),
        dedupe: args.dedupe.then_some(true),
        settings: Some(JobSettings {
            engine: args.engine.clone(),
            model: args.model.clone(),
            cwd,
            sandbox: sandbox.and_then(SandboxPolicy::from_mode),
            model_column: args.model_col.clone(),
            effort_column: args.effort_col.clone(),
            worktree: Some(args.worktree.into()),
            ..JobSettings::default()
        }),
        limits: Some(limits(&args.limits)),
        export: args
            .output
            .as_deref()
            .map(|path| target(path, args.force))
            .transpose()?,
        ..FanoutCreateParams::default()
    })
}

/// The template, from the argument or its file.
pub(super) fn instruction(args: &FanoutRun) -> anyhow::Result<String> {
    match (&args.instruction, &args.template) {
        (Some(text), _) => Ok(text.clone()),
        (None, Some(path)) => fs::read_to_string(path)
            .with_context(|| format!("cannot read template {}", path.display())),
        (None, None) => bail!("instruction must be non-empty"),
    }
}

/// The JSON Schema in a file.
pub(super) fn schema(path: &Path) -> anyhow::Result<serde_json::Value> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read schema {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("schema {}", path.display()))
}

/// The name of a file without its suffix.
fn stem(path: &Path) -> Option<String> {
    if path == Path::new("-") {
        return None;
    }
    Some(path.file_stem()?.to_string_lossy().into_owned())
}

pub(super) fn limits(args: &LimitArgs) -> JobLimits {
    let millis = |time: Option<Duration>| {
        time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    };
    JobLimits {
        concurrency: args.concurrency,
        start_rate: args.start_rate,
        retries: args.retries,
        timeout_ms: millis(args.timeout),
        idle_timeout_ms: millis(args.idle_timeout),
        deadline_ms: millis(args.deadline),
        max_failures: args.max_failures,
        max_tokens: args.max_tokens,
        max_cost_usd: args.max_cost,
        max_attempts: args.max_attempts,
        grace_ms: millis(args.grace),
    }
}

fn target(path: &Path, force: bool) -> anyhow::Result<FanoutExportTarget> {
    Ok(FanoutExportTarget {
        path: std::path::absolute(path)?.display().to_string(),
        format: Some(format_of(path)),
        overwrite: force,
    })
}

/// The format that the suffix of a file says.
pub(super) fn format_of(path: &Path) -> ExportFormat {
    match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("jsonl" | "ndjson") => ExportFormat::Jsonl,
        _ => ExportFormat::Csv,
    }
}

/// Refuses an output file that could not be written at the end.
fn check_output(input: &Path, args: &FanoutRun) -> anyhow::Result<()> {
    let Some(output) = &args.output else {
        return Ok(());
    };
    let shown = output.display();
    let parent = std::path::absolute(output)?;
    let parent: PathBuf = parent.parent().map_or_else(|| "/".into(), Path::to_owned);
    let writable = rustix::fs::access(&parent, rustix::fs::Access::WRITE_OK);
    writable.with_context(|| format!("cannot write {shown}"))?;
    let Ok(found) = fs::metadata(output) else {
        return Ok(());
    };
    if found.is_dir() {
        bail!("cannot write {shown}: it is a directory");
    }
    if let Ok(read) = fs::metadata(input)
        && (read.dev(), read.ino()) == (found.dev(), found.ino())
    {
        bail!("output file is the input file: {shown}");
    }
    Ok(())
}
