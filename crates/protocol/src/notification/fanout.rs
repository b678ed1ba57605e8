//! Progress and ends of fan-out jobs.

use serde::{Deserialize, Serialize};

use crate::fanout::{Job, JobItem, JobStatus};

/// A job has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FanoutUpdated {
    /// The job, without template, schema and settings.
    pub job: Box<JobStatus>,
}

/// An item has changed, or notifications about items were dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutItemUpdated {
    /// The job.
    pub job_id: String,
    /// The item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Box<JobItem>>,
    /// The number of notifications that were dropped because the client read too slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// A job has ended, or it is paused and none of its items run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FanoutEnded {
    /// The job.
    pub job: Box<Job>,
}
