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

use super::footprint::Footprints;

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
    pub(super) footprints: Footprints,
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
            let (spawner, found, footprints) = spawner(options, self.mark, runtime)?;
            self.set(Ok(spawner), found, footprints);
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
            Some(Ok((spawner, found, footprints))) => self.set(Ok(spawner), found, footprints),
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
        self.set(Err(reason), found, Footprints::default())
    }

    fn set(
        &self,
        spawner: Result<Spawner, String>,
        found: Found,
        footprints: Footprints,
    ) -> &Begun {
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
            Begun {
                spawner,
                footprints,
                report,
            }
        })
    }
}

fn spawner(
    mut options: Options,
    mark: Mark,
    runtime: &Handle,
) -> Result<(Spawner, Found, Footprints), StartError> {
    let _inside = runtime.enter();
    let footprints = footprints(&mut options);
    let (spawner, found) = Spawner::start(&mut options, mark)?;
    Ok((spawner, found, footprints))
}

/// What was left by others is removed, and the keeper gets our lock. A state directory that cannot be
/// used costs shared memory and the clean-up after a kill, not the service.
fn footprints(options: &mut Options) -> Footprints {
    let Some(state) = options.state.take() else {
        return Footprints::default();
    };
    let made = Footprints::in_directory(&state).and_then(|made| {
        options.hold.extend(made.lock()?);
        Ok(made)
    });
    made.unwrap_or_else(|error| {
        tracing::warn!(%error, "the state directory of processes cannot be used");
        Footprints::default()
    })
}
