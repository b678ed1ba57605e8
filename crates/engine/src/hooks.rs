//! What the runtime may say to an engine's steps: hooks, and the gate before a provider.
//!
//! The invariant here: without hooks every question is answered at once, and the answer is "go on".
//! An engine asks at the same points whether anybody listens or not.
//!
//! Which hooks there are and how their answers are joined is the runtime's business.

use std::time::Duration;

use serde_json::Value;

use crate::engine::BoxFuture;
use crate::outcome::EngineError;
use crate::said::ToolCall;

/// Answers an engine's questions; every method has a default that lets the engine go on.
///
/// A future that is dropped gives the question up; asked again, it is a new question.
pub trait Hooks: Send + Sync {
    /// A tool is about to be called.
    fn before_tool<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Hooked<BeforeTool>> {
        let _ = call;
        at_once(BeforeTool::Continue)
    }

    /// A tool has answered.
    fn after_tool<'a>(
        &'a self,
        call: &'a ToolCall,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Hooked<AfterTool>> {
        let _ = (call, result);
        at_once(AfterTool::Keep)
    }

    /// The history is about to be made shorter.
    fn before_compact(&self, trigger: CompactTrigger) -> BoxFuture<'_, Hooked<BeforeCompact>> {
        let _ = trigger;
        at_once(BeforeCompact::Go)
    }

    /// The history was made shorter.
    fn after_compact(&self, trigger: CompactTrigger) -> BoxFuture<'_, Hooked<()>> {
        let _ = trigger;
        at_once(())
    }

    /// The turn would complete now.
    fn before_end<'a>(&'a self, last_message: Option<&'a str>) -> BoxFuture<'a, Hooked<BeforeEnd>> {
        let _ = last_message;
        at_once(BeforeEnd::End)
    }

    /// A request to the provider is about to be made; waits while the provider is held.
    fn gate<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Gate> {
        let _ = provider;
        Box::pin(async { Gate::Go })
    }

    /// The provider asked for a pause.
    fn limited<'a>(&'a self, provider: &'a str, delay: Duration) -> BoxFuture<'a, Limited> {
        let _ = (provider, delay);
        Box::pin(async { Limited::Own })
    }
}

fn at_once<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, Hooked<T>> {
    Box::pin(async {
        Hooked {
            answer,
            context: Vec::new(),
        }
    })
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// An answer with what the model shall be told besides.
#[derive(Clone, Debug, PartialEq)]
pub struct Hooked<T> {
    /// The answer.
    pub answer: T,
    /// Texts for the model, in order; each becomes a note of the history.
    pub context: Vec<String>,
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum BeforeTool {
    /// It goes on.
    Continue,
    /// It goes on with these arguments.
    Rewrite(Value),
    /// It goes on if somebody accepts.
    Ask,
    /// It is not made; the model gets the text.
    Block(String),
    /// The turn is interrupted with the text.
    Stop(String),
}

/// What a tool brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// What the model would be told.
    pub text: String,
    /// Whether the tool did what it should.
    pub success: bool,
}

/// What becomes of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterTool {
    /// The model gets it.
    Keep,
    /// The model gets this text in its place.
    Replace(String),
    /// The turn is interrupted with the text.
    Stop(String),
}

/// Why the history is made shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactTrigger {
    /// Somebody asked for it.
    Manual,
    /// It would not fit much longer.
    Auto,
}

/// What becomes of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeCompact {
    /// It goes on.
    Go,
    /// Not now.
    Skip,
    /// The turn is interrupted with the text.
    Stop(String),
}

/// What becomes of a turn that would complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeEnd {
    /// It completes.
    End,
    /// It goes on with this prompt.
    GoOn(String),
}

/// Whether a request may be made.
#[derive(Clone, Debug, PartialEq)]
pub enum Gate {
    /// It may.
    Go,
    /// It may not: the turn fails with this.
    Stop(Box<EngineError>),
}

/// Who waits after the provider asked for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// The next [`Hooks::gate`] does; no retry is counted.
    Hold,
    /// The engine does, by its own rules.
    Own,
}
