//! Threads as a whole: made, copied, named, put away, taken back, shortened, deleted, unloaded.
//!
//! The invariant here: whatever ends or shortens a thread passes through its lane's task when there
//! is one, so it never meets a turn half way: what runs is stopped first, and what comes after finds
//! the thread as it is then. The answer is given before what it causes is told.
//!
//! What a client may do, and in which words it is refused, is the server's business.

use std::collections::HashMap;

use turnlane_protocol::ids::{ThreadId, TurnId};
use turnlane_protocol::notification::{ServerNotification, ThreadMoved, ThreadNameUpdated};
use turnlane_protocol::thread::ThreadStatus;
use turnlane_store::StoreError;
use turnlane_store::thread::{Fork, Listed, NewThread, ThreadChange, ThreadRow, UpTo};

use crate::error::Error;
use crate::ids;
use crate::lane::close::CloseOp;
use crate::lane::command::{Command, Reply, StartAnswer, ThreadCommand};
use crate::lane::rows;
use crate::runtime::{CreateThread, Handle};
use crate::settings::Settings;

/// How long a thread lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Until it is deleted.
    Durable,
    /// In memory, until it is unloaded; lists never show it and it has no queue.
    Ephemeral,
}

/// What a copy of a thread is made with.
#[derive(Clone, Debug)]
pub struct ForkThread {
    /// How much of the history it gets.
    pub upto: UpTo,
    /// What its turns are run with.
    pub settings: Settings,
    /// What people call it.
    pub name: Option<String>,
    /// What kind of program made it.
    pub source: String,
    /// What is shown of it besides.
    pub facts: HashMap<String, serde_json::Value>,
    /// How many rows may wait in its lane.
    pub max_depth: u32,
    /// How long it lives.
    pub life: Life,
}

impl ForkThread {
    /// A durable copy of everything that has ended, with these settings.
    pub fn new(settings: Settings) -> Self {
        Self {
            upto: UpTo::LastEnded,
            settings,
            name: None,
            source: "appServer".to_owned(),
            facts: HashMap::new(),
            max_depth: 1_000,
            life: Life::Durable,
        }
    }
}

/// How far a thread is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevertTo {
    /// This turn and all later ones go.
    Before(TurnId),
    /// So many of the last turns go; all when there are fewer.
    Last(u32),
}

impl CreateThread {
    /// The thread as the store makes it, with a new id where none was chosen.
    pub(crate) fn into_new(self, now_ms: i64) -> NewThread {
        let new = || ThreadId::new(u64::try_from(now_ms).unwrap_or(0));
        NewThread {
            id: ids::thread(self.id.unwrap_or_else(new)),
            engine: self.engine,
            cwd: self.settings.cwd.clone(),
            provider: self.settings.provider.clone(),
            settings: rows::write(&self.settings),
            facts: rows::write(&self.facts),
            name: self.name,
            source: self.source,
            parent: self.parent.map(ids::thread),
            binding: self.binding,
            listed: Listed::FromFirstTurn,
            max_depth: self.max_depth,
            at_ms: now_ms,
        }
    }
}

impl Handle {
    /// Makes a thread with an empty lane. Durable, unless it is ephemeral.
    pub async fn create_thread(&self, create: CreateThread) -> Result<ThreadRow, Error> {
        let life = create.life;
        let thread = create.into_new(self.shared().clock.now_ms());
        match life {
            Life::Durable => Ok(self.store().create_thread(thread).await?),
            Life::Ephemeral => {
                let shared = self.lanes().ephemeral.open(self.shared()).await?;
                let row = shared.store.create_thread(thread).await?;
                self.is_here(row.id);
                Ok(row)
            }
        }
    }

    /// From now on the ephemeral thread is found, until it is unloaded.
    fn is_here(&self, thread: turnlane_store::ThreadId) {
        self.lanes().ephemeral.add(thread);
        // Nothing but its lane would ever find out that nobody needs it.
        self.lanes().load(thread);
    }

    /// Makes a thread with a copy of another's history; queued turns are not copied. Durable, unless
    /// the new thread is ephemeral.
    pub async fn fork(&self, from: ThreadId, fork: ForkThread) -> Result<ThreadRow, Error> {
        let source = self.shared_of(from);
        let origin = ids::thread(from);
        let row = source.store.thread(origin).await?;
        let row = row.ok_or(StoreError::ThreadNotFound(origin))?;
        let engine = self.shared().engines.get(&row.engine);
        if engine.is_some_and(|engine| !engine.capabilities().fork) {
            return Err(Error::Unsupported { engine: row.engine });
        }
        let now_ms = self.shared().clock.now_ms();
        let id = ThreadId::new(u64::try_from(now_ms).unwrap_or(0));
        let to = NewThread {
            id: ids::thread(id),
            engine: row.engine,
            cwd: fork.settings.cwd.clone(),
            provider: fork.settings.provider.clone(),
            settings: rows::write(&fork.settings),
            facts: rows::write(&fork.facts),
            name: fork.name,
            source: fork.source,
            parent: Some(origin),
            binding: None,
            listed: Listed::FromFirstTurn,
            max_depth: fork.max_depth,
            at_ms: now_ms,
        };
        let target = match fork.life {
            Life::Durable => self.all_shared().swap_remove(0),
            Life::Ephemeral => self.lanes().ephemeral.open(self.shared()).await?,
        };
        let made = if source.life == target.life {
            let (from, upto) = (origin, fork.upto);
            target.store.fork_thread(Fork { from, upto, to }).await?
        } else {
            // What was said before the call is in the copy.
            source.store.flush().await?;
            let copy = source.store.copy_thread(origin, fork.upto).await?;
            target.store.paste_thread(to, copy).await?
        };
        if target.life == Life::Ephemeral {
            self.is_here(made.id);
        }
        Ok(made)
    }

    /// Puts a thread away: stops what runs, unloads it, keeps its rows. Durable. Twice is an error.
    pub async fn archive(&self, thread: ThreadId) -> Result<(), Error> {
        let (reply, answer) = Reply::channel();
        self.archive_with(thread, reply).await;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::archive`], with the answer given straight to `reply`, before the news is told.
    pub async fn archive_with(&self, thread: ThreadId, reply: Reply<()>) {
        if self.is_ephemeral(thread) {
            reply.send(Err(Error::Ephemeral));
            return;
        }
        self.close(thread, CloseOp::Archive, reply).await;
    }

    /// Deletes a thread with all it has: stops what runs first. Durable.
    pub async fn delete_thread(&self, thread: ThreadId) -> Result<(), Error> {
        let (reply, answer) = Reply::channel();
        self.delete_thread_with(thread, reply).await;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::delete_thread`], with the answer given straight to `reply`, before the news is
    /// told.
    pub async fn delete_thread_with(&self, thread: ThreadId, reply: Reply<()>) {
        self.close(thread, CloseOp::Delete, reply).await;
    }

    /// Unloads a thread: stops what runs. Nothing when it is not loaded. An ephemeral one is gone.
    pub async fn unload(&self, thread: ThreadId) -> Result<(), Error> {
        let (reply, answer) = Reply::channel();
        self.unload_with(thread, reply).await;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::unload`], with the answer given straight to `reply`, before the news is told.
    pub async fn unload_with(&self, thread: ThreadId, reply: Reply<()>) {
        self.close(thread, CloseOp::Unload, reply).await;
    }

    /// Has the lane's task do it behind everything else, or does it here when there is none.
    async fn close(&self, thread: ThreadId, op: CloseOp, reply: Reply<()>) {
        let id = ids::thread(thread);
        let mut reply = reply;
        loop {
            let command = Command::Thread(ThreadCommand::Close { op, reply });
            reply = match self.lanes().send_if_loaded(id, command).await {
                Err(Command::Thread(ThreadCommand::Close { reply, .. })) => reply,
                Ok(()) | Err(_) => return,
            };
            let shared = self.shared_of(thread);
            let done = op.carry_out(&shared, id).await;
            if matches!(done, Err(Error::Store(StoreError::Busy(_)))) && self.lanes().is_loaded(id)
            {
                // Somebody loaded it meanwhile and runs a turn.
                continue;
            }
            let well = done.is_ok();
            reply.send(done);
            if well && op != CloseOp::Unload {
                shared.announce(thread, op.news(thread));
            }
            return;
        }
    }

    /// Takes a thread back that was put away. Durable. One that was not is an error.
    pub async fn unarchive(&self, thread: ThreadId) -> Result<ThreadRow, Error> {
        let (reply, answer) = Reply::channel();
        self.unarchive_with(thread, reply).await;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::unarchive`], with the answer given straight to `reply`, before the news is told.
    pub async fn unarchive_with(&self, thread: ThreadId, reply: Reply<ThreadRow>) {
        let now_ms = self.shared().clock.now_ms();
        let change = ThreadChange {
            archived: Some(false),
            ..ThreadChange::of(ids::thread(thread), now_ms)
        };
        let done = self.change_thread(change).await;
        let well = done.is_ok();
        reply.send(done);
        if well {
            let moved = ThreadMoved { thread_id: thread };
            let news = ServerNotification::ThreadUnarchived(moved);
            self.announce(thread, news).await;
        }
    }

    /// Takes turns of an idle thread back: they leave the history, rows and files stay. Durable.
    pub async fn revert(&self, thread: ThreadId, to: RevertTo) -> Result<ThreadRow, Error> {
        let (reply, answer) = Reply::channel();
        self.revert_with(thread, to, reply).await;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::revert`], with the answer given straight to `reply`, before the news is told.
    pub async fn revert_with(&self, thread: ThreadId, to: RevertTo, reply: Reply<ThreadRow>) {
        let command = Command::Thread(ThreadCommand::Revert { to, reply });
        self.send_or_stopping(thread, command).await;
    }

    /// Names a thread, or takes its name. Durable.
    pub async fn rename(&self, thread: ThreadId, name: Option<String>) -> Result<(), Error> {
        let (reply, answer) = Reply::channel();
        self.rename_with(thread, name, reply).await;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::rename`], with the answer given straight to `reply`, before the news is told.
    pub async fn rename_with(&self, thread: ThreadId, name: Option<String>, reply: Reply<()>) {
        let now_ms = self.shared().clock.now_ms();
        let change = ThreadChange {
            name: Some(name.clone()),
            ..ThreadChange::of(ids::thread(thread), now_ms)
        };
        match self.change_thread(change).await {
            Ok(_) => reply.send(Ok(())),
            Err(error) => {
                reply.send(Err(error));
                return;
            }
        }
        let renamed = ThreadNameUpdated {
            thread_id: thread,
            thread_name: name,
        };
        let news = ServerNotification::ThreadNameUpdated(renamed);
        self.announce(thread, news).await;
    }

    /// Changes what the next turns are run with; the settings as they are then. Durable. `change` may
    /// be called again when somebody else was faster. Subscribers are told if something is other.
    pub async fn update_settings(
        &self,
        thread: ThreadId,
        change: impl Fn(&Settings) -> Settings + Send,
    ) -> Result<Settings, Error> {
        let shared = self.shared_of(thread);
        let id = ids::thread(thread);
        loop {
            // A turn that was just accepted may have changed them.
            shared.store.flush().await?;
            let row = shared.store.thread(id).await?;
            let row = row.ok_or(StoreError::ThreadNotFound(id))?;
            let settings: Settings = rows::read(&row.settings).map_err(Error::InvalidParams)?;
            let after = change(&settings);
            if after == settings {
                return Ok(after);
            }
            let change = ThreadChange {
                settings: Some(rows::write(&after)),
                settings_were: Some(row.settings),
                cwd: Some(after.cwd.clone()),
                ..ThreadChange::of(id, shared.clock.now_ms())
            };
            match shared.store.change_thread(change).await {
                Ok(_) => {}
                Err(StoreError::SettingsChanged(_)) => continue,
                Err(error) => return Err(error.into()),
            }
            let command = Command::Thread(ThreadCommand::Settings(Box::new(after.clone())));
            // Nobody listens to a thread that is not loaded.
            let _ = self.lanes().send_if_loaded(id, command).await;
            return Ok(after);
        }
    }

    /// Makes a thread's history shorter, by a turn of its engine. The answer means that the turn is
    /// on disk; a lane that is busy refuses.
    pub async fn compact(&self, thread: ThreadId) -> Result<StartAnswer, Error> {
        let (reply, answer) = Reply::channel();
        self.compact_with(thread, reply).await;
        answer.await.unwrap_or(Err(Error::Lost))
    }

    /// As [`Handle::compact`], with the answer given straight to `reply`.
    pub async fn compact_with(&self, thread: ThreadId, reply: Reply<StartAnswer>) {
        self.send_or_stopping(thread, Command::Compact { reply })
            .await;
    }

    /// Gives the lane a command, whose reply says so when it cannot be given.
    async fn send_or_stopping(&self, thread: ThreadId, command: Command) {
        if let Err(error) = self.lanes().send(ids::thread(thread), command).await {
            tracing::debug!(%error, "a lane could not be asked");
        }
    }

    /// Tells everybody something about a thread: with its next number if it is loaded.
    pub async fn announce(&self, thread: ThreadId, said: ServerNotification) {
        let command = Command::Thread(ThreadCommand::Tell(Box::new(said)));
        let not_loaded = self
            .lanes()
            .send_if_loaded(ids::thread(thread), command)
            .await;
        if let Err(Command::Thread(ThreadCommand::Tell(said))) = not_loaded {
            self.shared().announce(thread, *said);
        }
    }

    /// What a thread does, as far as this worker knows: one that runs elsewhere is not loaded here.
    pub fn status(&self, thread: ThreadId) -> ThreadStatus {
        self.lanes().status(ids::thread(thread))
    }

    /// What some threads do.
    pub fn statuses(&self, threads: &[ThreadId]) -> Vec<ThreadStatus> {
        threads.iter().map(|thread| self.status(*thread)).collect()
    }

    /// The loaded threads behind this one, by id, at most so many.
    pub fn loaded_threads(&self, after: Option<ThreadId>, limit: usize) -> Vec<ThreadId> {
        let after = after.map(ids::thread);
        let loaded = self.lanes().loaded_behind(after, limit);
        loaded.into_iter().map(ids::wire_thread).collect()
    }

    /// Whether a thread is gone when it is unloaded.
    pub fn is_ephemeral(&self, thread: ThreadId) -> bool {
        self.shared_of(thread).life == Life::Ephemeral
    }
}
