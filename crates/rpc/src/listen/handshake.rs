//! One accepted connection, from its first byte to a [`Duplex`] or an HTTP answer.

use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};

use super::check::{Policy, RequestHead, Verdict, check};
use super::overload::refuse;
use super::refusal_log::RefusalKind;
use super::socket::{Socket, Stream};
use super::unadmitted::Place;
use super::upgrade::WEBSOCKET_VERSION;
use super::{HttpResponse, PeerAddr, Site};
use crate::duplex::Duplex;
use crate::frame::Role;

/// The least hyper takes for a read buffer; the limit of the head is kept beside it.
const HTTP_BUFFER_BYTES_MIN: usize = 8192;

/// Enough to see what a client speaks.
const SNIFFED_BYTES: usize = 1024;

/// Why a handshake ended without an answer. Only ever logged.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("nothing came in time")]
    Silent,
    #[error("http failed: {0}")]
    Http(#[from] hyper::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Too many admitted connections are open.
struct Overloaded;

/// A request that was let in. Its connection counts against the limit until it ends.
struct Admitted {
    permit: OwnedSemaphorePermit,
    /// The connection itself, if it becomes a websocket.
    upgrade: Option<OnUpgrade>,
}

/// A connection that is not admitted yet, as the steps of its handshake need it.
pub(super) struct Visit<'a> {
    pub(super) site: &'a Site,
    pub(super) peer: PeerAddr,
    pub(super) place: &'a Place,
}

impl Visit<'_> {
    /// Moves the connection from the unadmitted ones to the admitted ones. `None` if there are too
    /// many of those.
    fn admit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.site.options.connections.take();
        // A connection that was just dropped for a new one is not admitted either.
        let permit = permit.filter(|_| self.place.leave());
        if permit.is_none() {
            self.site.counters.overloaded();
            if self.site.refusals.admits(RefusalKind::Overload) {
                tracing::warn!(peer = %self.peer, "connection refused: too many are open");
            }
        }
        permit
    }

    /// The verdict on a request. One that is let in comes with a permit, or is an error.
    fn judge(
        &self,
        request: &Request<Incoming>,
        policy: &Policy,
    ) -> Result<(Verdict, Option<OwnedSemaphorePermit>), Overloaded> {
        let verdict = judge(request, policy);
        let permit = match verdict {
            Verdict::WebSocket { .. } | Verdict::Plain => Some(self.admit().ok_or(Overloaded)?),
            // Health checks are answered from the unadmitted places, so that they work while all
            // others are taken.
            Verdict::Live | Verdict::Ready | Verdict::Refuse { .. } => None,
        };
        Ok((verdict, permit))
    }
}

/// Websocket or HTTP. `None` when the request was plain HTTP and has been answered.
pub(super) async fn http(
    socket: Socket,
    head_time_max: Duration,
    policy: &Policy,
    visit: &Visit<'_>,
) -> Result<Option<Duplex>, HandshakeError> {
    let admitted: Mutex<Option<Admitted>> = Mutex::new(None);
    let service = service_fn(|mut request: Request<Incoming>| {
        let judged = visit.judge(&request, policy).map(|(verdict, permit)| {
            let is_websocket = matches!(verdict, Verdict::WebSocket { .. });
            *admitted.lock().unwrap_or_else(PoisonError::into_inner) = permit.map(|permit| {
                let upgrade = is_websocket.then(|| hyper::upgrade::on(&mut request));
                Admitted { permit, upgrade }
            });
            verdict
        });
        async move {
            let response = match judged {
                Ok(verdict) => answer(verdict, request, visit).await,
                Err(Overloaded) => closing(text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "too many connections",
                )),
            };
            Ok::<_, Infallible>(response)
        }
    });
    let head_bytes_max = visit.site.options.head_bytes_max;
    http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that ends its output right after the request still wants the answer.
        .half_close(true)
        .header_read_timeout(head_time_max)
        .max_header_size(head_bytes_max)
        .max_buf_size(head_bytes_max.max(HTTP_BUFFER_BYTES_MIN))
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades()
        .await?;
    let admitted = admitted.into_inner();
    let Some(Admitted {
        permit,
        upgrade: Some(upgrade),
    }) = admitted.unwrap_or_else(PoisonError::into_inner)
    else {
        return Ok(None);
    };
    let mut duplex = Socket::websocket(upgrade.await?, Role::Server)?;
    duplex.permit = Some(permit);
    Ok(Some(duplex))
}

/// A unix connection: JSON lines or HTTP, by its first byte.
pub(super) async fn unix(
    mut stream: UnixStream,
    head_time_max: Duration,
    policy: &Policy,
    visit: &Visit<'_>,
) -> Result<Option<Duplex>, HandshakeError> {
    let started = Instant::now();
    let mut first = BytesMut::with_capacity(SNIFFED_BYTES);
    timeout(head_time_max, stream.read_buf(&mut first))
        .await
        .map_err(|_| HandshakeError::Silent)??;
    let Some(&byte) = first.first() else {
        return Ok(None);
    };
    let socket = Socket::after(first.freeze(), Stream::Unix(stream));
    if byte == b'{' || byte.is_ascii_whitespace() {
        let Some(permit) = visit.admit() else {
            refuse(socket).await;
            return Ok(None);
        };
        let mut duplex = socket.into_lines();
        duplex.permit = Some(permit);
        return Ok(Some(duplex));
    }
    let left = head_time_max.saturating_sub(started.elapsed());
    http(socket, left, policy, visit).await
}

fn judge(request: &Request<Incoming>, policy: &Policy) -> Verdict {
    let head = RequestHead {
        method: request.method(),
        uri: request.uri(),
        version: request.version(),
        headers: request.headers(),
    };
    check(&head, policy)
}

async fn answer(verdict: Verdict, request: Request<Incoming>, visit: &Visit<'_>) -> HttpResponse {
    let site = visit.site;
    let response = match verdict {
        Verdict::WebSocket {
            accept,
            subprotocol,
        } => return switching(&accept, subprotocol),
        Verdict::Refuse {
            status,
            body,
            detail,
        } => {
            site.counters.refused(status);
            if site.refusals.admits(kind_of(status)) {
                let (peer, status) = (visit.peer, status.as_u16());
                tracing::warn!(%peer, status, reason = detail, "request refused");
            }
            refusal(status, body)
        }
        Verdict::Live => text(StatusCode::OK, "ok"),
        Verdict::Ready => match (site.ready)() {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, reason),
        },
        Verdict::Plain => match &site.http {
            Some(handler) => handler(request).await,
            None => text(StatusCode::BAD_REQUEST, "expected a websocket handshake"),
        },
    };
    closing(response)
}

/// Ends the connection after this answer.
fn closing(mut response: HttpResponse) -> HttpResponse {
    // One request per connection: a health check that kept its own would keep one of the few there
    // are. hyper's switch for this would also write `close` into the answer to an upgrade, which
    // strict clients take for a refusal.
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

fn kind_of(status: StatusCode) -> RefusalKind {
    match status {
        StatusCode::UNAUTHORIZED => RefusalKind::Token,
        StatusCode::FORBIDDEN => RefusalKind::Page,
        _ => RefusalKind::Request,
    }
}

fn text(status: StatusCode, body: &'static str) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn refusal(status: StatusCode, body: &'static str) -> HttpResponse {
    let mut response = text(status, body);
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if status == StatusCode::UPGRADE_REQUIRED {
        let version = HeaderValue::from_static(WEBSOCKET_VERSION);
        headers.insert(SEC_WEBSOCKET_VERSION, version);
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    response
}

fn switching(accept: &str, subprotocol: Option<&'static str>) -> HttpResponse {
    let Ok(accept) = HeaderValue::from_str(accept) else {
        // Base64 is always a header value.
        return text(StatusCode::INTERNAL_SERVER_ERROR, "handshake failed");
    };
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(name) = subprotocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
    }
    response
}
