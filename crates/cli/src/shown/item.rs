//! Items of a turn as text, in the words of `turnlane exec`.
//!
//! The invariant here: an item has two parts, what is known when it begins and what when it has
//! ended; both together show it whole. Nothing in them can steer a terminal. Pure.

use std::fmt::Write as _;

use turnlane::{Item, ItemBody};
use turnlane_protocol::item::ItemStatus;

use super::text::{of_input, visible};
use super::time::took;
use super::{Ink, Screen};

/// Of a command's output, so many of the last lines are shown in a history.
const OUTPUT_LINES: usize = 10;

/// What is said when an item begins; empty where nothing is known yet.
pub(crate) fn begun(screen: &Screen, item: &Item) -> String {
    match &item.body {
        ItemBody::CommandExecution(command) => {
            let exec = screen.paint(Ink::Magenta, "exec");
            let line = screen.paint(Ink::Bold, &visible(&command.command));
            format!("{exec}\n{line} in {}\n", visible(&command.cwd))
        }
        _ => String::new(),
    }
}

/// What is said when an item has ended; `output` is what a command wrote and nobody has shown yet.
pub(crate) fn ended(screen: &Screen, item: &Item, output: Output) -> String {
    match &item.body {
        ItemBody::UserMessage(message) => {
            let input = serde_json::to_value(&message.content).unwrap_or_default();
            let input = input.as_array().map(Vec::as_slice).unwrap_or_default();
            titled(screen, Ink::Cyan, "user", &of_input(input))
        }
        ItemBody::AgentMessage(message) => titled(screen, Ink::Magenta, "agent", &message.text),
        ItemBody::Plan(plan) => titled(screen, Ink::Magenta, "plan", &plan.text),
        ItemBody::Reasoning(reasoning) => {
            let parts = if reasoning.summary.is_empty() {
                &reasoning.content
            } else {
                &reasoning.summary
            };
            let text = parts.join("\n");
            if text.is_empty() {
                return text;
            }
            format!("{}\n", screen.paint(Ink::Dim, &visible(&text)))
        }
        ItemBody::CommandExecution(command) => {
            let took = took(command.duration_ms.unwrap_or(0));
            let how = match (&command.status, command.exit_code) {
                (ItemStatus::Declined, _) => screen.paint(Ink::Yellow, " declined"),
                // The call returned before its command ended, which nothing has reported since.
                (ItemStatus::Completed, None) => {
                    screen.paint(Ink::Yellow, &format!(" still ran after {took}"))
                }
                (ItemStatus::Completed, Some(_)) => {
                    screen.paint(Ink::Green, &format!(" succeeded in {took}"))
                }
                (ItemStatus::InProgress, _) => screen.paint(Ink::Yellow, " still runs"),
                (_, Some(code)) => screen.paint(Ink::Red, &format!(" exited {code} in {took}")),
                (_, None) => screen.paint(Ink::Red, &format!(" failed in {took}")),
            };
            let wrote = command.aggregated_output.as_deref().unwrap_or_default();
            match output {
                Output::Shown => format!("{how}\n"),
                Output::Last => format!("{how}\n{}", last_lines(screen, wrote)),
            }
        }
        ItemBody::FileChange(change) => {
            let title = format!("patch: {}", word(&change.status));
            let mut text = format!("{}\n", screen.paint(Ink::Magenta, &title));
            for file in &change.changes {
                // Writing into a string cannot fail.
                let _ = writeln!(text, "{}", visible(&file.path));
            }
            text
        }
        ItemBody::McpToolCall(call) => {
            let name = visible(&format!("{}/{}", call.server, call.tool));
            let title = screen.paint(Ink::Magenta, "mcp:");
            format!("{title} {name} ({})\n", word(&call.status))
        }
        ItemBody::WebSearch(search) => {
            let title = screen.paint(Ink::Magenta, "web search:");
            format!("{title} {}\n", visible(&search.query))
        }
        _ => format!(
            "{}\n",
            screen.paint(Ink::Dim, &format!("[{}]", visible(item.type_word())))
        ),
    }
}

/// What of a command's output is still to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Nothing, it was shown while it came.
    Shown,
    /// Its last lines.
    Last,
}

fn titled(screen: &Screen, ink: Ink, title: &str, text: &str) -> String {
    format!("{}\n{}\n", screen.paint(ink, title), visible(text))
}

fn last_lines(screen: &Screen, output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let left_out = lines.len().saturating_sub(OUTPUT_LINES);
    let mut text = String::new();
    if left_out > 0 {
        let _ = writeln!(text, "… {left_out} lines before");
    }
    for line in &lines[left_out..] {
        let _ = writeln!(text, "{}", visible(line));
    }
    if text.is_empty() {
        return text;
    }
    format!("{}\n", screen.paint(Ink::Dim, text.trim_end()))
}

fn word(status: &ItemStatus) -> &str {
    match status {
        ItemStatus::InProgress => "in progress",
        ItemStatus::Completed => "completed",
        ItemStatus::Failed => "failed",
        ItemStatus::Declined => "declined",
        ItemStatus::Interrupted => "interrupted",
        ItemStatus::Unlisted(word) => word,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_without_an_end_is_not_said_to_have_succeeded() {
        for (status, code, expected) in [
            ("completed", Some(0), " succeeded in 10.0s\n"),
            ("completed", None, " still ran after 10.0s\n"),
            ("failed", Some(2), " exited 2 in 10.0s\n"),
            ("failed", None, " failed in 10.0s\n"),
        ] {
            let item = json!({
                "type": "commandExecution", "id": "i", "command": "make", "cwd": "/w",
                "status": status, "commandActions": [], "exitCode": code, "durationMs": 10_000,
            });
            let item: Item = serde_json::from_value(item).unwrap();
            assert_eq!(ended(&Screen::plain(), &item, Output::Shown), expected);
        }
    }
}
