//! The boundary between lanes and the engines that run their turns, and three engines: [`native`],
//! which calls models and runs tools itself, [`codex_exec`], which runs the real Codex, and
//! [`scripted`], which plays a script.
//!
//! A lane makes a [`channel`], spawns [`run`] with one end and listens at the other. The engine
//! says everything through its [`Sink`] and hears everything through its [`TurnControl`]; both are
//! one channel with one order. The invariant: an engine is stopped, lost or fenced at any point
//! without taking the lane along, and a lane that goes away leaves no engine waiting.
//!
//! No engine touches the store, counts queued turns or knows clients; that is the runtime's
//! business. What a failure means for a lane is in [`limits`].
//!
//! A lane in a few lines:
//!
//! ```
//! use std::sync::Arc;
//! use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
//! use turnlane_engine::{Event, NoHooks, Said, Steering, channel, run};
//! # use turnlane_engine::{OutcomeStatus, TurnKind, TurnRequest, TurnSettings};
//! # use turnlane_protocol::ids::{ThreadId, TurnId};
//! # use turnlane_protocol::input::UserInput;
//! # use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
//! # fn request(text: &str) -> TurnRequest {
//! #     TurnRequest {
//! #         kind: TurnKind::Turn,
//! #         thread_id: ThreadId::at(1, [1; 10]),
//! #         turn_id: TurnId::at(2, [2; 10]),
//! #         client_id: "row".into(),
//! #         attempt: 1,
//! #         accepted_ms: 1_767_225_600_000,
//! #         context: vec![],
//! #         engine_state: None,
//! #         history: Default::default(),
//! #         unrecorded: vec![],
//! #         input: vec![UserInput::text(text)],
//! #         item_id: Some("input".into()),
//! #         settings: TurnSettings {
//! #             model: "none".into(),
//! #             provider: "nobody".into(),
//! #             cwd: "/".into(),
//! #             runtime_workspace_roots: vec![],
//! #             environments: None,
//! #             config: Default::default(),
//! #             approval_policy: ApprovalPolicy::Never,
//! #             sandbox_policy: SandboxPolicy::DangerFullAccess,
//! #             requires_sandbox: false,
//! #             effort: None,
//! #             summary: None,
//! #             service_tier: None,
//! #             output_schema: None,
//! #             base_instructions: None,
//! #             developer_instructions: None,
//! #         },
//! #         runtime_tools: vec![],
//! #         command_variables: vec![],
//! #         thread_usage: None,
//! #     }
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnlane_engine::Error> {
//! let script = "version: 1\nfallback: {say: \"You said: {input}\"}";
//! let script = Script::parse("example.yaml", script, AbortSteps::Refused)?;
//! let engine = Arc::new(Scripted::new(script, Arc::new(|| 1_767_225_600_000)));
//!
//! let (sink, control, mut lane) = channel(Arc::new(NoHooks));
//! tokio::spawn(run(engine, request("hello"), sink, control));
//! let mut text = String::new();
//! while let Some(said) = lane.said.recv().await {
//!     match said {
//!         Said::Event(Event::Delta { text: more, .. }) => text.push_str(&more),
//!         Said::CloseSteer(reply) => reply.send(Steering::Closed).unwrap_or_else(|_| ()),
//!         Said::Ended(outcome) => assert_eq!(outcome.status, OutcomeStatus::Completed),
//!         _ => {}
//!     }
//! }
//! assert_eq!(text, "You said: hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod cancel;
pub mod codex;
pub mod codex_exec;
pub mod codex_program;
mod control;
mod engine;
mod entry;
mod error;
mod event;
mod hooks;
mod lane_end;
pub mod limits;
pub mod login;
pub mod native;
mod outcome;
mod request;
mod said;
pub mod scripted;
mod sink;
mod steer;

pub use cancel::{CANCEL_GRACE, CancelHandle, CancelReason, CancelToken, Cancelled};
pub use control::{Ask, TurnControl};
pub use engine::{BackgroundTerminal, BoxFuture, Capabilities, Engine, Reconciled, UsageKind};
pub use entry::{Entry, EntryKind};
pub use error::Error;
pub use event::{Event, HookPhase};
pub use hooks::{
    AfterTool, BeforeCompact, BeforeEnd, BeforeTool, CompactTrigger, Gate, Hooked, Hooks, Limited,
    NoHooks, ToolResult,
};
pub use lane_end::{LaneEnd, channel, end, run};
pub use outcome::{Accepted, EngineError, OutcomeStatus, TurnOutcome, approval_timeout};
pub use request::{RuntimeTool, TurnKind, TurnRequest, TurnSettings, UnrecordedMessage};
pub use said::{
    ApprovalRequest, ApprovalSubject, ChildRecord, Decided, DecidedBy, Fenced, Reply, Said,
    Steering, ToolAnswer, ToolCall,
};
pub use sink::{QUEUE_MAX, Sink};
pub use steer::{
    AcceptedSteer, BYTES_MAX, MESSAGES_MAX, Steer, SteerReceiver, SteerRefused, SteerSender,
};
