//! Where connections break, and by which word it is known.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use turnlane_testkit::wait::{DEADLINE, within};

use super::clients::{Key, Route, make};
use super::faults;
use super::trust::Trust;
use super::*;
use crate::native::provider::BaseUrl;

fn client(connect_timeout: Duration) -> reqwest::Client {
    let key = Key {
        provider: "x".to_owned(),
        connect_timeout,
        trust: Trust::Nobody,
        route: Route::AsConfigured,
    };
    make(&key).unwrap()
}

async fn breaks(client: reqwest::Client, url: &str) -> Broken {
    let sent = client.post(url).body("{}").send();
    let sent = within("a failure", DEADLINE, sent).await.unwrap();
    let broken = faults::of_request(sent.unwrap_err());
    assert!(!broken.text.contains("secret"), "{broken:?}");
    broken
}

/// A server that answers the first bytes of every connection with these.
async fn answering(answer: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = connection.read(&mut buffer).await;
            let _ = connection.write_all(answer).await;
        }
    });
    address
}

#[tokio::test]
async fn a_refused_connection_is_known() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/v1?key=secret");
    let broken = breaks(client(DEADLINE), &url).await;
    assert_eq!(broken.fault, Fault::Connect);
    assert!(broken.text.contains("refused"), "{broken:?}");
}

#[tokio::test]
async fn a_name_that_nobody_has_is_known() {
    // Longer than a name may be, so nobody is asked for it.
    let url = format!("http://{}.invalid/v1", "a".repeat(80));
    let broken = breaks(client(DEADLINE), &url).await;
    assert_eq!(broken.fault, Fault::Dns, "{broken:?}");
}

/// An address that answers nobody: a listener whose queue is full.
pub(in crate::native) struct Deaf {
    pub(in crate::native) url: String,
    _listener: TcpListener,
    _held: Vec<TcpStream>,
}

impl Deaf {
    pub(in crate::native) async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut held = Vec::new();
        // The first that is not taken in shows that the queue is full.
        while let Ok(connected) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            held.push(connected.unwrap());
        }
        Self {
            url: format!("http://{address}/v1"),
            _listener: listener,
            _held: held,
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_is_known() {
    let deaf = Deaf::new().await;
    let broken = breaks(client(Duration::from_millis(100)), &deaf.url).await;
    assert_eq!(broken.fault, Fault::ConnectTimeout, "{broken:?}");
}

#[tokio::test]
async fn a_server_without_tls_is_known() {
    let address = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let url = format!("https://{address}/v1?key=secret");
    let broken = breaks(client(DEADLINE), &url).await;
    assert_eq!(broken.fault, Fault::Tls, "{broken:?}");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_known() {
    for answer in [
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n".as_slice(),
        b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
    ] {
        let proxy = format!("http://user:secret@{}", answering(answer).await);
        let proxied = reqwest::Client::builder()
            .tls_backend_preconfigured(Trust::Nobody.config().unwrap())
            .proxy(reqwest::Proxy::all(proxy).unwrap())
            .build()
            .unwrap();
        let broken = breaks(proxied, "https://provider.invalid/v1").await;
        assert_eq!(broken.fault, Fault::Proxy, "{broken:?}");
    }
}

/// A server for `localhost` that vouches for itself; its address and its certificate.
async fn vouching() -> (String, rustls::RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let mut trusted = rustls::RootCertStore::empty();
    trusted.add(certificate.clone()).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // A client that does not trust us ends the handshake.
            let Ok(mut connection) = acceptor.accept(connection).await else {
                continue;
            };
            let mut buffer = [0; 4096];
            let _ = connection.read(&mut buffer).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            let _ = connection.write_all(answer).await;
            let _ = connection.shutdown().await;
        }
    });
    (format!("https://localhost:{port}/v1"), trusted)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[tokio::test]
async fn a_host_is_spoken_to_over_tls_if_its_certificate_is_trusted() {
    let (url, trusted) = vouching().await;
    let config = rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trusted)
        .with_no_client_auth();
    let trusting = reqwest::Client::builder().tls_backend_preconfigured(config);
    let sent = trusting.build().unwrap().post(&url).send();
    let answer = within("an answer", DEADLINE, sent).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);

    // The system knows nothing of this certificate, nor does somebody who trusts nobody.
    for trust in [Trust::System, Trust::Nobody] {
        let key = Key {
            provider: "x".to_owned(),
            connect_timeout: DEADLINE,
            trust,
            route: Route::AsConfigured,
        };
        let broken = breaks(make(&key).unwrap(), &url).await;
        assert_eq!(broken.fault, Fault::Certificate, "{broken:?}");
    }
}

#[test]
fn a_certificate_is_told_from_other_troubles_of_tls() {
    let found = |error: rustls::Error| faults::tls(&io::Error::other(error));
    let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
    assert_eq!(found(expired), Some(Fault::Certificate));
    assert_eq!(found(rustls::Error::DecryptError), Some(Fault::Tls));
    assert_eq!(faults::tls(&io::Error::other("else")), None);
}

#[test]
fn only_providers_with_tls_look_at_the_systems_certificates() {
    let trust = |url: &str| Trust::for_address(&BaseUrl::parse(url).unwrap());
    assert_eq!(trust("https://x.example/v1"), Trust::System);
    assert_eq!(trust("HTTPS://x.example/v1"), Trust::System);
    assert!(Trust::Nobody.config().is_ok());
}
