//! Opening a thread: start, resume and fork, from the caller's choices to a handle.
//!
//! The invariant here: nothing is sent that the gate or a hook refuses, and there is no handle for a
//! thread that was granted more than was asked for: such a thread is left, and put away if it was made
//! for this very call.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::Thread;
use super::answer::Answer;
use super::state::{Attention, Known, Opened, ThreadState};
use crate::call::CallOptions;
use crate::core::{Core, Owner};
use crate::error::{CallError, ThreadError, map};
use crate::hooks::{HookRunner, HookSet, MainStatus, Subject, register};
use crate::ids::{ThreadId, TurnId};
use crate::link::{Link, Repeat};
use crate::params::{absolute_cwd, put, thread_fields};
use crate::policy;
use crate::profile::Profile;

/// How long leaving a thread that was granted too much may take, call by call.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a thread comes from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    New,
    Stored(ThreadId),
    Fork {
        source: ThreadId,
        last_turn: Option<TurnId>,
        before_turn: Option<TurnId>,
    },
}

/// What is asked for besides the profile.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) origin: Origin,
    pub(super) cwd: Option<PathBuf>,
    pub(super) ephemeral: Option<bool>,
    pub(super) service_name: Option<String>,
    pub(super) base_instructions: Option<String>,
    pub(super) developer_instructions: Option<String>,
    pub(super) config: Option<Map<String, Value>>,
    pub(super) binding: Option<String>,
    pub(super) supersedes: Option<ThreadId>,
}

impl Opening {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            origin,
            cwd: None,
            ephemeral: None,
            service_name: None,
            base_instructions: None,
            developer_instructions: None,
            config: None,
            binding: None,
            supersedes: None,
        }
    }

    fn method(&self) -> &'static str {
        match self.origin {
            Origin::New => "thread/start",
            Origin::Stored(_) => "thread/resume",
            Origin::Fork { .. } => "thread/fork",
        }
    }

    /// The thread that is there already.
    fn source(&self) -> Option<&ThreadId> {
        match &self.origin {
            Origin::New => None,
            Origin::Stored(id) | Origin::Fork { source: id, .. } => Some(id),
        }
    }

    fn params(&self, profile: &Profile, cwd: Option<&str>) -> Map<String, Value> {
        let mut params = thread_fields(profile, cwd, self.config.as_ref());
        put(&mut params, "threadId", self.source());
        put(&mut params, "ephemeral", self.ephemeral.as_ref());
        put(&mut params, "serviceName", self.service_name.as_ref());
        put(
            &mut params,
            "baseInstructions",
            self.base_instructions.as_ref(),
        );
        put(
            &mut params,
            "developerInstructions",
            self.developer_instructions.as_ref(),
        );
        match &self.origin {
            Origin::New => {
                put(&mut params, "binding", self.binding.as_ref());
                put(&mut params, "supersedes", self.supersedes.as_ref());
            }
            Origin::Stored(_) => {
                params.insert("excludeTurns".to_owned(), Value::Bool(true));
            }
            Origin::Fork {
                last_turn,
                before_turn,
                ..
            } => {
                put(&mut params, "lastTurnId", last_turn.as_ref());
                put(&mut params, "beforeTurnId", before_turn.as_ref());
                // Nothing here reads the history out of an opening answer, and Codex refuses an
                // ephemeral fork without it.
                params.insert("excludeTurns".to_owned(), Value::Bool(true));
            }
        }
        params
    }
}

/// Opens a thread.
pub(super) async fn open(
    owner: Arc<Owner>,
    profile: Profile,
    opening: Opening,
) -> Result<Thread, ThreadError> {
    let hooks = profile.hooks.clone();
    let mut profile = profile.over(&owner.profile);
    let cwd = opening.cwd.as_deref().map(absolute_cwd).transpose()?;
    check(&owner, &profile, &opening, cwd.as_deref()).await?;
    hooks.check(&owner.server()?)?;
    if let (Some(reviewer), Origin::Stored(id)) = (&profile.reviewer, &opening.origin) {
        // What is asked right behind the answer, of a turn that runs, is for this reviewer already.
        owner.reviews.for_thread(id, reviewer);
    }

    let mut runner = Hooks::new(&owner, &hooks, &opening, &profile, cwd.as_deref());
    profile.model = runner.before().await?;
    let opened = call(&owner, &profile, &opening, cwd.as_deref(), &hooks).await;
    runner.after(&opened).await;

    let known = opened?;
    if let Some(reviewer) = &profile.reviewer {
        owner.reviews.for_thread(&known.id, reviewer);
    }
    let registration = match register(&owner, Some(&known.id), &hooks).await {
        Ok(registration) => registration,
        // Without its hooks there is no such thread.
        Err(error) => {
            leave(&owner, &known.id, &opening).await;
            return Err(ThreadError::Call(error));
        }
    };
    let state = ThreadState::new(known, profile, hooks, registration);
    Ok(Thread {
        owner,
        state: Arc::new(state),
    })
}

/// Everything that can be refused before a byte is sent.
async fn check(
    core: &Core,
    profile: &Profile,
    opening: &Opening,
    cwd: Option<&str>,
) -> Result<(), ThreadError> {
    if let Some(id) = opening.source() {
        check_id("threadId", id.as_str())?;
    }
    if let Origin::Fork {
        last_turn,
        before_turn,
        ..
    } = &opening.origin
    {
        if let Some(turn) = last_turn {
            check_id("lastTurnId", turn.as_str())?;
        }
        if let Some(turn) = before_turn {
            check_id("beforeTurnId", turn.as_str())?;
        }
        if last_turn.is_some() && before_turn.is_some() {
            return Err(ThreadError::Call(CallError::InvalidArgument {
                what: "beforeTurnId",
                reason: "`beforeTurnId` cannot be combined with `lastTurnId`".to_owned(),
            }));
        }
    }
    check_binding(core, opening)?;
    policy::check(profile, cwd, opening.config.as_ref())?;
    if let Some(cwd) = cwd {
        crate::input::check_attachments(core, &profile.attachments, cwd).await?;
    }
    Ok(())
}

/// Refuses a binding where it cannot be meant, or where the server would ignore it.
fn check_binding(core: &Core, opening: &Opening) -> Result<(), CallError> {
    let refused = |what, reason: &str| CallError::InvalidArgument {
        what,
        reason: reason.to_owned(),
    };
    match (&opening.binding, &opening.supersedes) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(refused("supersedes", "`supersedes` needs `binding`")),
        (Some(_), Some(old)) => check_id("supersedes", old.as_str())?,
        (Some(_), None) => {}
    }
    if !matches!(opening.origin, Origin::New) {
        return Err(refused("binding", "only `thread/start` takes a binding"));
    }
    if core.is_turnlane() {
        Ok(())
    } else {
        let method = opening.method().to_owned();
        Err(CallError::Unsupported { method })
    }
}

/// Refuses an id that is none, in the words of the contract.
pub(super) fn check_id(what: &'static str, id: &str) -> Result<(), CallError> {
    if id.trim().is_empty() {
        return Err(CallError::InvalidArgument {
            what,
            reason: format!("params.{what} must be a non-empty string"),
        });
    }
    Ok(())
}

async fn call(
    core: &Arc<Core>,
    profile: &Profile,
    opening: &Opening,
    cwd: Option<&str>,
    hooks: &HookSet,
) -> Result<Arc<Known>, ThreadError> {
    let method = opening.method();
    let params = opening.params(profile, cwd);
    // What is told about a thread between its answer and our reading of it is not missed.
    let expected = match &opening.origin {
        Origin::Stored(id) => {
            let known = core.registry.open(id);
            let words = known.words();
            Some((known, words))
        }
        Origin::New | Origin::Fork { .. } => None,
    };
    let generation = core.link().map_or(0, Link::generation);
    let answer: Answer = core
        .call_as(method, &params, Repeat::Never, CallOptions::default())
        .await
        .map_err(|error| match opening.source() {
            Some(id) => map::thread(id, error),
            None => map::thread(&ThreadId::from(""), error),
        })?;
    let id = answer.id(method)?;
    check_identity(opening, &id)?;
    let effective = answer.effective();
    let asked = (&profile.asked_approval(), &profile.asked_sandbox());
    if let Err(widened) = policy::check_granted(asked, &effective) {
        leave(core, &id, opening).await;
        return Err(ThreadError::Policy(widened));
    }
    let (known, words) = expected.unwrap_or_else(|| {
        let known = core.registry.open(&id);
        let words = known.words();
        (known, words)
    });
    let needs_attention = profile.reviewer.is_some() || !hooks.is_empty() || !core.hooks.is_empty();
    known.opened(
        Opened {
            effective,
            asked: asked_again(&params),
            activity: answer.activity(),
            position: answer.position(),
            attention: if needs_attention {
                Attention::Needed
            } else {
                Attention::None
            },
            generation,
        },
        words,
    );
    Ok(known)
}

/// What is asked for again on another connection: the policies, nothing else.
fn asked_again(params: &Map<String, Value>) -> Map<String, Value> {
    let mut asked = Map::new();
    for name in ["approvalPolicy", "sandbox", "permissions"] {
        put(&mut asked, name, params.get(name));
    }
    let limits = params
        .get("config")
        .and_then(|config| config.get("sandbox_workspace_write"));
    if let Some(limits) = limits {
        asked.insert(
            "config".to_owned(),
            json!({ "sandbox_workspace_write": limits }),
        );
    }
    asked
}

fn check_identity(opening: &Opening, actual: &ThreadId) -> Result<(), ThreadError> {
    let (requested, is_right) = match &opening.origin {
        Origin::New => return Ok(()),
        Origin::Stored(id) => (id, actual == id),
        Origin::Fork { source, .. } => (source, actual != source),
    };
    if is_right {
        return Ok(());
    }
    Err(ThreadError::MismatchedThread {
        method: opening.method(),
        requested: requested.clone(),
        actual: actual.clone(),
    })
}

/// Leaves a thread that was granted too much; what the server says to it changes nothing.
async fn leave(core: &Core, id: &ThreadId, opening: &Opening) {
    let options = CallOptions {
        timeout: Some(LEAVE_TIMEOUT),
        ..CallOptions::default()
    };
    let methods: &[&str] = match opening.origin {
        // A binding may have led to a thread that was there before, with its history and queue.
        Origin::New if opening.binding.is_some() => &["thread/unsubscribe"],
        Origin::New | Origin::Fork { .. } => &["thread/unsubscribe", "thread/archive"],
        Origin::Stored(_) => &["thread/unsubscribe"],
    };
    for method in methods {
        let params = json!({ "threadId": id });
        let left: Result<IgnoredAny, _> =
            core.call_as(method, &params, Repeat::Never, options).await;
        if let Err(error) = left {
            tracing::debug!(thread = %id, method, %error, "a thread could not be left");
        }
    }
}

/// The hooks around an opening; none is run where there is none.
struct Hooks {
    runner: Option<HookRunner>,
    subject: Subject,
}

impl Hooks {
    fn new(
        core: &Core,
        hooks: &HookSet,
        opening: &Opening,
        profile: &Profile,
        cwd: Option<&str>,
    ) -> Self {
        let is_none = core.hooks.is_empty() && hooks.is_empty();
        let subject = Subject {
            thread: opening.source().cloned(),
            cwd: cwd.map(PathBuf::from),
            model: profile.model.clone(),
            ..Subject::default()
        };
        Self {
            runner: (!is_none).then(|| HookRunner::new(&core.hooks, hooks, &HookSet::default())),
            subject,
        }
    }

    /// The model after the hooks had their say.
    async fn before(&mut self) -> Result<Option<String>, ThreadError> {
        if let Some(runner) = &mut self.runner {
            let allowed = runner.before_thread(&mut self.subject).await;
            allowed.map_err(ThreadError::Blocked)?;
        }
        Ok(self.subject.model.clone())
    }

    async fn after(&mut self, opened: &Result<Arc<Known>, ThreadError>) {
        let Some(runner) = &mut self.runner else {
            return;
        };
        let status = match opened {
            Ok(known) => {
                self.subject.thread = Some(known.id.clone());
                MainStatus::Ok
            }
            Err(_) => MainStatus::Error,
        };
        runner.after_thread(&self.subject, status).await;
    }
}
