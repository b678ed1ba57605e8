//! A server with a certificate of its own, and clients that trust it or do not.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::connect::url::WsUrl;
use crate::connect::{Options, connect_ws, handshake as request_of};
use crate::frame::Inbound;

/// An echo behind TLS whose certificate is for `localhost`, and who trusts it.
async fn echo() -> (SocketAddr, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate.clone()).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else {
                continue;
            };
            let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
                continue;
            };
            while let Some(Ok(Message::Text(text))) = socket.next().await {
                socket.send(Message::Text(text)).await.unwrap();
            }
        }
    });
    (addr, trusted)
}

async fn connected(
    addr: SocketAddr,
    trusted: RootCertStore,
    host: &str,
) -> Result<Duplex, ConnectError> {
    let trust = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let url = WsUrl::parse(&format!("wss://{host}:{}", addr.port())).unwrap();
    let request = request_of::request(&url, &Options::default()).unwrap();
    let stream = TcpStream::connect(addr).await.unwrap();
    open(trust, url.host(), stream, request).await
}

#[tokio::test]
async fn a_trusted_server_is_spoken_to_in_secret() {
    let (addr, trusted) = echo().await;
    let mut frames = connected(addr, trusted, "localhost")
        .await
        .unwrap()
        .into_frames();
    let large = Bytes::from("x".repeat(100_000));
    for sent in [Bytes::from_static(b"{}"), large] {
        frames.writer.push(sent.clone());
        frames
            .writer
            .flush(crate::connect::CONNECT_TIME_MAX)
            .await
            .unwrap();
        let received = frames.reader.next().await.unwrap();
        assert_eq!(received, Some(Inbound::Message(sent)));
    }
}

#[tokio::test]
async fn nobody_else_is() {
    let (addr, trusted) = echo().await;
    let rows = [
        (RootCertStore::empty(), "localhost"),
        (trusted, "example.com"),
    ];
    for (trusted, host) in rows {
        let error = connected(addr, trusted, host).await.unwrap_err();
        assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    }
    // Nor by the platform.
    let url = format!("wss://localhost:{}", addr.port());
    let error = connect_ws(&url, &Options::default()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
}

#[tokio::test]
async fn a_token_may_go_to_any_host_in_secret_only() {
    let options = Options {
        token: Some("t".into()),
        ..Options::default()
    };
    crate::connect::check_ws("wss://example.com", &options).unwrap();
    let error = crate::connect::check_ws("ws://example.com", &options).unwrap_err();
    assert!(
        matches!(error, ConnectError::InvalidEndpoint { .. }),
        "{error:?}"
    );
}
