//! Pipes, terminals and `/dev/null`: the two sides of a child's streams.
//!
//! The invariant here: our ends never block and no end survives an exec of somebody else; the
//! child's ends block, as programs expect. A terminal has its size before its program starts. Reading
//! and writing is the business of the driver.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::{ChildEnds, OurEnds};
use crate::error::{SpawnError, SpawnErrorKind};
use crate::spec::{Delivery, Io, Stdin, TerminalSize};

/// Rows and columns a terminal may have.
const TERMINAL_SIZES: std::ops::RangeInclusive<u16> = 1..=10_000;

/// Makes both sides of a child's streams. A terminal stays a terminal when its output is discarded:
/// whoever reads it throws away what it reads.
pub(crate) fn open_ends(io: Io, delivery: Delivery) -> Result<(ChildEnds, OurEnds), SpawnError> {
    match io {
        Io::Pipe { stdin } => pipes(stdin, delivery).map_err(explain),
        Io::Pty(size)
            if ![size.rows, size.cols]
                .iter()
                .all(|n| TERMINAL_SIZES.contains(n)) =>
        {
            Err(SpawnError::new(SpawnErrorKind::Other).because("rows and cols must be 1..10000"))
        }
        Io::Pty(size) => terminal(size).map_err(explain),
    }
}

/// `/dev/null`, to be read or written.
pub(super) fn null() -> Result<OwnedFd, Errno> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn pipes(stdin: Stdin, delivery: Delivery) -> Result<(ChildEnds, OurEnds), Errno> {
    let (child_stdin, our_stdin) = match stdin {
        Stdin::Closed => (null()?, None),
        Stdin::Open => {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            never_block(writer.as_fd())?;
            (reader, Some(writer))
        }
    };
    let (child_stdout, our_stdout) = output(delivery)?;
    let (child_stderr, our_stderr) = output(delivery)?;
    let child = ChildEnds {
        stdin: child_stdin,
        stdout: child_stdout,
        stderr: child_stderr,
    };
    let ours = OurEnds {
        stdin: our_stdin,
        stdout: our_stdout,
        stderr: our_stderr,
        terminal: None,
        pts: None,
    };
    Ok((child, ours))
}

fn output(delivery: Delivery) -> Result<(OwnedFd, Option<OwnedFd>), Errno> {
    match delivery {
        Delivery::Discard => Ok((null()?, None)),
        Delivery::Stream | Delivery::Retain => {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            never_block(reader.as_fd())?;
            Ok((writer, Some(reader)))
        }
    }
}

fn terminal(size: TerminalSize) -> Result<(ChildEnds, OurEnds), Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    rustix::termios::tcsetwinsize(
        &master,
        Winsize {
            ws_row: size.rows,
            ws_col: size.cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    let path = rustix::pty::ptsname(&master, Vec::new())?;
    // By the master, not by the path: another mount of devpts may be in the way.
    let stdin = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    let stdout = rustix::io::fcntl_dupfd_cloexec(&stdin, 3)?;
    let stderr = rustix::io::fcntl_dupfd_cloexec(&stdin, 3)?;
    never_block(master.as_fd())?;
    let child = ChildEnds {
        stdin,
        stdout,
        stderr,
    };
    let ours = OurEnds {
        stdin: None,
        stdout: None,
        stderr: None,
        terminal: Some(master),
        pts: Some(PathBuf::from(OsStr::from_bytes(path.to_bytes()))),
    };
    Ok((child, ours))
}

/// Both sides of a pipe, and of a terminal, have flags of their own: the child's stays blocking. Of
/// what can be set, a new one has nothing that would be lost.
fn never_block(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fcntl_setfl(fd, OFlags::NONBLOCK)
}

fn explain(error: Errno) -> SpawnError {
    let kind = match error {
        // The last two are what no free terminal looks like.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC | Errno::AGAIN => {
            SpawnErrorKind::ResourceLimit
        }
        _ => SpawnErrorKind::Other,
    };
    SpawnError::new(kind)
        .os(io::Error::from(error).raw_os_error().unwrap_or(libc::EIO))
        .because("opening the streams of the child")
}
