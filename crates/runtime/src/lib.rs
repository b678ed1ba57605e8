//! The product without a wire: lanes, dispatch, recovery, subscriptions.
//!
//! Every thread has a lane that runs its turns one at a time, in order, from one durable queue. This
//! crate decides what happens next and has it done: the store keeps it, engines run it, subscribers
//! are told. The promise: what was acknowledged is never lost, and nothing runs twice unannounced,
//! whatever is killed when.
//!
//! It knows no connection and no method; the server turns requests into calls of a [`Handle`].
//!
//! A lane in a few lines, on a store in memory:
//!
//! ```
//! use std::sync::Arc;
//! use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
//! use turnlane_protocol::ids::ThreadId;
//! use turnlane_protocol::input::UserInput;
//! use turnlane_protocol::method::TurnStartParams;
//! use turnlane_protocol::notification::ServerNotification;
//! use turnlane_protocol::policy::{ApprovalPolicy, SandboxPolicy};
//! use turnlane_runtime::{
//!     AddTurn, CreateThread, Notice, NoticeBody, Options, Runtime, Settings, Subscriber,
//!     SystemClock, this_worker,
//! };
//! use turnlane_store::sqlite::SqliteStore;
//!
//! /// Passes on that a turn has ended.
//! struct Ends(tokio::sync::mpsc::Sender<()>);
//!
//! impl Subscriber for Ends {
//!     fn tell(&self, notice: &Arc<Notice>) {
//!         if let NoticeBody::Said(said) = &notice.body
//!             && let ServerNotification::TurnCompleted(_) = said.as_ref()
//!         {
//!             drop(self.0.try_send(()));
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = SqliteStore::open_in_memory(this_worker("example", &SystemClock))?;
//! let script = "version: 1\nfallback: {say: \"You said: {input}\"}";
//! let script = Script::parse("example.yaml", script, AbortSteps::Refused)?;
//! let engine = Scripted::new(script, Arc::new(|| 0));
//! let runtime = Runtime::start(
//!     Arc::new(store),
//!     vec![Arc::new(engine)],
//!     Arc::new(SystemClock),
//!     Options::default(),
//! )
//! .await?;
//!
//! let settings = Settings {
//!     model: "none".into(),
//!     provider: "nobody".into(),
//!     cwd: "/".into(),
//!     runtime_workspace_roots: vec![],
//!     config: Default::default(),
//!     approval_policy: ApprovalPolicy::Never,
//!     approvals_reviewer: None,
//!     permission_profile: None,
//!     sandbox_policy: SandboxPolicy::DangerFullAccess,
//!     effort: None,
//!     summary: None,
//!     personality: None,
//!     service_tier: None,
//!     base_instructions: None,
//!     developer_instructions: None,
//! };
//! let lanes = runtime.handle();
//! let thread = lanes.create_thread(CreateThread::new("scripted", settings)).await?;
//! let thread = ThreadId::from_uuid(thread.id.as_uuid());
//!
//! let (ended, mut ends) = tokio::sync::mpsc::channel(1);
//! lanes.subscribe(thread, Arc::new(Ends(ended)), None).await?;
//! let params = TurnStartParams {
//!     input: vec![UserInput::text("hello")],
//!     ..TurnStartParams::default()
//! };
//! lanes.add(thread, AddTurn::new(params)).await?; // on disk when this returns
//! ends.recv().await;
//! runtime.stop(std::time::Duration::ZERO).await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod approvals;
mod binding;
mod clock;
mod dispatcher;
mod engines;
mod ephemeral;
mod error;
mod failures;
pub mod fanout;
mod ids;
mod journal;
pub mod lane;
mod lanes;
mod logins;
mod model_tokens;
mod notice;
mod options;
mod queue;
mod release;
mod retention;
mod runtime;
mod runtime_tools;
mod settings;
mod shared;
mod thread_key;
mod threads;
mod undecided;
mod worker;

pub use approvals::{ApprovalState, Asking, ClientDecision, WantedPermissions};
pub use clock::{Clock, ManualClock, SystemClock};
pub use engines::Ability;
pub use error::{Error, NotSteerable};
pub use lane::command::{Bound, Reply, StartAnswer, StartRequest, SteerRequest};
pub use lane::event::{AfterInterrupt, StartHow};
pub use lane::rights::CallerRights;
pub use lane::subscribers::{Replay, RunningSnapshot, Since, Snapshot};
pub use notice::{Answers, Notice, NoticeBody, Subscriber, SubscriberId};
pub use options::{BeforeTurn, BeforeTurnVerdict, Drain, FanoutOptions, Options};
pub use queue::{AddTurn, ChangeTurn};
pub use release::{ReleasedLane, release_lane};
pub use retention::{delete_idle, idle_threads};
pub use runtime::{CreateThread, Handle, Runtime};
pub use settings::Settings;
pub use thread_key::{digest, thread_of_key};
pub use threads::{ForkThread, Life, RevertTo};
/// What runs turns, for those who bring an engine.
pub use turnlane_engine as engine;
/// What is stored, for those who read it through [`Handle::store`].
pub use turnlane_store as store;
pub use worker::this_worker;
