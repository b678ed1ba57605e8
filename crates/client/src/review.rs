//! Requests of the server: approvals, questions, tools. Every one is answered exactly once.
//!
//! The invariant here: a decision comes only from the reviewer in scope for that very thread and
//! turn, and where there is none the answer is no, in the words of the method. Reviewers run in tasks
//! of their own; the reader never waits for one.
//!
//! This file has what reviewers see and say. `answer.rs` knows the words of each method, `scope.rs`
//! who decides, `desk.rs` what is open, `memory.rs` what was decided and announced before; `words.rs`
//! reads command lines for reviewers that have rules about them.

mod answer;
mod desk;
mod memory;
mod request;
mod scope;
#[cfg(test)]
mod tests;
mod words;

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;
use turnlane_protocol::approval::{
    COMMAND_METHOD, ELICITATION_METHOD, FILE_CHANGE_METHOD, PERMISSIONS_METHOD, TOOL_CALL_METHOD,
    USER_INPUT_METHOD,
};

pub(crate) use answer::wire_decision;
pub(crate) use desk::Reviews;
pub use request::ApprovalRequest;
pub(crate) use scope::TurnScope;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks about a command, in the words of older servers.
const LEGACY_COMMAND_METHOD: &str = "execCommandApproval";
/// Asks about a patch, in the words of older servers.
const LEGACY_PATCH_METHOD: &str = "applyPatchApproval";

/// What a reviewer decides.
///
/// What is sent for it, by the method that asks:
///
/// | | `Accept` | `AcceptForSession` | `AcceptWithAmendment` | `Decline` | `Cancel` |
/// | --- | --- | --- | --- | --- | --- |
/// | command | `accept` | `acceptForSession` | the decision or the words of the rule, exactly as offered | `decline` | `cancel` |
/// | patch | `accept` | `acceptForSession` | – | `decline` | `cancel` |
/// | permissions | all that was asked, for the turn | all that was asked, for the session | – | none | none; the turn is interrupted |
/// | elicitation | `accept`, where no content is asked for | as `Accept` | `accept` with this content | `decline` | `cancel` |
/// | questions | no answers | no answers | `{"answers": {…}}` as given | no answers | no answers; the turn is interrupted |
/// | older servers | `approved` | `approved_for_session` | – | `denied` | `abort` |
///
/// Where the table has a dash, or the amendment is not one that was offered, the answer is a no: what
/// cannot be said exactly is not said at all. The [`ApprovalNotice`](crate::ApprovalNotice) of the
/// turn then shows a `Decline` with the reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Yes, once.
    Accept,
    /// Yes, and the same again while the thread is loaded.
    AcceptForSession,
    /// Yes, with a rule for the future as the server offered it, or with the content it asked for.
    AcceptWithAmendment(Value),
    /// No; the model is told and the turn goes on.
    Decline {
        /// Why; shown in the turn's stream. The protocol has no place for it.
        reason: Option<String>,
    },
    /// No; the turn is stopped.
    Cancel,
}

impl Decision {
    pub(crate) fn declined(reason: impl Into<String>) -> Self {
        Self::Decline {
            reason: Some(reason.into()),
        }
    }
}

/// Decides about what an agent wants to do.
///
/// A closure from [`ApprovalRequest`] to [`Decision`] is one. It may block, as one that asks a person
/// does: closures run on threads of their own.
pub trait Reviewer: Send + Sync + 'static {
    /// Decides, in a task of its own. The future is dropped when the question is settled elsewhere,
    /// the connection is lost, or [`Limits::review`](crate::Limits::review) has passed, which declines;
    /// so does a panic.
    fn review<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Decision>;

    /// How it wants to be run.
    #[doc(hidden)]
    fn may_block(&self) -> MayBlock {
        MayBlock::No
    }
}

/// Whether the first poll of a review may block its thread.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayBlock {
    /// It does not.
    No,
    /// It may.
    Yes,
}

impl std::fmt::Debug for dyn Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reviewer")
    }
}

impl<F: Fn(&ApprovalRequest) -> Decision + Send + Sync + 'static> Reviewer for F {
    fn review<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Decision> {
        Box::pin(async move { self(request) })
    }

    fn may_block(&self) -> MayBlock {
        MayBlock::Yes
    }
}

/// Says no to everything: what a client has until told otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeclineAll;

impl Reviewer for DeclineAll {
    fn review<'a>(&'a self, _request: &'a ApprovalRequest) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::Decline { reason: None }))
    }
}

/// Who decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// This client.
    #[default]
    No,
    /// Somebody else: requests are left alone.
    Yes,
}

/// The requests a client that only watches does not want. A tool's call is among them: answering it
/// would take it from whoever has the tool.
pub(crate) fn asking_methods() -> Vec<String> {
    let asked_of_reviewers = [
        COMMAND_METHOD,
        FILE_CHANGE_METHOD,
        PERMISSIONS_METHOD,
        ELICITATION_METHOD,
        USER_INPUT_METHOD,
        LEGACY_COMMAND_METHOD,
        LEGACY_PATCH_METHOD,
        TOOL_CALL_METHOD,
    ];
    asked_of_reviewers.map(str::to_owned).to_vec()
}
