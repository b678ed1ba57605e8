//! One process in a holder, as the service sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::contain::Ended;
use crate::launch::LaunchError;
use crate::spec::{Signal, Target};

/// A process that was asked for and has not reached its exec. Dropping it ends whatever comes of it.
#[derive(Debug)]
pub(crate) struct Starting {
    socket: OwnedFd,
}

impl Starting {
    /// The result, once; `None` while there is none. Never blocks: wait for the descriptor to become
    /// readable. An error means that keeper or holder died.
    pub(crate) fn poll(&mut self) -> io::Result<Option<Result<Held, LaunchError>>> {
        todo!()
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
    /// The holder is gone. Without `Exited` before it, the status is lost.
    Gone,
}

/// A leader with its holder. Dropping it ends everything in it.
#[derive(Debug)]
pub(crate) struct Held {
    socket: OwnedFd,
}

impl Held {
    /// The leader's.
    pub(crate) fn pid(&self) -> i32 {
        todo!()
    }

    /// What the holder said next, `None` if nothing yet. Never blocks; readable descriptor: `as_fd`.
    pub(crate) fn recv(&self) -> Option<HolderMessage> {
        todo!()
    }

    /// Makes the holder end everybody, at once. Never blocks.
    pub(crate) fn kill(&self) {
        todo!()
    }

    /// Whether anybody got it.
    pub(crate) fn signal(&self, signal: Signal, target: Target) -> bool {
        let _ = (signal, target);
        todo!()
    }

    /// Pids of everybody in it who has not exited.
    pub(crate) fn members(&self) -> Vec<i32> {
        todo!()
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
