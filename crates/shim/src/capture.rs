//! The readable transcript of a turn: what `CaptureScreen` shows and the log holds.
//!
//! The invariant here: the transcript is bounded, and it is never empty after a turn that said something:
//! the former turn is shown until the next one has said something.

use std::collections::VecDeque;

use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{ItemBody, ThreadItem};

use crate::wire::Event;

/// Lines that are kept.
const LINES_MAX: usize = 5_000;
/// The same in bytes.
const BYTES_MAX: usize = 256 * 1_024;

/// Who said a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
    Thought,
    Tool,
    Shim,
}

impl Speaker {
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::User => "[user]",
            Self::Assistant => "[assistant]",
            Self::Thought => "[thought]",
            Self::Tool => "[tool]",
            Self::Shim => "[shim]",
        }
    }
}

/// The transcript.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    lines: VecDeque<String>,
    bytes: usize,
    /// A turn has begun and said nothing yet.
    is_stale: bool,
}

impl Capture {
    pub(crate) fn turn_started(&mut self) {
        self.is_stale = true;
    }

    pub(crate) fn add(&mut self, text: &str) {
        if self.is_stale {
            self.is_stale = false;
            self.lines.clear();
            self.bytes = 0;
        }
        for line in text.lines() {
            self.bytes += line.len() + 1;
            self.lines.push_back(line.to_owned());
        }
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let Some(gone) = self.lines.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(gone.len() + 1);
        }
    }

    /// The answer to `CaptureScreen`.
    pub(crate) fn screen(&self, last_n_lines: Option<usize>) -> Event {
        let wanted = last_n_lines.unwrap_or(usize::MAX).min(self.lines.len());
        let shown = self.lines.iter().skip(self.lines.len() - wanted);
        let content = shown.map(String::as_str).collect::<Vec<_>>().join("\n");
        Event::new("ScreenCapture")
            .with("content", content)
            .with("cursor_row", 0)
            .with("cursor_col", 0)
    }

    /// The last lines of the transcript.
    pub(crate) fn last_lines(&self) -> String {
        let shown = self.lines.iter().skip(self.lines.len().saturating_sub(5));
        shown.map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// What an item that has ended reads as; none for items without words.
pub(crate) fn readable(item: &ThreadItem) -> Option<(Speaker, String)> {
    match &item.body {
        ItemBody::UserMessage(message) => {
            let text = |part: &UserInput| match part {
                UserInput::Text { text, .. } => Some(text.clone()),
                _ => None,
            };
            let texts: Vec<String> = message.content.iter().filter_map(text).collect();
            Some((Speaker::User, texts.join("\n")))
        }
        ItemBody::AgentMessage(message) => Some((Speaker::Assistant, message.text.clone())),
        ItemBody::Reasoning(reasoning) => {
            let text = reasoning.summary.join("\n");
            (!text.is_empty()).then_some((Speaker::Thought, text))
        }
        ItemBody::CommandExecution(command) => {
            let mut text = format!("$ {}", command.command);
            if let Some(output) = &command.aggregated_output {
                text.push('\n');
                text.push_str(output.trim_end());
            }
            if let Some(code) = command.exit_code {
                text.push_str("\n[exit code ");
                text.push_str(&code.to_string());
                text.push(']');
            }
            Some((Speaker::Tool, text))
        }
        ItemBody::FileChange(change) => {
            let paths: Vec<&str> = change
                .changes
                .iter()
                .map(|file| file.path.as_str())
                .collect();
            Some((Speaker::Tool, format!("changed {}", paths.join(", "))))
        }
        ItemBody::McpToolCall(call) => Some((
            Speaker::Tool,
            format!("called {} of {}", call.tool, call.server),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(capture: &Capture, lines: Option<usize>) -> String {
        capture.screen(lines).text("content").to_owned()
    }

    #[test]
    fn the_former_turn_is_shown_until_the_next_one_says_something() {
        let mut capture = Capture::default();
        capture.turn_started();
        capture.add("one\ntwo\n");
        capture.turn_started();
        assert_eq!(content(&capture, None), "one\ntwo");
        capture.add("three");
        assert_eq!(content(&capture, None), "three");
    }

    #[test]
    fn lines_are_cut_from_the_front() {
        let mut capture = Capture::default();
        for line in 0..LINES_MAX + 10 {
            capture.add(&line.to_string());
        }
        assert_eq!(content(&capture, Some(2)), "5008\n5009");
        assert_eq!(capture.lines.len(), LINES_MAX);
        capture.add(&"x".repeat(BYTES_MAX));
        assert!(capture.lines.len() < 2);
    }
}
