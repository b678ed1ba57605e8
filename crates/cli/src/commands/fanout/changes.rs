//! `turnlane fanout pause`, `resume`, `cancel`, `retry` and `rm`.

use std::fs;
use std::process::ExitCode;

use anyhow::Context as _;
use turnlane::{JobItemState, JobView, PauseMode, RetrySelection};

use super::follow::{OnSignal, Telling, follow};
use super::looking::{find, name, told};
use super::refusal;
use crate::args::{FanoutPause, FanoutResume, FanoutRetry, FanoutRm, HereArgs, OneJobArgs};
use crate::session::Session;
use crate::shown::ids::short;
use crate::shown::{Form, Screen};

pub(super) async fn pause(session: &Session, args: &FanoutPause) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.one.answer);
    let job = find(session, &args.one.job).await?;
    let mode = if args.now {
        PauseMode::Now { grace: None }
    } else {
        PauseMode::Drain
    };
    match job.pause(mode).await {
        Ok(view) => told(&screen, "paused", &view),
        Err(error) => refusal::told(&error),
    }
}

pub(super) async fn cancel(session: &Session, args: &OneJobArgs) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let job = find(session, &args.job).await?;
    match job.cancel().await {
        Ok(view) => told(&screen, "cancelled", &view),
        Err(error) => refusal::told(&error),
    }
}

pub(super) async fn resume(session: &Session, args: &FanoutResume) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.one.answer);
    let job = find(session, &args.one.job).await?;
    match job.resume().await {
        Ok(view) => go_on(session, &screen, &args.here, &job, &view).await,
        Err(error) => refusal::told(&error),
    }
}

pub(super) async fn retry(session: &Session, args: &FanoutRetry) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.one.answer);
    let template = match &args.template {
        Some(path) => Some(
            fs::read_to_string(path)
                .with_context(|| format!("cannot read template {}", path.display()))?,
        ),
        None => None,
    };
    let which = if args.ids.is_empty() {
        let mut states = Vec::new();
        states.extend((args.failed || !args.cancelled).then_some(JobItemState::Failed));
        states.extend(args.cancelled.then_some(JobItemState::Cancelled));
        RetrySelection::States(states)
    } else {
        RetrySelection::Items(args.ids.clone())
    };
    let job = find(session, &args.one.job).await?;
    let (view, retried) = match job.retry(which, template).await {
        Ok(retried) => retried,
        Err(error) => return refusal::told(&error),
    };
    let what = match retried {
        1 => "1 item runs again".to_owned(),
        many => format!("{many} items run again"),
    };
    screen.hint(&what);
    let named = i64::try_from(args.ids.len()).unwrap_or(i64::MAX);
    if retried < named {
        screen.hint(&format!(
            "{} of the named items stay as they are: the job has no such item, or it has neither failed \
             nor been cancelled",
            named - retried
        ));
    }
    if retried == 0 {
        return told(&screen, "unchanged", &view);
    }
    go_on(session, &screen, &args.here, &job, &view).await
}

/// Leaves a job to the daemon, or follows it where it runs in this process.
async fn go_on(
    session: &Session,
    screen: &Screen,
    here: &HereArgs,
    job: &turnlane::Job,
    view: &JobView,
) -> anyhow::Result<ExitCode> {
    if session.outlives_us() {
        screen.hint(&format!(
            "the daemon runs it; follow it with `turnlane fanout watch {}`",
            short(&view.status.id)
        ));
        return told(screen, "running", view);
    }
    let mut telling = Telling::new(screen, here);
    telling.started(&view.status, true);
    let followed = follow(job, view.status.version, &mut telling, OnSignal::Pause).await?;
    Ok(followed.finish(screen))
}

pub(super) async fn remove(session: &Session, args: &FanoutRm) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.one.answer);
    let job = find(session, &args.one.job).await?;
    let view = match job.status().await {
        Ok(view) => view,
        Err(error) => return refusal::told(&error),
    };
    let deleted = if args.force {
        job.delete_with_work().await
    } else {
        job.delete().await
    };
    if let Err(error) = deleted {
        return refusal::told(&error);
    }
    match screen.form {
        Form::Json => screen.json(&serde_json::json!({"jobId": job.id(), "deleted": true}))?,
        Form::People => screen.print(&format!("removed {}\n", name(&view.status)))?,
    }
    Ok(ExitCode::SUCCESS)
}
