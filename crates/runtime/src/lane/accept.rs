//! From a row to its turn: the pure function that runs inside the accepting transaction.
//!
//! The invariant here: it depends on the row, the thread and what was chosen beforehand, and on
//! nothing else, so it may run again when a batch is run again. A payload that cannot be read never
//! becomes a turn and is never deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use turnlane_engine::limits::wait_for;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{ItemBody, ThreadItem, UserMessage};
use turnlane_protocol::method::TurnStartParams;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};
use turnlane_store::lane::Waiting;
use turnlane_store::queue::{
    Acceptance, Accepting, CannotStart, OnCannotStart, OnLimit, Row, Verdict,
};
use turnlane_store::turn::{Accept, EndedTurn, FirstItem, TurnEnd, TurnStatus};
use turnlane_store::{Json, RowId, TurnId};

use super::rights::CallerRights;
use super::rows::{self, comes_back};
use crate::settings::Settings;

/// How many characters of the first text a thread is shown with.
const PREVIEW_CHARS_MAX: usize = 200;

/// The failure of a turn that may run only in a sandbox.
const NO_SANDBOX: &str = "the turn requires a sandbox, and the thread has none";

/// How long params may be that are read inside the transaction that claims; longer ones are read
/// between claim and acceptance, while other lanes go on.
pub(crate) const PARAMS_READ_INSIDE_MAX: usize = 64 * 1024;

/// The params of one row, read before the transaction that accepts it; or why they cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct ReadParams {
    row: RowId,
    params: Result<Arc<TurnStartParams>, String>,
}

impl ReadParams {
    /// Reads the params of a row that is claimed: nothing changes them any more.
    pub(crate) fn of(row: &Row) -> Self {
        Self {
            row: row.id,
            params: rows::read(&row.params).map(Arc::new),
        }
    }

    /// The params of a row that is made of them.
    pub(crate) fn known(row: RowId, params: Arc<TurnStartParams>) -> Self {
        Self {
            row,
            params: Ok(params),
        }
    }
}

/// What is chosen before a row is accepted.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    /// The id of the userMessage item.
    pub item: ItemId,
    /// The turn that the row becomes if it cannot be started and is tried again.
    pub next_turn: TurnId,
    /// The most that a turn may do in this worker.
    pub turns: CallerRights,
    /// The engines that this worker has.
    pub engines: Arc<BTreeSet<String>>,
    /// The params of the row, where they were read before.
    pub read: Option<ReadParams>,
    /// Now.
    pub at_ms: i64,
}

/// The function for the store.
pub(crate) fn accepting(chosen: Chosen) -> Accepting {
    Accepting::new(move |acceptance| decide(acceptance, &chosen))
}

fn decide(acceptance: Acceptance<'_>, chosen: &Chosen) -> Verdict {
    if !chosen.engines.contains(&acceptance.thread.engine) {
        return Verdict::CannotStart(Box::new(no_engine(acceptance, chosen)));
    }
    match read(acceptance, chosen) {
        Ok(accept) => Verdict::Accept(Box::new(accept)),
        Err(why) => Verdict::CannotStart(Box::new(cannot_start(
            acceptance.row,
            &why,
            chosen.next_turn,
        ))),
    }
}

fn read(acceptance: Acceptance<'_>, chosen: &Chosen) -> Result<Accept, String> {
    let unreadable = |why: String| format!("queued turn payload could not be read: {why}");
    let params = match &chosen.read {
        Some(read) if read.row == acceptance.row.id => read.params.clone(),
        Some(_) | None => rows::read(&acceptance.row.params).map(Arc::new),
    };
    let params = params.map_err(unreadable)?;
    let settings: Settings = rows::read(&acceptance.thread.settings).map_err(unreadable)?;
    let after = settings.after(&params).map_err(unreadable)?;
    // Looked at here as well as by the server: the thread may have lost its sandbox since the row
    // was added.
    let is_required = params.requires_sandbox() || chosen.turns == CallerRights::Confined;
    if is_required && !after.sandbox_policy.is_confined() {
        return Err(NO_SANDBOX.to_owned());
    }
    let changed = after != settings;
    Ok(Accept {
        item: first_item(&params, acceptance.row, chosen),
        cwd: changed.then(|| after.cwd.clone()),
        settings: changed.then(|| rows::write(&after)),
        preview: preview(&params.input),
    })
}

fn first_item(params: &TurnStartParams, row: &Row, chosen: &Chosen) -> Option<FirstItem> {
    // The message of a row that continues is in the history.
    if params.input.is_empty() || row.continues {
        return None;
    }
    let item = user_message(
        chosen.item.clone(),
        params.input.clone(),
        Some(row.client_id.clone()),
        chosen.at_ms,
    );
    Some(FirstItem {
        id: chosen.item.as_str().to_owned(),
        kind: item.type_word().to_owned(),
        body: rows::write(&item),
    })
}

/// The acceptance of a turn that another transaction begins with this message.
pub(crate) fn of_message(id: &ItemId, input: &[UserInput], client_id: &str, at_ms: i64) -> Accept {
    let item = user_message(
        id.clone(),
        input.to_vec(),
        Some(client_id.to_owned()),
        at_ms,
    );
    Accept {
        item: Some(FirstItem {
            id: id.as_str().to_owned(),
            kind: item.type_word().to_owned(),
            body: rows::write(&item),
        }),
        settings: None,
        cwd: None,
        preview: preview(input),
    }
}

/// The item of something that was said.
pub(crate) fn user_message(
    id: ItemId,
    content: Vec<UserInput>,
    client_id: Option<String>,
    at_ms: i64,
) -> ThreadItem {
    let body = ItemBody::UserMessage(UserMessage {
        content,
        client_id,
        ..UserMessage::default()
    });
    let mut item = ThreadItem::started(id, at_ms, body);
    item.completed_at_ms = Some(at_ms);
    item
}

/// The engine is not there: no turn is left, the row goes back and the lane waits.
fn no_engine(acceptance: Acceptance<'_>, chosen: &Chosen) -> CannotStart {
    let row = acceptance.row;
    let kind = ErrorKind::EngineUnavailable;
    let message = format!("engine '{}' is not available", acceptance.thread.engine);
    if !comes_back(row) || row.policies.on_limit == OnLimit::Fail {
        return cannot_start(row, &message, chosen.next_turn);
    }
    let wait_ms = wait_for(&kind, 1).map_or(0, |wait| wait.as_millis());
    let until_ms = chosen.at_ms + i64::try_from(wait_ms).unwrap_or(0);
    CannotStart::Back {
        turn: chosen.next_turn,
        not_before_ms: until_ms,
        waiting: Some(Waiting {
            kind: "engine_unavailable".to_owned(),
            message,
            since_ms: chosen.at_ms,
            until_ms: Some(until_ms),
            nth: 1,
            login: None,
        }),
    }
}

/// A claimed row goes back as it was: nothing has happened.
pub(crate) fn back(row: &Row, next_turn: TurnId) -> CannotStart {
    CannotStart::Back {
        // A caller who waits for the reserved turn id still gets it.
        turn: if comes_back(row) { next_turn } else { row.turn },
        not_before_ms: row.not_before_ms,
        waiting: None,
    }
}

/// What becomes of a row that cannot be started, by its policy.
pub(crate) fn cannot_start(row: &Row, message: &str, next_turn: TurnId) -> CannotStart {
    let error = TurnError::new(message, CodexErrorInfo::Other, ErrorKind::EngineRefused);
    let failure = rows::write(&error);
    if comes_back(row) && row.policies.on_cannot_start == OnCannotStart::Block {
        return CannotStart::Block {
            failure,
            turn: next_turn,
        };
    }
    if row.source == rows::FANOUT {
        return CannotStart::Dead { failure };
    }
    CannotStart::Fail(Box::new(EndedTurn {
        accept: Accept {
            item: None,
            settings: None,
            cwd: None,
            preview: None,
        },
        end: failed(failure),
    }))
}

fn failed(error: Json) -> TurnEnd {
    TurnEnd {
        status: TurnStatus::Failed,
        error: Some(error),
        usage: None,
        muted: true,
    }
}

fn preview(input: &[UserInput]) -> Option<String> {
    input.iter().find_map(|part| match part {
        UserInput::Text { text, .. } if !text.trim().is_empty() => {
            Some(text.trim().chars().take(PREVIEW_CHARS_MAX).collect())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests;
