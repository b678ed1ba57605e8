//! The service: starts processes, knows them all, and ends them when it stops.

use std::sync::Arc;

use crate::error::{SpawnError, StartError};
use crate::options::Options;
use crate::process::Process;
use crate::report::{Listed, Report};
use crate::spec::Spec;

/// Starts and knows processes. Clones are the same service; dropping the last one ends everything.
#[derive(Clone, Debug)]
pub struct ProcessService {}

/// Counts since the start of the service, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processes started.
    pub spawned: u64,
    /// Bytes read from standard output, standard error and terminals.
    pub output_bytes: [u64; 3],
    /// Processes whose child waits because nobody takes its output.
    pub stalled: usize,
    /// Bytes retained of all processes.
    pub retained_bytes: usize,
    /// Ended leaders by reason, in the order of [`crate::Reason`].
    pub ends: [u64; 5],
    /// Members that could not be killed.
    pub unkillable: u64,
}

impl ProcessService {
    /// Probes the machine, starts the spawning thread and the keeper. Must be called inside a tokio
    /// runtime, on which the drivers then run.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let _ = options;
        todo!()
    }

    /// Starts a process. Cancelled, it leaves nothing behind.
    pub async fn spawn(&self, spec: Spec) -> Result<Process, SpawnError> {
        let _ = spec;
        todo!()
    }

    /// All processes, oldest first: running ones and those whose output is still kept.
    pub fn list(&self) -> Vec<Listed> {
        todo!()
    }

    /// What this machine offers and why something better is absent.
    pub fn report(&self) -> &Report {
        todo!()
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        todo!()
    }

    /// Ends everything gracefully within the grace period and waits for it. New spawns fail. Called
    /// again while it runs: force.
    pub async fn stop(&self) {
        todo!()
    }
}

/// Starts a process on a default service of this program, started by the first call.
pub async fn spawn(spec: Spec) -> Result<Process, SpawnError> {
    let _ = (spec, Arc::new(()));
    todo!()
}
