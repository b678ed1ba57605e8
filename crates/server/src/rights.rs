//! The one gate in front of everything that runs without a sandbox.
//!
//! The invariant here: every method that can have something run asks [`may_run`], and it alone knows
//! which connection may have it run unconfined. [`DOORS`] lists those methods; a test fails when a
//! method is neither in the list nor known to run nothing.
//!
//! A turn is run later than it is asked for, on settings that others may change meanwhile. The
//! rights of its caller therefore go with it (`requireSandbox`), and the runtime looks at them again
//! when the turn is accepted, steered and asks to leave its sandbox.

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::policy::SandboxPolicy;
use turnlane_runtime::CallerRights;

use crate::connection::Connection;
use crate::errors::About;
use crate::handlers;
use crate::options::{PeerKind, ProcessSpawn};
use crate::view;

/// The methods that can have something run: each of them asks the gate.
#[doc(hidden)]
pub const DOORS: &[&str] = &[
    "command/exec",
    "process/spawn",
    "thread/start",
    "thread/resume",
    "thread/fork",
    "thread/settings/update",
    "turn/start",
    "turn/steer",
    "thread/queue/add",
    "thread/queue/update",
    "approval/respond",
    "fanout/create",
    "fanout/start",
    "fanout/resume",
    "fanout/retry",
];

/// Something would run without a sandbox, and the connection may not have it run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    what: &'static str,
}

impl From<Refusal> for ErrorObject {
    fn from(refusal: Refusal) -> Self {
        Self::unconfined_denied(refusal.what)
    }
}

/// The rights of a peer of this kind.
pub(crate) fn rights_of(peer: PeerKind, spawn: ProcessSpawn) -> CallerRights {
    match (spawn, peer) {
        // A client of such a listener has shown nothing: any program of any local user may be one.
        (ProcessSpawn::Deny, _) | (_, PeerKind::OpenWebSocket) => CallerRights::Confined,
        (ProcessSpawn::Allow, PeerKind::Stdio | PeerKind::Unix | PeerKind::WebSocket) => {
            CallerRights::Unconfined
        }
    }
}

/// Refuses a policy that confines nothing to a peer that must be confined, wherever the policy comes
/// from: the request, the thread or the configuration.
pub(crate) fn may_run(
    peer: PeerKind,
    spawn: ProcessSpawn,
    policy: &SandboxPolicy,
) -> Result<(), Refusal> {
    if rights_of(peer, spawn) == CallerRights::Unconfined {
        return Ok(());
    }
    let what = match policy {
        SandboxPolicy::ReadOnly { .. } | SandboxPolicy::WorkspaceWrite(_) => return Ok(()),
        SandboxPolicy::DangerFullAccess => "the policy is dangerFullAccess",
        SandboxPolicy::ExternalSandbox { .. } => "the policy is externalSandbox",
    };
    Err(Refusal { what })
}

/// The rights of the client at the other end.
pub(crate) fn of(cx: &Connection) -> CallerRights {
    rights_of(cx.kind(), cx.shared().options.process_spawn)
}

/// As [`may_run`] for the client at the other end.
pub(crate) fn check(cx: &Connection, policy: &SandboxPolicy) -> Result<(), ErrorObject> {
    may_run(cx.kind(), cx.shared().options.process_spawn, policy)?;
    Ok(())
}

/// Marks a turn with the rights of the client that asks for it. A client may ask for fewer rights
/// than it has, never for more.
pub(crate) fn mark(cx: &Connection, turn: &mut TurnStartParams) {
    if of(cx) == CallerRights::Confined {
        turn.require_sandbox = Some(true);
    }
}

/// Refuses a turn that would run without a sandbox on the thread as it is now. A thread that is not
/// there is left to those who answer that.
pub(crate) async fn check_turn(
    cx: &Connection,
    method: &'static str,
    thread: ThreadId,
    turn: &TurnStartParams,
) -> Result<(), ErrorObject> {
    if !turn.requires_sandbox() {
        return Ok(());
    }
    let about = About {
        method,
        thread,
        missing: MissingThread::NotFound,
    };
    let Ok(row) = handlers::stored(cx, &about).await else {
        return Ok(());
    };
    let after = view::settings(&row)?.after(turn);
    match after {
        Ok(after) if !after.sandbox_policy.is_confined() => Err(ErrorObject::unconfined_denied(
            "the thread runs without a sandbox",
        )),
        // Names that disagree were refused before.
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::methods;

    /// The methods that have nothing run, neither at once nor later.
    const RUN_NOTHING: &[&str] = &[
        "account/bedrock/checkGovCloudRequirements",
        "account/rateLimits/read",
        "account/read",
        "approval/list",
        "collaborationMode/list",
        "command/exec/resize",
        "command/exec/terminate",
        "command/exec/write",
        "config/read",
        "configRequirements/read",
        "experimentalFeature/list",
        "fanout/cancel",
        "fanout/delete",
        "fanout/export",
        "fanout/import",
        "fanout/import/write",
        "fanout/items/add",
        "fanout/preview",
        "fanout/seal",
        "fanout/items/list",
        "fanout/items/read",
        "fanout/list",
        "fanout/pause",
        "fanout/read",
        "fanout/subscribe",
        "fanout/unsubscribe",
        "hooks/list",
        "mcpServerStatus/list",
        "model/list",
        "permissionProfile/list",
        "plugin/list",
        "process/kill",
        "process/resizePty",
        "process/writeStdin",
        "server/status",
        "skills/list",
        "thread/archive",
        "thread/backgroundTerminals/clean",
        "thread/backgroundTerminals/list",
        "thread/backgroundTerminals/terminate",
        "thread/compact/start",
        "thread/delete",
        "thread/items/list",
        "thread/items/read",
        "thread/list",
        "thread/loaded/list",
        "thread/name/set",
        "thread/read",
        "thread/revert",
        "thread/rollback",
        "thread/turns/list",
        "thread/unarchive",
        "thread/unsubscribe",
        "turn/interrupt",
        // These run rows as their authors left them, with their authors' rights.
        "thread/queue/delete",
        "thread/queue/list",
        "thread/queue/move",
        "thread/queue/pause",
        "thread/queue/reorder",
        "thread/queue/resume",
        "thread/queue/retry",
        "thread/queue/start",
    ];

    #[test]
    fn every_method_asks_the_gate_or_runs_nothing() {
        let mut served = methods().names();
        served.sort_unstable();
        let mut known: Vec<&str> = DOORS.iter().chain(RUN_NOTHING).copied().collect();
        known.sort_unstable();
        assert_eq!(
            served, known,
            "a method that can have something run belongs in DOORS and asks the gate"
        );
    }

    #[test]
    fn a_policy_without_a_sandbox_is_for_peers_that_are_vouched_for() {
        let peers = [
            PeerKind::Stdio,
            PeerKind::Unix,
            PeerKind::WebSocket,
            PeerKind::OpenWebSocket,
        ];
        for peer in peers {
            for spawn in [ProcessSpawn::Allow, ProcessSpawn::Deny] {
                for policy in [
                    json(r#""read-only""#),
                    json(r#""workspace-write""#),
                    json(r#""danger-full-access""#),
                    json(r#"{"type": "externalSandbox", "networkAccess": "enabled"}"#),
                ] {
                    let trusted = spawn == ProcessSpawn::Allow && peer != PeerKind::OpenWebSocket;
                    let expected = trusted || policy.is_confined();
                    let said = may_run(peer, spawn, &policy).is_ok();
                    assert_eq!(said, expected, "{peer:?} {spawn:?} {policy:?}");
                }
            }
        }
    }

    fn json(text: &str) -> SandboxPolicy {
        serde_json::from_str(text).unwrap()
    }
}
