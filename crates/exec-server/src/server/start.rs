//! From a claimed name to a running process, for both dialects.
//!
//! Everything that can be refused without the process service was refused before. Cancelled at any
//! point, a start leaves neither a process nor a name behind.

use std::sync::Arc;

use tokio::time::Instant;
use turnlane_process::{Containment, ContainmentKind, Spec};
use turnlane_protocol::error::ErrorObject;

use super::Shared;
use super::entry::Entry;
use super::session::{Claim, ClaimError};
use crate::failure;

/// Starts the process. Its events are held until [`Entry::tell`], so that the answer comes first.
pub(crate) async fn launch(
    shared: &Shared,
    claim: Claim,
    mut spec: Spec,
) -> Result<Arc<Entry>, ErrorObject> {
    // What this machine cannot hold as a tree is held as a group, and the answer says so.
    if shared.service.report().containment == ContainmentKind::Group {
        spec.containment = Containment::Group;
    }
    let id = claim.entry().id.clone();
    let cancelled = claim.entry().start_cancelled.clone();
    let asked_at = Instant::now();
    let spawned = tokio::select! {
        biased;
        () = cancelled.cancelled() => return Err(failure::start_cancelled(&id)),
        spawned = shared.service.spawn(spec) => spawned,
    };
    let process = spawned.map_err(|error| {
        shared.metrics.spawn_failed(error.kind);
        tracing::debug!(%error, "a start failed");
        failure::spawn(&error)
    })?;
    shared.metrics.spawned(asked_at.elapsed());
    let output = process
        .output()
        .map_err(|taken| failure::internal(taken.to_string()))?;
    claim
        .keep(move |entry| entry.started(process, output))
        .ok_or_else(|| failure::start_cancelled(&id))
}

/// Why a name could not be taken, on the wire.
pub(crate) fn claim_failure(error: ClaimError, id: &str) -> ErrorObject {
    match error {
        ClaimError::Exists => failure::exists(id),
        ClaimError::Full => failure::process_limit(),
        ClaimError::Over => failure::start_cancelled(id),
    }
}
