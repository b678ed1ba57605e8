//! How long the texts and lists of params may be: one table for all methods.
//!
//! The invariant here: every text that a client may have stored or repeated has a bound, because
//! what one client stores, every other client is sent in lists. A member is looked up by its name
//! alone; names mean the same in all methods. A name that the table does not know gets a bound too.
//!
//! What is said to the model (`input`, `history` and the like) is not bounded here: the checks of
//! input and of queued turns have their own limits. `strict.rs` applies this table while it reads.

/// Names, ids, keys, cursors and single words.
pub const NAME_BYTES_MAX: usize = 1024;

/// Paths: the limit of Linux itself.
pub const PATH_BYTES_MAX: usize = 4096;

/// Reasons and other sentences for people.
pub const REASON_BYTES_MAX: usize = 4096;

/// Instructions for the model that are stored with a thread.
pub const INSTRUCTIONS_BYTES_MAX: usize = 1024 * 1024;

/// Each text below `config`, and every text whose name the table does not know.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Directories in one list.
pub const ROOTS_MAX: usize = 256;

/// Ids in one list: more than a queue of the usual depth holds.
pub const IDS_MAX: usize = 16_384;

/// Elements of every other list, and members of every object.
pub const LIST_MAX: usize = 1024;

/// The bound of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// None: the content is for the model, and is checked elsewhere.
    Free,
    /// Each text directly in the member, or in a list in it. Members of objects below have their own.
    Member(Limits),
    /// Each text anywhere below the member, whatever the names there.
    Below(Limits),
}

/// How much one member may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) text_bytes_max: usize,
    pub(crate) list_max: usize,
}

const fn texts(text_bytes_max: usize) -> Limits {
    Limits {
        text_bytes_max,
        list_max: LIST_MAX,
    }
}

const fn lists(text_bytes_max: usize, list_max: usize) -> Limits {
    Limits {
        text_bytes_max,
        list_max,
    }
}

/// The bound of the params as a whole, before any member is known.
pub(crate) const ROOT: Bound = Bound::Member(texts(TEXT_BYTES_MAX));

impl Bound {
    /// The bound of the member `name` of an object that has this bound itself.
    pub(crate) fn of_member(self, name: &str) -> Self {
        match self {
            Self::Free | Self::Below(_) => self,
            Self::Member(_) => named(name),
        }
    }

    /// The limits, where there are any.
    pub(crate) fn limits(self) -> Option<Limits> {
        match self {
            Self::Free => None,
            Self::Member(limits) | Self::Below(limits) => Some(limits),
        }
    }
}

fn named(name: &str) -> Bound {
    match name {
        "input" | "history" | "outputSchema" | "toolOutput" | "dynamicTools" | "command"
        | "env" | "deltaBase64" | "dataBase64" | "rows" => Bound::Free,
        "baseInstructions" | "instruction" | "developerInstructions" | "developer_instructions" => {
            Bound::Member(texts(INSTRUCTIONS_BYTES_MAX))
        }
        "additionalContext" => Bound::Below(texts(INSTRUCTIONS_BYTES_MAX)),
        "config" | "responsesapiClientMetadata" => Bound::Below(texts(TEXT_BYTES_MAX)),
        "multiAgentMode" => Bound::Below(texts(NAME_BYTES_MAX)),
        "reason" | "objective" => Bound::Member(texts(REASON_BYTES_MAX)),
        "cwd" | "path" => Bound::Member(lists(PATH_BYTES_MAX, ROOTS_MAX)),
        "cwds" | "writableRoots" | "runtimeWorkspaceRoots" => {
            Bound::Member(lists(PATH_BYTES_MAX, ROOTS_MAX))
        }
        "binding"
        | "effort"
        | "engine"
        | "epoch"
        | "expectedRevision"
        | "kind"
        | "mode"
        | "model"
        | "modelProvider"
        | "modelProviders"
        | "name"
        | "optOutNotificationMethods"
        | "permissionProfile"
        | "permissions"
        | "processHandle"
        | "reasoning_effort"
        | "searchTerm"
        | "serviceName"
        | "serviceTier"
        | "serviceTierForTurn"
        | "sourceKinds"
        | "supersedes"
        | "threadSource"
        | "title"
        | "turnTrigger"
        | "type"
        | "version"
        | "cursor" => Bound::Member(texts(NAME_BYTES_MAX)),
        _ if name.ends_with("Ids") => Bound::Member(lists(NAME_BYTES_MAX, IDS_MAX)),
        _ if name.ends_with("Id") || name.ends_with("Key") => Bound::Member(texts(NAME_BYTES_MAX)),
        _ => Bound::Member(texts(TEXT_BYTES_MAX)),
    }
}

/// The beginning of a stored text, for lists. Marked where it was cut.
///
/// A store may hold texts from before there were bounds; one of them must not make a list too long
/// to be sent.
pub fn shortened(text: &mut String, bytes_max: usize) {
    if text.len() <= bytes_max {
        return;
    }
    text.truncate(text.floor_char_boundary(bytes_max));
    text.push('…');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_bounded_by_its_name() {
        let texts_of = |name| ROOT.of_member(name).limits().map(|it| it.text_bytes_max);
        assert_eq!(texts_of("name"), Some(NAME_BYTES_MAX));
        assert_eq!(texts_of("clientUserMessageId"), Some(NAME_BYTES_MAX));
        assert_eq!(texts_of("idempotencyKey"), Some(NAME_BYTES_MAX));
        assert_eq!(texts_of("cwd"), Some(PATH_BYTES_MAX));
        assert_eq!(texts_of("somethingNew"), Some(TEXT_BYTES_MAX));
        assert_eq!(texts_of("input"), None);
        let below = ROOT.of_member("config").of_member("name");
        assert_eq!(below, Bound::Below(texts(TEXT_BYTES_MAX)));
        assert_eq!(ROOT.of_member("input").of_member("name"), Bound::Free);
    }

    #[test]
    fn a_stored_text_is_cut_between_characters() {
        let mut text = "äöü".to_owned();
        shortened(&mut text, 6);
        assert_eq!(text, "äöü");
        shortened(&mut text, 3);
        assert_eq!(text, "ä…");
    }
}
