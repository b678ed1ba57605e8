//! The lane behind a shim: the calls that a shim makes, in its own words.
//!
//! Owned here: which methods are called with which params, and what their answers mean. The invariant:
//! every call can be repeated. Adds carry the message's id as their key, so a message whose answer was lost
//! is found again instead of being added twice.
//!
//! When calls are made is decided by [`crate::run`].

mod attach;
mod commands;
mod read;
mod submit;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use turnlane::{CallOptions, Client};

pub(crate) use self::attach::Attached;
pub(crate) use self::commands::{CommandFailure, queue};
pub(crate) use self::read::{
    EXHAUSTED, QueueLook, client_id, message_name, split_attempt, turn_end,
};
pub(crate) use self::submit::{Draft, Submission, Unanswered};
use crate::error::LaneError;
use crate::options::{OnBlock, OnUnknown, Options};

/// The reason of the pause that the end of a shim leaves and the start of the next one ends.
pub(crate) const SHIM_PAUSE: &str = "shim";

/// What calls of one shim have in common.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// None until the server is there.
    client: Option<Client>,
    options: Arc<Options>,
    binding: Arc<str>,
    thread: Arc<str>,
}

impl Lane {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        let binding = crate::options::binding(&options.id, &options.cwd);
        Self {
            client: None,
            options,
            binding: binding.into(),
            thread: "".into(),
        }
    }

    /// The same lane on another thread.
    pub(crate) fn of_thread(&self, thread: &str) -> Self {
        Self {
            thread: thread.into(),
            ..self.clone()
        }
    }

    pub(crate) fn binding(&self) -> &str {
        &self.binding
    }

    /// The same lane through a client.
    pub(crate) fn through(&self, client: Client) -> Self {
        Self {
            client: Some(client),
            ..self.clone()
        }
    }

    pub(crate) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    async fn call_raw(
        &self,
        method: &str,
        params: Value,
        options: CallOptions,
    ) -> Result<Value, LaneError> {
        let Some(client) = &self.client else {
            return Err(LaneError::Unreachable("the server is starting".to_owned()));
        };
        let answer = client.call_raw(method, params, options).await;
        answer.map_err(LaneError::from)
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value, LaneError> {
        self.call_raw(method, params, CallOptions::default()).await
    }

    /// One call with a limit of its own.
    async fn call_within(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, LaneError> {
        let options = CallOptions {
            timeout: Some(limit),
            ..CallOptions::default()
        };
        self.call_raw(method, params, options).await
    }

    fn on_thread(&self) -> Value {
        json!({"threadId": &*self.thread})
    }

    /// Lets no further turn begin.
    pub(crate) async fn pause(&self, reason: &str, limit: Duration) -> Result<Value, LaneError> {
        let params = json!({"threadId": &*self.thread, "reason": reason});
        self.call_within("thread/queue/pause", params, limit).await
    }

    /// Ends a pause of this reason, and no other hold.
    pub(crate) async fn resume_reason(&self, reason: &str) -> Result<Value, LaneError> {
        let params = json!({"threadId": &*self.thread, "reason": reason});
        self.call("thread/queue/resume", params).await
    }

    /// Interrupts whatever runs; the queue stays as it is paused.
    pub(crate) async fn interrupt(&self, turn: &str, limit: Duration) -> Result<Value, LaneError> {
        let params = json!({"threadId": &*self.thread, "turnId": turn, "queue": "continue"});
        self.call_within("turn/interrupt", params, limit).await
    }

    /// Ends every command that outlived its turn.
    pub(crate) async fn clean(&self, limit: Duration) -> Result<Value, LaneError> {
        self.call_within("thread/backgroundTerminals/clean", self.on_thread(), limit)
            .await
    }

    /// The first rows of the queue and what holds it.
    pub(crate) async fn look(&self) -> Result<QueueLook, LaneError> {
        let params = json!({"threadId": &*self.thread, "limit": 100});
        let answer = self.call("thread/queue/list", params).await?;
        Ok(QueueLook::read(&answer))
    }

    /// Checks the engine again.
    pub(crate) async fn engine_health(&self) -> Result<crate::state::EngineHealth, LaneError> {
        let params = json!({"threadId": &*self.thread, "excludeTurns": true});
        let answer = self.call("thread/resume", params).await?;
        Ok(read::health(&answer))
    }

    /// One turn of any age as it is stored, with its first and last message in full length; none when it
    /// is not in the thread.
    pub(crate) async fn turn(&self, turn: &str) -> Result<Option<Value>, LaneError> {
        let params = json!({"threadId": &*self.thread, "turnId": turn, "itemsView": "summary"});
        let mut answer = match self.call("thread/turns/list", params).await {
            Err(error) if error.word() == Some("turnNotFound") => return Ok(None),
            answer => answer?,
        };
        let turns = answer["data"].as_array_mut().map(std::mem::take);
        let mut turns = turns.unwrap_or_default().into_iter();
        Ok(turns.find(|found| found["id"] == turn))
    }

    fn policies(&self) -> Value {
        let (on_crash, on_cannot_start) = match self.options.on_unknown {
            OnUnknown::Skip => ("continue", "continue"),
            OnUnknown::Block => ("block", "block"),
            OnUnknown::Retry => ("retry", "block"),
        };
        let on_limit = match self.options.on_block {
            OnBlock::Wait => "wait",
            OnBlock::Fail => "fail",
        };
        json!({"source": "shim", "onCrash": on_crash, "onCannotStart": on_cannot_start,
               "onLimit": on_limit})
    }
}
