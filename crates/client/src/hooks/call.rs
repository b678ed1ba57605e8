//! Asking one hook: in a task of its own, with its time limit.
//!
//! The invariant here: whatever a hook does, hang and panic included, this ends in time with an action
//! or an issue, and its task ends with it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::wire::Said;
use super::{Entry, Handler, HookContext, HookIssue, IssueClass, OnFailure};

impl Entry {
    pub(super) fn name(&self) -> &str {
        match &self.handler {
            Handler::Hook(hook) => hook.name(),
            #[cfg(feature = "spawn")]
            Handler::Shell(hook) => hook.name(),
        }
    }

    pub(super) fn on_failure(&self) -> OnFailure {
        match &self.handler {
            Handler::Hook(hook) => hook.on_failure(),
            #[cfg(feature = "spawn")]
            Handler::Shell(_) => OnFailure::Block,
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        match &self.handler {
            Handler::Hook(hook) => hook.timeout(),
            #[cfg(feature = "spawn")]
            Handler::Shell(hook) => hook.timeout(),
        }
    }

    async fn call(&self, context: &HookContext) -> Result<Said, HookIssue> {
        match &self.handler {
            Handler::Hook(hook) => Ok(Said {
                action: hook.call(context).await?,
                wrong: Vec::new(),
            }),
            #[cfg(feature = "spawn")]
            Handler::Shell(hook) => hook.run(context).await,
        }
    }
}

/// What a hook said and how long it took.
pub(super) async fn ask(
    entry: &Arc<Entry>,
    context: HookContext,
) -> (Result<Said, HookIssue>, Duration) {
    let limit = entry.timeout();
    let phase = context.phase;
    let began = Instant::now();
    let mut task = JoinSet::new();
    let asked = Arc::clone(entry);
    task.spawn(async move { asked.call(&context).await });
    let said = timeout(limit, task.join_next()).await;
    let issue = |class, message: String| HookIssue {
        hook: entry.name().to_owned(),
        phase,
        class,
        message,
    };
    let said = match said {
        Ok(Some(Ok(Ok(said)))) => Ok(said),
        // Whose issue it is and when is known here better than there.
        Ok(Some(Ok(Err(told)))) => Err(issue(told.class, told.message)),
        Ok(Some(Err(_)) | None) => Err(issue(IssueClass::Internal, "hook panicked".to_owned())),
        Err(_) => {
            let message = format!("hook timed out after {}s", limit.as_secs_f64());
            Err(issue(IssueClass::Timeout, message))
        }
    };
    (said, began.elapsed())
}
