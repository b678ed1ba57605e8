//! Asking a foreign engine what became of a turn that a dead worker left.
//!
//! The invariants here: an engine is asked only about a turn whose row this worker holds and is
//! deciding; the answer comes within [`ASK_MAX`], or it is that the engine cannot tell. Asking changes
//! nothing, so that a worker that dies meanwhile leaves the same question to the next one.
//!
//! What follows from an answer is decided in [`super::recovery`] and [`super::fate`] and recorded by the
//! lane's task.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use turnlane_engine::limits::has_effect;
use turnlane_engine::{Engine, Reconciled, TurnKind, TurnRequest};
use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_store::thread::Direction;
use turnlane_store::turn::{AcceptedTurn, ItemQuery};
use turnlane_store::{Grip, Store, StoreError};

use super::rows;

/// How long an engine is asked at most: its program may have to start, and it tries three times.
const ASK_MAX: Duration = Duration::from_mins(2);
/// How soon an engine is asked again that says that the turn still runs.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How many items are read at once.
const ITEMS_AT_ONCE: u32 = 256;

/// A turn that a dead worker left, as the store has it.
pub(crate) struct UndecidedTurn {
    /// What its acceptance showed, with the grip of its decision.
    pub accepted: AcceptedTurn,
    /// The items of the turn that are stored already.
    pub stored_items: HashSet<String>,
    /// Whether one of them changed something outside of the thread.
    pub had_effect: bool,
    /// The last message of the agent among them.
    pub last_message: Option<ThreadItem>,
    /// The boot of the machine that this worker runs in; empty where it is not known.
    pub boot_id: String,
}

/// Reads the turn that is being decided under this grip.
pub(crate) async fn read(store: &dyn Store, grip: Grip) -> Result<UndecidedTurn, StoreError> {
    let accepted = store.undecided(grip).await?;
    let worker = store.worker_row(store.worker()).await?;
    let mut turn = UndecidedTurn {
        stored_items: HashSet::new(),
        had_effect: false,
        last_message: None,
        boot_id: worker.map(|worker| worker.boot_id).unwrap_or_default(),
        accepted,
    };
    let mut after_ord = None;
    loop {
        let page = store.items(ItemQuery {
            thread: grip.thread,
            turn_ord: Some(turn.accepted.turn.ord),
            after_ord,
            direction: Direction::Ascending,
            limit: ITEMS_AT_ONCE,
        });
        let page = page.await?;
        for row in page.rows {
            turn.stored_items.insert(row.id);
            // An item of a later version says nothing here.
            if let Ok(item) = rows::read::<ThreadItem>(&row.body) {
                turn.had_effect |= has_effect(&item);
                if matches!(item.body, ItemBody::AgentMessage(_)) {
                    turn.last_message = Some(item);
                }
            }
        }
        match page.next {
            Some(next) => after_ord = Some(next),
            None => return Ok(turn),
        }
    }
}

/// What the turn was for. Nothing but a compaction has neither a message nor one to go on from.
pub(crate) fn kind(accepted: &AcceptedTurn) -> TurnKind {
    if accepted.row.continues {
        TurnKind::Continue
    } else if accepted.item.is_none() {
        TurnKind::Compact
    } else {
        TurnKind::Turn
    }
}

/// Asks the engine. An engine that is not there and a turn that cannot be read are unknown.
pub(crate) async fn ask(
    engine: Option<Arc<dyn Engine>>,
    request: Result<TurnRequest, String>,
) -> Reconciled {
    let (Some(engine), Ok(request)) = (engine, request) else {
        return Reconciled::Unknown;
    };
    let answer = async {
        loop {
            match engine.reconcile(request.clone()).await {
                Reconciled::Running => tokio::time::sleep(ASK_AGAIN).await,
                answer => return answer,
            }
        }
    };
    let answer = tokio::time::timeout(ASK_MAX, answer).await;
    answer.unwrap_or(Reconciled::Unknown)
}
