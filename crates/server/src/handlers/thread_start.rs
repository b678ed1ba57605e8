//! `thread/start`: makes a thread, follows it, and tells everybody.
//!
//! The invariant here: the answer shows what is in effect, read back from what was stored; the thread
//! is on disk before the answer, and `thread/started` comes after it.
//!
//! A start with `binding` goes on in `thread_binding`.

use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::error::MissingThread;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::thread_start::{METHOD, MULTI_AGENT_MODE};
use turnlane_protocol::method::{StartAnswer, ThreadStartParams};
use turnlane_protocol::notification::{ServerNotification, ThreadStarted};
use turnlane_protocol::thread::{Thread, ThreadEnvironment};
use turnlane_runtime::store::StoreError;
use turnlane_runtime::store::thread::ThreadRow;
use turnlane_runtime::{CreateThread, Error, Life};

use super::thread_binding::BindingRequest;
use crate::connection::Connection;
use crate::errors::{self, About};
use crate::git;
use crate::methods::Then;
use crate::settings;
use crate::subscriptions::{Join, join};
use crate::view::{self, ThreadFacts};

/// The engine that obeys rules about commands.
pub(crate) const NATIVE: &str = "native";

/// `thread/start`
pub(crate) async fn start(
    cx: Arc<Connection>,
    params: ThreadStartParams,
) -> Result<Then<StartAnswer>, ErrorObject> {
    let binding = BindingRequest::read(&params)?;
    let key = Key::read(&params)?;
    check_environments(&cx, params.environments.as_deref())?;
    let options = &cx.shared().options;
    let engine = params.engine.unwrap_or_else(|| options.defaults.engine());
    if !options.runtime.engines().contains(&engine) {
        return Err(errors::invalid(format!("unknown engine: {engine}")));
    }
    let settings = settings::of_new_thread(&cx, &engine, &params.overrides)?;
    settings::check_sandbox(&cx, &settings.sandbox_policy)?;
    if engine == NATIVE {
        settings::check_rules(&cx, Some(&settings.cwd))?;
    }
    let facts = ThreadFacts {
        git_info: git::info(&settings.cwd).await,
        originator: cx.client_name().map(str::to_owned),
        thread_source: params.thread_source,
        service_name: params.service_name,
        environments: params.environments,
        start_digest: key.as_ref().map(|key| key.digest.clone()),
        ..ThreadFacts::default()
    };
    let mut create = CreateThread::new(engine, settings);
    create.facts = facts.into_map();
    create.max_depth = params
        .queue_max_depth
        .unwrap_or_else(|| options.defaults.queue_max_depth());
    if let Some(binding) = binding {
        return binding.start(&cx, create, &params.overrides).await;
    }
    if params.ephemeral == Some(true) {
        create.life = Life::Ephemeral;
    }
    create.id = key.as_ref().map(|key| key.thread);
    let row = options.runtime.create_thread(create).await;
    let about = |thread| About {
        method: METHOD,
        thread,
        missing: MissingThread::NotFound,
    };
    if let (Err(Error::Store(StoreError::ThreadExists(_))), Some(key)) = (&row, &key) {
        return key.found(&cx, &about(key.thread)).await;
    }
    let row = row.map_err(|error| errors::of(&error, &about(ThreadId::new(0))))?;
    let about = about(view::thread_id(row.id));
    begun(&cx, &row, about, Vec::new()).await
}

/// How long a key may be.
const KEY_BYTES_MAX: usize = 512;

/// A key that names the thread.
struct Key {
    text: String,
    thread: ThreadId,
    digest: String,
}

impl Key {
    /// The key of a start, if it has one.
    fn read(params: &ThreadStartParams) -> Result<Option<Self>, ErrorObject> {
        let Some(text) = &params.idempotency_key else {
            return Ok(None);
        };
        if text.is_empty() || text.len() > KEY_BYTES_MAX {
            let range = format!("idempotencyKey must have 1 to {KEY_BYTES_MAX} bytes");
            return Err(errors::invalid(range));
        }
        if params.ephemeral == Some(true) {
            let why = "idempotencyKey cannot name an ephemeral thread";
            return Err(errors::invalid(why.to_owned()));
        }
        let content = serde_json::to_vec(params);
        let content = content.map_err(|error| ErrorObject::internal(error.to_string()))?;
        Ok(Some(Self {
            text: text.clone(),
            thread: turnlane_runtime::thread_of_key(text),
            digest: turnlane_runtime::digest(&content),
        }))
    }

    /// Answers with the thread that this key made before; refused where the params were others.
    ///
    /// The connection does not follow it: another process may own it, such as the one that made it, and
    /// the answer must not depend on that. `thread/resume` follows it.
    async fn found(
        &self,
        cx: &Connection,
        about: &About,
    ) -> Result<Then<StartAnswer>, ErrorObject> {
        let row = super::stored(cx, about).await?;
        let facts: ThreadFacts = view::read(&row.facts, "facts")?;
        if facts.start_digest.as_ref() != Some(&self.digest) {
            return Err(ErrorObject::thread_key_conflict(&self.text));
        }
        let shown = super::shown(cx, &row, about).await?;
        let mut answer = answer(cx, &row, shown).await?;
        answer.existing = Some(true);
        Ok(Then::new(answer, async {}))
    }
}

/// Follows a thread that was just made, answers with it, and tells everybody.
pub(crate) async fn begun(
    cx: &Arc<Connection>,
    row: &ThreadRow,
    about: About,
    turns: Vec<turnlane_protocol::turn::Turn>,
) -> Result<Then<StartAnswer>, ErrorObject> {
    let thread = about.thread;
    let joined = join(cx, thread, None).await;
    let joined = joined.map_err(|error| errors::of(&error, &about))?;
    let shown = super::shown(cx, row, &about).await?;
    let told = Thread::clone(&shown);
    let mut answer = answer(cx, row, shown).await?;
    answer.thread.turns = turns;
    let cx = Arc::clone(cx);
    Ok(Then::new(answer, async move {
        if let Join::New(joined) = joined {
            joined.go_on();
        }
        let started = ThreadStarted {
            thread: Box::new(told),
        };
        let runtime = &cx.shared().options.runtime;
        runtime
            .announce(thread, ServerNotification::ThreadStarted(started))
            .await;
    }))
}

/// The values in effect.
pub(crate) async fn answer(
    cx: &Connection,
    row: &ThreadRow,
    thread: Thread,
) -> Result<StartAnswer, ErrorObject> {
    let settings = view::settings(row)?;
    let defaults = Arc::clone(&cx.shared().options.defaults);
    let cwd = settings.cwd.clone();
    let sources = tokio::task::spawn_blocking(move || defaults.instruction_sources(&cwd));
    let instruction_sources = sources.await.unwrap_or_default();
    let runtime = &cx.shared().options.runtime;
    let engine_status = runtime.engine_status(&row.engine, &settings).await;
    let active_permission_profile = settings::active_profile(&settings);
    Ok(StartAnswer {
        thread,
        model: settings.model,
        model_provider: settings.provider,
        cwd: settings.cwd,
        approval_policy: settings.approval_policy,
        approvals_reviewer: settings.approvals_reviewer.unwrap_or_default(),
        sandbox: settings.sandbox_policy,
        service_tier: settings.service_tier,
        reasoning_effort: settings.effort,
        instruction_sources,
        runtime_workspace_roots: settings.runtime_workspace_roots,
        active_permission_profile,
        disabled_plugin_ids: Vec::new(),
        multi_agent_mode: Some(MULTI_AGENT_MODE.into()),
        existing: None,
        engine_status: Some(engine_status),
    })
}

/// Refuses places that are not configured.
pub(crate) fn check_environments(
    cx: &Connection,
    environments: Option<&[ThreadEnvironment]>,
) -> Result<(), ErrorObject> {
    let known = cx.shared().options.defaults.environments();
    for environment in environments.unwrap_or_default() {
        let id = &environment.environment_id;
        if !known.contains(id) {
            return Err(ErrorObject::unknown_environment(id));
        }
    }
    Ok(())
}
