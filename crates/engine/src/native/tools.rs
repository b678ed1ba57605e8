//! The tools of the native engine: what they share within a turn, and what comes of a call.
//!
//! The invariant here: a tool ends every item it starts, also when the turn is stopped, and says to
//! the model what was done. A tool's failure is text for the model, never the end of the turn.
//!
//! Which calls run beside each other, hooks before and after, and recording are the turn's business.

pub(crate) mod diff;
pub(crate) mod exec;
pub(crate) mod image;
pub(crate) mod patch;
pub(crate) mod plan;
pub(crate) mod schema;
mod slots;
#[cfg(test)]
mod tests;
pub(crate) mod text;
pub(crate) mod write_stdin;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use turnlane_process::{EnvPolicy, ProcessService};
use turnlane_protocol::ids::{ItemId, TurnId};

pub(crate) use slots::{Slot, Slots};

use crate::cancel::CancelToken;
use crate::control::Ask;
use crate::native::history::Image;
use crate::native::redact::Redactor;
use crate::native::rules::RuleSet;
use crate::native::sessions::ThreadSessions;
use crate::request::TurnSettings;
use crate::said::{ApprovalRequest, Decided, Fenced};
use crate::sink::Sink;

pub(crate) const EXEC_COMMAND: &str = "exec_command";
pub(crate) const WRITE_STDIN: &str = "write_stdin";
pub(crate) const APPLY_PATCH: &str = "apply_patch";
pub(crate) const UPDATE_PLAN: &str = "update_plan";
pub(crate) const VIEW_IMAGE: &str = "view_image";

/// What the model is told about a call of another tool that somebody did not accept.
pub(crate) const REJECTED: &str = "tool call rejected by user";

/// Runs a call of one of our own tools.
///
/// Dropped before its end, a command it started is ended with the turn.
pub(crate) async fn run(turn: &Arc<ToolTurn>, called: &Called) -> Result<Output, Stop> {
    match called.name.as_str() {
        EXEC_COMMAND => exec::exec_command(turn, called).await,
        WRITE_STDIN => write_stdin::write_stdin(turn, called).await,
        APPLY_PATCH => patch::apply_patch(turn, called).await,
        UPDATE_PLAN => plan::update_plan(turn, called).await,
        VIEW_IMAGE => image::view_image(turn, called).await,
        name => Ok(Output::failure(format!("unsupported call: {name}"))),
    }
}

/// Milliseconds since 1970.
pub(crate) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What the tools of one turn share.
pub(crate) struct ToolTurn {
    pub(crate) turn_id: TurnId,
    pub(crate) settings: Arc<TurnSettings>,
    pub(crate) tools: ToolSettings,
    pub(crate) sink: Sink,
    pub(crate) ask: Ask,
    pub(crate) cancel: CancelToken,
    /// The rules about commands.
    pub(crate) rules: Arc<RuleSet>,
    /// Everything a tool emits or answers has passed it.
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) service: ProcessService,
    /// The running commands of the thread.
    pub(crate) sessions: Arc<ThreadSessions>,
    /// What the turn's patches changed together.
    pub(crate) diff: tokio::sync::Mutex<diff::TurnDiff>,
    pub(crate) clock: Clock,
}

/// What is configured about tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolSettings {
    /// The variables of commands.
    pub(crate) environment: EnvPolicy,
    /// The shell that runs commands.
    pub(crate) shell: String,
    /// Whether it is a login shell when the model does not say.
    pub(crate) login: LoginShell,
    pub(crate) dangerous: Dangerous,
    /// How many calls run at once.
    pub(crate) parallel_max: usize,
    /// How many tokens of output the model is given at most.
    pub(crate) output_tokens_max: u64,
    pub(crate) pictures: Pictures,
    /// Our own tools that the configuration switches off.
    pub(crate) withheld: BTreeSet<&'static str>,
    /// Variables that the turn gives its commands; `environment` leaves none of them out.
    pub(crate) variables: Vec<(String, String)>,
}

/// Whether the shell reads its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginShell {
    Yes,
    No,
}

/// What is done about commands that look dangerous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dangerous {
    /// They are asked about, or refused where nobody may be asked.
    Guarded,
    /// They are commands like others.
    Ordinary,
}

/// Whether the model takes pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pictures {
    Taken,
    Refused,
}

/// What hooks said before a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The policy decides.
    Usual,
    /// Somebody must accept, whatever the policy says.
    Asked,
    /// The item is started and completed as declined; the model gets the text.
    Blocked(String),
}

/// A call with its arguments read, and rewritten where a hook wished it.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) call_id: String,
    /// The id of the item that shows the call, if it shows one; hooks know the call by it.
    pub(crate) item_id: ItemId,
    pub(crate) name: String,
    pub(crate) arguments: Value,
    pub(crate) permission: Permission,
    /// The call's place among those that run at once; not held while somebody is asked.
    pub(crate) slot: Slot,
}

impl Called {
    /// Asks somebody about this call; it holds no place among the running ones meanwhile.
    pub(crate) async fn approve(&self, ask: &Ask, request: ApprovalRequest) -> Decided {
        self.slot.free();
        let decided = ask.approve(request).await;
        self.slot.take_again().await;
        decided
    }
}

/// What a call brought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    /// What the model is told, redacted and cut.
    pub(crate) text: String,
    pub(crate) success: bool,
    /// What the model is shown after all outputs of the round.
    pub(crate) pictures: Vec<Image>,
    /// Whether the turn completes without another model call.
    pub(crate) end_turn: bool,
    /// Whether the call was not made because somebody, a hook or the policy said no.
    pub(crate) declined: bool,
}

impl Output {
    pub(crate) fn success(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            success: true,
            ..Self::default()
        }
    }

    pub(crate) fn failure(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// The same, of a call that was not made.
    pub(crate) fn declined(self) -> Self {
        Self {
            declined: true,
            ..self
        }
    }
}

/// Why a call brought nothing: the turn ends. Every item the call started is completed by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The turn was cancelled; the text is what the call's output says.
    Cancelled(String),
    /// Somebody decided `cancel`: the turn is interrupted.
    Interrupted,
    /// Nobody answered a question within its limit: the call is declined and the turn fails.
    Unanswered,
    /// Another worker owns the lane.
    Fenced,
}

impl From<Fenced> for Stop {
    fn from(_: Fenced) -> Self {
        Self::Fenced
    }
}
