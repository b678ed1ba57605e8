//! From Codex's `sandbox` object to a policy that is enforced or refused.

use std::path::Path;

use turnlane_process::Sandbox;
use turnlane_protocol::exec_server::sandbox::SandboxIntent;

/// Why an intent cannot become a policy. Its text ends the sentence `sandbox intent cannot be
/// enforced on this executor: …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct IntentError(pub(crate) String);

/// The policy an intent means for a process that starts in `cwd` with `tmpdir` as its `TMPDIR`.
pub(crate) fn to_sandbox(
    intent: Option<&SandboxIntent>,
    cwd: &Path,
    tmpdir: Option<&Path>,
) -> Result<Sandbox, IntentError> {
    let _ = (intent, cwd, tmpdir);
    todo!()
}
