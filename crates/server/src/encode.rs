//! From a notice of the runtime to bytes, once for everybody who gets them.
//!
//! The invariant here: a notice is encoded once per thread, however many follow it; what the outbox
//! of a slow reader may do to it (keep, join, replace) is decided here, by its kind; and no
//! notification is longer than [`NOTIFICATION_BYTES_MAX`].
//!
//! Who gets it is decided by the subscription and the connection's capabilities.

mod fit;
mod queue;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use turnlane_protocol::envelope::Stamp;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::notification::{
    DeltaKind, ItemPlace, ServerNotification, ServerRequestResolved, ThreadSettingsUpdated,
    encode_delta, method,
};
use turnlane_rpc::{Outgoing, Scope};
use turnlane_runtime::{Notice, NoticeBody};

use crate::broker::{Broker, Question};
use crate::settings::shown;

pub(crate) use queue::{METHOD as QUEUE_CHANGED, queue_changed};

/// How long a notification may be.
pub(crate) const NOTIFICATION_BYTES_MAX: usize = 1024 * 1024;

/// A longer text of a delta goes out in parts. Escaped it may take six times its length, but text
/// that does is not what agents write, and [`fit`] sees to the rest.
const DELTA_BYTES_MAX: usize = 128 * 1024;

/// What clients get for a notice.
pub(crate) enum Told {
    /// A notification, in parts where it is a long delta.
    Said {
        /// Its method.
        method: String,
        /// The parts.
        messages: Vec<Outgoing>,
    },
    /// Something to decide.
    Asked(Arc<Question>),
    /// Nothing: nobody was asked what is decided now.
    Nothing,
}

impl Told {
    fn one(method: &str, message: Outgoing) -> Self {
        Self::Said {
            method: method.to_owned(),
            messages: vec![message],
        }
    }
}

/// The notices of one thread on their way to those who follow it.
pub(crate) struct Feed {
    scope: Scope,
    /// The lane tells one notice to all its followers before the next, so one place is enough.
    last: Mutex<Option<Last>>,
}

/// The notice that was encoded last, while there are followers who have not got it.
struct Last {
    notice: Weak<Notice>,
    told: Arc<Told>,
    left: usize,
}

impl Feed {
    pub(crate) fn new(thread: ThreadId) -> Self {
        Self {
            scope: thread.to_string().into(),
            last: Mutex::new(None),
        }
    }

    /// What clients get for this notice; every follower asks once, and holds the feed.
    pub(crate) fn told(self: &Arc<Self>, notice: &Arc<Notice>, broker: &Broker) -> Arc<Told> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &mut *last
            && std::ptr::eq(known.notice.as_ptr(), Arc::as_ptr(notice))
        {
            let told = Arc::clone(&known.told);
            known.left -= 1;
            if known.left == 0 {
                *last = None;
            }
            return told;
        }
        let told = Arc::new(told(&self.scope, notice, broker));
        let left = Arc::strong_count(self) - 1;
        // Kept longer, a long queue would stay in memory for every thread that is followed.
        *last = (left > 0).then(|| Last {
            notice: Arc::downgrade(notice),
            told: Arc::clone(&told),
            left,
        });
        told
    }

    /// A notification for one follower only, numbered as the cut it belongs to.
    pub(crate) fn said(&self, said: &ServerNotification, stamp: Stamp) -> Option<Outgoing> {
        encoded(&self.scope, said, stamp)
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }
}

fn stamp(notice: &Notice) -> Stamp {
    Stamp {
        emitted_at_ms: notice.at_ms,
        // A thread that is not loaded has no numbers.
        seq: (notice.seq != 0).then_some(notice.seq),
    }
}

fn told(scope: &Scope, notice: &Notice, broker: &Broker) -> Told {
    let stamp = stamp(notice);
    let said = |said: &ServerNotification| match encoded(scope, said, stamp) {
        Some(message) => Told::one(said.method(), message),
        None => Told::Nothing,
    };
    match &notice.body {
        NoticeBody::Said(notification) => said(notification),
        NoticeBody::Delta { kind, place, text } => Told::Said {
            method: kind.method().to_owned(),
            messages: delta(scope, *kind, place, text, stamp),
        },
        NoticeBody::Queue(page) => match queue_changed(notice.thread, page, stamp) {
            Some(frame) => Told::one(
                QUEUE_CHANGED,
                Outgoing::newest(frame, scope.clone(), QUEUE_CHANGED),
            ),
            None => Told::Nothing,
        },
        NoticeBody::Settings(settings) => said(&ServerNotification::ThreadSettingsUpdated(
            ThreadSettingsUpdated {
                thread_id: notice.thread,
                thread_settings: Box::new(shown(settings)),
            },
        )),
        NoticeBody::ApprovalRequested(asking) => match broker.question(asking) {
            Some(question) => Told::Asked(question),
            None => Told::Nothing,
        },
        NoticeBody::ApprovalResolved { approval, .. } => {
            match broker.request_id(approval.approval_id) {
                Some(id) => said(&ServerNotification::ServerRequestResolved(
                    ServerRequestResolved {
                        thread_id: notice.thread,
                        request_id: id.into(),
                    },
                )),
                None => Told::Nothing,
            }
        }
    }
}

/// Any notification but a delta, with what may be done to it while it waits.
pub(crate) fn encoded(scope: &Scope, said: &ServerNotification, stamp: Stamp) -> Option<Outgoing> {
    let frame = match said.encode(Some(stamp)) {
        Ok(frame) => fit::fitted(frame),
        Err(error) => {
            tracing::error!(%error, method = said.method(), "a notification cannot be written");
            return None;
        }
    };
    let scope = scope.clone();
    Some(match said {
        ServerNotification::ItemCompleted(done) => {
            Outgoing::completing(frame, scope, done.item.id.as_str().into())
        }
        ServerNotification::ThreadTokenUsageUpdated(_) => {
            Outgoing::newest(frame, scope, method::THREAD_TOKEN_USAGE_UPDATED)
        }
        ServerNotification::TurnDiffUpdated(_) => {
            Outgoing::newest(frame, scope, method::TURN_DIFF_UPDATED)
        }
        ServerNotification::RateLimitsUpdated(_) => {
            Outgoing::newest(frame, scope, method::RATE_LIMITS_UPDATED)
        }
        _ => Outgoing::kept(frame, Some(scope)),
    })
}

fn delta(
    scope: &Scope,
    kind: DeltaKind,
    place: &ItemPlace,
    text: &str,
    stamp: Stamp,
) -> Vec<Outgoing> {
    let item: Scope = place.item_id.as_str().into();
    let stream = (kind.method(), index(kind));
    let mut messages = Vec::with_capacity(1);
    for part in parts(text) {
        match encode_delta(kind, place, part, stamp) {
            Ok(delta) => {
                messages.push(Outgoing::delta(delta, scope.clone(), item.clone(), stream));
            }
            Err(error) => tracing::error!(%error, "a delta cannot be written"),
        }
    }
    messages
}

fn index(kind: DeltaKind) -> u32 {
    let index = match kind {
        DeltaKind::ReasoningSummary { summary_index } => summary_index,
        DeltaKind::ReasoningText { content_index } => content_index,
        DeltaKind::AgentMessage | DeltaKind::Plan | DeltaKind::CommandOutput => 0,
    };
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The text in parts of at most [`DELTA_BYTES_MAX`]; one part when it is short or empty.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        if text.len() <= DELTA_BYTES_MAX {
            return Some(text);
        }
        let (part, more) = text.split_at(text.floor_char_boundary(DELTA_BYTES_MAX));
        rest = Some(more);
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use turnlane_protocol::notification::ThreadMoved;
    use turnlane_rpc::RequestIds;
    use uuid::Uuid;

    use super::*;

    fn closed(thread: ThreadId) -> Arc<Notice> {
        let thread_id = thread;
        Arc::new(Notice {
            thread,
            seq: 1,
            at_ms: 0,
            body: NoticeBody::Said(Box::new(ServerNotification::ThreadClosed(ThreadMoved {
                thread_id,
            }))),
        })
    }

    #[test]
    fn what_was_encoded_is_shared_by_all_followers_and_kept_for_nobody_else() {
        let broker = Broker::new(RequestIds::default());
        let thread = ThreadId::from_uuid(Uuid::nil());
        let feed = Arc::new(Feed::new(thread));
        let (notice, next) = (closed(thread), closed(thread));
        let told = feed.told(&notice, &broker);
        assert_eq!(Arc::strong_count(&told), 1, "there is one follower");

        let another = Arc::clone(&feed);
        let told = feed.told(&next, &broker);
        assert_eq!(Arc::strong_count(&told), 2, "one has not got it");
        let same = another.told(&next, &broker);
        assert!(Arc::ptr_eq(&told, &same));
        assert_eq!(Arc::strong_count(&told), 2, "both have it");
        assert_eq!(Arc::strong_count(&next), 1);
    }

    #[test]
    fn a_long_text_goes_out_in_parts_that_make_it_up() {
        let text = format!("x{}", "é".repeat(DELTA_BYTES_MAX));
        let all: Vec<&str> = parts(&text).collect();
        assert_eq!(all.len(), 3, "an é at the border goes into the next part");
        assert_eq!(all.concat(), text);
        assert_eq!(parts("").collect::<Vec<_>>(), [""]);
    }
}
