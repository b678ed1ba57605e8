//! The rights of a running turn, and of those who decide and speak while it runs.
//!
//! The invariant here: a turn keeps the rights it was accepted with, whatever becomes of the thread's
//! settings meanwhile. An accept of a caller counts for no more than the caller could have started.
//!
//! Which caller has which rights is decided by the server; what a sandbox means, by the process
//! service.

use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::policy::{ApprovalsReviewer, SandboxPolicy};
use turnlane_store::turn::AcceptedTurn;

use super::rows;
use crate::settings::Settings;

/// The rights of a caller: may it run commands without a sandbox?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerRights {
    /// Only in a sandbox.
    Confined,
    /// Also without one.
    Unconfined,
}

/// The rights that a turn was accepted with.
#[derive(Clone, Debug)]
pub(crate) struct TurnRights {
    pub(crate) sandbox: SandboxPolicy,
    pub(crate) cwd: String,
    pub(crate) reviewer: ApprovalsReviewer,
    /// The rights of the caller that the turn is run for.
    pub(crate) caller: CallerRights,
}

impl TurnRights {
    /// Reads the rights; the fewest where what is stored cannot be read, since such a turn is refused
    /// anyway.
    pub(crate) fn of(accepted: &AcceptedTurn) -> Self {
        let params = rows::read::<TurnStartParams>(&accepted.row.params);
        let settings = rows::read::<Settings>(&accepted.thread.settings);
        let (Ok(params), Ok(settings)) = (params, settings) else {
            return Self {
                sandbox: SandboxPolicy::ReadOnly {
                    network_access: false,
                },
                cwd: String::new(),
                reviewer: ApprovalsReviewer::AutoReview,
                caller: CallerRights::Confined,
            };
        };
        Self {
            reviewer: settings.approvals_reviewer.unwrap_or_default(),
            sandbox: settings.sandbox_policy,
            cwd: settings.cwd,
            caller: if params.requires_sandbox() {
                CallerRights::Confined
            } else {
                CallerRights::Unconfined
            },
        }
    }

    /// Returns true if a caller may give the turn more to do.
    pub(crate) fn admits(&self, caller: CallerRights) -> bool {
        match caller {
            CallerRights::Unconfined => true,
            CallerRights::Confined => self.sandbox.is_confined(),
        }
    }
}
