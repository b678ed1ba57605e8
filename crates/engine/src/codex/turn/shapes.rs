//! The notifications and questions of Codex that a turn reads, with the members that it needs.
//!
//! Ids are plain text here, because they are Codex's. A message in another shape is passed over: it is
//! of a later Codex, and nothing in it can end a turn.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use turnlane_protocol::approval::OfferedDecision;
use turnlane_protocol::item::{CommandAction, ThreadItem};
use turnlane_protocol::notification::PlanStep;
use turnlane_protocol::turn_error::TurnError;
use turnlane_rpc::Notification;

use crate::codex::history::RecordedStatus;

/// The params of a notification; none if they have another shape.
pub(super) fn read<T: DeserializeOwned>(notice: &Notification) -> Option<T> {
    let params = serde_json::from_slice(notice.params.raw());
    params
        .inspect_err(|why| {
            tracing::debug!(method = notice.method, error = %why, "a notification is passed over");
        })
        .ok()
}

/// `turn/started`, `turn/completed`.
#[derive(Deserialize)]
pub(super) struct TurnNotice {
    pub(super) turn: NoticedTurn,
}

#[derive(Deserialize)]
pub(super) struct NoticedTurn {
    pub(super) id: String,
    pub(super) status: RecordedStatus,
    pub(super) error: Option<TurnError>,
}

/// The turn that a notification names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TurnName {
    pub(super) turn_id: Option<String>,
}

/// `item/started`, `item/completed`.
#[derive(Deserialize)]
pub(super) struct ItemNotice {
    pub(super) item: ThreadItem,
}

/// The five kinds of pieces of texts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PieceNotice {
    pub(super) item_id: String,
    pub(super) delta: String,
    #[serde(default)]
    pub(super) summary_index: i64,
    #[serde(default)]
    pub(super) content_index: i64,
}

/// `item/reasoning/summaryPartAdded`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SummaryPartNotice {
    pub(super) item_id: String,
    pub(super) summary_index: i64,
}

/// `item/commandExecution/terminalInteraction`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InteractionNotice {
    pub(super) item_id: String,
    pub(super) process_id: String,
    pub(super) stdin: String,
}

/// `turn/plan/updated`.
#[derive(Deserialize)]
pub(super) struct PlanNotice {
    pub(super) explanation: Option<String>,
    pub(super) plan: Vec<PlanStep>,
}

/// `turn/diff/updated`.
#[derive(Deserialize)]
pub(super) struct DiffNotice {
    pub(super) diff: String,
}

/// `warning`.
#[derive(Deserialize)]
pub(super) struct WarningNotice {
    pub(super) message: String,
}

/// `error`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorNotice {
    pub(super) error: TurnError,
    pub(super) will_retry: bool,
}

/// `hook/started`, `hook/completed`.
#[derive(Deserialize)]
pub(super) struct HookNotice {
    pub(super) run: Map<String, Value>,
}

/// `item/commandExecution/requestApproval`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommandQuestion {
    pub(super) item_id: String,
    pub(super) reason: Option<String>,
    pub(super) command: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) command_actions: Option<Vec<CommandAction>>,
    pub(super) proposed_execpolicy_amendment: Option<Vec<String>>,
    pub(super) available_decisions: Option<Vec<OfferedDecision>>,
}

/// `item/fileChange/requestApproval`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PatchQuestion {
    pub(super) item_id: String,
    pub(super) reason: Option<String>,
    pub(super) grant_root: Option<String>,
}

/// `item/permissions/requestApproval`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionsQuestion {
    pub(super) item_id: String,
    pub(super) reason: Option<String>,
    pub(super) cwd: String,
    pub(super) permissions: Map<String, Value>,
}

/// `execCommandApproval` of earlier protocols.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FormerCommandQuestion {
    pub(super) call_id: String,
    pub(super) command: Vec<String>,
    pub(super) cwd: String,
    pub(super) reason: Option<String>,
}

/// `applyPatchApproval` of earlier protocols.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FormerPatchQuestion {
    pub(super) call_id: String,
    pub(super) reason: Option<String>,
    pub(super) grant_root: Option<String>,
}

/// `item/tool/call`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolQuestion {
    pub(super) call_id: String,
    pub(super) tool: String,
    #[serde(default)]
    pub(super) arguments: Value,
}
