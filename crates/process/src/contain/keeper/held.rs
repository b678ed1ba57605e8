//! One process in a holder, as the service sees it.
//!
//! The invariant: nothing here blocks, and no signal reaches a stranger. A holder's number may be used
//! again after it ended, so its directory in `/proc` is opened for each use and believed only while
//! the socket to it is still open on its side.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::Shutdown;

use super::protocol::{self, HOLDER_PACKET_MAX, Outcome};
use super::socket::{self, Wait};
use super::sweep;
use super::sys::{Reach, pidfd_signal};
use super::tree::{Order, Root, Visit};
use crate::contain::Ended;
use crate::launch::LaunchError;
use crate::spec::{Signal, Target};

/// A process that was asked for and has not reached its exec. Dropping it ends whatever comes of it.
#[derive(Debug)]
pub(crate) struct Starting {
    socket: OwnedFd,
}

impl Starting {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// The result, once; `None` while there is none. Never blocks: wait for the descriptor to become
    /// readable. An error means that keeper or holder died, and nothing was started or it is being
    /// ended.
    pub(crate) fn poll(&mut self) -> io::Result<Option<Result<Held, LaunchError>>> {
        match self.receive(Wait::No) {
            // A descriptor of its own, as this one may be registered with somebody.
            Ok(outcome) => {
                let socket = self.socket.try_clone()?;
                Ok(Some(Self::new(socket).become_held(outcome)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The result, waited for.
    pub(crate) fn wait(self) -> io::Result<Result<Held, LaunchError>> {
        let outcome = self.receive(Wait::Yes)?;
        Ok(self.become_held(outcome))
    }

    fn receive(&self, wait: Wait) -> io::Result<Outcome> {
        let mut buffer = [0; HOLDER_PACKET_MAX];
        let len = socket::recv(self.as_fd(), &mut buffer, &mut Vec::new(), wait)?;
        Outcome::decode(&buffer[..len])
            .ok_or_else(|| io::Error::other("the holder died before it started the process"))
    }

    fn become_held(self, outcome: Outcome) -> Result<Held, LaunchError> {
        match outcome {
            Outcome::Started { leader, holder } => Ok(Held {
                socket: self.socket,
                leader,
                holder,
            }),
            Outcome::Failed(error) => Err(error),
        }
    }
}

impl AsFd for Starting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What a holder tells. The order: `Exited`, then `Empty` unless `Exited` said it already, then
/// `Gone`. `Survivors` may come between, also before `Exited`.
#[derive(Clone, Debug)]
pub(crate) enum HolderMessage {
    /// The leader was reaped; `empty` if nobody else is left either.
    Exited { ended: Ended, empty: bool },
    /// Nobody is left.
    Empty,
    /// These could not be killed within five seconds; the holder goes on trying.
    Survivors(Vec<i32>),
    /// The holder is gone. Without `Exited` before it, the status is lost; without `Empty`, the keeper
    /// ends those who are left.
    Gone,
}

/// A leader with its holder. Dropping it ends everything in it.
#[derive(Debug)]
pub(crate) struct Held {
    socket: OwnedFd,
    leader: i32,
    holder: i32,
}

impl Held {
    /// The leader's.
    pub(crate) fn pid(&self) -> i32 {
        self.leader
    }

    /// The holder's.
    #[cfg(test)]
    pub(super) fn holder_pid(&self) -> i32 {
        self.holder
    }

    /// What the holder said next, `None` if nothing yet. Never blocks; readable descriptor: `as_fd`.
    /// After `Gone` it is `Gone` again.
    pub(crate) fn recv(&self) -> Option<HolderMessage> {
        let mut buffer = [0; HOLDER_PACKET_MAX];
        match socket::recv(self.as_fd(), &mut buffer, &mut Vec::new(), Wait::No) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) | Ok(0) => Some(HolderMessage::Gone),
            Ok(len) => Some(protocol::decode_holder(&buffer[..len]).unwrap_or(HolderMessage::Gone)),
        }
    }

    /// Makes the holder end everybody, at once. Never blocks and needs no descriptor; again: nothing.
    pub(crate) fn kill(&self) {
        // The holder sees the end of our half and still tells us the rest over its own.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        if let Some(root) = self.root() {
            // Somebody inside may have stopped it.
            let _ = pidfd_signal(root.dir(), libc::SIGCONT, Reach::Process);
        }
    }

    /// Whether anybody got it.
    pub(crate) fn signal(&self, signal: Signal, target: Target) -> bool {
        let Some(root) = self.root() else {
            return false;
        };
        let number = signal.number();
        match target {
            Target::Leader => root
                .child(self.leader)
                .is_some_and(|leader| pidfd_signal(leader.as_fd(), number, Reach::Process).is_ok()),
            Target::Group => root
                .child(self.leader)
                .is_some_and(|leader| signal_group(leader.as_fd(), self.leader, number)),
            Target::All => {
                let mut delivered = false;
                root.walk(
                    Order::ChildrenFirst,
                    |_| Visit::Enter,
                    |member| delivered |= !member.zombie && member.signal(number),
                );
                delivered
            }
        }
    }

    /// Pids of everybody in it who has not exited.
    pub(crate) fn members(&self) -> Vec<i32> {
        self.root().as_ref().map(sweep::living).unwrap_or_default()
    }

    /// The holder's place in `/proc`, if it is still there.
    fn root(&self) -> Option<Root> {
        let root = Root::of(self.holder)?;
        // Its number is its own as long as it lives, and it lives while its end of the socket is open.
        let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
        rustix::event::poll(&mut fds, Some(&Timespec::default())).ok()?;
        let gone = fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        (!gone).then_some(root)
    }
}

/// To the group that the process leads.
fn signal_group(leader: BorrowedFd<'_>, pid: i32, number: i32) -> bool {
    match pidfd_signal(leader, number, Reach::Group) {
        Ok(()) => true,
        // Linux before 6.9. The leader was there a moment ago, so its number still is its group's
        // unless it ended and was reaped since; the kernel then finds the group's other members or
        // nobody.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let group = rustix::process::Pid::from_raw(pid);
            let signal = rustix::process::Signal::from_named_raw(number);
            group.zip(signal).is_some_and(|(group, signal)| {
                rustix::process::kill_process_group(group, signal).is_ok()
            })
        }
        Err(_) => false,
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
