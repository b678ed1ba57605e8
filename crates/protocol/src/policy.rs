//! What an agent may do by itself: when it asks, whom it asks, and where it may write.
//!
//! The invariant here: whichever spelling of a sandbox a caller used, it is read into one
//! [`SandboxPolicy`] and written as the object form, and a word that is not listed is refused,
//! never read as something near it.
//!
//! Enforcing a policy belongs to the process service, deciding an approval to the runtime.

mod approval;
mod profile;
mod sandbox;

pub use approval::{ApprovalPolicy, ApprovalsReviewer, GranularApproval};
#[cfg(feature = "schema")]
pub use approval::{ApprovalPolicyChoice, FormerApprovalPolicy};
pub use profile::{BuiltinProfile, ProfileError};
pub use sandbox::{NetworkAccess, SandboxDisagreement, SandboxPolicy, WorkspaceWrite};
#[cfg(feature = "schema")]
pub use sandbox::{SandboxChoice, SandboxMode};
