//! The flags of `turnlane approvals`.
//!
//! The invariant here: nothing is approved that was not named by its id.

use clap::Subcommand;

use super::reach::Reach;
use super::shared::Answer;

/// What `turnlane approvals` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(crate) command: ApprovalsCommand,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

const AFTER_HELP: &str = "\
Whoever answers first decides; a question that nobody answers in time is declined. The server that
runs the turn takes the decision: the daemon of this home.

Examples:
  turnlane approvals list
  turnlane approvals show 7f3a90c2
  turnlane approvals accept 7f3a90c2
  turnlane approvals decline 7f3a90c2 --stop";

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// What agents ask for and nobody has decided, the oldest first
    ///
    /// With --json one approval per line, as `approval/list` shows it.
    #[command(alias = "ls")]
    List(ApprovalsList),
    /// One open approval, whole: the command, or the changes as a diff
    ///
    /// With --json one object, as `approval/list` shows it.
    Show(ApprovalsShow),
    /// Let agents do what they asked for
    ///
    /// With --json one object per line: approvalId and decision.
    Accept(ApprovalsAccept),
    /// Do not let agents do what they asked for; they are told, and their turns go on
    ///
    /// With --json one object per line: approvalId and decision.
    Decline(ApprovalsDecline),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsList {
    /// Only of this thread
    #[arg(short, long, value_name = "THREAD")]
    pub(crate) thread: Option<String>,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsShow {
    /// The approval: its id, or the beginning or end of it (8 characters or more)
    #[arg(value_name = "ID")]
    pub(crate) id: String,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsAccept {
    /// Approvals: ids, or beginnings or ends of ids (8 characters or more)
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,

    /// Do not ask for the same again while the thread is loaded
    #[arg(long)]
    pub(crate) for_session: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsDecline {
    /// Approvals: ids, or beginnings or ends of ids (8 characters or more)
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,

    /// Stop the turn too
    #[arg(long)]
    pub(crate) stop: bool,

    #[command(flatten)]
    pub(crate) answer: Answer,
}
