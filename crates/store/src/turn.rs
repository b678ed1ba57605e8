//! Turns, their items and the entries of the model's history.
//!
//! The invariant here: a turn that is in progress belongs to exactly one row that is started or
//! being decided. Items and entries are numbered by the lane when they begin, so their order does
//! not depend on when they are written.
//!
//! Deltas are not stored at all.

use crate::approval::{ApprovalAsked, ApprovalResolved};
use crate::ids::{Grip, RowId, ThreadId, TurnId};
use crate::json::Json;
use crate::lane::{LaneView, Paused, Waiting};
use crate::queue::{Accepting, ClaimedRow, Fate, NewRow, Repeated, Row};
use crate::thread::{Direction, ThreadRow};

/// Where a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnStatus {
    /// Accepted and not ended.
    InProgress,
    /// It came to its end.
    Completed,
    /// It could not go on.
    Failed,
    /// It was stopped, or its worker died.
    Interrupted,
}

/// A turn as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// Its number within the thread.
    pub ord: i64,
    /// The turn.
    pub id: TurnId,
    /// The row it came from.
    pub row: Option<RowId>,
    /// Which try of its row it is, from 1.
    pub attempt: u32,
    /// Who asked for it.
    pub source: String,
    /// Where it stands.
    pub status: TurnStatus,
    /// Readable, but not part of what the model is sent.
    pub muted: bool,
    /// Why it failed or was cut off.
    pub error: Option<Json>,
    /// What it has used.
    pub usage: Option<Json>,
    /// When it was accepted, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it ended.
    pub completed_ms: Option<i64>,
}

/// An item as it is stored: complete, with its number within the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemRow {
    /// Its number within the thread.
    pub ord: i64,
    /// The number of its turn.
    pub turn_ord: i64,
    /// Its id.
    pub id: String,
    /// Its type, in the wire's word.
    pub kind: String,
    /// The whole item.
    pub body: Json,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it ended.
    pub completed_ms: i64,
}

/// An entry of the model's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryRow {
    /// Its number within the thread.
    pub ord: i64,
    /// The number of its turn.
    pub turn_ord: i64,
    /// The turn's id; read back, not stored twice.
    pub turn: TurnId,
    /// `user`, `output`, `toolOutput`, `note` or [`EntryRow::COMPACTION`].
    pub kind: String,
    /// Who served the model.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The item it belongs to.
    pub item_id: Option<String>,
    /// The calls or answers inside, as the engine wrote them.
    pub call_ids: Option<String>,
    /// What the model is sent.
    pub items: Json,
}

impl EntryRow {
    /// The kind that replaces everything before it.
    pub const COMPACTION: &'static str = "compaction";
}

/// The first item of a turn: what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstItem {
    /// Its id.
    pub id: String,
    /// Its type, in the wire's word.
    pub kind: String,
    /// The whole item.
    pub body: Json,
}

/// What a row becomes when it is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// What was said; none for a turn without a message.
    pub item: Option<FirstItem>,
    /// The thread's settings from this turn on, if it changes them.
    pub settings: Option<Json>,
    /// The thread's directory from this turn on, if it changes it.
    pub cwd: Option<String>,
    /// The first user text, shortened; kept if the thread has none yet.
    pub preview: Option<String>,
}

/// A turn that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedTurn {
    /// What its writes need.
    pub grip: Grip,
    /// Its row.
    pub row: Row,
    /// The turn.
    pub turn: TurnRow,
    /// What was said.
    pub item: Option<ItemRow>,
    /// The number of its next item.
    pub next_item_ord: i64,
    /// The number of its next entry.
    pub next_entry_ord: i64,
    /// Its thread, with the settings of this turn.
    pub thread: ThreadRow,
    /// Whether the turn has changed the settings.
    pub settings_changed: bool,
    /// The lane in the same transaction.
    pub lane: LaneView,
}

/// How the acceptance of a claimed row, or of a row together with its claim, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Its turn has begun.
    Begun(Box<AcceptedTurn>),
    /// It could not be started, and was dealt with.
    CannotStart(Box<Refused>),
    /// It is claimed and not decided: it is longer than [`Accepting::up_to`] says.
    Claimed(Box<ClaimedRow>),
}

/// A row that could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The row as it is now.
    pub row: Row,
    /// The failed turn that was recorded, if one was.
    pub turn: Option<TurnRow>,
    /// The lane in the same transaction.
    pub lane: LaneView,
}

/// A turn asked for directly.
#[derive(Clone, Debug)]
pub struct StartTurn {
    /// The thread.
    pub thread: ThreadId,
    /// The row it is: born started, or queued behind others.
    pub row: NewRow,
    /// What it becomes.
    pub accepting: Accepting,
    /// What to do when it cannot begin at once.
    pub when_busy: WhenBusy,
    /// For how long the keys of ended rows are remembered.
    pub key_window_ms: i64,
    /// Now.
    pub at_ms: i64,
}

/// What to do with a direct turn that cannot begin at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    /// Refuse it; rows that wait are passed by.
    Refuse,
    /// Add it to the queue, also when rows wait.
    Queue,
}

/// How a direct turn was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It has begun.
    Begun(Box<AcceptedTurn>),
    /// It waits.
    Queued(Box<crate::lane::Changed<Row>>),
    /// It could not be started; nothing of it is stored unless a turn is named.
    CannotStart(Box<Refused>),
    /// Another turn is under way.
    Busy(Box<LaneView>),
    /// The key was there with the same content.
    Repeated(Box<Repeated>),
}

/// What a turn has produced since the last write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// Items that have ended.
    pub items: Vec<ItemRow>,
    /// Entries for the model's history.
    pub entries: Vec<EntryRow>,
    /// What the thread has used.
    pub thread_usage: Option<Json>,
    /// What the engine keeps between turns.
    pub engine_state: Option<Json>,
    /// Approvals that were asked for.
    pub asked: Vec<ApprovalAsked>,
    /// Approvals that were decided.
    pub resolved: Vec<ApprovalResolved>,
}

impl Put {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a write waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// It survives the loss of power.
    Durable,
    /// It survives `kill -9`, and the next durable write makes it durable.
    Visible,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// Never in progress.
    pub status: TurnStatus,
    /// Why it failed or was cut off.
    pub error: Option<Json>,
    /// What it has used.
    pub usage: Option<Json>,
    /// Readable, but not part of what the model is sent.
    pub muted: bool,
}

/// A turn that is recorded and ended in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTurn {
    /// What it would have become.
    pub accept: Accept,
    /// How it ended.
    pub end: TurnEnd,
}

/// The end of a turn, of its row's way, and of the lane's occupation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// What the write needs.
    pub grip: Grip,
    /// The row.
    pub row: RowId,
    /// The number of its turn.
    pub turn_ord: i64,
    /// How it ended.
    pub end: TurnEnd,
    /// What was not written yet.
    pub put: Put,
    /// What becomes of the row.
    pub fate: Fate,
    /// What the lane waits for from now on.
    pub waiting: WaitingChange,
    /// What becomes of the lane's pause.
    pub pause: PauseChange,
    /// Whether the lane stays ours.
    pub keep: Keep,
    /// Now.
    pub at_ms: i64,
}

/// What becomes of a lane's wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingChange {
    /// Nothing.
    Keep,
    /// It begins, or begins anew.
    Begin(Waiting),
    /// It ends.
    End,
}

/// What becomes of a lane's pause when a turn ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PauseChange {
    /// Nothing.
    Keep,
    /// It begins, unless the lane is paused already.
    Begin {
        /// The pause.
        paused: Paused,
        /// In which case it begins.
        when: PauseWhen,
    },
    /// A pause for this reason ends; any other stays.
    End {
        /// The reason.
        reason: String,
    },
}

/// In which case a pause begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseWhen {
    /// If rows wait behind the turn; a pause of an empty queue would hold rows that nobody has
    /// added yet.
    RowsWait,
    /// In any case.
    Always,
    /// In any case, and in place of a pause that has this reason.
    InPlaceOf(&'static str),
}

/// Whether a lane stays ours when it becomes idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It does.
    Ours,
    /// It becomes nobody's if no row waits.
    UnlessIdle,
}

/// A part of a thread's turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnQuery {
    /// The thread.
    pub thread: ThreadId,
    /// Beyond this number, in the given direction.
    pub after_ord: Option<i64>,
    /// Which way.
    pub direction: Direction,
    /// How many at most.
    pub limit: u32,
}

/// A part of a thread's items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemQuery {
    /// The thread.
    pub thread: ThreadId,
    /// Only those of this turn.
    pub turn_ord: Option<i64>,
    /// Beyond this number, in the given direction.
    pub after_ord: Option<i64>,
    /// Which way.
    pub direction: Direction,
    /// How many at most.
    pub limit: u32,
}

/// What the model is sent: the entries from the last compaction on, without muted turns, and user
/// messages that never became entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The entries, oldest first.
    pub entries: Vec<EntryRow>,
    /// Messages of the same turns that have no entry of kind `user`, oldest first.
    pub unrecorded: Vec<Unrecorded>,
}

/// Where a history that was read before ends; all turns in it had ended by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryEnd {
    /// The number of its last entry.
    pub ord: i64,
    /// The turn of that entry.
    pub turn: TurnId,
    /// The number of the first turn of which nothing is in it.
    pub next_turn_ord: i64,
}

/// What came behind a history that was read before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Later {
    /// The known part holds; only what stands behind it.
    Behind(History),
    /// Turns were taken back or a compaction replaced them: everything.
    Anew(History),
}

/// A message that has no entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// Its turn.
    pub turn: TurnId,
    /// The item.
    pub item: ItemRow,
}
