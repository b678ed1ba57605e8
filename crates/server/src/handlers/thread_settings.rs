//! `thread/settings/update`: what the next turns are run with.
//!
//! The invariant here: the change is on disk before the answer; followers are told only if something
//! is other than before.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::method::thread_settings::METHOD;
use turnlane_protocol::method::{Done, ThreadSettingsUpdateParams, TurnStartParams};

use crate::connection::Connection;
use crate::errors::{self, About};
use crate::rights;
use crate::settings;

/// `thread/settings/update`
pub(crate) async fn update(
    cx: Arc<Connection>,
    params: ThreadSettingsUpdateParams,
) -> Result<Done, ErrorObject> {
    let about = About {
        method: METHOD,
        thread: errors::thread_id(&params.thread_id)?,
        missing: MissingThread::NotFound,
    };
    let sandbox = params.chosen_sandbox();
    let sandbox = sandbox.map_err(|_| ErrorObject::sandbox_disagreement())?;
    if let (Some(_), Some(_)) = (&params.permissions, sandbox) {
        return Err(ErrorObject::permissions_with("sandboxPolicy"));
    }
    if let Some(sandbox) = sandbox {
        settings::check_sandbox(&cx, sandbox)?;
    }
    if let Some(profile) = settings::profile(&cx, params.permissions.as_deref())? {
        settings::check_sandbox(&cx, &profile.policy())?;
    }
    let turn = TurnStartParams {
        cwd: match &params.cwd {
            Some(cwd) => Some(settings::absolute(&cx, cwd)?),
            None => None,
        },
        approval_policy: params.approval_policy,
        approvals_reviewer: params.approvals_reviewer,
        sandbox_policy: sandbox.cloned(),
        permissions: params.permissions,
        model: params.model,
        effort: params.effort,
        summary: params.summary,
        personality: params.personality,
        service_tier: params.service_tier,
        ..TurnStartParams::default()
    };
    let change = |before: &turnlane_runtime::Settings| {
        let may_run = |after: &turnlane_runtime::Settings| {
            let checked = rights::check(&cx, &after.sandbox_policy);
            checked.is_ok()
        };
        // It names one sandbox, or one profile that was found above.
        let after = before.after(&turn).ok();
        after.filter(may_run).unwrap_or_else(|| before.clone())
    };
    let runtime = &cx.shared().options.runtime;
    match runtime.update_settings(about.thread, change).await {
        // Nothing was changed if the thread has no sandbox and the client must have one.
        Ok(settings) => rights::check(&cx, &settings.sandbox_policy).map(|()| Done {}),
        Err(error) => Err(errors::explained(&cx, &error, &about).await),
    }
}
