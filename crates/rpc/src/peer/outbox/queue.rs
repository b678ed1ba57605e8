//! The waiting messages of one connection: order, joining, replacing, leaving out. No I/O.
//!
//! Messages have a number as long as they wait. The maps point from a scope to the number of the
//! message that may still change; whoever takes a message out takes its entries out too.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::{Bytes, BytesMut};

use super::super::outgoing::{Class, LagNotice, Outgoing, Scope, Stream};
use super::Limits;

/// Amounts, of what waits or of what was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) messages: usize,
    pub(super) bytes: usize,
    pub(super) answer_bytes: usize,
    pub(super) delta_bytes: usize,
}

/// Whether messages may be joined and replaced: a reader that keeps up sees every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    KeepsUp,
    IsBehind,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    slots: VecDeque<Slot>,
    /// The number of the first slot.
    first: u64,
    totals: Totals,
    /// The last waiting notification of each scope: what a delta may be joined to.
    last: HashMap<Scope, u64>,
    /// The waiting state of each scope and kind: what a newer one replaces.
    newest: HashMap<(Scope, &'static str), u64>,
    /// The waiting lag notice of each scope.
    lagged: HashMap<Scope, u64>,
    /// Items of which a delta was left out. Their later deltas are left out too, since a text with
    /// a hole is worse than one that comes late; the completed item makes it good.
    left_out: HashSet<(Scope, Scope)>,
}

#[derive(Debug)]
struct Slot {
    content: Content,
    kind: Kind,
}

#[derive(Debug)]
enum Content {
    Shared(Bytes),
    /// Joined deltas: our own copy, and where its text ends.
    Joined {
        frame: BytesMut,
        text_end: usize,
    },
    /// A lag notice, written when it leaves, with the count it has then.
    Lagged(u64),
    /// Replaced by a newer state further back.
    Gone,
}

#[derive(Debug)]
enum Kind {
    Answer,
    Kept(Option<Scope>),
    Delta {
        scope: Scope,
        item: Scope,
        stream: Stream,
        text_end: usize,
    },
    Newest {
        scope: Scope,
        kind: &'static str,
    },
    Lagged(Scope),
}

impl Queue {
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// An answer or a request: kept, and of no scope.
    pub(super) fn push_answer(&mut self, frame: Bytes) {
        self.totals.answer_bytes += frame.len();
        self.append(Slot {
            content: Content::Shared(frame),
            kind: Kind::Answer,
        });
    }

    /// A notification.
    pub(super) fn push(&mut self, message: &Outgoing, limits: &Limits, reader: Reader) {
        let is_behind = reader == Reader::IsBehind;
        let frame = message.frame.clone();
        match &message.class {
            Class::Kept { scope, completes } => {
                if let (Some(scope), Some(item)) = (scope, completes)
                    && !self.left_out.is_empty()
                {
                    self.left_out.remove(&(scope.clone(), item.clone()));
                }
                let kind = Kind::Kept(scope.clone());
                self.append(Slot {
                    content: Content::Shared(frame),
                    kind,
                });
            }
            Class::Newest { scope, kind } => {
                if is_behind && let Some(&number) = self.newest.get(&(scope.clone(), *kind)) {
                    self.remove(number);
                }
                let kind = Kind::Newest {
                    scope: scope.clone(),
                    kind,
                };
                self.append(Slot {
                    content: Content::Shared(frame),
                    kind,
                });
            }
            Class::Delta {
                scope,
                item,
                stream,
                text,
            } => {
                if self.leaves_out(scope, item, frame.len(), limits) {
                    self.note_lag(scope, limits.lag_notice.as_ref());
                    return;
                }
                if is_behind && self.join(&frame, text.clone(), (scope, item, *stream), limits) {
                    return;
                }
                self.totals.delta_bytes += frame.len();
                let (scope, item) = (scope.clone(), item.clone());
                let kind = Kind::Delta {
                    scope,
                    item,
                    stream: *stream,
                    text_end: text.end,
                };
                self.append(Slot {
                    content: Content::Shared(frame),
                    kind,
                });
            }
        }
    }

    /// Takes messages off the front: at least one if any waits, then up to `bytes_max`.
    pub(super) fn take(&mut self, bytes_max: usize, limits: &Limits) -> (Vec<Bytes>, Totals) {
        let mut frames = Vec::new();
        let mut taken = Totals::default();
        while let Some(slot) = self.slots.front() {
            let frame_bytes = slot.content.bytes();
            if taken.messages > 0 && taken.bytes + frame_bytes > bytes_max {
                break;
            }
            let Some(slot) = self.slots.pop_front() else {
                break;
            };
            self.forget(&slot.kind, self.first);
            self.first += 1;
            let frame = slot.frame(limits.lag_notice.as_ref());
            let weight = slot.kind.weight(frame_bytes);
            match frame {
                Some(frame) => {
                    self.totals.subtract(&weight);
                    taken.add(&weight);
                    frames.push(frame);
                }
                // Its reader does not want to know; a place that is gone was subtracted before.
                None if matches!(slot.content, Content::Lagged(_)) => self.totals.subtract(&weight),
                None => {}
            }
        }
        (frames, taken)
    }

    /// Forgets everything: the connection is given up.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn append(&mut self, slot: Slot) {
        let number = self.first + self.slots.len() as u64;
        match &slot.kind {
            Kind::Answer | Kind::Kept(None) => {}
            Kind::Kept(Some(scope)) | Kind::Delta { scope, .. } => {
                self.last.insert(scope.clone(), number);
            }
            Kind::Newest { scope, kind } => {
                self.last.insert(scope.clone(), number);
                self.newest.insert((scope.clone(), *kind), number);
            }
            Kind::Lagged(scope) => {
                self.lagged.insert(scope.clone(), number);
            }
        }
        self.totals.messages += 1;
        self.totals.bytes += slot.content.bytes();
        self.slots.push_back(slot);
    }

    /// Empties a slot in the middle; the slots behind it keep their numbers.
    fn remove(&mut self, number: u64) {
        let Some(slot) = self.slot(number) else {
            return;
        };
        let bytes = slot.content.bytes();
        slot.content = Content::Gone;
        self.totals.messages -= 1;
        self.totals.bytes -= bytes;
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots
            .get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn forget(&mut self, kind: &Kind, number: u64) {
        fn forget_at<K: std::hash::Hash + Eq>(map: &mut HashMap<K, u64>, key: &K, number: u64) {
            if map.get(key) == Some(&number) {
                map.remove(key);
            }
        }
        match kind {
            Kind::Answer | Kind::Kept(None) => {}
            Kind::Kept(Some(scope)) | Kind::Delta { scope, .. } => {
                forget_at(&mut self.last, scope, number);
            }
            Kind::Newest { scope, kind } => {
                forget_at(&mut self.last, scope, number);
                forget_at(&mut self.newest, &(scope.clone(), *kind), number);
            }
            Kind::Lagged(scope) => forget_at(&mut self.lagged, scope, number),
        }
    }

    /// Joins a delta to the last waiting notification of its scope, if that is of the same text.
    fn join(
        &mut self,
        new: &Bytes,
        new_text: std::ops::Range<usize>,
        (scope, item, stream): (&Scope, &Scope, Stream),
        limits: &Limits,
    ) -> bool {
        let Some(slot) = self
            .last
            .get(scope)
            .copied()
            .and_then(|number| self.slot(number))
        else {
            return false;
        };
        let Slot {
            content,
            kind:
                Kind::Delta {
                    item: last_item,
                    stream: last_stream,
                    text_end,
                    ..
                },
        } = slot
        else {
            return false;
        };
        let before = content.bytes();
        if *last_item != *item
            || *last_stream != stream
            || before + new_text.len() > limits.joined_bytes_max
        {
            return false;
        }
        if let Content::Shared(frame) = content {
            *content = Content::Joined {
                frame: BytesMut::from(&frame[..]),
                text_end: *text_end,
            };
        }
        let Content::Joined { frame, text_end } = content else {
            return false;
        };
        frame.truncate(*text_end);
        frame.extend_from_slice(&new[new_text.start..]);
        *text_end += new_text.len();
        let grown = frame.len();
        self.totals.bytes = self.totals.bytes - before + grown;
        self.totals.delta_bytes = self.totals.delta_bytes - before + grown;
        true
    }

    fn leaves_out(&mut self, scope: &Scope, item: &Scope, bytes: usize, limits: &Limits) -> bool {
        let key = || (scope.clone(), item.clone());
        if !self.left_out.is_empty() && self.left_out.contains(&key()) {
            return true;
        }
        let full = self.totals.delta_bytes + bytes > limits.delta_bytes_max;
        if full {
            self.left_out.insert(key());
        }
        full
    }

    fn note_lag(&mut self, scope: &Scope, lag_notice: Option<&LagNotice>) {
        if lag_notice.is_none() {
            return;
        }
        let waiting = self
            .lagged
            .get(scope)
            .copied()
            .and_then(|number| self.slot(number));
        if let Some(Slot {
            content: Content::Lagged(missed),
            ..
        }) = waiting
        {
            *missed += 1;
            return;
        }
        self.append(Slot {
            content: Content::Lagged(1),
            kind: Kind::Lagged(scope.clone()),
        });
    }
}

impl Slot {
    fn frame(&self, lag_notice: Option<&LagNotice>) -> Option<Bytes> {
        match (&self.content, &self.kind) {
            (Content::Shared(frame), _) => Some(frame.clone()),
            (Content::Joined { frame, .. }, _) => Some(Bytes::copy_from_slice(frame)),
            (Content::Lagged(missed), Kind::Lagged(scope)) => {
                lag_notice.and_then(|notice| notice(scope, *missed))
            }
            (Content::Lagged(_) | Content::Gone, _) => None,
        }
    }
}

impl Content {
    /// What counts as waiting; a lag notice is a few bytes and counts as none.
    fn bytes(&self) -> usize {
        match self {
            Self::Shared(frame) => frame.len(),
            Self::Joined { frame, .. } => frame.len(),
            Self::Lagged(_) | Self::Gone => 0,
        }
    }
}

impl Kind {
    fn weight(&self, bytes: usize) -> Totals {
        let mut weight = Totals {
            messages: 1,
            bytes,
            ..Totals::default()
        };
        match self {
            Self::Answer => weight.answer_bytes = bytes,
            Self::Delta { .. } => weight.delta_bytes = bytes,
            Self::Kept(_) | Self::Newest { .. } | Self::Lagged(_) => {}
        }
        weight
    }
}

impl Totals {
    pub(super) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.answer_bytes += other.answer_bytes;
        self.delta_bytes += other.delta_bytes;
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        self.messages -= other.messages;
        self.bytes -= other.bytes;
        self.answer_bytes -= other.answer_bytes;
        self.delta_bytes -= other.delta_bytes;
    }
}
