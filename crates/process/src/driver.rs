//! The driver: the one task of a process, which reads, writes, waits and ends.
//!
//! It alone touches the process's streams and learns of its exit. Three orders hold because one task
//! keeps them: every byte the leader wrote is told before its exit, the close is told last and once,
//! and a full window stops the reading and nothing else. Starting a process is the business of the
//! service, killing one at once that of its handles.
//!
//! # Theory of operation
//!
//! One `poll` looks at what handles asked for, reads what there is (until the window is full), writes
//! what is queued, asks for the exit, and sets the timer to the next deadline. It is woken by the
//! descriptors, by the timer and by handles; it never polls on its own and allocates nothing while it
//! waits. It ends when the process is closed and nobody is left in its containment. Should the
//! runtime go away before, the process is killed and told as lost.

mod ending;
mod shared;
mod streams;
mod terminal;
mod timer;
mod verdict;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

pub(crate) use shared::{Order, Shared, State};
pub(crate) use streams::Ends;
pub(crate) use terminal::{check_size, resize};

use crate::contain::{Ended, Running};
use crate::event::StreamName;
use crate::service::{Footprint, Slot};
use crate::spec::{Signal, Survivors, Target};
use ending::{Act, Ending};
use streams::{Sink, Source, Taken};
use timer::Timer;

/// Reads and writes in one poll; then others have their turn.
const TURN_MAX: usize = 16;

/// What is read in spite of a full window once everything was ended: as much as pipes can hold.
const DRAIN_BYTES_MAX: usize = 2 * 1024 * 1024;

pub(crate) struct Driver {
    shared: Arc<Shared>,
    running: Arc<Running>,
    sources: [Option<Source>; 2],
    /// Which source has the next turn.
    turn: usize,
    sink: Option<Sink>,
    ending: Ending,
    timer: Timer,
    survivors: Survivors,
    /// How much the window lets us read.
    room: usize,
    /// What may still be read in spite of a full window.
    drain_bytes: usize,
    stage: Stage,
    is_empty: bool,
    footprint: Footprint,
    slot: Slot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    Exited,
    Closed,
    Finished,
}

/// Whether a poll used its turn up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Waits,
    HasMore,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        running: Arc<Running>,
        ends: Ends,
        timeout: Option<Duration>,
        survivors: Survivors,
        footprint: Footprint,
        slot: Slot,
    ) -> Self {
        // A timeout too far away to be told is none.
        let timeout = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self {
            shared,
            running,
            sources: ends.sources,
            turn: 0,
            sink: ends.sink,
            ending: Ending::new(timeout),
            timer: Timer::default(),
            survivors,
            room: 0,
            drain_bytes: DRAIN_BYTES_MAX,
            stage: Stage::Running,
            is_empty: false,
            footprint,
            slot,
        }
    }

    /// Reads what there is, stream by stream in turn.
    fn read(&mut self, cx: &mut Context<'_>) -> Pace {
        let mut reads = 0;
        let mut idle = 0;
        while idle < self.sources.len() {
            let at = self.turn;
            self.turn = (at + 1) % self.sources.len();
            let Some(Some(source)) = self.sources.get_mut(at) else {
                idle += 1;
                continue;
            };
            let drains = self.ending.is_draining();
            let most = self.room.max(if drains { self.drain_bytes } else { 0 });
            let taken = if most > 0 {
                source.poll_take(cx, most)
            } else if self.stage == Stage::Running {
                return Pace::Waits;
            } else {
                // Nobody takes what is there, but an end is told all the same.
                source.poll_end(cx)
            };
            match taken {
                Poll::Pending => idle += 1,
                Poll::Ready(Taken::End) => self.end_source(at),
                Poll::Ready(Taken::Bytes(bytes)) => {
                    if drains {
                        self.drain_bytes = self.drain_bytes.saturating_sub(bytes.len());
                    }
                    self.room = tell_output(&self.shared, source.name, bytes);
                    idle = 0;
                    reads += 1;
                    if reads == TURN_MAX {
                        return Pace::HasMore;
                    }
                }
            }
        }
        Pace::Waits
    }

    fn end_source(&mut self, at: usize) {
        let Some(source) = self.sources.get_mut(at).and_then(Option::take) else {
            return;
        };
        let mut state = self.shared.lock();
        state.ended.push(source.name);
        if source.name == StreamName::Pty {
            self.sink = None;
            state.input.close();
            let terminal = state.terminal.take();
            drop(state);
            drop(terminal);
        } else {
            drop(state);
        }
        self.shared.ended.notify_waiters();
    }

    /// Writes what is queued.
    fn write(&mut self, cx: &mut Context<'_>) -> Pace {
        let Some(sink) = &mut self.sink else {
            return Pace::Waits;
        };
        for _ in 0..TURN_MAX {
            let piece = {
                let state = self.shared.lock();
                if state.input.is_over() {
                    drop(state);
                    self.sink = None;
                    return Pace::Waits;
                }
                state.input.front().cloned()
            };
            let Some(piece) = piece else {
                return Pace::Waits;
            };
            match sink.poll_write(cx, &piece) {
                Poll::Pending => return Pace::Waits,
                Poll::Ready(Ok(count)) => self.shared.lock().input.wrote(count),
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "standard input ended");
                    self.shared.lock().input.close();
                    self.sink = None;
                    return Pace::Waits;
                }
            }
        }
        Pace::HasMore
    }

    /// The leader was reaped: tells what it wrote, then its exit.
    fn exit(&mut self, ended: Ended) {
        for at in 0..self.sources.len() {
            if let Some(Some(source)) = self.sources.get(at)
                && source.drain(|bytes| {
                    self.room = tell_output(&self.shared, source.name, bytes);
                })
            {
                self.end_source(at);
            }
        }
        self.sink = None;
        let status = {
            let mut state = self.shared.lock();
            state.input.close();
            verdict::of(ended, &state.orders, &self.ending)
        };
        self.stage = Stage::Exited;
        self.shared.registry.counts.ended(status.reason);
        self.shared.tell(|store| store.push_exited(status));
        let now = Instant::now();
        self.ending.exited(now);
        if self.survivors == Survivors::End && !self.ending.is_active() {
            self.running.kill();
            self.ending.forced(now);
            self.ending.forced_after_exit(now);
        }
        // Usually everything has ended by now, and whoever waits for the close is woken only once.
        self.close_if_ended();
        self.shared.ended.notify_waiters();
    }

    fn close_if_ended(&mut self) {
        if self.stage == Stage::Exited && self.sources.iter().all(Option::is_none) {
            self.close(false);
        }
    }

    fn close(&mut self, drain_timed_out: bool) {
        self.stage = Stage::Closed;
        self.ending.closed();
        self.shared.tell(|store| store.push_closed(drain_timed_out));
        self.shared.ended.notify_waiters();
        self.shared.registry.closed(&self.shared);
    }

    fn act(&mut self, act: Act, now: Instant) {
        match act {
            Act::Interrupt => {
                self.shared.signal(Signal::Interrupt, Target::Group);
            }
            Act::Terminate => {
                self.running.signal(Signal::Terminate, Target::All);
            }
            Act::Kill => {
                self.running.kill();
                self.drain_after_exit(now);
            }
            Act::GiveUpStreams => {
                if self.stage == Stage::Exited {
                    for at in 0..self.sources.len() {
                        self.end_source(at);
                    }
                    self.close(true);
                }
            }
            Act::ReportUnkillable => self.report_unkillable(),
        }
    }

    fn drain_after_exit(&mut self, now: Instant) {
        if self.stage == Stage::Exited {
            self.ending.forced_after_exit(now);
        }
    }

    fn report_unkillable(&self) {
        let pids = self.running.members();
        if !pids.is_empty() {
            self.shared.registry.counts.unkillable(pids.len());
            tracing::error!(
                leader = self.running.pid(),
                ?pids,
                "processes could not be killed"
            );
        }
    }

    /// Whether everything is told and nobody is left.
    fn is_finished(&mut self, cx: &mut Context<'_>) -> bool {
        let matters = self.stage == Stage::Closed || self.ending.is_active();
        if self.stage >= Stage::Exited && matters && !self.is_empty {
            self.is_empty = self.running.poll_empty(cx).is_ready();
            if self.is_empty {
                self.ending.emptied(Instant::now());
                if self.stage == Stage::Closed {
                    self.ending.closed();
                }
            }
        }
        self.stage == Stage::Closed && self.is_empty
    }

    fn finish(&mut self) {
        self.stage = Stage::Finished;
        // Before the end is told: whoever waits for it finds nothing left behind.
        let footprint = std::mem::take(&mut self.footprint);
        footprint.remove(self.shared.registry.runtime());
        let running = self.shared.lock().running.take();
        drop(running);
        self.shared.ended.notify_waiters();
        self.shared.registry.finished(&self.shared);
        self.slot.release();
    }
}

/// Puts a chunk in; how much may be read now.
fn tell_output(shared: &Shared, name: StreamName, bytes: Bytes) -> usize {
    shared.registry.counts.read(name, bytes.len());
    shared.tell(|store| store.push(name, bytes))
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let me = self.get_mut();
        loop {
            let look = me.shared.look(cx);
            me.room = look.room;
            if let Some(order) = look.order {
                let now = Instant::now();
                if let Some(act) = me.ending.order(order, now) {
                    me.act(act, now);
                } else if order == Order::Forced {
                    me.drain_after_exit(now);
                }
            }
            let pace = [me.read(cx), me.write(cx)];
            if me.stage == Stage::Running
                && let Poll::Ready(ended) = me.running.poll_exit(cx)
            {
                me.exit(ended);
                continue;
            }
            me.close_if_ended();
            if me.is_finished(cx) {
                me.finish();
                return Poll::Ready(());
            }
            if me.timer.poll_due(cx, me.ending.deadline()).is_ready() {
                let now = Instant::now();
                while let Some(act) = me.ending.due(now) {
                    me.act(act, now);
                }
                continue;
            }
            if pace.contains(&Pace::HasMore) {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
    }
}

impl Drop for Driver {
    /// Only a runtime that goes away drops a driver before it has finished.
    fn drop(&mut self) {
        if self.stage == Stage::Finished {
            return;
        }
        self.running.kill();
        let stage = self.stage;
        self.shared.tell(|store| {
            if stage == Stage::Running {
                store.push_exited(verdict::LOST);
            }
            if stage <= Stage::Exited {
                store.push_closed(true);
            }
        });
        let mut state = self.shared.lock();
        state.input.close();
        let ends = (state.running.take(), state.terminal.take());
        drop(state);
        drop(ends);
        self.shared.ended.notify_waiters();
        self.shared.registry.finished(&self.shared);
    }
}
