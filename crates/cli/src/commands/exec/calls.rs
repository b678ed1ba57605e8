//! The calls of a run, with refusals in the words of Codex.
//!
//! The invariant here: what a server refuses is told as `METHOD: METHOD failed: REASON (code N)`,
//! which scripts of Codex know. Which calls are made, and when, is the drive's business.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use turnlane::{CallError, CallOptions, Client, Validation};
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::method::thread_pages::{
    ITEMS_LIST, ItemsCursor, TURNS_LIST, ThreadItemsListAnswer, ThreadItemsListParams,
    ThreadTurnsListParams,
};
use turnlane_protocol::method::{SortDirection, TurnsPage};
use turnlane_protocol::turn::{ItemsView, Turn};

use super::refusal::Refused;

/// How many turns are looked through for ours, newest first.
const TURNS_LOOKED_AT: u32 = 100;
/// How many items a page has.
const PAGE: u32 = 100;

/// Why a call gave no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// The server said no.
    Refused {
        code: i64,
        message: String,
        /// The stable word, where there is one.
        reason: Option<String>,
    },
    /// What was asked about had been withdrawn by us just before.
    Withdrawn,
    /// Anything else.
    Call(Box<CallError>),
}

impl Failed {
    /// Whether the refusal has this word.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Self::Refused { reason: Some(reason), .. } if reason == word)
    }

    /// As a refusal of the whole run.
    pub(super) fn refused(self, method: &str) -> Refused {
        match self {
            Self::Refused {
                code,
                message,
                reason,
            } => {
                let next = match reason.as_deref() {
                    Some("diskFull") => {
                        "; nothing was stored: free some space and repeat the command"
                    }
                    _ => "",
                };
                Refused::new(format!(
                    "Error: {method}: {method} failed: {message} (code {code}){next}"
                ))
            }
            Self::Withdrawn => Refused::new(format!("Error: {method}: withdrawn")),
            Self::Call(error) => {
                let error = anyhow::Error::new(*error);
                Refused::new(format!("Error: {method}: {error:#}"))
            }
        }
    }
}

/// The calls of a run.
#[derive(Clone, Debug)]
pub(super) struct Calls(pub(super) Client);

impl Calls {
    /// One call, with its refusal as it came.
    pub(super) async fn ask<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, Failed> {
        let broken = |reason: serde_json::Error| {
            Failed::Call(Box::new(CallError::InvalidArgument {
                what: "params",
                reason: reason.to_string(),
            }))
        };
        let params = serde_json::to_value(params).map_err(broken)?;
        // Privileges are the command line's to give; nothing is taken away here.
        let options = CallOptions {
            validation: Some(Validation::Off),
            ..CallOptions::default()
        };
        let answer = self.0.call_raw(method, params, options).await;
        let answer = answer.map_err(|error| match error {
            CallError::Rpc(error) => Failed::Refused {
                code: error.code,
                reason: error
                    .data
                    .as_ref()
                    .and_then(|data| data.get("reason")?.as_str().map(str::to_owned)),
                message: error.message,
            },
            other => Failed::Call(Box::new(other)),
        })?;
        serde_json::from_value(answer).map_err(broken)
    }

    /// One call whose refusal refuses the run.
    pub(super) async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R, Refused> {
        let answer = self.ask(method, params).await;
        answer.map_err(|failed| failed.refused(method))
    }

    /// A turn as it is stored; none when it is not among the newest.
    pub(super) async fn turn(&self, thread: &str, turn: &str) -> Result<Option<Turn>, Failed> {
        let params = ThreadTurnsListParams {
            thread_id: thread.to_owned(),
            limit: Some(TURNS_LOOKED_AT),
            sort_direction: Some(SortDirection::Desc),
            items_view: Some(ItemsView::NotLoaded),
            ..ThreadTurnsListParams::default()
        };
        let page: TurnsPage = self.ask(TURNS_LIST, &params).await?;
        let mut turns = page.data.into_iter();
        Ok(turns.find(|found| found.id.to_string() == turn))
    }

    /// All items of a turn as they are stored, oldest first.
    pub(super) async fn items(&self, thread: &str, turn: &str) -> Result<Vec<ThreadItem>, Failed> {
        let mut params = ThreadItemsListParams {
            thread_id: thread.to_owned(),
            turn_id: Some(turn.to_owned()),
            limit: Some(PAGE),
            ..ThreadItemsListParams::default()
        };
        let mut items = Vec::new();
        loop {
            let page: ThreadItemsListAnswer = self.ask(ITEMS_LIST, &params).await?;
            items.extend(page.data.into_iter().map(|entry| entry.item));
            match page.next_cursor {
                Some(cursor) => params.cursor = Some(ItemsCursor::Page(cursor)),
                None => return Ok(items),
            }
        }
    }

    /// What waits in a lane, as far as the server tells.
    pub(super) async fn queue(&self, thread: &str) -> Result<Value, Failed> {
        let params = serde_json::json!({"threadId": thread, "limit": 100});
        self.ask("thread/queue/list", &params).await
    }
}
