//! The server: both dialects, on whatever carries frames.
//!
//! A [`Server`] serves connections ([`Server::serve`]) and listeners ([`Server::run_listener`]) on
//! one [`ProcessService`]. The invariant here: a process belongs to exactly one owner, a connection
//! of `exec-server.v0` or a session of `process.v1`, and is ended with it. What a process is and how
//! it is held belongs to `turnlane-process`; who may connect belongs to `turnlane_rpc::listen`.
//!
//! # Theory of operation
//!
//! Two tasks per connection, one that reads and calls (`connection`), one that writes (`writer`);
//! calls that wait are tasks of their own (`calls`). Answers are queued (`outbox`), events are not:
//! they stay in their process, which then makes its child wait, until the writer pulls them in turn
//! (`ready`, `events`). Sessions outlive connections (`sessions`); one task forgets closed processes
//! in time. Everything is bounded: answers by not reading on, events by the processes' own windows,
//! calls and processes by count.

mod calls;
mod connection;
mod dialect;
mod encode;
mod entry;
mod environment;
mod events;
mod limits;
mod message;
mod metrics;
mod options;
mod outbox;
mod peer;
mod process_v1;
mod ready;
mod request;
mod session;
mod sessions;
mod start;
mod v0;
mod writer;
mod writes;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use turnlane_process::ProcessService;
use turnlane_protocol::exec_server::environment::EnvironmentInfo;
use turnlane_rpc::listen::{Handle, HttpResponse, Listener};
use turnlane_rpc::{BinaryMessages, Duplex, Framing};

pub use options::{DialectChoice, Options};
pub use peer::Peer;

use connection::Connection;
use metrics::{Metrics, Others};
use options::METRICS_PATH;
use outbox::{Farewell, LastWords, Outbox};
use session::{Capacity, Surroundings};
use sessions::Sessions;

/// Websocket messages leave in pieces of this size.
const FRAGMENT_BYTES_MAX: usize = 1024 * 1024;

/// Serves processes and files. Clones are the same server; dropping the last one, and every
/// connection, ends what it started.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

/// What all connections share.
pub(crate) struct Shared {
    service: ProcessService,
    options: Options,
    metrics: Arc<Metrics>,
    sessions: Arc<Sessions>,
    environment: EnvironmentInfo,
    /// Where relative directories of `exec-server.v0` start.
    cwd: PathBuf,
    processes: Arc<AtomicUsize>,
    sweep: Arc<Notify>,
    connections: Mutex<Connections>,
    connections_made: AtomicU64,
    serving: TaskTracker,
    stopping: CancellationToken,
    listeners: Mutex<Vec<Handle>>,
}

/// The open connections.
#[derive(Default)]
struct Connections {
    open: HashMap<u64, Weak<Outbox>>,
    /// The server has stopped: whoever comes now is sent away.
    over: bool,
}

impl Server {
    /// A server on this process service. Needs a tokio runtime.
    pub fn new(service: ProcessService, options: Options) -> Self {
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let shared = Arc::new(Shared {
            environment: environment::look(service.report(), &cwd),
            service,
            options,
            metrics: Arc::default(),
            sessions: Arc::default(),
            cwd,
            processes: Arc::default(),
            sweep: Arc::default(),
            connections: Mutex::default(),
            connections_made: AtomicU64::new(0),
            serving: TaskTracker::new(),
            stopping: CancellationToken::new(),
            listeners: Mutex::default(),
        });
        tokio::spawn(sweep(Arc::downgrade(&shared), Arc::clone(&shared.sweep)));
        Self { shared }
    }

    /// Serves one connection until it ends, by whichever side. Dropping the future ends it without
    /// last words. When it returns, the processes of an `exec-server.v0` connection and of a client
    /// on standard input have been ended, and those of other clients wait for their return.
    pub async fn serve(&self, duplex: Duplex, peer: Peer) {
        let shared = Arc::clone(&self.shared);
        let serving = self.shared.serving.track_future(async move {
            Connection::serve(shared, duplex, peer).await;
        });
        serving.await;
    }

    /// Serves a listener until `shutdown` is cancelled; it should have been bound with
    /// [`Options::listen`]. Also answers `/readyz` and `/metrics`. Connections live on when it
    /// returns; [`Server::stop`] ends them.
    pub async fn run_listener(&self, listener: Listener, shutdown: CancellationToken) {
        lock(&self.shared.listeners).push(listener.handle());
        let stopping = self.shared.stopping.clone();
        let (scraped, server) = (self.clone(), self.clone());
        let listener = match &self.shared.options.refuse_peer {
            Some(filter) => listener.refuse_peers(filter.clone()),
            None => listener,
        };
        let listener = listener
            .on_ready(move || {
                let serves = !stopping.is_cancelled();
                serves.then_some(()).ok_or("not ready: stopping")
            })
            .on_http(move |request| {
                let page = (request.uri().path() == METRICS_PATH).then(|| scraped.metrics());
                std::future::ready(http_answer(page))
            });
        let accepted = move |accepted: turnlane_rpc::listen::Accepted| {
            let server = server.clone();
            tokio::spawn(async move { server.serve(accepted.duplex, accepted.peer.into()).await });
        };
        listener.run(shutdown, accepted).await;
    }

    /// Ends everything: processes gracefully within the service's grace period, then connections,
    /// which hear of it before they are closed with 1001. Called again while the first call runs, it
    /// makes that one hurry: processes are ended by force. Cancelled, it has ended nothing but the
    /// willingness to start processes.
    pub async fn stop(&self) {
        self.shared.stopping.cancel();
        self.shared.service.stop().await;
        let open = {
            let mut connections = lock(&self.shared.connections);
            connections.over = true;
            std::mem::take(&mut connections.open)
        };
        for outbox in open.values().filter_map(Weak::upgrade) {
            outbox.close(shutting_down());
        }
        self.shared.serving.close();
        self.shared.serving.wait().await;
    }

    /// What `/metrics` answers, in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let auth_failures = lock(&self.shared.listeners)
            .iter()
            .map(Handle::auth_failures)
            .sum();
        self.shared.metrics.text(&Others {
            service: &self.shared.service,
            sessions: self.shared.sessions.counts(),
            auth_failures,
        })
    }
}

impl Shared {
    fn framing(&self) -> Framing {
        Framing {
            frame_bytes_max: self.options.message_bytes_max,
            binary: BinaryMessages::Read,
            fragment_bytes_max: FRAGMENT_BYTES_MAX,
        }
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings {
            capacity: Capacity {
                per_session_max: self.options.processes_per_connection_max,
                total_max: self.options.processes_max,
                total: Arc::clone(&self.processes),
            },
            retain: self.options.retain_after_close,
            sweep: Arc::clone(&self.sweep),
        }
    }

    /// A new connection's outgoing side, known to [`Server::stop`].
    fn open_outbox(&self) -> Arc<Outbox> {
        let number = self.connections_made.fetch_add(1, Ordering::Relaxed);
        let outbox = Arc::new(Outbox::new(number));
        let mut connections = lock(&self.connections);
        if connections.over {
            outbox.close(shutting_down());
        } else {
            connections.open.insert(number, Arc::downgrade(&outbox));
        }
        drop(connections);
        outbox
    }

    fn close_outbox(&self, connection: u64) {
        lock(&self.connections).open.remove(&connection);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Whoever forgets closed processes finds nobody and ends.
        self.sweep.notify_one();
    }
}

/// Forgets closed processes in time: woken by the first that closes, it looks again after every
/// retention time until nothing is left.
async fn sweep(shared: Weak<Shared>, closed: Arc<Notify>) {
    loop {
        closed.notified().await;
        loop {
            let Some(retain) = shared.upgrade().map(|it| it.options.retain_after_close) else {
                return;
            };
            tokio::time::sleep(retain).await;
            match shared.upgrade() {
                None => return,
                Some(shared) if shared.sessions.sweep() => {}
                Some(_) => break,
            }
        }
    }
}

fn shutting_down() -> Farewell {
    Farewell {
        last_words: LastWords::Told,
        ..Farewell::new(1001, "server is shutting down")
    }
}

/// The metrics, or that this is no page.
fn http_answer(page: Option<String>) -> HttpResponse {
    let found = page.is_some();
    let text = page.unwrap_or_else(|| "expected a websocket handshake".to_owned());
    let mut response = HttpResponse::new(text.into());
    if !found && let Ok(status) = 400.try_into() {
        *response.status_mut() = status;
    }
    if let Ok(kind) = "text/plain; version=0.0.4; charset=utf-8".parse() {
        response.headers_mut().insert("content-type", kind);
    }
    response
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
