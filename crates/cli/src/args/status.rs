//! The flags of `turnlane status`.
//!
//! The invariant here: it takes no argument that narrows it, so that nothing that waits for a person is
//! left out by mistake.

use super::reach::Reach;
use super::shared::Answer;

/// The flags of `turnlane status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) answer: Answer,

    #[command(flatten)]
    pub(crate) reach: Reach,
}
