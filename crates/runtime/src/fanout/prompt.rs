//! The messages that a worker agent gets: the task, the repair turn, the continued turn.
//!
//! The invariant here: the first three lines of a task are fixed. Programs recognise workers by them
//! and read the ids from the lines that begin with them, so an id never has a line end in it.
//!
//! Everything here is pure; `runner` decides which message is sent when.

use std::fmt::Write as _;

use super::row::{Columns, Row, pretty_json};
use super::schema::SchemaProblem;
use super::template::{PROMPT_CHARS_MAX, PromptTooLong};

/// The tool by which a worker reports its result.
pub const REPORT_TOOL: &str = "report_agent_job_result";

/// The longest error message of an earlier attempt in a prompt, in characters.
const EARLIER_CHARS_MAX: usize = 500;

/// The way in which a worker delivers its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultChannel {
    /// It calls [`REPORT_TOOL`].
    Tool,
    /// Its final message is one JSON object.
    Message,
    /// Its final message is the result, as text.
    Text,
}

impl ResultChannel {
    /// The word on the wire and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Message => "message",
            Self::Text => "text",
        }
    }

    /// Finds the channel of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Tool, Self::Message, Self::Text]
            .into_iter()
            .find(|channel| channel.as_str() == word)
    }
}

/// The parts of a worker's task.
#[derive(Clone, Copy, Debug)]
pub struct WorkerPrompt<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The item.
    pub item_id: &'a str,
    /// The rendered template.
    pub instruction: &'a str,
    /// The columns of the job.
    pub columns: &'a Columns,
    /// The row.
    pub row: &'a Row,
    /// The JSON Schema of the result, as text.
    pub schema: Option<&'a str>,
    /// The way in which the result arrives.
    pub channel: ResultChannel,
    /// The attempts before this one, oldest first.
    pub earlier: &'a [EarlierAttempt],
}

/// An attempt that ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierAttempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// The kind of its error, in one word.
    pub kind: String,
    /// The message of its error.
    pub message: String,
}

/// The message that gives a worker its task.
pub fn worker_prompt(prompt: WorkerPrompt<'_>) -> Result<String, PromptTooLong> {
    let WorkerPrompt {
        job_id,
        item_id,
        instruction,
        ..
    } = prompt;
    let row = prompt.row.to_pretty_json(prompt.columns);
    let schema = prompt.schema.map_or_else(|| "{}".to_owned(), pretty_json);
    let closing = closing(&prompt);
    let mut text = format!(
        "You are processing one item for a generic agent job.\n\
         Job ID: {job_id}\n\
         Item ID: {item_id}\n\
         \n\
         Instruction:\n{instruction}\n\
         \n\
         Row:\n{row}\n\
         \n\
         Result schema:\n{schema}\n\
         \n\
         {closing}"
    );
    for earlier in prompt.earlier {
        let message = one_line(&earlier.message);
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\nAttempt {} ended: {}: {message}",
            earlier.attempt, earlier.kind
        );
    }
    if text.chars().count() > PROMPT_CHARS_MAX {
        return Err(PromptTooLong);
    }
    Ok(text)
}

/// The closing text of the channel.
fn closing(prompt: &WorkerPrompt<'_>) -> String {
    let WorkerPrompt {
        job_id, item_id, ..
    } = prompt;
    match prompt.channel {
        ResultChannel::Tool => format!(
            "When the work is done, call the tool `{REPORT_TOOL}` exactly once, with `job_id` = \
             \"{job_id}\", `item_id` = \"{item_id}\" and `result` = one JSON object that fits the \
             result schema. If the call is refused, correct the result and call it again. Set `stop` to \
             true only to end the whole job: rows that have not started are cancelled. End your turn \
             after the result is accepted."
        ),
        ResultChannel::Message => {
            "When the work is done, answer with one final message that is one \
             JSON object that fits the result schema, and nothing else: no text before or after it."
                .to_owned()
        }
        ResultChannel::Text => {
            "When the work is done, answer with one final message that holds the result.".to_owned()
        }
    }
}

/// A text without line ends, cut to a bounded length.
fn one_line(text: &str) -> String {
    let line = text
        .split(['\n', '\r', '\u{2028}', '\u{2029}'])
        .map(str::trim);
    let line: Vec<&str> = line.filter(|part| !part.is_empty()).collect();
    let line = line.join(" ");
    match line.char_indices().nth(EARLIER_CHARS_MAX) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// The defect that a repair turn asks a worker to correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultDefect<'a> {
    /// The turn ended without a result.
    Missing,
    /// The final message is not one JSON object.
    NotAnObject {
        /// The parser's reason.
        reason: &'a str,
    },
    /// The result does not fit the schema.
    Schema(&'a [SchemaProblem]),
}

/// The message of a repair turn: it says what is missing, in the thread that did the work.
pub fn repair_prompt(channel: ResultChannel, item_id: &str, defect: ResultDefect<'_>) -> String {
    let found = match defect {
        ResultDefect::Missing => match channel {
            ResultChannel::Tool => {
                format!("Your turn ended, but `{REPORT_TOOL}` was not called for item {item_id}.")
            }
            ResultChannel::Message | ResultChannel::Text => {
                format!("Your turn ended without a final message for item {item_id}.")
            }
        },
        ResultDefect::NotAnObject { reason } => format!(
            "Your final message for item {item_id} is not one JSON object: {}.",
            one_line(reason)
        ),
        ResultDefect::Schema(problems) => {
            let mut text =
                format!("Your result for item {item_id} does not fit the result schema:");
            for problem in problems {
                let path = if problem.path.is_empty() {
                    "the result"
                } else {
                    &problem.path
                };
                // Writing to a String cannot fail.
                let _ = write!(text, "\n- {path}: {}", one_line(&problem.message));
            }
            text
        }
    };
    let request = match channel {
        ResultChannel::Tool => format!(
            "Do not repeat work that is done. Call `{REPORT_TOOL}` now with the result of this item, \
             then end your turn."
        ),
        ResultChannel::Message => "Do not repeat work that is done. Answer with the result as one \
             JSON object that fits the result schema, and nothing else."
            .to_owned(),
        ResultChannel::Text => {
            "Do not repeat work that is done. Answer with the result of this item.".to_owned()
        }
    };
    format!("{found}\n\n{request}")
}

/// The message of a turn that continues interrupted work in the same thread.
pub fn continue_prompt(prompt: &WorkerPrompt<'_>) -> String {
    let mut text = format!(
        "Your work on item {} of job {} was interrupted before it had a result. Some of it may be \
         done: check what is already there before you repeat anything, then finish the task as it was \
         given.\n\n{}",
        prompt.item_id,
        prompt.job_id,
        closing(prompt)
    );
    if let Some(last) = prompt.earlier.last() {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\nAttempt {} ended: {}: {}",
            last.attempt,
            last.kind,
            one_line(&last.message)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt<'a>(columns: &'a Columns, row: &'a Row) -> WorkerPrompt<'a> {
        WorkerPrompt {
            job_id: "0193f0c2-7d1e-7a40-9c55-3f2b8e6d1a77",
            item_id: "row-1",
            instruction: "Review a.rs",
            columns,
            row,
            schema: None,
            channel: ResultChannel::Text,
            earlier: &[],
        }
    }

    fn one_cell() -> (Columns, Row) {
        let columns = Columns::new(["path".to_owned()]);
        (columns, Row::Cells(vec!["a.rs".to_owned()]))
    }

    #[test]
    fn the_task_has_its_fixed_lines_and_parts() {
        let (columns, row) = one_cell();
        let text = worker_prompt(prompt(&columns, &row)).unwrap();
        let expected = "You are processing one item for a generic agent job.\n\
            Job ID: 0193f0c2-7d1e-7a40-9c55-3f2b8e6d1a77\n\
            Item ID: row-1\n\
            \n\
            Instruction:\n\
            Review a.rs\n\
            \n\
            Row:\n\
            {\n  \"path\": \"a.rs\"\n}\n\
            \n\
            Result schema:\n\
            {}\n\
            \n\
            When the work is done, answer with one final message that holds the result.";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_tool_channel_names_tool_ids_and_stop() {
        let (columns, row) = one_cell();
        let prompt = WorkerPrompt {
            channel: ResultChannel::Tool,
            schema: Some(r#"{"type":"object"}"#),
            ..prompt(&columns, &row)
        };
        let text = worker_prompt(prompt).unwrap();
        let (head, closing) = text.rsplit_once("\n\n").unwrap();
        assert!(head.ends_with("Result schema:\n{\n  \"type\": \"object\"\n}"));
        for part in [
            REPORT_TOOL,
            prompt.job_id,
            "\"row-1\"",
            "`stop`",
            "once",
            "End your turn",
        ] {
            assert!(closing.contains(part), "{part}: {closing}");
        }
    }

    #[test]
    fn earlier_attempts_have_one_line_each() {
        let (columns, row) = one_cell();
        let earlier = |attempt, message: &str| EarlierAttempt {
            attempt,
            kind: "server_error".to_owned(),
            message: message.to_owned(),
        };
        let earlier = [
            earlier(1, "a\r\n b\nItem ID: x"),
            earlier(2, &"é".repeat(600)),
        ];
        let prompt = WorkerPrompt {
            earlier: &earlier,
            ..prompt(&columns, &row)
        };
        let text = worker_prompt(prompt).unwrap();
        let lines: Vec<&str> = text.lines().rev().take(2).collect();
        assert_eq!(lines[1], "Attempt 1 ended: server_error: a b Item ID: x");
        assert!(lines[0].ends_with("é…") && lines[0].chars().count() < 550);
        assert!(continue_prompt(&prompt).contains("Attempt 2 ended: server_error"));
    }

    #[test]
    fn a_task_that_is_too_long_is_refused() {
        let (columns, row) = one_cell();
        let long = "é".repeat(PROMPT_CHARS_MAX);
        let prompt = WorkerPrompt {
            instruction: &long,
            ..prompt(&columns, &row)
        };
        assert_eq!(worker_prompt(prompt), Err(PromptTooLong));
    }

    #[test]
    fn a_repair_names_the_defect() {
        let missing = repair_prompt(ResultChannel::Tool, "row-1", ResultDefect::Missing);
        assert!(missing.contains("`report_agent_job_result` was not called for item row-1"));
        let problems = [SchemaProblem {
            path: "/score".to_owned(),
            message: "is not\na number".to_owned(),
        }];
        let schema = ResultDefect::Schema(&problems);
        let schema = repair_prompt(ResultChannel::Message, "row-1", schema);
        assert!(schema.contains("\n- /score: is not a number\n"), "{schema}");
    }

    #[test]
    fn every_channel_has_its_word() {
        for word in ["tool", "message", "text"] {
            assert_eq!(
                ResultChannel::from_word(word).map(ResultChannel::as_str),
                Some(word)
            );
        }
        assert_eq!(ResultChannel::from_word("auto"), None);
    }
}
