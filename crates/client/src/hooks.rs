//! Hooks of this client: asked before and after its own threads and turns.
//!
//! The invariant here: a hook that blocks in a `Pre` phase keeps its call from being sent; a hook that
//! fails follows its own policy, which is to block; nothing a hook does in a `Post` phase changes a
//! result. Every run and every issue is kept in the report of its turn.
//!
//! This file has what hooks see and say. `runner.rs` asks them in their order, `patch.rs` knows what
//! may be changed when, `shell.rs` runs commands, `remote.rs` has the server ask about tools: hooks
//! about tools run on the server's side of the tool call, never around an approval.

mod call;
mod matcher;
mod patch;
mod remote;
mod report;
mod runner;
#[cfg(feature = "spawn")]
mod shell;
#[cfg(test)]
mod tests;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

pub use matcher::Matcher;
pub(crate) use remote::{Registration, Registrations, register, register_again, run_for_server};
pub use report::{HookIssue, HookOutcome, HookReport, HookRun, IssueClass};
pub(crate) use runner::{HookRunner, Subject};

use crate::error::CallError;
use crate::ids::{ThreadId, TurnId};
use crate::input::Attachment;
use crate::link::ServerInfo;
use crate::review::BoxFuture;

/// When a hook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HookPhase {
    /// Before anything of a turn: before [`PreTurn`](Self::PreTurn), once for a run.
    PreRun,
    /// After everything of a turn.
    PostRun,
    /// Before a thread is started, resumed or forked.
    PreSessionStart,
    /// After it.
    PostSessionStart,
    /// Before a turn is sent.
    PreTurn,
    /// When it has ended.
    PostTurn,
    /// Before a tool runs; asked by the server.
    PreToolUse,
    /// After a tool ran; asked by the server.
    PostToolUse,
}

impl HookPhase {
    /// Its name, as errors show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreRun => "PreRun",
            Self::PostRun => "PostRun",
            Self::PreSessionStart => "PreSessionStart",
            Self::PostSessionStart => "PostSessionStart",
            Self::PreTurn => "PreTurn",
            Self::PostTurn => "PostTurn",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
        }
    }

    /// Whether the server asks, and not this client.
    fn is_about_tools(self) -> bool {
        matches!(self, Self::PreToolUse | Self::PostToolUse)
    }
}

impl std::fmt::Display for HookPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the thing between the phases ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainStatus {
    /// As it should.
    Ok,
    /// Otherwise.
    Error,
}

/// What a hook sees.
#[derive(Clone, Debug)]
pub struct HookContext {
    /// When it is asked.
    pub phase: HookPhase,
    /// The thread; none before it is started.
    pub thread_id: Option<ThreadId>,
    /// The turn; none before it is sent.
    pub turn_id: Option<TurnId>,
    /// Where the agent works.
    pub cwd: Option<PathBuf>,
    /// The model, if one was chosen.
    pub model: Option<String>,
    /// The words of the input, as rewritten so far; none where there is no input.
    pub prompt: Option<String>,
    /// How it went, in `Post` phases.
    pub main_status: Option<MainStatus>,
    /// The same in all phases of one run.
    pub correlation_id: String,
    /// Now.
    pub at: SystemTime,
    /// What earlier hooks of the same run left; empty at first.
    pub metadata: Map<String, Value>,
    /// The tool, in phases about tools.
    pub tool_name: Option<String>,
    /// What it is called with, in phases about tools.
    pub tool_input: Option<Value>,
}

/// What a hook wants.
#[derive(Clone, Debug, PartialEq)]
pub enum HookAction {
    /// Nothing.
    Noop,
    /// Something else than what was asked.
    Mutate(HookPatch),
    /// No.
    Block {
        /// Why.
        message: String,
    },
}

/// What a failing hook means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// As if it had no opinion.
    Allow,
    /// No.
    Block,
}

/// What a hook changes. `PreSessionStart` may change model and metadata; `PreRun` and `PreTurn`
/// prompt, model, attachments and metadata; `PreToolUse` the tool's input; other phases nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookPatch {
    /// The words of the input.
    pub prompt: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Further things that go with the input.
    pub attachments: Vec<Attachment>,
    /// Added key by key; the later hook wins.
    pub metadata: Map<String, Value>,
    /// What the tool is called with.
    pub tool_input: Option<Value>,
}

/// Asked before and after threads and turns.
///
/// A name and a closure are one: `("guard", |context: &HookContext| Ok(HookAction::Noop))`.
pub trait Hook: Send + Sync + 'static {
    /// Its name in errors and reports. Of several hooks with one name the first is kept.
    fn name(&self) -> &str;

    /// Decides, in a task of its own. The future is dropped at the [`timeout`](Self::timeout) or when
    /// what it is asked about is cancelled. An error and a panic are failures.
    fn call<'a>(&'a self, context: &'a HookContext)
    -> BoxFuture<'a, Result<HookAction, HookIssue>>;

    /// What its failure means in a `Pre` phase.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Block
    }

    /// How long it may take; longer is a failure.
    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }
}

impl std::fmt::Debug for dyn Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hook({})", self.name())
    }
}

impl<F> Hook for (&'static str, F)
where
    F: Fn(&HookContext) -> Result<HookAction, HookIssue> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.0
    }

    fn call<'a>(
        &'a self,
        context: &'a HookContext,
    ) -> BoxFuture<'a, Result<HookAction, HookIssue>> {
        Box::pin(async move { (self.1)(context) })
    }
}

/// The hooks of a client, a thread or a turn.
///
/// ```
/// use turnlane::{HookAction, HookContext, HookPhase, HookSet, Matcher};
///
/// let hooks = HookSet::new().on(
///     Matcher::phases([HookPhase::PreTurn]).cwd_prefix("/srv/app"),
///     ("no-secrets", |context: &HookContext| match &context.prompt {
///         Some(prompt) if prompt.contains("BEGIN PRIVATE KEY") => Ok(HookAction::Block {
///             message: "the prompt contains a private key".to_owned(),
///         }),
///         _ => Ok(HookAction::Noop),
///     }),
/// );
/// assert!(!hooks.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct HookSet {
    entries: Vec<Arc<Entry>>,
}

#[derive(Debug)]
struct Entry {
    matcher: Matcher,
    handler: Handler,
}

/// Who is asked.
#[derive(Debug)]
enum Handler {
    Hook(Box<dyn Hook>),
    #[cfg(feature = "spawn")]
    Shell(shell::ShellHook),
}

impl HookSet {
    /// No hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a hook behind the others.
    #[must_use]
    pub fn on(self, matcher: Matcher, hook: impl Hook) -> Self {
        self.with(matcher, Handler::Hook(Box::new(hook)))
    }

    fn with(mut self, matcher: Matcher, handler: Handler) -> Self {
        self.entries.push(Arc::new(Entry { matcher, handler }));
        self
    }

    /// Adds a command behind the others: `sh -c command` in the thread's directory, with a JSON object
    /// on its standard input and its answer on standard output, as hook scripts of Codex have them.
    /// Exit code 2 blocks with standard error as the reason; any other failure blocks too. Whatever it
    /// started ends with it. It may take 30 seconds.
    ///
    /// `PreSessionStart` is told as `SessionStart`, `PreRun` as `QueueAdmit`, `PreTurn` as
    /// `UserPromptSubmit`, `PostTurn` as `TurnEnd`; other phases by their own name. Context for the
    /// model is added to the prompt in `PreTurn` and is an issue elsewhere.
    #[cfg(feature = "spawn")]
    #[must_use]
    pub fn shell(self, matcher: Matcher, name: &str, command: &str) -> Self {
        let hook = shell::ShellHook::new(name, command, shell::RUN_MAX);
        self.with(matcher, Handler::Shell(hook))
    }

    /// These and then those.
    pub(crate) fn and(mut self, others: &Self) -> Self {
        self.entries.extend(others.entries.iter().cloned());
        self
    }

    /// Refuses hooks about tools for a turn: the server asks them for a thread.
    pub(crate) fn check_for_turn(&self, server: &ServerInfo) -> Result<(), CallError> {
        self.check(server)?;
        if self.has_tool_hooks() {
            return Err(CallError::InvalidArgument {
                what: "hooks",
                reason: "hooks about tools belong to a client or a thread".to_owned(),
            });
        }
        Ok(())
    }

    fn has_tool_hooks(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.matcher.is_about_tools())
    }

    /// Refuses hooks that this server would never ask.
    pub(crate) fn check(&self, server: &ServerInfo) -> Result<(), CallError> {
        if self.has_tool_hooks() && !remote::is_served(server) {
            return Err(CallError::Unsupported {
                method: remote::REGISTER_METHOD.to_owned(),
            });
        }
        Ok(())
    }
}
