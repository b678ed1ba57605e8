//! What an answer can contain: messages, reasoning and calls, as a test names them.
//!
//! An [`Item`] is what the model says, without ids and events; `events.rs` turns it into the
//! stream of the Responses API. The invariant here: an item says nothing that depends on the
//! request, so the same item may stand in several answers.

use std::fmt::Display;

use serde_json::Value;

/// How many bytes of text one delta of [`Item::huge_text`] carries.
const HUGE_DELTA_BYTES: usize = 4096;

/// One output item of an answer.
#[derive(Clone, Debug)]
pub struct Item {
    pub(super) kind: Kind,
    pub(super) call_id: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Message {
        deltas: Vec<String>,
        phase: Option<String>,
    },
    Refusal {
        text: String,
    },
    Reasoning {
        summary: Vec<String>,
        content: Vec<String>,
        encrypted: Option<String>,
    },
    FunctionCall {
        name: String,
        arguments: String,
    },
    CustomToolCall {
        name: String,
        input: String,
    },
    LocalShellCall {
        command: Vec<String>,
    },
    WebSearchCall {
        query: String,
    },
    Raw(Value),
}

impl Item {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            call_id: None,
        }
    }

    /// A message that arrives as one delta.
    pub fn text(text: impl Into<String>) -> Self {
        Self::streamed([text.into()])
    }

    /// A message that arrives in these deltas.
    pub fn streamed<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        let deltas = deltas.into_iter().map(Into::into).collect();
        Self::new(Kind::Message {
            deltas,
            phase: None,
        })
    }

    /// A message of this many bytes, in deltas of 4 KiB.
    ///
    /// The API repeats a message's text four times behind its deltas, and so does the mock: an
    /// answer of n bytes is about five times as large on the wire and in the mock's memory.
    pub fn huge_text(bytes: usize) -> Self {
        let delta = "0123456789abcde\n".repeat(HUGE_DELTA_BYTES / 16);
        let mut deltas = vec![delta.clone(); bytes / HUGE_DELTA_BYTES];
        let rest = &delta[..bytes % HUGE_DELTA_BYTES];
        if !rest.is_empty() {
            deltas.push(rest.to_owned());
        }
        Self::streamed(deltas)
    }

    /// A refusal, in one delta.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self::new(Kind::Refusal { text: text.into() })
    }

    /// Reasoning with one summary part and encrypted content.
    pub fn reasoning(summary: impl Into<String>) -> Self {
        Self::new(Kind::Reasoning {
            summary: vec![summary.into()],
            content: Vec::new(),
            encrypted: Some("bW9jayByZWFzb25pbmc=".to_owned()),
        })
    }

    /// Reasoning as servers of open models send it: its text, in these deltas, not encrypted.
    pub fn reasoning_text<T: Into<String>>(deltas: impl IntoIterator<Item = T>) -> Self {
        Self::new(Kind::Reasoning {
            summary: Vec::new(),
            content: deltas.into_iter().map(Into::into).collect(),
            encrypted: None,
        })
    }

    /// A call of a function tool. `arguments` is a JSON value, or a text that is none.
    pub fn function_call(name: impl Into<String>, arguments: impl Display) -> Self {
        Self::new(Kind::FunctionCall {
            name: name.into(),
            arguments: arguments.to_string(),
        })
    }

    /// A call of a freeform tool, such as `apply_patch` with a patch as input.
    pub fn custom_tool_call(name: impl Into<String>, input: impl Into<String>) -> Self {
        Self::new(Kind::CustomToolCall {
            name: name.into(),
            input: input.into(),
        })
    }

    /// A call of the hosted local shell.
    pub fn local_shell_call<T: Into<String>>(command: impl IntoIterator<Item = T>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self::new(Kind::LocalShellCall { command })
    }

    /// A web search the provider did on its own.
    pub fn web_search_call(query: impl Into<String>) -> Self {
        Self::new(Kind::WebSearchCall {
            query: query.into(),
        })
    }

    /// An item of any other shape: announced empty of content, done as given.
    pub fn raw(item: Value) -> Self {
        Self::new(Kind::Raw(item))
    }

    /// The same call under this id; without it the mock chooses one that no other call has.
    #[must_use]
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        self.call_id = Some(id.into());
        self
    }

    /// The same message with a `phase` (`commentary`, `final_answer`); other items ignore it.
    #[must_use]
    pub fn phase(mut self, word: &str) -> Self {
        if let Kind::Message { phase, .. } = &mut self.kind {
            *phase = Some(word.to_owned());
        }
        self
    }

    /// The same reasoning with one more summary part; other items ignore it.
    #[must_use]
    pub fn and_summary(mut self, part: &str) -> Self {
        if let Kind::Reasoning { summary, .. } = &mut self.kind {
            summary.push(part.to_owned());
        }
        self
    }

    /// The same reasoning without encrypted content; other items ignore it.
    #[must_use]
    pub fn unencrypted(mut self) -> Self {
        if let Kind::Reasoning { encrypted, .. } = &mut self.kind {
            *encrypted = None;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_text_has_exactly_the_bytes_asked_for() {
        for bytes in [0, 1, 4095, 4096, 4097, 1 << 20] {
            let Kind::Message { deltas, .. } = Item::huge_text(bytes).kind else {
                unreachable!("huge_text makes a message");
            };
            assert_eq!(deltas.iter().map(String::len).sum::<usize>(), bytes);
        }
    }
}
