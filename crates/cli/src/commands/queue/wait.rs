//! `turnlane queue wait`: waits until the turn of one row has ended.
//!
//! The invariant here: the exit code is 0 only if that turn completed. The command ends as soon as
//! nothing can happen without a person, and leaving it stops nothing.
//!
//! It follows the thread for events and looks at what is stored after each one that may matter, so an
//! event that was missed delays nothing longer than the next one.

use std::convert::Infallible;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use turnlane::{Connection, EventBody, EventStream, Filter};
use turnlane_protocol::queue::{QueueState, QueuedTurn, QueuedTurnStatus};
use turnlane_protocol::turn::{Turn, TurnStatus};

use crate::args::QueueWait;
use crate::commands::thread::show::{open_approvals, questions};
use crate::session::refused::is_lost;
use crate::session::{INTERRUPTED, Session, find};
use crate::shown::ids::short;
use crate::shown::{Form, Screen, note, queue};

/// Among so many of the last turns that of the row is looked for.
const LAST_TURNS: usize = 100;

pub(super) async fn run(session: &Session, args: &QueueWait) -> anyhow::Result<ExitCode> {
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let thread = find::thread(session, &args.which.thread).await?;
    let mut wait = Wait {
        session,
        screen: Screen::new(args.answer),
        row: row(session, &thread, &args.row.row).await?,
        thread,
        asked: Vec::new(),
    };
    let connection = session.client().connection();
    tokio::select! {
        biased;
        // Beside everything: also a call that waits for the server says why it waits.
        never = tell_losses(connection) => match never {},
        _ = interrupted.recv() => {
            note(&format!(
                "\nleft; it goes on. `turnlane thread tail {}` shows what happens",
                session.word(&wait.thread)
            ));
            Ok(ExitCode::from(INTERRUPTED))
        }
        done = wait.whole() => done,
    }
}

/// Says each time that the connection is lost, and when it is there again. Never ends.
async fn tell_losses(mut connection: watch::Receiver<Connection>) -> Infallible {
    let mut is_lost = false;
    while connection.changed().await.is_ok() {
        let now = connection.borrow_and_update().clone();
        match now {
            // Later tries are no news.
            Connection::Reconnecting { attempt: 1, .. } => {
                is_lost = true;
                note("the connection to the server was lost; looking for it");
            }
            Connection::Ready { .. } if is_lost => {
                is_lost = false;
                note("the connection is there again");
            }
            _ => {}
        }
    }
    std::future::pending().await
}

/// The row that is meant, among those that wait and those that have become turns.
async fn row(session: &Session, thread: &str, text: &str) -> anyhow::Result<String> {
    let refused = match find::row(session, thread, text).await {
        Ok(row) => return Ok(row),
        Err(refused) => refused,
    };
    let part = text.to_ascii_lowercase();
    let ran: Vec<String> = last_turns(session, thread)
        .await?
        .into_iter()
        .filter_map(|turn| Some(turn.queued_turn_id?.to_string()))
        .filter(|row| part.len() >= 8 && (row.starts_with(&part) || row.ends_with(&part)))
        .collect();
    match ran.first() {
        // A row that was tried again is several turns.
        Some(first) if ran.iter().all(|row| row == first) => Ok(first.clone()),
        Some(_) | None => Err(refused),
    }
}

async fn last_turns(session: &Session, thread: &str) -> anyhow::Result<Vec<Turn>> {
    let params = json!({"threadId": thread, "sortDirection": "desc", "itemsView": "notLoaded"});
    let turns = session.list("thread/turns/list", params, Some(LAST_TURNS));
    let (turns, _) = turns.await?;
    let read = |turn: Value| serde_json::from_value(turn).ok();
    Ok(turns.into_iter().filter_map(read).collect())
}

struct Wait<'a> {
    session: &'a Session,
    screen: Screen,
    thread: String,
    row: String,
    /// Approvals that were told.
    asked: Vec<Value>,
}

/// Whether the server must be asked to tell what happens on the thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follow {
    /// This connection asked before.
    Already,
    /// The connection is new.
    Anew,
}

impl Wait<'_> {
    async fn whole(&mut self) -> anyhow::Result<ExitCode> {
        // First, so that no event after the first look is missed.
        let mut events = self.session.client().events(Filter::all());
        if let Some(code) = self.look().await? {
            return Ok(code);
        }
        if let Some(text) = self.session.nobody_runs_it() {
            bail!("{text}\n  start one and repeat the command");
        }
        let mut followed = None;
        loop {
            let generation = self.generation();
            let follow = if followed.is_some() && followed == generation {
                Follow::Already
            } else {
                Follow::Anew
            };
            match self.follow_and_look(follow).await {
                Ok(Some(code)) => return Ok(code),
                Ok(None) => followed = generation,
                // The connection was lost under the call; the next one says how the row stands.
                Err(error) if is_lost(&error) || self.generation() != generation => {}
                Err(error) => return Err(error),
            }
            self.next(&mut events).await?;
        }
    }

    async fn follow_and_look(&mut self, follow: Follow) -> anyhow::Result<Option<ExitCode>> {
        if follow == Follow::Anew {
            let params = json!({"threadId": self.thread, "excludeTurns": true});
            let _: Value = self.session.ask("thread/resume", params).await?;
        }
        self.look().await
    }

    /// Which connection calls are sent on; none while it is lost.
    fn generation(&self) -> Option<u64> {
        match &*self.session.client().connection().borrow() {
            Connection::Ready { generation } => Some(*generation),
            _ => None,
        }
    }

    /// Waits for an event after which something may have changed.
    async fn next(&self, events: &mut EventStream) -> anyhow::Result<()> {
        loop {
            let Some(event) = events.next().await else {
                return Err(anyhow!(
                    "the connection to the server was lost; the turn may still run\n  \
                     repeat the command to go on waiting"
                ));
            };
            match event.body {
                EventBody::TurnStarted(_)
                | EventBody::TurnCompleted(_)
                | EventBody::Queue(_)
                | EventBody::Reconnected { .. }
                | EventBody::ThreadGone => return Ok(()),
                EventBody::Unknown(raw) if raw.method == "approval/changed" => return Ok(()),
                EventBody::TooSlow => {
                    *events = self.session.client().events(Filter::all());
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// How it ended, if it has.
    async fn look(&mut self) -> anyhow::Result<Option<ExitCode>> {
        // The queue first: a row that is gone from it has its turn in the history already.
        let (rows, _) = {
            let params = json!({"threadId": self.thread});
            self.session.list("thread/queue/list", params, None).await?
        };
        let params = json!({"threadId": self.thread, "limit": 1});
        let state: QueueState = self.session.ask("thread/queue/list", params).await?;
        let turns = last_turns(self.session, &self.thread).await?;
        let waiting = rows.iter().find(|row| row["id"] == self.row.as_str());
        if let Some(row) = waiting {
            return self.still_waits(row, &state);
        }
        let is_ours = |turn: &&Turn| {
            let row = turn.queued_turn_id.as_ref();
            row.is_some_and(|row| row.to_string() == self.row)
        };
        match turns.iter().find(is_ours) {
            Some(turn) if turn.status == TurnStatus::InProgress => {
                self.tell_questions().await;
                Ok(None)
            }
            Some(turn) => self.ended(turn).map(Some),
            None if self.is_about_to_run(&state) => Ok(None),
            None => {
                let text = "was removed from the queue before it ran, or ran long ago";
                self.say(None, "removed", text).map(Some)
            }
        }
    }

    fn is_about_to_run(&self, state: &QueueState) -> bool {
        let running = state.running.as_ref();
        let row = running.and_then(|running| running.queued_turn_id.as_ref());
        row.is_some_and(|row| row.to_string() == self.row)
    }

    /// The row waits: whether only a person can let it run.
    fn still_waits(&self, row: &Value, state: &QueueState) -> anyhow::Result<Option<ExitCode>> {
        let row: QueuedTurn = serde_json::from_value(row.clone())?;
        if let QueuedTurnStatus::Failed { error } = &row.status {
            return self.say(None, "failed", &error.message).map(Some);
        }
        if state.running.is_some() || !queue::needs_person(&state.summary) {
            return Ok(None);
        }
        let held = queue::state(&self.screen, &self.session.word(&self.thread), state);
        self.say(None, "held", held.trim_end()).map(Some)
    }

    /// Says once what the turn asks for.
    async fn tell_questions(&mut self) {
        let open = open_approvals(self.session, &self.thread).await;
        if open != self.asked && !open.is_empty() {
            let text = questions(&self.screen, &open);
            self.screen.hint(text.trim_end());
        }
        self.asked = open;
    }

    fn ended(&self, turn: &Turn) -> anyhow::Result<ExitCode> {
        let error = turn.error.as_ref().map(|error| error.message.as_str());
        let status = match turn.status {
            TurnStatus::Completed => "completed",
            TurnStatus::Interrupted => "interrupted",
            TurnStatus::Failed | TurnStatus::InProgress => "failed",
        };
        self.say(Some(turn), status, error.unwrap_or_default())
    }

    fn say(&self, turn: Option<&Turn>, status: &str, why: &str) -> anyhow::Result<ExitCode> {
        match self.screen.form {
            Form::Json => self.screen.json(&json!({
                "threadId": self.thread, "queuedTurnId": self.row,
                "turnId": turn.map(|turn| turn.id), "status": status,
                "message": Some(why).filter(|why| !why.is_empty()),
            }))?,
            Form::People => {
                let row = short(&self.row);
                let why = if why.is_empty() {
                    String::new()
                } else {
                    format!(": {why}")
                };
                self.screen.print(&format!("{row} {status}{why}\n"))?;
            }
        }
        Ok(match status {
            "completed" => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}
