//! The service's end of the keeper.
//!
//! The invariant: a link exists only to a program that answered as a keeper of this version, and the
//! keeper ends everything as soon as the link is gone, for whatever reason. What a dead keeper means
//! for running processes is decided by whoever holds the link.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use rustix::net::Shutdown;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Signal, WaitId, WaitIdOptions};

use super::held::{Held, Starting};
use super::protocol::{self, INLINE_MAX, PACKET_MAX, RequestHead, ToKeeper};
use super::socket::{self, FDS_MAX, Wait};
use super::{MARKER, was_hooked};
use crate::launch::{self, ChildEnds, LaunchError, Launched, Plan, Slots};
use crate::spec::Spec;

/// How long a keeper may take to say hello: an exec of a large program from a cold disk.
const HELLO_WITHIN: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// How long a keeper that is told to end may take before it is left alone with what it has to end.
const END_WITHIN: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// How long a message of the handshake may wait for room in the socket.
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// How long [`KeeperLink::spawn_held`] waits for room. Only a keeper that was stopped lets it pass.
const ROOM_WITHIN: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// Variables the keeper gets: what its own program may need to be found and loaded.
const ENVIRONMENT: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

/// The keeper's own name in its command line.
const NAME: &str = "tl-keeper";

/// What the keeper is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job<'a> {
    /// `reaper`: starts processes in holders and ends them when the service is gone.
    Hold,
    /// `cgroup`: ends this directory and everything below it when the service is gone.
    EndCgroup(&'a Path),
}

/// A running keeper. Dropping it makes the keeper end everything and exit, and waits for that a
/// moment. Dropping the link to a dead one only dismisses its second keeper: to be done when the next
/// keeper is in office.
#[derive(Debug)]
pub(crate) struct KeeperLink {
    link: OwnedFd,
    /// Where requests go; without it the keeper starts nobody.
    requests: Option<OwnedFd>,
    keeper: Launched,
}

impl KeeperLink {
    /// Starts the keeper and waits until it is ready (bounded). `program` with its arguments, or this
    /// program again if it called the hook. A program that is no keeper is ended and refused. `hold`
    /// is copied: the keeper and its holders have them open until everything has ended.
    pub(crate) fn start(
        slots: &mut Slots,
        program: Option<&[OsString]>,
        hold: &[OwnedFd],
        job: Job<'_>,
    ) -> io::Result<Self> {
        let plan = plan(program)?;
        let (link, theirs) = socket::pair()?;
        let null = null()?;
        let ends = ChildEnds {
            stdin: theirs,
            stdout: null.try_clone()?,
            stderr: null,
        };
        let launched = launch::launch(slots, &plan, &ends, None, None);
        drop(ends);
        let keeper = launched.map_err(|error| io::Error::other(error.explain(&plan)))?;
        let mut started = Self {
            link,
            requests: None,
            keeper,
        };
        match started.shake_hands(hold, job) {
            Ok(()) => Ok(started),
            Err(error) => {
                // The program has started no process for us. A keeper that was merely slow has a
                // second keeper, which the drop of the link to a dead keeper dismisses.
                let _ = rustix::process::pidfd_send_signal(&started.keeper.pidfd, Signal::KILL);
                is_ready(started.pidfd(), END_WITHIN);
                Err(error)
            }
        }
    }

    fn shake_hands(&mut self, hold: &[OwnedFd], job: Job<'_>) -> io::Result<()> {
        // A program that reads nothing must not make us wait.
        set_socket_timeout(&self.link, Timeout::Send, Some(SEND_WITHIN))?;
        for hold in hold.chunks(FDS_MAX) {
            let fds: Vec<_> = hold.iter().map(AsFd::as_fd).collect();
            self.tell(&ToKeeper::Hold, &fds)?;
        }
        match job {
            Job::EndCgroup(path) => {
                self.tell(&ToKeeper::BeginCgroup(path.as_os_str().as_bytes()), &[])?;
            }
            Job::Hold => {
                let (requests, theirs) = socket::pair()?;
                self.tell(&ToKeeper::BeginHolding, &[theirs.as_fd()])?;
                self.requests = Some(requests);
            }
        }
        if !is_ready(self.link.as_fd(), HELLO_WITHIN) {
            return Err(no_keeper("it did not answer"));
        }
        let mut buffer = [0; PACKET_MAX];
        let len = socket::recv(self.link.as_fd(), &mut buffer, &mut Vec::new(), Wait::No);
        let len = len.map_err(|_reset| no_keeper("it ended without an answer"))?;
        match protocol::decode_hello(&buffer[..len]) {
            Some(Ok(())) => Ok(()),
            Some(Err(refusal)) => Err(io::Error::new(io::ErrorKind::Unsupported, refusal)),
            None if len == 0 => Err(no_keeper("it ended without an answer")),
            None => Err(no_keeper("it answered as something else")),
        }
    }

    fn tell(&self, message: &ToKeeper<'_>, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = message.encode();
        let sent = socket::send(self.link.as_fd(), &[IoSlice::new(&bytes)], fds, Wait::Yes);
        sent.map_err(|_broken| no_keeper("it ended without an answer"))
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> i32 {
        self.keeper.pid
    }

    /// Readable once the keeper is dead; for `AsyncFd` or `poll`.
    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.keeper.pidfd.as_fd()
    }

    /// Whether the keeper has died.
    pub(crate) fn is_dead(&self) -> bool {
        is_ready(self.pidfd(), Timespec::default())
    }

    /// Asks for a process without waiting for anything. Any thread, any number in flight. An error is
    /// the keeper's or the system's, and nothing was started; `WouldBlock`: many are waiting, try again
    /// when [`KeeperLink::room`] is writable.
    pub(crate) fn begin(
        &self,
        plan: &Plan,
        ends: &ChildEnds,
        ruleset: Option<BorrowedFd<'_>>,
    ) -> io::Result<Starting> {
        let Some(requests) = &self.requests else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let bytes = plan.encode();
        let file = (bytes.len() > INLINE_MAX)
            .then(|| file_of(&bytes))
            .transpose()?;
        let head = RequestHead {
            ruleset: ruleset.is_some(),
            file: file.is_some(),
        };
        let (ours, theirs) = socket::pair()?;
        let streams = [&theirs, &ends.stdin, &ends.stdout, &ends.stderr];
        let mut fds: Vec<_> = streams.into_iter().map(AsFd::as_fd).collect();
        fds.extend(ruleset);
        fds.extend(file.as_ref().map(AsFd::as_fd));
        let inline = if file.is_some() {
            &[]
        } else {
            bytes.as_slice()
        };
        let head = head.encode();
        socket::send(
            requests.as_fd(),
            &[IoSlice::new(&head), IoSlice::new(inline)],
            &fds,
            Wait::No,
        )?;
        Ok(Starting::new(ours))
    }

    /// A descriptor that is writable when there is room for a request; for one wait, by its owner.
    pub(crate) fn room(&self) -> io::Result<OwnedFd> {
        match &self.requests {
            Some(requests) => requests.try_clone(),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// [`KeeperLink::begin`] and a blocking wait for its result.
    pub(crate) fn spawn_held(
        &self,
        plan: &Plan,
        ends: &ChildEnds,
        ruleset: Option<BorrowedFd<'_>>,
    ) -> io::Result<Result<Held, LaunchError>> {
        let would_block = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        match self.begin(plan, ends, ruleset) {
            Err(error) if would_block(&error) => {
                poll_for(self.room()?.as_fd(), PollFlags::OUT, ROOM_WITHIN);
                self.begin(plan, ends, ruleset)?.wait()
            }
            begun => begun?.wait(),
        }
    }
}

impl Drop for KeeperLink {
    fn drop(&mut self) {
        if self.is_dead() {
            // The second keeper has waited for the service to die. The service lives.
            let _ = socket::send_now(self.link.as_fd(), &ToKeeper::Dismiss.encode());
        }
        // Not only closed: a child between its clone and its exec may have a copy.
        let _ = rustix::net::shutdown(&self.link, Shutdown::Both);
        self.requests = None;
        if is_ready(self.pidfd(), END_WITHIN) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = rustix::process::waitid(WaitId::PidFd(self.pidfd()), options);
        } else {
            tracing::error!(pid = self.pid(), "the keeper still has somebody to end");
        }
    }
}

/// How the keeper is started.
fn plan(program: Option<&[OsString]>) -> io::Result<Plan> {
    let variable = |name: &str| Some((OsString::from(name), std::env::var_os(name)?));
    let environment = ENVIRONMENT.into_iter().filter_map(variable).collect();
    let argv = match program {
        Some(program) => program.to_vec(),
        None if was_hooked() => {
            // Not the program's name: ending the program by its command line must not end the keeper.
            vec![NAME.into(), MARKER.into()]
        }
        None => {
            let why = "there is no program for the keeper, and this one has no hook for it";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
    };
    let mut spec = Spec::new(argv, std::env::current_dir().unwrap_or_else(|_| "/".into()));
    if program.is_none() {
        // Also when the file was replaced or removed since.
        spec.arg0 = spec.argv.first().cloned();
        spec.argv[0] = "/proc/self/exe".into();
    }
    launch::prepare(&spec, environment).map_err(io::Error::other)
}

fn no_keeper(why: &str) -> io::Error {
    io::Error::other(format!("the program for the keeper is none: {why}"))
}

fn null() -> io::Result<OwnedFd> {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    Ok(file.into())
}

/// A file of memory with these bytes, read from its start.
fn file_of(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek, Write};
    let mut file = std::fs::File::from(rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Whether the descriptor becomes readable or ends within the time.
pub(super) fn is_ready(fd: BorrowedFd<'_>, within: Timespec) -> bool {
    poll_for(fd, PollFlags::IN, within)
}

fn poll_for(fd: BorrowedFd<'_>, flags: PollFlags, within: Timespec) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&within)));
    ready.is_ok_and(|ready| ready > 0)
}
