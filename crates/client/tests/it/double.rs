//! A server whose every answer is the test's: one end of an in-memory connection.
//!
//! The invariant here: the double says nothing on its own but the answer to `initialize`, so a test
//! that passes has seen every message that the client sent. A message that does not come fails the
//! test with its name.

use serde_json::{Value, json};
use turnlane::{Client, ClientBuilder, Endpoint};
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{Duplex, Inbox, Incoming, Peer, PeerOptions, Responder};
use turnlane_testkit::wait::{DEADLINE, within};

/// Which server is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ours, with queues and approvals.
    Turnlane,
    /// Codex 0.166.
    Codex,
}

/// The server's end.
#[derive(Debug)]
pub(crate) struct Double {
    peer: Peer,
    inbox: Inbox,
}

/// A request of the client that waits for the test's answer.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The method.
    pub(crate) method: String,
    /// Its params.
    pub(crate) params: Value,
    responder: Responder,
}

impl Asked {
    /// Answers.
    #[expect(clippy::needless_pass_by_value, reason = "tests write it in place")]
    pub(crate) fn answer(self, result: Value) {
        self.responder.result(&result);
    }

    /// Never answers.
    pub(crate) fn leave(self) {
        self.responder.leave();
    }

    /// Refuses, with `data` where it is not null.
    pub(crate) fn refuse(self, code: i64, message: &str, data: &Value) {
        let mut error = ErrorObject::bare(code, message);
        error.data = (!data.is_null()).then(|| data.clone());
        self.responder.error(&error);
    }
}

impl Double {
    /// A client with `builder`'s choices, connected to a double.
    pub(crate) async fn connect(kind: Kind, builder: ClientBuilder) -> (Self, Client) {
        let (ours, theirs) = Duplex::memory();
        let mut double = Self::over(ours);
        let client = builder.endpoint(Endpoint::io(theirs)).connect();
        let (client, ()) = tokio::join!(client, double.initialize(kind));
        (double, client.unwrap())
    }

    /// The server's end of a connection.
    pub(crate) fn over(duplex: Duplex) -> Self {
        let (peer, inbox) = Peer::start(duplex, PeerOptions::default());
        Self { peer, inbox }
    }

    /// The same with the defaults.
    pub(crate) async fn plain(kind: Kind) -> (Self, Client) {
        Self::connect(kind, Client::builder()).await
    }

    /// Answers `initialize` and takes `initialized`.
    pub(crate) async fn initialize(&mut self, kind: Kind) {
        let asked = self.expect("initialize").await;
        asked.answer(initialized(kind));
        assert_eq!(self.told().await.0, "initialized");
    }

    /// The next message, which must be a request.
    pub(crate) async fn next(&mut self) -> Asked {
        match self.message("a request").await {
            Incoming::Request(request) => Asked {
                params: request.params.parse().unwrap(),
                method: request.method,
                responder: request.responder,
            },
            Incoming::Notification(told) => panic!("a notification came: {}", told.method),
        }
    }

    /// The next message, which must be a request of this method.
    pub(crate) async fn expect(&mut self, method: &str) -> Asked {
        let asked = self.next().await;
        assert_eq!(asked.method, method, "params: {}", asked.params);
        asked
    }

    /// The next message, which must be a notification: its method and params.
    pub(crate) async fn told(&mut self) -> (String, Value) {
        match self.message("a notification").await {
            Incoming::Notification(told) => (told.method.clone(), told.params.parse().unwrap()),
            Incoming::Request(request) => panic!("a request came: {}", request.method),
        }
    }

    /// The end of the connection, with nothing sent before it.
    pub(crate) async fn ended(mut self) {
        let next = within("the end", DEADLINE, self.inbox.next())
            .await
            .unwrap();
        assert!(next.is_none(), "{next:?} came before the end");
    }

    /// Tells the client something.
    #[expect(clippy::needless_pass_by_value, reason = "tests write it in place")]
    pub(crate) fn tell(&self, method: &str, params: Value) {
        self.peer.tell(method, &params).unwrap();
    }

    /// Asks the client something.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Value, turnlane_rpc::CallError> {
        let answer = self.peer.call(method, &params);
        within(method, DEADLINE, answer).await.unwrap()
    }

    /// Both halves, for servers that go on by themselves.
    pub(crate) fn into_parts(self) -> (Peer, Inbox) {
        (self.peer, self.inbox)
    }

    /// The server's peer, for tests that send from another task.
    pub(crate) fn peer(&self) -> Peer {
        self.peer.clone()
    }

    /// Answers `thread/start` with a read-only thread, and gives what was asked.
    pub(crate) async fn start_thread(&mut self, id: &str) -> Value {
        let asked = self.expect("thread/start").await;
        let params = asked.params.clone();
        asked.answer(thread_answer(id));
        params
    }

    /// Answers `turn/start` with a running turn and tells its start, and gives what was asked.
    pub(crate) async fn start_turn(&mut self, thread: &str, turn: &str) -> Value {
        let asked = self.expect("turn/start").await;
        let params = asked.params.clone();
        asked.answer(json!({ "turn": turn_value(turn, "inProgress") }));
        let client_id = params["clientUserMessageId"].clone();
        self.tell("turn/started", turn_event(thread, turn, "inProgress"));
        let item = json!({"type": "userMessage", "id": format!("{turn}-user"),
            "clientId": client_id, "content": params["input"]});
        self.item(thread, turn, "item/started", &item);
        self.item(thread, turn, "item/completed", &item);
        params
    }

    /// Says one thing and ends the turn.
    pub(crate) fn end_turn(&self, thread: &str, turn: &str, text: &str) {
        let item = json!({"type": "agentMessage", "id": format!("{turn}-answer"), "text": text});
        self.item(thread, turn, "item/started", &item);
        self.item(thread, turn, "item/completed", &item);
        self.tell("turn/completed", turn_event(thread, turn, "completed"));
    }

    /// Tells about an item.
    pub(crate) fn item(&self, thread: &str, turn: &str, method: &str, item: &Value) {
        self.tell(
            method,
            json!({"threadId": thread, "turnId": turn, "item": item, "startedAtMs": 0, "completedAtMs": 0}),
        );
    }

    async fn message(&mut self, what: &str) -> Incoming {
        let next = within(what, DEADLINE, self.inbox.next()).await.unwrap();
        next.unwrap_or_else(|| panic!("the client left; {what} was expected"))
    }
}

/// The result of `initialize`.
pub(crate) fn initialized(kind: Kind) -> Value {
    let mut result = json!({
        "userAgent": "turnlane/0.166.0 (Debian; x86_64) turnlane", "codexHome": "/home/x/.codex",
        "platformFamily": "unix", "platformOs": "linux",
    });
    if kind == Kind::Turnlane {
        result["turnlane"] = json!({"version": "0.1.0", "protocol": 1,
            "features": ["approval", "queue", "replay"]});
    }
    result
}

/// The result of `thread/start` for a thread that may only read.
pub(crate) fn thread_answer(id: &str) -> Value {
    json!({
        "thread": {"id": id, "preview": "", "ephemeral": false, "modelProvider": "mock",
            "createdAt": 0, "updatedAt": 0, "status": {"type": "idle"}, "cwd": "/srv",
            "turns": []},
        "model": "mock-model", "modelProvider": "mock", "cwd": "/srv",
        "approvalPolicy": "never", "sandbox": {"type": "readOnly", "networkAccess": false},
        "reasoningEffort": "medium",
    })
}

/// A turn without items.
pub(crate) fn turn_value(id: &str, status: &str) -> Value {
    json!({"id": id, "items": [], "itemsView": "notLoaded", "status": status, "error": null,
        "startedAt": 0, "completedAt": null, "durationMs": null})
}

/// The params of `turn/started` and `turn/completed`.
pub(crate) fn turn_event(thread: &str, turn: &str, status: &str) -> Value {
    json!({"threadId": thread, "turn": turn_value(turn, status)})
}
