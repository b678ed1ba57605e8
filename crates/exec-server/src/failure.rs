//! The errors of the wire: codes and words in one place.
//!
//! The words are those clients know from Codex and from the reference design; nothing else may be
//! put into `data` than the kind and the path of a failed start, so that answers stay byte for byte
//! what these clients expect.

use std::io;

use serde_json::json;
use turnlane_process::{SpawnError, SpawnErrorKind};
use turnlane_protocol::error::{
    ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, OVERLOADED,
};
use turnlane_protocol::exec_server::ALREADY_ATTACHED;

/// Nobody serves the method; only `process.v1` says it with this code.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// The id in answers to messages whose own cannot be read.
pub(crate) const UNREADABLE_ID: i64 = -1;

pub(crate) fn invalid_request(message: impl Into<String>) -> ErrorObject {
    ErrorObject::bare(INVALID_REQUEST, message)
}

pub(crate) fn invalid_params(message: impl Into<String>) -> ErrorObject {
    ErrorObject::bare(INVALID_PARAMS, message)
}

pub(crate) fn internal(message: impl Into<String>) -> ErrorObject {
    ErrorObject::bare(INTERNAL_ERROR, message)
}

/// `exec-server.v0`'s word for a method it does not have.
pub(crate) fn unknown_method_v0(name: &str) -> ErrorObject {
    invalid_request(format!("unknown method: {name}"))
}

/// Codex's word for the same.
pub(crate) fn unknown_method_v1(name: &str) -> ErrorObject {
    let message = format!("exec-server stub does not implement `{name}` yet");
    ErrorObject::bare(METHOD_NOT_FOUND, message)
}

pub(crate) fn before_initialize(family: &str) -> ErrorObject {
    invalid_request(format!(
        "client must call initialize before using {family} methods"
    ))
}

pub(crate) fn before_initialized(family: &str) -> ErrorObject {
    invalid_request(format!(
        "client must send initialized before using {family} methods"
    ))
}

pub(crate) fn initialized_twice() -> ErrorObject {
    invalid_request("initialize may only be sent once per connection")
}

pub(crate) fn empty_argv() -> ErrorObject {
    invalid_params("argv must not be empty")
}

pub(crate) fn unknown_session(id: &str) -> ErrorObject {
    invalid_request(format!("unknown session id {id}"))
}

pub(crate) fn attached_elsewhere(id: &str) -> ErrorObject {
    let message = format!("session {id} is already attached to another connection");
    ErrorObject::bare(ALREADY_ATTACHED, message)
}

pub(crate) fn unknown_process(id: &str) -> ErrorObject {
    invalid_request(format!("unknown process id {id}"))
}

pub(crate) fn starting(id: &str) -> ErrorObject {
    invalid_request(format!("process id {id} is starting"))
}

pub(crate) fn exists(id: &str) -> ErrorObject {
    invalid_request(format!("process {id} already exists"))
}

pub(crate) fn start_cancelled(id: &str) -> ErrorObject {
    invalid_request(format!("process {id} start was cancelled"))
}

pub(crate) fn process_limit() -> ErrorObject {
    ErrorObject::bare(OVERLOADED, "process limit reached")
}

pub(crate) fn overloaded() -> ErrorObject {
    ErrorObject::bare(OVERLOADED, "server overloaded; retry later")
}

pub(crate) fn unsupported(name: &str) -> ErrorObject {
    invalid_params(format!("{name} is not supported by this executor"))
}

pub(crate) fn direct_exec_disabled() -> ErrorObject {
    invalid_request("direct exec is disabled on this server")
}

pub(crate) fn prepared_exec_disabled() -> ErrorObject {
    invalid_request("prepared exec is disabled on this server")
}

pub(crate) fn bad_size() -> ErrorObject {
    invalid_params("rows and cols must be 1..10000")
}

/// A sandbox that cannot be enforced, for a reason found before the start.
pub(crate) fn intent(reason: &str) -> ErrorObject {
    invalid_params(format!(
        "sandbox intent cannot be enforced on this executor: {reason}"
    ))
}

/// A start that failed: the system's own text, and which kind about which path.
pub(crate) fn spawn(error: &SpawnError) -> ErrorObject {
    let mut failure = match error.kind {
        SpawnErrorKind::EmptyArgv => return empty_argv(),
        SpawnErrorKind::SandboxUnavailable | SpawnErrorKind::SandboxRefused => {
            intent(&error.to_string())
        }
        SpawnErrorKind::TooManyProcesses if error.os_error.is_none() => return process_limit(),
        SpawnErrorKind::NulByte => internal("nul byte found in provided data"),
        SpawnErrorKind::ProgramNotFound
        | SpawnErrorKind::NotExecutable
        | SpawnErrorKind::CwdNotFound
        | SpawnErrorKind::CwdDenied
        | SpawnErrorKind::TooManyProcesses
        | SpawnErrorKind::ResourceLimit
        | SpawnErrorKind::ContainmentUnavailable
        | SpawnErrorKind::Other => internal(system_text(error)),
    };
    let path = error.path.as_ref().map(|path| path.to_string_lossy());
    failure.data = Some(json!({"kind": error.kind.name(), "path": path}));
    failure
}

/// The text of the error number, as the system has it.
fn system_text(error: &SpawnError) -> String {
    match error.os_error {
        Some(number) => io::Error::from_raw_os_error(number).to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_start_has_the_systems_text_and_our_kind() {
        let error = SpawnError::new(SpawnErrorKind::ProgramNotFound)
            .at("no-such-program")
            .os(2);
        let told = spawn(&error);
        assert_eq!(
            (told.code, told.message.as_str()),
            (-32603, "No such file or directory (os error 2)")
        );
        assert_eq!(
            told.data,
            Some(json!({"kind": "programNotFound", "path": "no-such-program"}))
        );
        let nul = spawn(&SpawnError::new(SpawnErrorKind::NulByte));
        assert_eq!(nul.message, "nul byte found in provided data");
    }

    #[test]
    fn a_refused_sandbox_is_the_callers_error() {
        let told = spawn(&SpawnError::new(SpawnErrorKind::SandboxRefused).at("/w/.git"));
        assert_eq!(told.code, -32602);
        assert!(
            told.message
                .starts_with("sandbox intent cannot be enforced on this executor: "),
            "{}",
            told.message
        );
        assert_eq!(
            told.data,
            Some(json!({"kind": "sandboxRefused", "path": "/w/.git"}))
        );
    }
}
