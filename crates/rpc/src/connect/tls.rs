//! `wss://`: the same handshake inside of TLS.
//!
//! The invariant here: nothing but the handshake of TLS is sent to a server whose certificate the
//! platform does not trust for the host of the URL. There is no way to switch that off.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ConnectError;
use super::handshake::handshake;
use crate::duplex::Duplex;
use crate::frame::Role;

/// What the platform trusts.
pub(super) fn platform() -> Result<ClientConfig, ConnectError> {
    let broken = |error: rustls::Error| ConnectError::refused(io::Error::other(error));
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(broken)?;
    Ok(builder.with_no_client_auth())
}

/// Opens a websocket inside of TLS on a connected stream.
pub(super) async fn open(
    mut trust: ClientConfig,
    host: &str,
    stream: TcpStream,
    request: Request<Empty<Bytes>>,
) -> Result<Duplex, ConnectError> {
    trust.alpn_protocols = vec![b"http/1.1".to_vec()];
    let host = name(host)?;
    let connecting = TlsConnector::from(Arc::new(trust)).connect(host, stream);
    let stream = connecting.await.map_err(ConnectError::refused)?;
    handshake(stream, request, take_back).await
}

/// What the certificate must be for.
pub(super) fn name(host: &str) -> Result<ServerName<'static>, ConnectError> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| ConnectError::invalid("the host is no name that can be trusted"))
}

fn take_back(upgraded: Upgraded) -> io::Result<Duplex> {
    let parts = upgraded
        .downcast::<TokioIo<TlsStream<TcpStream>>>()
        .map_err(|_| io::Error::other("the upgraded connection is not our stream"))?;
    // The halves share a lock that is held for one read or write, none of which waits.
    let (reader, writer) = tokio::io::split(parts.io.into_inner());
    let leftover = parts.read_buf;
    Ok(Duplex::websocket(Role::Client, &leftover, reader, writer))
}

#[cfg(test)]
mod tests;
