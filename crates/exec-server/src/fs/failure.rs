//! Why a file call fails, and which code says so on the wire.
//!
//! The system's own text is the message wherever the system refused: clients compare it. A policy's
//! refusal reads like the system's.

use std::borrow::Cow;
use std::io;

use rustix::io::Errno;
use turnlane_protocol::error::{ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST};
use turnlane_protocol::exec_server::NOT_FOUND;
use turnlane_protocol::exec_server::file_uri::FileUriError;

pub(super) type Result<T> = std::result::Result<T, Failure>;

/// Why a file call fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The system, or a policy in its words.
    #[error("{0}")]
    Os(io::Error),
    /// What was resolved and checked is not there any more; trying again may find out more.
    #[error("{0}")]
    Moved(io::Error),
    /// The caller asks for what is not done.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// There is no handle of that name.
    #[error("unknown file read handle `{0}`")]
    NoHandle(String),
    /// A bound of ours.
    #[error("{0}")]
    Internal(Cow<'static, str>),
    /// The params do not fit.
    #[error("{0}")]
    Params(serde_json::Error),
    /// A path that names no local file.
    #[error("{0}")]
    Uri(FileUriError),
    /// A policy that cannot be read.
    #[error("sandbox intent cannot be enforced on this executor: {0}")]
    Intent(String),
}

impl Failure {
    /// Whether nothing is there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Os(error) | Self::Moved(error)
            if error.kind() == io::ErrorKind::NotFound)
    }

    /// A failure of the system that means another world than the one that was checked.
    pub(super) fn moved(error: Errno) -> Self {
        match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::EXIST => Self::Moved(error.into()),
            other => other.into(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Os(error)
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Self::Os(error.into())
    }
}

impl From<Failure> for ErrorObject {
    fn from(failure: Failure) -> Self {
        let code = match &failure {
            Failure::Os(error) | Failure::Moved(error) => match error.kind() {
                io::ErrorKind::NotFound => NOT_FOUND,
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => INVALID_REQUEST,
                _ => INTERNAL_ERROR,
            },
            Failure::Invalid(_) => INVALID_REQUEST,
            Failure::NoHandle(_) => NOT_FOUND,
            Failure::Internal(_) => INTERNAL_ERROR,
            Failure::Params(error) => return Self::bare_params(error),
            Failure::Uri(_) | Failure::Intent(_) => INVALID_PARAMS,
        };
        Self::bare(code, failure.to_string())
    }
}
