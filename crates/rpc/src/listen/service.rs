//! The accepting loop.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::arrival::{Accepted, Arrival};
use super::peer::{CHECKS_MAX, PeerFilter};
use super::refusal_log::{RefusalKind, RefusalLog};
use super::unadmitted::Unadmitted;
use super::unix::{LOOK_EVERY, Restored, UnixSocket};
use super::{
    ConnectionLimit, Counters, HttpResponse, ListenError, Options, Site, Stream, tcp_socket,
};
use crate::auth::WsAuth;

/// Connections the system keeps for us until we accept them.
const BACKLOG: u32 = 1024;

/// After a failed accept we wait, longer each time: the usual reason is that no file descriptor is
/// free, and asking at once would only burn the processor.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// A bound socket; [`Listener::run`] serves it. Dropping it closes it, and removes a socket file.
pub struct Listener {
    source: Source,
    auth: WsAuth,
    site: Site,
}

/// Cheap to clone; tells how a listener is doing, even after its end.
#[derive(Clone, Debug)]
pub struct Handle {
    bound: Bound,
    connections: ConnectionLimit,
    counters: Arc<Counters>,
}

/// Where a listener listens. Its `Display` is the URL clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `ws://IP:PORT`, with the port the system picked.
    Tcp(SocketAddr),
    /// `unix://PATH`
    Unix(PathBuf),
}

enum Source {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixSocket),
}

impl Listener {
    /// Listens on a TCP address. Without auth only loopback is taken; anything else is refused
    /// before a socket exists.
    pub fn bind_tcp(addr: SocketAddr, auth: WsAuth, options: Options) -> Result<Self, ListenError> {
        if matches!(auth, WsAuth::None) && !addr.ip().is_loopback() {
            return Err(ListenError::Unauthenticated { addr });
        }
        if matches!(auth, WsAuth::None) {
            tracing::warn!(%addr, "listening without authentication: every local user may connect");
        }
        let (listener, bound) = listen_tcp(addr, &options).map_err(|source| ListenError::Bind {
            on: addr.to_string(),
            source,
        })?;
        Ok(Self::new(Source::Tcp(listener, bound), auth, options))
    }

    /// Listens on a unix socket of mode 0600, in a directory that is made if it does not exist.
    /// A file left by a dead server is replaced; one that is served is not.
    pub async fn bind_unix(path: &Path, options: Options) -> Result<Self, ListenError> {
        let socket = UnixSocket::bind(path).await?;
        Ok(Self::new(Source::Unix(socket), WsAuth::None, options))
    }

    fn new(source: Source, auth: WsAuth, options: Options) -> Self {
        let site = Site {
            options,
            ready: Arc::new(|| Ok(())),
            http: None,
            counters: Arc::default(),
            refusals: RefusalLog::default(),
            peer_checks: Arc::new(Semaphore::new(CHECKS_MAX)),
        };
        Self { source, auth, site }
    }

    /// Refuses peers that `filter` refuses, besides those that [`Options::refuse_peer`] refuses. For
    /// a filter that only exists after the socket is bound.
    #[must_use]
    pub fn refuse_peers(mut self, filter: PeerFilter) -> Self {
        let options = &mut self.site.options;
        options.refuse_peer = Some(match options.refuse_peer.take() {
            Some(first) => first.or(filter),
            None => filter,
        });
        self
    }

    /// What `/readyz` answers: 200, or 503 with the reason that `ready` gives, which everybody may
    /// read. Always ready unless set.
    #[must_use]
    pub fn on_ready(
        mut self,
        ready: impl Fn() -> Result<(), &'static str> + Send + Sync + 'static,
    ) -> Self {
        self.site.ready = Arc::new(ready);
        self
    }

    /// Who answers plain requests that passed every check; without it they get 400. A handler has
    /// [`REQUEST_TIME_MAX`](super::REQUEST_TIME_MAX) and bounds what it reads of a body.
    #[must_use]
    pub fn on_http<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HttpResponse> + Send + 'static,
    {
        self.site.http = Some(Arc::new(move |request| Box::pin(handler(request))));
        self
    }

    /// Where it listens.
    pub fn bound(&self) -> Bound {
        match &self.source {
            Source::Tcp(_, addr) => Bound::Tcp(*addr),
            Source::Unix(socket) => Bound::Unix(socket.path().to_owned()),
        }
    }

    /// A view of this listener for whoever reports on it.
    pub fn handle(&self) -> Handle {
        Handle {
            bound: self.bound(),
            connections: self.site.options.connections.clone(),
            counters: Arc::clone(&self.site.counters),
        }
    }

    /// Accepts until `shutdown` is cancelled and gives each good connection to `accepted`, which
    /// must not block.
    ///
    /// When it returns, nobody is being accepted, handshakes under way are ended, a socket file is
    /// gone, and `accepted` has been dropped. Connections given away live on.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        accepted: impl Fn(Accepted) + Send + Sync + 'static,
    ) {
        let Self {
            mut source,
            auth,
            site,
        } = self;
        let (site, accepted) = (Arc::new(site), Arc::new(accepted));
        let options = &site.options;
        let unadmitted = Unadmitted::new(options.unadmitted_max, options.unadmitted_time_min);
        let mut tasks = JoinSet::new();
        let summarised = Arc::clone(&site);
        tasks.spawn(async move { summarised.refusals.summarise().await });
        let mut pause = ACCEPT_PAUSE_MIN;
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_lost = false;
        loop {
            let arrived = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = tasks.join_next() => {
                    report_panic(ended);
                    continue;
                }
                _ = look.tick(), if matches!(source, Source::Unix(_)) => {
                    source.restore(&mut is_lost);
                    continue;
                }
                arrived = source.accept(&unadmitted) => arrived,
            };
            let stream = match arrived {
                Ok(stream) => stream,
                Err(error) => {
                    if site.refusals.admits(RefusalKind::Accept) {
                        tracing::warn!(%error, "accept failed; trying again");
                    }
                    tokio::select! {
                        () = shutdown.cancelled() => break,
                        () = sleep(pause) => {}
                    }
                    pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
                    continue;
                }
            };
            pause = ACCEPT_PAUSE_MIN;
            let arrival = Arrival {
                stream,
                place: unadmitted.enter(),
                auth: auth.clone(),
                own_uid: source.uid(),
            };
            let (site, accepted) = (Arc::clone(&site), Arc::clone(&accepted));
            tasks.spawn(async move {
                if let Some(connection) = arrival.receive(&site).await {
                    accepted(connection);
                }
            });
        }
        tasks.shutdown().await;
        site.refusals.finish();
    }
}

fn listen_tcp(addr: SocketAddr, options: &Options) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = tcp_socket(addr)?;
    socket.set_send_buffer_size(options.send_buffer_bytes)?;
    // A restart must not wait for the last connections of the one before to fade.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    let listener = socket.listen(BACKLOG)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

fn report_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a handshake panicked; its connection is closed");
    }
}

impl Source {
    /// The next connection, once there is room for it. Loses none when cancelled.
    async fn accept(&self, unadmitted: &Unadmitted) -> io::Result<Stream> {
        unadmitted.room().await;
        match self {
            Self::Tcp(listener, _) => Ok(Stream::Tcp(listener.accept().await?.0)),
            Self::Unix(socket) => Ok(Stream::Unix(socket.listener.accept().await?.0)),
        }
    }

    /// Makes a deleted socket file again. Says once that it cannot, as `is_lost` remembers.
    fn restore(&mut self, is_lost: &mut bool) {
        let Self::Unix(socket) = self else {
            return;
        };
        let path = socket.path().display().to_string();
        match socket.restore() {
            Ok(Restored::NotNeeded) => *is_lost = false,
            Ok(Restored::Again) => {
                *is_lost = false;
                tracing::warn!(path, "the socket file was deleted; it was made again");
            }
            Ok(Restored::Elsewhere) if !std::mem::replace(is_lost, true) => {
                tracing::warn!(
                    path,
                    "the socket file was deleted, and another server has its name"
                );
            }
            Err(error) if !std::mem::replace(is_lost, true) => {
                tracing::warn!(path, %error, "the socket file was deleted and cannot be made again");
            }
            Ok(Restored::Elsewhere) | Err(_) => {}
        }
    }

    fn uid(&self) -> Option<u32> {
        match self {
            Self::Tcp(..) => None,
            Self::Unix(socket) => Some(socket.uid),
        }
    }
}

impl Handle {
    /// Where the listener listens.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Admitted connections of all listeners that share the limit.
    pub fn connections_open(&self) -> usize {
        self.connections.open()
    }

    /// Requests without a good token, and unix peers of other users, since the start.
    pub fn auth_failures(&self) -> u64 {
        self.counters.auth_failures()
    }

    /// Peers that [`Options::refuse_peer`] has refused since the start.
    pub fn peers_refused(&self) -> u64 {
        self.counters.peers_refused()
    }

    /// Connections above the limit since the start.
    pub fn overloads(&self) -> u64 {
        self.counters.overloads()
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => write!(f, "ws://{addr}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("bound", &self.bound())
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}
