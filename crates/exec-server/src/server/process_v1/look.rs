//! `process/list`, `process/snapshot` and `process/wait`: looking at processes without touching
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use turnlane_process::{Io, Listed, ProcessState, Snapshot, StreamSnapshot, Until};
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::process::{
    self, ListAnswer, ListedProcess, ProcessParams, Size, SnapshotAnswer, StreamCounts, StreamName,
    WaitAnswer, WaitParams,
};
use turnlane_protocol::exec_server::{Blob, file_uri};

use super::super::encode;
use super::super::entry::Entry;
use super::super::outbox::Responder;
use super::super::session::Session;
use super::start::sandbox_type;
use super::{process_of, started};

/// `process/list`
pub(crate) fn list(session: &Session) -> ListAnswer {
    let entries = session.entries();
    ListAnswer {
        processes: entries.iter().map(|entry| listed(entry)).collect(),
    }
}

fn listed(entry: &Entry) -> ListedProcess {
    let Some(process) = entry.process() else {
        return starting(entry);
    };
    let Listed {
        info: about,
        argv0,
        cwd,
        io,
        state,
        status,
        survivors,
        undelivered_bytes,
        total_bytes,
        ..
    } = process.listed();
    ListedProcess {
        process_id: entry.id.to_string(),
        pid: about.pid,
        argv0: argv0.to_string_lossy().into_owned(),
        cwd: file_uri::from_path(&cwd),
        tty: matches!(io, Io::Pty(_)),
        started_at_ms: about.started_at_ms,
        state: match state {
            ProcessState::Running => process::ProcessState::Running,
            ProcessState::Exited => process::ProcessState::Exited,
            ProcessState::Closed => process::ProcessState::Closed,
        },
        exit_code: status.map(|status| status.code),
        survivors: survivors as u64,
        total_bytes,
        undelivered_bytes,
        containment: about.containment.name().to_owned(),
        sandbox_type: sandbox_type(&about.sandbox).to_owned(),
        metadata: entry.asked.metadata.clone(),
    }
}

/// Nothing is known of it but what was asked for; the pid 0 is nobody's.
fn starting(entry: &Entry) -> ListedProcess {
    ListedProcess {
        process_id: entry.id.to_string(),
        pid: 0,
        argv0: entry.asked.argv0.clone(),
        cwd: entry.asked.cwd.clone(),
        tty: entry.asked.tty,
        started_at_ms: 0,
        state: process::ProcessState::Starting,
        exit_code: None,
        survivors: 0,
        total_bytes: 0,
        undelivered_bytes: 0,
        containment: String::new(),
        sandbox_type: String::new(),
        metadata: entry.asked.metadata.clone(),
    }
}

/// `process/snapshot`
pub(crate) fn snapshot(
    session: &Session,
    params: &ProcessParams,
) -> Result<SnapshotAnswer, ErrorObject> {
    let entry = started(session, &params.process_id)?;
    let Snapshot {
        stdout,
        stderr,
        terminal,
        truncated,
        running,
        status,
        size,
        ..
    } = process_of(&entry)?.snapshot();
    let streams = if entry.asked.tty {
        BTreeMap::from([(StreamName::Pty, counts(&terminal))])
    } else {
        BTreeMap::from([
            (StreamName::Stdout, counts(&stdout)),
            (StreamName::Stderr, counts(&stderr)),
        ])
    };
    Ok(SnapshotAnswer {
        stdout: whole(stdout),
        stderr: whole(stderr),
        terminal: whole(terminal),
        truncated,
        exit_code: status.map(|status| status.code),
        running,
        size: size.map(|size| Size {
            rows: size.rows.into(),
            cols: size.cols.into(),
        }),
        streams,
    })
}

fn counts(stream: &StreamSnapshot) -> StreamCounts {
    StreamCounts {
        head_bytes: stream.head.len() as u64,
        total_bytes: stream.total_bytes,
        omitted_bytes: stream.omitted_bytes,
    }
}

/// Head directly followed by tail.
fn whole(stream: StreamSnapshot) -> Blob {
    let StreamSnapshot { head, tail, .. } = stream;
    if tail.is_empty() {
        return Blob(head);
    }
    let mut bytes = BytesMut::with_capacity(head.len() + tail.len());
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(&tail);
    Blob(Bytes::from(bytes))
}

/// `process/wait`; the future answers at the end of the process or of its time.
pub(crate) fn wait(
    session: &Session,
    responder: Responder,
    params: &WaitParams,
) -> Result<impl Future<Output = ()> + Send + 'static, ErrorObject> {
    let entry = started(session, &params.process_id)?;
    let until = match params.until {
        None | Some(process::Until::Exited) => Until::Exited,
        Some(process::Until::Closed) => Until::Closed,
    };
    let time_max = params.timeout_ms.map(Duration::from_millis);
    Ok(async move {
        let Some(process) = entry.process() else {
            return;
        };
        let status = process.wait(until, time_max).await;
        let now = process.listed();
        responder.respond(Ok(WaitAnswer {
            done: status.is_some(),
            exit_code: status.map(|status| status.code),
            signal: status.and_then(|status| status.signal),
            reason: status.map(|status| encode::reason(status.reason)),
            closed: now.state == ProcessState::Closed,
            survivors: now.survivors as u64,
        }));
    })
}
