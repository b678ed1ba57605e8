//! The token of a request: where it stands, and whether it is the right one.
//!
//! Programs send `Authorization: Bearer <token>`. Browsers cannot set headers on a websocket and
//! send a subprotocol `turnlane.token.<token>` beside `turnlane.v1`. A header wins over a
//! subprotocol. The URL is not looked at: URLs end up in histories and logs.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};

use super::WsAuth;

/// The subprotocol a server selects when a client offers it.
pub(crate) const SUBPROTOCOL: &str = "turnlane.v1";
const TOKEN_SUBPROTOCOL_PREFIX: &str = "turnlane.token.";

/// Why a request is answered with 401.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What the client is told.
    pub(crate) body: &'static str,
    /// What the log is told besides; never a value of the request.
    pub(crate) detail: &'static str,
}

impl Refusal {
    const fn missing() -> Self {
        Self {
            body: "missing websocket bearer token",
            detail: "no token",
        }
    }

    const fn malformed(detail: &'static str) -> Self {
        Self {
            body: "invalid authorization header",
            detail,
        }
    }

    const fn invalid(detail: &'static str) -> Self {
        Self {
            body: "invalid websocket bearer token",
            detail,
        }
    }
}

/// Whether these headers carry what `auth` asks for.
pub(crate) fn admit(auth: &WsAuth, headers: &HeaderMap) -> Result<(), Refusal> {
    if matches!(auth, WsAuth::None) {
        // A client that sends a token to a server without one is as welcome as any other.
        return Ok(());
    }
    let token = match header_token(headers)? {
        Some(token) => token,
        None => subprotocol_token(headers)?.ok_or(Refusal::missing())?,
    };
    match auth {
        WsAuth::CapabilityToken(expected) if expected.accepts(token.as_bytes()) => Ok(()),
        WsAuth::CapabilityToken(_) => Err(Refusal::invalid("wrong token")),
        WsAuth::SignedBearerToken(signed) => signed.check(token).map_err(Refusal::invalid),
        WsAuth::None => Ok(()),
    }
}

fn header_token(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Refusal::malformed("several authorization headers"));
    }
    let text = value
        .to_str()
        .map_err(|_| Refusal::malformed("not ASCII"))?;
    let (scheme, token) = text
        .split_once(' ')
        .ok_or(Refusal::malformed("no token after the scheme"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::malformed("not the bearer scheme"));
    }
    let token = token.trim_ascii();
    if token.is_empty() || token.contains([' ', '\t']) {
        return Err(Refusal::malformed("not one word after the scheme"));
    }
    Ok(Some(token))
}

fn subprotocol_token(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut tokens =
        subprotocols(headers).filter_map(|name| name.strip_prefix(TOKEN_SUBPROTOCOL_PREFIX));
    match (tokens.next(), tokens.next()) {
        (Some(_), Some(_)) => Err(Refusal::invalid("several token subprotocols")),
        (first, _) => Ok(first),
    }
}

/// The subprotocols a client offers, over as many headers and commas as it likes.
pub(crate) fn subprotocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim_ascii)
}
