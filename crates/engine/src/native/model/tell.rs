//! Tells clients what a response does, at once and without keys.
//!
//! The invariants here: the deltas of a text joined are the text of the completed item, also where a
//! key was cut into pieces; an item is completed once, with the time at which it began.
//!
//! What is recorded is gathered elsewhere.

use std::borrow::Cow;
use std::collections::HashMap;

use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::notification::DeltaKind;
use turnlane_protocol::usage::TokenUsage;

use super::{ModelCall, Show, clean};
use crate::event::Event;
use crate::native::redact::{DeltaRedactor, Redactor};
use crate::native::tools::Clock;
use crate::outcome::EngineError;
use crate::said::Fenced;
use crate::sink::Sink;

/// The voice of one model call, over all its tries.
pub(super) struct Teller<'a> {
    sink: &'a Sink,
    clock: &'a Clock,
    redactor: &'a Redactor,
    show: Show,
    context_window: i64,
    open: HashMap<ItemId, Open>,
}

/// An item that has begun.
struct Open {
    started_at_ms: i64,
    /// What is held back of each of its texts.
    texts: Vec<(DeltaKind, DeltaRedactor)>,
}

/// How much of an item is there when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// Its texts may grow.
    InPart,
    /// All of it: its end comes next.
    Whole,
}

/// What becomes of an item that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stored,
    /// Its answer is asked for again.
    Dropped,
}

impl<'a> Teller<'a> {
    pub(super) fn new(call: &ModelCall<'a>) -> Self {
        Self {
            sink: call.sink,
            clock: call.clock,
            redactor: &call.provider.redactor,
            show: call.show,
            context_window: call.context_window,
            open: HashMap::new(),
        }
    }

    pub(super) async fn opened(
        &mut self,
        item_id: ItemId,
        mut body: ItemBody,
        begins: Begins,
    ) -> Result<(), Fenced> {
        if self.show == Show::Nothing {
            return Ok(());
        }
        let mut texts = Vec::new();
        match begins {
            Begins::Whole => clean::body(self.redactor, &mut body),
            Begins::InPart => {
                clean::rest(self.redactor, &mut body);
                clean::each_text(&mut body, |kind, text| {
                    let mut held = self.redactor.deltas();
                    *text = held.push(text).into_owned();
                    texts.push((kind, held));
                });
            }
        }
        let started_at_ms = (self.clock)();
        let item = ThreadItem::started(item_id.clone(), started_at_ms, body);
        self.open.insert(
            item_id,
            Open {
                started_at_ms,
                texts,
            },
        );
        self.sink.emit(Event::ItemStarted(Box::new(item))).await
    }

    pub(super) async fn delta(
        &mut self,
        item_id: ItemId,
        kind: DeltaKind,
        delta: String,
    ) -> Result<(), Fenced> {
        let Some(open) = self.open.get_mut(&item_id) else {
            return Ok(());
        };
        let at = open.texts.iter().position(|(known, _)| *known == kind);
        let at = at.unwrap_or_else(|| {
            open.texts.push((kind, self.redactor.deltas()));
            open.texts.len() - 1
        });
        let text = match open.texts[at].1.push(&delta) {
            Cow::Borrowed(shown) if shown.len() == delta.len() => delta,
            shown => shown.into_owned(),
        };
        if text.is_empty() {
            return Ok(());
        }
        let event = Event::Delta {
            item_id,
            kind,
            text,
        };
        self.sink.emit(event).await
    }

    pub(super) async fn summary_part(
        &self,
        item_id: ItemId,
        summary_index: i64,
    ) -> Result<(), Fenced> {
        if !self.open.contains_key(&item_id) {
            return Ok(());
        }
        let event = Event::SummaryPartAdded {
            item_id,
            summary_index,
        };
        self.sink.emit(event).await
    }

    /// Ends an item whose body is clean.
    pub(super) async fn ended(
        &mut self,
        item_id: ItemId,
        body: ItemBody,
        fate: Fate,
    ) -> Result<(), Fenced> {
        let Some(mut open) = self.open.remove(&item_id) else {
            return Ok(());
        };
        for (kind, held) in &mut open.texts {
            let text = held.finish();
            if text.is_empty() {
                continue;
            }
            let event = Event::Delta {
                item_id: item_id.clone(),
                kind: *kind,
                text,
            };
            self.sink.emit(event).await?;
        }
        let item = Box::new(ThreadItem {
            completed_at_ms: Some((self.clock)()),
            ..ThreadItem::started(item_id, open.started_at_ms, body)
        });
        let event = match fate {
            Fate::Stored => Event::ItemCompleted(item),
            Fate::Dropped => Event::ItemDropped(item),
        };
        self.sink.emit(event).await
    }

    pub(super) async fn usage(&self, last: TokenUsage) -> Result<(), Fenced> {
        let event = Event::Usage {
            last,
            context_window: Some(self.context_window),
        };
        self.sink.emit(event).await
    }

    pub(super) async fn warning(&self, text: &str) -> Result<(), Fenced> {
        let text = self.redactor.text(text).into_owned();
        self.sink.emit(Event::Warning(text)).await
    }

    pub(super) async fn retry(&self, notice: Box<EngineError>) -> Result<(), Fenced> {
        self.sink.emit(Event::Retry(notice)).await
    }
}
