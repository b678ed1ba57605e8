//! What the handles of a process and its driver share.
//!
//! One lock per process, held for a few instructions and never across a system call that could wait.
//! Whoever changes something for the driver wakes it after the lock is free; whoever the driver
//! tells something is woken the same way. A handle that ends a process takes the containment out of
//! here and kills without the lock.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::terminal;
use crate::contain::Running;
use crate::input::Input;
use crate::output::Store;
use crate::process::{Doorbell, ProcessId};
use crate::report::{ContainmentKind, Listed, ProcessInfo, ProcessState};
use crate::service::Registry;
use crate::snapshot::Snapshot;
use crate::spec::{Io, Signal, Target, TerminalSize, Until};
use crate::status::ExitStatus;
use crate::{StreamName, event::Event};

/// Undelivered output held before the child is made to wait, unless the owner says otherwise.
pub(crate) const WINDOW: usize = 256 * 1024;

/// The least that is read into a window that is not empty.
const ROOM_MIN: usize = 4096;

/// One process, as its handles, its driver and the service see it.
pub(crate) struct Shared {
    pub(crate) id: ProcessId,
    pub(crate) info: ProcessInfo,
    pub(crate) argv0: OsString,
    pub(crate) cwd: PathBuf,
    pub(crate) io: Io,
    pub(crate) ends_on_drop: bool,
    pub(crate) registry: Arc<Registry>,
    pub(crate) state: Mutex<State>,
    /// Told at the end of a stream, at exit and close.
    pub(crate) ended: Notify,
    /// Told at everything that is put in, while `State::readers` is not zero.
    pub(crate) arrived: Notify,
}

pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) input: Input,
    pub(crate) window: usize,
    /// The driver does not read because the window is full.
    pub(crate) is_stalled: bool,
    pub(crate) size: Option<TerminalSize>,
    /// Gone when nobody is left.
    pub(crate) running: Option<Arc<Running>>,
    /// The terminal's master, until it has ended.
    pub(crate) terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    pub(crate) orders: Orders,
    pub(crate) consumer: Consumer,
    /// Streams of which all was told: nobody can write to them any more.
    pub(crate) ended: Vec<StreamName>,
    /// Callers that wait for output without consuming it.
    pub(crate) readers: usize,
    /// Whether a handle is left.
    pub(crate) is_owned: bool,
    driver: Option<Waker>,
}

/// What the driver was asked to do, and what it must know to say why the leader ended.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pub(crate) end: Option<Order>,
    /// Somebody asked for an end while the leader ran.
    pub(crate) is_end_asked: bool,
    /// Signals that were sent here, as bits.
    pub(crate) signals: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Graceful {
        interrupt: Duration,
        term: Duration,
    },
    /// As if the spec's timeout had passed.
    Timeout,
    /// The containment was killed by whoever gave the order.
    Forced,
}

/// The one who takes the lossless stream.
#[derive(Default)]
pub(crate) struct Consumer {
    pub(crate) is_taken: bool,
    /// The last number that was taken or skipped.
    pub(crate) position: u64,
    pub(crate) waker: Option<Waker>,
    pub(crate) doorbell: Option<Doorbell>,
    /// The doorbell is to be rung at the next event.
    pub(crate) rings: bool,
}

/// What the driver learns when it looks.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) order: Option<Order>,
    /// How much may be read; zero while the window is full.
    pub(super) room: usize,
}

impl State {
    pub(crate) fn new(store: Store, input: Input, size: Option<TerminalSize>) -> Self {
        Self {
            store,
            input,
            window: WINDOW,
            is_stalled: false,
            size,
            running: None,
            terminal: None,
            orders: Orders::default(),
            consumer: Consumer::default(),
            ended: Vec::new(),
            readers: 0,
            is_owned: true,
            driver: None,
        }
    }

    /// How much may be read. Less than a page is not worth a read while there is something to take.
    fn room(&mut self) -> usize {
        if self.store.retains() {
            return usize::MAX;
        }
        let undelivered = self.store.undelivered();
        let room = self.window.saturating_sub(undelivered);
        self.is_stalled |= room == 0 || (room < ROOM_MIN && undelivered > 0);
        if self.is_stalled { 0 } else { room }
    }

    /// Output was taken or the window changed: whether the driver is to be woken. It is only below
    /// half of the window, so that it does not read in crumbs.
    fn unstall(&mut self, below: usize) -> Option<Waker> {
        if self.is_stalled && (self.store.retains() || self.store.undelivered() <= below) {
            self.is_stalled = false;
            return self.driver.take();
        }
        None
    }

    /// Takes the next event after the consumer's position.
    fn take_event(&mut self) -> (Option<Event>, Option<Waker>) {
        let event = self.store.next_after(self.consumer.position);
        let waker = event.as_ref().and_then(|event| {
            self.consumer.position = event.seq();
            self.store.deliver(event.seq());
            self.unstall(self.window / 2)
        });
        (event, waker)
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something the driver must see, and wakes it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let driver = state.driver.take();
        drop(state);
        wake(driver);
        result
    }

    /// The driver's look at what it was asked to do. Whatever is changed after it wakes the driver.
    pub(super) fn look(&self, cx: &Context<'_>) -> Look {
        let mut state = self.lock();
        if !state
            .driver
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            state.driver = Some(cx.waker().clone());
        }
        Look {
            order: state.orders.end.take(),
            room: state.room(),
        }
    }

    /// The driver tells something; how much may be read now.
    pub(super) fn tell(&self, put_in: impl FnOnce(&mut Store)) -> usize {
        let mut state = self.lock();
        put_in(&mut state.store);
        let room = state.room();
        let consumer = state.consumer.waker.take();
        let doorbell = match &state.consumer.doorbell {
            Some(doorbell) if state.consumer.rings => Some(Arc::clone(doorbell)),
            Some(_) | None => None,
        };
        state.consumer.rings = false;
        let has_readers = state.readers > 0;
        drop(state);
        wake(consumer);
        if let Some(ring) = doorbell {
            ring();
        }
        if has_readers {
            self.arrived.notify_waiters();
        }
        room
    }

    /// Takes the next event; with a context, whoever polls is woken by the one after.
    pub(crate) fn take_event(&self, cx: Option<&Context<'_>>) -> Option<Event> {
        let mut state = self.lock();
        let (event, driver) = state.take_event();
        if event.is_none() {
            match cx {
                Some(cx) => state.consumer.waker = Some(cx.waker().clone()),
                None => state.consumer.rings = true,
            }
        }
        drop(state);
        wake(driver);
        event
    }

    /// Everything up to `seq` counts as delivered; the number of the close, if it was told.
    pub(crate) fn skip_to(&self, seq: u64) -> Option<u64> {
        let mut state = self.lock();
        // What is not there yet cannot be skipped.
        let seq = seq.min(state.store.last_seq());
        state.consumer.position = state.consumer.position.max(seq);
        state.store.deliver(seq);
        let below = state.window / 2;
        let driver = state.unstall(below);
        let closed = state.store.closed().map(|(seq, _)| seq);
        drop(state);
        wake(driver);
        closed
    }

    /// What was taken after `seq` is told again, as far as it is still there.
    pub(crate) fn recall(&self, seq: u64) {
        let mut state = self.lock();
        if seq < state.consumer.position {
            let position = state.store.recall(seq);
            state.consumer.position = position.min(state.consumer.position);
        }
    }

    pub(crate) fn set_window(&self, bytes: usize) {
        let mut state = self.lock();
        state.window = bytes;
        let driver = bytes.checked_sub(1).and_then(|below| state.unstall(below));
        drop(state);
        wake(driver);
    }

    /// From now on nothing waits for a consumer.
    pub(crate) fn retain(&self) {
        let mut state = self.lock();
        state.store.retain();
        let driver = state.unstall(0);
        drop(state);
        wake(driver);
    }

    /// Kills everything, from the caller's thread, and tells the driver. Whether the leader ran.
    pub(crate) fn force(&self) -> bool {
        let (running, ran) = self.change(|state| {
            let ran = state.store.exited().is_none();
            state.orders.is_end_asked |= ran;
            state.orders.end = Some(Order::Forced);
            (state.running.clone(), ran)
        });
        if let Some(running) = running {
            // A cgroup that was killed cannot be used again, and most are empty when their leader has
            // exited: a look is cheaper. Nobody can come into an empty one.
            let is_empty =
                || running.kind() == ContainmentKind::Cgroup && running.members().is_empty();
            if ran || !is_empty() {
                running.kill();
            }
        }
        ran
    }

    /// Asks the driver to end everything step by step. Whether the leader ran.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.change(|state| {
            let ran = state.store.exited().is_none();
            // A timeout says so itself; a forced end is not taken back.
            state.orders.is_end_asked |= ran && order != Order::Timeout;
            state.orders.end.get_or_insert(order);
            ran
        })
    }

    /// Sends a signal; nobody gets one after the leader's exit.
    pub(crate) fn signal(&self, signal: Signal, target: Target) -> bool {
        let (running, terminal) = {
            let mut state = self.lock();
            if state.store.exited().is_some() {
                return false;
            }
            state.orders.signals |= 1 << signal.number();
            (state.running.clone(), state.terminal.clone())
        };
        let Some(running) = running else { return false };
        if target == Target::Group
            && let Some(terminal) = terminal
            && terminal::signal_foreground(terminal.as_fd(), running.pid(), signal)
        {
            return true;
        }
        running.signal(signal, target)
    }

    pub(crate) fn done(&self, until: Until) -> Option<ExitStatus> {
        let state = self.lock();
        let (_, status) = state.store.exited()?;
        match until {
            Until::Exited => Some(status),
            Until::Closed => state.store.closed().map(|_| status),
            // The driver gives it back when everybody has left.
            Until::Gone => state.running.is_none().then_some(status),
        }
    }

    /// Members that outlived the leader. A look at the system, outside of the lock.
    fn survivors(&self) -> Vec<i32> {
        let running = {
            let state = self.lock();
            if state.store.exited().is_none() {
                return Vec::new();
            }
            state.running.clone()
        };
        running.map_or_else(Vec::new, |running| running.members())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let survivors = self.survivors();
        let state = self.lock();
        let names = [StreamName::Stdout, StreamName::Stderr, StreamName::Pty];
        let pictures = names.map(|name| state.store.picture(name));
        let status = state.store.exited().map(|(_, status)| status);
        let size = state.size;
        drop(state);
        // Joining copies up to the cap; not under the lock.
        let [stdout, stderr, terminal] = pictures.map(crate::output::Picture::join);
        let truncated = [&stdout, &stderr, &terminal]
            .iter()
            .any(|stream| stream.omitted_bytes > 0);
        Snapshot {
            stdout,
            stderr,
            terminal,
            truncated,
            running: status.is_none(),
            status,
            size,
            survivors,
        }
    }

    pub(crate) fn listed(&self) -> Listed {
        let survivors = self.survivors().len();
        let state = self.lock();
        let store = &state.store;
        Listed {
            id: self.id,
            info: self.info.clone(),
            argv0: self.argv0.clone(),
            cwd: self.cwd.clone(),
            io: self.io,
            state: match (store.exited(), store.closed()) {
                (None, _) => ProcessState::Running,
                (Some(_), None) => ProcessState::Exited,
                (Some(_), Some(_)) => ProcessState::Closed,
            },
            status: store.exited().map(|(_, status)| status),
            survivors,
            undelivered_bytes: store.undelivered_bytes() as u64,
            total_bytes: store.total_bytes(),
        }
    }
}

/// Wakes outside of the lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
