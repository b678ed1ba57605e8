//! Threads that are found by a name, and threads that take over from others.
//!
//! The invariant here: a binding leads to one thread however many callers ask at once, because the
//! store finds or makes it in one transaction. A successor is made by the task of the old lane, where
//! that lane is loaded: a row is claimed in the old lane or moved to the new one, never both.
//!
//! Which client may use a binding, and for how long, is the server's business.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};
use turnlane_protocol::ids::ThreadId;
use turnlane_store::lane::Changed;
use turnlane_store::queue::Rewriting;
use turnlane_store::thread::{BoundThread, NewThread, Successor, Supersede};
use turnlane_store::{Json, Store, StoreError, Work};

use crate::dispatcher::recover_dead;
use crate::error::Error;
use crate::ids;
use crate::queue::{Then, answered};
use crate::runtime::{CreateThread, Handle};
use crate::threads::Life;

impl Handle {
    /// Finds the thread that has this binding and is not archived, or makes one. Durable. An ephemeral
    /// thread cannot be found again and is refused.
    pub async fn bind(&self, create: CreateThread) -> Result<BoundThread, Error> {
        if create.life == Life::Ephemeral {
            return Err(Error::Ephemeral);
        }
        let new = create.into_new(self.shared().clock.now_ms());
        Ok(self.store().bind_thread(new).await?)
    }

    /// Makes a thread that takes over the binding and the waiting rows of another, in one transaction.
    /// A row that is under way stays and ends in the old lane. Subscribers of the old thread are told
    /// its queue after this returned; the new lane is drained as any other. Durable.
    pub async fn supersede(&self, old: ThreadId, create: CreateThread) -> Result<Successor, Error> {
        if create.life == Life::Ephemeral {
            return Err(Error::Ephemeral);
        }
        let new = create.into_new(self.shared().clock.now_ms());
        let made = match self.supersede_once(old, new.clone()).await {
            // The owner may be dead, with a row that is still to be decided.
            Err(Error::Store(StoreError::OwnedElsewhere { .. })) => {
                recover_dead(self.shared()).await?;
                self.supersede_once(old, new).await?
            }
            made => made?,
        };
        self.wake_drain(ids::wire_thread(made.thread.id), Then::Run);
        Ok(made)
    }

    async fn supersede_once(&self, old: ThreadId, new: NewThread) -> Result<Successor, Error> {
        let supersede = Supersede {
            old: ids::thread(old),
            params: for_thread(ids::wire_thread(new.id)),
            new,
        };
        let op =
            move |store: &dyn Store| -> Work<Changed<Successor>> { store.supersede(supersede) };
        answered(|reply| self.call(old, Then::Leave, op, reply)).await
    }
}

/// Names another thread in the params of a row, and leaves the rest as it was written. Params that
/// cannot be read stay as they are: the row is refused when it is to be started.
fn for_thread(thread: ThreadId) -> Rewriting {
    Rewriting::new(move |stored: &Json| {
        let written = |stored: &str| -> Result<String, serde_json::Error> {
            let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(stored)?;
            members.insert("threadId".to_owned(), to_raw_value(&thread)?);
            serde_json::to_string(&members)
        };
        written(stored.as_str()).map_or_else(|_| stored.clone(), Json::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_is_another_in_the_params_of_a_moved_row() {
        let thread = ThreadId::new(7);
        let before =
            Json::new("{\"threadId\":\"old\",\"input\":[1.50, {\"b\":2}],\"effort\":\"low\"}");
        let after = for_thread(thread).rewrite(&before);
        let expected = format!(
            "{{\"effort\":\"low\",\"input\":[1.50, {{\"b\":2}}],\"threadId\":\"{thread}\"}}"
        );
        assert_eq!(after.as_str(), expected);
        let unreadable = Json::new("[");
        assert_eq!(for_thread(thread).rewrite(&unreadable), unreadable);
    }
}
