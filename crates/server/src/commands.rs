//! Processes of one connection: `command/exec` and `process/*`.
//!
//! The invariant here: a name belongs to one connection and to one process at a time, from before
//! its start until it has ended; when the connection ends, everything it started ends, descendants
//! included, and nothing is started any more.
//!
//! Theory of operation: a request is checked and becomes a `plan`, the plan a process of the process
//! service, and a task, the `relay`, takes that process's output until it has ended: it tells the
//! client or keeps it, and the answer or the last notification comes behind. Requests about one name
//! begin in the order they came, so a write that follows its start on the wire finds it.
//!
//! How processes are held and ended, and what the machine can enforce, is `turnlane-process`'s.

mod handlers;
mod plan;
mod relay;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnlane_process::{End, Process, Until};
use turnlane_protocol::error::{ErrorObject, ProcessFamily};

use self::plan::InputUse;
use crate::connection::Connection;

pub(crate) use self::handlers::{
    exec, kill, resize, resize_pty, spawn, terminate, write, write_stdin,
};

/// SIGTERM to SIGKILL when a connection ends: a server that stops with its client has half a second.
const LEAVING_TERM: Duration = Duration::from_millis(200);

/// How long the end of a connection waits for its processes, before it leaves the rest to them.
const LEAVING_MAX: Duration = Duration::from_millis(300);

/// The processes of one connection.
///
/// How many there can be is bounded by the process service, which refuses the next one.
#[derive(Default)]
pub(crate) struct Commands {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` while it starts.
    live: HashMap<Name, Option<Arc<Live>>>,
    /// How many were started without a name.
    nameless: u64,
    is_over: bool,
}

/// What a process is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// The client's own word.
    Given(ProcessFamily, String),
    /// Nobody can speak of it.
    Nameless(u64),
}

/// A process that runs, or ran a moment ago.
pub(super) struct Live {
    process: Process,
    input: Mutex<InputUse>,
}

impl Live {
    fn input(&self) -> MutexGuard<'_, InputUse> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commands {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all of them with their descendants; the connection is gone. Waits for them a moment.
    pub(crate) async fn end(&self) {
        let live: Vec<_> = {
            let mut state = self.state();
            state.is_over = true;
            state.live.drain().filter_map(|(_, live)| live).collect()
        };
        for live in &live {
            live.process.end(End::Graceful {
                interrupt: Duration::ZERO,
                term: LEAVING_TERM,
            });
        }
        let all_ended = async {
            for live in &live {
                live.process.wait(Until::Exited, None).await;
            }
        };
        if tokio::time::timeout(LEAVING_MAX, all_ended).await.is_err() {
            tracing::debug!("processes of a connection outlived it for a moment");
        }
    }

    fn live(&self, name: &Name) -> Option<Arc<Live>> {
        self.state().live.get(name).cloned().flatten()
    }
}

/// A name in use; free again when this is dropped.
pub(super) struct Place {
    cx: Arc<Connection>,
    name: Name,
}

impl Place {
    /// Takes a name, so that nobody else starts something under it.
    fn take(
        cx: &Arc<Connection>,
        given: Option<(ProcessFamily, &str)>,
    ) -> Result<Self, ErrorObject> {
        let mut state = cx.commands().state();
        let name = if let Some((family, id)) = given {
            let name = Name::Given(family, id.to_owned());
            if state.live.contains_key(&name) {
                return Err(ErrorObject::duplicate_process(family, id));
            }
            name
        } else {
            state.nameless += 1;
            Name::Nameless(state.nameless)
        };
        state.live.insert(name.clone(), None);
        drop(state);
        let cx = Arc::clone(cx);
        Ok(Self { cx, name })
    }

    /// From now on others find the process under the name. When the connection has ended meanwhile,
    /// so does the process.
    fn fill(&self, process: Process, input: InputUse) -> Arc<Live> {
        let live = Arc::new(Live {
            process,
            input: Mutex::new(input),
        });
        let mut state = self.cx.commands().state();
        if state.is_over {
            drop(state);
            live.process.end(End::Force);
        } else {
            state
                .live
                .insert(self.name.clone(), Some(Arc::clone(&live)));
        }
        live
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.cx.commands().state().live.remove(&self.name);
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands")
            .field("live", &self.state().live.len())
            .finish_non_exhaustive()
    }
}
