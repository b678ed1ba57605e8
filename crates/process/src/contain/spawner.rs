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

mod shared;
mod thread;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::cgroup::Bounds;
use super::running::Place;
use super::watched::{Steady, Watched, poll_start, watch};
use super::{Found, Request, Running};
use crate::error::{SpawnError, SpawnErrorKind, StartError};
use crate::options::Options;
use crate::report::ContainmentKind;
use crate::spec::Containment;
use shared::Kept;
pub(super) use shared::Shared;
use thread::{Answer, Failed, Job, Message};

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

impl Spawner {
    /// Probes, starts thread and keeper. Takes the descriptors to hold out of the options. Blocks
    /// until the trials are over.
    pub(crate) fn start(options: &mut Options) -> Result<(Self, Found), StartError> {
        let handle = Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let settings = thread::Settings {
            containment: options.containment,
            cgroup_root: options.cgroup_root.clone(),
            keeper: options.keeper.clone(),
            hold: std::mem::take(&mut options.hold),
            handle,
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
        let running = match (request.containment, self.kind, self.shared.tree()) {
            (Containment::Tree, ContainmentKind::Cgroup, Some(tree)) => {
                let (slot, dir) = tree.take(bounds)?;
                self.ask(request, Place::Cgroup(slot), Some(dir)).await?
            }
            (Containment::Tree, ContainmentKind::Reaper, _) => {
                bounds.refuse()?;
                self.ask_keeper(request).await?
            }
            (Containment::Tree, _, _) => {
                let reason =
                    "this machine has only process groups, which do not hold every descendant";
                return Err(unavailable(reason));
            }
            (Containment::Group, _, Some(tree)) => {
                bounds.refuse()?;
                let dir = tree.common()?;
                self.ask(request, Place::Common, Some(dir)).await?
            }
            (Containment::Group, _, None) => {
                bounds.refuse()?;
                self.ask(request, Place::Group, None).await?
            }
        };
        Ok(running)
    }

    /// A child of the spawning thread.
    async fn ask(
        &self,
        request: Request,
        place: Place,
        dir: Option<OwnedFd>,
    ) -> Result<Running, SpawnError> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            request,
            place,
            dir,
            reply,
        };
        let sent = self.requests.send(Message::Start(Box::new(job))).await;
        sent.map_err(|_| stopped())?;
        // The request comes back so that it is closed and freed here, not on the thread.
        let Answer {
            request,
            result,
            dir,
        } = answer.await.map_err(|_| stopped())?;
        drop(dir);
        let running = result.map_err(|failed| match failed {
            Failed::Launch(error, _place) => error.explain(&request.plan),
            Failed::Keeper(reason) => unavailable(reason),
        })?;
        drop(request);
        let _runtime = self.shared.handle().enter();
        running.watch().map_err(|error| no_watch(&error))?;
        Ok(running)
    }

    /// A process in a holder of the keeper.
    async fn ask_keeper(&self, request: Request) -> Result<Running, SpawnError> {
        let failed = |error: std::io::Error| {
            let errno = error.raw_os_error();
            let error = unavailable(format!("the keeper did not start it: {error}"));
            SpawnError {
                os_error: errno,
                ..error
            }
        };
        let starting = loop {
            match link.begin(&request.plan, &request.ends, ruleset) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    let room = {
                        let _runtime = self.shared.handle().enter();
                        let watched = watch(link.room().map_err(failed)?, Interest::WRITABLE);
                        watched.map_err(|failed| no_watch(&failed.error))?
                    };
                    drop(room.writable().await.map_err(failed)?);
                }
                begun => break begun.map_err(failed)?,
            }
        };
        let mut starting = self.watched(starting)?;
        let held = loop {
            // Cleared before the receive, so that a result in between is reported again.
            starting.readable().await.map_err(failed)?.clear_ready();
            if let Some(result) = poll_start(&mut starting).map_err(failed)? {
                break result.map_err(|error| error.explain(&request.plan))?;
            }
        };
        drop(starting);
        let held = self.watched(held)?;
        Ok(Running::held(
            held,
            kept.generation,
            Arc::clone(&self.shared),
        ))
    }

    fn watched<T: Steady>(&self, inner: T) -> Result<Watched<T>, SpawnError> {
        let _runtime = self.shared.handle().enter();
        watch(inner, Interest::READABLE).map_err(|failed| no_watch(&failed.error))
    }

    /// The keeper in office, waited for if the last one died; `dead` is one that certainly did.
    async fn keeper(&self, dead: Option<u64>) -> Result<Kept, SpawnError> {
        if let Some(kept) = self.shared.link() {
            if dead != Some(kept.generation) && !kept.is_dead() {
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
