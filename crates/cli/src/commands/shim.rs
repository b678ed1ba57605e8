//! `turnlane shim`: one member of an orchestrator.
//!
//! Owned here: what the arguments mean together, which server the shim is a client of, and the exit code.
//! The invariant: descriptor 3 is taken before anything else is opened, and standard output is left to the
//! protocol. What a shim does is the business of `turnlane-shim`.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use turnlane::{Client, ClientBuilder};
use turnlane_process::{Begin, EndSignal, ProcessService};
use turnlane_protocol::policy::SandboxPolicy;
use turnlane_runtime::{Clock as _, SystemClock};
use turnlane_shim::{
    Exit, OnBlock, OnDisconnect, OnUnknown, Options, Server, ServerKind, StopSignal,
    ThreadSettings, Transport, is_valid_id,
};

use super::exec::signals::{Caught, Signals};
use crate::args::{DaemonUse, OnBlockArg, OnDisconnectArg, OnUnknownArg, ShimArgs};
use crate::assembly::{Assembly, Kind};
use crate::config::{ConfigFiles, Given, KEPT_HERE, Layers};
use crate::linked::Linked;
use crate::shown::{note, out};
use crate::{defaults, home};

/// The descriptor on which an orchestrator gives its socket.
const SOCKET_NUMBER: i32 = 3;
/// How the shim is called towards the server.
const CLIENT_NAME: &str = "turnlane_shim";
/// Drain time without a flag or variable.
const GRACEFUL_SECS: u64 = 5;
/// How long a lane that is held elsewhere is waited for when an orchestrator hands over.
const HANDOFF_SECS: u64 = 20;
/// How long the engine may take to tell what became of the turns of dead workers.
const RECOVERY_MAX: Duration = Duration::from_secs(130);
/// What an agent of batty replies with.
const REPLY_COMMAND: &str = "batty send";
/// Programs that start a script. batty gives `bash '<launch script>'` for every agent, also for one whose
/// script it never runs (seen in 0.11.63), so a shell does not name the program of an engine.
const SHELLS: [&str; 6] = ["bash", "dash", "ksh", "sh", "zsh", "env"];
/// Types of agents that are terminal programs.
const TERMINAL_TYPES: [&str; 3] = ["generic", "bash", "shell"];

/// Types of agents that speak ACP.
const ACP_TYPES: [&str; 3] = ["acp", "kiro", "claude"];

/// Why nothing was started.
enum Refusal {
    Usage(String),
    Start(String),
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self::Start(format!("{error:#}"))
    }
}

/// Runs the command; what people have to know is said.
pub(crate) fn run(args: &ShimArgs, overrides: &[String]) -> ExitCode {
    let id = args.id.clone().or_else(|| variable("BATTY_MEMBER"));
    let shown = id.clone().unwrap_or_default();
    out::prefix_logs(format!("[shim {shown}] "));
    let say = |text: &str| note(&format!("[shim {shown}] {text}"));
    let refused = |refusal| match refusal {
        Refusal::Usage(reason) => {
            say(&format!("error: {reason}"));
            ExitCode::from(2)
        }
        Refusal::Start(reason) => {
            say(&format!("error: {reason}"));
            ExitCode::from(3)
        }
    };
    let setup = match Setup::new(args, id, overrides) {
        Ok(setup) => setup,
        Err(refusal) => return refused(refusal),
    };
    // One thread: a shim waits most of the time, and many of them run side by side.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refused(Refusal::Start(format!("cannot start the runtime: {error}"))),
    };
    let exit = runtime.block_on(serve(args, setup));
    // A blocked read of standard input must not hold up the exit.
    runtime.shutdown_background();
    let exit = match exit {
        Ok(exit) => exit,
        Err(refusal) => return refused(refusal),
    };
    if let Some(reason) = exit.reason() {
        say(&format!("error: {reason}"));
    }
    if let Exit::Signal(signal) = &exit {
        turnlane_process::end_by_signal(match signal {
            StopSignal::Interrupt => EndSignal::Interrupt,
            StopSignal::Terminate => EndSignal::Terminate,
            StopSignal::HangUp => EndSignal::HangUp,
        });
    }
    exit.code().map_or(ExitCode::FAILURE, ExitCode::from)
}

/// What was checked before anything is started.
struct Setup {
    id: String,
    cwd: PathBuf,
    home: PathBuf,
    codex_home: Option<PathBuf>,
    files: ConfigFiles,
    transport: Transport,
    /// Whether the orchestrator gave descriptor 3.
    has_socket: bool,
    thread: ThreadSettings,
    /// The command line says something that a daemon must not be told.
    needs_own: bool,
}

impl Setup {
    fn new(args: &ShimArgs, id: Option<String>, overrides: &[String]) -> Result<Self, Refusal> {
        // First: whatever is opened later may get this number.
        let socket = turnlane_process::inherited_socket(SOCKET_NUMBER)
            .context("cannot look at descriptor 3")?;
        let usage = |reason: &str| Refusal::Usage(reason.to_owned());
        let id = id.ok_or_else(|| usage("--id is missing, and BATTY_MEMBER is not set"))?;
        if !is_valid_id(&id) {
            return Err(usage(
                "--id must have 1 to 64 letters, digits, `.`, `_` and `-`",
            ));
        }
        let has_socket = socket.is_some() && !args.stdio && args.listen.is_none();
        let transport = match (&args.listen, socket) {
            (Some(listen), _) => Transport::Listen(listen.0.clone()),
            (None, _) if args.stdio => Transport::Stdio,
            (None, Some(socket)) => Transport::Socket(UnixStream::from(socket)),
            (None, None) => {
                return Err(usage(
                    "descriptor 3 is no stream socket; use --stdio or --listen unix://PATH",
                ));
            }
        };
        let given = args.cwd.as_deref().unwrap_or(Path::new("."));
        let cwd = given
            .canonicalize()
            .map_err(|error| Refusal::Usage(format!("--cwd {}: {error}", given.display())))?;
        let engine = engine(&args.agent_type)?;
        let overrides = with_program(args, &engine, overrides);
        let home = home::open()?;
        let codex_home = home::codex();
        let layers = Layers::new(&home, codex_home.as_deref(), &overrides);
        let files = ConfigFiles::new(layers);
        let config = files.current()?;
        let flags = Given::unchecked(&overrides)?.shared;
        let thread = ThreadSettings {
            engine: Some(engine),
            model: args.model.clone(),
            sandbox: sandbox(args, &config.shared, &cwd)?,
            config: shared(&flags),
        };
        let needs_own =
            args.script.is_some() || KEPT_HERE.iter().any(|key| flags.contains_key(*key));
        Ok(Self {
            id,
            cwd,
            home,
            codex_home,
            files,
            transport,
            has_socket,
            thread,
            needs_own,
        })
    }

    fn is_single(&self) -> bool {
        !matches!(self.transport, Transport::Listen(_))
    }

    fn options(&self, args: &ShimArgs) -> anyhow::Result<Options> {
        let on_disconnect = match args.on_disconnect {
            Some(OnDisconnectArg::Stop) => OnDisconnect::Stop,
            Some(OnDisconnectArg::Drain) => OnDisconnect::Drain,
            None if self.is_single() => OnDisconnect::Stop,
            Some(OnDisconnectArg::Detach) | None => OnDisconnect::Detach,
        };
        let on_unknown = match args.on_unknown {
            Some(OnUnknownArg::Skip) => OnUnknown::Skip,
            Some(OnUnknownArg::Retry) => OnUnknown::Retry,
            None if self.has_socket => OnUnknown::Skip,
            Some(OnUnknownArg::Block) | None => OnUnknown::Block,
        };
        let seconds = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
        let graceful = args.graceful_shutdown_timeout_secs.or_else(|| {
            variable("BATTY_GRACEFUL_SHUTDOWN_TIMEOUT_SECS")?
                .parse()
                .ok()
        });
        let preserves = args
            .auto_commit_on_restart
            .or_else(|| variable("BATTY_AUTO_COMMIT_ON_RESTART")?.parse().ok());
        let handoff = if self.has_socket { HANDOFF_SECS } else { 0 };
        let reply = args.reply_command.clone();
        let reply = reply.or_else(|| self.has_socket.then(|| REPLY_COMMAND.to_owned()));
        Ok(Options {
            id: self.id.clone(),
            cwd: self.cwd.clone(),
            thread: self.thread.clone(),
            state_directory: home::shim(&self.home),
            log_path: args.pty_log_path.clone(),
            graceful: Duration::from_secs(graceful.unwrap_or(GRACEFUL_SECS)),
            preserves: preserves.unwrap_or(true),
            on_disconnect,
            on_unknown,
            on_block: match args.on_block {
                OnBlockArg::Wait => OnBlock::Wait,
                OnBlockArg::Fail => OnBlock::Fail,
            },
            max_queue: args.max_queue,
            handoff_wait: Duration::from_secs(args.handoff_wait.unwrap_or(handoff)),
            turn_timeout: seconds(args.turn_timeout),
            stall_after: seconds(args.stall_after),
            reply_command: reply.filter(|command| !command.is_empty()),
            is_fresh: args.fresh,
            hold_after_failures: args.hold_after_failures,
            clock: Arc::new(|| SystemClock.now_ms()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            processes: git_processes()?,
        })
    }
}

/// The shim, from its server to its exit.
async fn serve(args: &ShimArgs, setup: Setup) -> Result<Exit, Refusal> {
    let mut signals = Signals::catch()?;
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            let signal = match signals.next().await {
                Caught::Interrupt => StopSignal::Interrupt,
                Caught::Terminate => StopSignal::Terminate,
                Caught::HangUp => StopSignal::HangUp,
            };
            if sender.send(signal).await.is_err() {
                return;
            }
        }
    });
    let options = setup.options(args)?;
    let processes = options.processes.clone();
    let needs_daemon = options.on_disconnect == OnDisconnect::Detach && setup.is_single();
    let daemon = required_daemon(args, &setup, needs_daemon).await?;
    let link = Link {
        daemon,
        looks_for_daemon: args.daemon != DaemonUse::Never && !setup.needs_own,
        script: args.script.clone(),
        home: setup.home,
        codex_home: setup.codex_home,
        files: setup.files,
    };
    // Kept outside of the loop: the server ends after the last events, whatever ended the loop.
    let linked = Arc::new(Mutex::new(None));
    let linking = link.opened(Arc::clone(&linked));
    let running = tokio::spawn(turnlane_shim::run(
        linking,
        options,
        setup.transport,
        receiver,
    ));
    // A panic in the last steps must not leave a shim that is half alive.
    let exit = running
        .await
        .unwrap_or_else(|error| Exit::Channel(format!("an internal error: {error}")));
    processes.stop().await;
    let linked = linked.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(linked) = linked {
        linked.end().await;
    }
    Ok(exit)
}

/// The daemon, where the command line needs one; refused before anything is said on the channel.
async fn required_daemon(
    args: &ShimArgs,
    setup: &Setup,
    needs_daemon: bool,
) -> Result<Option<Linked>, Refusal> {
    let is_required = args.daemon == DaemonUse::Require;
    if !needs_daemon && !is_required {
        return Ok(None);
    }
    let may_use = args.daemon != DaemonUse::Never && !setup.needs_own;
    if may_use && let Some(linked) = Linked::daemon(&setup.home, builder()).await {
        return Ok(Some(linked));
    }
    Err(if is_required {
        Refusal::Start("no daemon answers; start one with `turnlane serve`".to_owned())
    } else {
        let reason = "--on-disconnect detach needs a daemon: start one with `turnlane serve`";
        Refusal::Usage(reason.to_owned())
    })
}

/// The way to the server: which one, and what it is started with.
struct Link {
    /// A daemon that was found already.
    daemon: Option<Linked>,
    looks_for_daemon: bool,
    script: Option<PathBuf>,
    home: PathBuf,
    codex_home: Option<PathBuf>,
    files: ConfigFiles,
}

impl Link {
    /// Opens the link and leaves it in `place`, for the end.
    async fn opened(self, place: Arc<Mutex<Option<Linked>>>) -> Result<Server, Exit> {
        let handle = tokio::runtime::Handle::current();
        // On a thread of its own: a database is opened and recovered without a pause, and the loop, which
        // has one thread, answers the orchestrator meanwhile.
        let opening = tokio::task::spawn_blocking(move || handle.block_on(self.open()));
        let opened = opening
            .await
            .map_err(|error| Exit::StartFailed(format!("an internal error: {error}")))?;
        let linked = opened.map_err(|error| Exit::StartFailed(format!("{error:#}")))?;
        let server = Server {
            client: linked.client.clone(),
            kind: if linked.is_daemon() {
                ServerKind::Daemon
            } else {
                ServerKind::Embedded
            },
        };
        *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(linked);
        Ok(server)
    }

    /// The daemon of the home, or a server in this process.
    async fn open(self) -> anyhow::Result<Linked> {
        if let Some(linked) = self.daemon {
            return Ok(linked);
        }
        if self.looks_for_daemon
            && let Some(linked) = Linked::daemon(&self.home, builder()).await
        {
            return Ok(linked);
        }
        home::make(&self.home)?;
        let assembly = Assembly::start(
            Kind::Shim,
            self.script.as_deref(),
            &self.home,
            self.codex_home.as_deref(),
            self.files,
        )
        .await?;
        // What a dead shim left is told with the outcome that its engine knows.
        assembly.recovered(RECOVERY_MAX).await;
        Linked::own(assembly, builder()).await
    }
}

fn builder() -> ClientBuilder {
    Client::builder()
        .client_info(CLIENT_NAME, env!("CARGO_PKG_VERSION"))
        .reviews_elsewhere()
}

/// The name of the engine that an orchestrator's type of agent means.
fn engine(agent_type: &str) -> Result<String, Refusal> {
    if TERMINAL_TYPES.contains(&agent_type) {
        return Err(Refusal::Start(format!(
            "--agent-type {agent_type} is a terminal program, which no engine runs; use native, codex or \
             codex-exec"
        )));
    }
    if ACP_TYPES.contains(&agent_type) {
        return Err(Refusal::Start(format!(
            "--agent-type {agent_type} needs the engine acp, which this version does not have; use \
             native, codex or codex-exec"
        )));
    }
    Ok(agent_type.to_owned())
}

/// The settings with the engine's program, where `--cmd` names one.
fn with_program(args: &ShimArgs, engine: &str, overrides: &[String]) -> Vec<String> {
    let program = args.cmd.as_deref().and_then(|cmd| {
        let program = cmd.split_whitespace().next()?;
        let name = program.rsplit('/').next()?;
        (!SHELLS.contains(&name) && is_program(program)).then(|| program.to_owned())
    });
    let mut overrides = overrides.to_vec();
    if let Some(program) = program.filter(|_| matches!(engine, "codex" | "codex-exec")) {
        overrides.push(format!("engine.codex.program={}", Value::from(program)));
    }
    overrides
}

/// Returns true if a word names an executable, by its path or on `PATH`.
fn is_program(word: &str) -> bool {
    let is_executable = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if word.contains('/') {
        return is_executable(Path::new(word));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(word)))
}

/// The sandbox, where a flag says something about it.
fn sandbox(
    args: &ShimArgs,
    shared: &Map<String, Value>,
    cwd: &Path,
) -> anyhow::Result<Option<Value>> {
    if args.sandbox.is_none() && args.add_dir.is_empty() {
        return Ok(None);
    }
    let mut shared = shared.clone();
    if let Some(mode) = args.sandbox {
        shared.remove("default_permissions");
        shared.insert("sandbox_mode".to_owned(), mode.word().into());
    }
    let mut policy = defaults::sandbox_policy(&shared, cwd)?;
    if let SandboxPolicy::WorkspaceWrite(write) = &mut policy {
        let more = args.add_dir.iter().map(|directory| cwd.join(directory));
        let more = more.map(|directory| directory.display().to_string());
        write.writable_roots.extend(more);
    }
    Ok(Some(serde_json::to_value(policy)?))
}

/// The shared keys of the flags, without those that stay in this process.
fn shared(flags: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut flags = flags.clone();
    flags.retain(|key, _| !KEPT_HERE.contains(&key.as_str()));
    (!flags.is_empty()).then_some(flags)
}

/// Starts git when work is preserved, and nothing before.
fn git_processes() -> anyhow::Result<ProcessService> {
    let options = turnlane_process::Options {
        begin: Begin::WhenNeeded,
        // Lists of changed files are read whole.
        retained_output_bytes_per_process: 64 * 1_048_576,
        ..turnlane_process::Options::default()
    };
    Ok(ProcessService::start(options)?)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
