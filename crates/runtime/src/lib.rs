//! The product without a wire: lanes, dispatch, recovery, subscriptions.
//!
//! Every thread has a lane that runs its turns one at a time, in order, from one durable queue. This
//! crate decides what happens next and has it done: the store keeps it, engines run it, subscribers
//! are told. The promise: what was acknowledged is never lost, and nothing runs twice unannounced,
//! whatever is killed when.
//!
//! It knows no connection and no method; the server turns requests into calls of a [`Handle`].

#![forbid(unsafe_code)]

mod clock;
mod dispatcher;
mod error;
mod ids;
pub mod lane;
mod lanes;
mod notice;
mod options;
mod queue;
mod runtime;
mod settings;
mod shared;
mod worker;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::Error;
pub use lane::command::{Bound, Reply, StartAnswer, StartRequest};
pub use lane::event::{AfterInterrupt, StartHow};
pub use lane::subscribers::{Replay, RunningSnapshot, Since, Snapshot};
pub use notice::{Notice, NoticeBody, Subscriber, SubscriberId};
pub use options::{BeforeTurn, BeforeTurnVerdict, Drain, Options};
pub use queue::AddTurn;
pub use runtime::{CreateThread, Handle, Runtime};
pub use settings::Settings;
pub use worker::this_worker;
