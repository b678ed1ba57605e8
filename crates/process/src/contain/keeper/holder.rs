//! The holder: one tiny process per process, parent of its leader and of all its orphans.
//!
//! The invariant: whatever the leader starts stays below its holder, since the holder adopts every
//! orphan, and the holder ends only when it has no children left. It is told to end them by the end of
//! the service's half of their socket, or by SIGTERM, which is also what the keeper's death sends.
//!
//! A holder is forked before it is needed (a *spare*), takes one request straight from the service's
//! socket, tells the keeper that it did, and starts the leader. It allocates little and gives back
//! what a large request took: there are as many holders as processes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use super::pace::Pace;
use super::protocol::{self, INLINE_MAX, Outcome, PACKET_MAX, RequestHead};
use super::socket::{self, Wait};
use super::sweep;
use super::sys::{self, Disposition, Waited};
use super::tree::{Root, Visit};
use crate::launch::{self, ChildEnds, LaunchError, Plan, Slots, Stage};
use crate::status::Rusage;

/// The name of a holder in `/proc`. Not the program's, so that nobody who ends the program by name
/// ends these with it.
pub(super) const NAME: &std::ffi::CStr = c"tl-holder";

/// A plan no program could be started with anyway.
const PLAN_MAX: u64 = 64 * 1024 * 1024;

/// A request and what it takes to carry it out.
pub(super) struct Request {
    keeper: Pid,
    slots: Slots,
    socket: OwnedFd,
    ends: ChildEnds,
    ruleset: Option<OwnedFd>,
    plan: Option<Plan>,
    plan_len: usize,
}

/// Waits for a request as a spare and tells `taken` our pid. `None`: there will be none, and the
/// process should end.
///
/// Until it returns, SIGTERM ends this process, which then has nothing to lose but the request: its
/// socket closes, and the service knows.
pub(super) fn wait_for_request(
    keeper: Pid,
    requests: &OwnedFd,
    taken: &OwnedFd,
) -> Option<Request> {
    sys::dispose(libc::SIGTERM, Disposition::Default);
    sys::block_only(&[]).ok()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).ok()?;
    if rustix::process::getppid() != Some(keeper) {
        return None; // It died before the line above.
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok()?;
    let _ = rustix::thread::set_name(NAME);
    let slots = Slots::reserve().ok()?;
    let mut buffer = [0; PACKET_MAX];
    let mut fds = Vec::new();
    let len = socket::recv(requests.as_fd(), &mut buffer, &mut fds, Wait::Yes).ok()?;
    // From here on SIGTERM waits until there is somebody to end.
    sys::block_only(&[libc::SIGTERM, libc::SIGCHLD]).ok()?;
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    rustix::io::write(taken, &pid.to_ne_bytes()).ok()?;
    Request::decode(keeper, slots, buffer.get(..len)?, fds)
}

/// Starts the leader and holds it until nobody is left. The descriptors of the keeper should be
/// closed before.
pub(super) fn hold(request: Request) -> io::Result<()> {
    let signals = sys::signal_fd(&[libc::SIGTERM, libc::SIGCHLD])?;
    let (keeper, plan_len) = (request.keeper, request.plan_len);
    let (socket, started) = request.start();
    if plan_len > INLINE_MAX {
        sys::trim_memory();
    }
    let holder = rustix::process::getpid().as_raw_nonzero().get();
    let outcome = match started {
        Ok(leader) => Outcome::Started { leader, holder },
        Err(error) => Outcome::Failed(error),
    };
    let told = socket::send_now(socket.as_fd(), &outcome.encode());
    let Ok(leader) = started else { return Ok(()) };
    let mut holding = Holding {
        keeper,
        lost: false,
        socket: told.is_ok().then_some(socket),
        asked: false,
        signals,
        leader,
        exited: None,
        ending: told.is_err().then(Pace::new),
        found: 0,
    };
    holding.run();
    Ok(())
}

/// Answers a request that there is no holder for.
pub(super) fn refuse(requests: BorrowedFd<'_>, errno: i32) {
    let mut buffer = [0; PACKET_MAX];
    let mut fds = Vec::new();
    let received = socket::recv(requests, &mut buffer, &mut fds, Wait::No);
    let Some(socket) = received.ok().and_then(|_| fds.into_iter().next()) else {
        return;
    };
    let error = LaunchError {
        stage: Stage::Clone,
        errno,
        index: u32::MAX,
    };
    // Its closing says enough if this fails.
    let _ = socket::send_now(socket.as_fd(), &Outcome::Failed(error).encode());
}

impl Request {
    fn decode(keeper: Pid, slots: Slots, bytes: &[u8], fds: Vec<OwnedFd>) -> Option<Self> {
        let (head, inline) = RequestHead::decode(bytes)?;
        let mut fds = fds.into_iter();
        let socket = fds.next()?;
        let ends = ChildEnds {
            stdin: fds.next()?,
            stdout: fds.next()?,
            stderr: fds.next()?,
        };
        let ruleset = if head.ruleset {
            Some(fds.next()?)
        } else {
            None
        };
        let mut large = Vec::new();
        let plan = if head.file {
            let mut file = File::from(fds.next()?).take(PLAN_MAX);
            file.read_to_end(&mut large).ok()?;
            large.as_slice()
        } else {
            inline
        };
        Some(Self {
            keeper,
            slots,
            socket,
            ends,
            ruleset,
            plan: Plan::decode(plan),
            plan_len: plan.len(),
        })
    }

    /// Starts the leader and lets go of everything but the socket.
    fn start(mut self) -> (OwnedFd, Result<i32, LaunchError>) {
        let Some(plan) = &self.plan else {
            let error = LaunchError {
                stage: Stage::Clone,
                errno: libc::EBADMSG,
                index: u32::MAX,
            };
            return (self.socket, Err(error));
        };
        let ruleset = self.ruleset.as_ref().map(AsFd::as_fd);
        let launched = launch::launch(&mut self.slots, plan, &self.ends, ruleset, None);
        (self.socket, launched.map(|launched| launched.pid))
    }
}

/// A leader and its descendants, while there are any.
struct Holding {
    keeper: Pid,
    /// The keeper died: an end from then on is our doing and not the leader's, so it is not told, and
    /// the end of the socket says that it is lost.
    lost: bool,
    /// To the service; gone once it is of no use.
    socket: Option<OwnedFd>,
    /// The service's half of the socket has ended, and need not be watched any more.
    asked: bool,
    signals: OwnedFd,
    leader: i32,
    /// The leader's end, until it was told.
    exited: Option<(i32, Rusage)>,
    /// Set while everybody is being ended.
    ending: Option<Pace>,
    /// How many of the last round were not yet reaped, as far as we know.
    found: usize,
}

/// What woke a holder.
#[derive(Default)]
struct Woken {
    signals: bool,
    socket: bool,
    time: bool,
}

impl Holding {
    /// Returns when nobody is left.
    fn run(&mut self) {
        loop {
            // Reaping comes first: a leader that ended before the first wait has sent its SIGCHLD.
            let before = self.found;
            if self.reap() == Left::Nobody {
                self.tell_exit(Left::Nobody);
                return;
            }
            self.tell_exit(Left::Somebody);
            if self.found < before
                && let Some(pace) = &mut self.ending
            {
                pace.progress();
            }
            if self.ending.is_some() && self.found == 0 {
                self.round();
            }
            let woken = self.wait();
            if woken.signals && sys::take_signals(self.signals.as_fd(), libc::SIGTERM) {
                self.lost |= rustix::process::getppid() != Some(self.keeper);
                self.end();
            }
            if woken.socket {
                // The service sends nothing: it wants an end, let go or is gone.
                self.asked = true;
                self.end();
            }
            if woken.time {
                self.in_vain();
            }
        }
    }

    fn end(&mut self) {
        if self.ending.is_none() {
            self.ending = Some(Pace::new());
            self.found = 0;
        }
    }

    /// Kills everybody there is.
    fn round(&mut self) {
        // Opened when it is needed: there are many holders, and most never end anybody.
        let root = Root::this();
        self.found = root.map_or(0, |root| sweep::stop_and_kill(&root, |_| Visit::Enter));
    }

    /// A wait while ending brought no death.
    fn in_vain(&mut self) {
        if self.ending.as_mut().is_some_and(Pace::passed) {
            let pids = Root::this().as_ref().map(sweep::living);
            let pids = pids.unwrap_or_default();
            self.tell(&protocol::encode_survivors(&pids));
        }
        self.found = 0; // The next round looks again.
    }

    fn wait(&self) -> Woken {
        let timeout = self.ending.as_ref().map(Pace::timeout);
        let signals = PollFd::new(&self.signals, PollFlags::IN);
        let socket = self.socket.as_ref().filter(|_| !self.asked);
        // Two of the same are polled once the socket says nothing new.
        let other = socket.map_or_else(
            || PollFd::new(&self.signals, PollFlags::empty()),
            |socket| PollFd::new(socket, PollFlags::IN),
        );
        let mut fds = [signals, other];
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(0) => Woken {
                time: true,
                ..Woken::default()
            },
            Ok(_) => Woken {
                signals: !fds[0].revents().is_empty(),
                socket: socket.is_some() && !fds[1].revents().is_empty(),
                time: false,
            },
            Err(_) => Woken::default(),
        }
    }

    /// Takes all who have exited.
    fn reap(&mut self) -> Left {
        loop {
            match sys::wait_any() {
                Waited::Reaped(pid, status, rusage) => {
                    self.found = self.found.saturating_sub(1);
                    if pid == self.leader {
                        self.exited = Some((status, rusage));
                        // The number is free from now on.
                        self.leader = 0;
                    }
                }
                Waited::None => return Left::Somebody,
                Waited::NoChildren => return Left::Nobody,
            }
        }
    }

    /// Tells the leader's end, once, and that nobody is left.
    fn tell_exit(&mut self, left: Left) {
        let empty = left == Left::Nobody;
        if let Some((status, rusage)) = self.exited.take() {
            if self.lost {
                return;
            }
            self.tell(&protocol::encode_exited(status, rusage, empty));
        } else if empty && !self.lost {
            self.tell(&protocol::EMPTY);
        }
    }

    /// A service that does not listen any more is about to end this, or gone.
    fn tell(&mut self, bytes: &[u8]) {
        if let Some(socket) = &self.socket
            && socket::send_now(socket.as_fd(), bytes).is_err()
        {
            self.socket = None;
            self.end();
        }
    }
}

/// Who is left below a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Somebody,
    Nobody,
}
