//! Ids of things that Turnlane names: version 7 UUIDs, one type per thing so that none is mixed up.
//!
//! The invariant here: an id in one of these types is a valid UUID and is written in its usual
//! lower-case form. Any UUID is read, since other servers choose theirs differently; only ids made
//! here are version 7. Items are the exception: models name most of them, so [`ItemId`] is any
//! string.
//!
//! No id is made from a clock of this crate. The caller passes the time it already has, which also
//! makes an id agree with the timestamp stored beside it. Params of requests carry ids as plain
//! strings: what a bad one is answered with depends on the method, so the method parses it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::{Builder, NoContext, Timestamp, Uuid};

/// A text that is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what}: {why}")]
pub struct InvalidId {
    /// Which id was wanted, in words: `thread id`.
    pub what: &'static str,
    /// What is wrong with the text, for callers that name the id otherwise.
    pub why: uuid::Error,
}

macro_rules! uuid_ids {
    ($($(#[$doc:meta])* $name:ident = $what:literal,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id for something made at `unix_ms`, random beyond the millisecond.
            pub fn new(unix_ms: u64) -> Self {
                let (seconds, rest_ms) = (unix_ms / 1000, unix_ms % 1000);
                // Below 1000, so the product fits; `as` would hide that.
                let nanos = u32::try_from(rest_ms).unwrap_or(0) * 1_000_000;
                Self(Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanos)))
            }

            /// The id with this time and these random bits; for replays and tests.
            pub fn at(unix_ms: u64, random: [u8; 10]) -> Self {
                Self(Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid())
            }

            /// An id read back from where it was kept as a UUID.
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// The id as a UUID, for storage.
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Uuid::parse_str(text).map(Self).map_err(|why| InvalidId { what: $what, why })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "format": "uuid"})
            }
        }
    )*};
}

uuid_ids! {
    /// Names a thread for as long as it exists, in every process that shares its store.
    ThreadId = "thread id",
    /// Names a turn; chosen before the turn starts and kept when it waits in a queue.
    TurnId = "turn id",
    /// Names a row of a queue.
    QueuedTurnId = "queued turn id",
    /// Names one run of a Turnlane process.
    WorkerId = "worker id",
    /// Names a decision somebody has to make.
    ApprovalId = "approval id",
}

/// Names an item within its thread; a model's own id is kept as it came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ItemId(String);

impl ItemId {
    /// A new id in the form of the other ids, for items no model has named.
    pub fn new(unix_ms: u64) -> Self {
        Self(TurnId::new(unix_ms).to_string())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ItemId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl From<&str> for ItemId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_made_later_sort_later_and_are_version_7() {
        let early = ThreadId::new(1_767_225_600_123);
        let late = ThreadId::new(1_767_225_600_124);
        assert!(early < late);
        assert_eq!(early.as_uuid().get_version_num(), 7);
        let (seconds, nanos) = early.as_uuid().get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos), (1_767_225_600, 123_000_000));
        assert_ne!(ThreadId::new(5), ThreadId::new(5));
    }

    #[test]
    fn the_same_time_and_bits_make_the_same_id() {
        let id = TurnId::at(1_767_225_600_123, [7; 10]);
        assert_eq!(id.to_string(), "019b76da-a87b-7707-8707-070707070707");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(TurnId::from_uuid(id.as_uuid()), id);
    }

    #[test]
    fn a_bad_id_says_what_was_wanted_and_why() {
        let error = "nope".parse::<ThreadId>().unwrap_err();
        let why = Uuid::parse_str("nope").unwrap_err();
        assert_eq!(error.to_string(), format!("invalid thread id: {why}"));
        assert_eq!(error.why, why);
        assert!("".parse::<ThreadId>().is_err());
    }

    #[test]
    fn any_uuid_is_read() {
        let v4: ThreadId = "F513DB57-0A66-4D2F-B602-5C0B2A7E78AD".parse().unwrap();
        assert_eq!(v4.to_string(), "f513db57-0a66-4d2f-b602-5c0b2a7e78ad");
    }
}
