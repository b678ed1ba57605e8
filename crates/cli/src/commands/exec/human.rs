//! A run for people: progress as text, the answer apart from it.
//!
//! The invariant here: text that a model or a command made cannot steer a terminal or the viewer of a
//! log: wherever it goes, the writer makes hidden characters visible.

use std::fmt::Write as _;

use turnlane::{ItemBody as Body, TokenCounts, Usage};
use turnlane_protocol::exec_events::{
    CallStatus, CommandExecution, Event, Item, ItemBody, TodoItem,
};
use turnlane_protocol::turn_error::ErrorKind;

use super::run::Told;
use crate::shown::text::visible;
use crate::shown::{Colour, out};

/// How text is shown.
#[derive(Clone, Debug)]
pub(super) struct Human {
    pub(super) colour: Colour,
    pub(super) look: Look,
    /// Who speaks.
    pub(super) engine: String,
}

/// Whether a person looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Terminal,
    Elsewhere,
}

/// What stands above a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    pub(super) workdir: String,
    pub(super) model: String,
    pub(super) provider: String,
    pub(super) engine: String,
    pub(super) approval: String,
    pub(super) sandbox: String,
    pub(super) effort: Option<String>,
    pub(super) summaries: Option<String>,
    pub(super) thread: String,
}

const RULE: &str = "--------";
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const MAGENTA: &str = "35";
const CYAN: &str = "36";

impl Human {
    /// What stands above everything, and the prompt.
    pub(super) fn header(&self, header: &Header, prompt: &str) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let mut text = format!("Turnlane v{version}\n{RULE}\n");
        for (key, value) in [
            ("workdir", &header.workdir),
            ("model", &header.model),
            ("provider", &header.provider),
            ("engine", &header.engine),
            ("approval", &header.approval),
            ("sandbox", &header.sandbox),
            ("reasoning effort", &none(&header.effort)),
            ("reasoning summaries", &none(&header.summaries)),
            ("session id", &header.thread),
        ] {
            let key = self.paint(BOLD, &format!("{key}:"));
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{key} {}", visible(value));
        }
        let user = self.paint(CYAN, "user");
        let _ = writeln!(text, "{RULE}\n{user}\n{}", visible(prompt));
        text
    }

    /// What is shown of something that a run says; empty where that is nothing.
    pub(super) fn told(&self, told: &Told) -> String {
        match &told.event {
            Event::ThreadStarted { .. } | Event::TurnStarted | Event::TurnCompleted { .. } => {
                String::new()
            }
            Event::ItemStarted { item } => self.started(item, told),
            Event::ItemUpdated { item } => self.listed(item),
            Event::ItemCompleted { item } => self.completed(item, told),
            Event::Error { message, .. } => {
                format!("{} {}\n", self.paint(RED, "ERROR:"), visible(message))
            }
            Event::TurnFailed { error, .. } if error.kind == ErrorKind::Interrupted => {
                format!("{}\n", self.paint(YELLOW, "turn interrupted"))
            }
            // Nobody failed before it, so nothing was said.
            Event::TurnFailed { error, .. } if error.kind == ErrorKind::Timeout => {
                let message = visible(&error.message);
                format!("{} {message}\n", self.paint(RED, "ERROR:"))
            }
            // Said as an error before.
            Event::TurnFailed { .. } => String::new(),
        }
    }

    fn started(&self, item: &Item, told: &Told) -> String {
        match &item.body {
            ItemBody::CommandExecution(command) => {
                let cwd = match told.item.as_ref().map(|item| &item.body) {
                    Some(Body::CommandExecution(command)) => command.cwd.as_str(),
                    _ => ".",
                };
                let exec = self.paint(MAGENTA, "exec");
                let line = self.paint(BOLD, &visible(&command.command));
                format!("{exec}\n{line} in {}\n", visible(cwd))
            }
            ItemBody::TodoList { .. } => self.listed(item),
            _ => String::new(),
        }
    }

    fn completed(&self, item: &Item, told: &Told) -> String {
        match &item.body {
            ItemBody::AgentMessage { text } => format!("{}{}\n", self.speaker(), visible(text)),
            ItemBody::Reasoning { text } => format!("{}\n", self.paint(DIM, &visible(text))),
            ItemBody::CommandExecution(command) => {
                let how = self.command_ended(command, told);
                let output = visible(&command.aggregated_output);
                format!("{how}{}\n", self.paint(DIM, &output))
            }
            ItemBody::FileChange(change) => {
                let mut text = format!(
                    "{}\n",
                    self.paint(MAGENTA, &format!("patch: {}", word(change.status)))
                );
                for file in &change.changes {
                    let _ = writeln!(text, "{}", visible(&file.path));
                }
                text
            }
            ItemBody::McpToolCall(call) => {
                let name = visible(&format!("{}/{}", call.server, call.tool));
                format!(
                    "{} {name} ({})\n",
                    self.paint(MAGENTA, "mcp:"),
                    word(call.status)
                )
            }
            ItemBody::CollabToolCall(call) => {
                let name = visible(&call.tool);
                format!(
                    "{} {name} ({})\n",
                    self.paint(MAGENTA, "agents:"),
                    word(call.status)
                )
            }
            ItemBody::WebSearch(search) => {
                let query = visible(&search.query);
                format!("{} {query}\n", self.paint(MAGENTA, "web search:"))
            }
            ItemBody::Error { message } => {
                format!("{} {}\n", self.paint(YELLOW, "warning:"), visible(message))
            }
            // Shown whenever it changed.
            ItemBody::TodoList { .. } => String::new(),
        }
    }

    /// The line above an answer.
    pub(super) fn speaker(&self) -> String {
        format!("{}\n", self.paint(MAGENTA, &self.engine))
    }

    /// A part of what a command wrote.
    pub(super) fn output_part(&self, text: &str) -> String {
        self.paint(DIM, &visible(text))
    }

    /// How a command ended, in a line.
    pub(super) fn command_ended(&self, command: &CommandExecution, told: &Told) -> String {
        let took = match told.item.as_ref().map(|item| &item.body) {
            Some(Body::CommandExecution(command)) => command.duration_ms.unwrap_or(0),
            _ => 0,
        };
        let how = match (command.status, command.exit_code) {
            (CallStatus::Declined, _) => self.paint(YELLOW, " declined:"),
            // The call returned before its command ended, which nothing has reported since.
            (CallStatus::Completed, None) => {
                self.paint(YELLOW, &format!(" still ran after {took}ms:"))
            }
            (CallStatus::Completed, Some(_)) => {
                self.paint(GREEN, &format!(" succeeded in {took}ms:"))
            }
            (_, Some(code)) => self.paint(RED, &format!(" exited {code} in {took}ms:")),
            (_, None) => self.paint(RED, &format!(" failed in {took}ms:")),
        };
        format!("{how}\n")
    }

    fn listed(&self, item: &Item) -> String {
        let ItemBody::TodoList { items } = &item.body else {
            return String::new();
        };
        let mut text = format!("{}\n", self.paint(MAGENTA, "plan:"));
        for TodoItem {
            text: step,
            completed,
        } in items
        {
            let mark = if *completed { 'x' } else { ' ' };
            let _ = writeln!(text, "  [{mark}] {}", visible(step));
        }
        text
    }

    /// What stands below everything.
    pub(super) fn footer(&self, usage: &Usage) -> String {
        let turn = usage.turn.as_ref().map(spent);
        let turn = turn.map_or_else(|| "unknown".to_owned(), |turn| turn.to_string());
        let thread = usage.thread.as_ref().map(spent).unwrap_or_default();
        let title = self.paint(DIM, "tokens used");
        format!("{title}\n{turn} (thread {thread})\n")
    }

    fn paint(&self, code: &str, text: &str) -> String {
        match self.colour {
            Colour::On => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::Off => text.to_owned(),
        }
    }

    /// Writes text that was made here to standard error, with its colours.
    pub(super) fn tell(&self, text: &str) {
        out::tell(text, self.colour);
    }
}

/// What a person pays for: what the model read anew, and what it wrote.
fn spent(counts: &TokenCounts) -> i64 {
    counts.input_tokens - counts.cached_input_tokens + counts.output_tokens
}

const fn word(status: CallStatus) -> &'static str {
    match status {
        CallStatus::InProgress => "in progress",
        CallStatus::Completed => "completed",
        CallStatus::Failed => "failed",
        CallStatus::Declined => "declined",
    }
}

#[cfg(test)]
mod tests;
