//! `turn/steer`: says something to the turn that runs.
//!
//! The invariant here: the answer means that the message is on disk; a steer is refused or kept.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::TurnId;
use turnlane_protocol::input;
use turnlane_protocol::method::turn_steer::METHOD;
use turnlane_protocol::method::{TurnSteerAnswer, TurnSteerParams};
use turnlane_rpc::Responder;
use turnlane_runtime::{Error, Reply, SteerRequest};

use crate::connection::Connection;
use crate::errors::{self, About};
use crate::rights;

/// `turn/steer`
pub(crate) async fn steer(cx: Arc<Connection>, params: TurnSteerParams, responder: Responder) {
    let (about, turn) = match checked(&params) {
        Ok(checked) => checked,
        Err(error) => return responder.error(&error),
    };
    let expected = params.expected_turn_id;
    let runtime = cx.shared().options.runtime.clone();
    let caller = rights::of(&cx);
    let reply = Reply::new(move |answer: Result<TurnId, Error>| match answer {
        Ok(turn_id) => responder.result(&TurnSteerAnswer { turn_id }),
        Err(Error::OtherTurn { active }) => {
            responder.error(&ErrorObject::stale_steer(&expected, &active.to_string()));
        }
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    let steer = SteerRequest {
        turn,
        input: params.input,
        client_id: params.client_user_message_id,
        caller,
    };
    // The reply knows it too.
    let _ = runtime.steer_with(about.thread, steer, reply).await;
}

fn checked(params: &TurnSteerParams) -> Result<(About, TurnId), ErrorObject> {
    let about = About {
        method: METHOD,
        thread: errors::thread_id(&params.thread_id)?,
        missing: MissingThread::NotFound,
    };
    if params.expected_turn_id.is_empty() {
        return Err(ErrorObject::empty_expected_turn());
    }
    if params.input.is_empty() {
        return Err(ErrorObject::empty_steer());
    }
    input::check(&params.input)?;
    // A text that is no id is the id of no turn; which one runs is for the lane to say.
    let turn = params.expected_turn_id.parse();
    Ok((about, turn.unwrap_or_else(|_| TurnId::new(0))))
}
