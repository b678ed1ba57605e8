//! The handshake: who we say we are, and what a server says it is.
//!
//! The invariant here: a link has been initialised, or there is none. What the server sends before
//! its answer is kept in order and handed over first. The version is read from the server's user
//! agent whatever the product is called, since every server names itself as it likes.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use turnlane_protocol::envelope::{RequestId, encode_request};
use turnlane_rpc::{CallError as PeerError, Inbox, Incoming, Outgoing, Peer};

use super::{LinkOptions, ServerInfo, ServerKind};
use crate::error::{ConnectError, RpcError, Version};

/// Messages before the answer; more is no app-server.
const EARLY_MESSAGES_MAX: usize = 1_024;

const INITIALIZED: &[u8] = br#"{"method":"initialized"}"#;

/// The protocol extension that we know.
const TURNLANE_VERSION: u32 = 1;

/// What the handshake found.
#[derive(Debug)]
pub(super) struct Initialised {
    pub(super) server: ServerInfo,
    /// What came before the answer, in order.
    pub(super) early: Vec<Incoming>,
}

/// Why there was no answer that is one.
#[derive(Debug)]
pub(super) enum Failed {
    /// The connection ended; the caller knows why a child would.
    Ended,
    Because(ConnectError),
}

/// Sends `initialize`, takes its answer apart and sends `initialized`. Has no time limit of its own.
pub(super) async fn initialise(
    options: &LinkOptions,
    peer: &Peer,
    inbox: &mut Inbox,
    id: i64,
) -> Result<Initialised, Failed> {
    let protocol = |detail: &str| {
        Failed::Because(ConnectError::Protocol {
            detail: detail.to_owned(),
        })
    };
    let request = encode_request(&RequestId::from(id), "initialize", &params(options))
        .map_err(|_| protocol("initialize cannot be written"))?;
    let answer = peer
        .ask(id, Bytes::from(request))
        .map_err(|_| Failed::Ended)?;
    let mut answer = std::pin::pin!(answer);
    let mut early = Vec::new();
    let result = loop {
        tokio::select! {
            biased;
            answer = &mut answer => break answer,
            message = inbox.next() => match message {
                // What echoes would otherwise be waited for until the time is up.
                Some(Incoming::Request(request)) if request.method == "initialize" => {
                    return Err(protocol("it sends our own request back"));
                }
                Some(_) if early.len() >= EARLY_MESSAGES_MAX => {
                    return Err(protocol("it does not answer initialize but sends other things"));
                }
                Some(message) => early.push(message),
                // The answer may have come just before the end.
                None => break answer.await,
            },
        }
    };
    let result = result.map_err(|error| match error {
        PeerError::Refused(error) => Failed::Because(ConnectError::Initialize(RpcError {
            code: error.code,
            message: error.message,
            data: error.data,
        })),
        PeerError::TooLarge { .. } => protocol("its answer to initialize is too large"),
        PeerError::Closed(_) | PeerError::Timeout { .. } => Failed::Ended,
        PeerError::Encode(_) | PeerError::Decode(_) => protocol("its answer is not JSON"),
    })?;
    let server = server_of(&result, options).map_err(Failed::Because)?;
    // Without params, as Codex's own clients write it.
    peer.notify(&Outgoing::kept(INITIALIZED, None));
    Ok(Initialised { server, early })
}

/// What `initialize` is sent with.
fn params(options: &LinkOptions) -> Value {
    let mut capabilities = json!({
        "experimentalApi": options.experimental_api,
        "turnlane": {"version": TURNLANE_VERSION, "events": 1},
    });
    if !options.opt_out.is_empty() {
        capabilities["optOutNotificationMethods"] = json!(options.opt_out);
    }
    json!({
        "clientInfo": {
            "name": options.client_name,
            "title": null,
            "version": options.client_version,
        },
        "capabilities": capabilities,
    })
}

/// Reads the answer, and compares the version with what the caller wants.
fn server_of(result: &[u8], options: &LinkOptions) -> Result<ServerInfo, ConnectError> {
    let protocol = |detail: &str| ConnectError::Protocol {
        detail: detail.to_owned(),
    };
    let result: Value =
        serde_json::from_slice(result).map_err(|_| protocol("its answer is not JSON"))?;
    let user_agent = result
        .get("userAgent")
        .and_then(Value::as_str)
        .ok_or_else(|| protocol("its answer to initialize has no userAgent"))?;
    let version = version_of(user_agent);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let own = result.get("turnlane");
    let is_ours = own.is_some_and(|own| own.get("protocol").is_some_and(|word| !word.is_null()));
    let own = own.filter(|_| is_ours);
    let server = ServerInfo {
        endpoint: options.endpoint.words(),
        user_agent: user_agent.to_owned(),
        kind: match version {
            _ if is_ours => ServerKind::Turnlane,
            Some(_) => ServerKind::Codex,
            None => ServerKind::Unknown,
        },
        version,
        product_version: own.and_then(|own| text(own.get("version"))),
        features: own
            .and_then(|own| own.get("features")?.as_array())
            .into_iter()
            .flatten()
            .filter_map(|feature| feature.as_str().map(str::to_owned))
            .collect(),
        codex_home: text(result.get("codexHome")).unwrap_or_default(),
    };
    match (options.min_version, version) {
        (Some(required), Some(found)) if found < required => {
            Err(ConnectError::VersionTooOld { found, required })
        }
        (Some(_), None) => Err(ConnectError::VersionUnknown {
            user_agent: server.user_agent,
        }),
        _ => Ok(server),
    }
}

/// The first `x.y.z` after the first `/`.
fn version_of(user_agent: &str) -> Option<Version> {
    let (_, rest) = user_agent.split_once('/')?;
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    rest.split(|c: char| !is_part(c)).find_map(|word| {
        let mut numbers = word.split('.');
        let mut number = || numbers.next()?.parse().ok();
        Some(Version::new(number()?, number()?, number()?))
    })
}

/// Keeps the time of the whole of connecting.
pub(super) async fn in_time<T>(
    limit: Duration,
    connecting: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    tokio::time::timeout(limit, connecting)
        .await
        .unwrap_or(Err(ConnectError::HandshakeTimeout { after: limit }))
}

#[cfg(test)]
mod tests;
