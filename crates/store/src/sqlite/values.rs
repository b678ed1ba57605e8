//! Single values as SQLite keeps them: ids and words as text, payloads as blobs.
//!
//! The invariant here: what is written is read back as the same value, and a text that we never
//! write is an error that names it, not a guess and not a panic.
//!
//! Whole rows are put together in `rows`.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::fanout::{AttemptOutcome, ItemState, JobNo, JobOwner, JobState};
use crate::ids::{ApprovalId, Fence, RowId, ThreadId, TurnId, WorkerId};
use crate::json::Json;
use crate::lane::{Paused, Waiting};
use crate::queue::{OnCannotStart, OnCrash, OnError, OnLimit, OnStop, RowState};
use crate::turn::TurnStatus;

/// A text in a column that knows only certain words.
#[derive(Debug, thiserror::Error)]
#[error("{word:?} is no {what}")]
struct UnknownWord {
    what: &'static str,
    word: String,
}

macro_rules! id_columns {
    ($($name:ident),*) => {$(
        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.to_string()))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Uuid::try_parse(value.as_str()?)
                    .map(Self::from)
                    .map_err(FromSqlError::other)
            }
        }
    )*};
}

id_columns!(ThreadId, TurnId, RowId, WorkerId, ApprovalId);

macro_rules! word_columns {
    ($($name:ident { $($variant:ident = $word:literal),* })*) => {$(
        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                let word = match self {
                    $(Self::$variant => $word,)*
                };
                Ok(ToSqlOutput::from(word))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                match value.as_str()? {
                    $($word => Ok(Self::$variant),)*
                    other => Err(FromSqlError::other(UnknownWord {
                        what: stringify!($name),
                        word: other.to_owned(),
                    })),
                }
            }
        }
    )*};
}

word_columns! {
    RowState {
        Queued = "queued", Claimed = "claimed", Started = "started", Reconcile = "reconcile",
        Blocked = "blocked", Done = "done", Dead = "dead", Cancelled = "cancelled"
    }
    OnError { Continue = "continue", Block = "block" }
    OnCrash { Block = "block", Continue = "continue", Retry = "retry" }
    OnStop { Continue = "continue", Block = "block", Retry = "retry" }
    OnCannotStart { Block = "block", Continue = "continue" }
    OnLimit { Wait = "wait", Fail = "fail" }
    TurnStatus {
        InProgress = "inProgress", Completed = "completed", Failed = "failed",
        Interrupted = "interrupted"
    }
    JobState {
        Importing = "importing", Ready = "ready", Running = "running", Paused = "paused",
        Cancelling = "cancelling", Succeeded = "succeeded",
        FinishedWithFailures = "finishedWithFailures", Cancelled = "cancelled", Failed = "failed"
    }
    JobOwner { Detached = "detached", Connection = "connection", Turn = "turn" }
    ItemState {
        Pending = "pending", Running = "running", Succeeded = "succeeded", Failed = "failed",
        Skipped = "skipped", Cancelled = "cancelled"
    }
    AttemptOutcome {
        Reported = "reported", Failed = "failed", Lost = "lost", Superseded = "superseded",
        Interrupted = "interrupted"
    }
}

impl ToSql for JobNo {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0))
    }
}

impl FromSql for JobNo {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self)
    }
}

impl ToSql for Fence {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0))
    }
}

impl FromSql for Fence {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self)
    }
}

/// Blobs, since a payload may hold what SQLite's texts cut off: a zero byte.
impl ToSql for Json {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(
            self.as_str().as_bytes(),
        )))
    }
}

impl FromSql for Json {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = std::str::from_utf8(value.as_blob()?).map_err(FromSqlError::other)?;
        Ok(Self::new(text))
    }
}

/// A value of ours that is kept as JSON text.
fn written<T: Serialize>(value: &T) -> rusqlite::Result<ToSqlOutput<'_>> {
    serde_json::to_string(value)
        .map(ToSqlOutput::from)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn parsed<T: DeserializeOwned>(value: ValueRef<'_>) -> FromSqlResult<T> {
    serde_json::from_str(value.as_str()?).map_err(FromSqlError::other)
}

impl ToSql for Paused {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        written(self)
    }
}

impl FromSql for Paused {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        parsed(value)
    }
}

impl ToSql for Waiting {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        written(self)
    }
}

impl FromSql for Waiting {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        parsed(value)
    }
}
