//! The thread API with the protocol's own names: one method is one call with the right fields.
//!
//! The invariant here: these calls pass the same gate as the builders, and their answers are read by
//! the same rules; only what a caller left open is left open here too, where a builder would take it
//! from the client. Approval and sandbox are never left open.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Thread;
use super::history::{self, list_params};
use super::open::{Opening, Origin, check_id, open};
use super::state::Activity;
use super::view::{SkillsList, ThreadIdPage, ThreadPage, ThreadView};
use crate::call::CallOptions;
use crate::client::Client;
use crate::error::{CallError, SteerError, ThreadError, TurnError, map};
use crate::ids::{ThreadId, TurnId};
use crate::input::{self, Input};
use crate::link::Repeat;
use crate::params::{absolute_cwd, put, turn_fields};
use crate::policy;
use crate::profile::{
    Approval, Effort, Escalation, Personality, Profile, ReasoningSummary, Sandbox, UnattendedWrites,
};
use crate::turn::{Turn, lookup, wire};
use crate::{SkillsListParams, ThreadListParams, ThreadLoadedListParams};

/// What [`Client::thread_start`] asks for; what is none is left to the client's profile.
#[derive(Clone, Debug, Default)]
pub struct ThreadStartParams {
    /// The model.
    pub model: Option<String>,
    /// Who serves it.
    pub model_provider: Option<String>,
    /// The provider's class of service.
    pub service_tier: Option<String>,
    /// Where it works; a relative path is taken from this process's directory.
    pub cwd: Option<PathBuf>,
    /// When the agent asks.
    pub approval_policy: Option<Approval>,
    /// Where commands may write.
    pub sandbox: Option<Sandbox>,
    /// Keys of the server's configuration, for this thread alone.
    pub config: Option<Map<String, Value>>,
    /// The caller's name towards the model provider.
    pub service_name: Option<String>,
    /// What the model is told in place of what it is told anyway.
    pub base_instructions: Option<String>,
    /// What the model is told besides.
    pub developer_instructions: Option<String>,
    /// The tone.
    pub personality: Option<Personality>,
    /// Keep it in memory only.
    pub ephemeral: Option<bool>,
    /// The name by which [`Client::thread_start`] finds the thread again, also after a restart of client
    /// and server; only Turnlane has it. One live connection at a time holds a name. The hold ends with
    /// the connection: a client that connects again goes on with the thread, without the name.
    pub binding: Option<String>,
    /// The thread that holds `binding` and whose waiting turns move to the new one.
    pub supersedes: Option<ThreadId>,
    /// Lets a privileged sandbox through the gate.
    pub allow_privileged_escalation: bool,
    /// Lets writing in the workspace through the gate although nobody is asked.
    pub allow_unattended_writes: bool,
}

/// What [`Client::thread_resume`] asks for: the same, except that a thread stays what it is.
pub type ThreadResumeParams = ThreadStartParams;

/// What [`Client::thread_fork`] asks for.
#[derive(Clone, Debug, Default)]
pub struct ForkParams {
    /// What the new thread is run with.
    pub start: ThreadStartParams,
    /// Take the history up to this turn, and it too.
    pub last_turn_id: Option<TurnId>,
    /// Take the history before this turn; not with `last_turn_id`.
    pub before_turn_id: Option<TurnId>,
}

/// What [`Client::thread_read`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadReadParams {
    /// The thread.
    pub thread_id: ThreadId,
    /// With all its turns and items.
    pub include_turns: bool,
}

/// What [`Client::thread_rollback`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRollbackParams {
    /// The thread.
    pub thread_id: ThreadId,
    /// How many of the last turns go; at least 1.
    pub num_turns: u32,
}

/// What [`Thread::turn_start`] asks for; what is none is left to the thread's profile.
#[derive(Clone, Debug, Default)]
pub struct TurnStartParams {
    /// What is said to the agent.
    pub input: Input,
    /// The client's own id for the message; a new one when none is given.
    pub client_user_message_id: Option<String>,
    /// The working directory, for this turn and later ones.
    pub cwd: Option<PathBuf>,
    /// When the agent asks.
    pub approval_policy: Option<Approval>,
    /// Where commands may write.
    pub sandbox_policy: Option<Sandbox>,
    /// The model.
    pub model: Option<String>,
    /// The provider's class of service.
    pub service_tier: Option<String>,
    /// How hard the model thinks.
    pub effort: Option<Effort>,
    /// How much of its reasoning it sums up.
    pub summary: Option<ReasoningSummary>,
    /// The tone.
    pub personality: Option<Personality>,
    /// A JSON Schema for the final answer.
    pub output_schema: Option<Value>,
    /// Lets a privileged sandbox through the gate.
    pub allow_privileged_escalation: bool,
    /// Lets writing in the workspace through the gate although nobody is asked.
    pub allow_unattended_writes: bool,
}

impl ThreadStartParams {
    fn opening(self, origin: Origin) -> (Profile, Opening) {
        let profile = Profile {
            model: self.model,
            model_provider: self.model_provider,
            service_tier: self.service_tier,
            approval: self.approval_policy,
            sandbox: self.sandbox,
            personality: self.personality,
            escalation: Escalation::from(self.allow_privileged_escalation),
            unattended_writes: UnattendedWrites::from(self.allow_unattended_writes),
            ..Profile::default()
        };
        let opening = Opening {
            cwd: self.cwd,
            ephemeral: self.ephemeral,
            service_name: self.service_name,
            base_instructions: self.base_instructions,
            developer_instructions: self.developer_instructions,
            config: self.config,
            binding: self.binding,
            supersedes: self.supersedes,
            ..Opening::new(origin)
        };
        (profile, opening)
    }
}

impl TurnStartParams {
    /// What the turn chooses itself.
    pub(crate) fn profile(&self) -> Profile {
        Profile {
            model: self.model.clone(),
            service_tier: self.service_tier.clone(),
            approval: self.approval_policy,
            sandbox: self.sandbox_policy.clone(),
            effort: self.effort.clone(),
            summary: self.summary,
            personality: self.personality,
            output_schema: self.output_schema.clone(),
            escalation: Escalation::from(self.allow_privileged_escalation),
            unattended_writes: UnattendedWrites::from(self.allow_unattended_writes),
            ..Profile::default()
        }
    }
}

/// The thread API with the protocol's own names.
impl Client {
    /// `thread/start`: a new thread.
    pub async fn thread_start(&self, params: ThreadStartParams) -> Result<Thread, ThreadError> {
        let (profile, opening) = params.opening(Origin::New);
        open(Arc::clone(&self.owner), profile, opening).await
    }

    /// `thread/resume`: a thread that is there already, without its turns.
    pub async fn thread_resume(
        &self,
        id: impl Into<ThreadId>,
        params: ThreadResumeParams,
    ) -> Result<Thread, ThreadError> {
        let (profile, opening) = params.opening(Origin::Stored(id.into()));
        open(Arc::clone(&self.owner), profile, opening).await
    }

    /// `thread/fork`: a new thread that begins with another one's history.
    pub async fn thread_fork(
        &self,
        id: impl Into<ThreadId>,
        params: ForkParams,
    ) -> Result<Thread, ThreadError> {
        let (profile, opening) = params.start.opening(Origin::Fork {
            source: id.into(),
            last_turn: params.last_turn_id,
            before_turn: params.before_turn_id,
        });
        open(Arc::clone(&self.owner), profile, opening).await
    }

    /// `thread/archive`: puts a thread away; its handles are closed.
    pub async fn thread_archive(&self, id: impl Into<ThreadId>) -> Result<(), ThreadError> {
        let id = id.into();
        check_id("threadId", id.as_str())?;
        let _: IgnoredAny = self.about("thread/archive", &id, Repeat::Never).await?;
        if let Some(known) = self.owner.registry.find(&id) {
            known.close();
        }
        Ok(())
    }

    /// `thread/unarchive`: takes a thread back. Handles from before stay closed; resume it.
    pub async fn thread_unarchive(
        &self,
        id: impl Into<ThreadId>,
    ) -> Result<ThreadView, ThreadError> {
        let id = id.into();
        check_id("threadId", id.as_str())?;
        self.about("thread/unarchive", &id, Repeat::Never).await
    }

    /// `thread/read`: shows a thread without opening it. Its turns come page by page, however many
    /// there are.
    pub async fn thread_read(&self, params: ThreadReadParams) -> Result<ThreadView, ThreadError> {
        let id = &params.thread_id;
        check_id("threadId", id.as_str())?;
        if params.include_turns {
            history::read_with_turns(&self.owner, id).await
        } else {
            history::read(&self.owner, id).await
        }
    }

    /// `thread/list`: one page, sorted by the last change unless asked otherwise.
    pub async fn thread_list(&self, params: ThreadListParams) -> Result<ThreadPage, CallError> {
        let params = list_params(params);
        let options = CallOptions::default();
        self.owner
            .call_as("thread/list", &params, Repeat::Harmless, options)
            .await
    }

    /// `thread/loaded/list`: one page of the threads that the server has open.
    pub async fn thread_loaded_list(
        &self,
        params: ThreadLoadedListParams,
    ) -> Result<ThreadIdPage, CallError> {
        let options = CallOptions::default();
        self.owner
            .call_as("thread/loaded/list", &params, Repeat::Harmless, options)
            .await
    }

    /// Takes the last turns out of a thread's history: `thread/turns/list` and `thread/revert`. Files
    /// are not touched.
    pub async fn thread_rollback(
        &self,
        params: ThreadRollbackParams,
    ) -> Result<ThreadView, ThreadError> {
        check_id("threadId", params.thread_id.as_str())?;
        history::rollback(&self.owner, &params.thread_id, params.num_turns).await
    }

    /// `skills/list`: the skills of some directories.
    pub async fn skills_list(&self, params: SkillsListParams) -> Result<SkillsList, CallError> {
        let params = json!({"cwds": params.cwds, "forceReload": params.force_reload});
        let options = CallOptions::default();
        self.owner
            .call_as("skills/list", &params, Repeat::Harmless, options)
            .await
    }

    /// `turn/interrupt`: stops a turn; returns at the answer or when the turn has ended, whichever
    /// comes first, and fails after 10 s.
    pub async fn turn_interrupt(
        &self,
        thread: impl Into<ThreadId>,
        turn: impl Into<TurnId>,
    ) -> Result<(), CallError> {
        self.turn_interrupt_with_timeout(thread, turn, wire::INTERRUPT_TIMEOUT)
            .await
    }

    /// `turn/interrupt` with another limit than 10 s.
    pub async fn turn_interrupt_with_timeout(
        &self,
        thread: impl Into<ThreadId>,
        turn: impl Into<TurnId>,
        after: Duration,
    ) -> Result<(), CallError> {
        let (thread, turn) = (thread.into(), turn.into());
        check_id("threadId", thread.as_str())?;
        check_id("turnId", turn.as_str())?;
        wire::interrupt(&self.owner, &thread, &turn, after).await
    }

    /// A call with nothing but a thread.
    async fn about<R: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        id: &ThreadId,
        repeat: Repeat,
    ) -> Result<R, ThreadError> {
        let params = json!({ "threadId": id });
        self.owner
            .call_as(method, &params, repeat, CallOptions::default())
            .await
            .map_err(|error| map::thread(id, error))
    }
}

/// The thread API with the protocol's own names.
impl Thread {
    /// `turn/start`, at once and without waiting for other turns. Where a turn runs, the server
    /// decides: Codex 0.166 makes the input part of it, which is [`TurnError::Merged`].
    pub async fn turn_start(&self, params: TurnStartParams) -> Result<Turn, TurnError> {
        self.state.check_open()?;
        let cwd = match params.cwd.as_deref() {
            Some(cwd) => absolute_cwd(cwd)?,
            None => self.effective().cwd,
        };
        let profile = params.profile().over(&self.state.profile);
        policy::check(&profile, Some(&cwd), None)?;
        let attachments = &profile.attachments;
        let input = input::prepare(&self.owner, params.input, attachments, &cwd).await?;
        let mut fields = turn_fields(&profile);
        put(&mut fields, "threadId", Some(self.id()));
        fields.insert("input".to_owned(), wire::input_value(&input)?);
        put(&mut fields, "cwd", params.cwd.is_some().then_some(&cwd));
        let client_id = params
            .client_user_message_id
            .unwrap_or_else(|| Uuid::now_v7().to_string());
        put(&mut fields, "clientUserMessageId", Some(&client_id));
        // What ran before the call cannot be its turn.
        let before = self.state.activity().borrow().clone();
        let started = wire::start(&self.owner, &fields, Repeat::Never)
            .await
            .map_err(|error| map::turn(self.id(), error))?;
        let id = started.turn.id;
        let is_merged = match before {
            Activity::Idle => false,
            Activity::Active(Some(active)) => active == id,
            // Something ran and nobody said what: its first message tells whose it is.
            Activity::Active(None) | Activity::Unknown => {
                let turn = lookup::by_id(&self.owner, self.id(), &id).await?;
                let first = turn.as_ref().and_then(lookup::first_client_id);
                first.is_some_and(|first| first != client_id)
            }
        };
        if is_merged {
            return Err(TurnError::Merged { into: id });
        }
        Ok(Turn {
            owner: Arc::clone(&self.owner),
            thread: self.clone(),
            id,
        })
    }

    /// `turn/steer`: says more to the turn that is expected to run.
    pub async fn turn_steer(
        &self,
        expected: impl Into<TurnId>,
        input: impl Into<Input>,
    ) -> Result<TurnId, SteerError> {
        let expected = expected.into();
        self.state.check_open()?;
        check_id("expectedTurnId", expected.as_str())?;
        let cwd = self.effective().cwd;
        let input = input::prepare(&self.owner, input.into(), &[], &cwd)
            .await
            .map_err(input::Refused::into_call)?;
        let client_id = Uuid::now_v7().to_string();
        wire::steer(&self.owner, self.id(), &expected, &input, &client_id)
            .await
            .map_err(|error| map::steer(&expected, error))
    }
}
