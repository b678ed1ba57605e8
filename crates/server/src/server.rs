//! The server: what all connections share, and how one more is served.
//!
//! The invariant here: everything shared is made once, at the start; a connection that ends leaves
//! nothing of itself behind.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use turnlane_protocol::envelope::{Stamp, encode_notification};
use turnlane_protocol::notification::method;
use turnlane_rpc::{Budget, CloseReason, Duplex, LagNotice, Limits, Peer, PeerOptions, RequestIds};
use turnlane_runtime::store::approval::ApprovalQuery;
use turnlane_runtime::store::fanout::JobQuery;
use turnlane_runtime::store::{Health, Store, StoreError};

use crate::bindings::Bindings;
use crate::broker::Broker;
use crate::connection::{Connection, Introduced};
use crate::handlers::thread_queue::Swept;
use crate::health;
use crate::hub::{ConnectionId, Hub};
use crate::job_feed::{self, JobFeed};
use crate::methods::{Methods, methods};
use crate::metrics::{JobCensus, Metrics, OpenApprovals, Others};
use crate::options::{Options, PeerKind};
use crate::subscriptions::Feeds;
use crate::watcher::Watcher;

/// The database in a home.
pub(crate) const DATABASE: &str = "turnlane.db";

/// The most fan-out jobs that a scrape counts, so that its cost has a bound.
const JOBS_COUNTED_MAX: usize = 1_000;
/// The jobs that one look at the store counts.
const JOBS_PAGE: u32 = 100;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) hub: Hub,
    pub(crate) bindings: Bindings,
    pub(crate) methods: Methods,
    pub(crate) broker: Broker,
    pub(crate) feeds: Feeds,
    pub(crate) job_feed: JobFeed,
    pub(crate) metrics: Metrics,
    pub(crate) swept: Swept,
    ids: RequestIds,
    budget: Budget,
    pub(crate) stopping: CancellationToken,
    /// Served connections, initialised or not.
    serving: watch::Sender<usize>,
    next_connection: AtomicU64,
    /// In milliseconds since 1970.
    pub(crate) started_at_ms: i64,
}

/// An app-server; clones are the same one.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

impl Server {
    /// A server without connections. Called inside a tokio runtime, where it watches its store.
    pub fn new(options: Options) -> Self {
        let ids = RequestIds::default();
        let shared = Arc::new(Shared {
            started_at_ms: options.clock.now_ms(),
            options,
            hub: Hub::default(),
            bindings: Bindings::default(),
            methods: methods(),
            broker: Broker::new(ids.clone()),
            feeds: Feeds::default(),
            job_feed: JobFeed::default(),
            metrics: Metrics::default(),
            swept: Swept::default(),
            ids,
            budget: Budget::default(),
            stopping: CancellationToken::new(),
            serving: watch::Sender::new(0),
            next_connection: AtomicU64::new(0),
        });
        let watcher = Watcher::new(Arc::downgrade(&shared));
        shared.options.runtime.watch(Arc::new(watcher));
        health::watch(&shared);
        job_feed::watch(&shared);
        Self { shared }
    }

    /// Serves a connection until it ends, and says how it ended.
    ///
    /// Dropping the future ends the connection; turns that it started go on.
    pub async fn serve(&self, duplex: Duplex, kind: PeerKind) -> CloseReason {
        let client: Introduced = Arc::new(OnceLock::new());
        let limits = Limits {
            lag_notice: Some(self.lag_notice(&client)),
            ..Limits::default()
        };
        let peer_options = PeerOptions {
            limits,
            budget: self.shared.budget.clone(),
            ids: self.shared.ids.clone(),
        };
        let (peer, inbox) = Peer::start(duplex, peer_options);
        let id = ConnectionId(self.shared.next_connection.fetch_add(1, Ordering::Relaxed));
        let shared = Arc::clone(&self.shared);
        let connection = Arc::new(Connection::new(id, shared, peer.clone(), kind, client));
        self.shared.metrics.connected();
        self.shared.serving.send_modify(|count| *count += 1);
        let served = Served(Arc::clone(&self.shared));
        let stopping = self.shared.stopping.clone();
        let running = connection.run(inbox);
        tokio::pin!(running);
        let reason = tokio::select! {
            reason = &mut running => reason,
            () = stopping.cancelled() => {
                peer.close();
                running.await
            }
        };
        drop(served);
        reason
    }

    /// Closes all connections, after what waits for them, and waits for the last one.
    ///
    /// The runtime is its owner's to stop; a connection that comes later is closed at once.
    pub async fn stop(&self) {
        self.shared.stopping.cancel();
        let mut serving = self.shared.serving.subscribe();
        // The sender is ours, so this ends only with the last connection.
        let _ = serving.wait_for(|count| *count == 0).await;
    }

    /// What `/metrics` says. What the store cannot tell now is left out.
    pub async fn metrics(&self) -> String {
        let Shared {
            options,
            hub,
            budget,
            metrics,
            ..
        } = &*self.shared;
        let store = options.runtime.store();
        let store_writes = *store.health().borrow() == Health::Good;
        let census = store.census().await;
        let open = store.approvals(ApprovalQuery::Open).await;
        let jobs = job_census(store.as_ref()).await;
        let database = database(&options.home);
        metrics.text(&Others {
            connections: hub.count(),
            lanes: options.runtime.loaded(),
            unanswered: budget.unanswered(),
            store_writes,
            census: census
                .inspect_err(|error| tracing::warn!(%error, "the lanes could not be counted"))
                .ok(),
            syncs: store.sync_times(),
            failures: options.runtime.failures(),
            tokens: options.runtime.model_tokens(),
            approvals_open: open
                .inspect_err(|error| tracing::warn!(%error, "the approvals could not be counted"))
                .map(|open| {
                    let threads: HashSet<_> = open.iter().map(|open| open.thread).collect();
                    OpenApprovals {
                        count: open.len(),
                        lanes: threads.len(),
                    }
                })
                .ok(),
            jobs: jobs
                .inspect_err(|error| tracing::warn!(%error, "the jobs could not be counted"))
                .ok(),
            database,
        })
    }

    /// A connection to this server inside the process; the returned end is the client's.
    ///
    /// It is served by a task of its own until either end is dropped.
    pub fn in_memory(&self) -> Duplex {
        let (near, far) = Duplex::memory();
        let server = self.clone();
        tokio::spawn(async move { server.serve(far, PeerKind::Stdio).await });
        near
    }

    fn lag_notice(&self, client: &Introduced) -> LagNotice {
        let (client, clock) = (Arc::clone(client), Arc::clone(&self.shared.options.clock));
        Arc::new(move |thread, missed| {
            let wanted = client.get().is_some_and(|client| {
                client.capabilities.wants_turnlane_events()
                    && !client.capabilities.opts_out_of(method::CONNECTION_LAGGED)
            });
            let stamp = Stamp {
                emitted_at_ms: clock.now_ms(),
                seq: None,
            };
            let params = serde_json::json!({"threadId": thread, "missed": missed});
            let frame = encode_notification(method::CONNECTION_LAGGED, &params, Some(stamp));
            wanted.then(|| frame.ok().map(Bytes::from)).flatten()
        })
    }
}

/// The newest jobs of the store by state, at most [`JOBS_COUNTED_MAX`].
async fn job_census(store: &dyn Store) -> Result<JobCensus, StoreError> {
    let mut census = JobCensus::default();
    let (mut counted, mut after) = (0, None);
    loop {
        let query = JobQuery {
            after,
            states: Vec::new(),
            parent: None,
            limit: JOBS_PAGE,
        };
        let page = store.jobs(query).await?;
        counted += page.jobs.len();
        for job in &page.jobs {
            census.add(job);
        }
        after = page.next;
        if after.is_none() || counted >= JOBS_COUNTED_MAX {
            return Ok(census);
        }
    }
}

/// The files of the database in this home that there are, and their sizes.
fn database(home: &Path) -> Vec<(&'static str, u64)> {
    let mut found = Vec::new();
    for (file, ending) in [("main", ""), ("wal", "-wal")] {
        let path = home.join(format!("{DATABASE}{ending}"));
        if let Ok(metadata) = std::fs::metadata(path) {
            found.push((file, metadata.len()));
        }
    }
    found
}

/// One served connection; counted until it is dropped.
struct Served(Arc<Shared>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.serving.send_modify(|count| *count -= 1);
    }
}
