//! The engine `scripted`: turns that do what a script says, without a model.
//!
//! Owned here: scripts (YAML or JSON), the demo, and playing them through the same sink, approvals,
//! hooks and steering that every engine uses. The invariant: there is no network, no randomness and
//! no clock but the one passed in, so a script gives the same events twice.
//!
//! Which rule a turn plays: the first whose `match` is in the input's text, whose `at` is the
//! turn's number in its thread, and that was played fewer than `times` times. A turn's number is
//! told from its history, so it survives a restart and a turn that was put back keeps it; `times`
//! counts in this engine since it was made, over all threads.
//!
//! A turn that a graceful stop cut leaves its rule and the step that it cut in the history. The turn
//! that continues it plays that step again and those behind it.
//!
//! Commands and patches are told, not done, unless a step says `real: true`; then they are done by the
//! tools of the native engine, which takes a process service.

mod entries;
mod gates;
mod listen;
mod node;
mod patch;
mod play;
mod read;
mod real;
mod runtime_tool;
mod script;
mod stage;
mod tools;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use turnlane_process::ProcessService;
use turnlane_protocol::ids::ThreadId;

pub use gates::Gates;
pub use script::{AbortSteps, DEMO, Script};

use self::entries::{Scribe, ScriptPosition, cut_at, first_said, last_said, turns_in, words};
use self::play::{Part, Player};
use self::real::{Processes, RealTools};
use self::script::Rule;
use self::stage::Stage;
use crate::control::TurnControl;
use crate::engine::{BackgroundTerminal, BoxFuture, Capabilities, Engine, UsageKind};
use crate::native::sessions::Sessions;
use crate::outcome::TurnOutcome;
use crate::request::{TurnKind, TurnRequest};
use crate::sink::Sink;

/// Tells the time in milliseconds since 1970; items are stamped with it.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Plays a script.
pub struct Scripted {
    script: Arc<Script>,
    /// How often each rule was played.
    played: Vec<AtomicU32>,
    clock: Clock,
    gates: Gates,
    processes: Option<Processes>,
}

impl Scripted {
    /// An engine for this script whose gates are all closed.
    pub fn new(script: Script, clock: Clock) -> Self {
        let played = script.turns.iter().map(|_| AtomicU32::new(0)).collect();
        Self {
            script: Arc::new(script),
            played,
            clock,
            gates: Gates::default(),
            processes: None,
        }
    }

    /// The same engine, which can do the steps that say `real: true`.
    #[must_use]
    pub fn with_processes(mut self, service: ProcessService) -> Self {
        let sessions = Sessions::default();
        self.processes = Some(Processes { service, sessions });
        self
    }

    /// The gates of its scripts, for whoever opens them.
    pub fn gates(&self) -> Gates {
        self.gates.clone()
    }

    /// The rule this turn plays, counted as played; none: the fallback.
    fn choose(&self, text: &str, number: u64) -> Option<usize> {
        let fits = |rule: &Rule| {
            let part_fits = rule.part.as_ref().is_none_or(|part| text.contains(part));
            part_fits && rule.at.is_none_or(|at| at == number)
        };
        let mut rules = self.script.turns.iter().zip(&self.played);
        rules.position(|(rule, played)| fits(rule) && play_once_more(rule, played))
    }
}

/// Counts a rule as played, unless it was played often enough.
fn play_once_more(rule: &Rule, played: &AtomicU32) -> bool {
    let times = rule.times.unwrap_or(u32::MAX);
    let more = |count: u32| (count < times).then(|| count.saturating_add(1));
    let counted = played.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    counted.is_ok() || rule.times.is_none()
}

impl Engine for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn continues(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: true,
            steer: true,
            deltas: true,
            resume: true,
            fork: true,
            compact: true,
            revert: true,
            foreign: false,
            usage: UsageKind::Turn,
        }
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let (heard, place) = match request.kind {
            TurnKind::Continue => {
                let heard = last_said(&request);
                let cut = cut_at(&request.history);
                // Without a mark the engine was given up before it could leave one.
                let from_start = || ScriptPosition {
                    rule: self.choose(&heard, turns_in(&request.history).max(1)),
                    step: 0,
                };
                let place = cut.unwrap_or_else(from_start);
                (heard, place)
            }
            TurnKind::Turn | TurnKind::Compact => {
                let heard = words(&request.input);
                let rule = self.choose(&heard, turns_in(&request.history) + 1);
                (heard, ScriptPosition { rule, step: 0 })
            }
        };
        let voice = (&events, &control);
        let real = self.processes.as_ref();
        let real = real.map(|all| RealTools::new(all, &request, voice, &self.clock));
        let player = Player {
            real,
            stage: Stage::new(events, Arc::clone(&self.clock), request.turn_id),
            scribe: Scribe::new(&request),
            control,
            cwd: request.settings.cwd.clone(),
            provider: request.settings.provider.clone(),
            gates: self.gates.clone(),
            open_call: None,
            diff: String::new(),
            first_heard: first_said(&request),
            heard,
            place,
            last_message: None,
        };
        let script = Arc::clone(&self.script);
        Box::pin(player.play(Part { request, script }))
    }

    fn background(&self, thread: ThreadId) -> BoxFuture<'_, Vec<BackgroundTerminal>> {
        Box::pin(async move {
            let processes = self.processes.as_ref();
            processes.map_or_else(Vec::new, |all| all.sessions.background(thread))
        })
    }

    fn end_background(&self, thread: ThreadId, process_id: Option<String>) -> BoxFuture<'_, usize> {
        Box::pin(async move {
            match &self.processes {
                Some(processes) => processes.sessions.end(thread, process_id).await,
                None => 0,
            }
        })
    }

    fn close(&self, thread: ThreadId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(processes) = &self.processes {
                processes.sessions.close(thread).await;
            }
        })
    }
}
