//! Ids as the store keeps them, and the numbers that order and guard things.
//!
//! The invariant here: one type per thing, so that none is mixed up with another. The store neither
//! makes nor reads anything into an id; whoever calls chooses it and its time order.
//!
//! The wire has ids of its own; the runtime, which knows both sides, converts them.

use std::fmt;

use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// The id as a UUID.
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
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
    )*};
}

ids! {
    /// Names a thread and its lane.
    ThreadId,
    /// Names a turn; unique within its thread only, since forks copy turns and keep their ids.
    TurnId,
    /// Names a queued turn; unique within its thread.
    RowId,
    /// Names one run of one process.
    WorkerId,
    /// Names an approval.
    ApprovalId,
}

/// How often a lane was claimed or changed its owner; it only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub i64);

/// What a worker must hold to write to a lane: it is still the owner, and nothing was claimed or
/// taken over since.
///
/// A write with a grip that is out of date changes nothing and ends with
/// [`StoreError::Fenced`](crate::StoreError::Fenced).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grip {
    /// The lane.
    pub thread: ThreadId,
    /// The lane's fence as the worker knows it.
    pub fence: Fence,
}
