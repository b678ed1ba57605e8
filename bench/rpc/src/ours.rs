//! The peer: a server on a thread of its own, and clients on this one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Context as _;
use serde_json::Value;
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;
use turnlane_protocol::envelope::encode_notification;
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::listen::{Accepted, Listener, Options};
use turnlane_rpc::{Duplex, Incoming, Outgoing, Peer, PeerOptions, Request, connect};

use crate::{Sample, TEXT_BYTES, now};

/// How client and server are connected.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Link {
    Memory,
    Unix,
    WebSocket,
}

impl Link {
    pub(crate) const ALL: [Link; 3] = [Self::Memory, Self::Unix, Self::WebSocket];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Unix => "unix, lines",
            Self::WebSocket => "websocket",
        }
    }
}

pub(crate) struct Server {
    /// The server's runtime, on its own thread.
    serving: Handle,
    client: Runtime,
    socket: PathBuf,
    url: String,
    _folder: TempDir,
}

/// A request as it stands on the wire.
pub(crate) fn frame(id: i64) -> Vec<u8> {
    format!(r#"{{"id":{id},"method":"echo","params":{}}}"#, params()).into_bytes()
}

fn params() -> String {
    format!(r#"{{"text":"{}"}}"#, "x".repeat(TEXT_BYTES))
}

impl Server {
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let serving = runtime.handle().clone();
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("run/bench.sock");
        let (unix, websocket) = runtime.block_on(async {
            let unix = Listener::bind_unix(&socket, Options::default()).await?;
            let addr = ([127, 0, 0, 1], 0).into();
            anyhow::Ok((
                unix,
                Listener::bind_tcp(addr, WsAuth::None, Options::default())?,
            ))
        })?;
        let url = websocket.bound().to_string();
        for listener in [unix, websocket] {
            let accepted = |accepted: Accepted| drop(tokio::spawn(serve(accepted.duplex)));
            runtime.spawn(listener.run(CancellationToken::new(), accepted));
        }
        thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        let client = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            serving,
            client,
            socket,
            url,
            _folder: folder,
        })
    }

    async fn connect(&self, link: Link) -> anyhow::Result<Duplex> {
        let options = connect::Options::default();
        Ok(match link {
            Link::Memory => {
                let (near, far) = Duplex::memory();
                self.serving.spawn(serve(far));
                near
            }
            Link::Unix => connect::connect_unix_lines(&self.socket, &options).await?,
            Link::WebSocket => connect::connect_ws(&self.url, &options).await?,
        })
    }

    /// Keeps `in_flight` requests going until `requests` are answered.
    pub(crate) fn echo(
        &self,
        link: Link,
        in_flight: usize,
        requests: usize,
    ) -> anyhow::Result<Sample> {
        self.client.block_on(async {
            let (peer, _inbox) = Peer::start(self.connect(link).await?, PeerOptions::default());
            measure(&peer, in_flight, requests).await
        })
    }

    /// The same for one request at a time, while the server floods a client that reads nothing.
    pub(crate) fn echo_beside_a_stalled_client(&self, requests: usize) -> anyhow::Result<Sample> {
        self.client.block_on(async {
            let mut stalled = self.connect(Link::WebSocket).await?.into_frames();
            let flood = r#"{"id":0,"method":"flood","params":{}}"#;
            stalled.writer.push(flood.into());
            stalled
                .writer
                .flush(std::time::Duration::from_secs(10))
                .await?;
            let (peer, _inbox) =
                Peer::start(self.connect(Link::WebSocket).await?, PeerOptions::default());
            // The flood is under way when this is answered; its 32 MiB stay in the outbox.
            peer.call::<Value>("echo", &1).await?;
            measure(&peer, 1, requests).await
        })
    }
}

async fn measure(peer: &Peer, in_flight: usize, requests: usize) -> anyhow::Result<Sample> {
    let params: Arc<RawValue> = RawValue::from_string(params())?.into();
    let left = Arc::new(AtomicUsize::new(requests));
    let start = now();
    let callers: Vec<_> = (0..in_flight)
        .map(|_| {
            let (peer, params, left) = (peer.clone(), Arc::clone(&params), Arc::clone(&left));
            tokio::spawn(async move {
                let mut round_trips = Vec::new();
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
                {
                    let sent = now();
                    let echoed: Box<RawValue> = peer.call("echo", &&*params).await?;
                    round_trips.push(sent.elapsed());
                    anyhow::ensure!(echoed.get() == params.get(), "an echo must be the same");
                }
                Ok(round_trips)
            })
        })
        .collect();
    let mut sample = Sample {
        requests,
        ..Sample::default()
    };
    for caller in callers {
        sample
            .round_trips
            .extend(caller.await.context("a caller panicked")??);
    }
    sample.elapsed = start.elapsed();
    Ok(sample)
}

async fn serve(duplex: Duplex) {
    let (peer, mut inbox) = Peer::start(duplex, PeerOptions::default());
    while let Some(message) = inbox.next().await {
        if let Incoming::Request(Request {
            method,
            params,
            responder,
        }) = message
        {
            if method == "flood" {
                flood(&peer);
            }
            responder.respond(params.parse::<Box<RawValue>>());
        }
    }
}

/// 32 MiB of what is never dropped: half of what a connection may hold.
fn flood(peer: &Peer) {
    let text = "x".repeat(32 * 1024);
    if let Ok(frame) = encode_notification("note", &text, None) {
        let message = Outgoing::kept(frame, None);
        for _ in 0..1024 {
            peer.notify(&message);
        }
    }
}
