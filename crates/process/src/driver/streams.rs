//! Our ends of a process's streams: reading without holding a buffer, writing without blocking.
//!
//! A stream that is quiet holds no memory: reads go into a buffer of the thread and leave it as a
//! chunk of their own, copied when they are small, handed over whole when they fill at least half of
//! it. So a kept chunk never pins more than twice its size.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::fcntl_setpipe_size;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::event::StreamName;
use crate::launch::OurEnds;

/// The most that one read takes.
pub(super) const READ_MAX: usize = 64 * 1024;

/// How much a pipe holds once it was seen full.
const LOUD_PIPE_BYTES: usize = 256 * 1024;

/// The most a terminal can hold for its reader, and some: what is read of it when the leader exits.
/// It cannot be asked how much there is, only read until there is no more, and a survivor may keep
/// writing.
const TERMINAL_PENDING_MAX: usize = 64 * 1024;

/// Half a page: a terminal that gives this much at once probably has more.
const TERMINAL_MUCH: usize = 2048;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Our ends of one process, watched by the runtime.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(super) sources: [Option<Source>; 2],
    pub(super) sink: Option<Sink>,
    pub(super) terminal: Option<Arc<AsyncFd<OwnedFd>>>,
}

impl Ends {
    /// Must be called inside the runtime that the driver will run on.
    pub(crate) fn watch(ours: OurEnds) -> io::Result<Self> {
        let pipe = |fd: Option<OwnedFd>, name| fd.map(|fd| Source::pipe(fd, name)).transpose();
        let stdout = pipe(ours.stdout, StreamName::Stdout)?;
        let stderr = pipe(ours.stderr, StreamName::Stderr)?;
        let Some(master) = ours.terminal else {
            return Ok(Self {
                sources: [stdout, stderr],
                sink: ours.stdin.map(Sink::Pipe),
                terminal: None,
            });
        };
        let both = Interest::READABLE | Interest::WRITABLE;
        let master = watch(master, both)?;
        Ok(Self {
            sources: [Some(Source::terminal(Arc::clone(&master))), None],
            sink: Some(Sink::Watched(Arc::clone(&master))),
            terminal: Some(master),
        })
    }

    /// Whether anything can be written.
    pub(crate) fn has_input(&self) -> bool {
        self.sink.is_some()
    }

    /// The terminal's master, for its size and its foreground group.
    pub(crate) fn terminal(&self) -> Option<Arc<AsyncFd<OwnedFd>>> {
        self.terminal.clone()
    }
}

/// What a read found.
#[derive(Debug)]
pub(super) enum Taken {
    Bytes(Bytes),
    End,
}

/// A stream we read: a pipe, or a terminal's master.
#[derive(Debug)]
pub(super) struct Source {
    fd: Arc<AsyncFd<OwnedFd>>,
    pub(super) name: StreamName,
    /// The pipe was made larger, or could not be.
    is_wide: bool,
}

impl Source {
    /// Must be called inside the runtime.
    pub(super) fn pipe(fd: OwnedFd, name: StreamName) -> io::Result<Self> {
        let fd = watch(fd, Interest::READABLE)?;
        Ok(Self {
            fd,
            name,
            is_wide: false,
        })
    }

    pub(super) fn terminal(fd: Arc<AsyncFd<OwnedFd>>) -> Self {
        Self {
            fd,
            name: StreamName::Pty,
            is_wide: false,
        }
    }

    /// The next chunk, of at most `most` bytes.
    pub(super) fn poll_take(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Taken> {
        let most = most.min(READ_MAX);
        loop {
            // An error means that the runtime is going away.
            let Ok(mut guard) = ready!(self.fd.poll_read_ready(cx)) else {
                return Poll::Ready(Taken::End);
            };
            let Some(taken) = self.take(most) else {
                guard.clear_ready();
                continue;
            };
            // A pipe that gave less than it was asked for was empty then, and what came later is
            // told anew. A terminal gives at most a page at a time, so that this says nothing.
            if let Taken::Bytes(bytes) = &taken
                && self.name != StreamName::Pty
            {
                if bytes.len() < most {
                    guard.clear_ready();
                } else if most == READ_MAX {
                    drop(guard);
                    self.widen();
                }
            }
            return Poll::Ready(taken);
        }
    }

    /// Makes a pipe that was full larger, once: writer and reader then change places less often. A
    /// quiet one stays as it is, and one that cannot be made larger too.
    fn widen(&mut self) {
        if !self.is_wide {
            self.is_wide = true;
            if let Err(error) = fcntl_setpipe_size(self.fd.as_fd(), LOUD_PIPE_BYTES) {
                tracing::debug!(%error, "pipe stays small");
            }
        }
    }

    /// The end, if that is all there is; bytes are left where they are.
    pub(super) fn poll_end(&self, cx: &mut Context<'_>) -> Poll<Taken> {
        loop {
            let Ok(mut guard) = ready!(self.fd.poll_read_ready(cx)) else {
                return Poll::Ready(Taken::End);
            };
            if ioctl_fionread(self.fd.as_fd()).unwrap_or(0) > 0 {
                return Poll::Pending;
            }
            match self.take(READ_MAX) {
                Some(taken) => return Poll::Ready(taken),
                None => guard.clear_ready(),
            }
        }
    }

    /// Reads what is pending now and nothing that comes later; whether the stream ended.
    pub(super) fn drain(&self, mut tell: impl FnMut(Bytes)) -> bool {
        let is_terminal = self.name == StreamName::Pty;
        let mut left = if is_terminal {
            TERMINAL_PENDING_MAX
        } else {
            let pending = ioctl_fionread(self.fd.as_fd()).unwrap_or(0);
            usize::try_from(pending).unwrap_or(0)
        };
        while left > 0 {
            match self.take(left.min(READ_MAX)) {
                Some(Taken::Bytes(bytes)) => {
                    left -= bytes.len();
                    tell(bytes);
                }
                Some(Taken::End) => return true,
                None => return false,
            }
        }
        false
    }

    /// Reads once; `None` if there is nothing now.
    fn take(&self, most: usize) -> Option<Taken> {
        loop {
            return match read_chunk(&self.fd, self.name, most) {
                Ok(bytes) if bytes.is_empty() => Some(Taken::End),
                Ok(bytes) => Some(Taken::Bytes(bytes)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => None,
                // The last other side of a terminal was closed.
                Err(Errno::IO) if self.name == StreamName::Pty => Some(Taken::End),
                Err(error) => {
                    tracing::warn!(stream = ?self.name, %error, "output could not be read");
                    Some(Taken::End)
                }
            };
        }
    }
}

/// Puts a descriptor into the runtime's epoll, out of which it is taken before it is closed.
fn watch(fd: OwnedFd, interest: Interest) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
    // SAFETY: an `OwnedFd` is open and the same as long as it lives, and it lives as long as the
    // watch: nobody asks this `Arc` for an exclusive reference, by which it could be replaced.
    let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
    Ok(Arc::new(watched?))
}

/// Reads at most `most` bytes. A terminal gives no more than a page at a time; one that gave much is
/// asked again, so that a loud one does not cost a chunk for every page.
fn read_chunk(fd: impl AsFd, name: StreamName, most: usize) -> Result<Bytes, Errno> {
    BUFFER.with(|cell| {
        let mut buffer = cell.take();
        buffer.clear();
        buffer.reserve_exact(READ_MAX);
        let most = most.min(READ_MAX);
        loop {
            let so_far = buffer.len();
            let spare = buffer.spare_capacity_mut();
            let count = match read(&fd, &mut spare[..most - so_far]) {
                Ok((read, _)) => read.len(),
                // What was read before is told first; the next read finds the same.
                Err(_) if so_far > 0 => 0,
                Err(error) => {
                    cell.set(buffer);
                    return Err(error);
                }
            };
            // SAFETY: the read has filled the first `count` bytes of the spare room, which begins
            // at `so_far`.
            unsafe { buffer.set_len(so_far + count) };
            let goes_on = name == StreamName::Pty && count >= TERMINAL_MUCH;
            if !goes_on || buffer.len() >= most {
                break;
            }
        }
        if buffer.len() >= READ_MAX / 2 {
            return Ok(buffer.into());
        }
        let bytes = Bytes::copy_from_slice(&buffer);
        cell.set(buffer);
        Ok(bytes)
    })
}

/// Where input goes. A pipe is only watched once it was full: most never are.
#[derive(Debug)]
pub(super) enum Sink {
    Pipe(OwnedFd),
    Watched(Arc<AsyncFd<OwnedFd>>),
    /// Being changed from one to the other, or broken by that.
    Gone,
}

impl Sink {
    /// Writes what fits. An error means that nobody reads any more.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self {
                Self::Pipe(fd) => match write(fd, bytes) {
                    Ok(count) => return Poll::Ready(Ok(count)),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => self.watch()?,
                    Err(error) => return Poll::Ready(Err(error.into())),
                },
                Self::Watched(fd) => {
                    let mut guard = ready!(fd.poll_write_ready(cx))?;
                    match write(fd.as_fd(), bytes) {
                        Ok(count) => return Poll::Ready(Ok(count)),
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => guard.clear_ready(),
                        Err(error) => return Poll::Ready(Err(error.into())),
                    }
                }
                Self::Gone => return Poll::Ready(Err(Errno::PIPE.into())),
            }
        }
    }

    fn watch(&mut self) -> io::Result<()> {
        if let Self::Pipe(fd) = std::mem::replace(self, Self::Gone) {
            *self = Self::Watched(watch(fd, Interest::WRITABLE)?);
        }
        Ok(())
    }
}
