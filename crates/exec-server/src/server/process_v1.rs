//! The methods of `process.v1` about processes: Codex's and our extensions.
//!
//! What can be answered at once is a plain function; what may wait for a child is a future that
//! answers by itself. Terminate, signal and resize are of the first kind, whatever else is under way.

mod input;
mod look;
mod read;
mod start;

use std::sync::Arc;
use std::time::Duration;

use turnlane_process::{End, Process, ResizeError, Signal, Target, TerminalSize};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::process::{
    self, ResizeParams, SignalAnswer, SignalParams, Survivors, TerminateAnswer, TerminateMode,
    TerminateParams,
};

pub(crate) use input::{close_stdin, write};
pub(crate) use look::{list, snapshot, wait};
pub(crate) use read::read;
pub(crate) use start::start;

use super::entry::{Entry, Standing};
use super::session::Session;
use crate::failure;

/// The longest name a client may give.
const ID_BYTES_MAX: usize = 256;

/// A terminal has at most this many rows and columns.
const SIZE_MAX: u32 = 10_000;

/// A process that exists, or the error that it does not (yet).
fn started(session: &Session, id: &str) -> Result<Arc<Entry>, ErrorObject> {
    let entry = session
        .find(id)
        .ok_or_else(|| failure::unknown_process(id))?;
    match entry.standing() {
        Standing::Starting => Err(failure::starting(id)),
        Standing::Started(_) => Ok(entry),
    }
}

/// The process of an entry that [`started`] found.
fn process_of(entry: &Entry) -> Result<&Process, ErrorObject> {
    entry.process().ok_or_else(|| failure::starting(&entry.id))
}

fn size(size: process::Size) -> Result<TerminalSize, ErrorObject> {
    let within = |count: u32| {
        (1..=SIZE_MAX)
            .contains(&count)
            .then(|| u16::try_from(count).ok())
            .flatten()
            .ok_or_else(failure::bad_size)
    };
    Ok(TerminalSize {
        rows: within(size.rows)?,
        cols: within(size.cols)?,
    })
}

/// `process/terminate`
pub(crate) fn terminate(session: &Session, params: &TerminateParams) -> TerminateAnswer {
    let Some(entry) = session.find(&params.process_id) else {
        return TerminateAnswer { running: false };
    };
    let process = match entry.standing() {
        Standing::Starting => {
            entry.start_cancelled.cancel();
            return TerminateAnswer { running: true };
        }
        Standing::Started(process) => process,
    };
    // Whoever outlived the leader was left there on purpose: Codex sends a terminate after every
    // normal exit.
    if !entry.is_running() {
        if params.survivors == Some(Survivors::End) {
            process.end_survivors();
        }
        return TerminateAnswer { running: false };
    }
    let end = match params.mode {
        None | Some(TerminateMode::Force) => End::Force,
        Some(TerminateMode::Graceful {
            interrupt_ms,
            timeout_ms,
        }) => End::Graceful {
            interrupt: Duration::from_millis(interrupt_ms),
            term: Duration::from_millis(timeout_ms),
        },
    };
    TerminateAnswer {
        running: process.end(end),
    }
}

/// `process/signal`
pub(crate) fn signal(session: &Session, params: &SignalParams) -> SignalAnswer {
    let signal = match params.signal {
        process::Signal::Interrupt => Signal::Interrupt,
        process::Signal::Terminate => Signal::Terminate,
        process::Signal::Kill => Signal::Kill,
        process::Signal::Hangup => Signal::Hangup,
        process::Signal::Quit => Signal::Quit,
        process::Signal::Usr1 => Signal::Usr1,
        process::Signal::Usr2 => Signal::Usr2,
        process::Signal::Stop => Signal::Stop,
        process::Signal::Continue => Signal::Continue,
    };
    let target = match params.target {
        None | Some(process::Target::Group) => Target::Group,
        Some(process::Target::Leader) => Target::Leader,
        Some(process::Target::All) => Target::All,
    };
    let entry = session.find(&params.process_id);
    let delivered = entry
        .as_deref()
        .and_then(Entry::process)
        .is_some_and(|process| process.signal(signal, target));
    SignalAnswer {
        delivered: Some(delivered),
    }
}

/// `process/resize`
pub(crate) fn resize(
    session: &Session,
    params: &ResizeParams,
) -> Result<serde_json::Map<String, serde_json::Value>, ErrorObject> {
    let to = size(process::Size {
        rows: params.rows,
        cols: params.cols,
    })?;
    let id = &params.process_id;
    let entry = started(session, id)?;
    process_of(&entry)?
        .resize(to)
        .map_err(|error| match error {
            ResizeError::BadSize => failure::bad_size(),
            ResizeError::NotATerminal => {
                failure::invalid_request(format!("process {id} has no terminal"))
            }
        })?;
    Ok(serde_json::Map::new())
}
