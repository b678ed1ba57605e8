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
use tokio::signal::unix::{Signal, SignalKind, signal};
use turnlane::{Event, EventBody, EventStream, Filter};
use turnlane_protocol::queue::QueueState;

use super::live::Live;
use super::show::last_turns;
use crate::args::ThreadTail;
use crate::session::{Session, find};
use crate::shown::{Form, Screen, note, queue};

pub(super) async fn run(session: &Session, args: &ThreadTail) -> anyhow::Result<ExitCode> {
    // First: whoever leaves at once has left in order.
    let interrupted = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let thread = find::thread(session, &args.which.thread).await?;
    let screen = Screen::new(args.answer);
    let mut tail = Tail {
        session,
        events: session.client().events(Filter::all()),
        live: Live::new(screen, &thread),
        thread,
        interrupted,
        until_idle: args.until_idle,
    };
    tail.begin(args.turns).await?;
    tail.follow().await
}

struct Tail<'a> {
    session: &'a Session,
    events: EventStream,
    live: Live,
    thread: String,
    interrupted: Signal,
    until_idle: bool,
}

impl Tail<'_> {
    /// Follows the thread, and shows what was before.
    async fn begin(&mut self, turns: u32) -> anyhow::Result<()> {
        self.resume().await?;
        // One more, for the turn that may run.
        let before = last_turns(self.session, &self.thread, turns.saturating_add(1)).await?;
        let count = usize::try_from(turns).unwrap_or(usize::MAX);
        self.live.history(&before, count)?;
        let params = json!({"threadId": self.thread});
        let (open, _) = self.session.list("approval/list", params, None).await?;
        for approval in &open {
            self.live.asked(approval)?;
        }
        self.live.is_leavable();
        Ok(())
    }

    async fn resume(&self) -> anyhow::Result<()> {
        let params = json!({"threadId": self.thread, "excludeTurns": true});
        let _: Value = self.session.ask("thread/resume", params).await?;
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
                _ = self.interrupted.recv() => {
                    self.left();
                    return Ok(ExitCode::SUCCESS);
                }
                event = self.events.next() => {
                    let Some(event) = event else {
                        return Err(anyhow!(
                            "the connection to the server was lost; the turn may still be running\n  \
                             look again with `turnlane thread tail {}`",
                            self.thread
                        ));
                    };
                    look = self.take(event).await?;
                    if self.live.is_gone() {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
            }
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
                note("the connection was lost and found again");
                self.resume().await?;
            }
            EventBody::TooSlow => {
                // This stream is over; what it did not tell is in the history.
                self.events = self.session.client().events(Filter::all());
                self.live.take(&event)?;
            }
            _ => self.live.take(&event)?,
        }
        Ok(ends)
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
        if summary.paused.is_none() && summary.blocked.is_none() {
            return Ok(None);
        }
        if self.live.screen.form == Form::People {
            let held = queue::state(&self.live.screen, &self.thread, &state);
            note(held.trim_end());
        }
        Ok(Some(ExitCode::FAILURE))
    }

    fn left(&mut self) {
        self.live.end_line();
        let thread = &self.thread;
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
