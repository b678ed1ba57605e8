//! Everything below the wire: store, processes, engines, runtime and server, put together.
//!
//! The invariant here: the keeper of our processes holds the worker's lock, so that another worker
//! takes our lanes over only when nothing that we started is left.

mod fanout;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use turnlane_engine::Engine;
use turnlane_engine::codex::{AppServers, Codex, CodexOptions};
use turnlane_engine::codex_exec::{CodexExec, CodexExecLimits, CodexExecOptions};
use turnlane_engine::codex_program::{CodexProgram, CodexProgramOptions};
use turnlane_engine::native::provider::{self, Environment, KeyFile, Provider};
use turnlane_engine::native::{ConfigSource, Native, NativeConfig, NativeOptions};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_process::{AbsentMounts, Enforces as _, ProcessService};
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::method::thread_start::EngineStatus;
use turnlane_protocol::policy::BuiltinProfile;
use turnlane_runtime::{
    AfterInterrupt, CallerRights, Clock, Drain, Runtime, Settings, SystemClock, this_worker,
};
use turnlane_server::{Defaults, Facts, Key, Options, ProcessSpawn, Server, Wanted};
use turnlane_store::queue::Policies;
use turnlane_store::sqlite::{LogAtClose, SqliteStore};
use turnlane_store::{Census, Worker};

use crate::config::{Bypass, Config, ConfigFiles, EngineConfig, NATIVE, OnInterrupt, Spawn};
use crate::defaults;
use crate::home;
use crate::peers;

/// The database in our folder.
pub(crate) const DATABASE: &str = "turnlane.db";
/// Keys of providers in our folder.
pub(crate) const KEYS: &str = "keys.env";
/// The pause between two looks at whether a recovery is done.
const RECOVERY_LOOK: Duration = Duration::from_millis(20);

/// A running server without a transport.
pub(crate) struct Assembly {
    pub(crate) server: Server,
    runtime: Runtime,
    codex: AppServers,
    service: ProcessService,
}

/// As what kind of worker an assembly runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// Drains what its clients load.
    AppServer,
    /// Drains its own turn. It lives for that one turn, so it needs no connection to the store
    /// beside the one that writes.
    Exec,
    /// Drains the lane of one orchestrator's member.
    Shim,
    /// Runs the fan-out jobs that were started or resumed through it.
    Fanout,
    /// Reads and changes what is stored: queued turns wait for another worker.
    Desk,
    /// Drains all lanes of its store, from its start on.
    Serve {
        /// Where it is found.
        endpoint: &'a str,
    },
}

impl Kind<'_> {
    fn worker(self, clock: &dyn Clock) -> Worker {
        let (word, endpoint) = match self {
            Self::AppServer => ("app-server", None),
            Self::Exec => ("exec", None),
            Self::Shim => ("shim", None),
            Self::Fanout => ("fanout", None),
            Self::Desk => ("cli", None),
            Self::Serve { endpoint } => ("serve", Some(endpoint.to_owned())),
        };
        Worker {
            endpoint,
            ..this_worker(word, clock)
        }
    }

    fn drain(self) -> Drain {
        match self {
            Self::AppServer | Self::Exec | Self::Shim | Self::Fanout | Self::Desk => Drain::Loaded,
            Self::Serve { .. } => Drain::All,
        }
    }
}

/// The store of a home, opened by a worker that has not begun to work.
pub(crate) struct OpenStore {
    store: SqliteStore,
    worker: Worker,
    clock: Arc<dyn Clock>,
}

impl OpenStore {
    /// Opens the database, which is made if there is none.
    pub(crate) fn open(kind: Kind<'_>, home: &Path) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let worker = kind.worker(&*clock);
        let path = home.join(DATABASE);
        let mut options = turnlane_store::sqlite::Options::new(&path, worker.clone());
        if kind == Kind::Exec {
            options.readers = 0;
            options.log_at_close = LogAtClose::StaysShort;
        }
        let store = SqliteStore::open(options)
            .with_context(|| format!("cannot open {}", path.display()))
            .map_err(|error| home::explained(error, home))?;
        Ok(Self {
            store,
            worker,
            clock,
        })
    }
}

impl Assembly {
    /// Starts everything. When this returns, what dead workers left is decided.
    pub(crate) async fn start(
        kind: Kind<'_>,
        script: Option<&Path>,
        home: &Path,
        codex_home: Option<&Path>,
        files: ConfigFiles,
    ) -> anyhow::Result<Self> {
        let store = OpenStore::open(kind, home)?;
        Self::start_with(store, kind, script, home, codex_home, files).await
    }

    /// Starts everything on a store that is open. When this returns, what dead workers left is decided.
    pub(crate) async fn start_with(
        store: OpenStore,
        kind: Kind<'_>,
        script: Option<&Path>,
        home: &Path,
        codex_home: Option<&Path>,
        files: ConfigFiles,
    ) -> anyhow::Result<Self> {
        let config = files.current()?;
        let OpenStore {
            store,
            worker,
            clock,
        } = store;
        let service = ProcessService::start(turnlane_process::Options {
            containment: config.exec_server.containment,
            cgroup_root: config.exec_server.cgroup_root.clone(),
            // Many runs start no process; nothing started is nothing to keep.
            begin: turnlane_process::Begin::WhenNeeded,
            hold: store.worker_lock()?.into_iter().collect(),
            hidden: home::hidden(home, codex_home),
            local_sockets: config.server.local_sockets,
            absent_mounts: config.server.absent_mounts,
            key_variables: key_variables(&config.shared),
            state: Some(home::process_state(home)),
            ..turnlane_process::Options::default()
        })?;
        let configured = Arc::new(Configured {
            files,
            home: home.to_owned(),
            engine: script.map(|_| "scripted".to_owned()),
        });
        let native = Arc::new(native(&service, &configured, codex_home));
        let mut engines: Vec<Arc<dyn Engine>> = vec![Arc::clone(&native) as Arc<dyn Engine>];
        let (codex, of_codex) = codex(&config.server.engine, &service);
        engines.extend(of_codex);
        if let Some(path) = script {
            engines.push(Arc::new(scripted(path, &service)?));
        }
        let runtime = Runtime::start(
            Arc::new(store),
            engines,
            Arc::clone(&clock),
            turnlane_runtime::Options {
                fanout: fanout::of_runtime(&config, &service, home),
                ..runtime_options(&config, kind)
            },
        )
        .await?;
        let server = Server::new(Options {
            runtime: runtime.handle(),
            service: service.clone(),
            defaults: Arc::new(Answers { configured, native }),
            clock,
            home: home.to_owned(),
            cwd: std::env::current_dir().context("the current directory is gone")?,
            worker_id: worker.id.to_string().parse()?,
            process_spawn: match config.server.spawn {
                Spawn::Allow => ProcessSpawn::Allow,
                Spawn::Deny => ProcessSpawn::Deny,
            },
            on_interrupt: after_interrupt(config.server.on_interrupt),
            features: turnlane_server::features(),
            fanout: fanout::of_server(&config, kind),
            refuse_peer: Some(peers::refuse_confined(service.clone())),
        });
        Ok(Self {
            server,
            runtime,
            codex,
            service,
        })
    }

    /// What sandboxes do not hold here because the configuration says that a container does; none where
    /// they hold everything.
    pub(crate) fn weaker_sandbox(&self) -> Option<String> {
        // First: trying what this machine offers takes a process.
        if self.service.absent_mounts() == AbsentMounts::Refuse {
            return None;
        }
        let why = self.service.mounts().as_ref().err()?;
        Some(format!(
            "process.sandbox is container and mounts cannot be had here ({why}): commands run with \
             Landlock and a filter of system calls alone; they can write .git, .codex, .agents and \
             .turnlane in a workspace"
        ))
    }

    /// Waits until the engines have told what became of the turns of dead workers, at most so long.
    pub(crate) async fn recovered(&self, limit: Duration) {
        let handle = self.runtime.handle();
        let waiting = async {
            while handle.is_recovering() {
                tokio::time::sleep(RECOVERY_LOOK).await;
            }
        };
        if tokio::time::timeout(limit, waiting).await.is_err() {
            tracing::warn!("turns of a dead worker are still undecided");
        }
    }

    /// What the lanes of the store do.
    pub(crate) async fn census(&self) -> anyhow::Result<Census> {
        Ok(self.runtime.handle().store().census().await?)
    }

    /// Stops. Running turns may end by themselves for `grace`, or until `at_once` is cancelled; then the
    /// lanes cut them. When `hurry` is cancelled, the lanes drop what still runs by the rules of a crash.
    pub(crate) async fn stop(
        self,
        grace: Duration,
        at_once: &CancellationToken,
        hurry: &CancellationToken,
    ) -> anyhow::Result<()> {
        if grace.is_zero() {
            self.runtime.end_turns_now().await;
        } else {
            let ending = self.runtime.end_turns(grace);
            tokio::pin!(ending);
            let mut has_grace = true;
            loop {
                tokio::select! {
                    () = &mut ending => break,
                    () = at_once.cancelled(), if has_grace => {
                        has_grace = false;
                        self.runtime.handle().end_grace();
                    }
                    () = hurry.cancelled() => {
                        self.runtime.handle().hurry();
                        ending.await;
                        break;
                    }
                }
            }
        }
        // Before the store is closed: who asks meanwhile is answered, or finds us gone.
        self.server.stop().await;
        self.runtime.stop_now().await?;
        self.codex.stop().await;
        self.service.stop().await;
        Ok(())
    }
}

/// Whether the native engine could run a turn in `cwd`, in this process and with this configuration.
///
/// Tries what a turn needs before it begins: directory, provider, key and sandbox. It neither opens the
/// store nor writes to the home.
pub(crate) async fn check_turn(
    home: &Path,
    codex_home: Option<&Path>,
    files: ConfigFiles,
    cwd: &Path,
) -> anyhow::Result<EngineStatus> {
    let config = files.current()?;
    let settings = defaults::settings(&config, cwd, NATIVE)?;
    let service = ProcessService::start(turnlane_process::Options {
        containment: config.exec_server.containment,
        cgroup_root: config.exec_server.cgroup_root.clone(),
        begin: turnlane_process::Begin::WhenNeeded,
        hidden: home::hidden(home, codex_home),
        local_sockets: config.server.local_sockets,
        key_variables: key_variables(&config.shared),
        ..turnlane_process::Options::default()
    })?;
    let configured = Arc::new(Configured {
        files,
        home: home.to_owned(),
        engine: None,
    });
    let native = native(&service, &configured, codex_home);
    let settings = settings.for_turn(&TurnStartParams::default(), None);
    let status = native.check(&settings).await;
    service.stop().await;
    Ok(status)
}

/// The variables that the key of the configured provider comes from. A provider that cannot be read
/// fails its turns.
fn key_variables(shared: &Map<String, Value>) -> Vec<String> {
    let id = shared.get("model_provider").and_then(Value::as_str);
    let provider = Provider::read(id.unwrap_or(defaults::PROVIDER), shared, &Map::new());
    provider.map_or_else(|_| Vec::new(), |provider| provider.key_variables)
}

fn after_interrupt(on_interrupt: OnInterrupt) -> AfterInterrupt {
    match on_interrupt {
        OnInterrupt::Continue => AfterInterrupt::Continue,
        OnInterrupt::Pause => AfterInterrupt::Pause,
    }
}

fn runtime_options(config: &Config, kind: Kind<'_>) -> turnlane_runtime::Options {
    let server = &config.server;
    turnlane_runtime::Options {
        drain: kind.drain(),
        max_running: match kind {
            Kind::Desk => 0,
            Kind::AppServer | Kind::Exec | Kind::Shim | Kind::Fanout | Kind::Serve { .. } => {
                server.max_running
            }
        },
        unload_after: server.unload_after,
        dedupe_window: server.dedupe_window,
        retention: match kind {
            Kind::Serve { .. } => server.retention,
            Kind::AppServer | Kind::Exec | Kind::Shim | Kind::Fanout | Kind::Desk => None,
        },
        losses_max: server.poison_limit,
        approval_timeout: server.approval_timeout,
        unattended_timeout: server.unattended_timeout,
        on_interrupt: after_interrupt(server.on_interrupt),
        turn_timeout: server.engine.turn_timeout,
        turns: match server.spawn {
            Spawn::Allow => CallerRights::Unconfined,
            Spawn::Deny => CallerRights::Confined,
        },
        ..turnlane_runtime::Options::default()
    }
}

fn now_ms() -> i64 {
    SystemClock.now_ms()
}

fn native(
    service: &ProcessService,
    configured: &Arc<Configured>,
    codex_home: Option<&Path>,
) -> Native {
    Native::new(NativeOptions {
        service: service.clone(),
        config: Arc::clone(configured) as Arc<dyn ConfigSource>,
        clock: Arc::new(now_ms),
        variables: Arc::new(|name| std::env::var(name).ok()),
        turnlane_home: configured.home.clone(),
        codex_home: codex_home.map(Path::to_owned),
    })
}

/// How both engines that run Codex start it.
pub(crate) fn codex_options(
    engine: &EngineConfig,
    service: &ProcessService,
) -> CodexProgramOptions {
    CodexProgramOptions {
        service: service.clone(),
        program: engine.codex_program.as_ref().map(PathBuf::from),
        environment: std::env::vars_os().collect(),
        env_remove: engine.env_remove.clone(),
    }
}

/// The engines that run Codex. They share its app-server children, by which `codex-exec` reads back what
/// became of a turn.
fn codex(config: &EngineConfig, service: &ProcessService) -> (AppServers, [Arc<dyn Engine>; 2]) {
    let program = CodexProgram::new(codex_options(config, service));
    let servers = AppServers::new(program.clone(), config.codex_children, Arc::new(now_ms));
    let exec = CodexExec::new(CodexExecOptions {
        program,
        bypass: config.codex_exec_bypass == Bypass::Allowed,
        clock: Arc::new(now_ms),
        limits: CodexExecLimits::default(),
        history: Some(Arc::new(servers.clone())),
        temporary: std::env::temp_dir(),
    });
    let codex = Codex::new(CodexOptions {
        servers: servers.clone(),
        clock: Arc::new(now_ms),
    });
    (servers, [Arc::new(codex), Arc::new(exec)])
}

fn scripted(path: &Path, service: &ProcessService) -> anyhow::Result<Scripted> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let script = Script::parse(&path.display().to_string(), &text, AbortSteps::Refused)?;
    Ok(Scripted::new(script, Arc::new(now_ms)).with_processes(service.clone()))
}

/// What the configuration says, whenever somebody asks.
struct Configured {
    files: ConfigFiles,
    home: PathBuf,
    /// The engine of this run, whatever is configured.
    engine: Option<String>,
}

impl ConfigSource for Configured {
    fn current(&self) -> Result<Arc<NativeConfig>, String> {
        // Each turn again: keys, instructions and hooks are read from the home while the server runs.
        home::check(&self.home).map_err(|fault| fault.to_string())?;
        let config = self.files.current().map_err(|error| format!("{error:#}"))?;
        let keys = KeyFile::read(&self.home.join(KEYS)).map_err(|error| error.to_string())?;
        let mut shared = config.shared.clone();
        let native = match shared.remove("native") {
            Some(Value::Object(native)) => native,
            _ => Map::new(),
        };
        Ok(Arc::new(NativeConfig {
            shared,
            native,
            keys,
        }))
    }

    fn key_file(&self) -> Option<PathBuf> {
        Some(self.home.join(KEYS))
    }
}

impl Configured {
    /// Whether the configured provider has its key, and where it is looked for.
    fn key(&self, shared: &Map<String, Value>) -> (Key, Vec<String>) {
        let id = shared.get("model_provider").and_then(Value::as_str);
        let id = id.unwrap_or(defaults::PROVIDER);
        let provider = Provider::read(id, shared, &Map::new());
        let keys = KeyFile::read(&self.home.join(KEYS));
        let (Ok(provider), Ok(keys)) = (provider, keys) else {
            return (Key::Absent, Vec::new());
        };
        let variables = |name: &str| std::env::var(name).ok();
        let environment = Environment {
            variables: &variables,
            keys: &keys,
        };
        let names = provider.key_variables;
        let key = if names.is_empty() {
            Key::NotNeeded
        } else if names.iter().any(|name| environment.get(name).is_some()) {
            Key::Present
        } else {
            Key::Absent
        };
        (key, names)
    }
}

/// What callers get where they are silent.
struct Answers {
    configured: Arc<Configured>,
    native: Arc<Native>,
}

impl Answers {
    fn engine_of(&self, wanted: &Wanted<'_>) -> String {
        let named = wanted.engine.map(str::to_owned);
        named.unwrap_or_else(|| self.engine())
    }

    /// A caller who names a provider that nothing describes is told before a thread is made. One that
    /// only the configuration names fails the turn instead, since others ask for settings too.
    fn check_named(&self, wanted: &Wanted<'_>, config: &Config) -> Result<(), String> {
        let of_config = || wanted.config?.get("model_provider")?.as_str();
        let Some(id) = wanted.provider.or_else(of_config) else {
            return Ok(());
        };
        if self.engine_of(wanted) != NATIVE {
            return Ok(());
        }
        match Provider::read(id, &config.shared, &Map::new()) {
            Err(error @ provider::Error::NotFound { .. }) => Err(error.to_string()),
            // What else is wrong with it is the status of the engine.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

impl Defaults for Answers {
    fn settings(&self, wanted: Wanted<'_>) -> Result<Settings, String> {
        let config = self
            .configured
            .files
            .current()
            .map_err(|error| format!("{error:#}"))?;
        let has = |key: &str| wanted.config.is_some_and(|keys| keys.contains_key(key));
        if has("default_permissions") && has("sandbox_mode") {
            let text = "`default_permissions` cannot be combined with `sandbox_mode`";
            return Err(text.to_owned());
        }
        let config = config.with(wanted.config);
        self.check_named(&wanted, &config)?;
        let settings = defaults::settings(&config, Path::new(wanted.cwd), &self.engine_of(&wanted));
        settings.map_err(|error| format!("{error:#}"))
    }

    fn permission_profile(&self, id: &str) -> Result<BuiltinProfile, String> {
        let config = self.configured.files.current();
        let config = config.map_err(|error| format!("{error:#}"))?;
        defaults::profile(&config.shared, id).map_err(|error| format!("{error:#}"))
    }

    fn check_rules(&self, cwd: Option<&str>) -> Result<(), String> {
        if self.engine() != NATIVE {
            return Ok(());
        }
        self.native.check_rules(cwd)
    }

    fn engine(&self) -> String {
        let configured = || match self.configured.files.current() {
            Ok(config) => config.server.engine.default.clone(),
            Err(_) => NATIVE.to_owned(),
        };
        self.configured.engine.clone().unwrap_or_else(configured)
    }

    fn queue_max_depth(&self) -> u32 {
        let config = self.configured.files.current();
        config.map_or(1_000, |config| config.server.max_depth)
    }

    fn queue_policies(&self) -> Policies {
        let config = self.configured.files.current();
        config.map_or_else(|_| Policies::default(), |config| config.server.policies)
    }

    fn instruction_sources(&self, cwd: &str) -> Vec<String> {
        let found = self.native.instruction_sources(cwd);
        found
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    }

    fn facts(&self, cwd: Option<&str>) -> Facts {
        let _ = cwd;
        let shared = self
            .configured
            .files
            .current()
            .map(|config| config.shared.clone());
        let shared = shared.unwrap_or_default();
        let text = |key: &str, default: &str| {
            let given = shared.get(key).and_then(Value::as_str);
            given.unwrap_or(default).to_owned()
        };
        let (key, key_variables) = self.configured.key(&shared);
        Facts {
            model: text("model", defaults::MODEL),
            provider: text("model_provider", defaults::PROVIDER),
            effort: shared
                .get("model_reasoning_effort")
                .and_then(Value::as_str)
                .map(str::to_owned),
            key,
            key_variables,
            config: shared,
            ..Facts::default()
        }
    }
}
