//! `process/write` and `process/closeStdin`.

use turnlane_process::InputError;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::process::{
    ProcessParams, StatusAnswer, WriteParams, WriteStatus,
};

use super::super::outbox::Responder;
use super::super::session::Session;
use super::ID_BYTES_MAX;
use crate::failure;

/// `process/write`; the future answers when the bytes are queued. `None` if there is nothing to
/// wait for and the answer was given.
pub(crate) fn write(
    session: &Session,
    responder: Responder,
    params: WriteParams,
) -> Result<Option<impl Future<Output = ()> + Send + 'static>, ErrorObject> {
    if params.write_id.is_empty() {
        return Err(failure::invalid_params("writeId must not be empty"));
    }
    if params.write_id.len() > ID_BYTES_MAX {
        let message = format!("writeId must not exceed {ID_BYTES_MAX} bytes");
        return Err(failure::invalid_params(message));
    }
    let Some(entry) = session.find(&params.process_id) else {
        responder.respond(Ok(status(WriteStatus::UnknownProcess)));
        return Ok(None);
    };
    if entry.process().is_none() {
        responder.respond(Ok(status(WriteStatus::Starting)));
        return Ok(None);
    }
    Ok(Some(async move {
        let Some(process) = entry.process() else {
            return;
        };
        let id = Some(params.write_id.as_str());
        let written = entry.input.write(process, id, params.chunk.0).await;
        responder.respond(outcome(written));
    }))
}

/// `process/closeStdin`; waits behind the writes before it.
pub(crate) fn close_stdin(
    session: &Session,
    responder: Responder,
    params: &ProcessParams,
) -> Option<impl Future<Output = ()> + Send + 'static> {
    let Some(entry) = session.find(&params.process_id) else {
        responder.respond(Ok(status(WriteStatus::UnknownProcess)));
        return None;
    };
    if entry.process().is_none() {
        responder.respond(Ok(status(WriteStatus::Starting)));
        return None;
    }
    Some(async move {
        let Some(process) = entry.process() else {
            return;
        };
        responder.respond(outcome(entry.input.close(process).await));
    })
}

fn status(status: WriteStatus) -> StatusAnswer {
    StatusAnswer { status }
}

fn outcome(outcome: Result<(), InputError>) -> Result<StatusAnswer, ErrorObject> {
    match outcome {
        Ok(()) => Ok(status(WriteStatus::Accepted)),
        Err(InputError::StdinClosed) => Ok(status(WriteStatus::StdinClosed)),
        Err(InputError::NotAPipe) => Err(failure::invalid_request(
            "stdin of a terminal cannot be closed",
        )),
    }
}
