//! A leader that is a child of the service, in a cgroup or with its group only.
//!
//! Its end is learned from its pidfd. The invariant here: a signal by number is sent only while the
//! number is certainly ours. In a cgroup the leader is reaped at its exit and its number is not used
//! afterwards. With a group only it stays a zombie, and so its number ours, until this is dropped.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use rustix::process::{Pid, PidfdFlags};
use tokio::io::Interest;

use super::{Emptiness, Emptying, cgroup_emptied, group_emptied, lock, not_yet};
use crate::contain::cgroup::Slot;
use crate::contain::spawner::Shared;
use crate::contain::wait::{self, Child, Zombie};
use crate::contain::watched::{Watched, unwatch, watch};
use crate::contain::{Ended, How, group};
use crate::launch::Launched;
use crate::report::ContainmentKind;
use crate::spec::{Signal, Target};

/// Pidfds that [`signal_listed`] holds at the same time.
const PIDFDS_MAX: usize = 128;

/// What holds the descendants of a leader.
#[derive(Debug)]
pub(in crate::contain) enum Place {
    /// A cgroup of its own.
    Cgroup(Slot),
    /// Its group, among others in the one cgroup for this.
    Common,
    /// Its group.
    Group,
}

impl Place {
    pub(super) fn kind(&self) -> ContainmentKind {
        match self {
            Self::Cgroup(_) => ContainmentKind::Cgroup,
            Self::Common | Self::Group => ContainmentKind::Group,
        }
    }

    fn zombie(&self) -> Zombie {
        match self {
            Self::Cgroup(_) => Zombie::Reap,
            Self::Common | Self::Group => Zombie::Keep,
        }
    }
}

#[derive(Debug)]
pub(super) struct Leader {
    pid: i32,
    state: Mutex<State>,
    /// Whether everybody was ended from here, so that orphans may be waiting to be reaped.
    killed: AtomicBool,
    place: Place,
    /// Which keeper it was started under.
    born: u64,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum State {
    /// Started, not watched yet.
    Fresh(OwnedFd),
    Watched(Watched<OwnedFd>),
    Ended(Ended),
}

impl State {
    /// The pidfd, while the leader is not known to have ended.
    fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Fresh(pidfd) => Some(pidfd.as_fd()),
            Self::Watched(watched) => Some(watched.get_ref().as_fd()),
            Self::Ended(_) => None,
        }
    }
}

impl Leader {
    pub(super) fn new(launched: Launched, place: Place, born: u64, shared: Arc<Shared>) -> Self {
        shared.leader_started();
        Self {
            pid: launched.pid,
            state: Mutex::new(State::Fresh(launched.pidfd)),
            killed: AtomicBool::new(false),
            place,
            born,
            shared,
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn watch(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Ended(wait::LOST)) {
            State::Fresh(pidfd) => match watch(pidfd, Interest::READABLE) {
                Ok(watched) => *state = State::Watched(watched),
                Err(failed) => {
                    *state = State::Fresh(failed.inner);
                    return Err(failed.error);
                }
            },
            other => *state = other,
        }
        Ok(())
    }

    pub(super) fn poll_exit(&self, cx: &mut Context<'_>) -> Poll<Ended> {
        let mut state = lock(&self.state);
        let watched = match &*state {
            State::Fresh(_) => return Poll::Pending,
            State::Watched(watched) => watched,
            State::Ended(ended) => return Poll::Ready(*ended),
        };
        let ended = loop {
            let Ok(mut guard) = ready!(watched.poll_read_ready(cx)) else {
                // The runtime is shutting down and takes this task with it.
                return Poll::Pending;
            };
            let child = Child::Pidfd(watched.get_ref().as_fd());
            match wait::ended(child, self.place.zombie()) {
                Some(ended) => break self.judge(ended),
                None => guard.clear_ready(),
            }
        };
        *state = State::Ended(ended);
        Poll::Ready(ended)
    }

    /// Who was killed because the keeper died did not end by himself. Who had ended before did.
    fn judge(&self, ended: Ended) -> Ended {
        let kept = match self.place {
            Place::Cgroup(_) | Place::Common => self.shared.generation() == self.born,
            Place::Group => true,
        };
        if kept || ended.how != How::Signal(libc::SIGKILL) {
            return ended;
        }
        Ended {
            how: How::Lost,
            rusage: ended.rusage,
        }
    }

    pub(super) fn emptying(&self) -> Emptying {
        let slot = match &self.place {
            Place::Cgroup(slot) => slot,
            Place::Common | Place::Group => return Box::pin(group_emptied(self.pid)),
        };
        match slot.events() {
            Ok(events) => Box::pin(async {
                match cgroup_emptied(events).await {
                    Ok(()) => Emptiness::Sure,
                    Err(_) => not_yet().await,
                }
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Box::pin(std::future::ready(Emptiness::Sure))
            }
            Err(_) => Box::pin(not_yet()),
        }
    }

    /// Whoever died in it and had no parent left is ours to reap.
    pub(super) fn emptied(&self) {
        self.shared.look_soon();
    }

    pub(super) fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        match &self.place {
            Place::Cgroup(slot) => {
                if let Err(errno) = slot.kill() {
                    let pid = self.pid;
                    tracing::error!(pid, %errno, "cgroup.kill failed, ending the group instead");
                    self.signal(Signal::Kill, Target::Group);
                }
            }
            Place::Common | Place::Group => {
                group::signal(self.pid, Signal::Kill);
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal, target: Target) -> bool {
        match (target, &self.place) {
            (Target::Leader, _) => {
                let state = lock(&self.state);
                let pidfd = state.pidfd();
                pidfd.is_some_and(|pidfd| send(pidfd, signal))
            }
            (Target::All, Place::Cgroup(slot)) => signal_members(slot, signal),
            // The lock keeps the leader from being reaped in between.
            (Target::Group, Place::Cgroup(_)) => {
                let state = lock(&self.state);
                state.pidfd().is_some() && group::signal(self.pid, signal)
            }
            (Target::Group | Target::All, Place::Common | Place::Group) => {
                let alive = lock(&self.state).pidfd().is_some();
                // The zombie alone would count as somebody.
                (alive || !group::members(self.pid).is_empty()) && group::signal(self.pid, signal)
            }
        }
    }

    pub(super) fn members(&self) -> Vec<i32> {
        match &self.place {
            Place::Cgroup(slot) => slot.members(),
            Place::Common | Place::Group => group::members(self.pid),
        }
    }
}

fn send(pidfd: BorrowedFd<'_>, signal: Signal) -> bool {
    rustix::process::Signal::from_named_raw(signal.number())
        .is_some_and(|signal| rustix::process::pidfd_send_signal(pidfd, signal).is_ok())
}

/// Sends a signal to every member, and to the members that were forked meanwhile.
fn signal_members(slot: &Slot, signal: Signal) -> bool {
    let members = slot.members();
    if signal == Signal::Kill {
        return slot.kill().is_ok() && !members.is_empty();
    }
    let mut sent = signal_listed(slot, &members, signal);
    let newcomers: Vec<i32> = slot
        .members()
        .into_iter()
        .filter(|pid| !members.contains(pid))
        .collect();
    sent |= signal_listed(slot, &newcomers, signal);
    sent
}

/// Sends a signal to those of `pids` that are members. A listed pid alone proves nothing: its process
/// may have ended and the kernel may have given the number to an unrelated process. A pidfd is
/// therefore opened first, and the signal goes through it only if the number is still listed then.
fn signal_listed(slot: &Slot, pids: &[i32], signal: Signal) -> bool {
    let mut sent = false;
    // In portions, so that a fork loop does not use up all descriptors of the service.
    for portion in pids.chunks(PIDFDS_MAX) {
        let opened = portion.iter().filter_map(|pid| {
            let found = Pid::from_raw(*pid)?;
            let pidfd = rustix::process::pidfd_open(found, PidfdFlags::empty()).ok()?;
            Some((*pid, pidfd))
        });
        let opened: Vec<(i32, OwnedFd)> = opened.collect();
        let still: HashSet<i32> = slot.members().into_iter().collect();
        for (_, pidfd) in opened.iter().filter(|(pid, _)| still.contains(pid)) {
            sent |= send(pidfd.as_fd(), signal);
        }
    }
    sent
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.shared.leader_ended();
        let state = std::mem::replace(&mut *lock(&self.state), State::Ended(wait::LOST));
        let leader = match state {
            State::Ended(_) => {
                if self.is_cleared() {
                    if self.killed.load(Ordering::Relaxed) {
                        self.shared.look_soon();
                    }
                    return;
                }
                None
            }
            State::Fresh(pidfd) => self.watch_leaving(pidfd),
            State::Watched(watched) => Some(watched),
        };
        match &self.place {
            Place::Cgroup(_) => self.kill(),
            // Not reaped yet, so the group's number is ours.
            Place::Common | Place::Group => {
                group::signal(self.pid, Signal::Kill);
            }
        }
        let slot = match std::mem::replace(&mut self.place, Place::Group) {
            Place::Cgroup(slot) => Some(slot),
            Place::Common | Place::Group => None,
        };
        let shared = Arc::clone(&self.shared);
        Leaving {
            leader,
            slot,
            shared,
        }
        .begin();
    }
}

impl Leader {
    /// A watch on a leader that never had one. Without it, the spawning thread reaps it.
    fn watch_leaving(&self, pidfd: OwnedFd) -> Option<Watched<OwnedFd>> {
        let _runtime = self.shared.handle().enter();
        match watch(pidfd, Interest::READABLE) {
            Ok(watched) => Some(watched),
            Err(failed) => {
                self.shared.reap_later(failed.inner);
                None
            }
        }
    }

    /// Whether nothing is left of it, with its leader dead: the cgroup given back, or the group ended
    /// and its leader reaped at last.
    fn is_cleared(&mut self) -> bool {
        match &mut self.place {
            Place::Cgroup(slot) => slot.give_back(),
            Place::Common | Place::Group => {
                group::signal(self.pid, Signal::Kill);
                wait::ended(Child::Pid(self.pid), Zombie::Reap);
                true
            }
        }
    }
}

/// What is left of a process nobody holds any more: killed, and waiting to be reaped and given back.
#[derive(Debug)]
struct Leaving {
    leader: Option<Watched<OwnedFd>>,
    slot: Option<Slot>,
    shared: Arc<Shared>,
}

impl Leaving {
    /// Goes on in the background. Where the runtime is gone, the rest is left to the next look of the
    /// spawning thread.
    fn begin(self) {
        let handle = self.shared.handle().clone();
        drop(handle.spawn(self.run()));
    }

    async fn run(mut self) {
        if let Some(leader) = &self.leader {
            if leader.readable().await.is_err() {
                return;
            }
            wait::ended(Child::Pidfd(leader.get_ref().as_fd()), Zombie::Reap);
            self.leader = None;
        }
        // What cannot be given back yet is put aside by its drop.
        if let Some(slot) = &mut self.slot
            && let Ok(events) = slot.events()
            && cgroup_emptied(events).await.is_ok()
        {
            slot.give_back();
        }
        self.shared.look_soon();
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            self.shared.reap_later(unwatch(leader));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contain::cgroup::{self, Bounds, Tree};

    #[test]
    fn a_listed_number_that_is_no_member_any_more_gets_no_signal() {
        let tree = cgroup::own().and_then(|base| Tree::make(&base, Bounds::default()));
        let tree = match tree {
            Ok(tree) => Arc::new(tree),
            Err(reason) => {
                turnlane_testkit::skipped(format_args!("cgroup: {reason}"));
                return;
            }
        };
        let (slot, _dir) = tree.take(Bounds::default()).unwrap();
        // As if this process had got the number of a member that ended after the list was read. The
        // signal would do it no harm.
        let own = std::process::id().cast_signed();
        assert!(!signal_listed(&slot, &[own, i32::MAX, 0], Signal::Continue));
        drop(slot);
        assert!(tree.remove());
    }
}
