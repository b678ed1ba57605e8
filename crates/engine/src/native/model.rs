//! One model call with all its tries: request, stream, retries, learned omissions.
//!
//! The invariants here: no tool starts before the terminal event of its response, so a retry never
//! repeats an effect; every wait and every read ends at once on cancel; every item that was shown is
//! completed. What is emitted has passed the redactor.
//!
//! What is recorded, which tools run and whether there is another call is decided by the turn.

use turnlane_protocol::ids::ItemId;
use turnlane_protocol::usage::TokenUsage;

use crate::native::failure::Failure;
use crate::native::history::Produced;
use crate::native::stream::Call;

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
    /// The provider said that the turn is not over although nothing was called.
    pub(crate) goes_on: bool,
}

/// A model call that brought no response.
#[derive(Debug)]
pub(crate) struct CallFailed {
    pub(crate) why: CallFailure,
    /// What was produced and is recorded all the same: the text of an incomplete response.
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
}
