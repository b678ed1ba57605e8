//! `thread/start` with `binding`: finds or makes the thread of a name, and passes it on.
//!
//! The invariant here: the connection holds the binding before the store is asked, so that of two
//! clients that start at once one is refused; a start that was refused holds nothing. An existing
//! thread is opened as `thread/resume` opens it.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, MissingThread};
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::method::thread_start::METHOD;
use turnlane_protocol::method::{Overrides, StartAnswer, ThreadStartParams};
use turnlane_protocol::notification::{ServerNotification, ThreadStarted};
use turnlane_protocol::thread::Thread;
use turnlane_runtime::CreateThread;
use turnlane_runtime::store::thread::{BoundThread, ThreadRow};

use super::{thread_history, thread_resume, thread_start};
use crate::bindings::{Bindings, Hold};
use crate::connection::Connection;
use crate::errors::{self, About};
use crate::methods::Then;
use crate::settings;
use crate::subscriptions::leave;
use crate::view;

/// How long a binding may be.
const BINDING_BYTES_MAX: usize = 512;

/// A binding that a client asks for.
#[derive(Debug)]
pub(crate) struct BindingRequest {
    key: String,
    supersedes: Option<ThreadId>,
}

impl BindingRequest {
    /// The binding of a start, if it has one.
    pub(crate) fn read(params: &ThreadStartParams) -> Result<Option<Self>, ErrorObject> {
        let Some(key) = &params.binding else {
            return match params.supersedes {
                None => Ok(None),
                Some(_) => Err(errors::invalid("`supersedes` needs `binding`")),
            };
        };
        if key.is_empty() || key.len() > BINDING_BYTES_MAX {
            let range = format!("binding must have 1 to {BINDING_BYTES_MAX} bytes");
            return Err(errors::invalid(range));
        }
        if params.ephemeral == Some(true) {
            return Err(errors::invalid("binding cannot name an ephemeral thread"));
        }
        if params.idempotency_key.is_some() {
            let both = "`binding` cannot be combined with `idempotencyKey`";
            return Err(errors::invalid(both));
        }
        let supersedes = params.supersedes.as_deref();
        Ok(Some(Self {
            key: key.clone(),
            supersedes: supersedes.map(errors::thread_id).transpose()?,
        }))
    }

    /// Finds or makes the thread, follows it and answers with it.
    pub(crate) async fn start(
        self,
        cx: &Arc<Connection>,
        mut create: CreateThread,
        over: &Overrides,
    ) -> Result<Then<StartAnswer>, ErrorObject> {
        let hold = Bindings::hold(cx, &self.key)?;
        create.binding = Some(self.key);
        let runtime = &cx.shared().options.runtime;
        if let Some(old) = self.supersedes {
            let made = runtime.supersede(old, create).await;
            return match made {
                Ok(made) => made_new(cx, &made.thread, hold).await,
                Err(error) => Err(errors::explained(cx, &error, &about(old)).await),
            };
        }
        match runtime.bind(create).await {
            Ok(BoundThread::Made(row)) => made_new(cx, &row, hold).await,
            Ok(BoundThread::Existing(row)) => existing(cx, &row, over, hold).await,
            Err(error) => Err(errors::of(&error, &about(ThreadId::new(0)))),
        }
    }
}

fn about(thread: ThreadId) -> About {
    About {
        method: METHOD,
        thread,
        missing: MissingThread::NotFound,
    }
}

/// Opens a thread that was there before; what the caller says counts from the next turn on.
async fn existing(
    cx: &Arc<Connection>,
    row: &ThreadRow,
    over: &Overrides,
    hold: Hold,
) -> Result<Then<StartAnswer>, ErrorObject> {
    let about = about(view::thread_id(row.id));
    if row.engine == thread_start::NATIVE {
        let stored = view::settings(row)?.cwd;
        settings::check_rules(cx, Some(over.cwd.as_ref().unwrap_or(&stored)))?;
    }
    thread_resume::override_settings(cx, &about, over).await?;
    opened(cx, about, hold, IsNew::No).await
}

/// Opens a thread that was just made, with the rows that it has taken over.
async fn made_new(
    cx: &Arc<Connection>,
    row: &ThreadRow,
    hold: Hold,
) -> Result<Then<StartAnswer>, ErrorObject> {
    opened(cx, about(view::thread_id(row.id)), hold, IsNew::Yes).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IsNew {
    Yes,
    No,
}

/// Follows the thread, answers with it, shows what is under way and waits, and tells everybody of a
/// new thread.
async fn opened(
    cx: &Arc<Connection>,
    about: About,
    hold: Hold,
    is_new: IsNew,
) -> Result<Then<StartAnswer>, ErrorObject> {
    let follower = thread_resume::follow(cx, &about, None).await?;
    let shown = async {
        let row = super::stored(cx, &about).await?;
        let thread = super::shown(cx, &row, &about).await?;
        let newest = thread_history::newest(cx, &about, None).await?;
        let told = Thread::clone(&thread);
        let answer = thread_start::answer(cx, &row, thread).await?;
        Ok::<_, ErrorObject>((answer, told, newest.turn))
    };
    let (mut answer, told, last_turn) = match shown.await {
        Ok(shown) => shown,
        Err(error) => {
            if follower.is_new() {
                leave(cx, about.thread).await;
            }
            return Err(error);
        }
    };
    if is_new == IsNew::No {
        answer.existing = Some(true);
    }
    hold.keep();
    let cx = Arc::clone(cx);
    Ok(Then::new(answer, async move {
        follower.go_live(&cx, last_turn);
        if is_new == IsNew::Yes {
            let started = ThreadStarted {
                thread: Box::new(told),
            };
            let runtime = &cx.shared().options.runtime;
            runtime
                .announce(about.thread, ServerNotification::ThreadStarted(started))
                .await;
        }
    }))
}
