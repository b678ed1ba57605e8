//! What the spawning thread, the tasks that ask it and the processes it started have in common.
//!
//! Counters, flags and the current keeper; nothing here waits. The invariant: a keeper's death makes
//! the generation grow before anything else happens, so that whoever was started under it is known.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::thread::Message;
use crate::contain::cgroup::Tree;
use crate::contain::keeper::KeeperLink;

/// How long somebody who was killed may take to become a zombie: a socket or a cgroup that says
/// "empty" says it before that.
pub(super) const LOOK_AFTER: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub(in crate::contain) struct Shared {
    handle: Handle,
    tree: Option<Arc<Tree>>,
    nudge: mpsc::WeakSender<Message>,
    /// How many keepers have died.
    generation: AtomicU64,
    link: Mutex<Link>,
    /// Leaders that were not given back yet.
    leaders: AtomicUsize,
    /// Whether the thread was asked to look after orphans and has not begun.
    look: AtomicBool,
    /// Whether it will be asked soon.
    soon: AtomicBool,
    stop: AtomicBool,
    /// Killed children whose end nobody waits for.
    unreaped: Mutex<Vec<OwnedFd>>,
}

/// The keeper and the generation it belongs to.
#[derive(Debug, Default)]
struct Link {
    generation: u64,
    keeper: Option<Arc<KeeperLink>>,
}

/// A keeper in office.
#[derive(Clone, Debug)]
pub(in crate::contain) struct Kept {
    pub(super) generation: u64,
    pub(super) keeper: Arc<KeeperLink>,
}

impl Shared {
    pub(super) fn new(
        handle: Handle,
        tree: Option<Arc<Tree>>,
        nudge: mpsc::WeakSender<Message>,
    ) -> Self {
        Self {
            handle,
            tree,
            nudge,
            generation: AtomicU64::new(0),
            link: Mutex::default(),
            leaders: AtomicUsize::new(0),
            look: AtomicBool::new(false),
            soon: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            unreaped: Mutex::default(),
        }
    }

    pub(in crate::contain) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(super) fn tree(&self) -> Option<&Arc<Tree>> {
        self.tree.as_ref()
    }

    /// Which keeper is, or ought to be, in office.
    pub(in crate::contain) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The keeper of generation `of` died.
    pub(super) fn keeper_died(&self, of: u64) {
        self.generation.fetch_max(of + 1, Ordering::AcqRel);
        self.look();
    }

    /// Whether the keeper of generation `of` has died, also if nobody was told yet.
    pub(in crate::contain) fn is_bereft(&self, of: u64) -> bool {
        self.generation() != of || self.link().is_none_or(|kept| kept.keeper.is_dead())
    }

    /// The keeper in office; `None` while there is none.
    pub(super) fn link(&self) -> Option<Kept> {
        let link = lock(&self.link);
        let current = link.generation == self.generation();
        let keeper = link.keeper.as_ref().filter(|_| current)?;
        Some(Kept {
            generation: link.generation,
            keeper: Arc::clone(keeper),
        })
    }

    /// Puts a keeper in office, or none. What is returned was the one before.
    pub(super) fn set_link(
        &self,
        generation: u64,
        keeper: Option<Arc<KeeperLink>>,
    ) -> Option<Arc<KeeperLink>> {
        let link = Link { generation, keeper };
        std::mem::replace(&mut *lock(&self.link), link).keeper
    }

    pub(in crate::contain) fn leader_started(&self) {
        self.leaders.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::contain) fn leader_ended(&self) {
        self.leaders.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn leaders_len(&self) -> usize {
        self.leaders.load(Ordering::Relaxed)
    }

    /// Asks the thread to reap orphans and to give back what could not be given back. Asked many
    /// times before it begins, it looks once.
    pub(in crate::contain) fn look(&self) {
        let asked = self.look.swap(true, Ordering::AcqRel);
        if !asked && let Some(requests) = self.nudge.upgrade() {
            // A full channel keeps the thread awake, and it looks after the flag.
            let _ = requests.try_send(Message::Look);
        }
    }

    /// Asks for a look in a moment: orphans that are dead do no harm meanwhile, and a thousand
    /// processes that end at once need one look. Who was just killed is a zombie by then.
    pub(in crate::contain) fn look_soon(self: &Arc<Self>) {
        if self.soon.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        drop(self.handle.spawn(async move {
            tokio::time::sleep(LOOK_AFTER).await;
            shared.soon.store(false, Ordering::Release);
            shared.look_again().await;
        }));
    }

    /// Asks for the look after a look.
    pub(super) async fn look_again(&self) {
        if let Some(requests) = self.nudge.upgrade() {
            // The thread is gone if it fails.
            let _ = requests.send(Message::LookAgain).await;
        }
    }

    /// Whether a look was asked for; it then begins.
    pub(super) fn take_look(&self) -> bool {
        self.look.swap(false, Ordering::AcqRel)
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Leaves a killed child to the thread.
    pub(in crate::contain) fn reap_later(&self, pidfd: OwnedFd) {
        lock(&self.unreaped).push(pidfd);
    }

    pub(super) fn unreaped(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        lock(&self.unreaped)
    }
}

/// What these locks guard is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
