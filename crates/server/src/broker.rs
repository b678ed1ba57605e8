//! Approvals on the wire: who is asked, and whose answer counts.
//!
//! The invariant here: a question has one id for everybody; the first valid answer of somebody who
//! was asked and still follows the thread decides; whatever else comes back (an error, a text that is
//! no decision) puts that client out for this question and is never a yes. When everybody who was
//! asked is out, the answer is no.
//!
//! How long a question waits, and what a decision means, is the runtime's business.
//!
//! Theory of operation: a question lives from the first follower that is asked to the notice that it
//! is decided. Each asked connection has one small task that waits for its answer; it ends with the
//! answer, the connection or the question.

mod answer;
mod params;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use turnlane_protocol::approval::{Decision, OfferedDecision};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::ids::{ApprovalId, ThreadId};
use turnlane_protocol::notification::{Warning, method};
use turnlane_rpc::{CallError, Outgoing, RequestIds};
use turnlane_runtime::{Asking, ClientDecision, Error, WantedPermissions};

use crate::connection::Connection;
use crate::errors::ESCALATES;
use crate::hub::ConnectionId;
use crate::rights;

/// Why a question is declined that nobody could answer.
const NO_VALID_ANSWER: &str = "no client gave a valid answer";

/// The open questions of a server.
pub(crate) struct Broker {
    ids: RequestIds,
    open: Mutex<HashMap<ApprovalId, Arc<Question>>>,
}

/// Something that clients are asked.
pub(crate) struct Question {
    id: i64,
    thread: ThreadId,
    approval: ApprovalId,
    method: &'static str,
    frame: Bytes,
    /// What is granted with a yes, where that has to be said.
    wanted: Option<WantedPermissions>,
    /// The decisions that count; every other word is no answer.
    offered: Vec<OfferedDecision>,
    asked: Mutex<Asked>,
    /// Set when it is decided, by whomever.
    decided: CancellationToken,
}

/// Who was asked.
#[derive(Default)]
struct Asked {
    /// Those whose answer is waited for.
    waiting: HashSet<ConnectionId>,
    /// Those who gave no valid one.
    out: HashSet<ConnectionId>,
}

impl Question {
    fn offers(&self, decision: &Decision) -> bool {
        let known = OfferedDecision::Known(decision.clone());
        self.offered.contains(&known)
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broker {
    pub(crate) fn new(ids: RequestIds) -> Self {
        Self {
            ids,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<ApprovalId, Arc<Question>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The question about this approval, made if nobody was asked before.
    pub(crate) fn question(&self, asking: &Asking) -> Option<Arc<Question>> {
        let approval = &asking.approval;
        let mut open = self.open();
        if let Some(question) = open.get(&approval.approval_id) {
            return Some(Arc::clone(question));
        }
        let id = self.ids.next_id();
        let (method, frame) = params::request(id, asking)?;
        let question = Arc::new(Question {
            id,
            thread: approval.thread_id,
            approval: approval.approval_id,
            method,
            frame,
            wanted: asking.permissions.clone(),
            offered: approval.available_decisions.clone(),
            asked: Mutex::default(),
            decided: CancellationToken::new(),
        });
        open.insert(approval.approval_id, Arc::clone(&question));
        Some(question)
    }

    /// The question about this approval, if somebody was asked.
    pub(crate) fn known(&self, approval: ApprovalId) -> Option<Arc<Question>> {
        self.open().get(&approval).cloned()
    }

    /// The id under which clients were asked about this approval.
    pub(crate) fn request_id(&self, approval: ApprovalId) -> Option<i64> {
        self.known(approval).map(|question| question.id)
    }

    /// The approval is decided and everybody was told.
    pub(crate) fn forget(&self, approval: ApprovalId) {
        if let Some(question) = self.open().remove(&approval) {
            question.decided.cancel();
        }
    }
}

/// Asks one client, unless it does not want to be asked. Asked again, it gets the same request.
pub(crate) fn ask(cx: &Arc<Connection>, question: &Arc<Question>) {
    if !cx.wants(question.method) || question.decided.is_cancelled() {
        return;
    }
    let frame = question.frame.clone();
    if !question.asked().waiting.insert(cx.id()) {
        // Its first answer is still waited for; two requests, one id, one answer.
        let scope = question.thread.to_string().into();
        cx.peer().notify(&Outgoing::kept(frame, Some(scope)));
        return;
    }
    let Ok(answer) = cx.peer().ask(question.id, frame) else {
        // The connection has ended; it takes itself out of everything.
        question.asked().waiting.remove(&cx.id());
        return;
    };
    let (cx, question) = (Arc::clone(cx), Arc::clone(question));
    tokio::spawn(async move {
        tokio::select! {
            answer = answer => answered(&cx, &question, answer).await,
            () = question.decided.cancelled() => {}
        }
    });
}

async fn answered(cx: &Connection, question: &Question, answer: Result<Bytes, CallError>) {
    let decision = match &answer {
        Ok(raw) => answer::decision(raw, question.wanted.as_ref()),
        Err(_) => None,
    };
    let decision = decision.filter(|decision| question.offers(decision));
    let follows = cx.follows(question.thread);
    let (decision, reason) = {
        let mut asked = question.asked();
        asked.waiting.remove(&cx.id());
        match decision {
            Some(decision) if follows => (decision, None),
            // Whoever left the thread has no say in it, and may come back and be asked again.
            Some(_) => return,
            None => {
                if !matches!(answer, Err(CallError::Closed(_))) {
                    asked.out.insert(cx.id());
                }
                if asked.out.is_empty() || !asked.waiting.is_empty() {
                    return;
                }
                (Decision::Decline, Some(NO_VALID_ANSWER.to_owned()))
            }
        }
    };
    let runtime = &cx.shared().options.runtime;
    let decided = ClientDecision {
        decision,
        reason,
        caller: rights::of(cx),
    };
    let decided = runtime.decide(question.thread, question.approval, decided);
    match decided.await {
        Ok(()) => {}
        Err(Error::Unconfined) => refuse(cx, question),
        Err(error) => tracing::debug!(%error, "an answer to an approval came too late"),
    }
}

/// Says that an accept does not count: an answer to a request has no answer of its own. The question
/// stays open, and the client is asked again when it resumes the thread.
fn refuse(cx: &Connection, question: &Question) {
    let why = ErrorObject::unconfined_denied(ESCALATES).message;
    let warning = Warning {
        thread_id: Some(question.thread),
        message: format!("approval {} stays open: {why}", question.approval),
    };
    let scope = question.thread.to_string().into();
    cx.notify(method::WARNING, &warning, Some(scope));
}
