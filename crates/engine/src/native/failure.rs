//! What a failed model call means: its word, its text, and whether trying again can help.
//!
//! The invariant here: a [`Failure`] is made from its cause alone. The same answer at the same
//! time gives the same failure, and no key is in any of its texts.
//!
//! How often and when a call is made again is decided by [`retry`](super::retry), what a failed
//! turn means for its lane by [`limits`](crate::limits).

use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};

use super::redact::Redactor;
use crate::limits::kind_of;
use crate::outcome::EngineError;

mod calendar;
mod omissions;
mod rows;
mod said;
mod wait;

#[cfg(test)]
mod tests;

pub use calendar::Now;
pub(crate) use calendar::rfc3339;
pub use omissions::{Learned, Learning, Omission};

/// What went wrong in a model call, or before the first one.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    /// The provider answered with a status other than 2xx.
    Answer {
        /// The status.
        status: u16,
        /// The headers of the answer.
        headers: &'a HeaderMap,
        /// The body, or its first 64 KiB.
        body: &'a [u8],
    },
    /// The provider answered 2xx with something that is neither a stream nor JSON.
    NotAStream {
        /// The status.
        status: u16,
        /// The headers of the answer.
        headers: &'a HeaderMap,
    },
    /// The stream says that the response failed.
    Event {
        /// The whole event; its error stands on `response`, on the event, or is the event.
        event: &'a Value,
        /// The headers of the answer whose stream it is.
        headers: &'a HeaderMap,
    },
    /// The provider ended the response early.
    Incomplete {
        /// The provider's word for why.
        reason: &'a str,
        /// The headers of the answer whose stream it is.
        headers: &'a HeaderMap,
    },
    /// There is no answer, or no end of it.
    Transport {
        /// What broke.
        fault: Fault,
        /// What the library said.
        text: &'a str,
    },
    /// The key of the provider is not set.
    MissingKey {
        /// The variable that should hold it.
        variable: &'a str,
        /// What the configuration says on how to get one.
        instructions: Option<&'a str>,
    },
    /// The sandbox of the turn cannot be enforced.
    SandboxUnenforceable {
        /// What is missing.
        text: &'a str,
    },
    /// The folder of the turn is not there.
    CwdMissing {
        /// The folder.
        cwd: &'a str,
    },
    /// The turn has called the model as often as it may.
    RoundLimit {
        /// How often that is.
        rounds_max: u32,
    },
}

/// Where a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The name of the host is not known.
    Dns,
    /// No connection.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// The proxy refused or failed.
    Proxy,
    /// The encrypted connection was not made.
    Tls,
    /// The certificate of the host is not valid; it will not be at the next try either.
    Certificate,
    /// The connection ended, or stayed silent for too long, before the headers of an answer.
    BeforeHeaders,
    /// The stream ended before the response did.
    Cut,
    /// The stream was silent for too long.
    Idle,
    /// An event or the response is larger than is accepted.
    TooLarge,
    /// The framing of the body is broken.
    Framing,
}

impl Fault {
    fn is_stream(self) -> bool {
        match self {
            Self::Dns
            | Self::Connect
            | Self::ConnectTimeout
            | Self::Proxy
            | Self::Tls
            | Self::Certificate
            | Self::BeforeHeaders => false,
            Self::Cut | Self::Idle | Self::TooLarge | Self::Framing => true,
        }
    }
}

/// What a classification needs to know besides the cause.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The model that was asked.
    pub model: &'a str,
    /// What time it is.
    pub now: Now,
    /// Takes the keys out of the provider's texts.
    pub redactor: &'a Redactor,
}

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It cannot.
    Never,
    /// It can; counted with the failures before the header of an answer.
    Request,
    /// It can; counted with the failures after it.
    Stream,
    /// It can once the history is shorter.
    Compact,
}

/// A failed model call: the engine error of the contract, and whether to try again.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The word that lanes act on; derived from `info` where that has one.
    pub kind: ErrorKind,
    /// The word of Codex.
    pub info: CodexErrorInfo,
    /// The text for people, without keys.
    pub message: String,
    /// The status of the answer, if there was one that failed.
    pub http_status: Option<u16>,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// When the allowance is there again, in seconds since 1970.
    pub resets_at: Option<i64>,
    /// The provider's name for the request.
    pub request_id: Option<String>,
    /// How many requests were made for this model call; 0 when none was.
    pub attempts: u32,
    /// Whether trying again can help.
    pub again: Again,
    /// When trying again makes sense, in seconds since 1970.
    pub retry_at: Option<i64>,
}

impl Failure {
    fn new(info: CodexErrorInfo, message: impl Into<String>, again: Again) -> Self {
        Self {
            kind: kind_of(&info),
            info,
            message: message.into(),
            http_status: None,
            retry_after: None,
            resets_at: None,
            request_id: None,
            attempts: 0,
            again,
            retry_at: None,
        }
    }

    /// The members that have a place of their own on no wire, as one text; none: nothing is known.
    pub fn details(&self) -> Option<String> {
        let mut members = Vec::new();
        if let Some(status) = self.http_status {
            members.push(format!("http_status={status}"));
        }
        if let Some(wait) = self.retry_after {
            members.push(format!("retry_after_ms={}", wait.as_millis()));
        }
        if let Some(at) = self.resets_at {
            members.push(format!("resets_at={}", rfc3339(at)));
        }
        if let Some(id) = &self.request_id {
            members.push(format!("request_id={id}"));
        }
        if self.attempts > 0 {
            members.push(format!("attempts={}", self.attempts));
        }
        (!members.is_empty()).then(|| members.join("; "))
    }

    /// The error that ends the turn.
    pub fn error(&self) -> EngineError {
        let mut error = TurnError::new(self.message.clone(), self.info.clone(), self.kind.clone());
        error.additional_details = self.details();
        error.retry_at = self.retry_at;
        error
    }

    /// The error that is shown before try `n` of `max`.
    pub fn reconnecting(&self, n: u32, max: u32) -> EngineError {
        EngineError {
            message: format!("Reconnecting... {n}/{max}"),
            ..self.error()
        }
    }
}

/// What a cause means.
///
/// The first row of the contract's table that fits decides, codes before statuses.
pub fn classify(cause: Cause<'_>, around: Around<'_>) -> Failure {
    match cause {
        Cause::Answer {
            status,
            headers,
            body,
        } => rows::answer(status, headers, body, around),
        Cause::NotAStream { status, headers } => rows::not_a_stream(status, headers, around),
        Cause::Event { event, headers } => rows::event(event, headers, around),
        Cause::Incomplete { reason, headers } => rows::incomplete(reason, headers, around),
        Cause::Transport { fault, text } => rows::transport(fault, text, around),
        Cause::MissingKey {
            variable,
            instructions,
        } => {
            let mut message = format!("Missing environment variable: `{variable}`.");
            if let Some(instructions) = instructions {
                message.push(' ');
                message.push_str(instructions);
            }
            Failure::new(CodexErrorInfo::Unauthorized, message, Again::Never)
        }
        Cause::SandboxUnenforceable { text } => {
            Failure::new(CodexErrorInfo::SandboxError, text, Again::Never)
        }
        Cause::CwdMissing { cwd } => Failure::new(
            CodexErrorInfo::BadRequest,
            format!("cwd is not a directory: {cwd}"),
            Again::Never,
        ),
        Cause::RoundLimit { rounds_max } => Failure::new(
            CodexErrorInfo::Other,
            format!("turn stopped after {rounds_max} model calls (native.max_rounds)"),
            Again::Never,
        ),
    }
}
