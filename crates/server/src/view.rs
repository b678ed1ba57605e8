//! What is stored, as clients see it.
//!
//! The invariant here: every member of a thread or turn is filled from what is stored and what is
//! loaded now, never from a request. A payload that cannot be read is an internal error for a
//! thread, and is left out for an item, so that one bad item hides no history.

mod queue;
mod short;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::handshake::COMPAT_VERSION;
use turnlane_protocol::ids::{QueuedTurnId, ThreadId, TurnId};
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::thread::{
    GitInfo, LastTurn, SessionSource, SubAgentSource, Thread, ThreadEnvironment, ThreadStatus,
};
use turnlane_protocol::turn::{ItemsView, Turn, TurnStatus};
use turnlane_protocol::turn_error::TurnError;
use turnlane_runtime::Settings;
use turnlane_runtime::store::lane::LaneView;
use turnlane_runtime::store::thread::ThreadRow;
use turnlane_runtime::store::turn::{ItemRow, TurnRow, TurnStatus as StoredStatus};
use turnlane_runtime::store::{Json, ThreadId as StoredThread, TurnId as StoredTurn};

pub(crate) use queue::{
    ShownRow, failure_message, queue, queue_state, queued_turn, row_id, shown_row,
};
pub(crate) use short::shorten;

/// What is shown of a thread and is in no column of the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ThreadFacts {
    /// The root of the tree of forks; its own id when none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_id: Option<ThreadId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forked_from_id: Option<ThreadId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) originator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread_source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) environments: Option<Vec<ThreadEnvironment>>,
    /// The repository it was started in, as it was then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) git_info: Option<GitInfo>,
    /// What a source that is more than a word says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_detail: Option<String>,
    /// Tells the params of `thread/start` from others with the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_digest: Option<String>,
}

impl ThreadFacts {
    /// As the runtime keeps them.
    pub(crate) fn into_map(self) -> std::collections::HashMap<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(members)) => members.into_iter().collect(),
            _ => std::collections::HashMap::new(),
        }
    }
}

/// Reads a payload of the store; what it was is named, never what it held.
pub(crate) fn read<T: DeserializeOwned>(json: &Json, what: &str) -> Result<T, ErrorObject> {
    serde_json::from_str(json.as_str())
        .map_err(|_| ErrorObject::internal(format!("the stored {what} could not be read")))
}

/// What a thread's turns are run with.
pub(crate) fn settings(row: &ThreadRow) -> Result<Settings, ErrorObject> {
    read(&row.settings, "settings")
}

/// The wire's name of a thread.
pub(crate) fn thread_id(id: StoredThread) -> ThreadId {
    ThreadId::from_uuid(id.as_uuid())
}

/// The wire's name of a turn.
pub(crate) fn turn_id(id: StoredTurn) -> TurnId {
    TurnId::from_uuid(id.as_uuid())
}

/// What a thread looks like besides its row.
pub(crate) struct Seen<'a> {
    pub(crate) status: ThreadStatus,
    pub(crate) lane: Option<&'a LaneView>,
    pub(crate) ephemeral: bool,
}

/// A thread without turns.
pub(crate) fn thread(row: &ThreadRow, seen: Seen<'_>) -> Result<Thread, ErrorObject> {
    let settings = settings(row)?;
    let facts: ThreadFacts = read(&row.facts, "facts")?;
    let id = thread_id(row.id);
    let parent = row.parent.map(thread_id);
    let source = source(&row.source, facts.source_detail.as_deref());
    Ok(Thread {
        id,
        session_id: facts.session_id.unwrap_or(id),
        preview: row.preview.clone(),
        ephemeral: seen.ephemeral,
        model_provider: settings.provider.clone(),
        created_at: row.created_ms.div_euclid(1_000),
        updated_at: row.updated_ms.div_euclid(1_000),
        status: seen.status,
        cwd: row.cwd.clone(),
        cli_version: COMPAT_VERSION.to_owned(),
        source,
        turns: Vec::new(),
        project_id: None,
        name: row.name.clone(),
        path: None,
        forked_from_id: facts.forked_from_id,
        // A fork is nobody's work for another thread.
        parent_thread_id: parent.filter(|_| facts.forked_from_id.is_none()),
        model: Some(settings.model),
        reasoning_effort: settings.effort,
        git_info: facts.git_info,
        history_mode: Some("paginated".to_owned()),
        environments: facts.environments,
        recency_at: Some(row.recency_ms.div_euclid(1_000)),
        originator: facts.originator,
        can_accept_direct_input: Some(true),
        thread_source: facts.thread_source,
        agent_nickname: None,
        agent_role: None,
        section: None,
        section_entered_at: None,
        extra: None,
        daybreak_enabled: None,
        engine: Some(row.engine.clone()),
        binding: row.binding.clone(),
        queue: Some(seen.lane.map(queue).unwrap_or_default()),
        last_turn: None,
    })
}

/// How a thread's last turn stands, in short.
pub(crate) fn last_turn(row: &TurnRow) -> LastTurn {
    let error: Option<TurnError> = row.error.as_ref().and_then(payload);
    LastTurn {
        id: turn_id(row.id),
        status: turn_status(row.status),
        started_at_ms: row.started_ms,
        completed_at_ms: row.completed_ms,
        error_kind: error.and_then(|error| error.kind),
    }
}

fn turn_status(stored: StoredStatus) -> TurnStatus {
    match stored {
        StoredStatus::InProgress => TurnStatus::InProgress,
        StoredStatus::Completed => TurnStatus::Completed,
        StoredStatus::Failed => TurnStatus::Failed,
        StoredStatus::Interrupted => TurnStatus::Interrupted,
    }
}

fn source(word: &str, detail: Option<&str>) -> SessionSource {
    let detail = detail.unwrap_or_default().to_owned();
    match word {
        "custom" => SessionSource::Custom(detail),
        "subAgentOther" => SessionSource::SubAgent(SubAgentSource::Other(detail)),
        word => serde_json::from_value(Value::from(word)).unwrap_or(SessionSource::Unknown),
    }
}

/// An item, unless it cannot be read any more.
pub(crate) fn item(row: &ItemRow) -> Option<ThreadItem> {
    let item = serde_json::from_str(row.body.as_str());
    item.inspect_err(|_| tracing::warn!(item = row.id, "a stored item cannot be read"))
        .ok()
}

/// A turn with these items.
pub(crate) fn turn(row: &TurnRow, items: Vec<ThreadItem>, view: ItemsView) -> Turn {
    let ended_ms = row.completed_ms;
    Turn {
        items,
        items_view: view,
        status: turn_status(row.status),
        error: row.error.as_ref().and_then(payload),
        started_at: Some(row.started_ms.div_euclid(1_000)),
        completed_at: ended_ms.map(|at| at.div_euclid(1_000)),
        duration_ms: ended_ms.map(|at| at - row.started_ms),
        queued_turn_id: row.row.map(|id| QueuedTurnId::from_uuid(id.as_uuid())),
        attempt: Some(row.attempt),
        source: serde_json::from_value(Value::from(row.source.as_str())).ok(),
        usage: row.usage.as_ref().and_then(payload),
        ..Turn::accepted(turn_id(row.id))
    }
}

fn payload<T: DeserializeOwned>(json: &Json) -> Option<T> {
    serde_json::from_str(json.as_str()).ok()
}
