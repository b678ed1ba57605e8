//! The beginning of a keeper: its signals, its link, what the service wants of it.
//!
//! The invariant: after it nothing of the host is left in this process but the link and what was sent
//! over it. No terminal, administrator or broken pipe ends a keeper; only its work being done does.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::protocol::{self, PACKET_MAX, ToKeeper};
use super::socket::{self, Wait};
use super::sys::{self, Disposition};
use super::tree;

/// The name of a keeper in `/proc`; not the program's, for the same reason as a holder's.
const NAME: &std::ffi::CStr = c"tl-keeper";

/// Makes this process what a keeper is, but for its one link.
pub(super) fn prepare_process() -> io::Result<()> {
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ] {
        sys::dispose(signal, Disposition::Ignore);
    }
    sys::dispose(libc::SIGCHLD, Disposition::Default);
    sys::block_only(&[libc::SIGCHLD])?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let _ = rustix::thread::set_name(NAME);
    // Not to keep a file system busy.
    rustix::process::chdir("/")?;
    Ok(())
}

/// Moves the link away from standard input, so that no holder has it there.
pub(super) fn take_link() -> io::Result<OwnedFd> {
    let link = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(link)
}

/// What the service asked for.
pub(super) struct Begun {
    pub(super) hold: Vec<OwnedFd>,
    /// Where requests for holders come from.
    pub(super) requests: Option<OwnedFd>,
    /// What to end with the service.
    pub(super) cgroup: Option<PathBuf>,
}

/// Takes the service's wishes. `None` if it went away or was refused.
pub(super) fn begin(link: &OwnedFd) -> io::Result<Option<Begun>> {
    let mut begun = Begun {
        hold: Vec::new(),
        requests: None,
        cgroup: None,
    };
    let mut buffer = [0; PACKET_MAX];
    loop {
        let mut fds = Vec::new();
        let len = socket::recv(link.as_fd(), &mut buffer, &mut fds, Wait::Yes)?;
        if len == 0 {
            return Ok(None);
        }
        match ToKeeper::decode(&buffer[..len]) {
            Some(ToKeeper::Hold) => begun.hold.append(&mut fds),
            Some(ToKeeper::BeginHolding) if !tree::is_supported() => {
                let why = "the kernel does not list the children of a task in /proc";
                let hello = protocol::encode_hello(Some(why));
                socket::send_now(link.as_fd(), &hello)?;
                return Ok(None);
            }
            Some(ToKeeper::BeginHolding) => {
                begun.requests = fds.pop();
                return Ok(Some(begun));
            }
            Some(ToKeeper::BeginCgroup(path)) => {
                let path = std::ffi::OsString::from_vec(path.to_vec());
                begun.cgroup = Some(PathBuf::from(path));
                return Ok(Some(begun));
            }
            Some(ToKeeper::Dismiss) | None => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
