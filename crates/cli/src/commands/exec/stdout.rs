//! Standard output: whole lines, in order, without ever holding up the run.
//!
//! The invariant here: one line is one write, and a reader that has gone is noticed at once, also
//! while nothing is written. A reader that is slow holds up lines, not signals: the writes are made
//! by a thread of their own.
//!
//! Theory of operation: lines go through a channel of [`LINES_MAX`] to a thread, which ends with the
//! sender or with the first failed write; the sender waits when the channel is full. A second thread
//! waits for the reader's end.

use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::shown::out::{self, Chunk};

/// How many lines may wait to be written.
const LINES_MAX: usize = 256;
/// More than these threads ever use.
const STACK_BYTES: usize = 128 * 1024;

/// The way to standard output.
#[derive(Debug)]
pub(super) struct Stdout {
    lines: mpsc::Sender<Chunk>,
    unread: CancellationToken,
    done: oneshot::Receiver<()>,
    fault: Arc<OnceLock<io::Error>>,
}

impl Stdout {
    /// Takes over standard output.
    pub(super) fn start() -> io::Result<Self> {
        Self::over(out::stdout_file()?)
    }

    /// Takes over a file that stands for it.
    pub(super) fn over(file: File) -> io::Result<Self> {
        let unread = CancellationToken::new();
        let (watched, gone) = (file.try_clone()?, unread.clone());
        thread("stdout-reader", move || watch(&watched, &gone))?;
        let (lines, receiver) = mpsc::channel(LINES_MAX);
        let (finished, done) = oneshot::channel();
        let on_error = unread.clone();
        let fault = Arc::new(OnceLock::new());
        let noted = Arc::clone(&fault);
        thread("stdout", move || {
            if let Err(error) = write(&file, receiver) {
                // A reader that has gone is no fault.
                if error.kind() != io::ErrorKind::BrokenPipe {
                    let _ = noted.set(error);
                }
                on_error.cancel();
            }
            // Nobody need wait for it.
            let _ = finished.send(());
        })?;
        Ok(Self {
            lines,
            unread,
            done,
            fault,
        })
    }

    /// The error of the system that ended writing, other than a closed pipe; set before [`Self::unread`] is cancelled.
    pub(super) fn fault(&self) -> Arc<OnceLock<io::Error>> {
        Arc::clone(&self.fault)
    }

    /// A place for the next line, once there is one; none when the reader has gone.
    pub(super) async fn place(&self) -> Option<mpsc::Permit<'_, Chunk>> {
        self.lines.reserve().await.ok()
    }

    /// Cancelled when the reader has gone.
    pub(super) fn unread(&self) -> CancellationToken {
        self.unread.clone()
    }

    /// Waits until everything is written.
    pub(super) async fn finish(self) {
        drop(self.lines);
        let _ = self.done.await;
    }
}

/// A thread that needs little.
fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.stack_size(STACK_BYTES).spawn(work)?;
    Ok(())
}

fn write(file: &File, mut lines: mpsc::Receiver<Chunk>) -> io::Result<()> {
    while let Some(line) = lines.blocking_recv() {
        line.write_to(file)?;
    }
    Ok(())
}

/// Notices that the reader of a pipe or socket has gone; files have none, so theirs never does. The
/// thread ends with the process.
fn watch(file: &File, unread: &CancellationToken) {
    loop {
        // Errors and hang-ups are told whatever is asked for.
        let mut fds = [PollFd::new(file, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                unread.cancel();
                return;
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
