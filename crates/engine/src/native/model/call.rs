//! The tries of one model call.
//!
//! The invariants here: the gate is asked before every request; what a try left open is ended before
//! the next one begins; nothing is told after cancel but the ends of items. How often there is
//! another try is counted by [`Retries`] and nowhere else; a request without a field that was
//! refused is no such try.
//!
//! One request and its answer are in `answer`.

use bytes::Bytes;
use turnlane_protocol::usage::TokenUsage;

use super::answer::Ended;
use super::gather::Gathered;
use super::omit::{self, LeftOut};
use super::tell::{Fate, Teller};
use super::{CallFailed, CallFailure, ModelCall, Models, Response};
use crate::hooks::{Gate, Limited};
use crate::native::failure::{Failure, Learning, Omission};
use crate::native::redact::Redactor;
use crate::native::retry::{Next, Retries};
use crate::outcome::EngineError;
use crate::said::Fenced;

/// A model call in progress.
pub(super) struct Calling<'a> {
    pub(super) models: &'a Models,
    pub(super) call: ModelCall<'a>,
    pub(super) teller: Teller<'a>,
    retries: Retries,
    left_out: LeftOut,
    /// What failed responses used.
    used: Vec<TokenUsage>,
}

impl<'a> Calling<'a> {
    pub(super) fn new(models: &'a Models, mut call: ModelCall<'a>) -> Self {
        Self {
            models,
            teller: Teller::new(&call),
            retries: Retries::new(call.provider.limits.retries()),
            left_out: LeftOut::learned(&models.learned, &mut call),
            used: Vec::new(),
            call,
        }
    }

    pub(super) async fn run(mut self) -> Result<Response, CallFailed> {
        let warnings = &self.call.provider.warnings;
        for text in self.models.warned.fresh(warnings) {
            self.teller.warning(text).await?;
        }
        let mut body = self.bytes();
        loop {
            match self.call.ask.gate(&self.call.provider.id).await {
                _ if self.call.cancel.is_cancelled() => {
                    return Err(self.failed(CallFailure::Cancelled, Gathered::default()));
                }
                Gate::Go => {}
                Gate::Stop(error) => {
                    let error = clean(&self.call.provider.redactor, *error);
                    let stopped = CallFailure::Stopped(Box::new(error));
                    return Err(self.failed(stopped, Gathered::default()));
                }
            }
            self.retries.sent();
            match self.attempt(body.clone()).await? {
                Ended::Completed { gathered, end_turn } => {
                    let usage_failed = self.used;
                    return Ok(Response {
                        usage_failed,
                        ..gathered.response(end_turn)
                    });
                }
                Ended::Cancelled(gathered) => return Err(self.cancelled(gathered).await?),
                Ended::Failed {
                    failure,
                    refused,
                    gathered,
                } => {
                    self.used.extend(gathered.usage);
                    if self.learns(refused).await? {
                        body = self.bytes();
                    } else {
                        self.again(failure, gathered).await?;
                    }
                }
            }
        }
    }

    /// The body as it is sent now; shared by all tries that send the same.
    fn bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.call.body.as_bytes())
    }

    /// Leaves out what was refused; false: there is nothing to leave out.
    async fn learns(&mut self, refused: Option<Omission>) -> Result<bool, Fenced> {
        let Some(omission) = refused else {
            return Ok(false);
        };
        let learned = &self.models.learned;
        let learning = self.left_out.refused(omission, learned, &mut self.call);
        if learning == Some(Learning::New) {
            let text = omit::warning(&self.call, omission);
            self.teller.warning(&text).await?;
        }
        Ok(learning.is_some())
    }

    /// Returns when there may be another try; else with why there is none.
    async fn again(&mut self, failure: Failure, mut gathered: Gathered) -> Result<(), CallFailed> {
        let jitter = (self.models.jitter)();
        let gate = match self.retries.pause(&failure, jitter) {
            Some(delay) => {
                let provider = &self.call.provider.id;
                self.call.ask.limited(provider, delay).await
            }
            None => Limited::Own,
        };
        if self.call.cancel.is_cancelled() {
            return Err(self.cancelled(gathered).await?);
        }
        match self.retries.after(failure, gate, jitter) {
            Next::Wait { delay, notice } => {
                self.end_open(&mut gathered, Fate::Dropped).await?;
                self.teller.retry(notice).await?;
                let wait = tokio::time::sleep(delay);
                match self.call.cancel.unless_cancelled(wait).await {
                    Ok(()) => Ok(()),
                    Err(_cancelled) => Err(self.failed(CallFailure::Cancelled, gathered)),
                }
            }
            Next::Gate => Ok(self.end_open(&mut gathered, Fate::Dropped).await?),
            Next::Compact(failure) => {
                self.end_open(&mut gathered, Fate::Dropped).await?;
                Err(self.failed(CallFailure::Overflow(failure), Gathered::default()))
            }
            Next::GiveUp(failure) => {
                let last_message = gathered.last_message();
                self.end_open(&mut gathered, Fate::Stored).await?;
                Err(CallFailed {
                    last_message,
                    ..self.failed(CallFailure::Failed(failure), gathered)
                })
            }
        }
    }

    async fn cancelled(&mut self, mut gathered: Gathered) -> Result<CallFailed, Fenced> {
        let last_message = gathered.last_message();
        self.end_open(&mut gathered, Fate::Stored).await?;
        Ok(CallFailed {
            last_message,
            ..self.failed(CallFailure::Cancelled, gathered)
        })
    }

    /// Ends what a try left open, with what arrived.
    async fn end_open(&mut self, gathered: &mut Gathered, fate: Fate) -> Result<(), Fenced> {
        for (item_id, body) in std::mem::take(&mut gathered.left_open) {
            self.teller.ended(item_id, body, fate).await?;
        }
        Ok(())
    }

    fn failed(&mut self, why: CallFailure, mut gathered: Gathered) -> CallFailed {
        CallFailed {
            why,
            last_message: gathered.last_message(),
            produced: gathered.kept(),
            usage: std::mem::take(&mut self.used),
        }
    }
}

/// What the gate said, without keys.
fn clean(redactor: &Redactor, mut error: EngineError) -> EngineError {
    let details = error.additional_details.as_mut();
    for text in details.into_iter().chain([&mut error.message]) {
        *text = redactor.text(text).into_owned();
    }
    error
}
