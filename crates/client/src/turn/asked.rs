//! What a caller asked for, made ready to be sent.
//!
//! The invariant here: whatever the gate, a hook or the input itself refuses is refused before a byte
//! is written, and the phases of hooks come in pairs: once the ones before the turn have passed, the
//! ones after it run, whatever happened in between.
//!
//! The fields of a turn are written in [`crate::params`], its input is checked in [`crate::input`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::wire;
use super::{Bound, TurnBuilder, WhenBusy};
use crate::core::Core;
use crate::error::{CallError, TurnError};
use crate::hooks::{HookReport, HookRunner, MainStatus, Subject};
use crate::ids::{ThreadId, TurnId};
use crate::input::InputItem;
use crate::params;
use crate::policy;
use crate::profile::Profile;
use crate::review::Reviewer;
use crate::thread::ThreadState;

/// A turn that a caller asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) core: Arc<Core>,
    pub(crate) state: Arc<ThreadState>,
    /// The id of our message.
    pub(crate) key: String,
    pub(crate) when_busy: WhenBusy,
    pub(crate) bound: Bound,
    /// Who decides for this turn alone.
    pub(crate) reviewer: Option<Arc<dyn Reviewer>>,
    /// Turn over thread over client.
    profile: Profile,
    /// What the turn itself chose.
    chosen: Profile,
    hooks: HookRunner,
    subject: Subject,
}

/// What is sent.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) input: Vec<InputItem>,
    /// The params of `turn/start` that every server knows.
    pub(crate) params: Map<String, Value>,
}

impl Asked {
    pub(crate) fn new(builder: &TurnBuilder) -> Self {
        let core = Arc::clone(&builder.thread.owner.core);
        let state = Arc::clone(&builder.thread.state);
        let chosen = builder.profile.clone();
        let profile = chosen.clone().over(&state.profile);
        let hooks = HookRunner::new(&core.hooks, &state.hooks, &chosen.hooks);
        let subject = Subject {
            thread: Some(state.id.clone()),
            turn: None,
            cwd: Some(PathBuf::from(state.effective().cwd)),
            model: profile.model.clone(),
            input: builder.input.clone(),
            attachments: Vec::new(),
            metadata: Map::new(),
        };
        let key = builder.key.clone();
        Self {
            core,
            state,
            key: key.unwrap_or_else(|| Uuid::now_v7().to_string()),
            when_busy: builder.when_busy,
            bound: builder.bound,
            reviewer: chosen.reviewer.clone(),
            profile,
            chosen,
            hooks,
            subject,
        }
    }

    pub(crate) fn thread(&self) -> &ThreadId {
        &self.state.id
    }

    /// How long the turn may take; none for ever.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let after = self.profile.asked_timeout();
        (after != Duration::MAX).then_some(after)
    }

    /// Asks the gate and the hooks, and makes the input ready. After an error nothing is left to do.
    pub(crate) async fn ready(&mut self) -> Result<Ready, TurnError> {
        if self.key.is_empty() {
            return Err(TurnError::Call(CallError::InvalidArgument {
                what: "idempotency_key",
                reason: "the idempotency key must not be empty".to_owned(),
            }));
        }
        if self.state.is_closed() {
            return Err(TurnError::Call(CallError::ThreadClosed {
                thread: self.thread().clone(),
            }));
        }
        let cwd = self.state.effective().cwd;
        policy::check(&self.profile, Some(&cwd), None)?;
        self.chosen.hooks.check_for_turn(&self.core.server()?)?;
        let hooked = self.hooks.before_turn(&mut self.subject).await;
        hooked.map_err(TurnError::Blocked)?;
        match self.written(&cwd).await {
            Ok(ready) => Ok(ready),
            Err(error) => {
                self.after(None, MainStatus::Error).await;
                Err(error)
            }
        }
    }

    async fn written(&mut self, cwd: &str) -> Result<Ready, TurnError> {
        self.profile.model.clone_from(&self.subject.model);
        let said = self.subject.input.clone();
        let mut attachments = self.profile.attachments.clone();
        attachments.extend(self.subject.attachments.iter().cloned());
        let input = crate::input::prepare(&self.core, said, &attachments, cwd).await?;
        let mut params = params::turn_fields(&self.profile);
        params.insert("threadId".to_owned(), json!(self.thread()));
        params.insert("input".to_owned(), wire::input_value(&input)?);
        params.insert("clientUserMessageId".to_owned(), json!(self.key));
        Ok(Ready { input, params })
    }

    /// The params of `turn/start` for the server we talk to.
    pub(crate) fn start_params(&self, ready: &Ready) -> Map<String, Value> {
        let mut params = self.ours(ready.params.clone());
        if !self.core.is_turnlane() {
            return params;
        }
        match self.when_busy {
            WhenBusy::Queue => params.insert("whenBusy".to_owned(), json!("queue")),
            WhenBusy::Reject => params.insert("whenBusy".to_owned(), json!("reject")),
            WhenBusy::Steer => None,
        };
        params.insert("idempotencyKey".to_owned(), json!(self.key));
        if self.bound == Bound::Connection {
            params.insert("boundTo".to_owned(), json!("connection"));
        }
        params
    }

    /// With what only our server understands of a turn itself.
    pub(crate) fn ours(&self, mut params: Map<String, Value>) -> Map<String, Value> {
        let metadata = &self.subject.metadata;
        if self.core.is_turnlane() && !metadata.is_empty() {
            params.insert("turnlane".to_owned(), json!({"metadata": metadata}));
        }
        params
    }

    /// Whether the turn wants something that its thread does not have.
    pub(crate) fn overrides_its_thread(&self) -> bool {
        params::turn_fields(&self.profile) != params::turn_fields(&self.state.profile)
            || self.chosen.model_provider.is_some()
    }

    /// Runs what comes after the turn.
    pub(crate) async fn after(&mut self, turn: Option<TurnId>, main: MainStatus) {
        self.subject.turn = turn;
        self.hooks.after_turn(&self.subject, main).await;
    }

    /// What hooks did so far.
    pub(crate) fn report(&self) -> HookReport {
        self.hooks.report()
    }
}
