//! Ids on both sides: the wire's, which clients see, and the store's, which it keeps.
//!
//! The invariant here: both are the same UUID. Conversions are here so that nothing else names a
//! UUID.

use turnlane_protocol::ids as wire;
use turnlane_store as store;

/// The store's name of a thread.
pub(crate) fn thread(id: wire::ThreadId) -> store::ThreadId {
    id.as_uuid().into()
}

/// The wire's name of a thread.
pub(crate) fn wire_thread(id: store::ThreadId) -> wire::ThreadId {
    wire::ThreadId::from_uuid(id.as_uuid())
}

/// The wire's name of a turn.
pub(crate) fn wire_turn(id: store::TurnId) -> wire::TurnId {
    wire::TurnId::from_uuid(id.as_uuid())
}

/// The store's name of a turn.
pub(crate) fn turn(id: wire::TurnId) -> store::TurnId {
    id.as_uuid().into()
}

/// The wire's name of a queued turn.
pub(crate) fn wire_row(id: store::RowId) -> wire::QueuedTurnId {
    wire::QueuedTurnId::from_uuid(id.as_uuid())
}

/// A new turn.
pub(crate) fn new_turn(now_ms: i64) -> store::TurnId {
    wire::TurnId::new(unsigned(now_ms)).as_uuid().into()
}

/// A new row.
pub(crate) fn new_row(now_ms: i64) -> store::RowId {
    wire::QueuedTurnId::new(unsigned(now_ms)).as_uuid().into()
}

/// A new approval.
pub(crate) fn new_approval(now_ms: i64) -> wire::ApprovalId {
    wire::ApprovalId::new(unsigned(now_ms))
}

/// A new item.
pub(crate) fn new_item(now_ms: i64) -> wire::ItemId {
    wire::ItemId::new(unsigned(now_ms))
}

/// Ids are made from times after 1970.
fn unsigned(now_ms: i64) -> u64 {
    u64::try_from(now_ms).unwrap_or(0)
}
