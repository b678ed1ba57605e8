//! `turn/interrupt`: stops the turn that runs.
//!
//! The invariant here: the answer means that the turn's end is on disk; everybody who asks gets one,
//! also the second.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::TurnId;
use turnlane_protocol::method::turn_interrupt::METHOD;
use turnlane_protocol::method::{QueueAfterInterrupt, TurnInterruptAnswer, TurnInterruptParams};
use turnlane_rpc::Responder;
use turnlane_runtime::{AfterInterrupt, Error, Reply};

use crate::connection::Connection;
use crate::errors::{self, About};

/// `turn/interrupt`
pub(crate) async fn interrupt(
    cx: Arc<Connection>,
    params: TurnInterruptParams,
    responder: Responder,
) {
    let about = match checked(&cx, &params).await {
        Ok(about) => about,
        Err(error) => return responder.error(&error),
    };
    let expected = params.turn_id;
    // A text that is no id is the id of no turn; which one runs is for the lane to say.
    let turn = (!expected.is_empty()).then(|| expected.parse());
    let turn = turn.map(|turn| turn.unwrap_or_else(|_| TurnId::new(0)));
    let queue = match params.queue {
        Some(QueueAfterInterrupt::Pause) => AfterInterrupt::Pause,
        Some(QueueAfterInterrupt::Continue) => AfterInterrupt::Continue,
        None => cx.shared().options.on_interrupt,
    };
    let by = cx.client_name().map(str::to_owned);
    let runtime = cx.shared().options.runtime.clone();
    let reply = Reply::new(move |answer: Result<(), Error>| match answer {
        Ok(()) if turn.is_some() => responder.result(&TurnInterruptAnswer {}),
        // Whatever runs was to be stopped, which may be what another worker runs.
        Ok(()) => drop(tokio::spawn(async move {
            match errors::busy_elsewhere(&cx, &about).await {
                Some(refusal) => responder.error(&refusal),
                None => responder.result(&TurnInterruptAnswer {}),
            }
        })),
        Err(Error::OtherTurn { active }) => {
            responder.error(&ErrorObject::stale_interrupt(
                &expected,
                &active.to_string(),
            ));
        }
        Err(error) => errors::refuse(&cx, responder, error, &about),
    });
    // The reply knows it too.
    let _ = runtime
        .interrupt_with(about.thread, turn, queue, by, reply)
        .await;
}

/// Only threads that exist are loaded for this.
async fn checked(cx: &Connection, params: &TurnInterruptParams) -> Result<About, ErrorObject> {
    let about = About {
        method: METHOD,
        thread: errors::thread_id(&params.thread_id)?,
        missing: MissingThread::NotFound,
    };
    super::stored(cx, &about).await?;
    Ok(about)
}
