//! What the model wrote when it called.
//!
//! The invariant here: arguments that are not what the tool offers are an error text for the model,
//! members nobody knows are ignored, and numbers are brought into their bounds.
//!
//! What the arguments mean in this turn is worked out by the sibling `command`.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Arguments of `exec_command`.
#[derive(Debug, Deserialize)]
pub(crate) struct Arguments {
    pub(crate) cmd: String,
    pub(crate) workdir: Option<String>,
    pub(crate) tty: Option<bool>,
    pub(crate) yield_time_ms: Option<f64>,
    pub(crate) max_output_tokens: Option<f64>,
    pub(crate) sandbox_permissions: Option<SandboxPermissions>,
    pub(crate) justification: Option<String>,
    pub(crate) prefix_rule: Option<Vec<String>>,
    pub(crate) login: Option<bool>,
    pub(crate) shell: Option<String>,
}

/// Where the model wants the command to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SandboxPermissions {
    UseDefault,
    RequireEscalated,
}

impl Arguments {
    /// The directory that was named; empty: the turn's.
    pub(crate) fn folder(&self) -> &str {
        self.workdir.as_deref().unwrap_or_default()
    }
}

/// Reads the arguments of a tool, or says to the model why not.
pub(crate) fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, String> {
    T::deserialize(arguments).map_err(|why| format!("failed to parse function arguments: {why}"))
}

/// A time the model named, within bounds.
pub(crate) fn milliseconds(named: Option<f64>, default: u64, bounds: (u64, u64)) -> Duration {
    let named = named.map_or(default, whole);
    Duration::from_millis(named.clamp(bounds.0, bounds.1))
}

/// How many tokens the model wants, at most the limit.
pub(crate) fn tokens(named: Option<f64>, limit: u64) -> u64 {
    named.map_or(limit, whole).min(limit)
}

/// Models write numbers as they like; what is no natural number becomes the nearest one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}
