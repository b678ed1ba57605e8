//! The methods of `exec-server.v0`: start, write, terminate.
//!
//! Params are decoded before the handshake is looked at, by the caller; the order of the checks here
//! is that of the contract. The names of processes are ours and are forgotten when the exit is on its
//! way to the client.

use std::ffi::OsString;
use std::sync::Arc;

use turnlane_process::{End, EnvPolicy, EnvSpec, Inherit, Io, Spec, Stdin, TerminalSize};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::file_uri;
use turnlane_protocol::exec_server::process::TerminateAnswer;
use turnlane_protocol::exec_server::v0::{
    ExecAnswer, ExecParams, TerminateParams, WriteAnswer, WriteParams,
};

use super::Shared;
use super::entry::{Asked, Entry, Standing};
use super::outbox::Responder;
use super::session::Session;
use super::start;
use crate::failure;

/// `command/exec`; the future answers.
pub(crate) fn exec(
    shared: &Arc<Shared>,
    session: &Arc<Session>,
    responder: Responder,
    params: ExecParams,
) -> Result<impl Future<Output = ()> + Send + 'static, ErrorObject> {
    if !shared.options.allow_direct_exec {
        return Err(failure::direct_exec_disabled());
    }
    let Some(argv0) = params.argv.first().cloned() else {
        return Err(failure::empty_argv());
    };
    // An absolute path replaces ours.
    let cwd = shared.cwd.join(&params.cwd);
    let asked = Asked {
        argv0,
        cwd: file_uri::from_path(&cwd),
        tty: params.tty,
        metadata: None,
    };
    let claim = session
        .claim_next(asked)
        .map_err(|error| start::claim_failure(error, ""))?;
    let mut spec = Spec::new(params.argv, cwd);
    spec.arg0 = params.arg0.map(OsString::from);
    spec.env = EnvSpec {
        policy: EnvPolicy {
            inherit: Inherit::None,
            ..EnvPolicy::default()
        },
        vars: params
            .env
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
    };
    spec.io = if params.tty {
        Io::Pty(TerminalSize::default())
    } else {
        Io::Pipe {
            stdin: Stdin::Closed,
        }
    };
    let shared = Arc::clone(shared);
    Ok(async move {
        match start::launch(&shared, claim, spec).await {
            Err(error) => responder.fail(&error),
            Ok(entry) => {
                responder.respond(Ok(ExecAnswer {
                    session_id: entry.id.to_string(),
                }));
                if entry.ends_at_start()
                    && let Some(process) = entry.process()
                {
                    process.end(End::Force);
                }
                entry.tell();
            }
        }
    })
}

/// The process a client means: its name is known until its exit was told.
fn find(session: &Session, id: &str) -> Option<Arc<Entry>> {
    session.find(id).filter(|entry| !entry.is_exit_told())
}

/// `command/exec/write`; the future answers when the bytes are queued.
pub(crate) fn write(
    session: &Session,
    responder: Responder,
    params: WriteParams,
) -> Result<impl Future<Output = ()> + Send + 'static, ErrorObject> {
    let id = params.session_id;
    let entry = find(session, &id).ok_or_else(|| failure::unknown_session(&id))?;
    if !entry.asked.tty {
        return Err(failure::invalid_request(format!(
            "stdin is closed for session {id}"
        )));
    }
    Ok(async move {
        // A write that came before the process was there waits for it.
        let written = match entry.process() {
            None if !entry.input.opened().await => Err(failure::unknown_session(&id)),
            _ => write_started(&entry, params.chunk.0).await,
        };
        responder.respond(written);
    })
}

async fn write_started(entry: &Entry, bytes: bytes::Bytes) -> Result<WriteAnswer, ErrorObject> {
    let failed = || failure::internal("failed to write to process stdin");
    let process = entry.process().ok_or_else(failed)?;
    let written = entry.input.write(process, None, bytes).await;
    written
        .map(|()| WriteAnswer { accepted: true })
        .map_err(|_closed| failed())
}

/// `command/exec/terminate`: by force, never an error.
pub(crate) fn terminate(session: &Session, params: &TerminateParams) -> TerminateAnswer {
    let Some(entry) = find(session, &params.session_id) else {
        return TerminateAnswer { running: false };
    };
    if let Standing::Starting = entry.standing() {
        entry.end_at_start();
    }
    // Also if it started just now.
    if let Some(process) = entry.process() {
        process.end(End::Force);
    }
    TerminateAnswer { running: true }
}
