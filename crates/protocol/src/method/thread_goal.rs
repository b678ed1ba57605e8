//! `thread/goal/*`: what a thread is meant to reach.

use serde::{Deserialize, Serialize};

use crate::ids::ThreadId;

/// Shows it.
pub const GET: &str = "thread/goal/get";
/// Changes it.
pub const SET: &str = "thread/goal/set";
/// Takes it away.
pub const CLEAR: &str = "thread/goal/clear";

/// What a thread is meant to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoal {
    /// The thread.
    pub thread_id: ThreadId,
    /// The goal, in words.
    pub objective: String,
    /// How far it is.
    pub status: ThreadGoalStatus,
    /// How many tokens it may cost.
    pub token_budget: Option<i64>,
    /// How many it has cost.
    pub tokens_used: i64,
    /// How long it was worked on.
    pub time_used_seconds: i64,
    /// Seconds since 1970.
    pub created_at: i64,
    /// Seconds since 1970.
    pub updated_at: i64,
}

/// How far a goal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ThreadGoalStatus {
    /// It is worked on.
    Active,
    /// Somebody has stopped it.
    Paused,
    /// Something stands in its way.
    Blocked,
    /// The provider's limit is reached.
    UsageLimited,
    /// Its own budget is used up.
    BudgetLimited,
    /// It is reached.
    Complete,
}

/// Who changes a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum GoalOrigin {
    /// A person.
    User,
    /// A program.
    Automatic,
}

/// Params of [`GET`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalGetParams {
    /// The thread.
    pub thread_id: String,
}

/// The answer to [`GET`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadGoalGetAnswer {
    /// The goal, if it has one.
    pub goal: Option<ThreadGoal>,
}

/// Params of [`SET`]; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalSetParams {
    /// The thread.
    pub thread_id: String,
    /// The goal, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ThreadGoalStatus>,
    /// How many tokens it may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<i64>,
    /// Who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<GoalOrigin>,
}

/// The answer to [`SET`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadGoalSetAnswer {
    /// The goal as it is now.
    pub goal: ThreadGoal,
}

/// Params of [`CLEAR`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalClearParams {
    /// The thread.
    pub thread_id: String,
    /// Who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<GoalOrigin>,
}

/// The answer to [`CLEAR`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadGoalClearAnswer {
    /// Whether there was one.
    pub cleared: bool,
}
