//! `turnlane thread tail`: follows a thread until somebody leaves.
//!
//! The invariant here: whoever looks changes nothing. Nobody is asked for approvals here, leaving
//! stops nothing, and a lost connection is found again. What was told before following began is read
//! once; nothing is told twice.
//!
//! How events become words is in `live`.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use turnlane::{Connection, Event, EventBody, EventStream, Filter};
use turnlane_protocol::queue::QueueState;

use super::live::Live;
use super::show::last_turns;
use crate::args::ThreadTail;
use crate::session::{INTERRUPTED, Session, find};
use crate::shown::{Form, Screen, note, queue};

/// How many turns are read at once after a loss.
const CATCH_UP: usize = 20;

pub(super) async fn run(session: &Session, args: &ThreadTail) -> anyhow::Result<ExitCode> {
    // First: whoever leaves at once has left in order.
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let thread = find::thread(session, &args.which.thread).await?;
    let screen = Screen::new(args.answer);
    let mut tail = Tail {
        session,
        events: session.client().events(Filter::all()),
        connection: session.client().connection(),
        live: Live::new(screen, &thread, session.word(&thread)),
        thread,
        until_idle: args.until_idle,
    };
    // Around everything: also calls that wait for a lost server are left.
    let done = tokio::select! {
        biased;
        _ = interrupted.recv() => None,
        done = tail.whole(args.turns) => Some(done),
    };
    done.unwrap_or_else(|| {
        tail.left();
        Ok(ExitCode::from(INTERRUPTED))
    })
}

struct Tail<'a> {
    session: &'a Session,
    events: EventStream,
    connection: watch::Receiver<Connection>,
    live: Live,
    thread: String,
    until_idle: bool,
}

impl Tail<'_> {
    async fn whole(&mut self, turns: u32) -> anyhow::Result<ExitCode> {
        self.begin(turns).await?;
        self.follow().await
    }

    /// Follows the thread, and shows what was before.
    async fn begin(&mut self, turns: u32) -> anyhow::Result<()> {
        self.resume().await?;
        // Two more: the turn that may run, and the one before all that is shown, behind which nothing
        // is ever missed.
        let before = last_turns(self.session, &self.thread, turns.saturating_add(2)).await?;
        let count = usize::try_from(turns).unwrap_or(usize::MAX);
        self.live.history(&before, count)?;
        self.open_approvals().await?;
        self.live.is_leavable();
        Ok(())
    }

    async fn resume(&self) -> anyhow::Result<()> {
        let params = json!({"threadId": self.thread, "excludeTurns": true});
        let _: Value = self.session.ask("thread/resume", params).await?;
        Ok(())
    }

    async fn open_approvals(&mut self) -> anyhow::Result<()> {
        let params = json!({"threadId": self.thread});
        let (open, _) = self.session.list("approval/list", params, None).await?;
        for approval in &open {
            self.live.asked(approval)?;
        }
        Ok(())
    }

    async fn follow(&mut self) -> anyhow::Result<ExitCode> {
        let mut look = true;
        loop {
            if std::mem::take(&mut look)
                && self.until_idle
                && let Some(code) = self.is_idle().await?
            {
                return Ok(code);
            }
            tokio::select! {
                biased;
                event = self.events.next() => {
                    let Some(event) = event else {
                        return Err(anyhow!(
                            "the connection to the server was lost; the turn may still be running\n  \
                             look again with `turnlane thread tail {}`",
                            self.session.word(&self.thread)
                        ));
                    };
                    look = self.take(event).await?;
                    if self.live.is_gone() {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                Ok(()) = self.connection.changed() => self.connection_changed(),
            }
        }
    }

    fn connection_changed(&mut self) {
        let now = self.connection.borrow_and_update().clone();
        // Later tries are no news.
        if let Connection::Reconnecting { attempt: 1, .. } = now {
            self.live.end_line();
            note("the connection to the server was lost; looking for it");
        }
    }

    /// Tells an event. Whether nothing may be left to wait for.
    async fn take(&mut self, event: Event) -> anyhow::Result<bool> {
        let ends = matches!(
            event.body,
            EventBody::TurnCompleted(_) | EventBody::Queue(_) | EventBody::Reconnected { .. }
        );
        match event.body {
            EventBody::Reconnected { .. } => {
                self.live.end_line();
                note("the connection is there again");
                self.resume().await?;
                self.catch_up().await?;
                self.open_approvals().await?;
            }
            EventBody::TooSlow => {
                // This stream is over; what it did not tell is in the history.
                self.events = self.session.client().events(Filter::all());
                self.catch_up().await?;
            }
            _ => self.live.take(&event)?,
        }
        Ok(ends)
    }

    /// Shows what happened while nobody told it. Events that come meanwhile wait, and those that tell
    /// the same are left out.
    async fn catch_up(&mut self) -> anyhow::Result<()> {
        let mut params = json!({
            "threadId": self.thread, "sortDirection": "desc", "itemsView": "full", "limit": CATCH_UP,
        });
        let mut missed = Vec::new();
        loop {
            let mut page: Value = self
                .session
                .ask("thread/turns/list", params.clone())
                .await?;
            let turns = page["data"].take();
            let Value::Array(turns) = turns else { break };
            let count = turns.len();
            let before = missed.len();
            missed.extend(turns.into_iter().take_while(|turn| !self.live.knows(turn)));
            let is_all = missed.len() - before < count;
            let cursor = page["nextCursor"].take();
            if is_all || cursor.is_null() || cursor == params["cursor"] {
                break;
            }
            params["cursor"] = cursor;
        }
        missed.reverse();
        self.live.missed(&missed)
    }

    /// Whether nothing runs and nothing can start by itself, and what that says of the queue.
    async fn is_idle(&self) -> anyhow::Result<Option<ExitCode>> {
        let params = json!({"threadId": self.thread, "limit": 1});
        let state: QueueState = self.session.ask("thread/queue/list", params).await?;
        let summary = &state.summary;
        if state.running.is_some() {
            return Ok(None);
        }
        if summary.depth == 0 {
            return Ok(Some(ExitCode::SUCCESS));
        }
        if !queue::needs_person(summary) {
            return Ok(None);
        }
        if self.live.screen.form == Form::People {
            let word = self.session.word(&self.thread);
            let held = queue::state(&self.live.screen, &word, &state);
            self.live.screen.note_painted(held.trim_end());
        }
        Ok(Some(ExitCode::FAILURE))
    }

    fn left(&mut self) {
        self.live.end_line();
        let thread = self.session.word(&self.thread);
        let text = if self.live.is_running() {
            format!(
                "\nleft; the turn goes on. Stop it with `turnlane thread stop {thread}`, look again \
                 with `turnlane thread tail {thread}`"
            )
        } else {
            "\nleft; no turn was running".to_owned()
        };
        note(&text);
    }
}
