//! Keeps one app-server child running while turns need it.
//!
//! The invariants here: at most one child runs per supervisor; a child that died is started again no
//! earlier than [`RESTART_FIRST`] later, doubling to [`RESTART_MAX`], and the count begins anew after
//! [`HEALTHY_AFTER`] of life; a child without leases ends [`IDLE_LIMIT`] after the last one.
//!
//! # Theory of operation
//!
//! A [`Handle`] asks the task [`Service::run`] for a connection. The task is spawned by the first
//! request and starts the child then. Requests wait in one channel of [`REQUESTS_MAX`] while a child is
//! started or a restart is held back; a sender waits when it is full. The task ends when all handles
//! are gone. Turns that lost their child read its end from their subscription, not from here.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::Connection;
use super::launch::{LaunchError, Launcher};
use crate::scripted::Clock;

/// Requests for a connection that may wait.
const REQUESTS_MAX: usize = 1024;
/// How long start and handshake may take together.
const START_LIMIT: Duration = Duration::from_secs(35);
/// How long a child without leases is kept.
const IDLE_LIMIT: Duration = Duration::from_mins(1);
/// First wait before a restart.
const RESTART_FIRST: Duration = Duration::from_millis(500);
/// Longest wait before a restart.
const RESTART_MAX: Duration = Duration::from_secs(30);
/// A child that lived this long was healthy.
const HEALTHY_AFTER: Duration = Duration::from_mins(1);

type ConnectionReply = oneshot::Sender<Result<Arc<Connection>, LaunchError>>;

/// A wish of a handle.
enum ChildRequest {
    /// The child, started if there is none.
    Connection(ConnectionReply),
    /// The end of the child and of the supervisor; answered when the child is gone.
    Stop(oneshot::Sender<()>),
}

type Current = Arc<Mutex<Weak<Connection>>>;

/// How children are started.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) launcher: Arc<dyn Launcher>,
    pub(super) clock: Clock,
}

/// Asks for the child. Cheap to clone, all clones share it.
#[derive(Clone)]
pub(crate) struct Handle {
    requests: mpsc::Sender<ChildRequest>,
    leases: watch::Sender<usize>,
    current: Current,
    /// Taken and spawned by the first request.
    unstarted: Arc<Mutex<Option<Service>>>,
}

/// Keeps the child from being ended as unused.
pub(crate) struct Lease {
    leases: watch::Sender<usize>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.send_modify(|leases| *leases -= 1);
    }
}

impl Handle {
    pub(super) fn new(options: Options) -> Self {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let (leases, lease_count) = watch::channel(0);
        let current = Current::default();
        let service = Service {
            options,
            requests: receiver,
            leases: lease_count,
            current: Arc::clone(&current),
        };
        Self {
            requests,
            leases,
            current,
            unstarted: Arc::new(Mutex::new(Some(service))),
        }
    }

    /// Takes a lease; taken before a connection is asked for.
    pub(crate) fn lease(&self) -> Lease {
        self.leases.send_modify(|leases| *leases += 1);
        Lease {
            leases: self.leases.clone(),
        }
    }

    /// The child, started if there is none. Waits while a restart is held back.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, LaunchError> {
        let service = self
            .unstarted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(service) = service {
            tokio::spawn(service.run());
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(ChildRequest::Connection(reply)).await;
        sent.map_err(|_closed| LaunchError::Closed)?;
        answer.await.unwrap_or(Err(LaunchError::Closed))
    }

    /// Ends the child in order, if one runs. From then on no child is started.
    pub(super) async fn stop(&self) {
        let unstarted = self
            .unstarted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if unstarted.is_some() {
            return;
        }
        let (done, stopped) = oneshot::channel();
        if self.requests.send(ChildRequest::Stop(done)).await.is_ok() {
            // A supervisor that ended for another reason has ended its child too.
            let _ = stopped.await;
        }
    }

    /// The child if one runs; starts none.
    pub(super) fn current(&self) -> Option<Arc<Connection>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade()
    }
}

/// Owns the child.
struct Service {
    options: Options,
    requests: mpsc::Receiver<ChildRequest>,
    leases: watch::Receiver<usize>,
    current: Current,
}

/// Why a child is not served any more.
enum ChildEnd {
    /// It died.
    Died,
    /// It had no lease for a while.
    Unused,
    /// All handles are gone.
    Closed,
    /// A handle asked for the end.
    Stopped(oneshot::Sender<()>),
}

impl Service {
    async fn run(mut self) {
        let mut restart = Restart::default();
        // A stop drops its reply: there is no child to wait for.
        while let Some(ChildRequest::Connection(first)) = self.requests.recv().await {
            restart.wait().await;
            let connection = match self.start().await {
                Ok(connection) => connection,
                Err(error) => {
                    tracing::warn!(%error, "no app-server of Codex");
                    restart.note_death(Duration::ZERO);
                    self.refuse(first, &error);
                    continue;
                }
            };
            self.set_current(&Arc::downgrade(&connection));
            let started = Instant::now();
            // A caller that is gone needs no connection.
            let _ = first.send(Ok(Arc::clone(&connection)));
            let end = self.serve(&connection).await;
            self.set_current(&Weak::new());
            match end {
                ChildEnd::Died => {
                    tracing::warn!("the app-server of Codex died");
                    connection.kill();
                    restart.note_death(started.elapsed());
                }
                ChildEnd::Unused | ChildEnd::Closed => connection.end().await,
                ChildEnd::Stopped(done) => {
                    connection.end().await;
                    drop(done);
                    return;
                }
            }
        }
    }

    async fn start(&self) -> Result<Arc<Connection>, LaunchError> {
        let starting = async {
            let child = self.options.launcher.launch().await?;
            Connection::open(child, self.options.clock.clone()).await
        };
        let too_long = || LaunchError::NotReady("it took too long to start".to_owned());
        timeout(START_LIMIT, starting)
            .await
            .unwrap_or_else(|_elapsed| Err(too_long()))
    }

    /// Answers those that wait with the reason why there is no child; later ones try again.
    fn refuse(&mut self, first: ConnectionReply, error: &LaunchError) {
        let _ = first.send(Err(error.clone()));
        while let Ok(ChildRequest::Connection(waiting)) = self.requests.try_recv() {
            let _ = waiting.send(Err(error.clone()));
        }
    }

    async fn serve(&mut self, connection: &Arc<Connection>) -> ChildEnd {
        loop {
            tokio::select! {
                biased;
                () = connection.died() => return ChildEnd::Died,
                request = self.requests.recv() => match request {
                    Some(ChildRequest::Connection(reply)) => {
                        drop(reply.send(Ok(Arc::clone(connection))));
                    }
                    Some(ChildRequest::Stop(done)) => return ChildEnd::Stopped(done),
                    None => return ChildEnd::Closed,
                },
                () = unused(&mut self.leases) => return ChildEnd::Unused,
            }
        }
    }

    fn set_current(&self, connection: &Weak<Connection>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone_from(connection);
    }
}

/// Resolves when there was no lease for [`IDLE_LIMIT`]. Never resolves without handles.
async fn unused(leases: &mut watch::Receiver<usize>) {
    loop {
        let free = leases.wait_for(|leases| *leases == 0).await.is_ok();
        if !free {
            return std::future::pending().await;
        }
        let taken = timeout(IDLE_LIMIT, leases.wait_for(|leases| *leases > 0)).await;
        if taken.is_err() {
            return;
        }
    }
}

/// When the next child may be started.
#[derive(Debug, Default)]
struct Restart {
    deaths: u32,
    not_before: Option<Instant>,
}

impl Restart {
    fn note_death(&mut self, lived: Duration) {
        if lived >= HEALTHY_AFTER {
            self.deaths = 0;
        }
        let factor = 2_u32.saturating_pow(self.deaths);
        let wait = RESTART_FIRST.saturating_mul(factor).min(RESTART_MAX);
        self.deaths = self.deaths.saturating_add(1);
        self.not_before = Some(Instant::now() + wait);
    }

    async fn wait(&mut self) {
        if let Some(not_before) = self.not_before.take() {
            sleep_until(not_before).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn restarts_are_held_back_longer_each_time_and_anew_after_health() {
        let mut restart = Restart::default();
        let mut waits = Vec::new();
        for lived in [0, 1, 1, 1, 1, 1, 1, 1, 60, 1] {
            restart.note_death(Duration::from_secs(lived));
            let begin = Instant::now();
            restart.wait().await;
            waits.push(begin.elapsed().as_millis());
        }
        let expected = [
            500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 500, 1_000,
        ];
        assert_eq!(waits, expected);
    }
}
