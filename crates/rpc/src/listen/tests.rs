//! Frames through connections a listener made, against clients that are not ours and ours.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};
use tokio_util::sync::CancellationToken;

use super::arrival::receive_unix;
use super::*;
use crate::auth::{CapabilityToken, Secret, WsAuth};
use crate::connect::{self, connect_unix, connect_unix_lines, connect_ws};
use crate::duplex::Duplex;
use crate::frame::Inbound;

const WAIT_MAX: Duration = Duration::from_secs(10);
const TOKEN: &str = "token-for-frames";

async fn within<T>(step: impl Future<Output = T>) -> T {
    timeout(WAIT_MAX, step).await.expect("in time")
}

struct Served {
    accepted: mpsc::Receiver<Accepted>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
    handle: Handle,
}

impl Served {
    fn start(listener: Listener) -> Self {
        let (sender, accepted) = mpsc::channel(16);
        let (shutdown, handle) = (CancellationToken::new(), listener.handle());
        let task = tokio::spawn(listener.run(shutdown.clone(), move |connection| {
            sender.try_send(connection).unwrap();
        }));
        Self {
            accepted,
            shutdown,
            task,
            handle,
        }
    }

    fn tcp() -> (Self, SocketAddr) {
        let auth = WsAuth::CapabilityToken(CapabilityToken::new(&Secret::from(TOKEN)));
        let addr = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind_tcp(addr, auth, Options::default()).unwrap();
        let Bound::Tcp(addr) = listener.bound() else {
            panic!("bound to TCP");
        };
        (Self::start(listener), addr)
    }

    async fn unix(path: &Path) -> Self {
        Self::start(Listener::bind_unix(path, Options::default()).await.unwrap())
    }

    async fn next(&mut self) -> Duplex {
        within(self.accepted.recv())
            .await
            .expect("a connection")
            .duplex
    }
}

async fn receive(duplex: &mut Duplex) -> String {
    loop {
        match within(duplex.reader.next()).await.unwrap() {
            Some(Inbound::Message(bytes)) => return String::from_utf8(bytes.to_vec()).unwrap(),
            Some(Inbound::Alive) => {}
            other => panic!("expected a message, not {other:?}"),
        }
    }
}

async fn send(duplex: &mut Duplex, text: &str) {
    duplex.writer.push(Bytes::copy_from_slice(text.as_bytes()));
    duplex.writer.flush(WAIT_MAX).await.unwrap();
}

/// Both ways, short and long.
async fn converse(left: &mut Duplex, right: &mut Duplex) {
    for text in [
        "{\"id\":1}".to_owned(),
        format!("\"{}\"", "x".repeat(300_000)),
    ] {
        // A long text needs a reader to get through.
        tokio::join!(send(left, &text), async {
            assert_eq!(receive(right).await, text);
        });
        tokio::join!(send(right, &text), async {
            assert_eq!(receive(left).await, text);
        });
    }
}

/// A client that is not ours sends three texts and returns what it reads back.
fn independent<S: Read + Write>(stream: S, token: Option<&str>) -> Vec<String> {
    let mut request = "ws://localhost/".into_client_request().unwrap();
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", value);
    }
    let (mut socket, _): (WebSocket<S>, _) = client(request, stream).expect("a websocket");
    for text in ["one", "two", &"3".repeat(70_000)] {
        socket.send(Message::text(text)).unwrap();
    }
    (0..3)
        .map(|_| socket.read().unwrap().into_text().unwrap().to_string())
        .collect()
}

async fn echo(duplex: &mut Duplex) {
    for _ in 0..3 {
        let text = receive(duplex).await;
        send(duplex, &format!("{text}!")).await;
    }
}

fn echoed() -> Vec<String> {
    vec![
        "one!".to_owned(),
        "two!".to_owned(),
        format!("{}!", "3".repeat(70_000)),
    ]
}

#[tokio::test]
async fn an_independent_client_exchanges_frames_over_tcp() {
    let (mut served, addr) = Served::tcp();
    let client = spawn_blocking(move || {
        let stream = std::net::TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        independent(stream, Some(TOKEN))
    });
    let mut duplex = served.next().await;
    echo(&mut duplex).await;
    assert_eq!(within(client).await.unwrap(), echoed());
}

#[tokio::test]
async fn an_independent_client_exchanges_frames_over_unix() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let mut served = Served::unix(&path).await;
    let client = spawn_blocking(move || {
        let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        independent(stream, None)
    });
    let mut duplex = served.next().await;
    echo(&mut duplex).await;
    assert_eq!(within(client).await.unwrap(), echoed());
}

#[tokio::test]
async fn our_own_client_exchanges_frames() {
    let options = connect::Options {
        token: Some(Secret::from(TOKEN)),
        ..connect::Options::default()
    };
    let (mut served, addr) = Served::tcp();
    let mut client = connect_ws(&format!("ws://{addr}"), &options).await.unwrap();
    converse(&mut client, &mut served.next().await).await;

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let mut served = Served::unix(&path).await;
    let mut client = connect_unix(&path, &options).await.unwrap();
    converse(&mut client, &mut served.next().await).await;

    let mut client = connect_unix_lines(&path, &options).await.unwrap();
    // The server hears who we are by the first byte.
    send(&mut client, "{}").await;
    let mut duplex = served.next().await;
    assert_eq!(receive(&mut duplex).await, "{}");
    converse(&mut client, &mut duplex).await;
}

/// A handshake, and behind it, in the same write, a masked text frame with "hi" and half another.
fn eager(host: &str) -> Vec<u8> {
    let mut bytes = format!(
        "GET / HTTP/1.1\r\n{host}\
         Authorization: Bearer {TOKEN}\r\n\
         Upgrade: websocket\r\n\
         Connection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes();
    bytes.extend([0x81, 0x82, 0, 0, 0, 0, b'h', b'i', 0x81, 0x83, 0, 0]);
    bytes
}

#[tokio::test]
async fn frames_sent_together_with_the_handshake_are_not_lost() {
    let (mut served, addr) = Served::tcp();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream
        .write_all(&eager("Host: localhost\r\n"))
        .await
        .unwrap();
    let mut duplex = served.next().await;
    assert_eq!(receive(&mut duplex).await, "hi");
    stream.write_all(&[0, 0, b'y', b'o', b'u']).await.unwrap();
    assert_eq!(receive(&mut duplex).await, "you");

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let mut served = Served::unix(&path).await;
    let mut stream = UnixStream::connect(&path).await.unwrap();
    // Longer than what is read to see what the client speaks.
    let padding = format!("X-Padding: {}\r\n", "x".repeat(3000));
    stream.write_all(&eager(&padding)).await.unwrap();
    let mut duplex = served.next().await;
    assert_eq!(receive(&mut duplex).await, "hi");
    stream.write_all(&[0, 0, b'y', b'o', b'u']).await.unwrap();
    assert_eq!(receive(&mut duplex).await, "you");
}

#[tokio::test]
async fn a_unix_client_may_speak_lines() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let mut served = Served::unix(&path).await;
    for before in ["", "\n", " \t\r\n"] {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let text = format!("{before}{{\"id\":1}}\n{{\"id\"");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut duplex = served.next().await;
        assert_eq!(receive(&mut duplex).await.trim(), "{\"id\":1}");
        stream.write_all(b":2}\n").await.unwrap();
        assert_eq!(receive(&mut duplex).await, "{\"id\":2}");
    }
}

#[tokio::test]
async fn a_live_connection_outlives_its_listener_and_counts_to_its_end() {
    let (mut served, addr) = Served::tcp();
    let options = connect::Options {
        token: Some(Secret::from(TOKEN)),
        ..connect::Options::default()
    };
    let mut client = connect_ws(&format!("ws://{addr}"), &options).await.unwrap();
    let mut duplex = served.next().await;
    served.shutdown.cancel();
    within(&mut served.task).await.unwrap();

    converse(&mut client, &mut duplex).await;
    assert_eq!(served.handle.connections_open(), 1);
    drop(duplex);
    assert_eq!(served.handle.connections_open(), 0);
    assert!(matches!(
        within(client.reader.next()).await,
        Ok(None) | Err(_)
    ));
}

#[tokio::test]
async fn another_user_is_turned_away() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"{}\n").await.unwrap();
    let uid = ours.peer_cred().unwrap().uid();
    let site = Site {
        options: Options::default(),
        ready: Arc::new(|| true),
        http: None,
        counters: Arc::default(),
    };
    assert!(receive_unix(ours, Some(uid + 1), &site).await.is_none());
    assert_eq!(site.counters.auth_failures(), 1);
}
