//! A notification on its way to any number of connections.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use turnlane_protocol::envelope::Delta;

/// What messages are ordered within: in practice the id of a thread.
pub type Scope = Arc<str>;

/// A serialised notification with what the outbox may do to it when a reader is slow.
///
/// It is serialised once; clones share its bytes, whoever they are sent to.
#[derive(Clone)]
pub struct Outgoing {
    pub(super) frame: Bytes,
    pub(super) class: Class,
}

/// How a waiting message may be treated.
#[derive(Clone, Debug)]
pub(super) enum Class {
    /// Never dropped, never reordered.
    Kept {
        scope: Option<Scope>,
        completes: Option<Scope>,
    },
    /// May be joined to the one before it of the same item and stream.
    Delta {
        scope: Scope,
        item: Scope,
        stream: Stream,
        text: Range<usize>,
    },
    /// Replaces a waiting one of the same scope and kind.
    Newest { scope: Scope, kind: &'static str },
}

/// Which text of an item a delta belongs to: its method and its index.
pub type Stream = (&'static str, u32);

impl Outgoing {
    /// A message that is never dropped and never reordered; `scope` if it is about one thread.
    pub fn kept(frame: impl Into<Bytes>, scope: Option<Scope>) -> Self {
        Self {
            frame: frame.into(),
            class: Class::Kept {
                scope,
                completes: None,
            },
        }
    }

    /// A kept message that carries the whole of `item`: deltas of it that were left out for a slow
    /// reader are made good by this.
    pub fn completing(frame: impl Into<Bytes>, scope: Scope, item: Scope) -> Self {
        let class = Class::Kept {
            scope: Some(scope),
            completes: Some(item),
        };
        Self {
            frame: frame.into(),
            class,
        }
    }

    /// A text delta: joined with its neighbours of the same item and stream when a reader is slow.
    pub fn delta(delta: Delta, scope: Scope, item: Scope, stream: Stream) -> Self {
        let class = Class::Delta {
            scope,
            item,
            stream,
            text: delta.text,
        };
        Self {
            frame: delta.frame.into(),
            class,
        }
    }

    /// A state of which only the newest matters.
    pub fn newest(frame: impl Into<Bytes>, scope: Scope, kind: &'static str) -> Self {
        Self {
            frame: frame.into(),
            class: Class::Newest { scope, kind },
        }
    }
}

impl fmt::Debug for Outgoing {
    /// Without the content, which may be a prompt.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("bytes", &self.frame.len())
            .finish_non_exhaustive()
    }
}

/// Makes the frame that tells a slow reader how many deltas of a scope it missed; none for a reader
/// that does not want to know, which may be decided while the connection lives.
pub type LagNotice = Arc<dyn Fn(&str, u64) -> Option<Bytes> + Send + Sync>;
