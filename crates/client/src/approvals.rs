//! Open approvals of a Turnlane server, for those who decide without being asked.
//!
//! The invariant here: deciding needs no subscription and no reviewer; the first answer wins, and a
//! later one is told so. Ids and words of the server are kept as they came.
//!
//! Requests that this client is asked itself are the business of [`crate::review`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::Deserialize;
use serde_json::{Value, json};
use turnlane_protocol::approval::{LIST_METHOD, RESPOND_METHOD};
use turnlane_protocol::item::FileUpdate;

use crate::call::CallOptions;
use crate::core::Owner;
use crate::error::CallError;
use crate::event::{Event, EventBody};
use crate::feed::{EventStream, Filter};
use crate::ids::{ApprovalId, ThreadId, TurnId};
use crate::link::Repeat;
use crate::review::{Decision, wire_decision};

/// What an approval was asked or decided; sent to everybody who knows Turnlane's words.
const CHANGED_METHOD: &str = "approval/changed";
/// How many approvals one call fetches.
const PAGE: u32 = 100;

/// The open approvals of a server.
#[derive(Clone, Debug)]
pub struct Approvals {
    pub(crate) owner: Arc<Owner>,
}

/// An approval that waits for a decision.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenApproval {
    /// The approval.
    #[serde(rename = "approvalId")]
    pub id: ApprovalId,
    /// The thread.
    #[serde(rename = "threadId")]
    pub thread: ThreadId,
    /// The turn.
    #[serde(rename = "turnId")]
    pub turn: TurnId,
    /// The item.
    #[serde(rename = "itemId")]
    pub item: String,
    /// What it is about: `command`, `fileChange`, `permissions`.
    pub kind: String,
    /// The command line, for commands.
    #[serde(default)]
    pub command: Option<String>,
    /// The directory, for commands.
    #[serde(default)]
    pub cwd: Option<String>,
    /// What the patch does, for patches.
    #[serde(default)]
    pub changes: Option<Vec<FileUpdate>>,
    /// Why the agent asks.
    #[serde(default)]
    pub reason: Option<String>,
    /// What may be answered, as the server writes it.
    #[serde(default)]
    pub available_decisions: Vec<Value>,
    /// When the question arose, in milliseconds since 1970.
    #[serde(default)]
    pub requested_at_ms: Option<i64>,
    /// When it is declined if nobody answers, in milliseconds since 1970.
    #[serde(default)]
    pub expires_at_ms: Option<i64>,
}

/// What became of an approval.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ApprovalChange {
    /// Somebody is asked.
    Requested(Box<OpenApproval>),
    /// It was decided.
    Resolved {
        /// What it was about.
        approval: Box<OpenApproval>,
        /// What was decided, as the server writes it.
        decision: Option<Value>,
        /// Who decided: `client`, `hook`, `policy`, `timeout`, `interrupt`.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    },
    /// Something may have been missed, because the connection was lost or the stream was not read;
    /// [`Approvals::list`] says what is open.
    Missed,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    data: Vec<OpenApproval>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl Approvals {
    /// All that are open, the oldest first.
    pub async fn list(&self) -> Result<Vec<OpenApproval>, CallError> {
        let mut open = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut params = json!({ "limit": PAGE });
            if let Some(cursor) = &cursor {
                params["cursor"] = json!(cursor);
            }
            let options = CallOptions::default();
            let call = self
                .owner
                .call_as(LIST_METHOD, &params, Repeat::Harmless, options);
            let page: Page = call.await?;
            let is_empty = page.data.is_empty();
            open.extend(page.data);
            // A server that repeats itself would be asked for ever.
            if page.next_cursor.is_none() || page.next_cursor == cursor || is_empty {
                return Ok(open);
            }
            cursor = page.next_cursor;
        }
    }

    /// Decides one. When somebody was faster, the error's reason is `approvalResolved`; deciding
    /// twice does nothing else.
    pub async fn respond(
        &self,
        id: impl Into<ApprovalId>,
        decision: Decision,
    ) -> Result<(), CallError> {
        let params = json!({ "approvalId": id.into(), "decision": wire_decision(&decision) });
        let options = CallOptions::default();
        let call = self
            .owner
            .call_as(RESPOND_METHOD, &params, Repeat::Never, options);
        call.await.map(|_: Value| ())
    }

    /// What is asked and decided from now on, in every thread. Ends with the client.
    pub fn changes(&self) -> ApprovalChanges {
        let filter = Filter {
            thread: None,
            method_prefix: Some(CHANGED_METHOD.to_owned()),
        };
        ApprovalChanges {
            events: self.owner.router.events(filter),
        }
    }
}

/// What is asked and decided: a stream that ends with the client.
#[derive(Debug)]
pub struct ApprovalChanges {
    events: EventStream,
}

impl ApprovalChanges {
    /// What comes next; none when the client is closed. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Option<ApprovalChange> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for ApprovalChanges {
    type Item = ApprovalChange;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ApprovalChange>> {
        loop {
            match Pin::new(&mut self.events).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(event)) => {
                    if let Some(change) = change(event) {
                        return Poll::Ready(Some(change));
                    }
                }
            }
        }
    }
}

/// None for what is no change, or one that cannot be read.
fn change(event: Event) -> Option<ApprovalChange> {
    #[derive(Deserialize)]
    struct Changed {
        change: String,
        approval: Box<OpenApproval>,
        #[serde(default)]
        decision: Option<Value>,
        #[serde(default)]
        by: Option<String>,
        #[serde(default)]
        reason: Option<String>,
    }

    let raw = match event.body {
        EventBody::Unknown(raw) if raw.method == CHANGED_METHOD => raw,
        EventBody::Lagged { .. } | EventBody::Reconnected { .. } => {
            return Some(ApprovalChange::Missed);
        }
        _ => return None,
    };
    let changed: Changed = serde_json::from_str(raw.params.get()).ok()?;
    match changed.change.as_str() {
        "requested" => Some(ApprovalChange::Requested(changed.approval)),
        "resolved" => Some(ApprovalChange::Resolved {
            approval: changed.approval,
            decision: changed.decision,
            by: changed.by,
            reason: changed.reason,
        }),
        _ => None,
    }
}
