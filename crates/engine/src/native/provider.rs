//! Providers of the Responses API: how they are configured, and what a turn makes of that.
//!
//! The invariant here: a [`Provider`] is what the configuration says, checked, without looking at
//! the environment; [`Provider::resolve`] adds the keys, once per turn. A key is a [`Secret`] from
//! the moment it is read and cannot be shown by accident.
//!
//! Configuration files are read and joined elsewhere, connections are made elsewhere; only
//! [`KeyFile::read`] touches a file.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::failure::{Around, Cause, Now, classify};
use super::redact::Redactor;
use super::retry::RetryLimits;
use crate::outcome::EngineError;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};

mod base_url;
mod keys;
mod read;
mod resolve;
mod secret;

#[cfg(test)]
mod tests;

pub use base_url::BaseUrl;
pub use keys::{Environment, KeyFile};
pub use resolve::{Header, QueryParam, Resolved};
pub use secret::Secret;

/// A provider as it is configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// Its key in `model_providers`.
    pub id: String,
    /// Its name for messages.
    pub name: String,
    /// Where its requests go.
    pub base_url: BaseUrl,
    /// The variables that may hold its key, the first that is set wins; none: it needs no key.
    pub key_variables: Vec<String>,
    /// What a person is told whose key is missing.
    pub env_key_instructions: Option<String>,
    /// A key that stands in the configuration itself.
    pub bearer_token: Option<Secret>,
    /// Headers with their values.
    pub http_headers: Vec<Header>,
    /// Headers with the variables of their values.
    pub env_http_headers: Vec<EnvHeader>,
    /// What is added to every address.
    pub query_params: Vec<QueryParam>,
    /// How often and how long it is tried.
    pub limits: Limits,
    /// Request fields that are never sent to it.
    pub drop: BTreeSet<String>,
    /// Which reasoning of earlier turns it gets.
    pub reasoning_replay: ReasoningReplay,
    /// Whether it takes images.
    pub image_input: bool,
}

/// A header whose value stands in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvHeader {
    /// Its name, in lower case.
    pub name: String,
    /// The variable.
    pub variable: String,
}

/// How often and how long a provider is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `request_max_retries`.
    pub request_max_retries: u32,
    /// `stream_max_retries`.
    pub stream_max_retries: u32,
    /// `stream_idle_timeout_ms`: the longest silence, also before the headers.
    pub stream_idle_timeout: Duration,
    /// `connect_timeout_ms`.
    pub connect_timeout: Duration,
    /// `max_retry_wait_ms`.
    pub max_retry_wait: Duration,
}

impl Limits {
    /// Those that are counted per model call.
    pub fn retries(&self) -> RetryLimits {
        RetryLimits {
            request_max: self.request_max_retries,
            stream_max: self.stream_max_retries,
            wait_max: self.max_retry_wait,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_max_retries: 4,
            stream_max_retries: 5,
            stream_idle_timeout: Duration::from_mins(5),
            connect_timeout: Duration::from_secs(10),
            max_retry_wait: Duration::from_mins(1),
        }
    }
}

/// Which reasoning of earlier turns a provider gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningReplay {
    /// What it encrypted itself.
    #[default]
    Encrypted,
    /// None.
    None,
}

/// Why a provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No provider has this id.
    #[error("Model provider `{id}` not found")]
    NotFound {
        /// The id.
        id: String,
    },
    /// A key of the configuration has a value that is not possible.
    #[error("{key}: {problem}")]
    Invalid {
        /// The key with everything above it: `model_providers.x.base_url`.
        key: String,
        /// What is wrong; never the value, which may be a secret.
        problem: String,
    },
    /// The provider signs its requests in a way that only Codex itself can.
    #[error(
        "{key}: not supported by the engine `native`; use the engine `codex` for this provider"
    )]
    Unsupported {
        /// The key with everything above it.
        key: String,
    },
    /// The variable with the provider's key is not set, or blank.
    #[error("Missing environment variable: `{variable}`.{}", spaced(instructions.as_deref()))]
    MissingKey {
        /// The variable.
        variable: String,
        /// What the configuration says on how to get a key.
        instructions: Option<String>,
    },
    /// A variable holds something that cannot be sent as a header.
    #[error("the value of the environment variable `{variable}` cannot be sent as a header")]
    UnusableKey {
        /// The variable.
        variable: String,
    },
    /// Others may read the file with the keys.
    #[error("{file} has mode {mode:04o}, but keys are only read from a file of mode 0600")]
    KeyFileMode {
        /// The file.
        file: String,
        /// Its mode.
        mode: u32,
    },
    /// The file with the keys cannot be read.
    #[error("cannot read {file}")]
    KeyFileUnreadable {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of the file with the keys is not `NAME=value`.
    #[error("{file}:{line}: {problem}")]
    KeyFileLine {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there; never the line itself.
        problem: &'static str,
    },
}

impl Error {
    /// The error of the turn that this ends before its first model call.
    pub fn turn_error(&self) -> EngineError {
        match self {
            Self::MissingKey {
                variable,
                instructions,
            } => {
                let cause = Cause::MissingKey {
                    variable,
                    instructions: instructions.as_deref(),
                };
                let around = Around {
                    model: "",
                    now: Now { unix_ms: 0 },
                    redactor: &Redactor::default(),
                };
                classify(cause, around).error()
            }
            Self::UnusableKey { .. }
            | Self::KeyFileMode { .. }
            | Self::KeyFileUnreadable { .. }
            | Self::KeyFileLine { .. } => TurnError::new(
                self.to_string(),
                CodexErrorInfo::Unauthorized,
                ErrorKind::Auth,
            ),
            Self::NotFound { .. } | Self::Invalid { .. } | Self::Unsupported { .. } => {
                TurnError::new(
                    self.to_string(),
                    CodexErrorInfo::BadRequest,
                    ErrorKind::BadRequest,
                )
            }
        }
    }
}

fn spaced(text: Option<&str>) -> String {
    text.map(|text| format!(" {text}")).unwrap_or_default()
}

/// The warnings that were shown already; one for the life of the process.
#[derive(Debug, Default)]
pub struct Warned {
    shown: Mutex<BTreeSet<String>>,
}

impl Warned {
    /// Those of the warnings that were not shown before; the second time there are none.
    pub fn fresh<'a>(&self, warnings: &'a [String]) -> Vec<&'a str> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = warnings.iter().filter(|text| shown.insert((*text).clone()));
        fresh.map(String::as_str).collect()
    }
}
