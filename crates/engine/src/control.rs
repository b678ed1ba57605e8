//! The engine's ear: when to stop, what was said meanwhile, and what the runtime answers.
//!
//! The invariant here: no question outlives the turn. Each ends when it is answered, when the turn
//! is cancelled, or when the lane has gone, and what it returns then lets the engine do less, never
//! more: an approval is cancelled, a tool has failed, steering is closed.
//!
//! Questions go through the same channel as events, so the lane sees both in order.

use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::approval::Decision;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use crate::cancel::{CancelToken, Cancelled};
use crate::engine::BoxFuture;
use crate::hooks::{
    AfterTool, BeforeCompact, BeforeEnd, BeforeTool, CompactTrigger, Gate, Hooked, Hooks, Limited,
    ToolResult,
};
use crate::outcome::EngineError;
use crate::said::{ApprovalRequest, Decided, Fenced, Reply, Said, Steering, ToolAnswer, ToolCall};
use crate::sink::Sink;
use crate::steer::SteerReceiver;

/// The text of answers that a cancelled turn gets.
const INTERRUPTED: &str = "interrupted";

/// What an engine gets besides its request and its sink.
///
/// The fields are apart so that an engine may wait for a steer and ask a question at once.
#[derive(Debug)]
pub struct TurnControl {
    /// Says when to stop.
    pub cancel: CancelToken,
    /// What was said meanwhile.
    pub steer: SteerReceiver,
    /// What the runtime answers.
    pub ask: Ask,
}

impl TurnControl {
    /// See [`Ask::approve`].
    pub async fn approve(&self, request: ApprovalRequest) -> Decided {
        self.ask.approve(request).await
    }

    /// See [`Ask::call_tool`].
    pub async fn call_tool(&self, call: ToolCall) -> ToolAnswer {
        self.ask.call_tool(call).await
    }

    /// See [`Ask::close_steer`].
    pub async fn close_steer(&self) -> Steering {
        self.ask.close_steer().await
    }
}

/// The questions of an engine; cheap to clone, for tools that run side by side.
#[derive(Clone)]
pub struct Ask {
    lane: Sink,
    cancel: CancelToken,
    hooks: Arc<dyn Hooks>,
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask").finish_non_exhaustive()
    }
}

impl Ask {
    pub(crate) fn new(lane: Sink, cancel: CancelToken, hooks: Arc<dyn Hooks>) -> Self {
        Self {
            lane,
            cancel,
            hooks,
        }
    }

    /// The same questions, which also end when another token fires.
    ///
    /// For tools that an engine stops before its lane does; whoever holds the token's handle fires
    /// it when the turn is cancelled.
    pub(crate) fn stopped_by(&self, cancel: CancelToken) -> Self {
        Self {
            cancel,
            ..self.clone()
        }
    }

    /// Waits until somebody has decided; hooks and policy are asked first, inside.
    ///
    /// [`Decision::Cancel`] when the turn is cancelled meanwhile or the lane has gone. Dropped while
    /// it waits, the question is withdrawn.
    pub async fn approve(&self, request: ApprovalRequest) -> Decided {
        let request = Box::new(request);
        let decided = self.unless_over(|reply| Said::Approve { request, reply });
        let cancelled = || Decided::new(Decision::Cancel);
        decided.await.unwrap_or_else(cancelled)
    }

    /// Calls a tool of the runtime; no time limit but the turn's own.
    pub async fn call_tool(&self, call: ToolCall) -> ToolAnswer {
        let answer = self.unless_over(|reply| Said::CallTool { call, reply });
        answer.await.unwrap_or_else(|| ToolAnswer {
            text: INTERRUPTED.to_owned(),
            success: false,
            end_turn: true,
        })
    }

    /// Asks whether the turn may end, or has to take another steer first.
    ///
    /// After [`Steering::Closed`] no steer comes any more. After [`Steering::More`] one is there or
    /// about to be: receive it, then ask again.
    pub async fn close_steer(&self) -> Steering {
        let answer = self.unless_over(Said::CloseSteer).await;
        answer.unwrap_or(Steering::Closed)
    }

    /// See [`Hooks::before_tool`]; [`BeforeTool::Stop`] when the turn is cancelled meanwhile.
    pub async fn before_tool(&self, call: &ToolCall) -> Hooked<BeforeTool> {
        let stop = || BeforeTool::Stop(INTERRUPTED.to_owned());
        self.hooked(self.hooks.before_tool(call), stop).await
    }

    /// See [`Hooks::after_tool`]; [`AfterTool::Keep`] when the turn is cancelled meanwhile.
    pub async fn after_tool(&self, call: &ToolCall, result: &ToolResult) -> Hooked<AfterTool> {
        let hooked = self.hooks.after_tool(call, result);
        self.hooked(hooked, || AfterTool::Keep).await
    }

    /// See [`Hooks::before_compact`]; [`BeforeCompact::Skip`] when the turn is cancelled meanwhile.
    pub async fn before_compact(&self, trigger: CompactTrigger) -> Hooked<BeforeCompact> {
        let hooked = self.hooks.before_compact(trigger);
        self.hooked(hooked, || BeforeCompact::Skip).await
    }

    /// See [`Hooks::after_compact`].
    pub async fn after_compact(&self, trigger: CompactTrigger) -> Hooked<()> {
        self.hooked(self.hooks.after_compact(trigger), || ()).await
    }

    /// See [`Hooks::before_end`]; an error when the turn is cancelled before the hooks answer.
    ///
    /// An answer that is there at once counts in a cancelled turn too. Without it, a stop of the
    /// worker would keep a turn without hooks from ending.
    pub async fn before_end(
        &self,
        last_message: Option<&str>,
    ) -> Result<Hooked<BeforeEnd>, Cancelled> {
        tokio::select! {
            biased;
            hooked = self.hooks.before_end(last_message) => Ok(hooked),
            cancelled = self.cancel.cancelled() => Err(cancelled),
        }
    }

    /// See [`Hooks::gate`]; [`Gate::Stop`] when the turn is cancelled meanwhile.
    pub async fn gate(&self, provider: &str) -> Gate {
        let gate = self
            .cancel
            .unless_cancelled(self.hooks.gate(provider))
            .await;
        gate.unwrap_or_else(|_cancelled| {
            let kind = ErrorKind::Interrupted;
            Gate::Stop(Box::new(EngineError::new(
                INTERRUPTED,
                CodexErrorInfo::Other,
                kind,
            )))
        })
    }

    /// See [`Hooks::limited`]; [`Limited::Own`] when the turn is cancelled meanwhile.
    pub async fn limited(&self, provider: &str, delay: Duration) -> Limited {
        let limited = self.hooks.limited(provider, delay);
        let limited = self.cancel.unless_cancelled(limited).await;
        limited.unwrap_or(Limited::Own)
    }

    async fn hooked<T>(
        &self,
        hooked: BoxFuture<'_, Hooked<T>>,
        when_cancelled: impl FnOnce() -> T,
    ) -> Hooked<T> {
        let hooked = self.cancel.unless_cancelled(hooked).await;
        hooked.unwrap_or_else(|_cancelled| Hooked {
            answer: when_cancelled(),
            context: Vec::new(),
        })
    }

    /// The lane's answer; none when the turn is cancelled or the lane has gone.
    async fn unless_over<T>(&self, question: impl FnOnce(Reply<T>) -> Said) -> Option<T> {
        let answer = self.lane.question(question);
        match self.cancel.unless_cancelled(answer).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(Fenced)) | Err(_) => None,
        }
    }
}
