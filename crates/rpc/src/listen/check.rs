//! What a request gets: one pure function from its head to a verdict.
//!
//! The order of the checks is the contract: Host, Origin, health path, (unknown path,) token,
//! upgrade. A foreign page learns nothing, not even that we are healthy; whoever has no token
//! learns nothing but that.

use std::net::IpAddr;

use hyper::{HeaderMap, Method, StatusCode, Uri, Version};

use super::host::{allowed_host, host_is_ours, origin_is_allowed};
use super::upgrade::{Upgrade, upgrade};
use crate::auth::{SUBPROTOCOL, WsAuth, admit, subprotocols};

/// What a listener demands of a request.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) auth: WsAuth,
    pub(super) host: HostRule,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) own_origin: OwnOrigin,
    pub(super) paths: Paths,
}

/// Which Host a request may name.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostRule {
    /// Loopback, `localhost`, the local address of the connection or an allowed one.
    Ours {
        /// Where this connection arrived.
        local: IpAddr,
    },
    /// Anything, even nothing: no name leads to a unix socket, so none can be rebound to it.
    Any,
}

/// Whether a page that came from this server may talk to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnOrigin {
    /// It may; the server has pages of its own.
    Allowed,
    /// It may not; the server has none.
    Refused,
}

/// Which paths exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// Websockets on any path; plain requests go to the HTTP handler.
    Any,
    /// Websockets on `/` only; besides it and the health paths only these exist, and the rest is
    /// answered 404 before a token is asked for.
    Only(Vec<String>),
}

/// The head of a request. Not `Debug`: headers carry tokens.
pub(super) struct RequestHead<'a> {
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) version: Version,
    pub(super) headers: &'a HeaderMap,
}

/// What a request gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// An error status and a text; `detail` is for the log.
    Refuse {
        status: StatusCode,
        body: &'static str,
        detail: &'static str,
    },
    /// `/healthz`
    Live,
    /// `/readyz`
    Ready,
    /// A websocket.
    WebSocket {
        accept: String,
        /// What to select, if the client offered it.
        subprotocol: Option<&'static str>,
    },
    /// Plain HTTP, allowed; the handler decides.
    Plain,
}

impl Verdict {
    fn refuse(status: StatusCode, body: &'static str) -> Self {
        Self::Refuse {
            status,
            body,
            detail: body,
        }
    }
}

/// Decides about a request.
pub(super) fn check(head: &RequestHead<'_>, policy: &Policy) -> Verdict {
    let host = allowed_host(policy, head.headers);
    // A request line with a whole URL names a host too; neither may be foreign.
    let line_is_ours = head
        .uri
        .authority()
        .is_none_or(|authority| host_is_ours(policy, authority.as_str()));
    let host_matters = matches!(policy.host, HostRule::Ours { .. });
    if host_matters && (host.is_none() || !line_is_ours) {
        return Verdict::refuse(StatusCode::FORBIDDEN, "host not allowed");
    }
    if !origin_is_allowed(policy, head.headers, host) {
        return Verdict::refuse(StatusCode::FORBIDDEN, "origin not allowed");
    }
    let path = head.uri.path();
    if matches!(*head.method, Method::GET | Method::HEAD) {
        match path {
            "/healthz" => return Verdict::Live,
            "/readyz" => return Verdict::Ready,
            _ => {}
        }
    }
    if let Paths::Only(known) = &policy.paths
        && path != "/"
        && !known.iter().any(|known| known == path)
    {
        return Verdict::refuse(StatusCode::NOT_FOUND, "not found");
    }
    if let Err(refusal) = admit(&policy.auth, head.headers) {
        return Verdict::Refuse {
            status: StatusCode::UNAUTHORIZED,
            body: refusal.body,
            detail: refusal.detail,
        };
    }
    match upgrade(head.method, head.version, head.headers) {
        Upgrade::NotAsked => Verdict::Plain,
        Upgrade::WebSocket { .. } if policy.paths != Paths::Any && path != "/" => {
            Verdict::refuse(StatusCode::NOT_FOUND, "no websocket here")
        }
        Upgrade::WebSocket { accept } => Verdict::WebSocket {
            accept,
            subprotocol: subprotocols(head.headers)
                .any(|offered| offered == SUBPROTOCOL)
                .then_some(SUBPROTOCOL),
        },
        Upgrade::WrongVersion => Verdict::refuse(
            StatusCode::UPGRADE_REQUIRED,
            "websocket version 13 is required",
        ),
        Upgrade::Malformed(reason) => Verdict::refuse(StatusCode::BAD_REQUEST, reason),
    }
}

#[cfg(test)]
impl Policy {
    pub(super) fn loopback_without_token() -> Self {
        Self {
            auth: WsAuth::None,
            host: HostRule::Ours {
                local: [127, 0, 0, 1].into(),
            },
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            own_origin: OwnOrigin::Allowed,
            paths: Paths::Any,
        }
    }
}

#[cfg(test)]
mod tests;
