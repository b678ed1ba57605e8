//! The handlers of `command/exec*` and `process/*`.
//!
//! The invariant here: a handler ends as soon as what it asks for is under way, because the next
//! request about the same name waits for it; what takes time goes on in a task with the responder.
//!
//! What is refused and why is in `plan` and, letter for letter, in the protocol crate.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use turnlane_process::{End, InputError, ProcessState, ResizeError};
use turnlane_protocol::error::{ErrorObject, ProcessFamily};
use turnlane_protocol::exec_server::Blob;
use turnlane_protocol::method::{
    CommandExecAnswer, CommandExecParams, CommandExecResizeParams, CommandExecTerminateParams,
    CommandExecWriteParams, Done, ProcessKillParams, ProcessResizePtyParams, ProcessSpawnParams,
    ProcessWriteStdinParams, TerminalSize,
};
use turnlane_protocol::notification::{ProcessExited, method};
use turnlane_rpc::Responder;

use super::plan::{self, InputUse, Plan};
use super::relay::{Listener, relay};
use super::{Live, Name, Place};
use crate::connection::Connection;

/// What ends the input of a terminal: an end of file at the beginning of a line.
const TERMINAL_EOF: &[u8] = b"\n\x04";

/// `command/exec`: answered when the command has ended, after everything that is told of it.
pub(crate) async fn exec(cx: Arc<Connection>, params: CommandExecParams, responder: Responder) {
    const FAMILY: ProcessFamily = ProcessFamily::CommandExec;
    let prepared = Plan::of_command(&cx, &params).and_then(|plan| {
        let given = params.process_id.as_deref().map(|id| (FAMILY, id));
        Ok((plan, Place::take(&cx, given)?))
    });
    let (plan, place) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return responder.error(&error),
    };
    let process = match cx.shared().options.service.spawn(plan.spec).await {
        Ok(process) => process,
        Err(error) => {
            drop(place);
            return responder.error(&plan::refusal(FAMILY, &error));
        }
    };
    let live = place.fill(process, plan.input);
    tokio::spawn(async move {
        let listener = Listener {
            cx: &cx,
            family: FAMILY,
            id: params.process_id.as_deref().unwrap_or_default(),
        };
        let ended = relay(listener, &live, plan.output).await;
        // First the name is free and everything ended, then it is said.
        drop(place);
        drop(live);
        responder.result(&CommandExecAnswer {
            exit_code: ended.code,
            stdout: ended.stdout.into_text(),
            stderr: ended.stderr.into_text(),
        });
    });
}

/// `process/spawn`: answered when the process has started; the rest is told.
pub(crate) async fn spawn(cx: Arc<Connection>, params: ProcessSpawnParams, responder: Responder) {
    const FAMILY: ProcessFamily = ProcessFamily::Process;
    let prepared = Plan::of_process(&cx, &params).and_then(|plan| {
        let place = Place::take(&cx, Some((FAMILY, &params.process_handle)))?;
        Ok((plan, place))
    });
    let (plan, place) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return responder.error(&error),
    };
    let process = match cx.shared().options.service.spawn(plan.spec).await {
        Ok(process) => process,
        Err(error) => {
            drop(place);
            return responder.error(&plan::refusal(FAMILY, &error));
        }
    };
    let live = place.fill(process, plan.input);
    responder.result(&Done {});
    tokio::spawn(async move {
        let listener = Listener {
            cx: &cx,
            family: FAMILY,
            id: &params.process_handle,
        };
        let ended = relay(listener, &live, plan.output).await;
        drop(place);
        drop(live);
        let exited = ProcessExited {
            process_handle: params.process_handle,
            exit_code: ended.code,
            output_drain_timed_out: Some(ended.drain_timed_out),
            stdout_cap_reached: ended.stdout.cap_reached,
            stderr_cap_reached: ended.stderr.cap_reached,
            stdout: ended.stdout.into_text(),
            stderr: ended.stderr.into_text(),
        };
        cx.notify(method::PROCESS_EXITED, &exited, None);
    });
}

/// `command/exec/write`
pub(crate) async fn write(
    cx: Arc<Connection>,
    params: CommandExecWriteParams,
    responder: Responder,
) {
    let CommandExecWriteParams {
        process_id,
        delta_base64,
        close_stdin,
    } = params;
    let input = Sent::read(ProcessFamily::CommandExec, delta_base64, close_stdin);
    put(
        &cx,
        ProcessFamily::CommandExec,
        process_id,
        input,
        responder,
    )
    .await;
}

/// `process/writeStdin`
pub(crate) async fn write_stdin(
    cx: Arc<Connection>,
    params: ProcessWriteStdinParams,
    responder: Responder,
) {
    let ProcessWriteStdinParams {
        process_handle,
        delta_base64,
        close_stdin,
    } = params;
    let input = Sent::read(ProcessFamily::Process, delta_base64, close_stdin);
    put(
        &cx,
        ProcessFamily::Process,
        process_handle,
        input,
        responder,
    )
    .await;
}

/// `command/exec/resize`
pub(crate) async fn resize(
    cx: Arc<Connection>,
    params: CommandExecResizeParams,
) -> Result<Done, ErrorObject> {
    let family = ProcessFamily::CommandExec;
    set_size(&cx, family, &params.process_id, params.size)
}

/// `process/resizePty`
pub(crate) async fn resize_pty(
    cx: Arc<Connection>,
    params: ProcessResizePtyParams,
) -> Result<Done, ErrorObject> {
    let family = ProcessFamily::Process;
    set_size(&cx, family, &params.process_handle, params.size)
}

/// `command/exec/terminate`
pub(crate) async fn terminate(
    cx: Arc<Connection>,
    params: CommandExecTerminateParams,
) -> Result<Done, ErrorObject> {
    end(&cx, ProcessFamily::CommandExec, &params.process_id)
}

/// `process/kill`
pub(crate) async fn kill(
    cx: Arc<Connection>,
    params: ProcessKillParams,
) -> Result<Done, ErrorObject> {
    end(&cx, ProcessFamily::Process, &params.process_handle)
}

fn find(cx: &Connection, family: ProcessFamily, id: &str) -> Result<Arc<Live>, ErrorObject> {
    let name = Name::Given(family, id.to_owned());
    let live = cx.commands().live(&name);
    live.ok_or_else(|| ErrorObject::process_not_found(family, id))
}

fn set_size(
    cx: &Connection,
    family: ProcessFamily,
    id: &str,
    size: TerminalSize,
) -> Result<Done, ErrorObject> {
    let size = plan::terminal_size(family, size)?;
    let live = find(cx, family, id)?;
    match live.process.resize(size) {
        Ok(()) => Ok(Done {}),
        Err(ResizeError::NotATerminal) => Err(ErrorObject::not_a_terminal()),
        Err(ResizeError::BadSize) => Err(ErrorObject::empty_terminal(family)),
    }
}

fn end(cx: &Connection, family: ProcessFamily, id: &str) -> Result<Done, ErrorObject> {
    let live = find(cx, family, id)?;
    // Also when its leader has exited: what it left behind still holds the output.
    live.process.end(End::Force);
    Ok(Done {})
}

/// What a client sends to a process's input.
struct Sent {
    bytes: Bytes,
    last: Last,
}

/// Whether something is the last input of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

impl Sent {
    fn read(
        family: ProcessFamily,
        delta_base64: Option<String>,
        close_stdin: bool,
    ) -> Result<Self, ErrorObject> {
        let bytes = match delta_base64 {
            None if !close_stdin => return Err(ErrorObject::nothing_to_write(family)),
            None => Bytes::new(),
            Some(text) => {
                let decoded = Blob::decode(&text);
                decoded.map_err(|why| ErrorObject::invalid_base64(&why))?.0
            }
        };
        let last = if close_stdin { Last::Yes } else { Last::No };
        Ok(Self { bytes, last })
    }
}

/// Puts input into its order and answers when it is taken. While the process does not read, that
/// may take long, and must not keep a kill that follows from being done.
async fn put(
    cx: &Connection,
    family: ProcessFamily,
    id: String,
    input: Result<Sent, ErrorObject>,
    responder: Responder,
) {
    let prepared = input.and_then(|input| Ok((find(cx, family, &id)?, input)));
    let (live, Sent { bytes, last }) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return responder.error(&error),
    };
    {
        let mut state = live.input();
        match *state {
            InputUse::None => return responder.error(&ErrorObject::stdin_not_streamed(family)),
            InputUse::Closed => return responder.error(&ErrorObject::stdin_closed()),
            InputUse::Open if last == Last::Yes => *state = InputUse::Closed,
            InputUse::Open => {}
        }
    }
    let written = async move {
        let outcome = send(&live, bytes, last).await;
        let is_over = live.process.listed().state != ProcessState::Running;
        drop(live);
        match outcome {
            Ok(()) => responder.result(&Done {}),
            Err(InputError::StdinClosed | InputError::NotAPipe) if is_over => {
                responder.error(&ErrorObject::process_ended(family, &id));
            }
            Err(InputError::StdinClosed | InputError::NotAPipe) => {
                responder.error(&ErrorObject::stdin_closed());
            }
        }
    };
    begin(Box::pin(written)).await;
}

async fn send(live: &Live, bytes: Bytes, last: Last) -> Result<(), InputError> {
    let process = &live.process;
    if !bytes.is_empty() {
        process.write(bytes).await?;
    }
    if last == Last::No {
        return Ok(());
    }
    match process.close_stdin() {
        Ok(()) => Ok(()),
        Err(InputError::NotAPipe) => process.write(Bytes::from_static(TERMINAL_EOF)).await,
        Err(InputError::StdinClosed) => Err(InputError::StdinClosed),
    }
}

/// Runs `work` up to where it first waits, which is where input has its place in the order; the rest
/// goes on by itself.
async fn begin(mut work: Pin<Box<dyn Future<Output = ()> + Send>>) {
    let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx)));
    if first.await.is_pending() {
        tokio::spawn(work);
    }
}
