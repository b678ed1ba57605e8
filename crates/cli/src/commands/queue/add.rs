//! `turnlane queue add`: one turn more, on disk when the command returns.
//!
//! The invariant here: the prompt and all settings are read before anything is stored. A thread that
//! was made for a turn that is then refused is removed again, unless a key names it: another process
//! with the same key may have queued its turn there meanwhile.
//!
//! What becomes of flags is in `settings`; which thread it is, in `thread`.

mod settings;
mod thread;

use std::io::{self, IsTerminal as _, Read as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use turnlane_protocol::queue::{QueueState, QueuedTurn};

use self::settings::Settings;
use self::thread::{Lane, Origin};
use crate::args::{QueueAdd, Text};
use crate::session::Session;
use crate::shown::time::utc;
use crate::shown::{Form, Screen, note, queue};

/// How far away a queued turn may be.
const NOT_BEFORE_MAX_MS: i64 = 366 * 24 * 60 * 60 * 1_000;

/// Runs the command; `before` are the overrides in front of it.
pub(super) async fn run(
    session: &Session,
    args: &QueueAdd,
    before: &[String],
) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let settings = Settings::read(args, before)?;
    let not_before_ms = match args.not_before {
        Some(when) => Some(checked(when.at_ms(screen.now_ms), screen.now_ms)?),
        None => None,
    };
    if args.key.as_deref() == Some("") {
        bail!("--key is empty, so it would tell nothing apart\n  give one, or leave --key out");
    }
    let text = read(&args.text)?;
    let lane = thread::choose(session, args, &settings).await?;
    let row = RowParams {
        settings: &settings,
        key: args.key.as_deref(),
        not_before_ms,
        text: &text,
    };
    let answer = match row.append(session, &lane).await {
        Err(error) if lane.origin == Origin::Made && args.key.is_none() => {
            // Lists do not show a thread without a turn, so the user could not remove it.
            lane.delete(session).await;
            return Err(error);
        }
        answer => answer?,
    };
    show(session, &screen, &lane, &answer).await?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the answer of `thread/queue/add`.
async fn show(
    session: &Session,
    screen: &Screen,
    lane: &Lane,
    answer: &Value,
) -> anyhow::Result<()> {
    if screen.form == Form::Json {
        let mut shown = json!({"threadId": lane.thread});
        // `queuedSubmission` is the same row for clients of another dialect.
        for key in ["queuedTurn", "deduplicated", "turnId", "state"] {
            if !answer[key].is_null() {
                shown[key] = answer[key].clone();
            }
        }
        return screen.json(&shown);
    }
    if answer["deduplicated"] == true {
        let word = match answer["state"].as_str().unwrap_or("known") {
            "failedTurn" => "failed",
            state => state,
        };
        let row = answer["queuedTurn"]["id"].as_str();
        let row = row.map_or_else(|| "a turn".to_owned(), str::to_owned);
        return screen.print(&format!(
            "was queued before as {row} on thread {}: {word}\n",
            lane.called
        ));
    }
    let row: QueuedTurn = serde_json::from_value(answer["queuedTurn"].clone())?;
    let mut place = queue::place(&row);
    if let Some(at_ms) = row.not_before_ms.filter(|at_ms| *at_ms > screen.now_ms) {
        let (when, utc) = (screen.until(at_ms), utc(at_ms.div_euclid(1_000)));
        place = format!("{place}, and not before {utc} ({when})");
    }
    screen.print(&format!(
        "queued {} on thread {}: {place}\n",
        row.id, lane.called
    ))?;
    next(session, screen, lane).await;
    Ok(())
}

/// Says what keeps the row from running, or how to follow it.
async fn next(session: &Session, screen: &Screen, lane: &Lane) {
    if let Some(text) = session.nobody_runs_it() {
        return screen.hint(&text);
    }
    let params = json!({"threadId": lane.thread, "limit": 1});
    let state = session
        .try_ask::<QueueState>("thread/queue/list", &params)
        .await;
    match state {
        Ok(state) if queue::held(&state.summary).is_some() => {
            let state = QueueState {
                running: None,
                ..state
            };
            screen.hint(queue::state(screen, &lane.called, &state).trim_end());
        }
        Ok(_) | Err(_) => {
            screen.hint(&format!(
                "follow it with `turnlane thread tail {}`",
                lane.called
            ));
        }
    }
}

/// One row to be added.
struct RowParams<'a> {
    settings: &'a Settings,
    key: Option<&'a str>,
    not_before_ms: Option<i64>,
    text: &'a str,
}

impl RowParams<'_> {
    async fn append(&self, session: &Session, lane: &Lane) -> anyhow::Result<Value> {
        if let Some(answer) = &lane.answered {
            return Ok(answer.clone());
        }
        let input = json!([{"type": "text", "text": self.text, "text_elements": []}]);
        let mut turn = self.settings.turn.clone();
        turn.insert("threadId".to_owned(), json!(lane.thread));
        turn.insert("input".to_owned(), input);
        if let Some(cwd) = &lane.turn_cwd {
            turn.insert("cwd".to_owned(), json!(cwd));
        }
        let mut params = self.settings.row.clone();
        params.insert("threadId".to_owned(), json!(lane.thread));
        params.insert("turnStartParams".to_owned(), Value::Object(turn));
        if let Some(key) = self.key {
            params.insert("idempotencyKey".to_owned(), json!(key));
        }
        if let Some(at_ms) = self.not_before_ms {
            params.insert("notBeforeMs".to_owned(), json!(at_ms));
        }
        session.ask("thread/queue/add", Value::Object(params)).await
    }
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
