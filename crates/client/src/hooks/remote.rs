//! Hooks about tools: registered with the server, which asks them where the tool runs.
//!
//! The invariant here: a registration is known to this client as long as it can be asked, and a hook
//! is only ever asked about what it was registered for. Registrations end with their connection and
//! are made again on the next one.
//!
//! Servers without `hook/register` are refused when the client or thread is built; see
//! [`HookSet::check`](super::HookSet::check).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde::Deserialize;
use serde_json::{Value, json};
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{Params, Responder};

use super::call::ask;
use super::{
    Entry, HookAction, HookContext, HookPhase, HookSet, MainStatus, OnFailure, patch, wire,
};
use crate::call::CallOptions;
use crate::core::Core;
use crate::error::{CallError, Side};
use crate::ids::{ThreadId, TurnId};
use crate::link::{Call, Repeat, ServerInfo, ServerKind};

/// Makes hooks of this client known to the server.
pub(super) const REGISTER_METHOD: &str = "hook/register";
/// Takes them back.
const UNREGISTER_METHOD: &str = "hook/unregister";
/// The word for both among a server's features.
const FEATURE: &str = "hook";

/// Whether the server asks hooks of its clients.
pub(super) fn is_served(server: &ServerInfo) -> bool {
    server.kind == ServerKind::Turnlane && server.features.iter().any(|word| word == FEATURE)
}

/// The hooks of a client that its server asks.
#[derive(Debug, Default)]
pub(crate) struct Registrations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sets: Vec<Arc<Set>>,
    next_key: u64,
}

/// Hooks that were registered together.
#[derive(Debug)]
struct Set {
    key: u64,
    thread: Option<ThreadId>,
    wanted: Vec<Wanted>,
    /// What the server calls them, in the order of `wanted`; empty while there is no connection.
    ids: Mutex<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Wanted {
    entry: Arc<Entry>,
    phase: HookPhase,
}

/// Hooks of a thread that are asked until this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    core: Weak<Core>,
    key: u64,
}

impl Registration {
    /// They are asked as long as the client lives.
    pub(crate) fn keep(mut self) {
        self.core = Weak::new();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let ids = core.registrations.remove(self.key);
        let params = serde_json::value::to_raw_value(&json!({ "registrationIds": ids }));
        if let (false, Ok(params), Ok(link)) = (ids.is_empty(), params, core.link()) {
            link.send_detached(Call {
                method: UNREGISTER_METHOD.to_owned(),
                params,
                timeout: None,
                repeat: Repeat::Harmless,
            });
        }
    }
}

impl Registrations {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, thread: Option<&ThreadId>, wanted: Vec<Wanted>) -> Arc<Set> {
        let mut state = self.state();
        state.next_key += 1;
        let set = Arc::new(Set {
            key: state.next_key,
            thread: thread.cloned(),
            wanted,
            ids: Mutex::default(),
        });
        state.sets.push(Arc::clone(&set));
        set
    }

    fn remove(&self, key: u64) -> Vec<String> {
        let mut state = self.state();
        let place = state.sets.iter().position(|set| set.key == key);
        let set = place.map(|place| state.sets.remove(place));
        set.map(|set| set.ids().clone()).unwrap_or_default()
    }

    fn find(&self, id: &str) -> Option<(Wanted, Option<ThreadId>)> {
        let state = self.state();
        let mut sets = state.sets.iter();
        sets.find_map(|set| {
            let place = set.ids().iter().position(|known| known == id)?;
            Some((set.wanted.get(place)?.clone(), set.thread.clone()))
        })
    }
}

impl Set {
    fn ids(&self) -> MutexGuard<'_, Vec<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn register(&self, core: &Core) -> Result<(), CallError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Registered {
            registration_ids: Vec<String>,
        }

        let hooks = self.wanted.iter().map(Wanted::described);
        let mut params = json!({ "hooks": hooks.collect::<Vec<_>>() });
        if let Some(thread) = &self.thread {
            params["threadId"] = json!(thread);
        }
        let answer: Registered = core
            .call_as(
                REGISTER_METHOD,
                &params,
                Repeat::Never,
                CallOptions::default(),
            )
            .await?;
        if answer.registration_ids.len() != self.wanted.len() {
            return Err(CallError::Contract {
                method: REGISTER_METHOD.to_owned(),
                side: Side::Response,
                reason: "result.registrationIds must name every hook".to_owned(),
            });
        }
        *self.ids() = answer.registration_ids;
        Ok(())
    }
}

impl Wanted {
    fn described(&self) -> Value {
        let on_failure = match self.entry.on_failure() {
            OnFailure::Allow => "allow",
            OnFailure::Block => "block",
        };
        let limit = u64::try_from(self.entry.timeout().as_millis()).unwrap_or(u64::MAX);
        let mut hook = json!({"name": self.entry.name(), "event": self.phase.as_str(),
            "timeoutMs": limit, "onFailure": on_failure});
        if let Some(pattern) = self.entry.matcher.tool_pattern() {
            hook["matcher"] = json!(pattern);
        }
        hook
    }
}

/// Has the server ask the hooks of `set` that are about tools; none when it has none. Without a thread
/// they are asked about all threads.
pub(crate) async fn register(
    core: &Arc<Core>,
    thread: Option<&ThreadId>,
    set: &HookSet,
) -> Result<Option<Registration>, CallError> {
    let wanted = set.entries.iter().flat_map(|entry| {
        let phases = entry.matcher.tool_phases();
        phases.map(|phase| Wanted {
            entry: Arc::clone(entry),
            phase,
        })
    });
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let set = core.registrations.add(thread, wanted);
    let registration = Registration {
        core: Arc::downgrade(core),
        key: set.key,
    };
    set.register(core).await?;
    Ok(Some(registration))
}

/// On a new connection everything is registered again.
pub(crate) fn register_again(core: &Arc<Core>) {
    let sets = core.registrations.state().sets.clone();
    if sets.is_empty() {
        return;
    }
    let core = Arc::clone(core);
    tokio::spawn(async move {
        for set in sets {
            set.ids().clear();
            if let Err(error) = set.register(&core).await {
                tracing::error!(%error, "hooks could not be registered again");
            }
        }
    });
}

/// The server asks a hook: a task answers. An error is a failure, which follows the hook's policy.
pub(crate) fn run_for_server(core: &Arc<Core>, params: &Params, responder: Responder) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Run {
        registration_id: String,
        #[serde(default, rename = "runId")]
        id: String,
        input: Value,
    }

    let run: Run = match params.parse() {
        Ok(run) => run,
        Err(error) => return responder.error(&error),
    };
    let Some((wanted, thread)) = core.registrations.find(&run.registration_id) else {
        return responder.error(&ErrorObject::internal("no such hook is registered"));
    };
    tokio::spawn(async move {
        let Some(context) = context(&run.input, run.id) else {
            return responder.error(&ErrorObject::internal(
                "the hook's input names no tool event",
            ));
        };
        let is_other = thread.is_some() && thread != context.thread_id;
        if is_other || context.phase != wanted.phase {
            return responder.error(&ErrorObject::internal(
                "not what the hook is registered for",
            ));
        }
        if !wanted.entry.matcher.is_below(context.cwd.as_deref()) {
            return responder.result(&json!({}));
        }
        let (phase, cwd) = (context.phase, context.cwd.clone());
        let (said, _) = tokio::select! {
            said = ask(&wanted.entry, context) => said,
            () = responder.abandoned() => return,
        };
        match said {
            Ok(said) => {
                let (action, mut wrong) = (said.action, said.wrong);
                let action = match action {
                    HookAction::Mutate(wanted) => {
                        let (patch, refused) = patch::permitted(wanted, phase, cwd.as_deref());
                        wrong.extend(refused);
                        HookAction::Mutate(patch)
                    }
                    action @ (HookAction::Noop | HookAction::Block { .. }) => action,
                };
                responder.result(&wire::answer(phase, action, wrong));
            }
            Err(issue) => responder.error(&ErrorObject::internal(issue.to_string())),
        }
    });
}

/// What a hook sees of a server's question.
fn context(input: &Value, run_id: String) -> Option<HookContext> {
    let text = |name: &str| input.get(name).and_then(Value::as_str).map(str::to_owned);
    let phase = wire::phase(&text("hook_event_name")?)?;
    let ours = input.get("turnlane");
    let metadata = ours.and_then(|ours| ours.get("metadata")?.as_object().cloned());
    Some(HookContext {
        phase,
        thread_id: text("session_id").map(ThreadId::from),
        turn_id: text("turn_id").map(TurnId::from),
        cwd: text("cwd").map(PathBuf::from),
        model: text("model"),
        prompt: None,
        main_status: (phase == HookPhase::PostToolUse).then_some(MainStatus::Ok),
        correlation_id: run_id,
        at: crate::clock::now(),
        metadata: metadata.unwrap_or_default(),
        tool_name: text("tool_name"),
        tool_input: input.get("tool_input").cloned(),
    })
}
