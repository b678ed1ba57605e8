//! What every connection is told, whatever it follows.
//!
//! The invariant here: a connection gets a notice about all threads once: those who follow the thread
//! get it among its other notices, everybody else from here. Nothing here waits, since the runtime
//! calls it from a lane's task.

use std::sync::{Arc, Weak};

use turnlane_protocol::approval::OfferedDecision;
use turnlane_protocol::envelope::Stamp;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::notification::{
    ApprovalChange, ApprovalChanged, ServerNotification, method,
};
use turnlane_rpc::Scope;
use turnlane_runtime::{Answers, Notice, NoticeBody, Subscriber};

use crate::encode::encoded;
use crate::handlers::thread_queue;
use crate::journal;
use crate::server::Shared;

/// Tells all connections what the runtime tells about all threads.
pub(crate) struct Watcher(Weak<Shared>);

impl Watcher {
    pub(crate) fn new(shared: Weak<Shared>) -> Self {
        Self(shared)
    }
}

impl Subscriber for Watcher {
    fn tell(&self, notice: &Arc<Notice>) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        match &notice.body {
            NoticeBody::Said(said) => {
                if let ServerNotification::ThreadDeleted(_) = &**said {
                    remove_attachments(&shared, notice.thread);
                }
                everybody(&shared, notice, said);
            }
            NoticeBody::ApprovalRequested(asking) => {
                shared.metrics.approval_asked();
                journal::asked(&asking.approval);
                let change = ApprovalChanged {
                    change: ApprovalChange::Requested,
                    approval: Box::new(asking.approval.clone()),
                    decision: None,
                    by: None,
                    reason: None,
                };
                changed(&shared, notice, change);
            }
            NoticeBody::ApprovalResolved {
                approval,
                decision,
                by,
                reason,
            } => {
                shared.metrics.approval_decided();
                journal::decided(approval, decision, *by);
                let change = ApprovalChanged {
                    change: ApprovalChange::Resolved,
                    approval: approval.clone(),
                    decision: Some(OfferedDecision::Known(decision.clone())),
                    by: Some(*by),
                    reason: reason.clone(),
                };
                changed(&shared, notice, change);
                // Those who follow were told before.
                shared.broker.forget(approval.approval_id);
            }
            NoticeBody::Delta { .. } | NoticeBody::Queue(_) | NoticeBody::Settings(_) => {}
        }
    }

    fn answers(&self) -> Answers {
        Answers::No
    }
}

/// Removes the copies of a deleted thread's files in a task of its own. A request that deleted it has
/// removed them before; `store.retention` has not.
fn remove_attachments(shared: &Arc<Shared>, thread: ThreadId) {
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let home = shared.options.home.clone();
        let copies = tokio::task::spawn_blocking(move || thread_queue::of_thread(&home, thread));
        let copies = copies.await.unwrap_or_default();
        let store = Arc::clone(shared.options.runtime.store());
        let copies = thread_queue::still_of_thread(store.as_ref(), thread, copies).await;
        let removing = tokio::task::spawn_blocking(move || thread_queue::remove_of_thread(&copies));
        let _ = removing.await;
    });
}

fn everybody(shared: &Shared, notice: &Notice, said: &ServerNotification) {
    if let ServerNotification::ThreadStatusChanged(changed) = said {
        let at_ms = notice.at_ms;
        shared.metrics.status(notice.thread, &changed.status, at_ms);
    }
    let stamp = Stamp {
        emitted_at_ms: notice.at_ms,
        seq: (notice.seq != 0).then_some(notice.seq),
    };
    let scope: Scope = notice.thread.to_string().into();
    if let Some(message) = encoded(&scope, said, stamp) {
        shared.hub.tell_all(said.method(), &message, |connection| {
            !connection.follows(notice.thread)
        });
    }
}

/// `approval/changed` has no number: followers get the request or its end with it already.
fn changed(shared: &Shared, notice: &Notice, change: ApprovalChanged) {
    let stamp = Stamp {
        emitted_at_ms: notice.at_ms,
        seq: None,
    };
    let scope: Scope = notice.thread.to_string().into();
    let said = ServerNotification::ApprovalChanged(change);
    if let Some(message) = encoded(&scope, &said, stamp) {
        let everybody = |_: &_| true;
        shared
            .hub
            .tell_all(method::APPROVAL_CHANGED, &message, everybody);
    }
}
