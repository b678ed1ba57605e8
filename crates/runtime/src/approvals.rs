//! The calls about approvals, for those who are asked and for those who only know the id.
//!
//! The invariant here: the first decision counts, whoever makes it, and it is made by the lane's task
//! of the worker that runs the turn; nobody else can decide for it.
//!
//! Who is asked, in which words, and whether a client may decide, is the server's business.

use serde::Serialize;
use serde_json::{Map, Value};
use turnlane_protocol::approval::{Approval, Decision};
use turnlane_protocol::ids::{ApprovalId, ThreadId};
use turnlane_protocol::item::CommandAction;
use turnlane_protocol::notification::Decider;
use turnlane_store::approval::{ApprovalQuery, ApprovalRow};
use turnlane_store::{Json, StoreError};

use crate::error::Error;
use crate::ids;
use crate::lane::command::{Command, Reply};
use crate::lane::rights::CallerRights;
use crate::lane::rows;
use crate::runtime::Handle;
use crate::shared::Shared;

/// What is asked, with all that the engine said about it; stored like that.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Asking {
    /// What everybody may know of it.
    #[serde(flatten)]
    pub approval: Approval,
    /// What the command does, as far as its text tells; for commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command_actions: Vec<CommandAction>,
    /// The beginning of the command that could be allowed from now on; for commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposed_execpolicy_amendment: Option<Vec<String>>,
    /// A directory the agent wants to write in from now on; for patches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_root: Option<String>,
    /// What is wanted; for permissions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<WantedPermissions>,
}

/// What an agent wants to be allowed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WantedPermissions {
    /// The directory that relative paths are meant from.
    pub cwd: String,
    /// What is wanted, as Codex writes it.
    pub permissions: Map<String, Value>,
}

/// A decision of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientDecision {
    /// The decision.
    pub decision: Decision,
    /// The reason; the model is told.
    pub reason: Option<String>,
    /// The rights of the client.
    pub caller: CallerRights,
}

impl ClientDecision {
    /// A decision without a reason, of a client that may have everything run.
    pub fn new(decision: Decision) -> Self {
        Self {
            decision,
            reason: None,
            caller: CallerRights::Unconfined,
        }
    }
}

/// What became of an approval.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalState {
    /// It waits for somebody.
    Open(Box<Approval>),
    /// It does not any more.
    Resolved {
        /// What was asked.
        approval: Box<Approval>,
        /// What was decided.
        decision: Decision,
        /// Who decided.
        by: Decider,
    },
}

impl Handle {
    /// Decides an approval of a running turn. The first decision counts.
    ///
    /// A decision that was not offered, and an accept for which the caller has not the rights, are
    /// refused; the question stays open.
    pub async fn decide(
        &self,
        thread: ThreadId,
        approval: ApprovalId,
        decided: ClientDecision,
    ) -> Result<(), Error> {
        let (reply, answer) = Reply::channel();
        let ClientDecision {
            decision,
            reason,
            caller,
        } = decided;
        let command = Command::Decide {
            approval,
            decision,
            by: Decider::Client,
            caller,
            reason,
            reply,
        };
        self.lanes().send(ids::thread(thread), command).await?;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::decide`] for an approval of whatever thread it is.
    pub async fn respond(
        &self,
        approval: ApprovalId,
        decided: ClientDecision,
    ) -> Result<(), Error> {
        match self.approval(approval).await? {
            ApprovalState::Open(open) => self.decide(open.thread_id, approval, decided).await,
            ApprovalState::Resolved { decision, by, .. } => {
                Err(Error::ApprovalResolved { decision, by })
            }
        }
    }

    /// What waits for somebody, in one thread or in all, oldest first.
    pub async fn approvals(&self, thread: Option<ThreadId>) -> Result<Vec<Approval>, Error> {
        let query = match thread {
            None => ApprovalQuery::Open,
            Some(thread) => ApprovalQuery::OpenOf(ids::thread(thread)),
        };
        let mut open = Vec::new();
        for shared in self.all_shared() {
            // Asked a moment ago, it may still be on its way.
            shared.store.flush().await?;
            open.extend(shared.store.approvals(query).await?);
        }
        open.sort_by_key(|row| (row.asked.requested_ms, row.asked.id.as_uuid()));
        open.iter().map(|row| shown(&row.asked.body)).collect()
    }

    /// What became of an approval.
    pub async fn approval(&self, approval: ApprovalId) -> Result<ApprovalState, Error> {
        for shared in self.all_shared() {
            if let Some(row) = find(&shared, approval).await? {
                return state(&row);
            }
        }
        Err(Error::ApprovalNotFound)
    }
}

/// An approval as it is stored.
async fn find(shared: &Shared, approval: ApprovalId) -> Result<Option<ApprovalRow>, StoreError> {
    // Flushed, since a decision may still be on its way.
    shared.store.flush().await?;
    let query = ApprovalQuery::One(approval.as_uuid().into());
    Ok(shared.store.approvals(query).await?.into_iter().next())
}

/// Why an approval cannot be decided by a lane that does not have it.
pub(crate) async fn not_ours(shared: &Shared, approval: ApprovalId) -> Error {
    let row = match find(shared, approval).await {
        Ok(Some(row)) => row,
        Ok(None) => return Error::ApprovalNotFound,
        Err(error) => return error.into(),
    };
    match state(&row) {
        Ok(ApprovalState::Resolved { decision, by, .. }) => {
            Error::ApprovalResolved { decision, by }
        }
        Ok(ApprovalState::Open(_)) => {
            let lane = shared.store.look(row.thread).await;
            let owner = lane.ok().and_then(|lane| lane.owner);
            match owner.filter(|owner| *owner != shared.store.worker()) {
                Some(worker) => Error::Store(StoreError::OwnedElsewhere {
                    thread: row.thread,
                    worker,
                }),
                None => Error::ApprovalNotFound,
            }
        }
        Err(error) => error,
    }
}

fn shown(body: &Json) -> Result<Approval, Error> {
    rows::read(body).map_err(Error::InvalidParams)
}

fn state(row: &ApprovalRow) -> Result<ApprovalState, Error> {
    let approval = Box::new(shown(&row.asked.body)?);
    let Some(resolved) = &row.resolved else {
        return Ok(ApprovalState::Open(approval));
    };
    // The end of a turn decides in the store's own word.
    let decision = serde_json::from_str(&resolved.decision).unwrap_or(Decision::Cancel);
    let by = resolved.decided_by.clone().map(Value::String);
    let by = by.and_then(|by| serde_json::from_value(by).ok());
    Ok(ApprovalState::Resolved {
        approval,
        decision,
        by: by.unwrap_or(Decider::Interrupt),
    })
}
