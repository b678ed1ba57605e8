//! Threads, turns and items as lists and reads show them.
//!
//! The invariant here: nothing but a missing id keeps a thread from being read. A member that is
//! absent or of another type counts as not told, a word nobody knows is kept, ids are any text.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::pages::Page;
use crate::event::{Item, item_from_json};
use crate::ids::{ThreadId, TurnId};
use crate::outcome::TurnView;

/// A thread in short, as lists show it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadSummary {
    /// The thread.
    pub id: ThreadId,
    /// The beginning of its first message; empty before there is one.
    pub preview: String,
    /// What people call it.
    pub name: Option<String>,
    /// Its working directory.
    pub cwd: String,
    /// What it is doing.
    pub status: ThreadStatus,
    /// The model of its next turn.
    pub model: Option<String>,
    /// Who serves it.
    pub model_provider: String,
    /// When it was made, in seconds since 1970.
    pub created_at: Option<i64>,
    /// When it last changed, in seconds since 1970.
    pub updated_at: Option<i64>,
    /// Whether it is kept in memory only.
    pub ephemeral: bool,
    /// The thread it was forked from.
    pub forked_from: Option<ThreadId>,
}

/// What a thread is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadStatus {
    /// It is stored and nobody has opened it.
    NotLoaded,
    /// It waits for a turn.
    Idle,
    /// Its last turn failed; it takes turns all the same.
    SystemError,
    /// A turn runs.
    Active {
        /// What the turn waits for: `waitingOnApproval`, `waitingOnUserInput`.
        flags: Vec<String>,
    },
    /// A word of a later server, empty when the server did not say.
    Unknown(String),
}

/// A thread with its history.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadView {
    /// The thread itself.
    pub summary: ThreadSummary,
    /// Its turns, the oldest first; none where they were not asked for.
    pub turns: Vec<TurnView>,
}

impl ThreadView {
    /// The thread.
    pub fn id(&self) -> &ThreadId {
        &self.summary.id
    }

    /// Reads a thread; none when it has no id.
    pub(crate) fn from_json(thread: &Value) -> Option<Self> {
        let turns = thread.get("turns").and_then(Value::as_array);
        Some(Self {
            summary: ThreadSummary::from_json(thread)?,
            turns: turns
                .into_iter()
                .flatten()
                .filter_map(TurnView::from_json)
                .collect(),
        })
    }
}

impl ThreadSummary {
    /// Reads a thread; none when it has no id.
    pub(crate) fn from_json(thread: &Value) -> Option<Self> {
        let text = |name: &str| thread.get(name).and_then(Value::as_str);
        let number = |name: &str| thread.get(name).and_then(Value::as_i64);
        Some(Self {
            id: ThreadId::from(text("id").filter(|id| !id.is_empty())?),
            preview: text("preview").unwrap_or_default().to_owned(),
            name: text("name").map(str::to_owned),
            cwd: text("cwd").unwrap_or_default().to_owned(),
            status: ThreadStatus::from_json(thread.get("status")),
            model: text("model").map(str::to_owned),
            model_provider: text("modelProvider").unwrap_or_default().to_owned(),
            created_at: number("createdAt"),
            updated_at: number("updatedAt"),
            ephemeral: thread.get("ephemeral").and_then(Value::as_bool) == Some(true),
            forked_from: text("forkedFromId").map(ThreadId::from),
        })
    }
}

impl ThreadStatus {
    fn from_json(status: Option<&Value>) -> Self {
        let word = status.and_then(|status| status.get("type")?.as_str());
        match word.unwrap_or_default() {
            "notLoaded" => Self::NotLoaded,
            "idle" => Self::Idle,
            "systemError" => Self::SystemError,
            "active" => {
                let flags = status.and_then(|status| status.get("activeFlags")?.as_array());
                let flags = flags.into_iter().flatten().filter_map(Value::as_str);
                Self::Active {
                    flags: flags.map(str::to_owned).collect(),
                }
            }
            word => Self::Unknown(word.to_owned()),
        }
    }
}

/// An answer with a `thread`.
impl<'de> Deserialize<'de> for ThreadView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let answer = Value::deserialize(deserializer)?;
        let thread = answer.get("thread").unwrap_or(&answer);
        Self::from_json(thread).ok_or_else(|| D::Error::missing_field("id"))
    }
}

/// One page of a list of threads.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadPage {
    /// The threads.
    pub data: Vec<ThreadSummary>,
    /// Where the next page begins; none after the last one.
    pub next_cursor: Option<String>,
}

/// One page of the ids of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadIdPage {
    /// The threads.
    pub data: Vec<ThreadId>,
    /// Where the next page begins; none after the last one.
    pub next_cursor: Option<String>,
}

/// One page of a thread's turns.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TurnPage {
    /// The turns.
    pub data: Vec<TurnView>,
    /// Where the next page begins; none after the last one.
    pub next_cursor: Option<String>,
}

/// One page of a thread's items.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ItemPage {
    /// The items with their turns.
    pub data: Vec<ItemEntry>,
    /// Where the next page begins; none after the last one.
    pub next_cursor: Option<String>,
}

/// An item with its turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ItemEntry {
    /// The turn.
    pub turn: TurnId,
    /// The item.
    pub item: Item,
}

impl ItemEntry {
    pub(super) fn from_json(entry: &Value) -> Option<Self> {
        Some(Self {
            turn: TurnId::from(entry.get("turnId")?.as_str()?),
            item: item_from_json(entry.get("item")?)?,
        })
    }
}

macro_rules! pages {
    ($($page:ident = $read:expr;)*) => {$(
        impl<'de> Deserialize<'de> for $page {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let page = Page::from_json(Value::deserialize(deserializer)?);
                Ok(Self {
                    data: page.data.iter().filter_map($read).collect(),
                    next_cursor: page.next_cursor,
                })
            }
        }
    )*};
}

pages! {
    ThreadPage = ThreadSummary::from_json;
    ThreadIdPage = |id: &Value| id.as_str().map(ThreadId::from);
    TurnPage = TurnView::from_json;
    ItemPage = ItemEntry::from_json;
}

/// The skills of some directories.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SkillsList {
    /// One entry per directory asked for, in the same order.
    pub data: Vec<SkillsEntry>,
}

/// The skills of a directory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SkillsEntry {
    /// The directory.
    pub cwd: String,
    /// The skills, as the server describes them.
    pub skills: Vec<Value>,
    /// What could not be read, as the server describes it.
    pub errors: Vec<Value>,
}

#[cfg(test)]
mod tests;
