//! What a thread's turns are run with, as it is stored with the thread.
//!
//! The invariant here: a turn is run with the thread's settings at the moment it is accepted, plus
//! what its own params say. What params say about cwd, policies, model, effort, summary, tier and
//! roots stays with the thread; what they say about schema, environments and a tier for one turn
//! does not.
//!
//! Where the first settings of a thread come from is the server's business.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnlane_engine::TurnSettings;
use turnlane_protocol::method::{Personality, ReasoningSummary, TurnStartParams};
use turnlane_protocol::policy::{ApprovalPolicy, ApprovalsReviewer, BuiltinProfile, SandboxPolicy};
use turnlane_protocol::thread::ThreadEnvironment;

/// What a thread's turns are run with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The model.
    pub model: String,
    /// Who serves it.
    pub provider: String,
    /// The working directory.
    pub cwd: String,
    /// Directories the agent works in.
    #[serde(default)]
    pub runtime_workspace_roots: Vec<String>,
    /// Keys of the shared configuration that the thread was started with.
    #[serde(default)]
    pub config: Map<String, Value>,
    /// When the agent asks.
    pub approval_policy: ApprovalPolicy,
    /// Whom it asks.
    #[serde(default)]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    /// Where commands may write.
    pub sandbox_policy: SandboxPolicy,
    /// The id of the permission profile that the sandbox came from; none: it was chosen by itself.
    #[serde(default)]
    pub permission_profile: Option<String>,
    /// How hard the model thinks.
    #[serde(default)]
    pub effort: Option<String>,
    /// How much of its reasoning it sums up.
    #[serde(default)]
    pub summary: Option<ReasoningSummary>,
    /// The tone.
    #[serde(default)]
    pub personality: Option<Personality>,
    /// The provider's class of service.
    #[serde(default)]
    pub service_tier: Option<String>,
    /// What the model is told before everything else, in place of the default.
    #[serde(default)]
    pub base_instructions: Option<String>,
    /// What the model is told besides.
    #[serde(default)]
    pub developer_instructions: Option<String>,
}

/// Returns true if `path` is another name of `directory`, which was resolved when the thread began. A
/// client that works in a linked directory names it by the link with every turn. The same name is not
/// resolved again: what it leads to must not change.
fn leads_to(path: &str, directory: &str) -> bool {
    path != directory
        && std::fs::canonicalize(path).is_ok_and(|found| found.as_os_str() == directory)
}

impl Settings {
    /// The settings after a turn with these params; an error when its names for the sandbox disagree,
    /// or when a permission profile is not one of the built-in ones.
    pub fn after(&self, params: &TurnStartParams) -> Result<Self, String> {
        let sandbox = params.chosen_sandbox().map_err(|error| error.to_string())?;
        let (sandbox_policy, permission_profile) = match (&params.permissions, sandbox) {
            (None, None) => (self.sandbox_policy.clone(), self.permission_profile.clone()),
            (None, Some(sandbox)) => (sandbox.clone(), None),
            (Some(id), None) => {
                let profile = BuiltinProfile::resolve(id, None);
                let profile = profile.map_err(|error| error.to_string())?;
                (profile.policy(), Some(profile.id().to_owned()))
            }
            (Some(_), Some(_)) => {
                return Err("`permissions` cannot be combined with `sandboxPolicy`".to_owned());
            }
        };
        let or = |new: &Option<String>, old: &Option<String>| new.clone().or_else(|| old.clone());
        Ok(Self {
            model: params.model.clone().unwrap_or_else(|| self.model.clone()),
            cwd: match &params.cwd {
                Some(cwd) if !leads_to(cwd, &self.cwd) => cwd.clone(),
                Some(_) | None => self.cwd.clone(),
            },
            runtime_workspace_roots: params
                .runtime_workspace_roots
                .clone()
                .unwrap_or_else(|| self.runtime_workspace_roots.clone()),
            approval_policy: params.approval_policy.unwrap_or(self.approval_policy),
            approvals_reviewer: params.approvals_reviewer.or(self.approvals_reviewer),
            sandbox_policy,
            permission_profile,
            effort: or(&params.effort, &self.effort),
            summary: params.summary.or(self.summary),
            personality: params.personality.or(self.personality),
            service_tier: or(&params.service_tier, &self.service_tier),
            ..self.clone()
        })
    }

    /// The settings of one turn with these params; `environments` are the thread's.
    pub fn for_turn(
        self,
        params: &TurnStartParams,
        environments: Option<Vec<ThreadEnvironment>>,
    ) -> TurnSettings {
        TurnSettings {
            model: self.model,
            provider: self.provider,
            cwd: self.cwd,
            runtime_workspace_roots: self.runtime_workspace_roots,
            environments: params.environments.clone().or(environments),
            config: self.config,
            approval_policy: self.approval_policy,
            sandbox_policy: self.sandbox_policy,
            requires_sandbox: params.requires_sandbox(),
            effort: self.effort,
            summary: self.summary,
            service_tier: params.service_tier_for_turn.clone().or(self.service_tier),
            output_schema: params.output_schema.clone(),
            base_instructions: self.base_instructions,
            developer_instructions: self.developer_instructions,
        }
    }
}
