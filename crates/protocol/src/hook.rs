//! Hooks: the events they are asked about, and what their answers mean.
//!
//! The invariant here: an answer is read in one place and in one way, whoever runs the hook: the
//! server for its files, or a client for its own commands. What cannot be read is a failure, never a
//! consent. Everything here is pure.
//!
//! Which hooks are asked, in which order, and what a verdict does to a step is the runner's business.

mod output;
#[cfg(test)]
mod tests;

pub use output::{Ended, Exit, FailureClass, HookFailure, HookOutput, NO_MESSAGE, Verdict, read};

/// What a hook is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookEvent {
    /// A thread begins, or begins again.
    SessionStart,
    /// Words for the model, before the first model call of a turn.
    UserPromptSubmit,
    /// A tool is about to run.
    PreToolUse,
    /// An approval is needed.
    PermissionRequest,
    /// A tool has run.
    PostToolUse,
    /// The context is about to be compacted.
    PreCompact,
    /// It was.
    PostCompact,
    /// A sub-agent begins.
    SubagentStart,
    /// A sub-agent is about to end.
    SubagentStop,
    /// The agent is about to end the turn.
    Stop,
    /// A turn was interrupted.
    Interrupt,
    /// A thread is unloaded.
    SessionEnd,
    /// A queued turn is about to be stored.
    QueueAdmit,
    /// A turn has ended.
    TurnEnd,
    /// An occurrence of a schedule is due.
    ScheduleTick,
    /// A row of a fan-out is about to be queued.
    JobRow,
}

impl HookEvent {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 16] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PostToolUse,
        Self::PreCompact,
        Self::PostCompact,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::Stop,
        Self::Interrupt,
        Self::SessionEnd,
        Self::QueueAdmit,
        Self::TurnEnd,
        Self::ScheduleTick,
        Self::JobRow,
    ];

    /// The name in files and in a hook's input.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PostToolUse => "PostToolUse",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::Stop => "Stop",
            Self::Interrupt => "Interrupt",
            Self::SessionEnd => "SessionEnd",
            Self::QueueAdmit => "QueueAdmit",
            Self::TurnEnd => "TurnEnd",
            Self::ScheduleTick => "ScheduleTick",
            Self::JobRow => "JobRow",
        }
    }

    /// Reads a name as files spell it: `PreToolUse`, `preToolUse`, `pre_tool_use`, `pre-tool-use`.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = |name: &str| name.replace(['_', '-'], "").to_ascii_lowercase();
        let wanted = plain(name);
        let mut all = Self::ALL.into_iter();
        all.find(|event| plain(event.as_str()) == wanted)
    }

    /// Whether a hook decides here, and does not only watch.
    pub fn is_deciding(self) -> bool {
        matches!(
            self,
            Self::SessionStart
                | Self::UserPromptSubmit
                | Self::PreToolUse
                | Self::PermissionRequest
                | Self::PreCompact
                | Self::QueueAdmit
                | Self::ScheduleTick
                | Self::JobRow
        )
    }

    /// Whether exit code 2 and `continue: false` say something here.
    fn takes_no(self) -> bool {
        self.is_deciding() || matches!(self, Self::PostToolUse | Self::Stop | Self::SubagentStop)
    }

    /// Whether `decision: "block"` says something here.
    fn takes_block_word(self) -> bool {
        self.takes_no() && self != Self::PermissionRequest
    }

    /// Whether text on standard output that is no JSON is context for the model.
    fn takes_plain_context(self) -> bool {
        matches!(
            self,
            Self::SessionStart | Self::UserPromptSubmit | Self::SubagentStart
        )
    }

    /// Whether `additionalContext` says something here.
    fn takes_context(self) -> bool {
        self.takes_plain_context() || matches!(self, Self::PreToolUse | Self::PostToolUse)
    }

    /// Whether the prompt may be rewritten here.
    fn takes_prompt(self) -> bool {
        matches!(
            self,
            Self::UserPromptSubmit | Self::QueueAdmit | Self::ScheduleTick | Self::JobRow
        )
    }

    /// Whether the model may be chosen here.
    fn takes_model(self) -> bool {
        matches!(self, Self::SessionStart | Self::UserPromptSubmit)
    }

    /// Whether metadata may be added here.
    fn takes_metadata(self) -> bool {
        self.takes_prompt() || self.takes_model()
    }
}
