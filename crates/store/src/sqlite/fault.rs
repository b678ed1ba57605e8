//! What stops an operation while it runs: a refusal of ours, or an error of the driver.
//!
//! The invariant here: a driver's error is carried whole, so that the writer can find a full disk
//! in it, and only where an operation is submitted does it learn what was being tried.
//!
//! What is done about a failed batch is the writer's business.

use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::error::StoreError;

/// What stops an operation.
#[derive(Debug)]
pub(super) enum Fault {
    /// The request does not fit what is stored.
    Refused(StoreError),
    /// SQLite, or a row that is not as the schema promises.
    Driver(rusqlite::Error),
}

impl Fault {
    /// The error for the caller; `doing` is a verb phrase.
    pub(super) fn while_trying_to(self, doing: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Driver(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) =>
            {
                let source = Arc::new(error);
                StoreError::Damaged { doing, source }
            }
            Self::Driver(error) => StoreError::failed(doing)(error),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Driver(error)
    }
}
