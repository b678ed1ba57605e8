//! One entry of a thread's history as models see it.
//!
//! The invariant here: the text in [`Entry::items`] is stored and returned byte by byte. Nothing in
//! the runtime reads it; what build and repair need stands beside it.
//!
//! How a request is built from entries is each engine's business.

use turnlane_protocol::ids::{ItemId, TurnId};

/// One append-only entry of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The turn that recorded it.
    pub turn_id: TurnId,
    /// Who served the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// What it is.
    pub kind: EntryKind,
    /// The userMessage item it stands for; only of kind [`EntryKind::User`].
    pub item_id: Option<ItemId>,
    /// The calls in it, or the calls it answers.
    pub call_ids: Vec<String>,
    /// A JSON array of Responses items, verbatim.
    pub items: String,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Input of a person or program.
    User,
    /// What the model said, calls included.
    Output,
    /// What its calls brought.
    ToolOutput,
    /// Something else the model is told.
    Note,
    /// A shorter history that replaces everything before it.
    Compaction,
}

impl EntryKind {
    /// The word that stands for it in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Output => "output",
            Self::ToolOutput => "toolOutput",
            Self::Note => "note",
            Self::Compaction => "compaction",
        }
    }

    /// The kind that a word of storage stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [
            Self::User,
            Self::Output,
            Self::ToolOutput,
            Self::Note,
            Self::Compaction,
        ];
        all.into_iter().find(|kind| kind.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_back_from_its_word() {
        for word in ["user", "output", "toolOutput", "note", "compaction"] {
            assert_eq!(
                EntryKind::from_word(word).map(EntryKind::as_str),
                Some(word)
            );
        }
        assert_eq!(EntryKind::from_word("User"), None);
    }
}
