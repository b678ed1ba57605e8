//! A started leader with all its descendants, whatever holds them.
//!
//! The driver polls it for the leader's end and for emptiness; anybody ends and signals it through a
//! shared reference. The invariant here: no method waits, and no lock is held over anything that
//! could. What is left when it is dropped is ended and given back in the background.

mod holder;
mod leader;

use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::Interest;
use tokio::time::Instant;

use super::keeper::Held;
use super::spawner::Shared;
use super::watched::{Watched, watch};
use super::{Ended, cgroup, group};
use crate::launch::Launched;
use crate::report::ContainmentKind;
use crate::spec::{Signal, Target};
use holder::Holder;
use leader::Leader;
pub(super) use leader::Place;

/// How often a group is looked through while somebody waits for it to become empty. The kernel tells
/// nobody when a group does; this is the one place that looks again and again.
const GROUP_LOOK_EVERY: Duration = Duration::from_millis(50);
const GROUP_LOOK_FIRST: Duration = Duration::from_millis(10);

/// What a wait for emptiness came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Emptiness {
    Sure,
    /// The system had no room for a watch; to be looked at again.
    Unknown,
}

type Emptying = Pin<Box<dyn Future<Output = Emptiness> + Send>>;

/// A started leader with all its descendants. Polled by the driver; ended and signalled by anybody,
/// through a shared reference, without waiting. Dropping it force-ends what is left and gives cgroup,
/// holder and descriptors back.
pub(crate) struct Running {
    hold: Hold,
    kind: ContainmentKind,
    /// Made by the first who waits for emptiness, so that nobody else pays for it.
    emptying: Mutex<Option<Emptying>>,
}

#[derive(Debug)]
enum Hold {
    Leader(Leader),
    Holder(Holder),
}

impl Running {
    /// A child of the spawning thread.
    pub(super) fn child(launched: Launched, place: Place, born: u64, shared: Arc<Shared>) -> Self {
        let kind = place.kind();
        let leader = Leader::new(launched, place, born, shared);
        Self::new(Hold::Leader(leader), kind)
    }

    /// A process in a holder of the keeper.
    pub(super) fn held(held: Watched<Held>, born: u64, shared: Arc<Shared>) -> Self {
        let holder = Holder::new(held, born, shared);
        Self::new(Hold::Holder(holder), ContainmentKind::Reaper)
    }

    fn new(hold: Hold, kind: ContainmentKind) -> Self {
        Self {
            hold,
            kind,
            emptying: Mutex::new(None),
        }
    }

    /// Lets the runtime watch for the end. To be called once, in a runtime, before anything is
    /// polled; fails when the system has no room for another watch.
    pub(super) fn watch(&self) -> std::io::Result<()> {
        match &self.hold {
            Hold::Leader(leader) => leader.watch(),
            Hold::Holder(_) => Ok(()),
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        match &self.hold {
            Hold::Leader(leader) => leader.pid(),
            Hold::Holder(holder) => holder.pid(),
        }
    }

    pub(crate) fn kind(&self) -> ContainmentKind {
        self.kind
    }

    /// The leader's end, told again if asked again; reaps it. Only the last task that polled is
    /// woken.
    pub(crate) fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<Ended> {
        match &self.hold {
            Hold::Leader(leader) => leader.poll_exit(cx),
            Hold::Holder(holder) => holder.poll_exit(cx),
        }
    }

    /// Resolves when no member is left. Only meaningful after the exit was polled ready.
    pub(crate) fn poll_empty(&self, cx: &mut Context<'_>) -> Poll<()> {
        let leader = match &self.hold {
            Hold::Leader(leader) => leader,
            Hold::Holder(holder) => return holder.poll_empty(cx),
        };
        // Only the driver polls, so nobody waits for this lock.
        let mut emptying = lock(&self.emptying);
        loop {
            let future = emptying.get_or_insert_with(|| leader.emptying());
            let emptiness = ready!(future.as_mut().poll(cx));
            *emptying = None;
            if emptiness == Emptiness::Sure {
                leader.emptied();
                return Poll::Ready(());
            }
        }
    }

    /// SIGKILL to every member, at once.
    pub(crate) fn kill(&self) {
        match &self.hold {
            Hold::Leader(leader) => leader.kill(),
            Hold::Holder(holder) => holder.kill(),
        }
    }

    /// Whether anybody got it. `Target::Group` means the leader's own group here; a terminal's
    /// foreground group is found by the driver. Leader and group get nothing once the exit was
    /// polled ready and the number may be somebody else's; members that are left still do.
    pub(crate) fn signal(&self, signal: Signal, target: Target) -> bool {
        match &self.hold {
            Hold::Leader(leader) => leader.signal(signal, target),
            Hold::Holder(holder) => holder.signal(signal, target),
        }
    }

    /// Pids that are members now, the leader included while it has not exited.
    pub(crate) fn members(&self) -> Vec<i32> {
        match &self.hold {
            Hold::Leader(leader) => leader.members(),
            Hold::Holder(holder) => holder.members(),
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Running");
        debug.field("hold", &self.hold).field("kind", &self.kind);
        debug.finish_non_exhaustive()
    }
}

/// Until a cgroup, whose `cgroup.events` this is, has nobody in it. The kernel reports a change as
/// priority data. An error is the system's that has no room for another watch.
async fn cgroup_emptied(events: OwnedFd) -> std::io::Result<()> {
    // Usually everybody has gone before anybody asks.
    if cgroup::says_empty(events.as_fd()) {
        return Ok(());
    }
    let events = watch(events, Interest::PRIORITY)?;
    loop {
        // Read after the watch was set and before each wait: a change in between is reported.
        if cgroup::says_empty(events.get_ref().as_fd()) {
            return Ok(());
        }
        events.ready(Interest::PRIORITY).await?.clear_ready();
    }
}

/// Until nobody is in a group. The first look is put off a little, so that many who begin to wait at
/// about the same time share it.
async fn group_emptied(group: i32) -> Emptiness {
    let mut pause = GROUP_LOOK_FIRST;
    loop {
        let since = Instant::now();
        tokio::time::sleep(pause).await;
        if group::is_empty(group, since) {
            return Emptiness::Sure;
        }
        pause = GROUP_LOOK_EVERY;
    }
}

/// For want of a watch: a while.
async fn not_yet() -> Emptiness {
    tokio::time::sleep(GROUP_LOOK_EVERY).await;
    Emptiness::Unknown
}

/// What these locks guard is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
