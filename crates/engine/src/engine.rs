//! What a lane can ask of any engine.
//!
//! The invariant here: an engine keeps no turn of its own. Everything a turn is made from comes in
//! its request, everything it makes goes out through its [`Sink`], and when the future of
//! [`Engine::run_turn`] is dropped the turn is over. So a lane can lose an engine at any moment and
//! know what there is to know.
//!
//! No engine touches the store; the lane writes what engines say.

use std::path::PathBuf;
use std::pin::Pin;

use turnlane_protocol::ids::{ItemId, ThreadId};
use turnlane_protocol::item::ThreadItem;
use turnlane_protocol::method::EngineStatus;

use crate::control::TurnControl;
use crate::outcome::TurnOutcome;
use crate::request::{TurnRequest, TurnSettings};
use crate::sink::Sink;

/// A future in a box, so that [`Engine`] and [`Hooks`](crate::Hooks) can be used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs turns.
pub trait Engine: Send + Sync {
    /// The word that `thread/start` names it by.
    fn name(&self) -> &str;

    /// What it can do; the same for all its threads.
    fn capabilities(&self) -> Capabilities;

    /// Returns true if a turn of kind [`TurnKind::Continue`](crate::TurnKind::Continue) goes on
    /// from the history of a turn that a graceful stop cut.
    fn continues(&self) -> bool {
        false
    }

    /// Runs one turn.
    ///
    /// The future's life is the turn's life: dropping it ends what the turn started. It ends
    /// promptly after `control.cancel` fires and after any call says [`Fenced`](crate::Fenced).
    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome>;

    /// What became of a turn that a dead worker left, for engines that run elsewhere.
    ///
    /// Changes nothing, so it may be asked again.
    fn reconcile(&self, request: TurnRequest) -> BoxFuture<'_, Reconciled> {
        drop(request);
        Box::pin(async { Reconciled::Unknown })
    }

    /// Whether a turn with these settings could run now.
    fn check<'a>(&'a self, settings: &'a TurnSettings) -> BoxFuture<'a, EngineStatus> {
        let _ = settings;
        let able = EngineStatus {
            ok: true,
            reason: None,
        };
        Box::pin(async { able })
    }

    /// The file that holds its login or keys; none where it has none. A lane that waits because a login
    /// was refused goes on when this file changes.
    fn login_file(&self) -> Option<PathBuf> {
        None
    }

    /// The processes that earlier turns of the thread left running.
    fn background(&self, thread: ThreadId) -> BoxFuture<'_, Vec<BackgroundTerminal>> {
        let _ = thread;
        Box::pin(async { Vec::new() })
    }

    /// Ends one of those processes, or all, with their descendants; those it does not know are
    /// passed over. Returns how many it ended.
    fn end_background(&self, thread: ThreadId, process_id: Option<String>) -> BoxFuture<'_, usize> {
        let _ = (thread, process_id);
        Box::pin(async { 0 })
    }

    /// The thread is unloaded: ends whatever it still runs. Called twice, the second does nothing.
    fn close(&self, thread: ThreadId) -> BoxFuture<'_, ()> {
        let _ = thread;
        Box::pin(async {})
    }
}

/// What an engine can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "eight independent abilities that the contract lists"
)]
pub struct Capabilities {
    /// It asks before it acts.
    pub approvals: bool,
    /// A running turn takes more input.
    pub steer: bool,
    /// Text comes in pieces.
    pub deltas: bool,
    /// A thread goes on after a restart.
    pub resume: bool,
    /// A thread can be forked.
    pub fork: bool,
    /// It runs turns of kind [`TurnKind::Compact`](crate::TurnKind::Compact).
    pub compact: bool,
    /// The last turns of a thread can be taken back.
    pub revert: bool,
    /// The conversation is another program's: the engine says
    /// [`handing_over`](Sink::handing_over) before the input leaves us, and
    /// [`Engine::reconcile`] can tell what became of a turn that its worker left.
    pub foreign: bool,
    /// Which tokens it counts.
    pub usage: UsageKind,
}

/// Which tokens an engine counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageKind {
    /// Those of each turn.
    Turn,
    /// Only the sum of its thread.
    Total,
    /// None.
    None,
}

/// What became of a turn that a dead worker left.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// It has ended.
    Ended {
        /// How.
        outcome: Box<TurnOutcome>,
        /// What it produced.
        items: Vec<ThreadItem>,
    },
    /// It still runs.
    Running,
    /// The engine never got it.
    Absent,
    /// Nobody can say.
    Unknown,
}

/// A process that outlived the turn that started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundTerminal {
    /// The item of the command.
    pub item_id: ItemId,
    /// The engine's name for the process.
    pub process_id: String,
    /// The command line.
    pub command: String,
    /// Its directory.
    pub cwd: String,
}
