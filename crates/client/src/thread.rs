//! Threads: handles, builders, and what the client knows about those that have a handle.
//!
//! The invariant here: a handle is identity, not ownership: dropping one does nothing on the server.
//! What was granted is read back from every answer, and a server that grants more than was asked
//! gives no thread.
//!
//! How a thread is opened is in `thread/open.rs`, its history in `thread/history.rs`, the calls with
//! the protocol's own names in `thread/api.rs`.

mod answer;
mod api;
mod history;
mod open;
mod pages;
mod resume;
mod state;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

pub use api::{
    ForkParams, ThreadReadParams, ThreadResumeParams, ThreadRollbackParams, ThreadStartParams,
    TurnStartParams,
};
pub(crate) use pages::{Entries, Listing};
pub(crate) use resume::{listen, listen_soon, resume_all};
pub(crate) use state::{Activity, Registry, ThreadState};
pub use view::{
    ItemEntry, ItemPage, SkillsEntry, SkillsList, ThreadIdPage, ThreadPage, ThreadStatus,
    ThreadSummary, ThreadView, TurnPage,
};

use crate::call::CallOptions;
use crate::core::Owner;
use crate::error::{CallError, ThreadError};
use crate::ids::{ThreadId, TurnId};
use crate::input::Input;
use crate::link::Repeat;
use crate::policy::EffectivePolicy;
use crate::profile::{Profile, profile_setters};
use crate::queue::QueueView;
use crate::review::BoxFuture;
use crate::turn::TurnBuilder;
use open::{Opening, Origin};

/// The threads of a client.
#[derive(Clone, Debug)]
pub struct Threads {
    pub(crate) owner: Arc<Owner>,
}

/// A conversation; clones are the same one. Dropping it does nothing on the server.
#[derive(Clone, Debug)]
pub struct Thread {
    pub(crate) owner: Arc<Owner>,
    pub(crate) state: Arc<ThreadState>,
}

/// How a thread is started or resumed; `await` it.
///
/// Everything is checked before a byte is sent. Dropping the future before its end leaves open
/// whether the server made the thread.
#[derive(Debug)]
pub struct ThreadBuilder {
    pub(crate) owner: Arc<Owner>,
    pub(crate) profile: Profile,
    opening: Opening,
}

/// How a thread is forked; `await` it. As [`ThreadBuilder`], and it says where the history is cut.
#[derive(Debug)]
pub struct ForkBuilder {
    pub(crate) owner: Arc<Owner>,
    pub(crate) profile: Profile,
    opening: Opening,
}

impl Threads {
    /// A new thread that works in `cwd`; a relative one is taken from this process's directory.
    pub fn start(&self, cwd: impl AsRef<Path>) -> ThreadBuilder {
        let mut opening = Opening::new(Origin::New);
        opening.cwd = Some(cwd.as_ref().to_owned());
        self.builder(opening)
    }

    /// A thread that is there already. Its history is not transferred; see [`Thread::turns`].
    pub fn resume(&self, id: impl Into<ThreadId>) -> ThreadBuilder {
        self.builder(Opening::new(Origin::Stored(id.into())))
    }

    /// A new thread that begins with another one's history.
    pub fn fork(&self, id: impl Into<ThreadId>) -> ForkBuilder {
        let origin = Origin::Fork {
            source: id.into(),
            last_turn: None,
            before_turn: None,
        };
        ForkBuilder {
            owner: Arc::clone(&self.owner),
            profile: Profile::default(),
            opening: Opening::new(origin),
        }
    }

    fn builder(&self, opening: Opening) -> ThreadBuilder {
        ThreadBuilder {
            owner: Arc::clone(&self.owner),
            profile: Profile::default(),
            opening,
        }
    }
}

/// What both builders of threads can say besides their profile.
macro_rules! opening_setters {
    ($target:ty) => {
        impl $target {
            /// Where it works; a relative path is taken from this process's directory.
            #[must_use]
            pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
                self.opening.cwd = Some(cwd.into());
                self
            }

            /// Keep it in memory only.
            #[must_use]
            pub fn ephemeral(mut self) -> Self {
                self.opening.ephemeral = Some(true);
                self
            }

            /// What the model is told besides what it is told anyway.
            #[must_use]
            pub fn instructions(mut self, text: impl Into<String>) -> Self {
                self.opening.developer_instructions = Some(text.into());
                self
            }

            /// What the model is told in place of what it is told anyway.
            #[must_use]
            pub fn base_instructions(mut self, text: impl Into<String>) -> Self {
                self.opening.base_instructions = Some(text.into());
                self
            }

            /// A key of the server's configuration for this thread alone. Keys about permissions
            /// need `allow_privileged_escalation`.
            #[must_use]
            pub fn config(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
                let config = self.opening.config.get_or_insert_with(Map::new);
                config.insert(key.into(), value.into());
                self
            }
        }
    };
}

opening_setters!(ThreadBuilder);
opening_setters!(ForkBuilder);
profile_setters!(ThreadBuilder, profile);
profile_setters!(ForkBuilder, profile);

impl ForkBuilder {
    /// Take the history up to this turn, and it too.
    #[must_use]
    pub fn last_turn(mut self, id: impl Into<TurnId>) -> Self {
        if let Origin::Fork { last_turn, .. } = &mut self.opening.origin {
            *last_turn = Some(id.into());
        }
        self
    }

    /// Take the history before this turn.
    #[must_use]
    pub fn before_turn(mut self, id: impl Into<TurnId>) -> Self {
        if let Origin::Fork { before_turn, .. } = &mut self.opening.origin {
            *before_turn = Some(id.into());
        }
        self
    }
}

impl IntoFuture for ThreadBuilder {
    type Output = Result<Thread, ThreadError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(open::open(self.owner, self.profile, self.opening))
    }
}

impl IntoFuture for ForkBuilder {
    type Output = Result<Thread, ThreadError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(open::open(self.owner, self.profile, self.opening))
    }
}

impl Thread {
    /// Its id.
    pub fn id(&self) -> &ThreadId {
        &self.state.id
    }

    /// What the server granted when the thread was last opened through this client, and whatever it
    /// told of changes since.
    pub fn effective(&self) -> EffectivePolicy {
        self.state.effective()
    }

    /// Something to do; `await` it, or stream or enqueue it.
    pub fn turn(&self, input: impl Into<Input>) -> TurnBuilder {
        TurnBuilder::new(self.clone(), input.into())
    }

    /// What waits in its lane.
    pub async fn queue(&self) -> Result<QueueView, CallError> {
        self.state.check_open()?;
        crate::queue::view(self).await
    }

    /// Puts it away, once; later calls on any handle of it return the first result. Once begun it
    /// goes on, also when the future is dropped.
    pub async fn archive(&self) -> Result<(), CallError> {
        let mut result = self.state.archiving(|sender| {
            let core = Arc::clone(&self.owner.core);
            let known = Arc::clone(&self.state.known);
            tokio::spawn(async move {
                let params = serde_json::json!({ "threadId": known.id });
                let options = CallOptions::default();
                let answer = core
                    .call_as("thread/archive", &params, Repeat::Never, options)
                    .await
                    .map(|_: serde::de::IgnoredAny| known.close());
                sender.send_replace(Some(Arc::new(answer)));
            });
        });
        match result.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(result)) => match &**result {
                Ok(()) => Ok(()),
                Err(error) => Err(error.again()),
            },
            // The task ended with its runtime.
            Ok(None) | Err(_) => Err(CallError::Closed),
        }
    }

    /// Whether it was archived, closed or deleted, here or elsewhere.
    pub fn is_closed(&self) -> bool {
        self.state.is_closed()
    }
}
