//! What the tests of turns share: a thread on a double, turns that run in tasks of their own, and a
//! server that can be lost and found again.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turnlane::{Client, ClientBuilder, Endpoint, Reconnect, Thread, TurnError, TurnOutcome};
use turnlane_rpc::Duplex;
use turnlane_rpc::listen::{Listener, Options};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::double::{Double, Kind};

/// The thread of every test here.
pub(crate) const T: &str = "T";

/// Both servers.
pub(crate) const BOTH: [Kind; 2] = [Kind::Codex, Kind::Turnlane];

/// A message of the agent.
pub(crate) fn said(id: &str, text: &str, phase: impl Into<Value>) -> Value {
    let phase = phase.into();
    json!({"type": "agentMessage", "id": id, "text": text, "phase": phase})
}

/// A double with one thread.
pub(crate) async fn rig(kind: Kind) -> (Double, Client, Thread) {
    let (double, client) = Double::plain(kind).await;
    with_thread(double, client).await
}

/// The thread of a client that is connected.
pub(crate) async fn with_thread(mut double: Double, client: Client) -> (Double, Client, Thread) {
    let start = client.threads().start("/srv").into_future();
    let (thread, _) = tokio::join!(start, double.start_thread(T));
    (double, client, thread.unwrap())
}

/// Runs a turn in a task of its own.
pub(crate) fn run(thread: &Thread, text: &str) -> JoinHandle<Result<TurnOutcome, TurnError>> {
    tokio::spawn(thread.turn(text).into_future())
}

/// The end of a task.
pub(crate) async fn joined<R>(task: JoinHandle<R>) -> R {
    within("the end of a task", DEADLINE, task)
        .await
        .unwrap()
        .unwrap()
}

/// Shows that the client sends nothing of its own accord before it answers a question of ours.
pub(crate) async fn nothing_else_is_sent(double: &mut Double, client: &Client) {
    let client = client.clone();
    let probe = tokio::spawn(async move {
        let options = turnlane::CallOptions::default();
        client.call_raw("probe/now", json!({}), options).await
    });
    double.expect("probe/now").await.answer(json!({}));
    joined(probe).await.unwrap();
}

/// An error of a Turnlane server.
pub(crate) fn reason(word: &str) -> Value {
    json!({ "reason": word })
}

/// A server at a socket whose connections are the test's.
#[derive(Debug)]
pub(crate) struct Site {
    folder: TempDir,
    arrivals: mpsc::Receiver<Duplex>,
    shutdown: CancellationToken,
}

impl Site {
    /// Begins to listen.
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = Listener::bind_unix(&path, Options::default())
            .await
            .unwrap();
        let (arrived, arrivals) = mpsc::channel(16);
        let shutdown = CancellationToken::new();
        let until = shutdown.clone();
        tokio::spawn(listener.run(until, move |accepted| {
            arrived.try_send(accepted.duplex).unwrap();
        }));
        Self {
            folder,
            arrivals,
            shutdown,
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A client that comes back at once, and the server's end of its first connection.
    pub(crate) async fn connect(&mut self, kind: Kind) -> (Double, Client) {
        self.connect_with(kind, Client::builder()).await
    }

    /// The same with a builder's choices.
    pub(crate) async fn connect_with(
        &mut self,
        kind: Kind,
        builder: ClientBuilder,
    ) -> (Double, Client) {
        let client = builder
            .endpoint(Endpoint::Unix(self.path()))
            .reconnect(Reconnect::Backoff {
                initial: Duration::from_millis(1),
                max: Duration::from_millis(5),
                give_up_after: None,
            })
            .connect();
        let client = tokio::spawn(client);
        let double = self.accept(kind).await;
        (double, joined(client).await.unwrap())
    }

    /// The next connection.
    pub(crate) async fn arrival(&mut self) -> Duplex {
        within("a connection", DEADLINE, self.arrivals.recv())
            .await
            .unwrap()
            .unwrap()
    }

    /// The next connection, initialised.
    pub(crate) async fn accept(&mut self, kind: Kind) -> Double {
        let mut double = Double::over(self.arrival().await);
        double.initialize(kind).await;
        double
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}
