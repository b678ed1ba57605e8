//! A double of the app-server: the test reads each request and answers it, in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{Duplex, Inbox, Incoming, Peer, PeerOptions, Request};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::codex::launch::{ChildProcess, LaunchError, Launcher, StartedChild};
use crate::codex::{AppServers, Codex, CodexOptions};
use crate::engine::BoxFuture;

/// 2026-01-01, the time of everything.
pub(super) const NOW_MS: i64 = 1_767_225_600_123;
/// Codex's id of the thread that [`Child::start_thread`] gives.
pub(super) const THREAD: &str = "codex-thread";

/// Starts doubles.
struct DoubleLauncher {
    children: mpsc::Sender<Child>,
    refusals: Mutex<VecDeque<LaunchError>>,
    launches: AtomicUsize,
}

/// An engine whose children are doubles.
pub(super) struct Bench {
    pub(super) engine: Arc<Codex>,
    pub(super) servers: AppServers,
    launcher: Arc<DoubleLauncher>,
    children: mpsc::Receiver<Child>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let (sender, children) = mpsc::channel(64);
        let launcher = Arc::new(DoubleLauncher {
            children: sender,
            refusals: Mutex::default(),
            launches: AtomicUsize::new(0),
        });
        let clock: crate::scripted::Clock = Arc::new(|| NOW_MS);
        let shared: Arc<dyn Launcher> = launcher.clone();
        let servers = AppServers::launched_by(shared, 1, clock.clone());
        let engine = Codex::new(CodexOptions {
            servers: servers.clone(),
            clock,
        });
        Self {
            engine: Arc::new(engine),
            servers,
            launcher,
            children,
        }
    }

    /// The next start fails.
    pub(super) fn refuse_start(&self, error: LaunchError) {
        self.launcher.refusals.lock().unwrap().push_back(error);
    }

    pub(super) fn launches(&self) -> usize {
        self.launcher.launches.load(Ordering::SeqCst)
    }

    /// The next child, before its handshake.
    pub(super) async fn raw_child(&mut self) -> Child {
        let child = within("a child", DEADLINE, self.children.recv());
        child.await.unwrap().unwrap()
    }

    /// The next child, ready.
    pub(super) async fn child(&mut self) -> Child {
        let mut child = self.raw_child().await;
        let hello = child.request("initialize").await;
        let params: Value = hello.params.parse().unwrap();
        assert_eq!(params["clientInfo"]["name"], "turnlane");
        assert_eq!(params["capabilities"]["experimentalApi"], true);
        hello
            .responder
            .result(&json!({"userAgent": "turnlane/0.166.0 (x)"}));
        child.notification("initialized").await;
        child
    }
}

impl Launcher for DoubleLauncher {
    fn launch(&self) -> BoxFuture<'_, Result<StartedChild, LaunchError>> {
        Box::pin(async {
            self.launches.fetch_add(1, Ordering::SeqCst);
            let refusal = self.refusals.lock().unwrap().pop_front();
            if let Some(error) = refusal {
                return Err(error);
            }
            let (near, far) = Duplex::memory();
            let (peer, inbox) = Peer::start(far, PeerOptions::default());
            let ends = Arc::new(AtomicUsize::new(0));
            let process = DoubleProcess {
                peer: peer.clone(),
                ends: Arc::clone(&ends),
            };
            let child = Child { peer, inbox, ends };
            self.children.send(child).await.unwrap();
            Ok(StartedChild {
                duplex: near,
                process: Arc::new(process),
            })
        })
    }
}

struct DoubleProcess {
    peer: Peer,
    ends: Arc<AtomicUsize>,
}

impl ChildProcess for DoubleProcess {
    fn kill(&self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
        self.peer.close();
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        self.kill();
        Box::pin(async {})
    }
}

/// The far side of one child.
pub(super) struct Child {
    pub(super) peer: Peer,
    inbox: Inbox,
    ends: Arc<AtomicUsize>,
}

impl Child {
    /// Whether our side has ended it.
    pub(super) fn is_ended(&self) -> bool {
        self.ends.load(Ordering::SeqCst) > 0
    }

    /// Dies, as by `kill -9`.
    pub(super) fn die(self) {
        self.peer.close();
    }

    /// Returns when our side has closed the connection; no message may come before.
    pub(super) async fn closed(&mut self) {
        let next = self.inbox.next().await;
        assert!(next.is_none(), "{next:?}");
    }

    /// The next message, if the connection lives.
    pub(super) async fn next(&mut self) -> Option<Incoming> {
        let next = within("a message of the engine", DEADLINE, self.inbox.next());
        next.await.unwrap()
    }

    /// The next request, which must be this one.
    pub(super) async fn request(&mut self, method: &str) -> Request {
        match self.next().await {
            Some(Incoming::Request(request)) if request.method == method => request,
            other => panic!("{method} expected: {other:?}"),
        }
    }

    pub(super) async fn notification(&mut self, method: &str) {
        match self.next().await {
            Some(Incoming::Notification(notice)) if notice.method == method => {}
            other => panic!("{method} expected: {other:?}"),
        }
    }

    /// The params of the next request, which is answered.
    pub(super) async fn answer(&mut self, method: &str, result: Value) -> Value {
        let request = self.request(method).await;
        let params = request.params.parse().unwrap();
        request.responder.result(&result);
        params
    }

    /// The params of the next request, which is refused.
    pub(super) async fn refuse(&mut self, method: &str, message: &str) -> Value {
        let request = self.request(method).await;
        let params = request.params.parse().unwrap();
        request.responder.error(&ErrorObject::bare(-32600, message));
        params
    }

    pub(super) async fn start_thread(&mut self) -> Value {
        self.answer("thread/start", json!({"thread": {"id": THREAD}}))
            .await
    }

    pub(super) async fn resume_thread(&mut self) -> Value {
        self.answer("thread/resume", json!({"thread": {"id": THREAD}}))
            .await
    }

    /// Answers `turn/start` and tells the begin of the turn.
    pub(super) async fn start_turn(&mut self, turn: &str) -> Value {
        let answer = json!({"turn": {"id": turn, "status": "inProgress"}});
        let params = self.answer("turn/start", answer).await;
        self.turn("turn/started", turn, "inProgress");
        params
    }

    pub(super) fn tell(&self, method: &str, params: &Value) {
        self.peer.tell(method, params).unwrap();
    }

    pub(super) fn turn(&self, method: &str, turn: &str, status: &str) {
        let turn = json!({"id": turn, "status": status, "items": [], "error": null});
        self.tell(method, &json!({"threadId": THREAD, "turn": turn}));
    }

    pub(super) fn item(&self, method: &str, turn: &str, item: &Value) {
        let params = json!({"threadId": THREAD, "turnId": turn, "item": item});
        self.tell(method, &params);
    }

    /// A message of the agent, whole.
    pub(super) fn say(&self, turn: &str, id: &str, text: &str) {
        let item = json!({"type": "agentMessage", "id": id, "text": text, "completedAtMs": 1});
        self.item("item/completed", turn, &item);
    }

    /// A command that runs.
    pub(super) fn run(&self, turn: &str, id: &str) {
        let item = json!({
            "type": "commandExecution", "id": id, "command": "sleep 30", "cwd": "/w",
            "status": "inProgress", "commandActions": [],
        });
        self.item("item/started", turn, &item);
    }

    pub(super) fn usage(&self, turn: &str, total: i64, last: i64) {
        let counts = |tokens: i64| {
            json!({
                "totalTokens": tokens, "inputTokens": tokens, "cachedInputTokens": 0,
                "outputTokens": 0, "reasoningOutputTokens": 0,
            })
        };
        let usage = json!({
            "total": counts(total), "last": counts(last), "modelContextWindow": 1000,
        });
        let params = json!({"threadId": THREAD, "turnId": turn, "tokenUsage": usage});
        self.tell("thread/tokenUsage/updated", &params);
    }

    /// Answers the request for the turns of the thread.
    pub(super) async fn list(&mut self, turns: Value) {
        let page = json!({"data": turns, "nextCursor": null});
        let params = self.answer("thread/turns/list", page).await;
        assert_eq!(params["sortDirection"], "desc");
        assert_eq!(params["itemsView"], "full");
    }
}

/// A turn in Codex's history with a message of ours and one of the agent.
pub(super) fn recorded(turn: &str, client_id: &str, status: &str) -> Value {
    json!({
        "id": turn, "status": status, "startedAt": NOW_MS / 1_000, "error": null,
        "items": [
            {"type": "userMessage", "id": "u", "clientId": client_id, "content": []},
            {"type": "agentMessage", "id": "m", "text": "from history", "completedAtMs": 1},
        ],
    })
}
