//! `turnlane thread release` and `turnlane thread rename`.
//!
//! The invariant here: a thread is taken only from an owner that is not known to be alive, and only
//! when a person said so. It is done in the database of this home, beside whatever daemon runs; the
//! daemon notices by itself.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::{ReleasedLane, SystemClock, release_lane, this_worker};
use turnlane_store::sqlite::{Options, SqliteStore};
use turnlane_store::{Store as _, StoreError};

use super::confirm;
use crate::args::{ThreadRelease, ThreadRename};
use crate::assembly::DATABASE;
use crate::config::Layers;
use crate::home;
use crate::session::{Session, find};
use crate::shown::{Form, Screen};

pub(super) async fn release(session: &Session, args: &ThreadRelease) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let Some(home) = session.home() else {
        bail!(
            "a thread is released on the machine that stores it\n  \
             run `turnlane thread release {thread}` there"
        );
    };
    if !args.yes {
        let question = format!(
            "Take thread {thread} from its owner? The turn that ran there, if any, is interrupted."
        );
        let instead = "wait until its owner has ended";
        if let Some(code) = confirm::declined(&question, instead, "nothing was released").await? {
            return Ok(code);
        }
    }
    let path = home.join(DATABASE);
    let store = SqliteStore::open(Options::new(&path, this_worker("cli", &SystemClock)))
        .with_context(|| format!("cannot open {}", path.display()))
        .map_err(|error| home::explained(error, home))?;
    let id: ThreadId = thread.parse().context("the thread has no id")?;
    let config = Layers::new(home, home::codex().as_deref(), &[]).load()?;
    let losses_max = config.server.poison_limit;
    let released = release_lane(&store, id, losses_max, &SystemClock).await;
    let owner = match &released {
        Err(StoreError::OwnedElsewhere { worker, .. }) => store.worker_row(*worker).await?,
        _ => None,
    };
    store.close().await?;
    let released = released.map_err(|error| match (&error, owner) {
        (StoreError::OwnedElsewhere { .. }, Some(owner)) => anyhow!(
            "thread {thread} is in use by process {} on {}, which is alive\n  \
             do it there, or end that process first",
            owner.pid,
            owner.host
        ),
        (StoreError::OwnedElsewhere { .. }, None) => anyhow!(
            "thread {thread} is in use by a process that is alive\n  \
             `turnlane thread show {thread}` shows what it does"
        ),
        (StoreError::ThreadNotFound(_), _) => {
            anyhow!("there is no thread {thread}\n  `turnlane thread list` shows those there are")
        }
        _ => anyhow::Error::new(error),
    })?;
    let (done, text) = match released {
        ReleasedLane::Unowned => ("unowned", format!("thread {thread} had no owner\n")),
        ReleasedLane::Idle | ReleasedLane::Interrupted => {
            ("released", format!("released {thread}\n"))
        }
    };
    match screen.form {
        Form::Json => screen.json(&json!({"threadId": thread, "done": done,
            "interrupted": released == ReleasedLane::Interrupted}))?,
        Form::People => {
            screen.print(&text)?;
            if released == ReleasedLane::Interrupted {
                screen.hint(&format!(
                    "its turn was interrupted; `turnlane thread show {thread}` shows what is left, \
                     `turnlane queue retry {thread}` runs a failed turn again"
                ));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn rename(session: &Session, args: &ThreadRename) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let name = args.name.trim();
    let params = json!({"threadId": thread, "name": name});
    let _: Value = session.ask("thread/name/set", params).await?;
    match screen.form {
        Form::Json => screen.json(&json!({"threadId": thread, "name": name}))?,
        Form::People => screen.print(&format!("renamed {thread} to {name}\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}
