//! Following a job until it has ended or is paused: progress, JSON lines, signals, exit codes.
//!
//! The invariants here: standard output holds nothing but JSON lines, and `fanout.ended` is the last of
//! them; with `--items` every item that has ended is told once. A signal pauses the job, a second one at
//! once. A closed standard output changes nothing for the job.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use turnlane::{
    CallError, ItemsOfInterest, Job, JobEvent, JobItem, JobItemState, JobState, JobStatus, JobView,
    JobWorktrees, PauseMode,
};
use turnlane_runtime::{Clock as _, SystemClock};

use super::looking::shared_files;
use super::progress::{Pace, line};
use super::refusal::words;
use crate::args::HereArgs;
use crate::commands::exec::signals::{Caught, Signals};
use crate::session::INTERRUPTED;
use crate::shown::ids::short;
use crate::shown::{Form, Screen, note, out};

/// The grace of items that run when a signal pauses their job.
const SIGNAL_GRACE: Duration = Duration::from_secs(5);
/// The time that a pause at once may take.
const AT_ONCE: Duration = Duration::from_secs(3);
/// The time between two lines where no terminal reads.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The time between two redraws on a terminal.
const REDRAW_EVERY: Duration = Duration::from_millis(100);
/// The time between two `fanout.progress`.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The exit code of a job that failed, or whose results could not be written.
const FAILED: u8 = 1;
/// The exit code of a job with failed items, or that was cancelled.
const WITH_FAILURES: u8 = 3;
/// The exit code of a job that is paused.
const PAUSED: u8 = 4;
/// The exit code after SIGTERM.
const TERMINATED: u8 = 143;

/// The exit code that the state of a job means.
pub(super) fn code(job: &JobStatus) -> u8 {
    match job.state {
        JobState::Succeeded if job.export_error.is_some() => FAILED,
        JobState::Succeeded => 0,
        _ if job.export_error.is_some() => FAILED,
        JobState::FinishedWithFailures | JobState::Cancelled => WITH_FAILURES,
        JobState::Paused => PAUSED,
        JobState::Failed if job.reason.as_deref() == Some("import") => super::refusal::WRONG_USAGE,
        JobState::Failed
        | JobState::Importing
        | JobState::Ready
        | JobState::Running
        | JobState::Cancelling => FAILED,
    }
}

/// The form of what is told on the way.
pub(super) struct Telling<'a> {
    screen: &'a Screen,
    items: ItemsOfInterest,
    progress: Progress,
    /// Numbers of items that were told.
    told: HashSet<i64>,
    pace: Pace,
    began: Instant,
    last_line: Option<Instant>,
    last_json: Option<(Instant, Value)>,
    /// False once the reader has closed standard output.
    is_read: bool,
    on_screen: bool,
}

/// Where progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    None,
    Line,
    Terminal,
}

impl<'a> Telling<'a> {
    pub(super) fn new(screen: &'a Screen, here: &HereArgs) -> Self {
        let progress = if here.no_progress || screen.form == Form::Json {
            Progress::None
        } else if io::stderr().is_terminal() {
            Progress::Terminal
        } else {
            Progress::Line
        };
        Self {
            screen,
            items: if here.items {
                ItemsOfInterest::All
            } else {
                ItemsOfInterest::None
            },
            progress,
            told: HashSet::new(),
            pace: Pace::default(),
            began: Instant::now(),
            last_line: None,
            last_json: None,
            is_read: true,
            on_screen: false,
        }
    }

    fn json(&mut self, value: &Value) {
        if self.screen.form == Form::Json && self.is_read {
            // The reader has closed it: the job goes on silently.
            self.is_read = self.screen.json(value).is_ok();
        }
    }

    /// Says that the job runs.
    pub(super) fn started(&mut self, job: &JobStatus, resumed: bool) {
        self.json(&json!({"type": "fanout.started", "job_id": job.id,
            "total": job.counts.total, "resumed": resumed}));
    }

    /// Shows the job as it is, where that is due.
    fn show(&mut self, job: &JobStatus) {
        self.pace.look(self.began.elapsed(), job.counts.ended());
        let progress = json!({"type": "fanout.progress", "job_id": job.id,
            "state": job.state, "counts": job.counts, "limit": job.current_limit,
            "usage": usage(job)});
        let is_due = match &self.last_json {
            Some((at, told)) => at.elapsed() >= PROGRESS_EVERY && *told != progress,
            None => true,
        };
        if is_due {
            self.json(&progress);
            self.last_json = Some((Instant::now(), progress));
        }
        let every = match self.progress {
            Progress::None => return,
            Progress::Line => LINE_EVERY,
            Progress::Terminal => REDRAW_EVERY,
        };
        if self.last_line.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.last_line = Some(Instant::now());
        let line = line(job, &self.pace, SystemClock.now_ms());
        if self.progress == Progress::Terminal {
            out::redraw(&line);
            self.on_screen = true;
        } else {
            note(&line);
        }
    }

    /// Shows the last line, and leaves it on a terminal.
    fn finish(&mut self, job: &JobStatus) {
        self.pace.look(self.began.elapsed(), job.counts.ended());
        let line = line(job, &self.pace, SystemClock.now_ms());
        match self.progress {
            Progress::None => {}
            Progress::Line => note(&line),
            Progress::Terminal => {
                out::redraw(&line);
                note("");
            }
        }
        self.on_screen = false;
    }

    /// Leaves the line that is on the terminal.
    fn leave_line(&mut self) {
        if std::mem::take(&mut self.on_screen) {
            note("");
        }
    }

    fn item(&mut self, item: &JobItem) {
        if item.state.is_terminal() && self.told.insert(item.seq) {
            self.json(&json!({"type": "fanout.item", "item_id": item.item_id,
                "state": item.state, "attempt": item.attempt, "error": item.error}));
        }
    }

    /// Tells every item that has ended and was not told.
    async fn missing_items(&mut self, job: &Job) -> Result<(), CallError> {
        if self.items == ItemsOfInterest::None {
            return Ok(());
        }
        let ended = JobItemState::ALL.into_iter().filter(|it| it.is_terminal());
        let mut items = job.items_in(ended.collect());
        while let Some(item) = items.next().await {
            self.item(&item?);
        }
        Ok(())
    }

    fn ended(&mut self, job: &JobStatus) {
        self.json(
            &json!({"type": "fanout.ended", "job_id": job.id, "state": job.state,
            "counts": job.counts, "usage": usage(job), "export_path": job.export_path,
            "reason": job.reason}),
        );
    }
}

fn usage(job: &JobStatus) -> Value {
    let tokens = &job.usage.tokens;
    json!({"input_tokens": tokens.input_tokens, "cached_input_tokens": tokens.cached_input_tokens,
        "output_tokens": tokens.output_tokens,
        "reasoning_output_tokens": tokens.reasoning_output_tokens,
        "total_tokens": tokens.total_tokens, "cost_usd": tokens.cost_usd,
        "attempts": job.usage.attempts})
}

/// Whether signals pause the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnSignal {
    /// The command runs the job.
    Pause,
    /// The command only looks.
    Leave,
}

/// The end of following.
pub(super) struct Followed {
    /// The job as it was last told.
    pub(super) job: Box<JobView>,
    /// The signal that ended it.
    pub(super) caught: Option<Caught>,
}

/// Follows a job from `version` on until it has ended or is paused, or a signal ends the command.
pub(super) async fn follow(
    job: &Job,
    version: i64,
    telling: &mut Telling<'_>,
    on_signal: OnSignal,
) -> anyhow::Result<Followed> {
    let lost = |error: CallError| anyhow::anyhow!("{}", words(&error));
    let mut signals = Signals::catch()?;
    let mut events = job.events(telling.items).await.map_err(lost)?;
    let mut status = job.status().await.map_err(lost)?.status;
    let mut caught: Option<(Caught, Instant)> = None;
    let mut tick = interval(REDRAW_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(JobEvent::Updated(now)) => status = *now,
                Some(JobEvent::Item(item)) => telling.item(&item),
                Some(JobEvent::Ended(ended)) if ended.status.version >= version => {
                    telling.missing_items(job).await.map_err(lost)?;
                    telling.finish(&ended.status);
                    telling.ended(&ended.status);
                    let caught = caught.map(|(caught, _)| caught);
                    return Ok(Followed { job: ended, caught });
                }
                Some(_) => status = job.status().await.map_err(lost)?.status,
                None => return Err(lost(CallError::Closed)),
            },
            signal = signals.next() => {
                telling.leave_line();
                if on_signal == OnSignal::Leave || caught.is_some() {
                    return stopped(job, telling, signal, on_signal).await;
                }
                caught = Some((signal, Instant::now()));
                note("pausing: running items end within 5 s; press Ctrl-C again to stop at once");
                if !pause(job, SIGNAL_GRACE).await {
                    return stopped(job, telling, signal, OnSignal::Leave).await;
                }
            }
            _ = tick.tick() => {}
        }
        // The process that runs the items may not answer; do not wait for it for ever.
        if let Some((signal, at)) = caught
            && at.elapsed() > SIGNAL_GRACE + AT_ONCE
        {
            return stopped(job, telling, signal, on_signal).await;
        }
        telling.show(&status);
    }
}

/// Pauses a job; false where it cannot be paused.
async fn pause(job: &Job, grace: Duration) -> bool {
    let mode = PauseMode::Now { grace: Some(grace) };
    match timeout(AT_ONCE, job.pause(mode)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the job was not paused");
            false
        }
        Err(_) => false,
    }
}

/// Ends following by a signal.
async fn stopped(
    job: &Job,
    telling: &mut Telling<'_>,
    signal: Caught,
    on_signal: OnSignal,
) -> anyhow::Result<Followed> {
    if on_signal == OnSignal::Pause && pause(job, Duration::ZERO).await {
        // Items are interrupted at once; what does not end is recovered later.
        let _ = timeout(AT_ONCE, job.wait()).await;
    }
    let last = job.status().await;
    let last = last.map_err(|error| anyhow::anyhow!("{}", words(&error)))?;
    telling.ended(&last.status);
    Ok(Followed {
        job: Box::new(last),
        caught: Some(signal),
    })
}

impl Followed {
    /// The exit code, after what a person types next was said.
    pub(super) fn finish(&self, screen: &Screen) -> ExitCode {
        let job = &self.job.status;
        if let Some(error) = &job.export_error {
            note(&format!("the results could not be written: {error}"));
        }
        next_step(screen, job);
        match self.caught {
            Some(Caught::Interrupt) => ExitCode::from(INTERRUPTED),
            Some(Caught::Terminate | Caught::HangUp) => ExitCode::from(TERMINATED),
            None => ExitCode::from(code(job)),
        }
    }
}

/// Says how to go on.
fn next_step(screen: &Screen, job: &JobStatus) {
    let id = short(&job.id);
    match job.state {
        JobState::Paused => {
            if let Some(message) = &job.reason_message {
                screen.hint(&format!("paused: {message}"));
            }
            screen.hint(&format!(
                "continue with `turnlane fanout resume {id}`, or repeat the command"
            ));
        }
        JobState::FinishedWithFailures => {
            screen.hint(&format!(
                "`turnlane fanout items {id} --state failed` lists what failed; \
                 `turnlane fanout retry {id}` runs it again"
            ));
        }
        JobState::Failed => {
            if let Some(message) = &job.reason_message {
                note(&format!("the job failed: {message}"));
            }
        }
        _ => {}
    }
    if let Some(trees) = job.worktrees.as_ref().filter(|_| job.state.is_terminal()) {
        tell_trees(screen, job, trees);
    }
    if job.state.is_terminal() && job.export_path.is_none() && job.counts.succeeded > 0 {
        screen.hint(&format!(
            "the results are stored; write them with `turnlane fanout export {id} -o FILE`"
        ));
    }
}

/// Says where the work of the items is, and which files several of them changed.
fn tell_trees(screen: &Screen, job: &JobStatus, trees: &JobWorktrees) {
    if trees.kept > 0 {
        let kept = match trees.kept {
            1 => "1 worktree has work in it".to_owned(),
            kept => format!("{kept} worktrees have work in them"),
        };
        screen.hint(&format!(
            "{kept}, below {}; `turnlane fanout items {}` shows the branches",
            trees.directory, job.id
        ));
    }
    let shared = shared_files(job);
    if !shared.is_empty() {
        note("warning: several items changed the same files:");
    }
    for file in shared {
        note(&format!("  {file}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(state: &str, reason: Option<&str>, export_error: Option<&str>) -> JobStatus {
        serde_json::from_value(
            json!({"id": "j", "name": null, "state": state, "reason": reason,
            "reasonMessage": null, "resumeAtMs": null, "owner": "detached",
            "parentThreadId": null, "parentTurnId": null, "version": 1, "resultChannel": "tool",
            "idColumn": null, "columns": [], "limits": {}, "currentLimit": 1, "hold": null,
            "import": {"bytes": 0, "rows": 0, "blankRows": 0, "hash": "", "warnings": []},
            "counts": {"total": 0, "pending": 0, "running": 0, "succeeded": 0, "failed": 0,
                "skipped": 0, "cancelled": 0},
            "usage": {"totalTokens": 0, "costUsd": null, "attempts": 0}, "exportPath": null,
            "exportError": export_error, "createdAtMs": 0, "startedAtMs": null,
            "endedAtMs": null}),
        )
        .unwrap()
    }

    #[test]
    fn every_end_of_a_job_has_its_exit_code() {
        for (state, reason, export_error, expected) in [
            ("succeeded", None, None, 0),
            ("succeeded", None, Some("disk full"), 1),
            ("finishedWithFailures", None, None, 3),
            ("finishedWithFailures", None, Some("disk full"), 1),
            ("cancelled", None, None, 3),
            ("failed", Some("import"), None, 2),
            ("failed", Some("internal"), None, 1),
            ("paused", Some("quota"), None, 4),
            ("paused", Some("failures"), None, 4),
            ("running", None, None, 1),
        ] {
            let job = job(state, reason, export_error);
            assert_eq!(code(&job), expected, "{state} {reason:?} {export_error:?}");
        }
    }
}
