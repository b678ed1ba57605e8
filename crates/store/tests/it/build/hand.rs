//! A database and an open store, with short words for what most tests do first.
//!
//! The invariant here: the words act on the one thread that most tests need, and fail the test
//! when the store refuses. What a test is about is called on the store itself.

use std::ops::Deref;
use std::sync::Arc;

use turnlane_store::Store;
use turnlane_store::lane::{Changed, LaneView};
use turnlane_store::queue::{Claim, ClaimedRow, Fate, Row, RowState, Which};
use turnlane_store::recovery::{FoundFate, Recovered, Whose};
use turnlane_store::turn::{AcceptedTurn, ItemRow, Started, TurnRow};

use super::*;
use crate::backend::Backend;

/// A database of one test.
pub(crate) struct Db(Box<dyn Backend>);

impl Db {
    pub(crate) fn on(backend: impl Backend + 'static) -> Self {
        Self(Box::new(backend))
    }

    /// Opens it as the worker of that name.
    pub(crate) async fn open(&self, name: &str) -> Hand {
        self.open_as(worker_id(name)).await
    }

    pub(crate) async fn open_as(&self, id: WorkerId) -> Hand {
        Hand(self.0.open(worker(id)).await)
    }

    /// Opens it and makes the one thread.
    pub(crate) async fn one(&self) -> Hand {
        let hand = self.open("one").await;
        hand.create_thread(new_thread("t")).await.unwrap();
        hand
    }

    /// Opens it twice and makes the one thread.
    pub(crate) async fn two(&self) -> (Hand, Hand) {
        (self.one().await, self.open("two").await)
    }

    /// Ends a worker as `kill -9` does.
    pub(crate) async fn kill(&self, hand: Hand) {
        self.0.die(hand.0).await;
    }
}

/// A store that one worker has opened.
pub(crate) struct Hand(Arc<dyn Store>);

impl Deref for Hand {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Hand {
    /// Adds rows of these names, in this order.
    pub(crate) async fn add(&self, names: &[&str]) {
        for name in names {
            self.append(append(row(name))).await.unwrap();
        }
    }

    /// The names of the visible rows, head first.
    pub(crate) async fn names(&self) -> Vec<String> {
        let page = self.queue(whole_queue()).await.unwrap();
        page.rows.into_iter().map(|row| row.client_id).collect()
    }

    pub(crate) async fn lane(&self) -> LaneView {
        self.look(thread()).await.unwrap()
    }

    pub(crate) async fn stored(&self, name: &str) -> Row {
        self.row(thread(), row_id(name)).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, name: &str) -> RowState {
        self.stored(name).await.state
    }

    /// Claims the head.
    pub(crate) async fn claim_head(&self) -> ClaimedRow {
        ours(self.claim(head()).await.unwrap())
    }

    /// Claims the head and begins its turn.
    pub(crate) async fn begin(&self) -> AcceptedTurn {
        begun(ours(
            self.claim_and_accept(head(), accepting()).await.unwrap(),
        ))
    }

    /// Begins a direct turn of that name.
    pub(crate) async fn direct(&self, name: &str) -> AcceptedTurn {
        match self.start_turn(start(name)).await.unwrap() {
            Started::Begun(turn) => *turn,
            other => panic!("not begun: {other:?}"),
        }
    }

    /// Ends a turn well.
    pub(crate) async fn finish(&self, turn: &AcceptedTurn) -> Changed<Row> {
        self.complete(complete(turn, Fate::Done)).await.unwrap()
    }

    /// Adds, runs and ends a row.
    pub(crate) async fn run(&self, name: &str) {
        self.add(&[name]).await;
        let turn = self.begin().await;
        self.finish(&turn).await;
    }

    /// Leaves a row at the head as failed.
    pub(crate) async fn fail(&self, name: &str) {
        let claim = Claim {
            which: Which::Row(row_id(name)),
            ..head()
        };
        let claimed = ours(self.claim(claim).await.unwrap());
        self.unclaim(claimed.grip, claimed.row.id, block(name), NOW)
            .await
            .unwrap();
    }

    /// Recovers the lanes of dead workers and makes this of their rows.
    pub(crate) async fn recover_with(&self, fate: FoundFate) -> Recovered {
        self.recover(recover(Whose::Dead, fate)).await.unwrap()
    }

    pub(crate) async fn all_turns(&self) -> Vec<TurnRow> {
        self.turns(whole_thread()).await.unwrap().rows
    }

    pub(crate) async fn all_items(&self) -> Vec<ItemRow> {
        self.items(all_items()).await.unwrap().rows
    }
}
