//! The answer to start, resume and fork, as far as it matters here.
//!
//! The invariant here: only a missing id keeps an answer from being read. What a server does not say,
//! or says in a shape nobody knows, is kept as it came or counts as not told; whether it is too much is
//! decided in [`crate::policy`].

use serde::Deserialize;
use serde_json::Value;

use super::state::{Activity, Position};
use crate::call::missing;
use crate::error::CallError;
use crate::ids::ThreadId;
use crate::policy::EffectivePolicy;

/// What is read of the answer. Every member may be missing or of another type: what matters is the
/// id, and what was granted.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Answer {
    thread: Value,
    model: Value,
    model_provider: Value,
    cwd: Value,
    approval_policy: Value,
    sandbox: Value,
    events: Value,
}

impl Answer {
    pub(super) fn id(&self, method: &str) -> Result<ThreadId, CallError> {
        match self.thread.get("id").and_then(Value::as_str) {
            Some(id) if !id.trim().is_empty() => Ok(ThreadId::from(id)),
            _ => Err(missing(method, "thread id")),
        }
    }

    pub(super) fn effective(&self) -> EffectivePolicy {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        EffectivePolicy {
            cwd: text(&self.cwd),
            model: text(&self.model),
            model_provider: text(&self.model_provider),
            approval: self.approval_policy.clone(),
            sandbox: self.sandbox.clone(),
        }
    }

    pub(super) fn activity(&self) -> Option<Activity> {
        let word = self.thread.get("status")?.get("type")?.as_str()?;
        Activity::from_status(word)
    }

    pub(super) fn position(&self) -> Option<Position> {
        Some(Position {
            seq: Some(self.events.get("seq")?.as_u64()?),
            epoch: Some(self.events.get("epoch")?.as_str()?.to_owned()),
        })
    }
}
