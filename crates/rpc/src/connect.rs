//! Connecting to a server: websocket over TCP or a unix socket, or JSON lines over a unix socket.
//!
//! The invariant here: a token leaves this process only towards loopback, a unix socket or, with
//! the feature `tls`, over `wss://`, since `ws://` is readable on the way. That is decided from the URL, before a name is resolved.
//!
//! Nothing is tried twice: who wants to try again knows from the [`ConnectError`] whether that
//! makes sense. What is said on the connection is not known here.

mod error;
mod handshake;
#[cfg(feature = "tls")]
mod tls;
mod url;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::header::{HeaderName, HeaderValue};
use hyper::upgrade::Upgraded;
use hyper::{HeaderMap, Request};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;

pub use error::ConnectError;

use crate::auth::Secret;
use crate::duplex::Duplex;
use crate::frame::Role;
use crate::listen::{Socket, Stream, tcp_socket};
use handshake::handshake;
use url::{Reach, Secrecy, WsUrl};

/// How long connecting may take unless told otherwise.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);

/// How to connect. The defaults have no token and no headers.
#[derive(Clone)]
pub struct Options {
    /// Sent as `Authorization: Bearer`.
    pub token: Option<Secret>,
    /// Further headers; those of the handshake itself are not allowed.
    pub headers: HeaderMap,
    /// From the first packet to the end of the handshake.
    pub time_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            headers: HeaderMap::new(),
            time_max: CONNECT_TIME_MAX,
        }
    }
}

impl Options {
    /// The same with a further header; [`Options::headers`] without its types.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, ConnectError> {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| ConnectError::invalid("this is no name of a header"))?;
        // The value is not repeated: it may be a token.
        let value = HeaderValue::from_str(value)
            .map_err(|_| ConnectError::invalid(format!("the header {name} has no fit value")))?;
        self.headers.append(name, value);
        Ok(self)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: a header may carry a token too.
        let headers: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Options")
            .field("token", &self.token)
            .field("headers", &headers)
            .field("time_max", &self.time_max)
            .finish()
    }
}

/// Whether [`connect_ws`] could connect as far as can be told without a packet.
pub fn check_ws(url: &str, options: &Options) -> Result<(), ConnectError> {
    prepare(url, options).map(drop)
}

fn prepare(url: &str, options: &Options) -> Result<(WsUrl, Request<Empty<Bytes>>), ConnectError> {
    let url = WsUrl::parse(url)?;
    let request = handshake::request(&url, options)?;
    let carries_token = request.headers().contains_key(hyper::header::AUTHORIZATION);
    if carries_token && url.secrecy() == Secrecy::Open && url.reach() != Reach::Loopback {
        return Err(ConnectError::invalid(
            "a token is sent over ws:// to a loopback address only",
        ));
    }
    #[cfg(feature = "tls")]
    if url.secrecy() == Secrecy::Tls {
        tls::name(url.host())?;
    }
    Ok((url, request))
}

/// Opens a websocket to a `ws://` URL, or with the feature `tls` a `wss://` one, whose server the
/// platform must trust. Dropping the future closes what was opened.
pub async fn connect_ws(url: &str, options: &Options) -> Result<Duplex, ConnectError> {
    let (url, request) = prepare(url, options)?;
    in_time(options.time_max, async {
        #[cfg(feature = "tls")]
        let trust = (url.secrecy() == Secrecy::Tls)
            .then(tls::platform)
            .transpose()?;
        let stream = connect_tcp(&url).await.map_err(ConnectError::refused)?;
        #[cfg(feature = "tls")]
        if let Some(trust) = trust {
            // The state of TLS is large, and callers keep this future on their stack.
            return Box::pin(tls::open(trust, url.host(), stream, request)).await;
        }
        handshake(Socket::new(Stream::Tcp(stream)), request, websocket).await
    })
    .await
}

/// Opens a websocket over a unix socket.
pub async fn connect_unix(path: &Path, options: &Options) -> Result<Duplex, ConnectError> {
    let request = handshake::request(&WsUrl::of_unix_socket(), options)?;
    in_time(options.time_max, async {
        let stream = unix_stream(path).await?;
        handshake(Socket::new(Stream::Unix(stream)), request, websocket).await
    })
    .await
}

/// Opens a unix socket for JSON lines. The server decides by the first byte we send.
pub async fn connect_unix_lines(path: &Path, options: &Options) -> Result<Duplex, ConnectError> {
    in_time(options.time_max, async {
        let stream = unix_stream(path).await?;
        Ok(Socket::new(Stream::Unix(stream)).into_lines())
    })
    .await
}

/// A plain socket, taken back from HTTP.
fn websocket(upgraded: Upgraded) -> io::Result<Duplex> {
    Socket::websocket(upgraded, Role::Client)
}

async fn in_time(
    time_max: Duration,
    connecting: impl Future<Output = Result<Duplex, ConnectError>>,
) -> Result<Duplex, ConnectError> {
    timeout(time_max, connecting)
        .await
        .unwrap_or(Err(ConnectError::Timeout { after: time_max }))
}

async fn unix_stream(path: &Path) -> Result<UnixStream, ConnectError> {
    if std::os::unix::net::SocketAddr::from_pathname(path).is_err() {
        return Err(ConnectError::invalid("this is no path of a unix socket"));
    }
    UnixStream::connect(path)
        .await
        .map_err(ConnectError::refused)
}

/// Tries each address of the host; the error is that of the last one.
async fn connect_tcp(url: &WsUrl) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for addr in lookup_host((url.host(), url.port())).await? {
        // `localhost` is whatever a file says it is; what counted as loopback must be it.
        if url.reach() == Reach::Loopback && !addr.ip().is_loopback() {
            continue;
        }
        match connect_addr(addr).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_addr(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = tcp_socket(addr)?.connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
