//! The requests that are open: taken from the reader, given to a task each, answered once.
//!
//! The invariant here: a request that was taken is answered by its task, or left because nobody waits
//! for the answer any more: the server said it is settled, the connection is gone, or this client only
//! watches. The reader's own part never waits and runs no caller's code.
//!
//! Who decides is `scope.rs`'s business, in which words `answer.rs`'s.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use turnlane_protocol::approval::TOOL_CALL_METHOD;
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{Params, Request, Responder};

use super::answer::{Answer, Interrupts, Subject};
use super::memory::{Decided, Patches, Question};
use super::scope::{Scopes, TurnScope};
use super::{ApprovalRequest, Decision, Elsewhere, MayBlock, Reviewer};
use crate::core::Core;
use crate::event::{ApprovalNotice, Event, EventBody};
use crate::ids::ThreadId;
use crate::link::{Call, Repeat};

/// The server asks for the time.
const TIME_METHOD: &str = "currentTime/read";
/// The server asks a hook of this client.
const HOOK_METHOD: &str = "hook/run";
/// JSON-RPC's code for a method that nobody serves.
const METHOD_NOT_FOUND: i64 = -32601;

/// The reviewers of a client and the requests that are open; clones are the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Reviews(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    elsewhere: Elsewhere,
    scopes: Arc<Scopes>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// At most as many as a connection reads before the first is answered.
    open: Vec<Open>,
    next_key: u64,
    decided: Decided,
    patches: Patches,
}

/// A request whose reviewer thinks.
#[derive(Debug)]
struct Open {
    key: u64,
    /// As JSON, the way other messages name it.
    id: String,
    method: String,
    settled: CancellationToken,
}

impl Reviews {
    /// With the client's own reviewer; `None` declines.
    pub(crate) fn new(reviewer: Option<Arc<dyn Reviewer>>, elsewhere: Elsewhere) -> Self {
        Self(Arc::new(Desk {
            elsewhere,
            scopes: Arc::new(Scopes::new(reviewer)),
            state: Mutex::default(),
        }))
    }

    /// A request arrived: a task answers it.
    pub(crate) fn take(&self, core: &Arc<Core>, request: Request) {
        let Request {
            method,
            params,
            responder,
        } = request;
        let subject = Subject::of(&method);
        let is_for_others = self.0.elsewhere == Elsewhere::Yes;
        match (method.as_str(), subject) {
            (_, Some(_)) | (TOOL_CALL_METHOD, None) if is_for_others => responder.leave(),
            (_, Some(subject)) => self.open(core, subject, method, params, responder),
            (TOOL_CALL_METHOD, None) => {
                responder.result(&json!({ "contentItems": [], "success": false }));
            }
            (TIME_METHOD, None) => {
                responder.result(&json!({ "currentTimeAt": crate::clock::unix_seconds() }));
            }
            (HOOK_METHOD, None) => crate::hooks::run_for_server(core, &params, responder),
            (unknown, None) => responder.error(&unsupported(unknown)),
        }
    }

    fn open(
        &self,
        core: &Arc<Core>,
        subject: Subject,
        method: String,
        params: Params,
        responder: Responder,
    ) {
        let id = responder.id().map(ToString::to_string).unwrap_or_default();
        let Some((key, settled)) = self.0.enter(id, &method) else {
            // Asked again while its reviewer thinks: the answer to the first settles both.
            responder.leave();
            return;
        };
        let task = Review {
            desk: Arc::clone(&self.0),
            core: Arc::clone(core),
            subject,
        };
        tokio::spawn(async move {
            let params = params.parse().unwrap_or(Value::Null);
            let request = Arc::new(task.desk.request(method, params));
            let answer = tokio::select! {
                biased;
                () = settled.cancelled() => None,
                answer = task.decide(&request) => Some(answer),
            };
            match answer {
                Some(answer) if task.desk.leave(key) => task.send(&request, answer, responder),
                _ => responder.leave(),
            }
        });
    }

    /// Something was told: `serverRequest/resolved` ends a review.
    pub(crate) fn observe(&self, event: &Event) {
        match (&event.body, &event.thread) {
            (EventBody::RequestResolved(id), _) => {
                let id = id.to_string();
                self.0.settle(|open| open.id == id);
            }
            (EventBody::ItemStarted(item), Some(thread)) => {
                self.0.state().patches.started(thread, item);
            }
            (EventBody::ItemCompleted(item), Some(thread)) => {
                self.0.state().patches.ended(thread, item);
            }
            _ => {}
        }
    }

    /// The connection is gone: nothing open can be answered.
    pub(crate) fn lost(&self) {
        self.0.settle(|_| true);
    }

    /// From now on `reviewer` decides for this thread, as long as somebody else holds it too.
    pub(crate) fn for_thread(&self, thread: &ThreadId, reviewer: &Arc<dyn Reviewer>) {
        self.0.scopes.add_thread(thread, reviewer);
    }

    /// From now on `reviewer` decides for a turn whose id is not known yet. Questions of turns of the
    /// thread that nobody knows wait until [`TurnScope::bind`] or the scope's drop: make it just
    /// before the turn is sent.
    pub(crate) fn expect_turn(&self, thread: &ThreadId, reviewer: Arc<dyn Reviewer>) -> TurnScope {
        TurnScope::new(&self.0.scopes, thread, reviewer)
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None when the same request is open already.
    fn enter(&self, id: String, method: &str) -> Option<(u64, CancellationToken)> {
        let mut state = self.state();
        let mut open = state.open.iter();
        if open.any(|open| open.id == id && open.method == method) {
            return None;
        }
        state.next_key += 1;
        let key = state.next_key;
        let settled = CancellationToken::new();
        state.open.push(Open {
            key,
            id,
            method: method.to_owned(),
            settled: settled.clone(),
        });
        Some((key, settled))
    }

    /// Whether it was open until now.
    fn leave(&self, key: u64) -> bool {
        let mut state = self.state();
        let place = state.open.iter().position(|open| open.key == key);
        place.map(|place| state.open.swap_remove(place)).is_some()
    }

    fn settle(&self, is_settled: impl Fn(&Open) -> bool) {
        let mut state = self.state();
        state.open.retain(|open| {
            let is_settled = is_settled(open);
            if is_settled {
                open.settled.cancel();
            }
            !is_settled
        });
    }

    fn request(&self, method: String, params: Value) -> ApprovalRequest {
        let request = ApprovalRequest::new(method, params);
        match (&request.thread, &request.item) {
            (Some(thread), Some(item)) => {
                let changes = self.state().patches.changes(thread, item);
                request.announced(changes)
            }
            _ => request,
        }
    }
}

/// One request on its way to an answer.
struct Review {
    desk: Arc<Desk>,
    core: Arc<Core>,
    subject: Subject,
}

impl Review {
    async fn decide(&self, request: &Arc<ApprovalRequest>) -> Answer {
        let question = Question::of(request);
        let decided = question.as_ref().and_then(|question| {
            let state = self.desk.state();
            state.decided.get(question).cloned()
        });
        if let Some(decision) = decided {
            return self.subject.answer(request, decision);
        }
        self.tell(request, None);
        let decision = timeout(self.core.limits.review, self.ask(request)).await;
        let decision = decision.unwrap_or_else(|_| Decision::declined("review timed out"));
        let answer = self.subject.answer(request, decision);
        if let Some(question) = question {
            let mut state = self.desk.state();
            state.decided.put(question, answer.decision.clone());
        }
        answer
    }

    async fn ask(&self, request: &Arc<ApprovalRequest>) -> Decision {
        let scopes = &self.desk.scopes;
        let reviewer = scopes.find(request.thread.as_ref(), request.turn.as_ref());
        match reviewer.await {
            Some(reviewer) => reviewed(reviewer, Arc::clone(request)).await,
            None => Decision::Decline { reason: None },
        }
    }

    fn send(&self, request: &ApprovalRequest, answer: Answer, responder: Responder) {
        responder.result(&answer.result);
        if answer.interrupts == Interrupts::Yes {
            self.interrupt(request);
        }
        tracing::debug!(
            method = request.method,
            item = request.item,
            "a request of the server was answered"
        );
        self.tell(request, Some(answer.decision));
    }

    /// Stops a turn whose request has no word for it.
    fn interrupt(&self, request: &ApprovalRequest) {
        let (Some(thread), Some(turn)) = (&request.thread, &request.turn) else {
            return;
        };
        let params = json!({ "threadId": thread, "turnId": turn });
        let params = serde_json::value::to_raw_value(&params);
        if let (Ok(params), Ok(link)) = (params, self.core.link()) {
            link.send_detached(Call {
                method: "turn/interrupt".to_owned(),
                params,
                timeout: None,
                repeat: Repeat::Never,
            });
        }
    }

    /// Tells the turn's stream: asked, then decided.
    fn tell(&self, request: &ApprovalRequest, decision: Option<Decision>) {
        let notice = ApprovalNotice {
            item: request.item.clone().unwrap_or_default(),
            method: request.method.clone(),
            decision,
        };
        let body = EventBody::Approval(notice);
        self.core.router.deliver(Event {
            turn: request.turn.clone(),
            ..Event::told_here(request.thread.clone(), body)
        });
    }
}

/// What the reviewer says. Its task ends with this future.
async fn reviewed(reviewer: Arc<dyn Reviewer>, request: Arc<ApprovalRequest>) -> Decision {
    let mut task = JoinSet::new();
    match reviewer.may_block() {
        MayBlock::No => task.spawn(async move { reviewer.review(&request).await }),
        MayBlock::Yes => {
            let runtime = Handle::current();
            task.spawn_blocking(move || runtime.block_on(reviewer.review(&request)))
        }
    };
    match task.join_next().await {
        Some(Ok(decision)) => decision,
        Some(Err(_)) | None => Decision::declined("the reviewer panicked"),
    }
}

fn unsupported(method: &str) -> ErrorObject {
    ErrorObject::bare(
        METHOD_NOT_FOUND,
        format!("method not supported by client: {method}"),
    )
}
