//! A process in a holder of the keeper, as its driver sees it.
//!
//! Turns what the holder tells, one message after the other, into what is asked: the leader's end,
//! emptiness. Ends and signals go to the holder directly. How a holder works is the keeper's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use super::lock;
use crate::contain::keeper::{Held, HolderMessage};
use crate::contain::spawner::Shared;
use crate::contain::wait::LOST;
use crate::contain::watched::Watched;
use crate::contain::{Ended, How};
use crate::spec::{Signal, Target};

#[derive(Debug)]
pub(super) struct Holder {
    watched: Watched<Held>,
    told: Mutex<Told>,
    /// Whether it was ended from here.
    killed: AtomicBool,
    /// Which keeper it was started under.
    born: u64,
    shared: Arc<Shared>,
}

/// What is known so far.
#[derive(Debug, Default)]
struct Told {
    ended: Option<Ended>,
    empty: bool,
}

impl Holder {
    pub(super) fn new(watched: Watched<Held>, born: u64, shared: Arc<Shared>) -> Self {
        Self {
            watched,
            told: Mutex::new(Told::default()),
            killed: AtomicBool::new(false),
            born,
            shared,
        }
    }

    fn held(&self) -> &Held {
        self.watched.get_ref().get()
    }

    pub(super) fn pid(&self) -> i32 {
        self.held().pid()
    }

    pub(super) fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.poll(cx, |told| told.ended)
    }

    pub(super) fn poll_empty(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |told| told.empty.then_some(()))
    }

    fn poll<T>(&self, cx: &mut Context<'_>, known: impl Fn(&Told) -> Option<T>) -> Poll<T> {
        let mut told = lock(&self.told);
        loop {
            if let Some(known) = known(&told) {
                return Poll::Ready(known);
            }
            if let Some(message) = self.held().recv() {
                self.note(&mut told, message);
                continue;
            }
            match ready!(self.watched.poll_read_ready(cx)) {
                // Cleared before the next receive, so that a message in between is reported again.
                Ok(mut guard) => guard.clear_ready(),
                // The runtime is shutting down and takes this task with it.
                Err(_) => return Poll::Pending,
            }
            if let Some(message) = self.held().recv() {
                self.note(&mut told, message);
            }
        }
    }

    fn note(&self, told: &mut Told, message: HolderMessage) {
        match message {
            HolderMessage::Exited { ended, empty } => {
                told.ended = Some(self.judge(ended));
                told.empty |= empty;
            }
            HolderMessage::Empty => told.empty = true,
            HolderMessage::Survivors(pids) => {
                tracing::error!(?pids, "members of a containment could not be ended");
            }
            HolderMessage::Gone => {
                told.ended.get_or_insert(LOST);
                told.empty = true;
                // Without a keeper the holder fell to us.
                self.shared.look();
            }
        }
    }

    /// A holder whose keeper died ends its process and still tells how; for its owner it was lost.
    fn judge(&self, ended: Ended) -> Ended {
        let killed = ended.how == How::Signal(libc::SIGKILL);
        if !killed || self.killed.load(Ordering::Relaxed) || !self.shared.is_bereft(self.born) {
            return ended;
        }
        Ended {
            how: How::Lost,
            rusage: ended.rusage,
        }
    }

    pub(super) fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.held().kill();
    }

    pub(super) fn signal(&self, signal: Signal, target: Target) -> bool {
        self.held().signal(signal, target)
    }

    pub(super) fn members(&self) -> Vec<i32> {
        self.held().members()
    }
}
