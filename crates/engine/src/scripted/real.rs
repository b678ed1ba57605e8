//! Steps of a script that really happen, by the tools of the native engine.
//!
//! The invariant here: a real step is what a model's call would be: same items, same approvals, same
//! sandbox, same ends. Without a process service there are none, and a script that has some fails.
//!
//! What commands and patches do is in [`native`](crate::native); hooks and records are the player's.

use std::collections::BTreeSet;
use std::sync::Arc;

use turnlane_process::ProcessService;
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind, TurnError};

use super::Clock;
use super::play::Stop;
use crate::control::TurnControl;
use crate::native::environment::CommandEnvironment;
use crate::native::redact::Redactor;
use crate::native::sessions::{InTurn, Sessions};
use crate::native::tools::{
    Called, Dangerous, LoginShell, Output, Permission, Pictures, Slot, ToolSettings, ToolTurn,
    diff, run,
};
use crate::request::TurnRequest;
use crate::said::ToolCall;
use crate::sink::Sink;

/// What real steps need besides the turn.
#[derive(Clone)]
pub(super) struct Processes {
    pub(super) service: ProcessService,
    pub(super) sessions: Sessions,
}

/// The tools of one turn.
pub(super) struct RealTools {
    turn: Arc<ToolTurn>,
    in_turn: InTurn,
}

impl RealTools {
    pub(super) fn new(
        processes: &Processes,
        request: &TurnRequest,
        (sink, control): (&Sink, &TurnControl),
        clock: &Clock,
    ) -> Self {
        let in_turn = processes.sessions.enter(request.thread_id, request.turn_id);
        let turn = ToolTurn {
            turn_id: request.turn_id,
            settings: Arc::new(request.settings.clone()),
            tools: ToolSettings {
                environment: CommandEnvironment::default().policy,
                shell: "sh".to_owned(),
                login: LoginShell::No,
                dangerous: Dangerous::Guarded,
                parallel_max: 1,
                output_tokens_max: 10_000,
                pictures: Pictures::Refused,
                withheld: BTreeSet::new(),
                variables: request.command_variables.clone(),
            },
            sink: sink.clone(),
            ask: control.ask.clone(),
            cancel: control.cancel.clone(),
            // A script is its author's own; rules are about what a model calls.
            rules: Arc::default(),
            // No provider, no keys.
            redactor: Arc::new(Redactor::default()),
            service: processes.service.clone(),
            sessions: Arc::clone(in_turn.sessions()),
            diff: tokio::sync::Mutex::new(diff::TurnDiff::default()),
            clock: Arc::clone(clock),
        };
        Self {
            turn: Arc::new(turn),
            in_turn,
        }
    }

    /// Makes a call; its item is told by the tool.
    pub(super) async fn call(
        &self,
        call: &ToolCall,
        permission: Permission,
    ) -> Result<Output, crate::native::tools::Stop> {
        let called = Called {
            call_id: call.call_id.clone(),
            item_id: call.item_id.clone(),
            name: call.tool.clone(),
            arguments: call.arguments.clone(),
            permission,
            slot: Slot::default(),
        };
        run(&self.turn, &called).await
    }

    /// The turn is over; what it started goes on unless it was stopped.
    pub(super) async fn end(self, ended: &Result<(), Stop>) {
        match ended {
            Ok(()) | Err(Stop::Completed | Stop::Failed(_)) => self.in_turn.end().await,
            Err(Stop::Interrupted(_) | Stop::Fenced) => self.in_turn.interrupt().await,
        }
    }
}

/// Why a script with real steps cannot go on without a process service.
pub(super) fn unavailable() -> Stop {
    let text = "the script has a real step, but this engine was given no process service";
    let (info, kind) = (CodexErrorInfo::BadRequest, ErrorKind::BadRequest);
    Stop::Failed(Box::new(TurnError::new(text, info, kind)))
}
