//! What a turn is run with: chosen by the turn, else its thread, else its client, else safe defaults.
//!
//! The invariant here: a profile says only what its caller chose; [`Profile::over`] is the one place
//! that knows the order, [`Profile::asked_approval`] and [`Profile::asked_sandbox`] the one place that
//! knows the safe defaults. Whether a choice is allowed is decided in [`crate::policy`].

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
pub use turnlane_protocol::method::{Personality, ReasoningSummary};
pub use turnlane_protocol::policy::{
    ApprovalPolicy as Approval, GranularApproval, NetworkAccess, SandboxPolicy, WorkspaceWrite,
};

use crate::hooks::HookSet;
use crate::input::Attachment;
use crate::review::Reviewer;

/// Where commands may write.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Sandbox {
    /// One we know.
    Policy(SandboxPolicy),
    /// A named set of permissions of the server; privileged.
    Permissions(String),
    /// Anything else, sent as it is; privileged, whatever it says.
    Raw(Value),
}

impl Sandbox {
    /// Reading everywhere, writing nowhere, no network: what is asked for where nothing is chosen.
    pub fn read_only() -> Self {
        Self::Policy(SandboxPolicy::ReadOnly {
            network_access: false,
        })
    }

    /// Writing in the working directory and the places for temporary files, no network.
    pub fn workspace_write() -> Self {
        Self::Policy(SandboxPolicy::WorkspaceWrite(WorkspaceWrite::default()))
    }

    /// No limits.
    pub fn full_access() -> Self {
        Self::Policy(SandboxPolicy::DangerFullAccess)
    }
}

impl From<SandboxPolicy> for Sandbox {
    fn from(policy: SandboxPolicy) -> Self {
        Self::Policy(policy)
    }
}

impl From<WorkspaceWrite> for Sandbox {
    fn from(limits: WorkspaceWrite) -> Self {
        Self::Policy(SandboxPolicy::WorkspaceWrite(limits))
    }
}

/// How hard the model thinks: a word of the provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Effort(pub String);

impl Effort {
    /// Hardly at all.
    pub fn minimal() -> Self {
        Self("minimal".to_owned())
    }

    /// Little.
    pub fn low() -> Self {
        Self("low".to_owned())
    }

    /// The default of this crate.
    pub fn medium() -> Self {
        Self("medium".to_owned())
    }

    /// Much.
    pub fn high() -> Self {
        Self("high".to_owned())
    }

    /// As much as it can.
    pub fn xhigh() -> Self {
        Self("xhigh".to_owned())
    }
}

impl From<&str> for Effort {
    fn from(word: &str) -> Self {
        Self(word.to_owned())
    }
}

impl From<String> for Effort {
    fn from(word: String) -> Self {
        Self(word)
    }
}

/// What a caller chose.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    pub(crate) model: Option<String>,
    pub(crate) model_provider: Option<String>,
    pub(crate) effort: Option<Effort>,
    pub(crate) summary: Option<ReasoningSummary>,
    pub(crate) approval: Option<Approval>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) service_tier: Option<String>,
    pub(crate) personality: Option<Personality>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) escalation: Escalation,
    pub(crate) unattended_writes: UnattendedWrites,
    pub(crate) hooks: HookSet,
    pub(crate) reviewer: Option<Arc<dyn Reviewer>>,
}

/// Whether more than reading may be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Escalation {
    #[default]
    Refused,
    Allowed,
}

/// Whether writing may be asked for where nobody is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnattendedWrites {
    #[default]
    Refused,
    Allowed,
}

impl From<bool> for Escalation {
    fn from(is_allowed: bool) -> Self {
        if is_allowed {
            Self::Allowed
        } else {
            Self::Refused
        }
    }
}

impl From<bool> for UnattendedWrites {
    fn from(are_allowed: bool) -> Self {
        if are_allowed {
            Self::Allowed
        } else {
            Self::Refused
        }
    }
}

/// How long a turn may take where nobody says otherwise.
const TURN_TIMEOUT: Duration = Duration::from_mins(2);

impl Profile {
    /// A profile that chooses nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// These choices, and `below` where they are silent.
    ///
    /// Attachments add up, those of `below` first. Hooks stay those of this level: the levels run one
    /// after the other, and whoever runs them has all three.
    #[must_use]
    pub(crate) fn over(self, below: &Self) -> Self {
        let mut attachments = below.attachments.clone();
        attachments.extend(self.attachments);
        let escalation = match self.escalation {
            Escalation::Allowed => Escalation::Allowed,
            Escalation::Refused => below.escalation,
        };
        let unattended_writes = match self.unattended_writes {
            UnattendedWrites::Allowed => UnattendedWrites::Allowed,
            UnattendedWrites::Refused => below.unattended_writes,
        };
        Self {
            model: self.model.or_else(|| below.model.clone()),
            model_provider: self.model_provider.or_else(|| below.model_provider.clone()),
            effort: self.effort.or_else(|| below.effort.clone()),
            summary: self.summary.or(below.summary),
            approval: self.approval.or(below.approval),
            sandbox: self.sandbox.or_else(|| below.sandbox.clone()),
            service_tier: self.service_tier.or_else(|| below.service_tier.clone()),
            personality: self.personality.or(below.personality),
            timeout: self.timeout.or(below.timeout),
            output_schema: self.output_schema.or_else(|| below.output_schema.clone()),
            attachments,
            escalation,
            unattended_writes,
            hooks: self.hooks,
            reviewer: self.reviewer.or_else(|| below.reviewer.clone()),
        }
    }

    /// When the agent asks: never, where nobody chose.
    pub(crate) fn asked_approval(&self) -> Approval {
        self.approval.unwrap_or(Approval::Never)
    }

    /// Where commands may write: nowhere and without network, where nobody chose.
    pub(crate) fn asked_sandbox(&self) -> Sandbox {
        self.sandbox.clone().unwrap_or_else(Sandbox::read_only)
    }

    /// How hard the model thinks: medium, where nobody chose.
    pub(crate) fn asked_effort(&self) -> Effort {
        self.effort.clone().unwrap_or_else(Effort::medium)
    }

    /// How long a turn may take: 120 s, where nobody chose.
    pub(crate) fn asked_timeout(&self) -> Duration {
        self.timeout.unwrap_or(TURN_TIMEOUT)
    }
}

/// The setters of a profile, for [`Profile`] itself and for the builders that carry one.
macro_rules! profile_setters {
    ($target:ty $(, $path:ident)?) => {
        /// What turns are run with.
        impl $target {
            /// The model.
            #[must_use]
            pub fn model(mut self, model: impl Into<String>) -> Self {
                self$(.$path)?.model = Some(model.into());
                self
            }

            /// Who serves the model.
            #[must_use]
            pub fn model_provider(mut self, provider: impl Into<String>) -> Self {
                self$(.$path)?.model_provider = Some(provider.into());
                self
            }

            /// How hard the model thinks.
            #[must_use]
            pub fn effort(mut self, effort: impl Into<$crate::profile::Effort>) -> Self {
                self$(.$path)?.effort = Some(effort.into());
                self
            }

            /// How much of its reasoning the model sums up.
            #[must_use]
            pub fn summary(mut self, summary: $crate::profile::ReasoningSummary) -> Self {
                self$(.$path)?.summary = Some(summary);
                self
            }

            /// When the agent asks before it acts.
            #[must_use]
            pub fn approval(mut self, approval: $crate::profile::Approval) -> Self {
                self$(.$path)?.approval = Some(approval);
                self
            }

            /// Where commands may write. Everything but reading without network is privileged and
            /// needs [`allow_privileged_escalation`](Self::allow_privileged_escalation).
            #[must_use]
            pub fn sandbox(mut self, sandbox: impl Into<$crate::profile::Sandbox>) -> Self {
                self$(.$path)?.sandbox = Some(sandbox.into());
                self
            }

            /// Lets a privileged sandbox, and configuration about permissions, through the gate.
            #[must_use]
            pub fn allow_privileged_escalation(mut self) -> Self {
                self$(.$path)?.escalation = $crate::profile::Escalation::Allowed;
                self
            }

            /// Lets writing in the workspace through the gate although nobody is asked.
            #[must_use]
            pub fn allow_unattended_writes(mut self) -> Self {
                self$(.$path)?.unattended_writes = $crate::profile::UnattendedWrites::Allowed;
                self
            }

            /// How long a turn may take before it is interrupted; `Duration::MAX` for ever.
            #[must_use]
            pub fn timeout(mut self, after: ::std::time::Duration) -> Self {
                self$(.$path)?.timeout = Some(after);
                self
            }

            /// A JSON Schema for the final answer.
            #[must_use]
            pub fn output_schema(mut self, schema: ::serde_json::Value) -> Self {
                self$(.$path)?.output_schema = Some(schema);
                self
            }

            /// The provider's class of service.
            #[must_use]
            pub fn service_tier(mut self, tier: impl Into<String>) -> Self {
                self$(.$path)?.service_tier = Some(tier.into());
                self
            }

            /// The tone of the agent.
            #[must_use]
            pub fn personality(mut self, personality: $crate::profile::Personality) -> Self {
                self$(.$path)?.personality = Some(personality);
                self
            }

            /// Something that goes with the input; each call adds one.
            #[must_use]
            pub fn attach(mut self, attachment: $crate::input::Attachment) -> Self {
                self$(.$path)?.attachments.push(attachment);
                self
            }

            /// Asked before and after, behind those of the levels above.
            #[must_use]
            pub fn hooks(mut self, hooks: $crate::hooks::HookSet) -> Self {
                self$(.$path)?.hooks = hooks;
                self
            }

            /// Who decides about approvals.
            #[must_use]
            pub fn reviewer(mut self, reviewer: impl $crate::review::Reviewer) -> Self {
                self$(.$path)?.reviewer = Some(::std::sync::Arc::new(reviewer));
                self
            }
        }
    };
}
pub(crate) use profile_setters;

profile_setters!(Profile);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_hides_what_is_below() {
        let below = Profile::new()
            .model("below")
            .effort("low")
            .approval(Approval::Untrusted)
            .timeout(Duration::from_secs(1))
            .service_tier("slow");
        let above = Profile::new().model("above").approval(Approval::OnRequest);
        let both = above.over(&below);
        assert_eq!(both.model.as_deref(), Some("above"));
        assert_eq!(both.asked_approval(), Approval::OnRequest);
        assert_eq!(both.asked_effort(), Effort::low());
        assert_eq!(both.asked_timeout(), Duration::from_secs(1));
        assert_eq!(both.service_tier.as_deref(), Some("slow"));
    }

    #[test]
    fn permission_to_escalate_comes_down_from_every_level() {
        let below = Profile::new()
            .allow_privileged_escalation()
            .allow_unattended_writes();
        let both = Profile::new().over(&below);
        assert_eq!(both.escalation, Escalation::Allowed);
        assert_eq!(both.unattended_writes, UnattendedWrites::Allowed);
        let both = below.over(&Profile::new());
        assert_eq!(both.escalation, Escalation::Allowed);
    }

    #[test]
    fn attachments_of_all_levels_go_along_in_order() {
        let below = Profile::new().attach(Attachment::ImageUrl("a".to_owned()));
        let above = Profile::new().attach(Attachment::ImageUrl("b".to_owned()));
        let both = above.over(&below);
        assert_eq!(
            both.attachments,
            [
                Attachment::ImageUrl("a".to_owned()),
                Attachment::ImageUrl("b".to_owned())
            ]
        );
    }

    #[test]
    fn nothing_chosen_is_the_safe_choice() {
        let profile = Profile::new();
        assert_eq!(profile.asked_approval(), Approval::Never);
        assert_eq!(profile.asked_sandbox(), Sandbox::read_only());
        assert_eq!(profile.asked_effort(), Effort::medium());
        assert_eq!(profile.asked_timeout(), Duration::from_mins(2));
    }
}
