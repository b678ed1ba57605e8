//! `turnlane queue add`: one turn more, on disk when the command returns.
//!
//! The invariant here: what is asked is read whole before anything is stored, and a thread that was
//! made for a turn that is then refused is removed again.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use turnlane_protocol::queue::{QueueState, QueuedTurn};

use crate::args::{QueueAdd, Text};
use crate::session::{Session, find};
use crate::shown::{Form, Screen, note, queue};

/// How far away a queued turn may be.
const NOT_BEFORE_MAX_MS: i64 = 366 * 24 * 60 * 60 * 1_000;

pub(super) async fn run(session: &Session, args: &QueueAdd) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let text = read(&args.text)?;
    let (thread, is_new) = match &args.thread {
        Some(thread) => (find::thread(session, thread).await?, false),
        None => (create(session, args).await?, true),
    };
    let added = append(session, &screen, args, &thread, &text).await;
    let answer = match added {
        Err(error) if is_new => {
            // Nobody would find a thread that holds nothing.
            let params = json!({"threadId": thread});
            let _ = session.try_ask::<Value>("thread/delete", &params).await;
            return Err(error);
        }
        added => added?,
    };
    if screen.form == Form::Json {
        screen.json(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let row: QueuedTurn = serde_json::from_value(answer["queuedTurn"].clone())?;
    if answer["deduplicated"] == true {
        let state = answer["state"].as_str().unwrap_or("known");
        let word = match state {
            "failedTurn" => "failed",
            state => state,
        };
        screen.print(&format!("was queued before as {}: {word}\n", row.id))?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = queue::place(&row);
    screen.print(&format!("queued {} on thread {thread}: {place}\n", row.id))?;
    next(session, &screen, &thread, &row).await;
    Ok(ExitCode::SUCCESS)
}

/// Says what keeps the row from running, or how to follow it.
async fn next(session: &Session, screen: &Screen, thread: &str, row: &QueuedTurn) {
    if let Some(at_ms) = row.not_before_ms {
        screen.hint(&format!(
            "it starts {} at the earliest",
            screen.until(at_ms)
        ));
    }
    if let Some(text) = session.nobody_runs_it() {
        return screen.hint(&text);
    }
    let params = json!({"threadId": thread, "limit": 1});
    let state = session
        .try_ask::<QueueState>("thread/queue/list", &params)
        .await;
    match state {
        Ok(state) if queue::held(&state.summary).is_some() => {
            let state = QueueState {
                running: None,
                ..state
            };
            screen.hint(queue::state(screen, thread, &state).trim_end());
        }
        Ok(_) | Err(_) => {
            screen.hint(&format!("follow it with `turnlane thread tail {thread}`"));
        }
    }
}

async fn append(
    session: &Session,
    screen: &Screen,
    args: &QueueAdd,
    thread: &str,
    text: &str,
) -> anyhow::Result<Value> {
    let input = json!([{"type": "text", "text": text, "text_elements": []}]);
    let mut params = json!({
        "threadId": thread, "turnStartParams": {"threadId": thread, "input": input},
    });
    if let Some(key) = &args.key {
        params["idempotencyKey"] = json!(key);
    }
    if let Some(when) = args.not_before {
        params["notBeforeMs"] = json!(checked(when.at_ms(screen.now_ms), screen.now_ms)?);
    }
    session.ask("thread/queue/add", params).await
}

/// A time that a row can wait for.
fn checked(at_ms: i64, now_ms: i64) -> anyhow::Result<i64> {
    if at_ms < now_ms {
        bail!("--not-before is in the past\n  leave it out, and the turn runs when it is its turn");
    }
    if at_ms - now_ms > NOT_BEFORE_MAX_MS {
        bail!("--not-before is too far away\n  a queued turn waits at most 366 days");
    }
    Ok(at_ms)
}

async fn create(session: &Session, args: &QueueAdd) -> anyhow::Result<String> {
    let mut params = json!({});
    if session.shares_files() {
        let given = args.cd.as_deref().unwrap_or(Path::new("."));
        let wrong = || format!("cannot work in {}", given.display());
        let cwd = session.directory(given).with_context(wrong)?;
        if !cwd.is_dir() {
            bail!("cannot work in {}: it is no directory", given.display());
        }
        params["cwd"] = json!(cwd);
    } else if let Some(given) = &args.cd {
        params["cwd"] = json!(session.directory(given)?);
    }
    if let Some(model) = &args.model {
        params["model"] = json!(model);
    }
    if let Some(sandbox) = args.sandbox {
        params["sandbox"] = json!(sandbox.word());
    }
    let answer: Value = session.ask("thread/start", params).await?;
    let id = answer["thread"]["id"].as_str();
    let id = id.context("the server made no thread")?.to_owned();
    if let Some(name) = &args.name {
        let params = json!({"threadId": id, "name": name});
        let _: Value = session.ask("thread/name/set", params).await?;
    }
    Ok(id)
}

/// What the agent is asked: the argument, a file, or standard input.
pub(super) fn read(given: &Text) -> anyhow::Result<String> {
    let of_stdin = || -> anyhow::Result<String> {
        if io::stdin().is_terminal() {
            note("type what the agent is asked; Ctrl-D on an empty line ends it, Ctrl-C leaves");
        }
        let mut text = String::new();
        let read = io::stdin().lock().read_to_string(&mut text);
        read.context("cannot read standard input as text")?;
        Ok(text)
    };
    let text = match (&given.prompt, &given.file) {
        (Some(prompt), _) if prompt != "-" => prompt.clone(),
        (None, Some(file)) if file != Path::new("-") => std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?,
        (None, None) if io::stdin().is_terminal() => bail!(
            "what should the agent be asked?\n  \
             give it as an argument, with --file FILE, or on standard input"
        ),
        _ => of_stdin()?,
    };
    if text.trim().is_empty() {
        bail!(
            "the prompt is empty\n  give it as an argument, with --file FILE, or on standard input"
        );
    }
    Ok(text)
}
