//! Child processes that a test starts, watches, kills and starts again.
//!
//! The invariant here: when a [`TestProcess`] is dropped, its whole process group has been killed
//! and the child has been reaped. Each child leads a group of its own; a descendant that leaves
//! the group (`setsid`) is beyond this file, as it is the process service's subject and not its
//! tests' tool. A child's environment is what its [`ProcessSpec`] says and nothing else.
//!
//! Theory of operation: one task per child reads its stderr into a bounded tail and ends with the
//! stream or with the value. Stdin and stdout belong to whoever takes them; nothing reads stdout
//! until then, so a child that writes much before it is taken will block.

mod stderr_tail;

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::AsyncReadExt;
#[expect(
    clippy::disallowed_types,
    reason = "the one place outside the process service that starts processes, for tests only"
)]
use tokio::process::Command;
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::{Error, wait::within};
use stderr_tail::StderrTail;

/// What to start: a program, its arguments, its whole environment, its folder.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    /// In place of a pipe.
    stdin: Option<Arc<OwnedFd>>,
}

impl ProcessSpec {
    /// A program with neither arguments nor environment.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            stdin: None,
        }
    }

    /// `sh -c script` with the host's `PATH`: what most tests of this kit need.
    pub fn shell(script: &str) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::new("/bin/sh").args(["-c", script]).env("PATH", path)
    }

    /// The same with these arguments behind those it has.
    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// The same with one more variable; the last of a name wins.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The same with these variables, such as those of [`TempHome::env`](crate::TempHome::env).
    #[must_use]
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        variables.fold(self, |spec, (name, value)| spec.env(name, value))
    }

    /// The same, started in this folder.
    #[must_use]
    pub fn current_dir(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = Some(folder.as_ref().to_owned());
        self
    }

    /// The same with this descriptor as standard input, such as one end of a socket.
    #[must_use]
    pub fn stdin(mut self, descriptor: impl Into<OwnedFd>) -> Self {
        self.stdin = Some(Arc::new(descriptor.into()));
        self
    }

    #[expect(clippy::disallowed_types, reason = "see the import")]
    fn spawn(&self) -> io::Result<Child> {
        let stdin = match &self.stdin {
            Some(descriptor) => Stdio::from(descriptor.try_clone()?),
            None => Stdio::piped(),
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.spawn()
    }
}

/// What a process left behind when it was run to its end.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// All it wrote to stdout.
    pub stdout: Vec<u8>,
    /// The end of what it wrote to stderr.
    pub stderr_tail: String,
}

/// A running child, or one that has ended and not been dropped.
pub struct TestProcess {
    spec: ProcessSpec,
    child: Child,
    // Not left in `child`: tokio closes the stdin it finds there as soon as somebody waits.
    stdin: Option<ChildStdin>,
    pid: Pid,
    stderr: StderrTail,
}

impl TestProcess {
    /// Starts the program; it exists when this returns. Needs a tokio runtime.
    pub fn start(mut spec: ProcessSpec) -> Result<Self, Error> {
        let starting = format!("start {}", spec.program.to_string_lossy());
        let mut child = spec.spawn().map_err(Error::doing(&starting))?;
        // Kept open here, a socket would not end with the child; a restart gets a pipe.
        spec.stdin = None;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (Some(pid), Some(stderr)) = (pid, child.stderr.take()) else {
            let source = io::Error::other("it has no id or no stderr");
            return Err(Error::System {
                doing: starting,
                source,
            });
        };
        Ok(Self {
            spec,
            stdin: child.stdin.take(),
            child,
            pid,
            stderr: StderrTail::read(stderr),
        })
    }

    /// Starts the program without input, and returns what it wrote when it has ended.
    pub async fn run(spec: ProcessSpec, limit: Duration) -> Result<Output, Error> {
        let mut process = Self::start(spec)?;
        drop(process.take_stdin());
        let mut stdout = Vec::new();
        if let Some(mut pipe) = process.take_stdout() {
            let what = format!("the end of {}'s output", process.name());
            let read = within(&what, limit, pipe.read_to_end(&mut stdout)).await;
            read.map_err(|error| process.explained(error))?
                .map_err(Error::doing("read a child's stdout"))?;
        }
        let status = process.wait(limit).await?;
        process.stderr.finished().await;
        Ok(Output {
            status,
            stdout,
            stderr_tail: process.stderr_tail(),
        })
    }

    /// The child's id, which is its group's too.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// The child's stdin, once per start. Dropping it is the child's end of input.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// The child's stdout, once per start.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Kills the whole group with `SIGKILL` and waits until the child is reaped.
    ///
    /// Killing what has ended is no error. Descendants in the group have been killed too when
    /// this returns; whoever adopted them reaps them.
    pub async fn kill9(&mut self) -> Result<ExitStatus, Error> {
        self.kill_group();
        self.wait(crate::wait::DEADLINE).await
    }

    /// Asks the child (not its group) to end, with `SIGTERM`.
    pub fn terminate(&mut self) -> Result<(), Error> {
        self.signal(Signal::TERM)
    }

    /// Stops the child with `SIGSTOP`, as a debugger or a machine that hangs would.
    ///
    /// None of its threads runs any more when this returns: the signal alone would let one on
    /// another processor go on for a moment. The child may also have ended instead.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(self.pid), options)
            .map(drop)
            .map_err(Error::doing(format!("see {} stopped", self.name())))
    }

    /// Lets a stopped child go on.
    pub fn cont(&mut self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    /// Kills what still runs and starts the same program again, with new pipes and a new tail.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.kill9().await?;
        // The old value is dropped and cleans up behind itself.
        *self = Self::start(self.spec.clone())?;
        Ok(())
    }

    /// Waits until the child has ended, and reaps it. Its group is left alone.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus, Error> {
        let what = format!("the end of {} (pid {})", self.name(), self.pid());
        let ended = within(&what, limit, self.child.wait()).await;
        ended
            .map_err(|error| self.explained(error))?
            .map_err(Error::doing(format!("wait for {}", self.name())))
    }

    /// The child's status if it has ended.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        let status = self.child.try_wait();
        status.map_err(Error::doing(format!("look at {}", self.name())))
    }

    /// The end of what the child wrote to stderr, at most 64 KiB; for messages.
    pub fn stderr_tail(&self) -> String {
        self.stderr.text()
    }

    /// Waits for a line on stderr, earlier ones that are still in the tail included.
    pub async fn wait_for_stderr_line(
        &self,
        fits: impl Fn(&str) -> bool,
        limit: Duration,
    ) -> Result<String, Error> {
        let what = format!("a line on the stderr of {}", self.name());
        let line = within(&what, limit, self.stderr.line(fits)).await;
        match line.map_err(|error| self.explained(error))? {
            Some(line) => Ok(line),
            None => Err(self.explained(Error::Over {
                what,
                seen: String::new(),
            })),
        }
    }

    /// The memory the child holds now.
    pub fn rss_bytes(&self) -> Result<u64, Error> {
        self.memory_bytes("VmRSS:")
    }

    /// The most memory the child ever held.
    pub fn rss_peak_bytes(&self) -> Result<u64, Error> {
        self.memory_bytes("VmHWM:")
    }

    fn memory_bytes(&self, key: &str) -> Result<u64, Error> {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(&path).map_err(Error::doing(format!("read {path}")))?;
        kibibytes(&status, key)
            .map(|kib| kib * 1024)
            .ok_or_else(|| Error::Over {
                what: format!("reading {key} of {}", self.name()),
                seen: "; a process that has ended has no memory".to_owned(),
            })
    }

    fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        // Looking first reaps a child that has ended, so the signal cannot reach a stranger that
        // was given the same id.
        if self.try_wait()?.is_some() {
            return Err(Error::Over {
                what: format!("a signal to {}", self.name()),
                seen: "; it has ended".to_owned(),
            });
        }
        rustix::process::kill_process(self.pid, signal)
            .map_err(Error::doing(format!("signal {}", self.name())))
    }

    /// Kills every process of the child's group.
    fn kill_group(&mut self) {
        // The id stays the group's as long as the group has a member, and the child's until it is
        // reaped. A reaped child whose id is in use again therefore has no group left, and the
        // group of that name is a stranger's.
        let reaped = self.child.id().is_none();
        if reaped && Path::new(&format!("/proc/{}", self.pid())).exists() {
            return;
        }
        // Fails only if nobody is left.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
    }

    fn explained(&self, error: Error) -> Error {
        error.seeing(&format!("; its stderr ends with:\n{}", self.stderr_tail()))
    }

    fn name(&self) -> String {
        let program = Path::new(&self.spec.program);
        let name = program.file_name().unwrap_or(program.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.kill_group();
        if self.child.id().is_some() {
            // Blocks for the moment that a killed process needs to die, without reaping it, so
            // that the line below, which tells tokio, cannot come too early.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = rustix::process::waitid(WaitId::Pid(self.pid), options);
            let _ = self.child.try_wait();
        }
    }
}

impl fmt::Debug for TestProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestProcess")
            .field("spec", &self.spec)
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

/// The value of a line like `VmRSS:     1234 kB`.
fn kibibytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}
