//! What the mock remembers: its script, the requests it got and how their answers ended.
//!
//! The invariant here: a request is recorded and its reply taken in one step, so the n-th recorded
//! request got the n-th reply of the queue. Counts are published when they change; that is what
//! waiting tests wait for. Requests above the limit are refused and counted, never silently lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::{
    reply::Reply,
    request::RecordedRequest,
    script::{Chooser, Script},
};

/// Everything the server's tasks and the test share.
pub(super) struct Recorder {
    state: Mutex<State>,
    requests_max: usize,
    arrived: watch::Sender<usize>,
    abandoned: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    script: Script,
    requests: Vec<Arc<RecordedRequest>>,
    others: Vec<Arc<RecordedRequest>>,
    unscripted: Vec<Arc<RecordedRequest>>,
    /// Requests for an answer since the start, those that were forgotten included.
    number: usize,
}

/// What the script says to one request.
pub(super) enum Scripted {
    /// The request's number, from 1, and its reply.
    Reply(usize, Box<Reply>),
    /// Nothing was scripted for it.
    Nothing,
    /// There is no room to record it.
    Full,
}

impl Recorder {
    pub(super) fn new(requests_max: usize) -> Self {
        Self {
            state: Mutex::default(),
            requests_max,
            arrived: watch::Sender::new(0),
            abandoned: watch::Sender::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not hide the requests from the test's own message.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn script<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.state().script)
    }

    /// Records a request for an answer and finds the answer.
    pub(super) fn answer_for(&self, request: RecordedRequest) -> Scripted {
        let request = Arc::new(request);
        let (number, reply, choosers) = {
            let mut state = self.state();
            if state.requests.len() >= self.requests_max {
                return Scripted::Full;
            }
            state.number += 1;
            state.requests.push(Arc::clone(&request));
            let reply = state.script.take(&request);
            (state.number, reply, state.script.choosers())
        };
        let ask = |chooser: &Chooser| chooser(&request);
        let reply = reply.or_else(|| choosers.iter().find_map(ask));
        if reply.is_none() {
            self.state().unscripted.push(request);
        }
        // Published last, so whoever waited for the request also sees that nothing answered it.
        self.arrived.send_modify(|count| *count += 1);
        match reply {
            Some(reply) => Scripted::Reply(number, Box::new(reply)),
            None => Scripted::Nothing,
        }
    }

    /// Records a request that no script answers.
    pub(super) fn other(&self, request: RecordedRequest) {
        let mut state = self.state();
        if state.others.len() < self.requests_max {
            state.others.push(Arc::new(request));
        }
    }

    pub(super) fn requests(&self) -> Vec<Arc<RecordedRequest>> {
        self.state().requests.clone()
    }

    pub(super) fn others(&self) -> Vec<Arc<RecordedRequest>> {
        self.state().others.clone()
    }

    pub(super) fn unscripted(&self) -> Vec<Arc<RecordedRequest>> {
        self.state().unscripted.clone()
    }

    /// Forgets the requests for answers; the counts of [`Recorder::arrived`] go on.
    pub(super) fn take_requests(&self) -> Vec<Arc<RecordedRequest>> {
        std::mem::take(&mut self.state().requests)
    }

    /// Requests for answers since the start.
    pub(super) fn arrived(&self) -> watch::Receiver<usize> {
        self.arrived.subscribe()
    }

    /// Answers that the client did not wait for.
    pub(super) fn abandoned(&self) -> watch::Receiver<usize> {
        self.abandoned.subscribe()
    }
}

/// An answer under way; dropped before [`InFlight::answered`], the client has left.
pub(super) struct InFlight {
    recorder: Arc<Recorder>,
    answered: bool,
}

impl InFlight {
    pub(super) fn new(recorder: Arc<Recorder>) -> Self {
        Self {
            recorder,
            answered: false,
        }
    }

    pub(super) fn answered(&mut self) {
        self.answered = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.answered {
            self.recorder.abandoned.send_modify(|count| *count += 1);
        }
    }
}
