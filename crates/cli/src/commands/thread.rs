//! `turnlane thread`: what there is, what happens on it, and what becomes of it.
//!
//! The invariant here: a thread that is changed was named, and what cannot be undone was confirmed.
//! With several threads the first refusal ends the command; those before it are done and said.
//!
//! Listing, showing and following have files of their own.

pub(super) mod confirm;
pub(super) mod list;
mod live;
pub(super) use live::about;
mod release;
pub(super) mod show;
mod tail;

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use crate::args::{SomeThreads, ThreadArgs, ThreadCommand, ThreadFork, ThreadRm, ThreadStop};
use crate::session::{Needs, Session, find, with};
use crate::shown::ids::short;
use crate::shown::{Form, Screen};

pub(crate) fn run(args: ThreadArgs) -> anyhow::Result<ExitCode> {
    let ThreadArgs { reach, command } = args;
    let needs = match command {
        ThreadCommand::Tail(_) | ThreadCommand::Stop(_) => Needs::Daemon,
        _ => Needs::Store,
    };
    with(&reach, needs, async |session| match command {
        ThreadCommand::List(args) => list::run(session, &args).await,
        ThreadCommand::Show(args) => show::run(session, &args).await,
        ThreadCommand::Tail(args) => tail::run(session, &args).await,
        ThreadCommand::Stop(args) => stop(session, &args).await,
        ThreadCommand::Fork(args) => fork(session, &args).await,
        ThreadCommand::Archive(args) => each(session, &args, &ARCHIVE).await,
        ThreadCommand::Unarchive(args) => each(session, &args, &UNARCHIVE).await,
        ThreadCommand::Rm(args) => remove(session, &args).await,
        ThreadCommand::Rename(args) => release::rename(session, &args).await,
        ThreadCommand::Release(args) => release::release(session, &args).await,
    })
}

/// Something that is done to threads one by one.
struct Deed {
    method: &'static str,
    done: &'static str,
    /// What can be typed next.
    next: Option<&'static str>,
}

const ARCHIVE: Deed = Deed {
    method: "thread/archive",
    done: "archived",
    next: Some("bring it back with `turnlane thread unarchive`"),
};
const UNARCHIVE: Deed = Deed {
    method: "thread/unarchive",
    done: "unarchived",
    next: None,
};
const DELETE: Deed = Deed {
    method: "thread/delete",
    done: "deleted",
    next: None,
};

async fn each(session: &Session, args: &SomeThreads, deed: &Deed) -> anyhow::Result<ExitCode> {
    let threads = all(session, args).await?;
    do_each(session, args, deed, threads).await
}

/// The threads that are meant; all are found before anything is done to the first.
async fn all(session: &Session, args: &SomeThreads) -> anyhow::Result<Vec<String>> {
    let mut threads = Vec::new();
    for thread in &args.threads {
        threads.push(find::thread(session, thread).await?);
    }
    Ok(threads)
}

async fn do_each(
    session: &Session,
    args: &SomeThreads,
    deed: &Deed,
    threads: Vec<String>,
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    for thread in threads {
        let params = json!({"threadId": thread});
        let _: Value = session.ask(deed.method, params).await?;
        match screen.form {
            Form::People => screen.print(&format!("{} {}\n", deed.done, session.word(&thread)))?,
            Form::Json => screen.json(&json!({"threadId": thread, "done": deed.done}))?,
        }
    }
    if let Some(next) = deed.next {
        screen.hint(next);
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(session: &Session, args: &ThreadRm) -> anyhow::Result<ExitCode> {
    let threads = all(session, &args.some).await?;
    if !args.yes {
        let words: Vec<_> = threads.iter().map(|id| session.word(id)).collect();
        let question = format!("Delete {} for good, with all turns?", words.join(", "));
        let instead = "use `turnlane thread archive`";
        if let Some(code) = confirm::declined(&question, instead, "nothing was deleted").await? {
            return Ok(code);
        }
    }
    do_each(session, &args.some, &DELETE, threads).await
}

async fn fork(session: &Session, args: &ThreadFork) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let source = find::thread(session, &args.which.thread).await?;
    let mut params = json!({"threadId": source, "excludeTurns": true});
    if let Some(turn) = &args.at {
        params["lastTurnId"] = json!(find::turn(session, &source, turn).await?);
    }
    let mut forked: Value = session.ask("thread/fork", params).await?;
    let id = forked["thread"]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if let Some(name) = &args.name {
        let params = json!({"threadId": id, "name": name});
        let named: anyhow::Result<Value> = session.ask("thread/name/set", params).await;
        if let Err(error) = named {
            bail!("the copy is {id}, but it has no name: {error:#}");
        }
        forked["thread"]["name"] = json!(name);
    }
    match screen.form {
        Form::People => {
            screen.print(&format!("{id}\n"))?;
            screen.hint(&format!(
                "say something on it with `turnlane exec resume {id} PROMPT`, or queue it with \
                 `turnlane queue add --thread {id} PROMPT`"
            ));
        }
        Form::Json => screen.json(&forked["thread"])?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn stop(session: &Session, args: &ThreadStop) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let thread = find::thread(session, &args.which.thread).await?;
    let word = session.word(&thread);
    let params = json!({"threadId": thread, "limit": 1});
    let queue: Value = session.ask("thread/queue/list", params).await?;
    let Some(turn) = queue["running"]["turnId"].as_str() else {
        bail!(
            "no turn runs on thread {word}\n  \
             `turnlane queue list {word}` shows what waits"
        );
    };
    let after = if args.pause { "pause" } else { "continue" };
    let params = json!({"threadId": thread, "turnId": turn, "queue": after});
    let _: Value = session.ask("turn/interrupt", params).await?;
    match screen.form {
        Form::Json => screen.json(&json!({"threadId": thread, "turnId": turn, "queue": after}))?,
        Form::People => {
            screen.print(&format!("stopped turn {} of {word}\n", short(turn)))?;
            let depth = queue["depth"].as_u64().unwrap_or(0);
            if args.pause {
                let text = format!("the queue is paused: `turnlane queue resume {word}`");
                screen.hint(&text);
            } else if depth > 0 {
                screen.hint("the next queued turn begins; with --pause it would have waited");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
