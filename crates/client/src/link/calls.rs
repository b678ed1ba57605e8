//! One call from its place in the window to its answer, and what makes it be sent again.
//!
//! The invariant here: a call is sent a second time only if it surely was not sent, or if its caller
//! said that repeating is harmless. Errors are left as the server gave them; only what is true of
//! every method is told apart: no such method, too much to do, no answer, no connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;
use turnlane_protocol::envelope::{RequestId, encode_request};
use turnlane_protocol::error::{ErrorObject, OVERLOADED};
use turnlane_rpc::CallError as PeerError;

use super::dial::UNWRITTEN_BYTES_MAX;
use super::pace::Pace;
use super::shared::{Shared, Wire, count, lock};
use super::{Call, Repeat};
use crate::error::{CallError, DecodeError, RpcError, TransportError, map};

/// How often a call is repeated that was refused for overload.
const OVERLOADS_MAX: u32 = 5;

const OVERLOAD_PACE: Pace = Pace {
    first: Duration::from_millis(50),
    longest: Duration::from_secs(2),
    jitter_percent: 20,
};

/// What callers are told to wait where the server does not say.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Detached calls that wait for the window; further ones are left out, which the log says.
const BACKLOG_MAX: usize = 1_024;

/// Methods that are only served to clients that opted in to Codex's experimental API.
const EXPERIMENTAL: [&str; 3] = ["thread/queue/", "thread/turns/", "thread/items/"];

/// What came of sending a request once.
enum Sent {
    Answered(Bytes),
    Failed(PeerError),
    /// The connection had ended before: nothing was sent.
    Unsent,
}

impl Shared {
    /// One call, within its time.
    pub(super) async fn call(&self, call: &Call) -> Result<Box<RawValue>, CallError> {
        let after = call.timeout.unwrap_or(self.limits.rpc_timeout);
        let answer = tokio::select! {
            biased;
            answer = timeout(after, self.attempts(call)) => answer,
            () = self.closing.cancelled() => return Err(CallError::Closed),
            // A connection whose runtime is gone answers nobody.
            () = self.finished.cancelled() => {
                return Err(self.refusal().unwrap_or(CallError::Closed));
            }
        };
        match answer {
            // The connection may tell its end before we see that it is by our own will.
            Ok(Err(CallError::Transport(TransportError::Closed { .. })))
                if self.closing.is_cancelled() =>
            {
                Err(CallError::Closed)
            }
            Ok(answer) => answer,
            Err(_) => {
                count(&self.counts.timed_out);
                Err(CallError::Timeout {
                    method: call.method.clone(),
                    after,
                })
            }
        }
    }

    async fn attempts(&self, call: &Call) -> Result<Box<RawValue>, CallError> {
        let unsupported = || CallError::Unsupported {
            method: call.method.clone(),
        };
        let mut overloads = 0;
        let mut last = 0;
        loop {
            if let Some(refusal) = self.refusal() {
                return Err(refusal);
            }
            if self.is_unsupported(&call.method) {
                return Err(unsupported());
            }
            let permit = self.permit().await?;
            let wire = self.wire_after(last).await?;
            if wire.is_unsupported(&call.method) {
                return Err(unsupported());
            }
            last = wire.generation;
            let sent = self.send(&wire, call).await?;
            drop(permit);
            match sent {
                Sent::Answered(result) => return raw(call, &result),
                // The link's task learns of the end as well; then there is another connection or none.
                Sent::Unsent => {}
                Sent::Failed(PeerError::Closed(_)) if call.repeat == Repeat::Harmless => {}
                Sent::Failed(PeerError::Refused(error)) if error.code == OVERLOADED => {
                    if call.repeat == Repeat::Never || overloads == OVERLOADS_MAX {
                        return Err(CallError::Overloaded {
                            retry_after: retry_after(&error),
                        });
                    }
                    sleep(OVERLOAD_PACE.pause(overloads)).await;
                    overloads += 1;
                    last = 0;
                }
                Sent::Failed(PeerError::Refused(error))
                    if map::is_unsupported(&call.method, &refused(error.clone())) =>
                {
                    wire.remember_unsupported(&call.method);
                    return Err(unsupported());
                }
                Sent::Failed(error) => return Err(mapped(call, error)),
            }
        }
    }

    /// A place among the requests in flight.
    async fn permit(&self) -> Result<OwnedSemaphorePermit, CallError> {
        let window = Arc::clone(&self.window);
        window.acquire_owned().await.map_err(|_| CallError::Closed)
    }

    fn is_unsupported(&self, method: &str) -> bool {
        let is_closed_off =
            !self.experimental_api && EXPERIMENTAL.iter().any(|prefix| method.starts_with(prefix));
        is_closed_off || self.wire().is_some_and(|wire| wire.is_unsupported(method))
    }

    /// Sends once and waits for the answer.
    async fn send(&self, wire: &Wire, call: &Call) -> Result<Sent, CallError> {
        let id = self.ids.next_id();
        let frame = self.encoded(id, call)?;
        let span = tracing::debug_span!("rpc", method = call.method, id);
        let sending = async {
            let turn = self.gate.acquire().await;
            wire.peer.room(UNWRITTEN_BYTES_MAX).await;
            let asked = wire.peer.ask(id, frame);
            drop(turn);
            let Ok(answer) = asked else {
                return Sent::Unsent;
            };
            count(&self.counts.sent);
            match answer.await {
                Ok(result) => {
                    count(&self.counts.answered);
                    Sent::Answered(result)
                }
                Err(error) => {
                    if matches!(error, PeerError::Refused(_) | PeerError::TooLarge { .. }) {
                        count(&self.counts.answered);
                    }
                    Sent::Failed(error)
                }
            }
        };
        Ok(sending.instrument(span).await)
    }

    fn encoded(&self, id: i64, call: &Call) -> Result<Bytes, CallError> {
        let frame = encode_request(&RequestId::from(id), &call.method, &call.params);
        let frame = frame.map_err(|error| CallError::InvalidArgument {
            what: "params",
            reason: error.to_string(),
        })?;
        self.fits(frame.len())?;
        Ok(Bytes::from(frame))
    }

    /// What is too long for us is too long for a server of ours.
    pub(super) fn fits(&self, bytes: usize) -> Result<(), CallError> {
        let limit = self.limits.max_frame;
        if bytes > limit {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            return Err(TransportError::FrameTooLarge { bytes, limit }.into());
        }
        Ok(())
    }

    /// Sends without waiting, if there is a connection and a place in the window; else it waits in
    /// the backlog, from which a task of the link's runtime takes it, or [`Shared::flush_backlog`].
    pub(super) fn send_detached(self: &Arc<Self>, call: Call) {
        if self.refusal().is_some() {
            return;
        }
        let window = Arc::clone(&self.window);
        if let (Some(wire), Ok(permit)) = (self.wire(), window.try_acquire_owned()) {
            let after = call.timeout.unwrap_or(self.limits.rpc_timeout);
            if let Some(answer) = self.send_now(&wire, &call) {
                // Without its runtime nobody waits, and the place is given back at once.
                self.runtime.spawn(async move {
                    let _ = timeout(after, answer).await;
                    drop(permit);
                });
            }
            return;
        }
        let ticket = u64::try_from(self.ids.next_id()).unwrap_or_default();
        let after = call.timeout.unwrap_or(self.limits.rpc_timeout);
        {
            let mut backlog = lock(&self.backlog);
            if backlog.len() >= BACKLOG_MAX {
                tracing::warn!(method = call.method, "too many detached calls: left out");
                return;
            }
            backlog.push_back((ticket, call));
        }
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            let sending = async {
                let _permit = shared.permit().await.ok()?;
                let wire = shared.wire_after(0).await.ok()?;
                let call = shared.take_backlog(ticket)?;
                let _ = shared.send_now(&wire, &call)?.await;
                Some(())
            };
            let _ = timeout(after, sending).await;
            shared.take_backlog(ticket);
        });
    }

    /// Sends what waits whatever the window says: there will be no other time.
    pub(super) fn flush_backlog(&self, wire: &Wire) {
        let waiting = std::mem::take(&mut *lock(&self.backlog));
        for (_, call) in waiting {
            drop(self.send_now(wire, &call));
        }
    }

    fn send_now(
        &self,
        wire: &Wire,
        call: &Call,
    ) -> Option<impl Future<Output = Result<Bytes, PeerError>> + Send + 'static> {
        let id = self.ids.next_id();
        let frame = self.encoded(id, call).ok()?;
        let answer = wire.peer.ask(id, frame).ok()?;
        count(&self.counts.sent);
        Some(answer)
    }
}

/// The result as it came.
fn raw(call: &Call, result: &[u8]) -> Result<Box<RawValue>, CallError> {
    serde_json::from_slice(result).map_err(|source| {
        CallError::Decode(DecodeError {
            what: format!("the result of {}", call.method),
            source,
        })
    })
}

fn retry_after(error: &ErrorObject) -> Duration {
    let told = error
        .data
        .as_ref()
        .and_then(|data| data.get("retryAfterMs"));
    told.and_then(serde_json::Value::as_u64)
        .map_or(RETRY_AFTER, Duration::from_millis)
}

fn refused(error: ErrorObject) -> RpcError {
    RpcError {
        code: error.code,
        message: error.message,
        data: error.data,
    }
}

fn mapped(call: &Call, error: PeerError) -> CallError {
    match error {
        PeerError::Refused(error) => CallError::Rpc(refused(error)),
        PeerError::TooLarge { bytes, limit } => {
            CallError::Transport(TransportError::FrameTooLarge { bytes, limit })
        }
        PeerError::Closed(reason) => CallError::Transport(TransportError::Closed {
            reason: reason.to_string(),
        }),
        PeerError::Timeout { after } => CallError::Timeout {
            method: call.method.clone(),
            after,
        },
        PeerError::Encode(error) => CallError::InvalidArgument {
            what: "params",
            reason: error.to_string(),
        },
        PeerError::Decode(source) => CallError::Decode(DecodeError {
            what: format!("the result of {}", call.method),
            source,
        }),
    }
}
