//! The product without a wire: lanes, dispatch, recovery, subscriptions.
//!
//! Every thread has a lane that runs its turns one at a time, in order, from one durable queue. This
//! crate decides what happens next and has it done: the store keeps it, engines run it, subscribers
//! are told. The promise: what was acknowledged is never lost, and nothing runs twice unannounced,
//! whatever is killed when.
//!
//! It knows no connection and no method; the server turns requests into calls of this crate.

#![forbid(unsafe_code)]

mod clock;
mod ids;
pub mod lane;
mod settings;

pub use clock::{Clock, ManualClock, SystemClock};
pub use settings::Settings;
