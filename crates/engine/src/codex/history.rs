//! Reading the turns of a thread back from Codex.
//!
//! The invariant here: reading changes nothing and needs no resumed thread, so it may be done while
//! another process writes. Both Codex engines learn by it what became of a turn.
//!
//! What follows from a turn that was found is decided in `reconcile`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::turn_error::TurnError;

use super::AppServers;
use super::connection::{CallFailure, Connection};
use super::launch::LaunchError;

/// Turns of one page.
const PAGE: u32 = 20;
/// Pages that are read at most: a turn is looked for among the latest ones.
const PAGES_MAX: usize = 5;
/// How often a history that cannot be read is tried again.
const TRIES_MAX: u32 = 3;
/// Time between two tries.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// Seconds by which the clocks of a turn's start may differ: Codex counts whole seconds.
const CLOCK_SLACK_S: i64 = 2;

/// A turn as Codex remembers it.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnRecord {
    /// Codex's id of the turn.
    pub id: String,
    /// When it began, in seconds since 1970.
    pub started_at: Option<i64>,
    /// How it ended.
    pub status: RecordedStatus,
    /// The texts of its user messages, in order.
    pub user_texts: Vec<String>,
    /// The clients' own ids of its user messages, in order.
    pub client_ids: Vec<String>,
    /// Everything it produced, without user messages.
    pub items: Vec<ThreadItem>,
    /// Why it failed.
    pub error: Option<TurnError>,
}

/// How a recorded turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecordedStatus {
    /// By itself.
    Completed,
    /// By an error.
    Failed,
    /// Before its end.
    Interrupted,
    /// Not at all.
    InProgress,
    /// A word we do not know.
    #[serde(untagged)]
    Unlisted(String),
}

/// Why the turns of a thread cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// Codex has nothing on disk: no turn of the thread ever began.
    #[error("Codex has no history of the thread")]
    Absent,
    /// No app-server could be asked.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The child ended before it answered.
    #[error("the app-server of Codex ended")]
    Died,
    /// Codex did not give it.
    #[error("the history cannot be read: {0}")]
    Unreadable(String),
}

/// The turns of a thread that began at `since_s` or later, the newest first, and those whose begin is
/// not known. Asks a shared child, which is started if there is none; tries three times.
pub(super) async fn read_turns(
    servers: &AppServers,
    thread: &str,
    since_s: i64,
) -> Result<Vec<TurnRecord>, HistoryError> {
    let handle = servers.handle_of(thread);
    let _lease = handle.lease();
    let mut tries = 0;
    loop {
        tries += 1;
        let read = match handle.connection().await {
            Ok(connection) => read_from(&connection, thread, since_s).await,
            Err(error) => Err(error.into()),
        };
        match read {
            Err(HistoryError::Absent) => return Err(HistoryError::Absent),
            Err(_) if tries < TRIES_MAX => sleep(TRY_AGAIN).await,
            read => return read,
        }
    }
}

/// One try of [`read_turns`] on a child that runs.
pub(super) async fn read_from(
    connection: &Connection,
    thread: &str,
    since_s: i64,
) -> Result<Vec<TurnRecord>, HistoryError> {
    let mut turns = Vec::new();
    let mut cursor = Value::Null;
    for _page in 0..PAGES_MAX {
        let params = json!({
            "threadId": thread, "itemsView": "full", "limit": PAGE, "sortDirection": "desc",
            "cursor": cursor,
        });
        let page = connection.call::<Page>("thread/turns/list", &params).await;
        let page = match page {
            Ok(page) => page,
            Err(failure) if is_unsupported(&failure) => {
                return read_whole(connection, thread).await;
            }
            Err(failure) => return Err(unread(failure)),
        };
        let is_older = |turn: &WireTurn| {
            turn.started_at
                .is_some_and(|at| at < since_s.saturating_sub(CLOCK_SLACK_S))
        };
        let reached_the_end = page.data.iter().any(is_older);
        turns.extend(page.data.into_iter().filter(|turn| !is_older(turn)));
        match page.next_cursor {
            Some(next) if !reached_the_end => cursor = Value::String(next),
            _ => break,
        }
    }
    Ok(turns.into_iter().map(TurnRecord::from).collect())
}

/// The way of servers that have no list of turns.
async fn read_whole(
    connection: &Connection,
    thread: &str,
) -> Result<Vec<TurnRecord>, HistoryError> {
    #[derive(Deserialize)]
    struct Whole {
        thread: WireThread,
    }
    #[derive(Deserialize)]
    struct WireThread {
        turns: Vec<WireTurn>,
    }
    let params = json!({"threadId": thread, "includeTurns": true});
    let whole = connection.call::<Whole>("thread/read", &params).await;
    let turns = whole.map_err(unread)?.thread.turns;
    Ok(turns.into_iter().rev().map(TurnRecord::from).collect())
}

/// Codex says this of threads whose history is of an earlier form.
fn is_unsupported(failure: &CallFailure) -> bool {
    matches!(failure, CallFailure::Refused(error) if error.code == -32601)
        || failure.says("not supported")
        || failure.says("unknown variant")
}

fn unread(failure: CallFailure) -> HistoryError {
    // Codex writes a thread with its first user message; before, it has one of these texts for it.
    let absent = ["not materialized", "thread not loaded"];
    let is_absent = failure.says_unwritten() || absent.iter().any(|text| failure.says(text));
    match failure {
        _ if is_absent => HistoryError::Absent,
        CallFailure::Died => HistoryError::Died,
        failure => HistoryError::Unreadable(failure.to_string()),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    data: Vec<WireTurn>,
    next_cursor: Option<String>,
}

/// A turn as the child writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireTurn {
    id: String,
    status: RecordedStatus,
    started_at: Option<i64>,
    #[serde(default)]
    items: Vec<Value>,
    error: Option<TurnError>,
}

impl From<WireTurn> for TurnRecord {
    fn from(turn: WireTurn) -> Self {
        let mut record = Self {
            id: turn.id,
            started_at: turn.started_at,
            status: turn.status,
            user_texts: Vec::new(),
            client_ids: Vec::new(),
            items: Vec::new(),
            error: turn.error,
        };
        for item in turn.items {
            // An item without id or type is none.
            let Ok(item) = serde_json::from_value::<ThreadItem>(item) else {
                continue;
            };
            match item.body {
                ItemBody::UserMessage(message) => {
                    record.client_ids.extend(message.client_id);
                    record.user_texts.push(text_of(&message.content));
                }
                _ => record.items.push(item),
            }
        }
        record
    }
}

fn text_of(content: &[UserInput]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        UserInput::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
