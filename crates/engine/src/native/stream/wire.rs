//! What providers write, read leniently.
//!
//! The invariant here: a member of an unexpected type is a member that is missing; it never takes
//! the rest of its event along. Hence every member is raw JSON until somebody asks for it.
//!
//! Nothing is remembered here.

use serde::Deserialize;
use serde_json::value::RawValue;
use turnlane_protocol::usage::TokenUsage;

/// A member as it stands; none if missing or null.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// The members of an event that mean something.
#[derive(Debug, Deserialize)]
pub(super) struct EventWire<'a> {
    #[serde(borrow)]
    pub(super) r#type: Raw<'a>,
    pub(super) output_index: Raw<'a>,
    pub(super) item_id: Raw<'a>,
    pub(super) content_index: Raw<'a>,
    pub(super) summary_index: Raw<'a>,
    pub(super) delta: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) refusal: Raw<'a>,
    pub(super) arguments: Raw<'a>,
    pub(super) input: Raw<'a>,
    pub(super) name: Raw<'a>,
    pub(super) part: Raw<'a>,
    pub(super) item: Raw<'a>,
    pub(super) response: Raw<'a>,
    pub(super) error: Raw<'a>,
}

/// The members of an output item that mean something, with the item itself.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct ItemWire<'a> {
    #[serde(borrow)]
    pub(super) r#type: Raw<'a>,
    pub(super) id: Raw<'a>,
    pub(super) call_id: Raw<'a>,
    pub(super) name: Raw<'a>,
    pub(super) arguments: Raw<'a>,
    pub(super) input: Raw<'a>,
    pub(super) content: Raw<'a>,
    pub(super) summary: Raw<'a>,
    pub(super) encrypted_content: Raw<'a>,
    pub(super) phase: Raw<'a>,
    pub(super) action: Raw<'a>,
    pub(super) query: Raw<'a>,
    #[serde(skip)]
    pub(super) raw: Raw<'a>,
}

impl<'a> ItemWire<'a> {
    /// Reads an item; none if it is no object.
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        let item: Self = object(raw.get())?;
        Some(Self {
            raw: Some(raw),
            ..item
        })
    }
}

/// The members of a response that mean something.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResponseWire<'a> {
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    pub(super) status: Raw<'a>,
    pub(super) output: Raw<'a>,
    pub(super) usage: Raw<'a>,
    pub(super) error: Raw<'a>,
    pub(super) incomplete_details: Raw<'a>,
    pub(super) end_turn: Raw<'a>,
}

impl<'a> ResponseWire<'a> {
    /// Reads a response; an empty one if there is none to read.
    pub(super) fn read(raw: Raw<'a>) -> Self {
        raw.and_then(|raw| object(raw.get())).unwrap_or_default()
    }

    /// The items of the output.
    pub(super) fn items(&self) -> Vec<&'a RawValue> {
        list(self.output)
    }

    /// Why the response is incomplete.
    pub(super) fn incomplete_reason(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Details<'a> {
            #[serde(borrow)]
            reason: Raw<'a>,
        }
        let details: Details<'_> = object(self.incomplete_details?.get())?;
        word(details.reason)
    }
}

/// Reads an object; none for anything else, an array in the order of the members included.
pub(super) fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    if !json.trim_start().starts_with('{') {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// The elements of an array; none of them for anything else.
fn list(raw: Raw<'_>) -> Vec<&RawValue> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// A text, or the `text` of an object, as some providers write a delta of reasoning.
pub(super) fn text(raw: Raw<'_>) -> Option<String> {
    let raw = raw?;
    if let Ok(text) = serde_json::from_str(raw.get()) {
        return Some(text);
    }
    Part::read(raw).and_then(|part| part.text())
}

/// A text that is not empty.
pub(super) fn word(raw: Raw<'_>) -> Option<String> {
    let word: String = serde_json::from_str(raw?.get()).ok()?;
    (!word.is_empty()).then_some(word)
}

/// A number from 0.
pub(super) fn index(raw: Raw<'_>) -> Option<u64> {
    serde_json::from_str(raw?.get()).ok()
}

/// The arguments of a call: a text as it is, an object serialised.
pub(super) fn arguments(raw: Raw<'_>) -> Option<String> {
    let raw = raw?;
    if raw.get().starts_with('{') {
        return Some(raw.get().to_owned());
    }
    serde_json::from_str(raw.get()).ok()
}

/// One part of a message, a summary or a thought.
#[derive(Debug, Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    r#type: Raw<'a>,
    text: Raw<'a>,
    refusal: Raw<'a>,
}

impl<'a> Part<'a> {
    /// Reads a part; none if it is no object.
    pub(super) fn read(raw: &'a RawValue) -> Option<Self> {
        object(raw.get())
    }

    /// What it says.
    pub(super) fn text(&self) -> Option<String> {
        let said = self.text.or(self.refusal)?;
        serde_json::from_str(said.get()).ok()
    }

    /// Whether it belongs to reasoning rather than to a message.
    pub(super) fn is_reasoning(&self) -> bool {
        word(self.r#type).is_some_and(|word| word == "reasoning_text")
    }
}

/// The texts of `content` or `summary`: parts, bare strings, or one string for all.
pub(super) fn texts(raw: Raw<'_>) -> Vec<String> {
    if let Some(one) = word(raw) {
        return vec![one];
    }
    let parts = list(raw).into_iter();
    let texts = parts.filter_map(|part| text(Some(part)));
    texts.filter(|text| !text.is_empty()).collect()
}

/// What a response used; none if it names no count.
pub(super) fn usage(raw: Raw<'_>) -> Option<TokenUsage> {
    #[derive(Deserialize)]
    struct Usage<'a> {
        #[serde(borrow)]
        input_tokens: Raw<'a>,
        input_tokens_details: Raw<'a>,
        output_tokens: Raw<'a>,
        output_tokens_details: Raw<'a>,
        total_tokens: Raw<'a>,
    }
    #[derive(Default, Deserialize)]
    #[expect(clippy::struct_field_names, reason = "the provider's names")]
    struct Details<'a> {
        #[serde(borrow)]
        cached_tokens: Raw<'a>,
        cache_write_tokens: Raw<'a>,
        reasoning_tokens: Raw<'a>,
    }
    fn details(raw: Raw<'_>) -> Details<'_> {
        raw.and_then(|raw| object(raw.get())).unwrap_or_default()
    }
    let count = |raw| index(raw).and_then(|count| i64::try_from(count).ok());

    let usage: Usage<'_> = object(raw?.get())?;
    let (input, output) = (count(usage.input_tokens), count(usage.output_tokens));
    let total = count(usage.total_tokens);
    input.or(output).or(total)?;
    let read = details(usage.input_tokens_details);
    let written = details(usage.output_tokens_details);
    let (input, output) = (input.unwrap_or(0), output.unwrap_or(0));
    Some(TokenUsage {
        total_tokens: total.unwrap_or_else(|| input.saturating_add(output)),
        input_tokens: input,
        cached_input_tokens: count(read.cached_tokens).unwrap_or(0),
        cache_write_input_tokens: count(read.cache_write_tokens).unwrap_or(0),
        output_tokens: output,
        reasoning_output_tokens: count(written.reasoning_tokens).unwrap_or(0),
    })
}
