//! A picture of one lane: everything that can be read of it.
//!
//! The invariant here: a picture is read from the store alone; the reference only names the rows
//! to ask for.

use turnlane_store::lane::LaneView;
use turnlane_store::queue::{QueueFrom, QueueQuery, Row};
use turnlane_store::thread::Direction;
use turnlane_store::turn::{ItemQuery, ItemRow, TurnQuery, TurnRow};
use turnlane_store::{RowId, ThreadId};

use crate::build::Hand;

/// More than any run makes.
const ALL: u32 = 1_000;

/// Everything that can be read of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) lane: LaneView,
    /// The visible rows, head first.
    pub(crate) queue: Vec<Row>,
    /// Every row that was ever made, in any state.
    pub(crate) rows: Vec<Row>,
    pub(crate) turns: Vec<TurnRow>,
    pub(crate) items: Vec<ItemRow>,
}

impl Picture {
    /// Reads the lane and these rows of it; a row that is not there is missing. Rows that had ended
    /// when `known` was made are taken from there: they are many, and read again at the end of a run.
    pub(crate) async fn of(
        hand: &Hand,
        thread: ThreadId,
        rows: &[RowId],
        known: Option<&Self>,
    ) -> Self {
        let query = QueueQuery {
            thread,
            from: QueueFrom::Head,
            limit: ALL,
        };
        let page = hand.queue(query).await.unwrap();
        let mut stored = Vec::new();
        let ended = |id| {
            let row = known.and_then(|known| known.row(id));
            row.filter(|row| row.state.is_ended())
        };
        for id in rows {
            let shown = page.rows.iter().find(|row| row.id == *id);
            match shown.or_else(|| ended(*id)) {
                Some(row) => stored.push(row.clone()),
                None => stored.extend(hand.row(thread, *id).await.unwrap()),
            }
        }
        let turns = TurnQuery {
            thread,
            after_ord: None,
            direction: Direction::Ascending,
            limit: ALL,
        };
        let items = ItemQuery {
            thread,
            turn_ord: None,
            after_ord: None,
            direction: Direction::Ascending,
            limit: ALL,
        };
        Self {
            lane: page.lane,
            queue: page.rows,
            rows: stored,
            turns: hand.turns(turns).await.unwrap().rows,
            items: hand.items(items).await.unwrap().rows,
        }
    }

    pub(crate) fn row(&self, id: RowId) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }
}
