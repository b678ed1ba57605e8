//! What a server told about a queue, read only as far as somebody asks.
//!
//! The invariant here: keeping a notice costs one copy of its bytes. Everybody on a thread is told
//! about all its rows at every change, and most of them ask nothing, or only where one row stands; a
//! tree of it all is built for those who ask for it, once.
//!
//! What a change means for a row is decided by whoever follows it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::Value;

use crate::ids::{QueuedTurnId, TurnId};

/// A queue as a server told it: the params of `thread/queue/changed`. Clones are the same one.
///
/// It reads as the [`Value`] of its params, which is made when it is first looked at.
#[derive(Clone)]
pub struct QueueNotice(Arc<Told>);

struct Told {
    params: Box<[u8]>,
    tree: OnceLock<Value>,
    shown: OnceLock<Option<Shown>>,
}

/// Where a row is, as far as a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the queue; so many are before it.
    Waits { position: u32 },
    /// In the queue, which it holds because it failed.
    Failed { position: u32 },
    /// It is the one that runs, or is about to.
    Runs,
    /// In neither place.
    Gone,
    /// Perhaps among the rows that are not shown.
    Truncated,
    /// Not told: this server shows no rows, or not as we know them.
    Untold,
}

/// What followers need of a notice.
struct Shown {
    rows: Vec<Row>,
    running: Option<Row>,
    is_truncated: bool,
}

struct Row {
    id: Option<QueuedTurnId>,
    /// The turn it becomes, or is.
    turn: Option<TurnId>,
    is_failed: bool,
}

impl QueueNotice {
    pub(super) fn new(params: &[u8]) -> Self {
        Self(Arc::new(Told {
            params: params.into(),
            tree: OnceLock::new(),
            shown: OnceLock::new(),
        }))
    }

    /// The params; null if they cannot be read.
    pub fn value(&self) -> &Value {
        let read = || serde_json::from_slice(&self.0.params).unwrap_or(Value::Null);
        self.0.tree.get_or_init(read)
    }

    /// Where a row is.
    pub(crate) fn place_of(&self, row: &QueuedTurnId) -> Place {
        self.place(|shown| shown.id.as_ref() == Some(row))
    }

    /// Where the row of a turn is.
    pub(crate) fn place_of_turn(&self, turn: &TurnId) -> Place {
        self.place(|shown| shown.turn.as_ref() == Some(turn))
    }

    fn place(&self, is_it: impl Fn(&Row) -> bool) -> Place {
        let Some(shown) = self.0.shown.get_or_init(|| shown(&self.0.params)) else {
            return Place::Untold;
        };
        if let Some(index) = shown.rows.iter().position(&is_it) {
            let position = u32::try_from(index).unwrap_or(u32::MAX);
            return if shown.rows[index].is_failed {
                Place::Failed { position }
            } else {
                Place::Waits { position }
            };
        }
        if shown.running.as_ref().is_some_and(is_it) {
            return Place::Runs;
        }
        if shown.is_truncated {
            return Place::Truncated;
        }
        Place::Gone
    }
}

impl Deref for QueueNotice {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value()
    }
}

impl fmt::Debug for QueueNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rows carry what people wrote.
        f.debug_struct("QueueNotice")
            .field("bytes", &self.0.params.len())
            .finish_non_exhaustive()
    }
}

/// The thread of a notice, read without the rest.
pub(super) fn thread(params: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Addressed<'a> {
        #[serde(borrow, rename = "threadId")]
        thread: Cow<'a, str>,
    }
    let read: Addressed<'_> = serde_json::from_slice(params).ok()?;
    Some(read.thread)
}

/// The ids in a notice; none when there are no rows in it, or not as we know them.
fn shown(params: &[u8]) -> Option<Shown> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        #[serde(borrow)]
        queued_turns: Option<Vec<Listed<'a>>>,
        truncated: Option<bool>,
        #[serde(borrow)]
        running: Option<Running<'a>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Listed<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
        #[serde(borrow)]
        turn_id: Option<Cow<'a, str>>,
        #[serde(borrow)]
        status: Option<Status<'a>>,
    }
    #[derive(Deserialize)]
    struct Status<'a> {
        #[serde(borrow, rename = "type")]
        word: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Running<'a> {
        #[serde(borrow)]
        queued_turn_id: Option<Cow<'a, str>>,
        #[serde(borrow)]
        turn_id: Option<Cow<'a, str>>,
    }
    let read: Params<'_> = serde_json::from_slice(params).ok()?;
    let rows = read.queued_turns?.into_iter().map(|row| Row {
        id: Some(QueuedTurnId::from(&*row.id)),
        turn: row.turn_id.as_deref().map(TurnId::from),
        is_failed: row.status.is_some_and(|status| status.word == "failed"),
    });
    let running = read.running.map(|running| Row {
        id: running.queued_turn_id.as_deref().map(QueuedTurnId::from),
        turn: running.turn_id.as_deref().map(TurnId::from),
        is_failed: false,
    });
    Some(Shown {
        rows: rows.collect(),
        running,
        is_truncated: read.truncated == Some(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn notice(params: &Value) -> QueueNotice {
        QueueNotice::new(params.to_string().as_bytes())
    }

    #[test]
    fn a_notice_says_where_a_row_is_without_a_tree_of_it() {
        let told = notice(&json!({
            "threadId": "t",
            "queuedTurns": [{"id": "a", "status": {"type": "pending"}, "input": [{}]},
                {"id": "b", "status": {"type": "failed", "error": {}}}, {"id": "c", "turnId": "y"}],
            "running": {"queuedTurnId": "r", "turnId": "x"},
        }));
        let place = |row: &str| told.place_of(&QueuedTurnId::from(row));
        assert_eq!(place("a"), Place::Waits { position: 0 });
        assert_eq!(place("b"), Place::Failed { position: 1 });
        assert_eq!(place("c"), Place::Waits { position: 2 });
        assert_eq!(place("r"), Place::Runs);
        assert_eq!(place("z"), Place::Gone);
        let place = |turn: &str| told.place_of_turn(&TurnId::from(turn));
        assert_eq!(place("y"), Place::Waits { position: 2 });
        assert_eq!(place("x"), Place::Runs);
        assert_eq!(place("z"), Place::Gone);
        assert!(told.0.tree.get().is_none());
        assert_eq!(told["queuedTurns"][2], json!({"id": "c", "turnId": "y"}));
    }

    #[test]
    fn rows_that_are_not_all_shown_or_not_as_we_know_them_say_nothing_of_others() {
        let row = QueuedTurnId::from("z");
        let truncated = json!({"threadId": "t", "queuedTurns": [{"id": "a"}], "truncated": true});
        assert_eq!(notice(&truncated).place_of(&row), Place::Truncated);
        for params in [
            json!({"threadId": "t"}),
            json!({"threadId": "t", "queuedTurns": [{"id": 7}]}),
            json!({"threadId": "t", "queuedTurns": "none"}),
        ] {
            assert_eq!(notice(&params).place_of(&row), Place::Untold, "{params}");
            assert_eq!(*notice(&params), params);
        }
        assert_eq!(*QueueNotice::new(b"{"), Value::Null);
    }

    #[test]
    fn debug_shows_nothing_of_what_people_wrote() {
        let told =
            notice(&json!({"threadId": "t", "queuedTurns": [{"id": "a", "input": "secret"}]}));
        assert!(!format!("{told:?}").contains("secret"));
    }
}
