//! Codex's description of what a process or a file call may touch.
//!
//! It is read as it comes; what of it can be enforced is decided where it is used, and a key inside
//! `permissions` that is not known here is refused rather than ignored.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `sandbox` object of `process/start` and `fs/*`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxIntent {
    /// What is allowed; nothing is applied if null. Read by its user, so that whatever cannot be
    /// understood is refused with a reason and not a decoder's text.
    #[serde(default)]
    pub permissions: Option<Value>,
    /// The directory the policy speaks of, as a `file://` URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `file://` URIs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_roots: Option<Vec<String>>,
}
