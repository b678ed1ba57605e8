//! The service: starts processes, knows them all, and ends them when it stops.
//!
//! A spawn is prepared on the caller's task, done by the spawning thread and taken over by a driver
//! on the service's runtime; whatever fails on the way leaves nothing behind. What a process does
//! from then on is between its driver and its handles.

mod beginning;
mod counts;
mod footprint;
mod registry;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::time::timeout;

pub(crate) use footprint::Footprint;
pub(crate) use registry::{Registry, Slot};

use beginning::{Beginning, Begun};
use footprint::SharedMemory;

use crate::contain::{Defaults, Request, Running};
use crate::descriptors::DescriptorLog;
use crate::driver::{Driver, Ends, Order, Shared, State};
use crate::environment::{ServiceEnv, SocketNames};
use crate::error::{SpawnError, SpawnErrorKind, StartError};
use crate::input::Input;
use crate::launch;
use crate::mark::{Mark, Marking};
use crate::options::{Begin, Options};
use crate::output::Store;
use crate::peer::{self, SocketPeer};
use crate::process::Process;
use crate::report::{Confined, Enforces, Listed, MountsBy, ProcessInfo, Report};
use crate::sandbox::{AbsentMounts, LocalSockets, Sandbox, Surroundings};
use crate::spec::{Io, Spec};

/// How long a stop waits for what was killed, before it leaves that to the keeper.
const KILLED_MAX: Duration = Duration::from_secs(6);

/// Starts and knows processes. Clones are the same service; dropping the last one ends everything.
#[derive(Clone)]
pub struct ProcessService {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Arc<Registry>,
    beginning: Beginning,
    /// The service's own environment, as it was at the start.
    env: ServiceEnv,
    /// The mark that the processes of this service are known by.
    mark: Mark,
    hidden: Vec<PathBuf>,
    local_sockets: LocalSockets,
    absent_mounts: AbsentMounts,
    retained_bytes: usize,
    grace: Duration,
    now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    is_stopping: AtomicBool,
    stopped: OnceCell<()>,
    descriptor_log: DescriptorLog,
}

/// Counts since the start of the service, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processes started.
    pub spawned: u64,
    /// Bytes read from standard output, standard error and terminals.
    pub output_bytes: [u64; 3],
    /// Processes whose child waits because nobody takes its output.
    pub stalled: usize,
    /// Bytes retained of all processes.
    pub retained_bytes: usize,
    /// Ended leaders by reason, in the order of [`crate::Reason`].
    pub ends: [u64; 5],
    /// Members that could not be killed.
    pub unkillable: u64,
}

impl ProcessService {
    /// Starts the service, and with it, unless the options say later, the trials of the machine, the
    /// spawning thread and the keeper. Must be called inside a tokio runtime with I/O and time, on
    /// which the drivers then run. Blocks for the time of a few spawns.
    pub fn start(mut options: Options) -> Result<Self, StartError> {
        let runtime = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let registry = Registry::new(
            runtime.clone(),
            options.retain_after_exit,
            options.retained_bytes_max,
            options.processes_max,
        );
        // Whoever asks for a containment is told at once that it is absent.
        let begin = match options.containment {
            Some(_) => Begin::AtStart,
            None => options.begin,
        };
        let mark = Mark::choose();
        let inner = Inner {
            registry: Arc::new(registry),
            env: ServiceEnv {
                vars: std::env::vars_os().collect(),
                pass: std::mem::take(&mut options.env_pass),
                keys: std::mem::take(&mut options.key_variables),
            },
            mark,
            hidden: std::mem::take(&mut options.hidden),
            local_sockets: options.local_sockets,
            absent_mounts: options.absent_mounts,
            retained_bytes: options.retained_output_bytes_per_process,
            grace: options.shutdown_grace,
            now_ms: Arc::clone(&options.now_ms),
            beginning: Beginning::new(options, mark),
            is_stopping: AtomicBool::new(false),
            stopped: OnceCell::new(),
            descriptor_log: DescriptorLog::default(),
        };
        match begin {
            Begin::AtStart => inner.beginning.at_start(&runtime)?,
            Begin::WhenNeeded => {}
        }
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Starts a process. Cancelled, it leaves nothing behind.
    pub async fn spawn(&self, spec: Spec) -> Result<Process, SpawnError> {
        // Boxed: a future that holds another one with its own copy of the spec is large.
        let spawned = Box::pin(self.try_spawn(spec)).await;
        if let Err(error) = &spawned {
            self.inner.descriptor_log.note(error);
        }
        spawned
    }

    async fn try_spawn(&self, spec: Spec) -> Result<Process, SpawnError> {
        let slot = self.inner.registry.admit()?;
        let begun = self.begun().await?;
        let spawner = begun.spawner()?;
        let prepared = self.inner.prepare(&spec, begun)?;
        let running = spawner.spawn(prepared.request).await?;
        self.inner
            .take_over(spec, running, prepared.ends, prepared.kept, slot)
    }

    /// Paths that no sandboxed process may see.
    pub fn hidden(&self) -> &[PathBuf] {
        &self.inner.hidden
    }

    /// What processes are started with. Cancelled, it is there for the next one.
    async fn begun(&self) -> Result<&Begun, SpawnError> {
        if let Some(begun) = self.inner.beginning.begun() {
            return Ok(begun);
        }
        let inner = Arc::clone(&self.inner);
        let runtime = self.inner.registry.runtime();
        let beginning = runtime.spawn_blocking(move || {
            inner.beginning.when_needed(inner.registry.runtime());
        });
        let ended = beginning.await.err();
        self.inner.beginning.begun().ok_or_else(|| {
            let why = ended.map(|error| error.to_string()).unwrap_or_default();
            SpawnError::new(SpawnErrorKind::Other).because(why)
        })
    }

    /// All processes, oldest first: running ones and those whose output is still kept.
    pub fn list(&self) -> Vec<Listed> {
        let all = self.inner.registry.all();
        all.iter().map(|shared| shared.listed()).collect()
    }

    /// What this machine offers and why something better is absent. Found by trying: for a service
    /// that begins when needed, the first call begins, and blocks for the time of a few spawns.
    pub fn report(&self) -> &Report {
        let Inner {
            beginning,
            registry,
            ..
        } = &*self.inner;
        &beginning.when_needed(registry.runtime()).report
    }

    /// Counts since the start. Looks at every process.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.inner.registry.counts.fill(&mut counters);
        for shared in self.inner.registry.all() {
            let state = shared.lock();
            let waits = state.is_stalled && state.store.closed().is_none();
            counters.stalled += usize::from(waits);
            counters.retained_bytes += state.store.kept_charge();
        }
        counters
    }

    /// Returns whether the client at the other end of a connection descends from a process that this
    /// or any other service on this machine started under an enforced policy. A client that cannot be
    /// identified any more counts as one. Blocks: for a TCP client of this machine it looks at the
    /// descriptors of every process of this user, which takes some milliseconds.
    pub fn is_confined_peer(&self, peer: SocketPeer) -> bool {
        peer::is_confined(peer, &self.inner.mark)
    }

    /// Ends everything gracefully within the grace period and waits for it. New spawns fail. Called
    /// again while it runs: force. Cancelled, the ends go on but nobody waits for them.
    pub async fn stop(&self) {
        let registry = &self.inner.registry;
        let is_first = !self.inner.is_stopping.swap(true, Ordering::AcqRel);
        let live = registry.stop();
        if is_first {
            let order = Order::Graceful {
                interrupt: Duration::ZERO,
                term: self.inner.grace,
            };
            for shared in &live {
                shared.order(order);
            }
            drop(live);
            if timeout(self.inner.grace, registry.emptied()).await.is_err() {
                force(&registry.stop());
            }
        } else {
            force(&live);
        }
        if timeout(KILLED_MAX, registry.emptied()).await.is_err() {
            tracing::error!("processes could not be ended before the service stopped");
        }
        let end = async {
            if self.inner.beginning.stop_unbegun() {
                return;
            }
            let inner = Arc::clone(&self.inner);
            // The thread is joined and the keeper waited for; that is no work for a worker.
            let stopped = registry
                .runtime()
                .spawn_blocking(move || inner.beginning.stop());
            if let Err(error) = stopped.await {
                tracing::error!(%error, "the spawning thread could not be stopped");
            }
        };
        self.inner.stopped.get_or_init(|| end).await;
    }
}

/// Everything there is before the child.
struct Prepared {
    request: Request,
    ends: Ends,
    kept: ProcessBelongings,
}

/// What stays with the process until nobody of it is left.
struct ProcessBelongings {
    confined: Confined,
    footprint: Footprint,
}

impl Inner {
    /// Everything that can fail before there is a child.
    fn prepare(&self, spec: &Spec, begun: &Begun) -> Result<Prepared, SpawnError> {
        let sockets = match spec.sandbox {
            Sandbox::DangerFullAccess | Sandbox::ExternalSandbox { network: true } => {
                SocketNames::Pass
            }
            _ => SocketNames::Drop,
        };
        let env = spec.env.build(&self.env, sockets);
        let tmpdir = env.iter().find(|(name, _)| name == "TMPDIR");
        let tmpdir = tmpdir.map(|(_, value)| value.clone());
        let mut plan = launch::prepare(spec, env)?;
        let (child_ends, our_ends) = launch::open_ends(spec.io, spec.delivery)?;
        let shared_memory = match spec.sandbox {
            Sandbox::WorkspaceWrite { .. } | Sandbox::Custom { .. } => {
                begun.footprints.shared_memory()
            }
            Sandbox::ReadOnly { .. }
            | Sandbox::DangerFullAccess
            | Sandbox::ExternalSandbox { .. } => None,
        };
        let around = Surroundings {
            tmpdir: tmpdir.as_deref().map(Path::new),
            pts: our_ends.pts.as_deref(),
            hidden: &self.hidden,
            root_links: spec.root_links,
            shared_memory: shared_memory.as_ref().map(SharedMemory::path),
            local_sockets: self.local_sockets,
            absent_mounts: self.absent_mounts,
            mount_points: &begun.footprints.mount_points,
        };
        let machine = self.beginning.probed.machine();
        let confinement = machine.confine(&spec.sandbox, around)?;
        plan.restrictions = confinement.restrictions;
        let (marking, default_limits) = if confinement.confined.is_enforced() {
            (Marking::Confined, Defaults::Apply)
        } else {
            (Marking::Open, Defaults::Skip)
        };
        plan.rlimits.extend(self.mark.rlimit(marking));
        if default_limits == Defaults::Apply
            && let Some(begun) = self.beginning.begun()
        {
            begun.report.default_limits.apply(&mut plan, &spec.limits);
        }
        let request = Request {
            plan,
            ends: child_ends,
            ruleset: confinement.ruleset,
            containment: spec.containment,
            memory_max: spec.limits.memory_max,
            pids_max: spec.limits.pids_max,
            default_limits,
        };
        let _inside = self.registry.runtime().enter();
        let ends = Ends::watch(our_ends).map_err(|error| {
            let refused = SpawnError::new(SpawnErrorKind::ResourceLimit);
            refused.os(error.raw_os_error().unwrap_or(0))
        })?;
        Ok(Prepared {
            request,
            ends,
            kept: ProcessBelongings {
                confined: confinement.confined,
                footprint: Footprint::new(confinement.mount_points, shared_memory),
            },
        })
    }

    /// Gives a started process its driver. Nothing here waits, so that it cannot be cancelled.
    fn take_over(
        &self,
        spec: Spec,
        running: Running,
        ends: Ends,
        kept: ProcessBelongings,
        slot: Slot,
    ) -> Result<Process, SpawnError> {
        let running = Arc::new(running);
        let input = if ends.has_input() {
            Input::open()
        } else {
            Input::closed()
        };
        let store = Store::new(spec.io, spec.delivery, self.retained_bytes);
        let size = match spec.io {
            Io::Pty(size) => Some(size),
            Io::Pipe { .. } => None,
        };
        let mut state = State::new(store, input, size);
        state.running = Some(Arc::clone(&running));
        state.terminal = ends.terminal();
        let info = ProcessInfo {
            pid: running.pid(),
            containment: running.kind(),
            sandbox: kept.confined,
            started_at_ms: (self.now_ms)(),
        };
        let shared = self.registry.enter(|id| {
            Arc::new(Shared {
                id,
                info,
                argv0: spec.argv.into_iter().next().unwrap_or_default(),
                cwd: spec.cwd,
                io: spec.io,
                ends_on_drop: spec.end_on_drop,
                registry: Arc::clone(&self.registry),
                state: Mutex::new(state),
                ended: tokio::sync::Notify::new(),
                arrived: tokio::sync::Notify::new(),
            })
        })?;
        self.registry.counts.spawned();
        let driver = Driver::new(
            Arc::clone(&shared),
            running,
            ends,
            spec.timeout,
            spec.survivors,
            kept.footprint,
            slot,
        );
        self.registry.runtime().spawn(driver);
        Ok(Process::new(shared))
    }
}

impl Drop for Inner {
    /// The last handle of the service is gone: everything is killed before this returns.
    fn drop(&mut self) {
        force(&self.registry.stop());
        self.registry.clear();
        if !self.stopped.initialized() {
            self.beginning.stop();
        }
    }
}

impl Enforces for ProcessService {
    /// Tried at the first call, which blocks for the time of a spawn; so are the others.
    fn landlock(&self) -> &Result<u32, String> {
        self.inner.beginning.probed.landlock()
    }

    fn seccomp(&self) -> &Result<(), String> {
        self.inner.beginning.probed.seccomp()
    }

    fn mounts(&self) -> &Result<MountsBy, String> {
        self.inner.beginning.probed.mounts()
    }

    fn hidden(&self) -> &[PathBuf] {
        &self.inner.hidden
    }

    fn absent_mounts(&self) -> AbsentMounts {
        self.inner.absent_mounts
    }
}

impl fmt::Debug for ProcessService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessService")
            .field(
                "report",
                &self.inner.beginning.begun().map(|begun| &begun.report),
            )
            .finish_non_exhaustive()
    }
}

fn force(processes: &[Arc<Shared>]) {
    for shared in processes {
        shared.force();
    }
}

/// The service of [`spawn`], and whether the runtime it runs on is still there.
static DEFAULT: Mutex<Option<(ProcessService, Weak<()>)>> = Mutex::new(None);

/// Starts a process on a default service of this program. The first call starts the service, on its
/// own runtime; when that runtime is gone, the next call starts another.
pub async fn spawn(spec: Spec) -> Result<Process, SpawnError> {
    default_service()?.spawn(spec).await
}

fn default_service() -> Result<ProcessService, SpawnError> {
    let mut default = DEFAULT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((service, runtime)) = &*default
        && runtime.strong_count() > 0
    {
        return Ok(service.clone());
    }
    let service = ProcessService::start(Options::default())
        .map_err(|error| SpawnError::new(SpawnErrorKind::Other).because(error.to_string()))?;
    // Dropped with the runtime: a task that never ends.
    let alive = Arc::new(());
    let runtime = Arc::downgrade(&alive);
    service.inner.registry.runtime().spawn(async move {
        std::future::pending::<()>().await;
        drop(alive);
    });
    *default = Some((service.clone(), runtime));
    Ok(service)
}
