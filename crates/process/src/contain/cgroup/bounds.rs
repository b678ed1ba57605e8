//! Limits of a whole containment, and the controllers they need.
//!
//! A limit is applied or refused by the name of its controller, never dropped. What a child limits by
//! itself is in its plan.

use crate::error::{SpawnError, SpawnErrorKind};

/// What of a request concerns its cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::contain) struct Bounds {
    pub(in crate::contain) memory_max: Option<u64>,
    pub(in crate::contain) pids_max: Option<u64>,
}

impl Bounds {
    /// The controllers these need, with the file and the value of each.
    pub(super) fn needed(self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let memory = self.memory_max.map(|max| ("memory", "memory.max", max));
        let pids = self.pids_max.map(|max| ("pids", "pids.max", max));
        memory.into_iter().chain(pids)
    }

    /// Names of the controllers these need.
    pub(in crate::contain) fn controllers(self) -> impl Iterator<Item = String> {
        self.needed()
            .map(|(controller, _, _)| controller.to_owned())
    }

    /// These, and `others` where these say nothing.
    pub(in crate::contain) fn or(self, others: Self) -> Self {
        Self {
            memory_max: self.memory_max.or(others.memory_max),
            pids_max: self.pids_max.or(others.pids_max),
        }
    }

    /// Those of these that `holds`, asked with file and value.
    pub(super) fn filter(self, holds: impl Fn(&str, u64) -> bool) -> Self {
        let memory = self.memory_max.filter(|max| holds("memory.max", *max));
        let pids = self.pids_max.filter(|max| holds("pids.max", *max));
        Self {
            memory_max: memory,
            pids_max: pids,
        }
    }

    /// The error of a containment that cannot limit anything.
    pub(in crate::contain) fn refuse(self) -> Result<(), SpawnError> {
        match self.needed().next() {
            Some((controller, _, _)) => Err(missing(controller)),
            None => Ok(()),
        }
    }
}

/// The error of a limit whose controller is not there.
pub(super) fn missing(controller: &str) -> SpawnError {
    let detail = format!("the cgroup controller `{controller}` is not available");
    SpawnError::new(SpawnErrorKind::ResourceLimit).because(detail)
}
