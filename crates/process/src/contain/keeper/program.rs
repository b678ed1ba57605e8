//! The keeper's own program: begin, wait for the service's end, end everything, exit.
//!
//! The invariant: as long as somebody lives whom a holder of this keeper adopted, either that holder
//! lives or the keeper is ending him. The keeper does no work per process but a fork: spares take
//! their requests themselves. It ends on the end of its socket or of the service's process, whichever
//! is seen first, and exits only when it has no children left.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::holder;
use super::pace::Pace;
use super::sys::{self, Forked, Waited};
use super::tree::{Root, Visit};
use super::{begin, cgroup, protocol, second, socket, sweep};

/// Holders that wait for a request. The second covers the time in which the first one's successor is
/// forked.
const SPARES: usize = 2;

/// Spares that may end in a row without a request before the next one is forked only after a while:
/// there is something they all lack.
const SPARES_LOST_MAX: u32 = 8;

/// How often holders are told again to end.
const END_AGAIN: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// See [`Orphans::quiet`].
const QUIET_ROUNDS: u32 = 3;

/// How long to wait before a fork that failed is tried again.
const FORK_AGAIN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Is the keeper until there is nothing left to keep. The service is at standard input.
pub(super) fn run() -> io::Result<()> {
    // First of all: being killed with the thread that started us is what we must not be.
    rustix::process::set_parent_process_death_signal(None)?;
    let service = rustix::process::getppid();
    begin::prepare_process()?;
    let link = begin::take_link()?;
    let signals = sys::signal_fd(&[libc::SIGCHLD])?;
    let Some(begun) = begin::begin(&link)? else {
        return Ok(());
    };
    let cgroup = begun.cgroup.as_deref();
    let service =
        service.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut keeper = Keeper {
        pid: rustix::process::getpid(),
        signals,
        holders: BTreeSet::new(),
        spares: Vec::new(),
        spares_lost: 0,
        orphans: None,
        spawning: begun.requests.map(Spawning::new).transpose()?,
        second: match cgroup {
            Some(_) => Second::Wanted,
            None => Second::Unneeded,
        },
    };
    match keeper.keep(&link, service.as_ref())? {
        Role::Keeper => keeper.end(cgroup),
        Role::Second => {
            drop(keeper);
            if let Some(cgroup) = cgroup {
                second::stand_by(&link, service.as_ref(), cgroup);
            }
        }
        Role::Spare => {
            drop((link, service));
            keeper.be_spare()?;
        }
    }
    // Closed last: whoever waits for these knows now that everything has ended. Holders have them
    // too, so that this also holds when the keeper was killed.
    drop(begun.hold);
    Ok(())
}

/// Where requests come from and how spares say that they have one.
struct Spawning {
    requests: OwnedFd,
    taken: OwnedFd,
    tell_taken: OwnedFd,
}

impl Spawning {
    fn new(requests: OwnedFd) -> io::Result<Self> {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (taken, tell_taken) = rustix::pipe::pipe_with(flags)?;
        Ok(Self {
            requests,
            taken,
            tell_taken,
        })
    }
}

/// The role of a process after it was forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Keeper,
    Second,
    Spare,
}

/// The second keeper, from the keeper's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    /// Holders do its work.
    Unneeded,
    Wanted,
    Pid(i32),
}

struct Keeper {
    /// Its own, which a spare must know from before it was forked: afterwards the keeper may be dead.
    pid: Pid,
    signals: OwnedFd,
    /// All holders, spares included, and the second keeper.
    holders: BTreeSet<i32>,
    spares: Vec<i32>,
    /// In a row, without a request.
    spares_lost: u32,
    /// Set while there may be children that are no holders: a holder was killed.
    orphans: Option<Orphans>,
    spawning: Option<Spawning>,
    second: Second,
}

/// The end of children that are no holders.
struct Orphans {
    pace: Pace,
    /// Rounds in a row, each after a wait, that found nobody. One is no proof, since a list of
    /// children that changes while it is read may lack somebody.
    quiet: u32,
}

/// What woke the keeper.
#[derive(Default)]
struct Woken {
    service_gone: bool,
    request_waits: bool,
    time: bool,
}

impl Keeper {
    /// Says hello, keeps spares ready and sweeps behind killed holders until the service is gone.
    /// Returns in another role in the processes it forks.
    fn keep(&mut self, link: &OwnedFd, service: Option<&OwnedFd>) -> io::Result<Role> {
        match self.fork_others() {
            Role::Keeper => {}
            other => return Ok(other),
        }
        let hello = protocol::encode_hello(None);
        socket::send_now(link.as_fd(), &hello)?;
        loop {
            let woken = self.wait(link, service);
            if woken.service_gone {
                return Ok(Role::Keeper);
            }
            self.take_signals();
            self.note_taken();
            self.reap();
            self.sweep_orphans(woken.time);
            if woken.time || self.spares_lost < SPARES_LOST_MAX {
                match self.fork_others() {
                    Role::Keeper => {}
                    other => return Ok(other),
                }
            }
            if woken.request_waits
                && self.spares.is_empty()
                && let Some(spawning) = &self.spawning
            {
                // Nobody can be forked: the request must not wait for better times.
                holder::refuse(spawning.requests.as_fd(), libc::EAGAIN);
            }
        }
    }

    /// Closes what is the keeper's and becomes a holder once there is a request.
    fn be_spare(self) -> io::Result<()> {
        let Self {
            pid,
            spawning,
            signals,
            ..
        } = self;
        drop(signals);
        let Some(spawning) = spawning else {
            return Ok(());
        };
        drop(spawning.taken);
        let request = holder::wait_for_request(pid, &spawning.requests, &spawning.tell_taken);
        let Some(request) = request else {
            return Ok(());
        };
        drop((spawning.requests, spawning.tell_taken));
        holder::hold(request)
    }

    fn wait(&self, link: &OwnedFd, service: Option<&OwnedFd>) -> Woken {
        let short = (self.spawning.is_some() && self.spares.len() < SPARES)
            || self.second == Second::Wanted;
        let pace = self.orphans.as_ref().map(|orphans| orphans.pace.timeout());
        let timeout = pace.or(short.then_some(FORK_AGAIN));
        let mut fds = vec![
            PollFd::new(link, PollFlags::IN),
            PollFd::new(service.unwrap_or(link), PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
        ];
        if let Some(spawning) = &self.spawning {
            fds.push(PollFd::new(&spawning.taken, PollFlags::IN));
            if self.spares.is_empty() {
                fds.push(PollFd::new(&spawning.requests, PollFlags::IN));
            }
        }
        let Ok(ready) = rustix::event::poll(&mut fds, timeout.as_ref()) else {
            return Woken::default();
        };
        let is_ready = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Woken {
            service_gone: is_ready(0) || is_ready(1),
            request_waits: is_ready(4),
            time: ready == 0,
        }
    }

    fn take_signals(&self) {
        sys::take_signals(self.signals.as_fd(), libc::SIGCHLD);
    }

    /// Before [`Keeper::reap`], which may free the numbers that are told here.
    fn note_taken(&mut self) {
        let Some(spawning) = &self.spawning else {
            return;
        };
        let mut buffer = [0; 4 * 64];
        while let Ok(len @ 1..) = rustix::io::read(&spawning.taken, &mut buffer) {
            for pid in buffer[..len].as_chunks::<4>().0 {
                let pid = i32::from_ne_bytes(*pid);
                self.spares.retain(|spare| *spare != pid);
                self.spares_lost = 0;
            }
        }
    }

    /// Forks the second keeper and spares, as far as they are missing.
    fn fork_others(&mut self) -> Role {
        if self.second == Second::Wanted {
            match sys::fork() {
                Ok(Forked::Child) => return Role::Second,
                Ok(Forked::Parent(pid)) => {
                    self.holders.insert(pid);
                    self.second = Second::Pid(pid);
                }
                // Tried again after a while.
                Err(_) => {}
            }
        }
        self.fork_spares()
    }

    fn fork_spares(&mut self) -> Role {
        while self.spawning.is_some() && self.spares.len() < SPARES {
            match sys::fork() {
                Ok(Forked::Child) => return Role::Spare,
                Ok(Forked::Parent(pid)) => {
                    self.holders.insert(pid);
                    self.spares.push(pid);
                }
                // Tried again after a while; what waits is refused if there is no spare at all.
                Err(_) => break,
            }
        }
        Role::Keeper
    }

    /// Takes all who have exited; whether there is anybody left.
    fn reap(&mut self) -> Waited {
        loop {
            match sys::wait_any() {
                Waited::Reaped(pid, status, _) => {
                    if self.spares.contains(&pid) {
                        self.spares.retain(|spare| *spare != pid);
                        self.spares_lost += 1;
                    }
                    if self.second == Second::Pid(pid) {
                        self.second = Second::Wanted;
                    }
                    let was_holder = self.holders.remove(&pid);
                    // Also an orphan's death: his children have now fallen to us.
                    if !was_holder || status != 0 {
                        self.orphans = Some(Orphans {
                            pace: Pace::new(),
                            quiet: 0,
                        });
                    }
                }
                left @ (Waited::None | Waited::NoChildren) => return left,
            }
        }
    }

    /// Ends children that are no holders, if there may be any.
    fn sweep_orphans(&mut self, in_vain: bool) {
        let Some(orphans) = &mut self.orphans else {
            return;
        };
        if in_vain {
            orphans.pace.passed();
        }
        let holders = &self.holders;
        let enter = |pid| {
            if holders.contains(&pid) {
                Visit::Skip
            } else {
                Visit::Enter
            }
        };
        let Some(root) = Root::this() else { return };
        let found = sweep::stop_and_kill(&root, enter);
        if found > 0 {
            orphans.quiet = 0;
        } else if in_vain {
            orphans.quiet += 1;
            if orphans.quiet == QUIET_ROUNDS {
                self.orphans = None;
            }
        }
    }

    /// Ends everybody and returns when nobody is left.
    fn end(&mut self, cgroup: Option<&std::path::Path>) {
        self.spawning = None;
        self.tell_holders();
        if let Some(cgroup) = cgroup {
            cgroup::end(cgroup);
        }
        let mut in_vain = false;
        loop {
            self.take_signals();
            if matches!(self.reap(), Waited::NoChildren) {
                return;
            }
            self.sweep_orphans(in_vain);
            let orphans = self.orphans.as_ref();
            let timeout = orphans.map_or(END_AGAIN, |orphans| orphans.pace.timeout());
            let mut fds = [PollFd::new(&self.signals, PollFlags::IN)];
            in_vain = rustix::event::poll(&mut fds, Some(&timeout)) == Ok(0);
            if in_vain {
                self.tell_holders();
            }
        }
    }

    fn tell_holders(&self) {
        for holder in self.holders.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // Its number is its own until we reap it. SIGCONT: somebody may have stopped it.
            let _ = rustix::process::kill_process(holder, Signal::TERM);
            let _ = rustix::process::kill_process(holder, Signal::CONT);
        }
    }
}
