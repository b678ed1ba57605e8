//! `turnlane thread tail`: follows a thread until somebody leaves.
//!
//! The invariant here: whoever looks changes nothing. Nobody is asked for approvals here, leaving
//! stops nothing, and a lost connection is found again. What was told before following began is read
//! once; nothing is told twice.
//!
//! How events become words is in `live`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;
use turnlane::{Connection, Event, EventBody, EventStream, Filter};
use turnlane_protocol::queue::{QueueState, QueuedTurn};
use turnlane_runtime::{Clock as _, SystemClock};

use super::about;
use super::live::Live;
use super::show::last_turns;
use crate::args::ThreadTail;
use crate::session::refused::is_lost;
use crate::session::{INTERRUPTED, Session, find};
use crate::shown::ids::short;
use crate::shown::{Form, Screen, note, queue, time};

/// How many turns are read at once after a loss.
const CATCH_UP: usize = 20;
/// How long an approval may be open before `--until-idle` takes it for one that nobody decides. A
/// reviewer that is connected decides sooner.
const UNDECIDED_MAX: Duration = Duration::from_secs(5);

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
        undecided: None,
        said_until: None,
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
    /// The approval that is open, and when this command saw it first.
    undecided: Option<(String, Instant)>,
    /// The time until which the queue waits, as it was said last.
    said_until: Option<i64>,
}

/// Whether `--until-idle` goes on.
enum Rest {
    /// Something runs, or starts by itself.
    GoesOn,
    /// As `GoesOn`, unless nothing has changed at this time.
    GoesOnUntil(Instant),
    Over(ExitCode),
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
        let mut look_at = None;
        loop {
            if std::mem::take(&mut look) && self.until_idle {
                look_at = match self.rest().await {
                    Ok(Rest::Over(code)) => return Ok(code),
                    Ok(Rest::GoesOnUntil(at)) => Some(at),
                    Ok(Rest::GoesOn) => None,
                    // The next connection says how the queue stands.
                    Err(error) if is_lost(&error) => None,
                    Err(error) => return Err(error),
                };
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
                    look = match self.take(event).await {
                        // The next connection begins with all that this one did not tell.
                        Err(error) if is_lost(&error) => false,
                        taken => taken?,
                    };
                    if self.live.is_gone() {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                Ok(()) = self.connection.changed() => self.connection_changed(),
                () = until(look_at), if look_at.is_some() => look = true,
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
        ) || matches!(&event.body, EventBody::Unknown(raw) if raw.method == "approval/changed");
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
    async fn rest(&mut self) -> anyhow::Result<Rest> {
        let params = json!({"threadId": self.thread, "limit": 1});
        let listed: Value = self.session.ask("thread/queue/list", params).await?;
        let state: QueueState = serde_json::from_value(listed.clone())
            .context("the answer to thread/queue/list cannot be read")?;
        let summary = &state.summary;
        if state.running.is_some() {
            return self.rest_of_running().await;
        }
        self.undecided = None;
        if summary.depth == 0 {
            return Ok(Rest::Over(ExitCode::SUCCESS));
        }
        if !queue::needs_person(summary) {
            let head: Option<QueuedTurn> = serde_json::from_value(listed["data"][0].clone()).ok();
            let due_ms = head.and_then(|head| head.not_before_ms);
            let until_ms = summary
                .waiting
                .as_ref()
                .and_then(|waiting| waiting.until_ms);
            self.say_until(until_ms.max(due_ms));
            return Ok(Rest::GoesOn);
        }
        if self.live.screen.form == Form::People {
            let word = self.session.word(&self.thread);
            let held = queue::state(&self.live.screen, &word, &state);
            self.live.screen.note_painted(held.trim_end());
        }
        Ok(Rest::Over(ExitCode::FAILURE))
    }

    /// A running turn goes on, unless it waits for an approval that no client decides.
    async fn rest_of_running(&mut self) -> anyhow::Result<Rest> {
        let params = json!({"threadId": self.thread});
        let (open, _) = self.session.list("approval/list", params, Some(1)).await?;
        let first = open.first();
        let id = first.and_then(|open| open["approvalId"].as_str());
        let (Some(id), Some(first)) = (id, first) else {
            self.undecided = None;
            return Ok(Rest::GoesOn);
        };
        let since = match &self.undecided {
            Some((known, since)) if known == id => *since,
            _ => Instant::now(),
        };
        self.undecided = Some((id.to_owned(), since));
        if since.elapsed() < UNDECIDED_MAX {
            return Ok(Rest::GoesOnUntil(since + UNDECIDED_MAX));
        }
        if self.live.screen.form == Form::People {
            self.live.end_line();
            note(&format!(
                "thread {thread} waits for your approval: {what}\n  decide with `turnlane approvals \
                 accept {id}` or `turnlane approvals decline {id}`",
                thread = self.session.word(&self.thread),
                what = about(first),
                id = short(id)
            ));
        }
        Ok(Rest::Over(ExitCode::FAILURE))
    }

    /// Says once until when the queue waits, where it goes on by itself later.
    fn say_until(&mut self, until_ms: Option<i64>) {
        let is_news = until_ms.is_some() && until_ms != self.said_until;
        self.said_until = until_ms;
        // Not the time at which the command began, as a screen has it.
        let now_ms = SystemClock.now_ms();
        if let (true, Some(at_ms), Form::People) = (is_news, until_ms, self.live.screen.form)
            && at_ms > now_ms
        {
            self.live.end_line();
            let when = time::until(now_ms, at_ms);
            note(&format!("the queue waits and goes on by itself {when}"));
        }
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

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
