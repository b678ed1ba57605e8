//! One app-server child that is ready: requests to it, and its messages to the threads they are about.
//!
//! The invariants here: at most [`WINDOW`] requests are in flight, because Codex 0.166 loses answers
//! when its queues of 128 are full; every call ends with its answer, its deadline or the death of the
//! child; a question of the child is answered exactly once, by the turn it belongs to or here.
//!
//! # Theory of operation
//!
//! One task, the pump, takes the child's messages in order and puts each into the backlog of its
//! thread (`routes`). It never waits for a turn, so a turn that does not listen holds up no other. The
//! task ends with the connection and closes all backlogs; that is how turns learn of the death.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{CallError, Inbox, Incoming, Peer, PeerOptions, Request};

use super::launch::{ChildProcess, LaunchError, StartedChild};
use super::routes::{Routes, Subscription};
use super::version;
use crate::codex_program::says_unwritten;
use crate::scripted::Clock;

/// How many requests may wait for their answers.
pub(super) const WINDOW: usize = 32;
/// How long an answer may take.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(30);
/// First wait after the child said that it has too much to do; doubles.
const OVERLOADED_FIRST: Duration = Duration::from_millis(100);
/// Longest such wait.
const OVERLOADED_MAX: Duration = Duration::from_secs(5);
/// The code of that error.
const OVERLOADED: i64 = -32001;

/// A child that answered the handshake.
pub(crate) struct Connection {
    peer: Peer,
    process: Arc<dyn ChildProcess>,
    window: Semaphore,
    routes: Arc<Routes>,
    ended: watch::Sender<bool>,
    state: Mutex<State>,
}

/// Facts about the threads of this child.
#[derive(Default)]
struct State {
    /// Threads that this child has loaded for us, by Codex's id.
    loaded: HashSet<String>,
    /// Turns that were interrupted. A second interrupt of a turn is never answered (Codex 0.166).
    interrupted: HashSet<String>,
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum CallFailure {
    /// The child refused it.
    #[error("{}", .0.message)]
    Refused(ErrorObject),
    /// No answer in time. The request may have been executed.
    #[error("no answer to {method} within {} s", CALL_LIMIT.as_secs())]
    TimedOut {
        /// The method.
        method: &'static str,
    },
    /// The child ended first. The request may have been executed.
    #[error("the app-server of Codex ended")]
    Died,
    /// The answer has another shape than the protocol says.
    #[error("the answer to {method} cannot be read: {why}")]
    Unreadable {
        /// The method.
        method: &'static str,
        /// The parser's text.
        why: String,
    },
}

impl CallFailure {
    /// Returns true if the child refused the request with a text that holds `part`.
    pub(super) fn says(&self, part: &str) -> bool {
        matches!(self, Self::Refused(error) if error.message.contains(part))
    }

    /// Returns true if the child refused the request because it has no record of the thread.
    pub(super) fn says_unwritten(&self) -> bool {
        matches!(self, Self::Refused(error) if says_unwritten(&error.message))
    }
}

impl Connection {
    /// Says hello to a child that was just started.
    pub(super) async fn open(
        child: StartedChild,
        clock: Clock,
    ) -> Result<Arc<Connection>, LaunchError> {
        let StartedChild { duplex, process } = child;
        let (peer, inbox) = Peer::start(duplex, PeerOptions::default());
        let routes = Arc::new(Routes::default());
        let ended = watch::Sender::new(false);
        let pump = Pump {
            inbox,
            end: PumpEnd {
                ended: ended.clone(),
                routes: Arc::clone(&routes),
            },
            clock,
        };
        tokio::spawn(pump.run());
        let connection = Arc::new(Connection {
            peer,
            process,
            window: Semaphore::new(WINDOW),
            routes,
            ended,
            state: Mutex::default(),
        });
        match connection.handshake().await {
            Ok(()) => Ok(connection),
            Err(error) => {
                connection.kill();
                Err(error)
            }
        }
    }

    async fn handshake(&self) -> Result<(), LaunchError> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hello {
            user_agent: String,
        }
        let not_ready = |why: CallFailure| LaunchError::NotReady(why.to_string());
        let params = json!({
            "clientInfo": {"name": "turnlane", "version": env!("CARGO_PKG_VERSION")},
            "capabilities": {"experimentalApi": true},
        });
        let hello: Hello = self.call("initialize", &params).await.map_err(not_ready)?;
        version::check(&hello.user_agent)?;
        let told = self.peer.tell("initialized", &json!({}));
        told.map_err(|why| LaunchError::NotReady(why.to_string()))
    }

    /// Sends a request and waits for its answer.
    ///
    /// An overloaded child is asked again until the deadline. Dropped while it waits, the request may
    /// be executed all the same.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<R, CallFailure> {
        let limit = Instant::now() + CALL_LIMIT;
        let mut pause = OVERLOADED_FIRST;
        let answered = async {
            let Ok(_permit) = self.window.acquire().await else {
                return Err(CallFailure::Died);
            };
            loop {
                let left = limit.saturating_duration_since(Instant::now());
                match self.peer.call_within(left, method, params).await {
                    Err(CallError::Refused(error)) if error.code == OVERLOADED => {
                        sleep(pause).await;
                        pause = (pause * 2).min(OVERLOADED_MAX);
                    }
                    outcome => return outcome.map_err(|error| failure(method, error)),
                }
            }
        };
        let answered = tokio::select! {
            biased;
            () = self.died() => Err(CallFailure::Died),
            answered = timeout(CALL_LIMIT, answered) => {
                answered.unwrap_or(Err(CallFailure::TimedOut { method }))
            }
        };
        if matches!(answered, Err(CallFailure::Died)) {
            // The child may have closed its input alone. No caller is given such a child again.
            self.kill();
            self.ended.send_replace(true);
        }
        answered
    }

    /// Sends a request whose result does not matter.
    pub(super) async fn ask(
        &self,
        method: &'static str,
        params: &impl Serialize,
    ) -> Result<(), CallFailure> {
        self.call::<Value>(method, params).await.map(drop)
    }

    /// Receives the messages about a thread from now on, in place of an earlier subscriber.
    pub(super) fn subscribe(&self, thread: &str) -> Subscription {
        Routes::subscribe(&self.routes, thread)
    }

    /// The turn that runs on the thread, as far as the child has said.
    pub(super) fn active_turn(&self, thread: &str) -> Option<String> {
        self.routes.active_turn(thread)
    }

    /// Resolves with the turn that runs on the thread, when there is one.
    pub(super) async fn busy(&self, thread: &str) -> String {
        self.routes.busy(thread).await
    }

    /// Returns true if the child is gone.
    pub(super) fn is_dead(&self) -> bool {
        *self.ended.borrow()
    }

    /// Resolves when no turn runs on the thread, or when the child is gone.
    pub(super) async fn idle(&self, thread: &str) {
        tokio::select! {
            () = self.routes.idle(thread) => {}
            () = self.died() => {}
        }
    }

    /// Interrupts a turn and ends the commands that it left. Does nothing for a turn that was
    /// interrupted before.
    pub(super) async fn interrupt(&self, thread: &str, turn: &str) {
        if self.state().interrupted.insert(turn.to_owned()) {
            let params = json!({"threadId": thread, "turnId": turn});
            if let Err(why) = self.ask("turn/interrupt", &params).await {
                tracing::debug!(error = %why, "Codex did not interrupt a turn");
            }
        }
        self.clean(thread).await;
    }

    /// Ends the commands that earlier turns of the thread left running.
    pub(super) async fn clean(&self, thread: &str) {
        let params = json!({"threadId": thread});
        let cleaned = self.ask("thread/backgroundTerminals/clean", &params);
        if let Err(why) = cleaned.await {
            tracing::debug!(error = %why, "Codex did not end background terminals");
        }
    }

    /// Notes that the child has loaded a thread.
    pub(super) fn set_loaded(&self, thread: &str) {
        self.state().loaded.insert(thread.to_owned());
    }

    /// Notes that a thread must be resumed before its next turn. Returns true if it was loaded.
    pub(super) fn set_unloaded(&self, thread: &str) -> bool {
        self.state().loaded.remove(thread)
    }

    pub(super) fn is_loaded(&self, thread: &str) -> bool {
        self.state().loaded.contains(thread)
    }

    /// Resolves when the child is gone.
    pub(super) async fn died(&self) {
        let mut ended = self.ended.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    /// Kills a child that does not keep to the protocol. Everything that waits for it learns of its
    /// death.
    pub(super) fn kill(&self) {
        self.process.kill();
        self.peer.close();
    }

    /// Ends an unused child: end of input, 2 s, SIGTERM, SIGKILL.
    pub(super) async fn end(&self) {
        self.peer.close();
        self.process.end().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failure(method: &'static str, error: CallError) -> CallFailure {
    let unreadable = |why: String| CallFailure::Unreadable { method, why };
    match error {
        CallError::Refused(error) => CallFailure::Refused(error),
        CallError::Timeout { .. } => CallFailure::TimedOut { method },
        CallError::Closed(_) => CallFailure::Died,
        error @ CallError::TooLarge { .. } => unreadable(error.to_string()),
        CallError::Encode(why) | CallError::Decode(why) => unreadable(why.to_string()),
    }
}

/// Takes the child's messages in order.
struct Pump {
    inbox: Inbox,
    end: PumpEnd,
    clock: Clock,
}

/// Dropped, it tells all that no more messages come. The death is known before backlogs are closed: a
/// turn whose backlog is closed asks whether the child is dead.
struct PumpEnd {
    ended: watch::Sender<bool>,
    routes: Arc<Routes>,
}

impl Drop for PumpEnd {
    fn drop(&mut self) {
        self.ended.send_replace(true);
        self.routes.close();
    }
}

impl Pump {
    async fn run(mut self) {
        while let Some(message) = self.inbox.next().await {
            match message {
                Incoming::Notification(notification) => self.end.routes.deliver(notification),
                Incoming::Request(request) => self.question(request),
            }
        }
    }

    /// Answers what concerns no turn, and gives the rest to the turn it concerns.
    fn question(&self, request: Request) {
        match request.method.as_str() {
            "currentTime/read" => {
                let seconds = (self.clock)().div_euclid(1_000);
                request.responder.result(&json!({"currentTimeAt": seconds}));
            }
            // The login is Codex's own; we have nothing to give.
            "account/chatgptAuthTokens/refresh" | "attestation/generate" => {
                let error = ErrorObject::unknown_method(&request.method);
                request.responder.error(&error);
            }
            _ => self.end.routes.ask(request),
        }
    }
}
