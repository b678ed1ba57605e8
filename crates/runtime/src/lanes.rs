//! The loaded lanes of a worker.
//!
//! The invariant here: at most one task per thread, and no command is lost between two of them: a
//! task that ends hands what came too late to a task loaded anew before anybody else can reach it.
//!
//! Theory of operation: one map behind a lock that is held for a few instructions. A lane's task is
//! spawned when somebody needs it and leaves the map itself when its rules say so. A sender that meets
//! a task which is ending, or one that panicked and is being recovered, waits until the map changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};
use turnlane_protocol::thread::ThreadStatus;
use turnlane_store::recovery::{Recover, Recovered, Whose};
use turnlane_store::turn::AcceptedTurn;
use turnlane_store::{Grip, StoreError, ThreadId};

use crate::ephemeral::Ephemeral;
use crate::error::Error;
use crate::fanout::board::RunningPlace;
use crate::lane::actor::{Actor, COMMANDS_MAX};
use crate::lane::command::{BegunTurn, Command};
use crate::lane::event::{StopHow, Unload};
use crate::lane::face::Face;
use crate::lane::reconcile::{self, UndecidedTurn};
use crate::shared::Shared;

/// A loaded lane, for those who ask something of it.
#[derive(Clone)]
struct Loaded {
    commands: mpsc::Sender<Command>,
    face: Arc<Face>,
}

/// The loaded lanes.
pub(crate) struct Lanes {
    shared: Arc<Shared>,
    /// The threads that are gone when they are unloaded.
    pub ephemeral: Ephemeral,
    loaded: Mutex<Map>,
    /// How many are loaded, for whoever waits for the last one.
    count: watch::Sender<usize>,
    /// Notified after a lane has left the map or was replaced in it.
    replaced: Notify,
}

#[derive(Default)]
struct Map {
    lanes: HashMap<ThreadId, Loaded>,
    stopping: bool,
}

impl Lanes {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            shared,
            ephemeral: Ephemeral::default(),
            loaded: Mutex::new(Map::default()),
            count: watch::Sender::new(0),
            replaced: Notify::new(),
        })
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the lane of a thread shares with others.
    pub(crate) fn shared_of(&self, thread: ThreadId) -> &Arc<Shared> {
        self.ephemeral.of(thread).unwrap_or(&self.shared)
    }

    /// Gives a command to the lane of a thread, loading it if need be. Waits while the lane has too
    /// many commands already.
    pub(crate) async fn send(
        self: &Arc<Self>,
        thread: ThreadId,
        command: Command,
    ) -> Result<(), Error> {
        let mut command = Some(command);
        loop {
            // Made before the look into the map: whatever changes there afterwards wakes it.
            let replaced = self.replaced.notified();
            let Some(lane) = self.get_or_load(thread, None, &mut command) else {
                return Err(Error::Stopping);
            };
            lane.face.want();
            let Some(given) = command else {
                return Ok(());
            };
            match lane.commands.send(given).await {
                Ok(()) => return Ok(()),
                // The task is ending, or has panicked. Recovering it takes as long as the store does.
                Err(refused) => command = Some(refused.0),
            }
            replaced.await;
        }
    }

    /// Gives a command to the lane of a thread if it is loaded; gives it back if it is not.
    pub(crate) async fn send_if_loaded(
        &self,
        thread: ThreadId,
        command: Command,
    ) -> Result<(), Command> {
        let mut command = command;
        loop {
            let replaced = self.replaced.notified();
            let Some(lane) = self.map().lanes.get(&thread).cloned() else {
                return Err(command);
            };
            match lane.commands.send(command).await {
                Ok(()) => return Ok(()),
                Err(refused) => command = refused.0,
            }
            replaced.await;
        }
    }

    /// Makes sure that a lane is loaded.
    pub(crate) fn load(self: &Arc<Self>, thread: ThreadId) {
        if let Some(lane) = self.get_or_load(thread, None, &mut None) {
            lane.face.want();
        }
    }

    /// Has a lane ask its engine what became of a turn that a dead worker left, loading it if need be.
    /// Does not wait. A worker that stops leaves the question to the next one.
    pub(crate) fn reconcile(self: &Arc<Self>, turn: Box<UndecidedTurn>) {
        let thread = turn.accepted.lane.thread;
        let mut command = Some(Command::Reconcile(turn));
        let lane = self.get_or_load(thread, None, &mut command);
        if let (Some(_), Some(command)) = (lane, command) {
            // Loaded already, and perhaps with more commands than it takes at once.
            let lanes = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = lanes.send(thread, command).await {
                    tracing::debug!(%error, "a dead worker's turn is left undecided");
                }
            });
        }
    }

    /// Has a lane run a turn that another transaction has begun in it, loading it if need be. Does not
    /// wait. The place is given back when the end of the turn is on disk, or when the lane is lost.
    pub(crate) fn load_begun(self: &Arc<Self>, accepted: AcceptedTurn, place: RunningPlace) {
        let thread = accepted.grip.thread;
        let begun = Box::new(BegunTurn { accepted, place });
        let mut command = Some(Command::RunBegun(begun));
        let lane = self.get_or_load(thread, None, &mut command);
        if let (Some(_), Some(command)) = (lane, command) {
            // A client follows the thread, or the lane of the turn before is being unloaded.
            let lanes = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = lanes.send(thread, command).await {
                    tracing::debug!(%error, "a begun turn is left to the next worker");
                }
            });
        }
    }

    /// Makes sure that a lane is loaded, with a slot for what waits in it.
    pub(crate) fn load_with_slot(self: &Arc<Self>, thread: ThreadId, slot: OwnedSemaphorePermit) {
        if let Some(lane) = self.get_or_load(thread, Some(slot), &mut None) {
            lane.face.want();
        }
    }

    pub(crate) fn is_loaded(&self, thread: ThreadId) -> bool {
        self.map().lanes.contains_key(&thread)
    }

    /// Makes a loaded lane look at its queue.
    pub(crate) fn wake(&self, thread: ThreadId) {
        if let Some(lane) = self.map().lanes.get(&thread) {
            lane.face.wake.notify_one();
        }
    }

    /// What a thread does.
    pub(crate) fn status(&self, thread: ThreadId) -> ThreadStatus {
        let map = self.map();
        let lane = map.lanes.get(&thread);
        lane.map_or(ThreadStatus::NotLoaded, |lane| lane.face.status())
    }

    /// The loaded threads behind this one, by id, at most so many.
    pub(crate) fn loaded_behind(&self, after: Option<ThreadId>, limit: usize) -> Vec<ThreadId> {
        let behind =
            |thread: &&ThreadId| after.is_none_or(|after| thread.as_uuid() > after.as_uuid());
        let mut loaded: Vec<_> = self.map().lanes.keys().filter(behind).copied().collect();
        loaded.sort_unstable_by_key(ThreadId::as_uuid);
        loaded.truncate(limit);
        loaded
    }

    /// How many lanes are loaded.
    pub(crate) fn count(&self) -> usize {
        self.map().lanes.len()
    }

    /// The lane; one that is loaded takes the command in before it looks for work, and it is gone
    /// from `first` then.
    fn get_or_load(
        self: &Arc<Self>,
        thread: ThreadId,
        slot: Option<OwnedSemaphorePermit>,
        first: &mut Option<Command>,
    ) -> Option<Loaded> {
        let mut map = self.map();
        if let Some(lane) = map.lanes.get(&thread) {
            return Some(lane.clone());
        }
        if map.stopping {
            return None;
        }
        let (lane, commands) = new_lane();
        if let Some(command) = first.take() {
            // The channel is empty.
            drop(lane.commands.try_send(command));
        }
        map.lanes.insert(thread, lane.clone());
        self.count.send_modify(|count| *count += 1);
        self.spawn(thread, &lane, commands, slot);
        Some(lane)
    }

    fn spawn(
        self: &Arc<Self>,
        thread: ThreadId,
        lane: &Loaded,
        commands: mpsc::Receiver<Command>,
        slot: Option<OwnedSemaphorePermit>,
    ) {
        let watch = Watch {
            lanes: Arc::clone(self),
            thread,
        };
        let (shared, face) = (Arc::clone(self.shared_of(thread)), Arc::clone(&lane.face));
        let actor = Actor::new(thread, shared, commands, face, slot);
        tokio::spawn(async move {
            // Boxed: what a lane's loop may need is large, and most lanes are idle.
            let (why, commands) = Box::pin(actor.run()).await;
            watch.ended().unloaded(thread, why, commands).await;
        });
    }

    /// A task has panicked: its engine is gone with it. What it left is decided as for a dead worker,
    /// since to the store the lane still runs.
    async fn broken(self: Arc<Self>, thread: ThreadId) {
        tracing::error!(%thread, "a lane's task panicked; its turn is interrupted");
        let shared = Arc::clone(self.shared_of(thread));
        let now_ms = shared.clock.now_ms();
        let recovered = shared.store.recover(Recover {
            whose: Whose::Lane(thread),
            deciding: shared.deciding(now_ms),
            limit: 1,
            at_ms: now_ms,
        });
        let recovered = recovered.await.unwrap_or_else(|error| {
            tracing::error!(%error, "what a broken lane left could not be decided");
            Recovered::default()
        });
        let grip = recovered.lanes.first().and_then(|lane| lane.grip);
        let undecided = match grip {
            Some(grip) => self.read_undecided(&shared, grip).await,
            None => None,
        };
        shared.forget_revision(thread);
        self.map().lanes.remove(&thread);
        if let Some(turn) = undecided {
            // Before any other command can reach the lane.
            self.reconcile(turn);
        }
        self.replaced.notify_waiters();
        self.count.send_modify(|count| *count -= 1);
        self.shared.work.notify_one();
        self.shared.board.look_at_all();
    }

    /// The turn that a broken lane left, if its engine is to be asked; the dispatcher tries again when
    /// it cannot be read.
    async fn read_undecided(&self, shared: &Shared, grip: Grip) -> Option<Box<UndecidedTurn>> {
        match reconcile::read(shared.store.as_ref(), grip).await {
            Ok(turn) => Some(Box::new(turn)),
            Err(error) => {
                tracing::error!(%error, "what a broken lane left could not be read");
                shared.undecided.add(grip);
                None
            }
        }
    }

    /// A task has ended: leaves the map, or is replaced by a new one that gets what came too late.
    async fn unloaded(
        self: Arc<Self>,
        thread: ThreadId,
        why: Unload,
        mut commands: mpsc::Receiver<Command>,
    ) {
        commands.close();
        let mut late = Vec::new();
        while let Some(command) = commands.recv().await {
            late.push(command);
        }
        // Nobody is told to stop twice, and a subscriber that left has left.
        late.retain(|command| !matches!(command, Command::Stop(_) | Command::Unsubscribe(_)));
        self.shared_of(thread).forget_revision(thread);
        let gone = {
            let mut map = self.map();
            if !late.is_empty() && why != Unload::Stopping && !map.stopping {
                let (lane, commands) = new_lane();
                for command in late {
                    // As many as fitted into the old channel fit into the new one.
                    drop(lane.commands.try_send(command));
                }
                map.lanes.insert(thread, lane.clone());
                self.spawn(thread, &lane, commands, None);
                self.replaced.notify_waiters();
                return;
            }
            map.lanes.remove(&thread);
            self.replaced.notify_waiters();
            // With the lane, so that nobody loads it again.
            self.ephemeral.remove(thread)
        };
        for command in late {
            // Calls about the queue need no lane; they are still in its order.
            if let Command::Queue(call) = command {
                let done = call(self.shared_of(thread).store.as_ref()).await;
                (done.answer)();
            }
            // What else is dropped here is answered by its reply.
        }
        if let Some(shared) = gone {
            match shared.store.delete_thread(thread).await {
                Ok(()) | Err(StoreError::ThreadNotFound(_)) => {}
                Err(error) => tracing::warn!(%error, "an ephemeral thread was not deleted"),
            }
        }
        self.count.send_modify(|count| *count -= 1);
    }

    /// Stops all lanes and waits for the last one. Nothing is loaded any more.
    pub(crate) async fn stop(&self, how: StopHow) {
        let all: Vec<_> = {
            let mut map = self.map();
            map.stopping = true;
            map.lanes.values().cloned().collect()
        };
        for lane in all {
            // A lane that ends by itself meanwhile needs no telling.
            let _ = lane.commands.send(Command::Stop(how)).await;
        }
        let mut count = self.count.subscribe();
        // The sender is ours, so this ends only with the last lane.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// Makes a stop that is under way a hasty one, by the rules of a crash; returns at once.
    pub(crate) fn hurry(self: &Arc<Self>) {
        self.tell_all(StopHow::Forced);
    }

    /// Ends the grace of a stop that is under way; returns at once.
    pub(crate) fn end_grace(self: &Arc<Self>) {
        self.tell_all(StopHow::Now);
    }

    fn tell_all(&self, how: StopHow) {
        let all: Vec<_> = self.map().lanes.values().cloned().collect();
        tokio::spawn(async move {
            for lane in all {
                let _ = lane.commands.send(Command::Stop(how)).await;
            }
        });
    }
}

/// Notices that a lane's task panicked: dropped by the panic, it sees to the lane.
struct Watch {
    lanes: Arc<Lanes>,
    thread: ThreadId,
}

impl Watch {
    /// The task has ended as it should.
    fn ended(self) -> Arc<Lanes> {
        Arc::clone(&self.lanes)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Dropped with its tokio runtime there is nothing left to see to.
        if std::thread::panicking() {
            tokio::spawn(Arc::clone(&self.lanes).broken(self.thread));
        }
    }
}

fn new_lane() -> (Loaded, mpsc::Receiver<Command>) {
    let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
    let lane = Loaded {
        commands,
        face: Arc::default(),
    };
    (lane, receiver)
}

#[cfg(test)]
mod tests;
