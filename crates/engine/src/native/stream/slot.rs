//! One output item while its response arrives.
//!
//! The invariant here: a slot holds what is known of an item so far; what an authoritative event
//! says replaces what deltas added up to, but an authority that says nothing replaces nothing.
//!
//! Which slot an event means is decided in `assemble`, what is shown of it in `complete`.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{AgentMessage, ItemBody, MessagePhase, Reasoning};

use super::step::CallKind;
use super::wire::{self, ItemWire};

/// Texts by their index; the indices may have gaps and come in any order.
pub(super) type Parts = BTreeMap<u64, String>;

/// What kind of item a slot is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call(CallKind),
    WebSearch,
    /// A type nobody here knows.
    Other(String),
}

impl Kind {
    pub(super) fn of(item: &ItemWire<'_>) -> Self {
        let word = wire::word(item.r#type).unwrap_or_default();
        match word.as_str() {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call(CallKind::Function),
            "custom_tool_call" => Self::Call(CallKind::Custom),
            "web_search_call" => Self::WebSearch,
            _ => Self::Other(word),
        }
    }
}

/// What is known of one output item.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    /// The provider's `output_index`, if it gave one.
    pub(super) index: Option<u64>,
    /// Where the item stands in the output: its index, else behind all others.
    pub(super) place: u64,
    pub(super) provider_id: Option<String>,
    /// Our id, once the item was shown.
    pub(super) item_id: Option<ItemId>,
    /// Whether `output_item.added` named the item, rather than a delta that came before it.
    pub(super) announced: bool,
    pub(super) done: bool,
    pub(super) phase: Option<MessagePhase>,
    /// The text of a message, the thoughts of reasoning.
    pub(super) content: Parts,
    pub(super) summary: Parts,
    pub(super) call_id: Option<String>,
    pub(super) name: Option<String>,
    /// Arguments or input of a call.
    pub(super) arguments: String,
    /// They are whole, so later deltas are not theirs.
    pub(super) arguments_done: bool,
    /// The authoritative item: a call's is kept for the end, a search's to know it again.
    pub(super) raw: Option<Box<RawValue>>,
}

impl Slot {
    pub(super) fn new(kind: Kind, index: Option<u64>, place: u64) -> Self {
        Self {
            kind,
            index,
            place,
            provider_id: None,
            item_id: None,
            announced: false,
            done: false,
            phase: None,
            content: Parts::new(),
            summary: Parts::new(),
            call_id: None,
            name: None,
            arguments: String::new(),
            arguments_done: false,
            raw: None,
        }
    }

    /// Takes the names an item gives itself.
    pub(super) fn learn(&mut self, item: &ItemWire<'_>) {
        fn fill(known: &mut Option<String>, said: Option<String>) {
            *known = said.or_else(|| known.take());
        }
        fill(&mut self.provider_id, wire::word(item.id));
        fill(&mut self.call_id, wire::word(item.call_id));
        fill(&mut self.name, wire::word(item.name));
        if let Some(phase) = item
            .phase
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
        {
            self.phase = Some(phase);
        }
    }

    /// Takes the texts of an authoritative item.
    pub(super) fn settle(&mut self, item: &ItemWire<'_>) {
        self.learn(item);
        let replace = |known: &mut Parts, said: Vec<String>| {
            if !said.is_empty() {
                *known = (0..).zip(said).collect();
            }
        };
        replace(&mut self.content, wire::texts(item.content));
        replace(&mut self.summary, wire::texts(item.summary));
        if let Some(arguments) = said_arguments(&self.kind, item) {
            self.arguments = arguments;
        }
    }

    /// The text of a message.
    pub(super) fn text(&self) -> String {
        self.content.values().map(String::as_str).collect()
    }

    /// The item as clients see it; none for what they never see.
    pub(super) fn body(&self) -> Option<ItemBody> {
        let said = |parts: &Parts| -> Vec<String> {
            let texts = parts.values().filter(|text| !text.is_empty());
            texts.cloned().collect()
        };
        match self.kind {
            Kind::Message => Some(ItemBody::AgentMessage(AgentMessage {
                text: self.text(),
                phase: self.phase.clone(),
                ..AgentMessage::default()
            })),
            Kind::Reasoning => Some(ItemBody::Reasoning(Reasoning {
                summary: said(&self.summary),
                content: said(&self.content),
                ..Reasoning::default()
            })),
            Kind::Call(_) | Kind::WebSearch | Kind::Other(_) => None,
        }
    }

    /// Whether there is nothing to show.
    pub(super) fn is_blank(&self) -> bool {
        let mut texts = self.content.values().chain(self.summary.values());
        texts.all(String::is_empty)
    }

    /// Whether an item that names neither index nor id is this one again.
    pub(super) fn says_the_same(&self, said: &Said<'_>) -> bool {
        match &self.kind {
            Kind::Message => joins_to(&self.content, &said.content),
            Kind::Reasoning => {
                joins_to(&self.content, &said.content) && joins_to(&self.summary, &said.summary)
            }
            Kind::Call(_) => match (&self.call_id, &said.call_id) {
                (Some(known), Some(said)) => known == said,
                (None, _) | (_, None) => self.name == said.name && self.arguments == said.arguments,
            },
            Kind::WebSearch => {
                let known = self.raw.as_deref().map(RawValue::get);
                known == said.raw
            }
            // Nothing of it is shown, once or twice.
            Kind::Other(_) => true,
        }
    }
}

/// The words of an item, read once to be compared with many slots.
#[derive(Debug)]
pub(super) struct Said<'a> {
    content: String,
    summary: String,
    call_id: Option<String>,
    name: Option<String>,
    arguments: String,
    raw: Option<&'a str>,
}

impl<'a> Said<'a> {
    pub(super) fn of(item: &ItemWire<'a>) -> Self {
        Self {
            content: wire::texts(item.content).concat(),
            summary: wire::texts(item.summary).concat(),
            call_id: wire::word(item.call_id),
            name: wire::word(item.name),
            arguments: said_arguments(&Kind::of(item), item).unwrap_or_default(),
            raw: item.raw.map(RawValue::get),
        }
    }
}

/// Whether the parts one after the other are this text.
fn joins_to(parts: &Parts, whole: &str) -> bool {
    let mut parts = parts.values();
    let rest = parts.try_fold(whole, |rest, part| rest.strip_prefix(part.as_str()));
    rest.is_some_and(str::is_empty)
}

/// The arguments or input in an item, unless there is nothing in them.
fn said_arguments(kind: &Kind, item: &ItemWire<'_>) -> Option<String> {
    let said = match kind {
        Kind::Call(CallKind::Custom) => wire::arguments(item.input),
        _ => wire::arguments(item.arguments),
    };
    said.filter(|said| !said.trim().is_empty())
}
