//! Threads as they are stored: what lists sort and filter by in columns, the rest opaque.
//!
//! The invariant here: a thread has exactly one lane, made and deleted with it.
//!
//! What the opaque parts mean is known to the runtime and the engines.

use crate::ids::{ThreadId, TurnId};
use crate::json::Json;
use crate::lane::LaneView;
use crate::queue::Rewriting;
use crate::turn::{EntryRow, ItemRow, TurnRow};

/// A thread to be made, with an empty lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewThread {
    /// The thread.
    pub id: ThreadId,
    /// The name of the engine that runs its turns.
    pub engine: String,
    /// What its next turn is run with.
    pub settings: Json,
    /// What is shown of it and is in no column.
    pub facts: Json,
    /// What people call it.
    pub name: Option<String>,
    /// Its working directory.
    pub cwd: String,
    /// What kind of program made it.
    pub source: String,
    /// Who serves its model.
    pub provider: String,
    /// The thread it was forked from or works for.
    pub parent: Option<ThreadId>,
    /// The name it is found by.
    pub binding: Option<String>,
    /// Whether lists show it before its first turn.
    pub listed: Listed,
    /// How many rows may wait in its lane.
    pub max_depth: u32,
    /// Now, in milliseconds since 1970.
    pub at_ms: i64,
}

/// The thread that a binding leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundThread {
    /// It was there before; nothing was made.
    Existing(ThreadRow),
    /// It was made.
    Made(ThreadRow),
}

/// A thread that takes over the binding and the waiting rows of another.
#[derive(Clone, Debug)]
pub struct Supersede {
    /// The thread that holds the binding of `new`.
    pub old: ThreadId,
    /// The thread to be made.
    pub new: NewThread,
    /// Makes the params of a row in the new lane out of those it had in the old one.
    pub params: Rewriting,
}

/// A thread that has taken over from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The new thread.
    pub thread: ThreadRow,
    /// Its lane, with the rows that have moved.
    pub lane: LaneView,
}

/// Whether lists show a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// At once.
    Yes,
    /// From its first turn with a user message on.
    FromFirstTurn,
}

/// A thread as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// The thread.
    pub id: ThreadId,
    /// The name of the engine that runs its turns.
    pub engine: String,
    /// What its next turn is run with.
    pub settings: Json,
    /// What is shown of it and is in no column.
    pub facts: Json,
    /// What its engine keeps between turns.
    pub engine_state: Option<Json>,
    /// What it has used.
    pub usage: Option<Json>,
    /// What people call it.
    pub name: Option<String>,
    /// The first user text, shortened.
    pub preview: String,
    /// Its working directory.
    pub cwd: String,
    /// What kind of program made it.
    pub source: String,
    /// Who serves its model.
    pub provider: String,
    /// The thread it was forked from or works for.
    pub parent: Option<ThreadId>,
    /// The name it is found by.
    pub binding: Option<String>,
    /// Whether it is put away.
    pub archived: bool,
    /// When it was made, in milliseconds since 1970, as all times here.
    pub created_ms: i64,
    /// When it last changed.
    pub updated_ms: i64,
    /// When something was last said on it.
    pub recency_ms: i64,
}

/// A change of a thread; what is none stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadChange {
    /// The thread.
    pub thread: ThreadId,
    /// What its next turn is run with.
    pub settings: Option<Json>,
    /// What is shown of it and is in no column.
    pub facts: Option<Json>,
    /// What people call it.
    pub name: Option<Option<String>>,
    /// Refused if the settings are others than these; for changes of a part of them.
    pub settings_were: Option<Json>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Puts it away, or takes it back; refused if it is so already.
    pub archived: Option<bool>,
    /// Now.
    pub at_ms: i64,
}

impl ThreadChange {
    /// Nothing but a new time of change.
    pub fn of(thread: ThreadId, at_ms: i64) -> Self {
        Self {
            thread,
            settings: None,
            settings_were: None,
            facts: None,
            name: None,
            cwd: None,
            archived: None,
            at_ms,
        }
    }
}

/// A copy of a thread's history under a new id; queued turns are not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Whose history.
    pub from: ThreadId,
    /// How much of it.
    pub upto: UpTo,
    /// The new thread; lists show it at once if somebody said something in what is copied.
    pub to: NewThread,
}

/// How much of a history is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpTo {
    /// All turns that have ended.
    LastEnded,
    /// Those up to this one, which must have ended.
    Turn(TurnId),
    /// Those before this one, which must have ended.
    Before(TurnId),
}

/// A copy of a thread's history on its way from one store into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCopy {
    /// What the thread had used.
    pub usage: Option<Json>,
    /// The first user text, shortened.
    pub preview: String,
    /// The turns, oldest first.
    pub turns: Vec<TurnRow>,
    /// Their items.
    pub items: Vec<ItemRow>,
    /// Their entries.
    pub entries: Vec<EntryRow>,
}

/// What threads to list, in which order, from where on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadQuery {
    /// Those put away, or the others.
    pub archived: bool,
    /// Only those made by these kinds of program; all when empty.
    pub sources: Vec<String>,
    /// None of those made by these kinds of program.
    pub not_sources: Vec<String>,
    /// None of these.
    pub excluded: Vec<ThreadId>,
    /// Only those of these providers; all when empty.
    pub providers: Vec<String>,
    /// Only those in these directories; all when empty.
    pub cwds: Vec<String>,
    /// Only those with this parent.
    pub parent: Option<ThreadId>,
    /// Only those whose name or preview holds this text, whatever the case.
    pub search: Option<String>,
    /// What to sort by.
    pub sort: ThreadSort,
    /// Which way.
    pub direction: Direction,
    /// Goes on behind this place.
    pub after: Option<ThreadPlace>,
    /// Begins at this place, with the thread that is there; `after` goes first.
    pub at: Option<ThreadPlace>,
    /// How many at most.
    pub limit: u32,
}

impl Default for ThreadQuery {
    fn default() -> Self {
        Self {
            archived: false,
            sources: Vec::new(),
            not_sources: Vec::new(),
            excluded: Vec::new(),
            providers: Vec::new(),
            cwds: Vec::new(),
            parent: None,
            search: None,
            sort: ThreadSort::Created,
            direction: Direction::Descending,
            after: None,
            at: None,
            limit: 25,
        }
    }
}

/// What threads are sorted by; equal times by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadSort {
    /// When they were made.
    Created,
    /// When they last changed.
    Updated,
    /// When something was last said on them.
    Recency,
}

/// Which way a list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Oldest or smallest first.
    Ascending,
    /// Newest or largest first.
    Descending,
}

/// A place in a list of threads: a value of the sort key and the thread that had it.
///
/// Threads that leave the list between two pages hide nothing, since a place does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlace {
    /// The value of the sort key.
    pub key_ms: i64,
    /// The thread.
    pub thread: ThreadId,
}

/// Threads that nothing happened on for a while, of which nothing waits, runs or asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleQuery {
    /// Nothing happened on them since this time.
    pub before_ms: i64,
    /// Archived ones only, or all.
    pub scope: IdleScope,
    /// How many at most.
    pub limit: u32,
}

/// Which idle threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleScope {
    /// Those that are archived.
    Archived,
    /// All.
    All,
}

/// A thread that nothing happened on for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleThread {
    /// The thread.
    pub id: ThreadId,
    /// What people call it.
    pub name: Option<String>,
    /// Whether it is archived.
    pub archived: bool,
    /// When something last happened on it.
    pub last_ms: i64,
}

/// A part of a list, and the place to go on from when there is more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, P> {
    /// The part.
    pub rows: Vec<T>,
    /// Where the rest begins.
    pub next: Option<P>,
}
