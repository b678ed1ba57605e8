//! Two peers, or a peer and a raw connection, over every framing.

mod backpressure;
mod bad_input;
mod calls;
mod endings;

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::time::timeout;

use super::*;
use crate::frame::{FrameReader, FrameWriter, Inbound, Role};

/// Longer than any wait that ends; a wait that reaches it is a failure.
const DEADLINE: Duration = Duration::from_mins(5);

/// The kinds of connection a peer can have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Link {
    Memory,
    Lines,
    Length,
    WebSocket,
}

impl Link {
    const ALL: [Link; 4] = [Self::Memory, Self::Lines, Self::Length, Self::WebSocket];
    const STREAMS: [Link; 3] = [Self::Lines, Self::Length, Self::WebSocket];

    /// The server's and the client's end; `pipe_bytes` is what fits between them.
    fn connected_by(self, pipe_bytes: usize) -> (Duplex, Duplex) {
        if self == Self::Memory {
            return Duplex::memory();
        }
        let (server, client) = tokio::io::duplex(pipe_bytes);
        (
            self.over(server, Role::Server),
            self.over(client, Role::Client),
        )
    }

    fn connected(self) -> (Duplex, Duplex) {
        self.connected_by(64 * 1024)
    }

    fn over(self, io: DuplexStream, role: Role) -> Duplex {
        let (reader, writer) = tokio::io::split(io);
        match self {
            Self::Memory => unreachable!("has no bytes"),
            Self::Lines => Duplex::lines(reader, writer),
            Self::Length => Duplex::length_prefixed(reader, writer, crate::FRAME_BYTES_MAX),
            Self::WebSocket => Duplex::websocket(role, &[], reader, writer),
        }
    }
}

/// A peer that answers `echo` with its params and drops every other request.
fn echo_server(duplex: Duplex, options: PeerOptions) -> Peer {
    let (peer, mut inbox) = Peer::start(duplex, options);
    tokio::spawn(async move {
        while let Some(message) = inbox.next().await {
            if let Incoming::Request(request) = message
                && request.method == "echo"
            {
                request.responder.respond(request.params.parse::<Value>());
            }
        }
    });
    peer
}

fn client(duplex: Duplex) -> Peer {
    let (peer, mut inbox) = Peer::start(duplex, PeerOptions::default());
    tokio::spawn(async move { while inbox.next().await.is_some() {} });
    peer
}

async fn next_request(inbox: &mut Inbox) -> Request {
    match within("a request", inbox.next()).await {
        Some(Incoming::Request(request)) => request,
        other => panic!("not a request: {other:?}"),
    }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// A connection without a peer on it: writes any frame and reads what comes.
struct Raw {
    reader: FrameReader,
    writer: FrameWriter,
}

impl Raw {
    fn new(duplex: Duplex) -> Self {
        Self {
            reader: duplex.reader,
            writer: duplex.writer,
        }
    }

    async fn send(&mut self, frame: impl Into<Bytes>) {
        self.writer.push(frame.into());
        self.writer.flush(DEADLINE).await.expect("the peer reads");
    }

    async fn receive(&mut self) -> Value {
        match within("a frame", self.reader.next()).await {
            Ok(Some(Inbound::Message(frame))) => {
                serde_json::from_slice(&frame).expect("peers write JSON")
            }
            other => panic!("not a message: {other:?}"),
        }
    }

    /// Shows that the connection still works.
    async fn check_echo(&mut self) {
        self.send(r#"{"id":"still here","method":"echo","params":{"n":1}}"#)
            .await;
        assert_eq!(
            self.receive().await,
            json!({"id": "still here", "result": {"n": 1}})
        );
    }
}
