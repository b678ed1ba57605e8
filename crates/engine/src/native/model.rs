//! One model call with all its tries: request, stream, retries, learned omissions.
//!
//! The invariants here: no tool starts before the terminal event of its response, so a retry never
//! repeats an effect; every wait and every read ends at once on cancel; every item that was shown is
//! completed. What is emitted has passed the redactor.
//!
//! What is recorded, which tools run and whether there is another call is decided by the turn.

mod answer;
mod call;
mod clean;
mod gather;
mod omit;
mod tell;

#[cfg(test)]
mod tests;

use turnlane_protocol::ids::ItemId;
use turnlane_protocol::usage::TokenUsage;

use crate::cancel::CancelToken;
use crate::control::Ask;
use crate::native::failure::{Failure, Learned};
use crate::native::history::Produced;
use crate::native::http::Clients;
use crate::native::provider::{Resolved, Warned};
use crate::native::request::{Body, Fields};
use crate::native::retry::Jitter;
use crate::native::stream::Call;
use crate::native::tools::Clock;
use crate::outcome::EngineError;
use crate::said::Fenced;
use crate::sink::Sink;

/// The models of all providers: connections, and what was learned of them; one per engine.
///
/// Nothing is made before the first call.
#[derive(Debug)]
pub(crate) struct Models {
    clients: Clients,
    learned: Learned,
    warned: Warned,
    jitter: fn() -> Jitter,
}

impl Default for Models {
    fn default() -> Self {
        Self::new()
    }
}

impl Models {
    pub(crate) fn new() -> Self {
        Self {
            clients: Clients::default(),
            learned: Learned::default(),
            warned: Warned::default(),
            jitter: || getrandom::u32().map_or(Jitter::NONE, Jitter::from_bits),
        }
    }

    /// Calls a model until it has answered, or cannot be hoped to.
    ///
    /// Every item that was shown is completed when this returns. Dropped before, the connection is
    /// closed and open items are left to the lane.
    pub(crate) async fn call(&self, call: ModelCall<'_>) -> Result<Response, CallFailed> {
        call::Calling::new(self, call).run().await
    }
}

/// One call of a model.
pub(crate) struct ModelCall<'a> {
    pub(crate) provider: &'a Resolved,
    pub(crate) model: &'a str,
    /// Changed when the provider refuses one of its fields; the caller goes on with it.
    pub(crate) body: &'a mut Body,
    /// What the body was made with.
    pub(crate) fields: &'a Fields<'a>,
    pub(crate) sink: &'a Sink,
    pub(crate) ask: &'a Ask,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) clock: &'a Clock,
    /// What is told with the usage of a response.
    pub(crate) context_window: i64,
    pub(crate) show: Show,
}

/// What clients see of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Its items, as they grow.
    Items,
    /// Nothing but its usage: it is a summary for a compaction.
    Nothing,
}

/// What a model answered, when its response came to its end.
#[derive(Debug, Default)]
pub(crate) struct Response {
    /// What is recorded, in the response's order, calls included.
    pub(crate) produced: Vec<Produced>,
    /// The calls to run, in order.
    pub(crate) calls: Vec<Call>,
    /// The last message of the response.
    pub(crate) last_message: Option<(ItemId, String)>,
    /// What this response used; none when the provider did not say. Already emitted.
    pub(crate) usage: Option<TokenUsage>,
    /// What responses used that failed before this one. Already emitted.
    pub(crate) usage_failed: Vec<TokenUsage>,
    /// The provider said that the turn is not over although nothing was called.
    pub(crate) goes_on: bool,
}

/// A model call that brought no response.
#[derive(Debug)]
pub(crate) struct CallFailed {
    pub(crate) why: CallFailure,
    /// What is recorded all the same, because it was completed: the text of an incomplete response,
    /// and messages that had ended before the response was given up. No calls.
    pub(crate) produced: Vec<Produced>,
    /// What failed responses used together. Already emitted.
    pub(crate) usage: Vec<TokenUsage>,
    pub(crate) last_message: Option<(ItemId, String)>,
}

/// Why a model call brought no response.
#[derive(Debug)]
pub(crate) enum CallFailure {
    Cancelled,
    Fenced,
    /// The history does not fit: to be compacted, then tried once more.
    Overflow(Box<Failure>),
    Failed(Box<Failure>),
    /// The gate did not let a request through; its error as it is, but for keys.
    Stopped(Box<EngineError>),
}

impl CallFailed {
    fn new(why: CallFailure) -> Self {
        Self {
            why,
            produced: Vec::new(),
            usage: Vec::new(),
            last_message: None,
        }
    }
}

impl From<Fenced> for CallFailed {
    fn from(Fenced: Fenced) -> Self {
        Self::new(CallFailure::Fenced)
    }
}
