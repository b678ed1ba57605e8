//! Frames through connections a listener made: nothing is lost on the way from HTTP to frames.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_blocking;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Message, client};
use turnlane_rpc::auth::Secret;
use turnlane_rpc::connect::{self, connect_unix, connect_unix_lines, connect_ws};
use turnlane_rpc::listen::{Listener, Options};
use turnlane_rpc::{
    BinaryMessages, Duplex, FrameReader, FrameWriter, Frames, Framing, Inbound, Peer, PeerOptions,
};

use crate::support::{Served, TOKEN, WAIT_MAX, within};

/// One end of a connection, without a peer on it.
struct End {
    reader: FrameReader,
    writer: FrameWriter,
}

impl End {
    fn new(duplex: Duplex) -> Self {
        let Frames { reader, writer, .. } = duplex.into_frames();
        Self { reader, writer }
    }

    async fn receive(&mut self) -> String {
        match within(self.reader.next()).await.unwrap() {
            Some(Inbound::Message(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("expected a message, not {other:?}"),
        }
    }

    async fn send(&mut self, text: &str) {
        self.writer.push(text.to_owned().into());
        self.writer.flush(WAIT_MAX).await.unwrap();
    }
}

/// Both ways, short and long.
async fn converse(left: &mut End, right: &mut End) {
    let long = format!("\"{}\"", "x".repeat(300_000));
    for text in ["{\"id\":1}", &long] {
        // A long text needs a reader to get through.
        let ((), received) = tokio::join!(left.send(text), right.receive());
        assert_eq!(received, text);
        let ((), received) = tokio::join!(right.send(text), left.receive());
        assert_eq!(received, text);
    }
}

async fn unix() -> (TempDir, PathBuf, Served) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let listener = Listener::bind_unix(&path, Options::default()).await;
    let served = Served::start(listener.unwrap());
    (home, path, served)
}

fn with_token() -> connect::Options {
    connect::Options {
        token: Some(Secret::from(TOKEN)),
        ..connect::Options::default()
    }
}

#[tokio::test]
async fn an_independent_client_exchanges_frames_over_unix() {
    fn texts<S: Read + Write>(stream: S) -> Vec<String> {
        let request = "ws://localhost/".into_client_request().unwrap();
        let (mut socket, _) = client(request, stream).map_err(drop).expect("a websocket");
        for text in ["one", "two", &"3".repeat(70_000)] {
            socket.send(Message::text(text)).unwrap();
        }
        (0..3)
            .map(|_| socket.read().unwrap().into_text().unwrap().to_string())
            .collect()
    }
    let (_home, path, mut served) = unix().await;
    let client = spawn_blocking(move || {
        let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        texts(stream)
    });
    let mut end = End::new(served.next().await.duplex);
    for _ in 0..3 {
        let text = end.receive().await;
        end.send(&format!("{text}!")).await;
    }
    let long = format!("{}!", "3".repeat(70_000));
    assert_eq!(within(client).await.unwrap(), ["one!", "two!", &long]);
}

#[tokio::test]
async fn our_own_client_exchanges_frames() {
    let mut served = Served::with_token(Options::default());
    let url = format!("ws://{}", served.addr());
    let mut client = End::new(connect_ws(&url, &with_token()).await.unwrap());
    converse(&mut client, &mut End::new(served.next().await.duplex)).await;

    let (_home, path, mut served) = unix().await;
    let mut client = End::new(connect_unix(&path, &with_token()).await.unwrap());
    converse(&mut client, &mut End::new(served.next().await.duplex)).await;

    let mut client = End::new(connect_unix_lines(&path, &with_token()).await.unwrap());
    // The server hears what we speak by the first byte.
    client.send("{}").await;
    let mut server = End::new(served.next().await.duplex);
    assert_eq!(server.receive().await, "{}");
    converse(&mut client, &mut server).await;
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
    async fn hears(
        mut stream: impl tokio::io::AsyncWrite + Unpin,
        head: &str,
        served: &mut Served,
    ) {
        stream.write_all(&eager(head)).await.unwrap();
        let mut end = End::new(served.next().await.duplex);
        assert_eq!(end.receive().await, "hi");
        stream.write_all(&[0, 0, b'y', b'o', b'u']).await.unwrap();
        assert_eq!(end.receive().await, "you");
    }
    let mut served = Served::with_token(Options::default());
    let stream = TcpStream::connect(served.addr()).await.unwrap();
    hears(stream, "Host: localhost\r\n", &mut served).await;

    let (_home, path, mut served) = unix().await;
    let stream = UnixStream::connect(&path).await.unwrap();
    // Longer than what is read to see what the client speaks.
    let padding = format!("X-Padding: {}\r\n", "x".repeat(3000));
    hears(stream, &padding, &mut served).await;
}

#[tokio::test]
async fn a_unix_client_may_speak_lines() {
    let (_home, path, mut served) = unix().await;
    for before in ["", "\n", " \t\r\n"] {
        let mut stream = UnixStream::connect(Path::new(&path)).await.unwrap();
        let text = format!("{before}{{\"id\":1}}\n{{\"id\"");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut end = End::new(served.next().await.duplex);
        assert_eq!(end.receive().await.trim(), "{\"id\":1}");
        stream.write_all(b":2}\n").await.unwrap();
        assert_eq!(end.receive().await, "{\"id\":2}");
    }
}

#[tokio::test]
async fn a_live_connection_outlives_its_listener_and_counts_to_its_end() {
    let mut served = Served::with_token(Options::default());
    let url = format!("ws://{}", served.addr());
    let duplex = connect_ws(&url, &with_token()).await.unwrap();
    let (client, _inbox) = Peer::start(duplex, PeerOptions::default());
    let (server, inbox) = Peer::start(served.next().await.duplex, PeerOptions::default());
    served.shutdown.cancel();
    within(&mut served.task).await.unwrap();

    // Nobody serves requests there, which is an answer too.
    drop(inbox);
    assert!(within(client.call::<()>("any", &())).await.is_err());
    assert_eq!(served.handle.connections_open(), 1);
    server.close();
    within(server.closed()).await;
    assert_eq!(served.handle.connections_open(), 0);
    within(client.closed()).await;
}

#[tokio::test]
async fn a_protocol_may_read_binary_messages_and_write_in_fragments() {
    fn talk<S: Read + Write>(stream: S) -> Vec<usize> {
        let request = "ws://localhost/".into_client_request().unwrap();
        let (mut socket, _) = client(request, stream).map_err(drop).expect("a websocket");
        socket
            .send(Message::binary(b"{\"id\":1}".as_slice()))
            .unwrap();
        socket.flush().unwrap();
        // Frames as they come: the first is not final, the last is.
        socket.read().map(|message| vec![message.len()]).unwrap()
    }
    let framing = Framing {
        frame_bytes_max: 1000,
        binary: BinaryMessages::Read,
        fragment_bytes_max: 100_000,
    };
    let (_home, path, mut served) = unix().await;
    let client = spawn_blocking(move || {
        let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        talk(stream)
    });
    let mut end = End::new(served.next().await.duplex.framed(&framing));
    assert_eq!(end.receive().await, "{\"id\":1}");
    end.send(&"x".repeat(250_000)).await;
    assert_eq!(within(client).await.unwrap(), [250_000]);
}
