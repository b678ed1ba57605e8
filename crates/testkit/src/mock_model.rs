//! A mock of the Responses API that says what a test tells it to.
//!
//! Owned here: a loopback HTTP server ([`MockModel`]), the script of its answers ([`Reply`],
//! [`Item`], [`ApiError`]), the places where an answer can wait ([`Gate`], [`At`]) or break
//! ([`Cut`], [`Noise`]), and the record of what was asked ([`RecordedRequest`]). The invariant:
//! a request gets a scripted answer or an HTTP 500 that says there is none, and is recorded either
//! way. Bounds: [`Options`].
//!
//! It does not judge requests. Whether a client sent what it should is the test's assertion, on
//! [`MockModel::requests`].
//!
//! `POST /v1/responses` (or `/responses`) takes the script, `GET /v1/models` a fixed list.

mod api_error;
mod body;
mod events;
mod gate;
mod item;
mod recorder;
mod reply;
mod request;
mod script;
mod server;
mod usage;
mod wire;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use api_error::ApiError;
pub use gate::Gate;
pub use item::Item;
pub use reply::Reply;
pub use request::RecordedRequest;
pub use usage::Usage;
pub use wire::{At, Chunks, Cut, LineEnd, Noise};

use crate::{Error, wait::within};
use recorder::Recorder;
use server::Service;

/// The limits of a mock.
#[derive(Clone, Debug)]
pub struct Options {
    /// The largest request body; a larger one is answered with 413 and not recorded.
    pub request_bytes_max: usize,
    /// How many requests are kept; further ones are answered with 500. A long test empties the
    /// record with [`MockModel::take_requests`].
    pub requests_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            request_bytes_max: 128 << 20,
            requests_max: 10_000,
        }
    }
}

/// A running mock. Dropping it ends the server and every connection.
pub struct MockModel {
    address: SocketAddr,
    recorder: Arc<Recorder>,
    server: JoinHandle<()>,
}

impl MockModel {
    /// Starts a mock on a free loopback port; it answers when this returns.
    pub async fn start() -> Result<Self, Error> {
        Self::start_with(Options::default()).await
    }

    /// Starts a mock with other limits.
    pub async fn start_with(options: Options) -> Result<Self, Error> {
        let binding = Error::doing("bind a loopback port");
        let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await {
            Ok(listener) => listener,
            Err(source) => return Err(binding(source)),
        };
        let address = listener.local_addr().map_err(binding)?;
        let recorder = Arc::new(Recorder::new(options.requests_max));
        let service = Service {
            recorder: Arc::clone(&recorder),
            body_bytes_max: options.request_bytes_max,
        };
        let server = tokio::spawn(service.run(listener));
        Ok(Self {
            address,
            recorder,
            server,
        })
    }

    /// Ends the server and waits until its task is gone. Dropping does the same without waiting.
    pub async fn stop(mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }

    /// Where the mock listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The provider's `base_url`, ending in `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Puts a reply behind those already waiting; each answers one request, in order.
    pub fn push(&self, reply: Reply) -> &Self {
        self.recorder.script(|script| script.push(reply));
        self
    }

    /// Answers the first request whose last user message contains `text` with this reply, once.
    ///
    /// Goes before the queue, so several lanes can share a mock whatever their order. Several
    /// replies for one text are used in the order given: a tool round and what follows it.
    pub fn on_text(&self, text: impl Into<String>, reply: Reply) -> &Self {
        let text = text.into();
        self.recorder.script(|script| script.on_text(text, reply));
        self
    }

    /// Answers with what `choose` returns, whenever neither a text nor the queue has a reply.
    ///
    /// Several closures are asked in the order given, until one answers.
    pub fn choose_with(
        &self,
        choose: impl Fn(&RecordedRequest) -> Option<Reply> + Send + Sync + 'static,
    ) -> &Self {
        let choose = Arc::new(choose);
        self.recorder.script(|script| script.choose_with(choose));
        self
    }

    /// How many replies of [`MockModel::push`] and [`MockModel::on_text`] nobody took yet.
    pub fn replies_left(&self) -> usize {
        self.recorder.script(|script| script.remaining())
    }

    /// The requests for an answer, in order of arrival.
    pub fn requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.recorder.requests()
    }

    /// Returns the recorded requests and forgets them.
    pub fn take_requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.recorder.take_requests()
    }

    /// The requests for an answer that found no reply. A good test has none.
    pub fn unscripted_requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.recorder.unscripted()
    }

    /// All requests that did not ask for an answer: model lists, unknown paths.
    pub fn other_requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.recorder.others()
    }

    /// Waits until `count` requests for an answer have arrived since the start.
    pub async fn wait_for_requests(&self, count: usize, limit: Duration) -> Result<(), Error> {
        let seen = || {
            let asked =
                |request: &Arc<RecordedRequest>| format!("\n- {:?}", request.last_user_text());
            let requests = self.requests();
            let asked: String = requests.iter().map(asked).collect();
            format!("; {} arrived{asked}", *self.recorder.arrived().borrow())
        };
        let what = format!("{count} requests to the mock");
        reaches(self.recorder.arrived(), count, &what, limit)
            .await
            .map_err(|error| error.seeing(&seen()))
    }

    /// How many answers were not read to their end because the client closed the connection.
    pub fn abandoned_answers(&self) -> usize {
        *self.recorder.abandoned().borrow()
    }

    /// Waits until clients have left `count` answers unread.
    pub async fn wait_for_abandoned(&self, count: usize, limit: Duration) -> Result<(), Error> {
        let what = format!("{count} answers to be abandoned");
        let seen = || format!("; {} were", self.abandoned_answers());
        reaches(self.recorder.abandoned(), count, &what, limit)
            .await
            .map_err(|error| error.seeing(&seen()))
    }
}

/// Waits until a published count is at least `count`.
async fn reaches(
    mut published: watch::Receiver<usize>,
    count: usize,
    what: &str,
    limit: Duration,
) -> Result<(), Error> {
    let reached = published.wait_for(|&published| published >= count);
    match within(what, limit, reached).await? {
        Ok(_) => Ok(()),
        Err(_gone) => Err(Error::Over {
            what: what.to_owned(),
            seen: String::new(),
        }),
    }
}

impl Drop for MockModel {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl fmt::Debug for MockModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockModel")
            .field("address", &self.address)
            .field("replies_left", &self.replies_left())
            .finish_non_exhaustive()
    }
}
