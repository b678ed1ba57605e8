//! `thread/queue/update`: other content for a row that waits.
//!
//! The invariant here: `input` replaces what is said and nothing else, `turnStartParams` everything;
//! either way the row keeps its id, its client's id, its place and its status. What it was is read
//! where the new is written, so two updates at once leave one of the two, whole.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, QueueDialect};
use turnlane_protocol::ids::QueuedTurnId;
use turnlane_protocol::method::thread_queue::UPDATE;
use turnlane_protocol::method::{ThreadQueueUpdateParams, TurnStartParams};
use turnlane_runtime::ChangeTurn;

use super::add::check_content;
use super::attachments;
use super::call::{about, check_thread, missing};
use crate::connection::Connection;
use crate::errors::About;
use crate::rights;

/// What is to become of which row.
pub(super) struct Changed {
    pub(super) about: About,
    /// The row as the caller spelled it.
    pub(super) spelled: String,
    pub(super) row: QueuedTurnId,
    pub(super) change: ChangeTurn,
}

/// Reads the params of either dialect, with new files copied.
pub(super) async fn read(
    cx: &Arc<Connection>,
    params: ThreadQueueUpdateParams,
) -> Result<Changed, ErrorObject> {
    let row = params.row.id().ok_or_else(|| missing("queuedTurnId"))?;
    let whole = params.turn_start_params.is_some();
    let mut turn = match (params.turn_start_params, params.input) {
        (Some(_), Some(_)) => return Err(ErrorObject::both_queue_forms()),
        (None, None) => return Err(missing("input")),
        (Some(turn), None) => *turn,
        (None, Some(input)) => TurnStartParams {
            thread_id: params.thread_id.clone(),
            input,
            ..TurnStartParams::default()
        },
    };
    let about = about(UPDATE, &params.thread_id)?;
    if turn.thread_id.parse() != Ok(about.thread) {
        return Err(ErrorObject::other_thread());
    }
    turn.thread_id = about.thread.to_string();
    let checked = check_content(cx, &mut turn);
    let names_files = attachments::names_files(&turn.input);
    if checked.is_err() || names_files {
        check_thread(cx, &about, QueueDialect::Submissions).await?;
    }
    checked?;
    rights::check_turn(cx, UPDATE, about.thread, &turn).await?;
    let id = row.parse().unwrap_or_else(|_| QueuedTurnId::new(0));
    if names_files {
        turn.input = attachments::keep(cx, about.thread, id, turn.input).await?;
    }
    let new = turn.clone();
    let change = move |before: TurnStartParams| TurnStartParams {
        // Whose message it is does not change.
        client_user_message_id: before.client_user_message_id.clone(),
        input: new.input.clone(),
        // New words run with the rights of their author, whatever the row was added with.
        require_sandbox: match (whole, new.require_sandbox) {
            (false, None) => before.require_sandbox,
            (_, required) => required,
        },
        ..if whole { new.clone() } else { before }
    };
    Ok(Changed {
        about,
        spelled: row.to_owned(),
        row: id,
        change: ChangeTurn::new(change, turn),
    })
}
