//! A client of a service in this program: the same handles, no wire between.
//!
//! Calls go straight to the [`Process`]; there is no JSON, no base64 and no task per call, and bytes
//! are handed on as they were read. One task of the client, the pump, takes what processes wrote and
//! hands it to their cells, as the connection does elsewhere. The invariant here: when the client is
//! closed, every containment it owns has been killed before the call returns.

mod pump;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use turnlane_process::{
    End, InputError, Io, Listed, Process, ProcessService, ProcessState, ResizeError, Signal,
    SpawnError, Target, TerminalSize,
};
use turnlane_protocol::error::{INVALID_PARAMS, INVALID_REQUEST};
use turnlane_protocol::exec_server::file_uri;
use turnlane_protocol::exec_server::process as wire;

use super::cell::{Cell, Failure};
use super::core::CLOSED_HERE;
use super::error::ClientError;
use super::events::{Event, Hub, ProcessId};
use super::remote::{Place, RemoteProcess, Snapshot, Started};
use super::start_spec::StartSpec;
use crate::failure;
use pump::Pump;

/// The client's side of a service in this program.
#[derive(Debug)]
pub(super) struct Local {
    service: ProcessService,
    pub(super) hub: Arc<Hub>,
    pump: Arc<Pump>,
    owned: Mutex<Owned>,
    last_number: AtomicU64,
}

/// The processes of the client, by number.
#[derive(Debug, Default)]
struct Owned {
    processes: BTreeMap<u64, Entry>,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    process: Process,
    cell: Arc<Cell>,
    metadata: Option<Value>,
}

/// A process of a service in this program.
#[derive(Debug)]
pub(super) struct LocalProcess {
    process: Process,
    local: Arc<Local>,
    number: u64,
}

impl Local {
    /// Starts the pump; must be called inside a tokio runtime.
    pub(super) fn start(service: &ProcessService) -> Arc<Self> {
        let pump = Arc::new(Pump::default());
        let local = Arc::new(Self {
            service: service.clone(),
            hub: Arc::new(Hub::default()),
            pump: Arc::clone(&pump),
            owned: Mutex::default(),
            last_number: AtomicU64::new(0),
        });
        tokio::spawn(pump::run(pump, Arc::downgrade(&local)));
        local
    }

    pub(super) async fn spawn(
        self: &Arc<Self>,
        spec: &StartSpec,
    ) -> Result<RemoteProcess, ClientError> {
        let process = self.service.spawn(spec.to_spec()?).await;
        let process = process.map_err(|error| spawn_failed(&error))?;
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let id = ProcessId::new(&format!("p{number}"));
        let cell = Cell::new(id, spec.io, Arc::clone(&self.hub), None);
        let cell = Arc::new(cell);
        {
            let mut owned = self.lock();
            if owned.is_closed {
                process.end(End::Force);
                return Err(ClientError::closed(CLOSED_HERE));
            }
            let entry = Entry {
                process: process.clone(),
                cell: Arc::clone(&cell),
                metadata: spec.metadata.clone(),
            };
            owned.processes.insert(number, entry);
        }
        self.pump.add(number, &process, &cell)?;
        let info = process.info();
        let started = Started {
            pid: Some(info.pid),
            containment: Some(info.containment.name().to_owned()),
            is_sandboxed: Some(info.sandbox.is_enforced()),
        };
        let place = Place::Local(LocalProcess {
            process,
            local: Arc::clone(self),
            number,
        });
        Ok(RemoteProcess::new(cell, place).started_as(started))
    }

    pub(super) fn list(&self) -> Vec<wire::ListedProcess> {
        let owned = self.lock();
        let entries = owned.processes.values();
        entries
            .map(|entry| listed(entry, &entry.process.listed()))
            .collect()
    }

    /// Kills everything, then tells everybody.
    pub(super) fn close(&self) {
        let mut owned = self.lock();
        owned.is_closed = true;
        let processes = std::mem::take(&mut owned.processes);
        drop(owned);
        for entry in processes.values() {
            entry.process.end(End::Force);
        }
        for entry in processes.values() {
            entry.cell.fail(Failure::Closed(CLOSED_HERE.to_owned()));
        }
        self.hub.publish(&Event::Disconnected {
            reason: CLOSED_HERE.to_owned(),
        });
        self.hub.end();
        self.pump.close();
    }

    /// Everything was told. What left nobody behind needs no owner any more.
    fn told_all(&self, number: u64) {
        let mut owned = self.lock();
        let entry = owned.processes.get(&number);
        if entry.is_some_and(|entry| entry.process.listed().survivors == 0) {
            owned.processes.remove(&number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalProcess {
    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) async fn write(&self, bytes: Bytes) -> Result<(), ClientError> {
        self.process.write(bytes).await.map_err(input_failed)
    }

    pub(super) fn close_stdin(&self) -> Result<(), ClientError> {
        match self.process.close_stdin() {
            Ok(()) | Err(InputError::StdinClosed) => Ok(()),
            Err(error @ InputError::NotAPipe) => Err(input_failed(error)),
        }
    }

    pub(super) fn resize(&self, id: &ProcessId, size: TerminalSize) -> Result<(), ClientError> {
        self.process.resize(size).map_err(|error| match error {
            ResizeError::BadSize => ClientError::rpc(INVALID_PARAMS, error.to_string()),
            ResizeError::NotATerminal => {
                ClientError::rpc(INVALID_REQUEST, format!("process {id} has no terminal"))
            }
        })
    }

    pub(super) fn signal(&self, signal: Signal, target: Target) -> bool {
        self.process.signal(signal, target)
    }

    /// As over the wire: once the leader has exited, what outlived it is left alone.
    pub(super) fn end(&self, end: End) -> bool {
        self.process.listed().state == ProcessState::Running && self.process.end(end)
    }

    pub(super) fn end_survivors(&self) {
        self.process.end_survivors();
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let picture = self.process.snapshot();
        Snapshot {
            stdout: picture.stdout,
            stderr: picture.stderr,
            terminal: picture.terminal,
            truncated: picture.truncated,
            running: picture.running,
            exit_code: picture.status.map(|status| status.code),
            size: picture.size,
        }
    }

    /// The handle is gone: forces the end, of survivors too.
    pub(super) fn abandon(&self) {
        self.process.end(End::Force);
        self.local.lock().processes.remove(&self.number);
    }
}

fn input_failed(error: InputError) -> ClientError {
    match error {
        InputError::StdinClosed => ClientError::StdinClosed,
        InputError::NotAPipe => ClientError::rpc(INVALID_REQUEST, error.to_string()),
    }
}

/// In the words a server would use.
fn spawn_failed(error: &SpawnError) -> ClientError {
    failure::spawn(error).into()
}

fn listed(entry: &Entry, listed: &Listed) -> wire::ListedProcess {
    let sandbox_type = if listed.info.sandbox.is_enforced() {
        "linuxSeccomp"
    } else {
        "none"
    };
    wire::ListedProcess {
        process_id: entry.cell.id.as_str().to_owned(),
        pid: listed.info.pid,
        argv0: listed.argv0.to_string_lossy().into_owned(),
        cwd: file_uri::from_path(&listed.cwd),
        tty: matches!(listed.io, Io::Pty(_)),
        started_at_ms: listed.info.started_at_ms,
        state: match listed.state {
            ProcessState::Running => wire::ProcessState::Running,
            ProcessState::Exited => wire::ProcessState::Exited,
            ProcessState::Closed => wire::ProcessState::Closed,
        },
        exit_code: listed.status.map(|status| status.code),
        survivors: listed.survivors as u64,
        total_bytes: listed.total_bytes,
        undelivered_bytes: listed.undelivered_bytes,
        containment: listed.info.containment.name().to_owned(),
        sandbox_type: sandbox_type.to_owned(),
        metadata: entry.metadata.clone(),
    }
}
