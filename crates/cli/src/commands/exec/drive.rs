//! Follows the turn of a run to its end: events in, words out, signals and time in between.
//!
//! The invariant here: a drive ends by the typed end of its turn, by what is stored of it, or when
//! nothing can be known any more, and always within the bounds below once somebody wants it to stop.
//!
//! Theory of operation: one task, one `select!`. It takes a signal, a reader that has gone, the answer
//! to an interrupt, a place for a waiting line, an event, or its one timer. Whoever waits for a lane
//! of another process is not told by that process, so it looks, every [`POLL`].

mod daemon;
mod looking;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turnlane::{ErrorKind, Event, EventBody, EventStream, Filter};
use turnlane_protocol::method::turn_interrupt;

pub(super) use self::daemon::DaemonWatch;
use self::looking::Found;
use super::calls::{Calls, Failed};
use super::output::Output;
use super::run::{End, INTERRUPTED, Run, Told};
use super::signals::{Caught, Signals};
use crate::shown::note;

/// How long a stop may take in all.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How long the end of a failing turn is waited for before it is looked up.
const FAILING_MAX: Duration = Duration::from_secs(10);
/// How often a lane of another process is looked at.
const POLL: Duration = Duration::from_millis(40);

/// Why a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Signal(Caught),
    StdoutClosed,
}

/// How a drive ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driven {
    pub(super) end: End,
    pub(super) stop: Option<Stop>,
}

/// The turn of a drive.
#[derive(Clone, Debug)]
pub(super) struct Primary {
    pub(super) thread: String,
    pub(super) turn: String,
    /// The row, where it waits.
    pub(super) row: Option<String>,
    /// Whether the server tells us of the thread.
    pub(super) following: Following,
}

/// Whether the server tells us of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Following {
    Yes,
    /// Another process owns its lane.
    NotYet,
}

type Answer = Pin<Box<dyn Future<Output = Result<Value, Failed>> + Send>>;

/// Follows one turn.
pub(super) struct Drive {
    pub(super) calls: Calls,
    pub(super) events: EventStream,
    pub(super) run: Run,
    pub(super) output: Output,
    /// Cancelled when the reader of standard output has gone.
    unread: CancellationToken,
    primary: Primary,
    stop: Option<Stop>,
    interrupting: Option<Answer>,
    ahead: Option<u64>,
    timers: Timers,
    /// None where the server is in this process.
    daemon: Option<DaemonWatch>,
}

/// When something is due.
#[derive(Debug, Default)]
struct Timers {
    stop: Option<Instant>,
    failing: Option<Instant>,
    look: Option<Instant>,
    /// When the daemon is looked for next; set while the connection is lost.
    daemon: Option<Instant>,
    /// Since when the thread is not followed, or the turn is nowhere.
    lost_since: Option<Instant>,
}

impl Timers {
    fn next(&self) -> Option<Instant> {
        [self.stop, self.failing, self.look, self.daemon]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Where a run comes from.
pub(super) struct Parts {
    pub(super) calls: Calls,
    pub(super) events: EventStream,
    pub(super) run: Run,
    pub(super) output: Output,
    pub(super) daemon: Option<DaemonWatch>,
}

impl Drive {
    pub(super) fn new(parts: Parts, primary: Primary) -> Self {
        let Parts {
            calls,
            events,
            run,
            output,
            daemon,
        } = parts;
        let timers = Timers {
            look: (primary.following == Following::NotYet).then(Instant::now),
            ..Timers::default()
        };
        Self {
            unread: output.unread(),
            calls,
            events,
            run,
            output,
            primary,
            stop: None,
            interrupting: None,
            ahead: None,
            timers,
            daemon,
        }
    }

    /// Follows the turn to its end and says everything but the last line's consequences.
    pub(super) async fn follow(&mut self, signals: &mut Signals) -> Driven {
        let (told, end) = loop {
            if let Some(ending) = self.run.ended().cloned() {
                tokio::select! {
                    () = self.fill_gap() => {}
                    // Whoever does not want to wait gets the last word without the rest.
                    caught = signals.next() => self.stop = Some(Stop::Signal(caught)),
                }
                break self.run.finish(ending);
            }
            if self.run.is_gone() {
                let text = "the thread was archived or deleted";
                break self.run.give_up(text, ErrorKind::Other);
            }
            let wake = self.timers.next();
            tokio::select! {
                biased;
                caught = signals.next() => {
                    if let Some(last) = self.signalled(caught) {
                        break last;
                    }
                }
                () = self.unread.cancelled(), if self.stop.is_none() => {
                    self.begin_stop(Stop::StdoutClosed);
                }
                answer = answered(self.interrupting.as_mut()), if self.interrupting.is_some() => {
                    self.interrupting = None;
                    if let Err(failed) = answer
                        && !self.not_interrupted(failed).await
                    {
                        break self.run.give_up(INTERRUPTED, ErrorKind::Interrupted);
                    }
                }
                () = daemon::changed(self.daemon.as_mut()), if self.daemon.is_some() => {
                    self.connection_changed();
                }
                () = self.output.write_one(), if self.output.has_waiting() => {}
                event = self.events.next(), if self.output.has_room() => match event {
                    Some(event) => self.take(event),
                    None => break self.closed(),
                },
                () = until(wake), if wake.is_some() => {
                    let lost = daemon::lost(self.daemon.as_ref());
                    // A server that does not answer does not hold up a signal, and a look at one that is
                    // gone does not hold up the look for the next: the call would wait for it.
                    let last = tokio::select! {
                        biased;
                        caught = signals.next() => self.signalled(caught),
                        last = self.woken() => last,
                        () = lost => None,
                    };
                    if let Some(last) = last {
                        break last;
                    }
                }
            }
        };
        self.output.say(told);
        let stop = self.stop;
        Driven { end, stop }
    }

    fn take(&mut self, event: Event) {
        match &event.body {
            EventBody::Queue(queue) if self.is_ours(&event) => {
                let waits = self.tell_place(queue);
                if !waits && self.primary.row.is_some() {
                    // It begins now, or somebody removed it.
                    let soon = Instant::now() + POLL;
                    self.timers.look.get_or_insert(soon);
                }
            }
            EventBody::Reconnected { .. } => {
                self.primary.following = Following::NotYet;
                self.timers.look = Some(Instant::now());
                self.timers.lost_since = Some(Instant::now());
            }
            EventBody::TooSlow => {
                // This stream is over; what it did not tell is read.
                self.events = self.calls.0.events(Filter::default());
                self.run.missed();
                self.timers.look = Some(Instant::now());
            }
            _ => {}
        }
        if let EventBody::Delta(delta) = &event.body
            && self.is_ours(&event)
        {
            self.output.stream(delta);
        }
        let told = self.run.take(event.into());
        self.output.say(told);
        if self.run.has_begun() {
            self.primary.row = None;
        }
        if self.run.is_failing() && self.timers.failing.is_none() {
            self.timers.failing = Some(Instant::now() + FAILING_MAX);
        }
    }

    /// The client is closed: the server could not be found again.
    fn closed(&mut self) -> (Vec<Told>, End) {
        if self.stop.is_some() {
            return self.run.give_up(INTERRUPTED, ErrorKind::Interrupted);
        }
        let lost = "the connection to the server was lost; the turn may still be running";
        let text = self.ended_with_daemon().unwrap_or_else(|| lost.to_owned());
        self.run.give_up(&text, ErrorKind::Unknown)
    }

    fn is_ours(&self, event: &Event) -> bool {
        let thread = event.thread.as_ref();
        thread.is_some_and(|thread| thread.as_str() == self.primary.thread)
    }

    /// Says how many turns come first, whenever that changed. Whether ours still waits.
    fn tell_place(&mut self, queue: &Value) -> bool {
        let Some(row) = &self.primary.row else {
            return false;
        };
        let rows = queue.get("queuedTurns").or_else(|| queue.get("data"));
        let mut rows = rows.and_then(Value::as_array).into_iter().flatten();
        let place = rows.position(|listed| {
            let text = |key: &str| listed.get(key).and_then(Value::as_str);
            text("id") == Some(row) || text("turnId") == Some(&self.primary.turn)
        });
        let Some(place) = place else {
            return false;
        };
        let running = queue
            .get("running")
            .is_some_and(|running| !running.is_null());
        let ahead = u64::try_from(place).unwrap_or(u64::MAX) + u64::from(running);
        if ahead > 0 && self.ahead != Some(ahead) {
            note(&format!("waiting: {ahead} turns ahead"));
        }
        self.ahead = Some(ahead);
        true
    }

    /// The first signal asks the turn to end, the second ends the run.
    fn signalled(&mut self, caught: Caught) -> Option<(Vec<Told>, End)> {
        if self.stop.is_some() {
            return Some(self.run.give_up(INTERRUPTED, ErrorKind::Interrupted));
        }
        self.begin_stop(Stop::Signal(caught));
        None
    }

    fn begin_stop(&mut self, why: Stop) {
        self.stop = Some(why);
        self.timers.stop = Some(Instant::now() + STOP_MAX);
        let calls = self.calls.clone();
        let Primary {
            thread, turn, row, ..
        } = self.primary.clone();
        self.interrupting = Some(Box::pin(async move {
            if let Some(row) = row {
                let params = json!({"threadId": thread, "queuedTurnId": row});
                let deleted = calls.ask::<Value>("thread/queue/delete", &params).await;
                if deleted.is_ok_and(|answer| answer["deleted"] == true) {
                    return Err(Failed::Withdrawn);
                }
            }
            // Other turns of the thread are not this program's to hold.
            let params = json!({"threadId": thread, "turnId": turn, "queue": "continue"});
            calls.ask(turn_interrupt::METHOD, &params).await
        }));
    }

    /// An interrupt was refused: the turn has ended, or never began. Whether there is something to
    /// wait for.
    async fn not_interrupted(&mut self, failed: Failed) -> bool {
        if matches!(failed, Failed::Withdrawn) || failed.is("queued") {
            return false;
        }
        let stop = self.timers.stop.unwrap_or_else(Instant::now);
        let found = tokio::time::timeout_at(stop, self.look_up()).await;
        found.is_ok_and(|found| found.is_ok_and(|found| found == Found::Ended))
    }

    /// Something is due; the last words, where that is the end.
    async fn woken(&mut self) -> Option<(Vec<Told>, End)> {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.timers.stop) {
            return Some(self.run.give_up(INTERRUPTED, ErrorKind::Interrupted));
        }
        if due(self.timers.failing) {
            self.timers.failing = Some(now + FAILING_MAX);
            // Decided by what is stored; a turn that still runs is waited for.
            let _ = self.look_up().await;
        }
        if due(self.timers.daemon)
            && let Some(last) = self.look_at_daemon()
        {
            return Some(last);
        }
        if due(self.timers.look) {
            self.timers.look = Some(now + POLL);
            if self.daemon.as_ref().is_some_and(DaemonWatch::is_lost) {
                return None;
            }
            return self.look().await;
        }
        None
    }
}

async fn answered(answer: Option<&mut Answer>) -> Result<Value, Failed> {
    match answer {
        Some(answer) => answer.await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
