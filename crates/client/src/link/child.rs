//! A server that this client runs: its streams, its end, what it said last.
//!
//! The invariant here: whatever becomes of the client's runtime, the child ends. Everything that
//! touches it happens on a thread of its own ([`home`]), which lives as long as the program: there its
//! output is taken, its input written and its end carried out. Dropping a [`Child`] begins that end;
//! the death of the whole program is the process crate's business: the kernel kills the child with it.
//!
//! # Theory of operation
//!
//! Three tasks per child, on the home's runtime. *Input* copies from a pipe of [`PIPE_BYTES`] to the
//! process and closes its standard input at the pipe's end. *Output* takes all that the process tells:
//! standard output goes into a pipe of the same size (a full one makes the child wait), standard error
//! into the tail, and the exit ends the pipe. *Ending* exists once somebody wants the end. All three
//! end with the process.

pub(crate) mod home;
mod tail;

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use turnlane_process::{
    Containment, ContainmentKind, End, EnvSpec, Event, Io, Output, Process, SpawnError,
    SpawnErrorKind, Spec, Stdin, StreamName, Survivors, Until,
};
use turnlane_rpc::Duplex;

use super::ExitReport;
use crate::endpoint::{Env, SpawnSpec};
use crate::error::ConnectError;
use tail::Tail;

/// What waits between the connection and a stream of the child; a full pipe makes the writer wait.
const PIPE_BYTES: usize = 64 * 1024;

/// How long what was queued may take to reach the child's standard input before that is closed.
const FLUSH_MAX: Duration = Duration::from_millis(250);

/// SIGTERM to SIGKILL.
const TERM_GRACE: Duration = Duration::from_millis(250);

/// How long a killed child may take to be gone.
const KILLED_MAX: Duration = Duration::from_secs(2);

/// How long a child that reads no more may live on before its connection fails.
const DEAF_MAX: Duration = Duration::from_millis(250);

/// A running server. Dropping it ends the process in order.
#[derive(Debug)]
pub(super) struct Child {
    process: Process,
    state: Arc<State>,
    home: home::Home,
    grace: Duration,
    /// Set by the first who wants the end.
    ending: OnceLock<watch::Receiver<Option<Ended>>>,
}

#[derive(Debug)]
struct State {
    tail: Tail,
    exited: watch::Sender<Option<turnlane_process::ExitStatus>>,
    /// All that was queued is written, and standard input is closed.
    input_closed: CancellationToken,
}

/// What came of an end.
#[derive(Clone, Debug)]
enum Ended {
    Gone(ExitReport),
    /// It was killed and is still there.
    Stuck,
}

impl Child {
    /// Starts the server. Cancelled, it leaves nothing behind.
    pub(super) async fn start(
        spec: &SpawnSpec,
        tail_bytes: usize,
        grace: Duration,
    ) -> Result<(Self, Duplex), ConnectError> {
        let failed = |source: io::Error| ConnectError::Spawn {
            program: PathBuf::from(&spec.program),
            source,
        };
        let home = home::find().await.map_err(failed)?;
        let spec = process_spec(spec, home.containment()).map_err(failed)?;
        let process = home
            .service
            .spawn(spec)
            .await
            .map_err(|error| failed(io_error(error)))?;
        let output = process
            .output()
            .map_err(|taken| failed(io::Error::other(taken)))?;
        let state = Arc::new(State {
            tail: Tail::new(tail_bytes),
            exited: watch::Sender::new(None),
            input_closed: CancellationToken::new(),
        });
        let (writer, from_client) = tokio::io::duplex(PIPE_BYTES);
        let (reader, to_client) = tokio::io::duplex(PIPE_BYTES);
        let input = write_input(process.clone(), from_client, Arc::clone(&state));
        let output = take_output(process.clone(), output, to_client, Arc::clone(&state));
        home.runtime.spawn(input);
        home.runtime.spawn(output);
        let child = Self {
            process,
            state,
            home,
            grace,
            ending: OnceLock::new(),
        };
        Ok((child, Duplex::lines(reader, writer)))
    }

    /// The end of what it wrote to standard error.
    pub(super) fn stderr_tail(&self) -> String {
        self.state.tail.text()
    }

    /// How it ended, waited for until `limit`.
    pub(super) async fn exited_within(&self, limit: Duration) -> Option<std::process::ExitStatus> {
        let mut exited = self.state.exited.subscribe();
        let seen = timeout(limit, exited.wait_for(Option::is_some)).await;
        let status = (*seen.ok()?.ok()?)?;
        std_status(&status)
    }

    /// Begins the end: standard input is closed, and who then does not end within `grace` is
    /// terminated, then killed. Called again: nothing. Needs no runtime.
    pub(super) fn begin_end(&self, grace: Duration) -> Ending {
        let seen = self.ending.get_or_init(|| {
            let (tell, seen) = watch::channel(None);
            let process = self.process.clone();
            let state = Arc::clone(&self.state);
            self.home.runtime.spawn(async move {
                let ended = end(&process, &state, grace).await;
                tell.send_replace(Some(ended));
            });
            seen
        });
        Ending(seen.clone())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.begin_end(self.grace);
    }
}

/// An end under way; dropping it changes nothing.
#[derive(Debug)]
pub(super) struct Ending(watch::Receiver<Option<Ended>>);

impl Ending {
    /// Waits until nobody is left.
    pub(super) async fn finished(mut self) -> io::Result<ExitReport> {
        let stuck = || io::Error::new(io::ErrorKind::TimedOut, "it was killed and is still there");
        match self.0.wait_for(Option::is_some).await {
            Ok(ended) => match &*ended {
                Some(Ended::Gone(report)) => Ok(report.clone()),
                Some(Ended::Stuck) | None => Err(stuck()),
            },
            Err(_) => Err(stuck()),
        }
    }
}

async fn end(process: &Process, state: &State, grace: Duration) -> Ended {
    // What the connection queued goes first; without its runtime the pipe has ended already.
    let _ = timeout(FLUSH_MAX, state.input_closed.cancelled()).await;
    // A pipe can be closed; again is nothing.
    let _ = process.close_stdin();
    let mut forced = false;
    let mut status = process.wait(Until::Exited, Some(grace)).await;
    if status.is_none() {
        forced = true;
        process.end(End::Graceful {
            interrupt: Duration::ZERO,
            term: TERM_GRACE,
        });
        let limit = TERM_GRACE + KILLED_MAX;
        status = process.wait(Until::Exited, Some(limit)).await;
    }
    let Some(status) = status else {
        tracing::error!(pid = process.info().pid, "the server could not be killed");
        return Ended::Stuck;
    };
    // Those it started were killed with its exit; that is waited for, but not for ever.
    let _ = process.wait(Until::Gone, Some(KILLED_MAX)).await;
    Ended::Gone(ExitReport {
        status: std_status(&status),
        forced,
        stderr_tail: state.tail.text(),
    })
}

/// The client's frames on their way to the child.
async fn write_input(process: Process, mut from: DuplexStream, state: Arc<State>) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIPE_BYTES);
        // An error of this pipe is its end.
        if !from
            .read_buf(&mut buffer)
            .await
            .is_ok_and(|count| count > 0)
        {
            break;
        }
        if process.write(buffer.split().freeze()).await.is_err() {
            // Usually it is exiting, and what it said last is to be read first. One that lives and
            // reads no more is found out by the writer: nobody takes from this pipe.
            let mut exited = state.exited.subscribe();
            let _ = timeout(DEAF_MAX, exited.wait_for(Option::is_some)).await;
            break;
        }
    }
    let _ = process.close_stdin();
    state.input_closed.cancel();
}

/// Everything the child tells, until it has closed.
async fn take_output(process: Process, mut output: Output, to: DuplexStream, state: Arc<State>) {
    let pid = process.info().pid;
    let mut to = Some(to);
    loop {
        let event = tokio::select! {
            biased;
            event = output.next() => event,
            () = process.stream_ended(StreamName::Stdout), if to.is_some() => {
                // All its bytes were told before; none is left, since the arm above was pending.
                to = None;
                continue;
            }
        };
        match event {
            Some(Event::Output {
                stream: StreamName::Stderr,
                bytes,
                ..
            }) => {
                log(pid, &bytes);
                state.tail.push(&bytes);
            }
            Some(Event::Output { bytes, .. }) => {
                // A connection that is gone reads nothing; the child must not wait for it.
                if let Some(pipe) = &mut to
                    && pipe.write_all(&bytes).await.is_err()
                {
                    to = None;
                }
            }
            Some(Event::Exited { status, .. }) => {
                tracing::debug!(pid, code = status.code, "the server ended");
                state.exited.send_replace(Some(status));
                // Its end is the reader's end of file, whoever still holds the stream.
                to = None;
            }
            Some(Event::Closed { .. }) | None => break,
        }
    }
}

fn log(pid: i32, bytes: &Bytes) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        let text = String::from_utf8_lossy(bytes);
        for line in text.lines() {
            tracing::debug!(pid, line, "standard error of the server");
        }
    }
}

fn process_spec(spec: &SpawnSpec, best: ContainmentKind) -> io::Result<Spec> {
    let cwd = match &spec.cwd {
        Some(cwd) => cwd.clone(),
        None => std::env::current_dir()?,
    };
    let argv = std::iter::once(&spec.program).chain(&spec.args).cloned();
    let vars = match &spec.env {
        Env::InheritWith(more) => std::env::vars_os().chain(more.iter().cloned()).collect(),
        Env::Only(these) => these.iter().cloned().collect(),
    };
    Ok(Spec {
        // Nothing is filtered: the server is the caller's own program, not a tool's.
        env: EnvSpec {
            vars,
            ..EnvSpec::default()
        },
        io: Io::Pipe { stdin: Stdin::Open },
        containment: match best {
            ContainmentKind::Cgroup | ContainmentKind::Reaper => Containment::Tree,
            ContainmentKind::Group => Containment::Group,
        },
        survivors: Survivors::End,
        ..Spec::new(argv, cwd)
    })
}

/// What the system said, or what it would have said.
fn io_error(error: SpawnError) -> io::Error {
    let kind = match error.kind {
        SpawnErrorKind::ProgramNotFound | SpawnErrorKind::CwdNotFound => io::ErrorKind::NotFound,
        SpawnErrorKind::NotExecutable | SpawnErrorKind::CwdDenied => {
            io::ErrorKind::PermissionDenied
        }
        SpawnErrorKind::EmptyArgv | SpawnErrorKind::NulByte => io::ErrorKind::InvalidInput,
        SpawnErrorKind::TooManyProcesses
        | SpawnErrorKind::ResourceLimit
        | SpawnErrorKind::SandboxUnavailable
        | SpawnErrorKind::SandboxRefused
        | SpawnErrorKind::ContainmentUnavailable
        | SpawnErrorKind::Other => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// As the standard library tells it; `None` when nobody could learn it.
fn std_status(status: &turnlane_process::ExitStatus) -> Option<std::process::ExitStatus> {
    let raw = match (status.signal, status.code) {
        (Some(signal), _) => signal,
        (None, code @ 0..=255) => code << 8,
        (None, _) => return None,
    };
    Some(std::process::ExitStatus::from_raw(raw))
}
