//! The clients of all providers, and the request that every model call makes.
//!
//! The invariant here: one client per provider, kept for the life of the engine, so that all turns
//! share its connections. What a turn may have of its own, keys and query, is in the request and
//! never in the client.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::trust::Trust;
use super::upload::Upload;
use super::{Answer, Broken, faults};
use crate::native::failure::Fault;
use crate::native::provider::Resolved;

/// How many clients are kept; a configuration that changes forever starts anew then.
const CLIENTS_MAX: usize = 64;
/// How many connections to one host are kept without a request on them.
const IDLE_CONNECTIONS_MAX: usize = 64;
/// How long. Shorter than the patience of common servers: a request on a connection that the other
/// side is closing has to be made again.
const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(30);

/// Names the program to the provider in the place of ours; the variable of Codex.
const ORIGINATOR_VARIABLE: &str = "CODEX_INTERNAL_ORIGINATOR_OVERRIDE";
const ORIGINATOR: HeaderName = HeaderName::from_static("originator");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");

/// One request of a model call.
#[derive(Clone, Debug)]
pub(crate) struct Post<'a> {
    pub(crate) provider: &'a Resolved,
    /// Shared between the tries of a call.
    pub(crate) body: Bytes,
    /// New for every try.
    pub(crate) request_id: &'a str,
}

/// The clients of an engine; empty until the first request.
#[derive(Default)]
pub(crate) struct Clients {
    made: Mutex<HashMap<Key, reqwest::Client>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) provider: String,
    pub(super) connect_timeout: Duration,
    pub(super) trust: Trust,
    pub(super) route: Route,
}

/// The way to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Route {
    /// Through a proxy where the environment names one.
    AsConfigured,
    /// To this machine: a proxy would take the request elsewhere.
    Direct,
}

impl Clients {
    /// Makes a request; returns when the headers of its answer are there.
    ///
    /// Dropped before, the connection is closed.
    pub(crate) async fn post(&self, post: Post<'_>) -> Result<Answer, Broken> {
        let provider = post.provider;
        let client = self.client(provider).await?;
        let (upload, mut progress) = Upload::new(post.body);
        let request = client
            .post(provider.url().expose())
            .headers(headers(provider, post.request_id))
            .body(reqwest::Body::wrap(upload));
        let mut answer = pin!(request.send());
        let idle_max = provider.limits.stream_idle_timeout;
        // While a connection is made only its own limit counts.
        let mut silence = pin!(tokio::time::sleep(idle_max));
        let (mut uploading, mut counting) = (true, false);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    let answer = answer.map_err(faults::of_request)?;
                    return Ok(Answer::new(answer, idle_max));
                }
                moved = progress.changed(), if uploading => {
                    uploading = moved.is_ok();
                    counting = true;
                    silence.as_mut().reset(Instant::now() + idle_max);
                }
                () = &mut silence, if counting => {
                    let text = format!("no answer for {} ms", idle_max.as_millis());
                    return Err(Broken::new(Fault::BeforeHeaders, text));
                }
            }
        }
    }

    async fn client(&self, provider: &Resolved) -> Result<reqwest::Client, Broken> {
        let key = Key {
            provider: provider.id.clone(),
            connect_timeout: provider.limits.connect_timeout,
            trust: Trust::for_address(&provider.base_url),
            route: if provider.base_url.is_local() {
                Route::Direct
            } else {
                Route::AsConfigured
            },
        };
        if let Some(client) = self.made().get(&key) {
            return Ok(client.clone());
        }
        let client = match key.trust {
            Trust::Nobody => make(&key)?,
            // Reads many files, while others want to go on.
            Trust::System => {
                let key = key.clone();
                let made = tokio::task::spawn_blocking(move || make(&key)).await;
                made.map_err(|error| Broken::new(Fault::Tls, error.to_string()))??
            }
        };
        let mut made = self.made();
        if made.len() >= CLIENTS_MAX {
            made.clear();
        }
        // Of two that were made at once the first is kept.
        Ok(made.entry(key).or_insert(client).clone())
    }

    fn made(&self) -> MutexGuard<'_, HashMap<Key, reqwest::Client>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

pub(super) fn make(key: &Key) -> Result<reqwest::Client, Broken> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(key.trust.config()?)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(key.connect_timeout)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .pool_idle_timeout(IDLE_CONNECTION_MAX);
    let builder = match key.route {
        Route::Direct => builder.no_proxy(),
        Route::AsConfigured => builder,
    };
    builder.build().map_err(faults::of_request)
}

fn headers(provider: &Resolved, request_id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let version = concat!("turnlane/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(version));
    headers.insert(ORIGINATOR, originator());
    for header in &provider.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_str(header.value.expose());
        // Both were checked when the provider was resolved.
        if let (Ok(name), Ok(mut value)) = (name, value) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    // What the reader relies on is not the configuration's to change.
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    headers
}

fn originator() -> HeaderValue {
    let named = std::env::var(ORIGINATOR_VARIABLE).ok();
    named
        .filter(|named| !named.trim().is_empty())
        .and_then(|named| HeaderValue::from_str(named.trim()).ok())
        .unwrap_or_else(|| HeaderValue::from_static("turnlane"))
}
