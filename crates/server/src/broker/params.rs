//! The request by which a client is asked, made of what an engine asks.
//!
//! The invariant here: a client gets exactly the members that Codex's clients know, and ours beside.
//!
//! What may be answered, and what an answer means, is said elsewhere.

use bytes::Bytes;
use serde::Serialize;
use turnlane_protocol::approval::{
    ApprovalKind, COMMAND_METHOD, CommandApprovalKind, CommandApprovalParams, FILE_CHANGE_METHOD,
    FileChangeApprovalParams, PERMISSIONS_METHOD, PermissionsApprovalParams,
};
use turnlane_protocol::envelope::{RequestId, encode_request};
use turnlane_protocol::item::{CommandAction, Extra};
use turnlane_runtime::Asking;

/// Where things are done as long as an engine says nothing else.
const HERE: &str = "local";

/// The method and the whole request.
pub(super) fn request(id: i64, asking: &Asking) -> Option<(&'static str, Bytes)> {
    match asking.approval.kind {
        ApprovalKind::Command => encoded(id, COMMAND_METHOD, &command(asking)),
        ApprovalKind::FileChange => encoded(id, FILE_CHANGE_METHOD, &file_change(asking)),
        ApprovalKind::Permissions => encoded(id, PERMISSIONS_METHOD, &permissions(asking)),
    }
}

fn encoded(
    id: i64,
    method: &'static str,
    params: &impl Serialize,
) -> Option<(&'static str, Bytes)> {
    let frame = encode_request(&RequestId::from(id), method, params);
    let frame = frame.inspect_err(|error| tracing::error!(%error, "a request cannot be written"));
    Some((method, frame.ok()?.into()))
}

fn command(asking: &Asking) -> CommandApprovalParams {
    let approval = &asking.approval;
    let mut actions = asking.command_actions.clone();
    if actions.is_empty() {
        // Clients show actions in place of the command.
        let command = approval.command.as_ref();
        actions.extend(command.map(|command| CommandAction::unknown(command.as_str())));
    }
    CommandApprovalParams {
        kind: CommandApprovalKind::Command,
        thread_id: approval.thread_id,
        turn_id: approval.turn_id,
        item_id: approval.item_id.clone(),
        started_at_ms: approval.requested_at_ms,
        environment_id: Some(HERE.to_owned()),
        reason: approval.reason.clone(),
        command: approval.command.clone(),
        cwd: approval.cwd.clone(),
        command_actions: Some(actions),
        proposed_execpolicy_amendment: asking.proposed_execpolicy_amendment.clone(),
        available_decisions: Some(approval.available_decisions.clone()),
        approval_id: Some(approval.approval_id.to_string()),
        expires_at_ms: approval.expires_at_ms,
        extra: Extra::default(),
    }
}

fn file_change(asking: &Asking) -> FileChangeApprovalParams {
    let approval = &asking.approval;
    FileChangeApprovalParams {
        thread_id: approval.thread_id,
        turn_id: approval.turn_id,
        item_id: approval.item_id.clone(),
        started_at_ms: approval.requested_at_ms,
        reason: approval.reason.clone(),
        grant_root: asking.grant_root.clone(),
        approval_id: Some(approval.approval_id.to_string()),
        expires_at_ms: approval.expires_at_ms,
        extra: Extra::default(),
    }
}

fn permissions(asking: &Asking) -> PermissionsApprovalParams {
    let approval = &asking.approval;
    let wanted = asking.permissions.clone();
    let (cwd, permissions) =
        wanted.map_or_else(Default::default, |wanted| (wanted.cwd, wanted.permissions));
    PermissionsApprovalParams {
        thread_id: approval.thread_id,
        turn_id: approval.turn_id,
        item_id: approval.item_id.clone(),
        started_at_ms: approval.requested_at_ms,
        environment_id: Some(HERE.to_owned()),
        cwd,
        permissions,
        reason: approval.reason.clone(),
        approval_id: Some(approval.approval_id.to_string()),
        expires_at_ms: approval.expires_at_ms,
        extra: Extra::default(),
    }
}
