//! Requests of ours that wait for their answers.
//!
//! The invariant: every entry is resolved exactly once: by its answer, by the end of the
//! connection, or by its caller going away. Nothing can be added after the end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use turnlane_protocol::error::ErrorObject;

use crate::error::{CallError, CloseReason};
use crate::frame::TooLarge;

type Answer = Result<Bytes, CallError>;

#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    calls: HashMap<i64, oneshot::Sender<Answer>>,
    ended: Option<CloseReason>,
}

impl Pending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the answer with this id. A second call with an id that is still waited for
    /// replaces the first, which then ends as closed; ids come from one counter, so it is a bug.
    pub(super) fn add(self: &Arc<Self>, id: i64) -> Result<PendingCall, CallError> {
        let mut state = self.state();
        if let Some(reason) = &state.ended {
            return Err(CallError::Closed(reason.clone()));
        }
        let (sender, answer) = oneshot::channel();
        let replaced = state.calls.insert(id, sender);
        debug_assert!(replaced.is_none(), "request id {id} is in use");
        Ok(PendingCall {
            id,
            answer,
            pending: Arc::clone(self),
        })
    }

    /// Hands an answer to whoever waits for it; late and unknown ones are ignored.
    pub(super) fn resolve(&self, id: i64, outcome: Result<Bytes, ErrorObject>) {
        self.finish(id, outcome.map_err(CallError::Refused));
    }

    /// The answer was too long to be read. Returns whether somebody waited for it.
    pub(super) fn too_large(&self, id: i64, frame: &TooLarge) -> bool {
        let TooLarge { bytes, limit, .. } = *frame;
        self.finish(id, Err(CallError::TooLarge { bytes, limit }))
    }

    fn finish(&self, id: i64, answer: Answer) -> bool {
        let caller = self.state().calls.remove(&id);
        caller.is_some_and(|caller| caller.send(answer).is_ok())
    }

    /// Ends every call, now and later.
    pub(super) fn end(&self, reason: &CloseReason) {
        let calls = {
            let mut state = self.state();
            state.ended.get_or_insert_with(|| reason.clone());
            std::mem::take(&mut state.calls)
        };
        for (_, caller) in calls {
            // A caller that is gone needs no answer.
            let _ = caller.send(Err(CallError::Closed(reason.clone())));
        }
    }

    pub(super) fn reason(&self) -> Option<CloseReason> {
        self.state().ended.clone()
    }
}

/// One call that waits. Dropping it stops waiting; the answer is then ignored.
#[derive(Debug)]
pub(super) struct PendingCall {
    id: i64,
    answer: oneshot::Receiver<Answer>,
    pending: Arc<Pending>,
}

impl PendingCall {
    pub(super) async fn answer(mut self) -> Answer {
        (&mut self.answer).await.unwrap_or_else(|_| {
            Err(CallError::Closed(
                self.pending.reason().unwrap_or(CloseReason::Local),
            ))
        })
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.pending.state().calls.remove(&self.id);
    }
}
