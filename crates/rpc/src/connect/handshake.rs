//! The client's half of the websocket handshake.

use std::convert::Infallible;
use std::future::pending;
use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::url::WsUrl;
use super::{ConnectError, Options};
use crate::duplex::Duplex;
use crate::listen::{WEBSOCKET_VERSION, accept_key, has_token};

/// How much of an answer that is no websocket is kept for the error.
const BODY_BYTES_KEPT: usize = 4096;

/// How long the head of an answer may be.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What the handshake itself decides.
const RESERVED: [HeaderName; 10] = [
    HOST,
    UPGRADE,
    CONNECTION,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_PROTOCOL,
];

/// The request that asks for a websocket, with a fresh key.
pub(super) fn request(
    url: &WsUrl,
    options: &Options,
) -> Result<Request<Empty<Bytes>>, ConnectError> {
    if let Some(name) = RESERVED
        .iter()
        .find(|name| options.headers.contains_key(*name))
    {
        return Err(ConnectError::invalid(format!(
            "the header {name} belongs to the handshake"
        )));
    }
    let mut key = [0; 16];
    getrandom::fill(&mut key).map_err(|error| ConnectError::refused(io::Error::other(error)))?;
    let mut request = Request::builder()
        .uri(url.target())
        .header(HOST, url.authority())
        .header(UPGRADE, "websocket")
        .header(CONNECTION, "Upgrade")
        .header(SEC_WEBSOCKET_VERSION, WEBSOCKET_VERSION)
        .header(SEC_WEBSOCKET_KEY, BASE64_STANDARD.encode(key))
        .body(Empty::new())
        .map_err(|_| ConnectError::invalid("the URL does not fit into a request"))?;
    request.headers_mut().extend(options.headers.clone());
    if let Some(token) = &options.token {
        let value = [b"Bearer ", token.expose()].concat();
        let mut value = HeaderValue::from_bytes(&value)
            .map_err(|_| ConnectError::invalid("the token does not fit into a header"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(request)
}

/// Sends the request and becomes a websocket, or says why not. `take_back` takes the stream back from
/// HTTP, with whatever HTTP read beyond the handshake.
pub(super) async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Empty<Bytes>>,
    take_back: impl FnOnce(Upgraded) -> io::Result<Duplex>,
) -> Result<Duplex, ConnectError> {
    let expected = request
        .headers()
        .get(SEC_WEBSOCKET_KEY)
        .map(|key| accept_key(key.as_bytes()))
        .unwrap_or_default();
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(sort)?;
    let exchange = async {
        let mut response = sender.send_request(request).await.map_err(sort)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refusal(response).await);
        }
        verify(response.headers(), &expected)?;
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(sort)?;
        take_back(upgraded).map_err(ConnectError::refused)
    };
    // The connection moves only while it is polled; its end is no news, the exchange tells.
    let driver = async {
        let _ = connection.with_upgrades().await;
        pending::<Infallible>().await
    };
    tokio::select! {
        result = exchange => result,
        never = driver => match never {},
    }
}

fn verify(headers: &HeaderMap, expected: &str) -> Result<(), ConnectError> {
    let detail = if !has_token(headers, UPGRADE, "websocket") {
        "it switches to another protocol"
    } else if !has_token(headers, CONNECTION, "upgrade") {
        "its Connection header does not say Upgrade"
    } else if headers.get(SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes)
        != Some(expected.as_bytes())
    {
        "it did not answer our key"
    } else if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS)
        || headers.contains_key(SEC_WEBSOCKET_PROTOCOL)
    {
        "it selected what we did not offer"
    } else {
        return Ok(());
    };
    Err(ConnectError::Protocol { detail })
}

async fn refusal(response: Response<Incoming>) -> ConnectError {
    let status = response.status();
    let mut body = response.into_body();
    let mut kept = Vec::new();
    // Whatever came before the connection broke is better than nothing.
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(data) = frame.data_ref() {
            kept.extend(data.iter().take(BODY_BYTES_KEPT - kept.len()));
        }
        if kept.len() == BODY_BYTES_KEPT {
            break;
        }
    }
    let body = String::from_utf8_lossy(&kept).into_owned();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ConnectError::Unauthorized { body },
        _ => ConnectError::HttpStatus {
            code: status.as_u16(),
            body,
        },
    }
}

fn sort(error: hyper::Error) -> ConnectError {
    if error.is_parse() {
        return ConnectError::Protocol {
            detail: "its answer is not HTTP",
        };
    }
    ConnectError::refused(io::Error::other(error))
}
