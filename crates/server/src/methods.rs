//! Every method this server answers, in one table.
//!
//! One line per method: its name, who may call it, how requests of one thread may overlap, and the
//! handler. The invariant: a name stands here once, and a handler has its params decoded and its
//! result encoded by the functions of this file, so all of them are answered the same way.
//!
//! What a method does is in `handlers`, `answers` and `commands`.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::{Params, Responder};

use crate::connection::Connection;
use crate::handlers::{
    approval, thread_archive, thread_background, thread_fork, thread_history, thread_list,
    thread_loaded, thread_name, thread_queue, thread_read, thread_resume, thread_revert,
    thread_settings, thread_start, turn_interrupt, turn_start, turn_steer,
};

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Everybody.
    Open,
    /// Those with `experimentalApi`.
    Experimental,
    /// Those with `turnlane.events`.
    Events,
}

/// How requests of one connection about one thread may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// With everything.
    Free,
    /// Not with others of its kind about the same thread: those before it come first.
    PerThread,
    /// The same for a process that the client names.
    PerProcess,
    /// The same for a fan-out job.
    PerJob,
}

/// A request on its way to its handler.
pub(crate) struct Call {
    pub(crate) cx: Arc<Connection>,
    pub(crate) params: Params,
    pub(crate) responder: Responder,
}

/// What a handler does; the next request about the same thread begins when it ends.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

type Handler = Box<dyn Fn(Call) -> Running + Send + Sync>;

/// One line of the table.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) gate: Gate,
    pub(crate) order: Order,
    pub(crate) run: Handler,
}

/// The table.
#[derive(Default)]
pub(crate) struct Methods(HashMap<&'static str, Method>);

impl Methods {
    pub(crate) fn get(&self, name: &str) -> Option<&Method> {
        self.0.get(name)
    }

    /// The name of every method.
    #[cfg(test)]
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }

    fn on(mut self, name: &'static str, gate: Gate, order: Order, run: Handler) -> Self {
        let method = Method {
            name,
            gate,
            order,
            run,
        };
        let before = self.0.insert(name, method);
        debug_assert!(before.is_none(), "{name} stands in the table twice");
        self
    }
}

/// A handler whose result is the answer.
fn answered<P, R, F, Fut>(handler: F) -> Handler
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + 'static,
    F: Fn(Arc<Connection>, P) -> Fut + Send + Sync + Copy + 'static,
    Fut: Future<Output = Result<R, ErrorObject>> + Send,
{
    Box::new(move |call| {
        Box::pin(async move {
            let outcome = match call.params.parse_bounded::<P>() {
                Ok(params) => handler(call.cx, params).await,
                Err(error) => Err(error),
            };
            call.responder.respond(outcome);
        })
    })
}

/// An answer, and what is told once it is on its way.
pub(crate) struct Then<R> {
    pub(crate) answer: R,
    pub(crate) then: Running,
}

impl<R> Then<R> {
    pub(crate) fn new(answer: R, then: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            answer,
            then: Box::pin(then),
        }
    }
}

/// A handler whose result is the answer and what follows it.
fn answered_then<P, R, F, Fut>(handler: F) -> Handler
where
    P: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Fn(Arc<Connection>, P) -> Fut + Send + Sync + Copy + 'static,
    Fut: Future<Output = Result<Then<R>, ErrorObject>> + Send,
{
    Box::new(move |call| {
        Box::pin(async move {
            let outcome = match call.params.parse_bounded::<P>() {
                Ok(params) => handler(call.cx, params).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(Then { answer, then }) => {
                    call.responder.result(&answer);
                    then.await;
                }
                Err(error) => call.responder.error(&error),
            }
        })
    })
}

/// A handler that hands the responder on: it ends when the request is submitted, not when it is
/// answered.
fn submitted<P, F, Fut>(handler: F) -> Handler
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(Arc<Connection>, P, Responder) -> Fut + Send + Sync + Copy + 'static,
    Fut: Future<Output = ()> + Send,
{
    Box::new(move |call| {
        Box::pin(async move {
            match call.params.parse_bounded::<P>() {
                Ok(params) => handler(call.cx, params, call.responder).await,
                Err(error) => call.responder.error(&error),
            }
        })
    })
}

/// The table of all methods but `initialize`, which the connection answers itself.
pub(crate) fn methods() -> Methods {
    jobs(processes(offers(queue(threads(Methods::default())))))
}

/// Threads, turns, approvals.
#[rustfmt::skip] // One line each, so that it reads as a table.
fn threads(methods: Methods) -> Methods {
    use Gate::{Events, Open};
    use Order::{Free, PerThread};
    methods
        .on("thread/start", Open, Free, answered_then(thread_start::start))
        .on("thread/resume", Open, PerThread, answered_then(thread_resume::resume))
        .on("thread/fork", Open, PerThread, answered_then(thread_fork::fork))
        .on("thread/archive", Open, PerThread, submitted(thread_archive::archive))
        .on("thread/unarchive", Open, PerThread, submitted(thread_archive::unarchive))
        .on("thread/delete", Open, PerThread, submitted(thread_archive::delete))
        .on("thread/read", Open, Free, answered(thread_read::read))
        .on("thread/list", Open, Free, answered(thread_list::list))
        .on("thread/loaded/list", Open, Free, answered(thread_loaded::list))
        .on("thread/turns/list", Open, Free, answered(thread_history::turns_list))
        .on("thread/items/list", Open, Free, answered(thread_history::items_list))
        .on("thread/items/read", Open, Free, answered(thread_history::items_read))
        .on("thread/name/set", Open, PerThread, submitted(thread_name::set))
        .on("thread/settings/update", Open, PerThread, answered(thread_settings::update))
        .on("thread/unsubscribe", Open, PerThread, answered(thread_loaded::unsubscribe))
        .on("thread/revert", Open, PerThread, submitted(thread_revert::revert))
        .on("thread/rollback", Open, PerThread, submitted(thread_revert::rollback))
        .on("thread/compact/start", Open, PerThread, submitted(thread_revert::compact_start))
        .on("thread/backgroundTerminals/list", Open, Free, answered(thread_background::list))
        .on("thread/backgroundTerminals/terminate", Open, PerThread, answered(thread_background::terminate))
        .on("thread/backgroundTerminals/clean", Open, PerThread, answered(thread_background::clean))
        .on("turn/start", Open, PerThread, submitted(turn_start::start))
        .on("turn/steer", Open, PerThread, submitted(turn_steer::steer))
        .on("turn/interrupt", Open, PerThread, submitted(turn_interrupt::interrupt))
        .on("approval/list", Events, Free, answered(approval::list))
        .on("approval/respond", Events, Free, answered(approval::respond))
}

/// The turns that wait.
#[rustfmt::skip] // As above.
fn queue(methods: Methods) -> Methods {
    use Gate::Experimental;
    use Order::{Free, PerThread};
    use turnlane_protocol::method::thread_queue as name;

    methods
        .on(name::ADD, Experimental, PerThread, submitted(thread_queue::add))
        .on(name::LIST, Experimental, Free, answered(thread_queue::list))
        .on(name::UPDATE, Experimental, PerThread, submitted(thread_queue::update))
        .on(name::DELETE, Experimental, PerThread, submitted(thread_queue::delete))
        .on(name::REORDER, Experimental, PerThread, submitted(thread_queue::reorder))
        .on(name::START, Experimental, PerThread, submitted(thread_queue::start))
        .on(name::RETRY, Experimental, PerThread, submitted(thread_queue::retry))
        .on(name::MOVE, Experimental, PerThread, submitted(thread_queue::move_row))
        .on(name::PAUSE, Experimental, PerThread, submitted(thread_queue::pause))
        .on(name::RESUME, Experimental, PerThread, submitted(thread_queue::resume))
}

/// What a server has: account, models, configuration, lists.
#[rustfmt::skip] // As above.
fn offers(methods: Methods) -> Methods {
    use crate::answers::{self as to};
    use Gate::Open;
    use Order::Free;
    use turnlane_protocol::method::{account, catalog, config_read, model_list, server_status};

    methods
        .on(server_status::METHOD, Open, Free, answered(crate::handlers::server_status::read))
        .on(account::READ, Open, Free, answered(to::account_read))
        .on(account::RATE_LIMITS_READ, Open, Free, answered(to::rate_limits_read))
        .on(account::CHECK_GOV_CLOUD, Open, Free, answered(to::check_gov_cloud))
        .on(model_list::METHOD, Open, Free, answered(to::model_list))
        .on(config_read::READ, Open, Free, answered(to::config_read))
        .on(config_read::REQUIREMENTS_READ, Open, Free, answered(to::config_requirements_read))
        .on(catalog::HOOKS_LIST, Open, Free, answered(to::hooks_list))
        .on(catalog::SKILLS_LIST, Open, Free, answered(to::skills_list))
        .on(catalog::COLLABORATION_MODE_LIST, Open, Free, answered(to::collaboration_mode_list))
        .on(catalog::PLUGIN_LIST, Open, Free, answered(to::plugin_list))
        .on(catalog::MCP_SERVER_STATUS_LIST, Open, Free, answered(to::mcp_server_status_list))
        .on(catalog::PERMISSION_PROFILE_LIST, Open, Free, answered(to::permission_profile_list))
        .on(catalog::EXPERIMENTAL_FEATURE_LIST, Open, Free, answered(to::experimental_feature_list))
}

/// What clients run themselves.
#[rustfmt::skip] // As above.
fn processes(methods: Methods) -> Methods {
    use crate::commands;
    use Gate::{Experimental, Open};
    use Order::PerProcess;
    use turnlane_protocol::method::{command_exec, process};

    methods
        .on(command_exec::EXEC, Open, PerProcess, submitted(commands::exec))
        .on(command_exec::WRITE, Open, PerProcess, submitted(commands::write))
        .on(command_exec::RESIZE, Open, PerProcess, answered(commands::resize))
        .on(command_exec::TERMINATE, Open, PerProcess, answered(commands::terminate))
        .on(process::SPAWN, Experimental, PerProcess, submitted(commands::spawn))
        .on(process::WRITE_STDIN, Experimental, PerProcess, submitted(commands::write_stdin))
        .on(process::RESIZE_PTY, Experimental, PerProcess, answered(commands::resize_pty))
        .on(process::KILL, Experimental, PerProcess, answered(commands::kill))
}

/// Jobs that run one template over many rows.
#[rustfmt::skip] // As above.
fn jobs(methods: Methods) -> Methods {
    use crate::handlers::fanout as to;
    use Gate::Open;
    use Order::{Free, PerJob};
    use turnlane_protocol::method::fanout as name;

    methods
        .on(name::CREATE, Open, Free, answered(to::create))
        .on(name::IMPORT, Open, PerJob, answered(to::import))
        .on(name::IMPORT_WRITE, Open, PerJob, answered(to::write))
        .on(name::ITEMS_ADD, Open, PerJob, answered(to::add_items))
        .on(name::PREVIEW, Open, Free, answered(to::preview))
        .on(name::SEAL, Open, PerJob, answered(to::seal))
        .on(name::EXPORT, Open, Free, answered(to::export))
        .on(name::START, Open, PerJob, answered_then(to::start))
        .on(name::READ, Open, Free, answered(to::read))
        .on(name::LIST, Open, Free, answered(to::list))
        .on(name::PAUSE, Open, PerJob, answered(to::pause))
        .on(name::RESUME, Open, PerJob, answered(to::resume))
        .on(name::CANCEL, Open, PerJob, answered(to::cancel))
        .on(name::RETRY, Open, PerJob, answered(to::retry))
        .on(name::ITEMS_LIST, Open, Free, answered(to::list_items))
        .on(name::ITEMS_READ, Open, Free, answered(to::read_item))
        .on(name::DELETE, Open, PerJob, answered(to::delete))
        .on(name::SUBSCRIBE, Open, PerJob, answered_then(to::subscribe))
        .on(name::UNSUBSCRIBE, Open, PerJob, answered(to::unsubscribe))
}
