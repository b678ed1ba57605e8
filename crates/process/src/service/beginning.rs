//! What a service starts once: keeper, spawning thread and trials, with the service or when needed.
//!
//! The invariant here: no process without them, and none of them after the stop. The descriptors that
//! the keeper is to hold are open from the start of the service on: until there is a keeper they are
//! held here, and when there never is one, nothing was started that would have to be outlived.
//!
//! How a process is started is the spawner's business.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use tokio::runtime::Handle;

use crate::contain::{Found, Spawner};
use crate::default_limits::{DefaultLimits, Mechanisms};
use crate::error::{SpawnError, SpawnErrorKind, StartError};
use crate::mark::Mark;
use crate::options::Options;
use crate::report::{ContainmentKind, Report};
use crate::sandbox::Probed;

pub(super) struct Beginning {
    /// Taken by whoever begins, or by the stop.
    options: Mutex<Option<Options>>,
    begun: OnceLock<Begun>,
    mark: Mark,
    default_limits: DefaultLimits,
    pub(super) probed: Probed,
}

/// What there is from then on.
pub(super) struct Begun {
    spawner: Result<Spawner, String>,
    pub(super) report: Report,
}

impl Begun {
    pub(super) fn spawner(&self) -> Result<&Spawner, SpawnError> {
        self.spawner.as_ref().map_err(|reason| {
            SpawnError::new(SpawnErrorKind::ContainmentUnavailable).because(reason.clone())
        })
    }
}

impl Beginning {
    pub(super) fn new(options: Options, mark: Mark) -> Self {
        Self {
            mark,
            default_limits: options.default_limits,
            options: Mutex::new(Some(options)),
            begun: OnceLock::new(),
            probed: Probed::default(),
        }
    }

    /// What there is so far.
    pub(super) fn begun(&self) -> Option<&Begun> {
        self.begun.get()
    }

    /// Starts everything, or says why that cannot be. Blocks for the time of a few spawns.
    pub(super) fn at_start(&self, runtime: &Handle) -> Result<(), StartError> {
        let mut options = self.lock();
        if let Some(options) = options.take() {
            let (spawner, found) = spawner(options, self.mark, runtime)?;
            self.set(Ok(spawner), found);
        }
        Ok(())
    }

    /// Starts everything unless that was done or the service has stopped; what failed has failed for
    /// good. Blocks for the time of a few spawns.
    pub(super) fn when_needed(&self, runtime: &Handle) -> &Begun {
        if let Some(begun) = self.begun.get() {
            return begun;
        }
        let mut options = self.lock();
        let begun = match options
            .take()
            .map(|options| spawner(options, self.mark, runtime))
        {
            Some(Ok((spawner, found))) => self.set(Ok(spawner), found),
            Some(Err(error)) => self.failed(error.to_string()),
            // Begun while we waited for the lock, or stopped before anybody began.
            None => match self.begun.get() {
                Some(begun) => begun,
                None => self.failed("the service has stopped".to_owned()),
            },
        };
        drop(options);
        begun
    }

    /// Whether nothing was started and nothing will be.
    pub(super) fn stop_unbegun(&self) -> bool {
        let mut options = match self.options.try_lock() {
            Ok(options) => options,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        options.take();
        self.begun.get().is_none()
    }

    /// Ends what was started, waiting for a beginning that is under way. Blocks.
    pub(super) fn stop(&self) {
        self.lock().take();
        if let Some(Begun {
            spawner: Ok(spawner),
            ..
        }) = self.begun.get()
        {
            spawner.stop();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Options>> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, reason: String) -> &Begun {
        let better = [ContainmentKind::Cgroup, ContainmentKind::Reaper];
        let found = Found {
            kind: ContainmentKind::Group,
            absent: better.map(|kind| (kind, reason.clone())).to_vec(),
            cgroup_root: None,
            controllers: Vec::new(),
            default_controllers: Vec::new(),
        };
        self.set(Err(reason), found)
    }

    fn set(&self, spawner: Result<Spawner, String>, found: Found) -> &Begun {
        self.begun.get_or_init(|| {
            let machine = self.probed.machine();
            let default_limits = self.default_limits.report(Mechanisms {
                containment: found.kind,
                controllers: &found.default_controllers,
                mounts: &machine.mounts,
            });
            let report = Report {
                containment: found.kind,
                containment_absent: found.absent,
                cgroup_root: found.cgroup_root,
                cgroup_controllers: found.controllers,
                landlock: machine.landlock.clone(),
                seccomp: machine.seccomp.clone(),
                mounts: machine.mounts.clone(),
                default_limits,
            };
            Begun { spawner, report }
        })
    }
}

fn spawner(
    mut options: Options,
    mark: Mark,
    runtime: &Handle,
) -> Result<(Spawner, Found), StartError> {
    let _inside = runtime.enter();
    Spawner::start(&mut options, mark)
}
