//! What a caller may ask of a process, as plain data.
//!
//! Everything here is checked by the spawn, not by these types: a [`Spec`] can be made wrong, and
//! the error says how. How it is carried out is the business of `launch` and `contain`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::environment::EnvSpec;
use crate::sandbox::{RootLinks, Sandbox};

/// One process to start. [`Spec::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Program and arguments; not empty.
    pub argv: Vec<OsString>,
    /// What the program sees as its name; the file executed is still found from `argv[0]`.
    pub arg0: Option<OsString>,
    /// Where it runs; the child enters it itself.
    pub cwd: PathBuf,
    /// The complete environment.
    pub env: EnvSpec,
    /// Pipes or a terminal.
    pub io: Io,
    /// What becomes of output nobody takes.
    pub delivery: Delivery,
    /// How long it may run, from the spawn.
    pub timeout: Option<Duration>,
    /// What it may use.
    pub limits: Limits,
    /// What it may touch.
    pub sandbox: Sandbox,
    /// Whether the sandbox's roots may be named by paths with links.
    pub root_links: RootLinks,
    /// Which of its descendants an end reaches.
    pub containment: Containment,
    /// What happens to descendants when the leader exits by itself.
    pub survivors: Survivors,
    /// Whether dropping the last handle ends everything, forced.
    pub end_on_drop: bool,
}

impl Spec {
    /// `argv` in `cwd` with an empty environment, pipes, a closed standard input and no sandbox.
    pub fn new(
        argv: impl IntoIterator<Item = impl Into<OsString>>,
        cwd: impl Into<PathBuf>,
    ) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            arg0: None,
            cwd: cwd.into(),
            env: EnvSpec::default(),
            io: Io::Pipe {
                stdin: Stdin::Closed,
            },
            delivery: Delivery::Stream,
            timeout: None,
            limits: Limits::default(),
            sandbox: Sandbox::DangerFullAccess,
            root_links: RootLinks::Followed,
            containment: Containment::Tree,
            survivors: Survivors::Keep,
            end_on_drop: true,
        }
    }
}

/// How a process is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Two pipes for output and perhaps one for input.
    Pipe {
        /// Whether there is one for input.
        stdin: Stdin,
    },
    /// A terminal: one merged stream, the child leads its session and controls it.
    Pty(TerminalSize),
}

/// Standard input of a process with pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// A pipe the owner writes to.
    Open,
    /// `/dev/null`.
    Closed,
}

/// Rows and columns of a terminal, 1 to 10,000 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub cols: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// What becomes of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Lossless: the child blocks when nobody takes what it wrote.
    Stream,
    /// Never stalls the child; head and tail are kept.
    Retain,
    /// `/dev/null`.
    Discard,
}

/// Bounds on what a process may use; `None` leaves what the service itself has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processor time, in whole seconds rounded up.
    pub cpu_time: Option<Duration>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Bytes of any one file it writes.
    pub file_size: Option<u64>,
    /// Descriptors.
    pub open_files: Option<u64>,
    /// Bytes of a core dump; none unless given.
    pub core: Option<u64>,
    /// Processes of the user; refused for uid 0, where it would not hold.
    pub processes: Option<u64>,
    /// Bytes of memory of the whole containment; needs the cgroup controller `memory`.
    pub memory_max: Option<u64>,
    /// Processes of the whole containment; needs the cgroup controller `pids`.
    pub pids_max: Option<u64>,
}

/// Which descendants an end reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Containment {
    /// All of them, also those that left the group or the session.
    Tree,
    /// Those in the leader's process group.
    Group,
}

/// What happens to descendants when the leader exits by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// They live until the owner ends.
    Keep,
    /// They are ended, forced.
    End,
}

/// How to end a process and everything it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// SIGKILL to all at once.
    Force,
    /// SIGINT to the group and a wait (if `interrupt` is not zero), SIGTERM to all and a wait, then
    /// force. Each wait ends early when nobody is left.
    Graceful {
        /// How long to wait after SIGINT; zero sends none.
        interrupt: Duration,
        /// How long to wait after SIGTERM.
        term: Duration,
    },
}

impl End {
    /// No interrupt, two seconds after SIGTERM.
    pub const GRACEFUL: Self = Self::Graceful {
        interrupt: Duration::ZERO,
        term: Duration::from_secs(2),
    };
}

/// The signals an owner may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT
    Interrupt,
    /// SIGTERM
    Terminate,
    /// SIGKILL
    Kill,
    /// SIGHUP
    Hangup,
    /// SIGQUIT
    Quit,
    /// SIGUSR1
    Usr1,
    /// SIGUSR2
    Usr2,
    /// SIGSTOP
    Stop,
    /// SIGCONT
    Continue,
}

impl Signal {
    /// The system's number.
    pub const fn number(self) -> i32 {
        match self {
            Self::Interrupt => libc::SIGINT,
            Self::Terminate => libc::SIGTERM,
            Self::Kill => libc::SIGKILL,
            Self::Hangup => libc::SIGHUP,
            Self::Quit => libc::SIGQUIT,
            Self::Usr1 => libc::SIGUSR1,
            Self::Usr2 => libc::SIGUSR2,
            Self::Stop => libc::SIGSTOP,
            Self::Continue => libc::SIGCONT,
        }
    }
}

/// Who gets a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// The leader's group; on a terminal its foreground group, if it has one.
    #[default]
    Group,
    /// The leader alone.
    Leader,
    /// Every member of the containment.
    All,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The leader was reaped.
    Exited,
    /// Also every stream has ended.
    Closed,
    /// Also nobody that it started is left. Survivors that nobody ends are waited for.
    Gone,
}
