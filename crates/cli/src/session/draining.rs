//! Calls that only the owner of a lane can answer, where that owner is a daemon that stops.
//!
//! A daemon that was told to stop serves its last turns on its drain socket (`commands::serve::drain`).
//! Meanwhile a command talks to the next daemon, or to the store; both refuse with `ownedElsewhere` and
//! name the process that owns the lane.
//!
//! The invariant here: a call is repeated at the owner only after it was refused as `ownedElsewhere`, so
//! it had no effect before. Only calls that need no further events are repeated: a subscription would end
//! with the connection.

use std::path::Path;

use turnlane::{CallError, Client, Endpoint, Limits, Reconnect};

use super::builder;
use crate::home;
use crate::linked::{HANDSHAKE, Linked};

/// The calls that are repeated at the owner.
const REPEATED: [&str; 2] = ["approval/respond", "turn/interrupt"];

/// The pid of the process that owns the lane, where the refusal of this call names it.
fn owner(method: &str, error: &CallError) -> Option<u32> {
    let CallError::Rpc(error) = error else {
        return None;
    };
    if !REPEATED.contains(&method) || error.reason() != Some("ownedElsewhere") {
        return None;
    }
    let pid = error.data.as_ref()?.get("worker")?.get("pid")?.as_i64()?;
    u32::try_from(pid).ok()
}

/// A connection to the daemon that owns the lane of a refused call, if that daemon is stopping.
pub(super) async fn owner_of(home: &Path, method: &str, error: &CallError) -> Option<Client> {
    let pid = owner(method, error)?;
    connect(home, pid).await.map(|linked| linked.client)
}

/// A connection to a daemon that is stopping. It is not found again when the daemon has ended.
pub(super) async fn connect(home: &Path, pid: u32) -> Option<Linked> {
    let socket = home::drain_socket(home, pid);
    if !socket.exists() {
        return None;
    }
    let limits = Limits {
        handshake: HANDSHAKE,
        ..Limits::default()
    };
    let builder = builder().limits(limits);
    let linked = Linked::with(Endpoint::Unix(socket), builder, Reconnect::Never).await;
    linked
        .inspect_err(|error| tracing::debug!(%error, pid, "the stopping daemon does not answer"))
        .ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use turnlane::RpcError;

    use super::*;

    fn refused(reason: &str, data: Value) -> CallError {
        let mut data = data;
        data["reason"] = json!(reason);
        CallError::Rpc(RpcError {
            code: -32_600,
            message: "refused".to_owned(),
            data: Some(data),
        })
    }

    #[test]
    fn only_a_call_that_the_owner_must_answer_is_repeated_there() {
        let owned = || refused("ownedElsewhere", json!({"worker": {"pid": 7}}));
        assert_eq!(owner("approval/respond", &owned()), Some(7));
        assert_eq!(owner("turn/interrupt", &owned()), Some(7));
        assert_eq!(owner("thread/resume", &owned()), None);
        let busy = refused("busy", json!({"worker": {"pid": 7}}));
        assert_eq!(owner("turn/interrupt", &busy), None);
        let unnamed = refused("ownedElsewhere", json!({"worker": {"pid": null}}));
        assert_eq!(owner("turn/interrupt", &unnamed), None);
    }
}
