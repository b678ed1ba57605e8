//! The door to the spawning thread: what a service asks for when it wants a process.
//!
//! The invariant here: nothing is started for nobody. A spawn that is cancelled, wherever it stands,
//! gives its cgroup back and ends its child.
//!
//! # Theory of operation
//!
//! One thread lives as long as the service, because the kernel ends a leader when the *thread* that
//! cloned it dies. It is asked through one channel of [`REQUESTS_MAX`] and clones one child after the
//! other; everything else of a spawn (taking a cgroup, closing the child's ends, watching its end)
//! happens in the task that asked. Under `reaper` that task asks the keeper itself and the thread
//! only starts a new keeper when one died. A task watches the keeper. The thread ends when the
//! service stops; the task when the keeper dies or the service stops.

mod orphan_sweep;
mod shared;
mod thread;

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::cgroup::Bounds;
use super::running::Place;
use super::watched::{Steady, Watched, poll_start, watch};
use super::{Defaults, Found, Request, Running};
use crate::error::{SpawnError, SpawnErrorKind, StartError};
use crate::mark::Mark;
use crate::options::Options;
use crate::report::ContainmentKind;
use crate::spec::Containment;
use shared::Kept;
pub(super) use shared::Shared;
use thread::{Answer, Entrance, Failed, Job, Message};

/// Requests that wait for the thread; further spawns wait in their own tasks.
const REQUESTS_MAX: usize = 64;

/// How long a stop waits for members to be gone, at most. They were killed; what is still there then
/// is stuck in the kernel and left to the keeper.
const STOP_MAX: Duration = Duration::from_secs(2);

/// The spawning thread, the keeper and the cgroups of one service.
#[derive(Debug)]
pub(crate) struct Spawner {
    kind: ContainmentKind,
    requests: mpsc::Sender<Message>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What came of asking the thread.
enum Asked {
    Started(Running),
    /// The entrance was shut before the clone; with another one it will do.
    Again(Request),
}

impl Spawner {
    /// Probes, starts thread and keeper. Takes the descriptors to hold out of the options. Blocks
    /// until the trials are over. `mark` is what its processes are known by.
    pub(crate) fn start(options: &mut Options, mark: Mark) -> Result<(Self, Found), StartError> {
        let handle = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let settings = thread::Settings {
            containment: options.containment,
            cgroup_root: options.cgroup_root.clone(),
            keeper: options.keeper.clone(),
            hold: std::mem::take(&mut options.hold),
            handle,
            mark,
            default_limits: options.default_limits,
            nudge: requests.downgrade(),
        };
        let (answer, started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("turnlane-spawn".to_owned())
            .spawn(move || thread::run(settings, receiver, &answer))?;
        let (shared, found) = match started.recv() {
            Ok(started) => started?,
            Err(_) => return Err(std::io::Error::other("the spawning thread died").into()),
        };
        let spawner = Self {
            kind: found.kind,
            requests,
            shared,
            thread: Mutex::new(Some(thread)),
        };
        Ok((spawner, found))
    }

    /// Starts a child on the spawning thread. Cancelled, it leaves nothing behind: a child that was
    /// started for nobody is ended.
    pub(crate) async fn spawn(&self, request: Request) -> Result<Running, SpawnError> {
        let bounds = Bounds {
            memory_max: request.memory_max,
            pids_max: request.pids_max,
        };
        if request.containment == Containment::Tree && self.kind == ContainmentKind::Reaper {
            bounds.refuse()?;
            return self.ask_keeper(request).await;
        }
        let mut request = request;
        loop {
            let entrance = self.entrance(&request, bounds)?;
            match self.ask(request, entrance).await? {
                Asked::Started(running) => return Ok(running),
                Asked::Again(again) => request = again,
            }
        }
    }

    /// Where a child of the spawning thread is to be cloned into.
    fn entrance(&self, request: &Request, bounds: Bounds) -> Result<Entrance, SpawnError> {
        let Some(tree) = self.shared.tree() else {
            return match request.containment {
                Containment::Tree => Err(unavailable(
                    "this machine has only process groups, which do not hold every descendant",
                )),
                Containment::Group => bounds.refuse().map(|()| Entrance::default()),
            };
        };
        // Read first: an end of everybody in between shuts this entrance.
        let kills = tree.kills();
        let (place, dir) = match request.containment {
            Containment::Tree => {
                let bounds = match request.default_limits {
                    Defaults::Apply => bounds.or(tree.defaults()),
                    Defaults::Skip => bounds,
                };
                let (slot, dir) = tree.take(bounds)?;
                (Place::Cgroup(slot), dir)
            }
            Containment::Group => {
                bounds.refuse()?;
                (Place::Common, tree.common()?)
            }
        };
        Ok(Entrance {
            place,
            dir: Some(dir),
            kills,
        })
    }

    /// A child of the spawning thread.
    async fn ask(&self, request: Request, entrance: Entrance) -> Result<Asked, SpawnError> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            request,
            entrance,
            reply,
        };
        let sent = self.requests.send(Message::Start(Box::new(job))).await;
        sent.map_err(|_| stopped())?;
        // Request and directory come back so that they are closed and freed here, not on the thread.
        let Answer {
            request,
            result,
            dir,
        } = answer.await.map_err(|_| stopped())?;
        drop(dir);
        let running = match result {
            Ok(running) => running,
            Err(Failed::Shut) => return Ok(Asked::Again(request)),
            Err(Failed::Launch(error, _place)) => return Err(error.explain(&request.plan)),
            Err(Failed::Keeper(reason)) => return Err(unavailable(reason)),
        };
        drop(request);
        let _runtime = self.shared.handle().enter();
        running.watch().map_err(|error| no_watch(&error))?;
        Ok(Asked::Started(running))
    }

    /// A process in a holder of the keeper.
    async fn ask_keeper(&self, request: Request) -> Result<Running, SpawnError> {
        let mut kept = self.keeper(None).await?;
        let starting = loop {
            let ruleset = request.ruleset.as_ref().map(AsFd::as_fd);
            match kept.keeper.begin(&request.plan, &request.ends, ruleset) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let room = kept.keeper.room().map_err(|error| not_started(&error))?;
                    let room = self.watched(room, Interest::WRITABLE)?;
                    drop(room.writable().await.map_err(|error| not_started(&error))?);
                }
                // It died just now, with nothing started: the next one takes it.
                Err(error) if is_broken(&error) => {
                    kept = self.keeper(Some(kept.generation)).await?;
                }
                begun => break begun.map_err(|error| not_started(&error))?,
            }
        };
        let mut starting = self.watched(starting, Interest::READABLE)?;
        let held = loop {
            // Cleared before the receive, so that a result in between is reported again.
            starting
                .readable()
                .await
                .map_err(|error| not_started(&error))?
                .clear_ready();
            if let Some(result) = poll_start(&mut starting).map_err(|error| not_started(&error))? {
                break result.map_err(|error| error.explain(&request.plan))?;
            }
        };
        drop(starting);
        let held = self.watched(held, Interest::READABLE)?;
        Ok(Running::held(
            held,
            kept.generation,
            Arc::clone(&self.shared),
        ))
    }

    fn watched<T: Steady>(&self, inner: T, interest: Interest) -> Result<Watched<T>, SpawnError> {
        let _runtime = self.shared.handle().enter();
        watch(inner, interest).map_err(|failed| no_watch(&failed.error))
    }

    /// The keeper in office, waited for if the last one died; `dead` is one that certainly did.
    async fn keeper(&self, dead: Option<u64>) -> Result<Kept, SpawnError> {
        if let Some(kept) = self.shared.link() {
            if dead != Some(kept.generation) && !kept.keeper.is_dead() {
                return Ok(kept);
            }
            self.shared.keeper_died(kept.generation);
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(Message::Renew(reply)).await;
        sent.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?.map_err(unavailable)
    }

    /// Ends whatever is left, removes the cgroups, lets the keeper go and joins the thread. New
    /// spawns fail. Again: nothing. May block briefly.
    pub(crate) fn stop(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            self.shared.stop();
            // A full channel keeps the thread awake as well.
            let _ = self.requests.try_send(Message::Look);
            if thread.join().is_err() {
                tracing::error!("the spawning thread panicked");
            }
        }
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The keeper's or the system's error, before anything was started.
fn not_started(error: &std::io::Error) -> SpawnError {
    let kind = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS | libc::ETOOMANYREFS) => {
            SpawnErrorKind::ResourceLimit
        }
        Some(_) | None => SpawnErrorKind::ContainmentUnavailable,
    };
    let failed = SpawnError::new(kind);
    match error.raw_os_error() {
        Some(errno) => failed.because("the keeper did not start it").os(errno),
        None => failed.because(format!("the keeper did not start it: {error}")),
    }
}

/// Whether the other side of a socket is gone.
fn is_broken(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionRefused | ConnectionReset | NotConnected
    )
}

fn stopped() -> SpawnError {
    SpawnError::new(SpawnErrorKind::Other).because("the service has stopped")
}

fn unavailable(reason: impl Into<String>) -> SpawnError {
    SpawnError::new(SpawnErrorKind::ContainmentUnavailable).because(reason)
}

fn no_watch(error: &std::io::Error) -> SpawnError {
    let error = SpawnError {
        os_error: error.raw_os_error(),
        ..SpawnError::new(SpawnErrorKind::ResourceLimit)
    };
    error.because("its end cannot be watched")
}

#[cfg(test)]
mod tests;
