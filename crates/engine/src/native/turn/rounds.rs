//! The loop of a turn: compaction, steers, a model call, its calls, and again.
//!
//! The invariant here: the output of a response is recorded before its calls run and durable before
//! the first of them has an effect, and the loop ends after `native.max_rounds` model calls.
//!
//! How calls run is in the neighbour `calls`, how a history gets shorter in `compact`.

use std::sync::Arc;

use super::{Compacted, Halt, Turn};
use crate::hooks::CompactTrigger;
use crate::native::failure::{Around, Cause, Now, classify};
use crate::native::history::token_limit;
use crate::native::model::{CallFailed, CallFailure, ModelCall, Response, Show};

/// What a round leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another model call.
    Round,
    /// Nothing was called: the turn may end, if hooks agree.
    End,
    /// A tool ended the turn; hooks are not asked.
    EndByTool,
}

impl Turn {
    /// Runs rounds until the turn is over.
    pub(super) async fn rounds(&mut self) -> Result<(), Halt> {
        loop {
            self.stop_if_cancelled()?;
            self.count_round()?;
            if self.is_compaction_due() {
                self.compact(CompactTrigger::Auto).await?;
            }
            self.take_waiting().await?;
            let Some(response) = self.ask_model().await? else {
                continue;
            };
            let next = self.take_in(response).await?;
            if next != Next::Round && self.may_end(next).await? {
                return self.check_answer().await;
            }
        }
    }

    fn count_round(&mut self) -> Result<(), Halt> {
        let rounds_max = self.setup.config.rounds_max;
        if self.rounds_made >= rounds_max {
            let around = Around {
                model: &self.author.model,
                now: Now {
                    unix_ms: self.now_ms(),
                },
                redactor: &self.tools.redactor,
            };
            let failure = classify(Cause::RoundLimit { rounds_max }, around);
            return Err(Halt::Failed(Box::new(failure.error())));
        }
        self.rounds_made += 1;
        Ok(())
    }

    fn is_compaction_due(&self) -> bool {
        let config = &self.setup.config;
        let limit = token_limit(Some(config.window), config.compact_limit);
        // A second one in a row would bring nothing; whether it fits is the provider's word.
        self.compacted == Compacted::NotSince
            && self.load.is_due(self.body.estimated_tokens(), limit)
    }

    /// One model call; none: the history was too long and is shorter now.
    async fn ask_model(&mut self) -> Result<Option<Response>, Halt> {
        let setup = Arc::clone(&self.setup);
        let fields = setup.fields();
        let call = ModelCall {
            provider: &setup.provider,
            model: &self.author.model,
            body: &mut self.body,
            fields: &fields,
            sink: &self.sink,
            ask: &self.ask,
            cancel: &self.cancel,
            clock: &self.shared.clock,
            context_window: setup.told_window(),
            show: Show::Items,
        };
        match self.shared.models.call(call).await {
            Ok(response) => {
                self.compacted = Compacted::NotSince;
                Ok(Some(response))
            }
            Err(failed) => self.after_failure(failed).await.map(|()| None),
        }
    }

    /// Keeps what a failed call brought; returns when the history was made shorter.
    async fn after_failure(&mut self, failed: CallFailed) -> Result<(), Halt> {
        for usage in failed.usage {
            self.add_usage(usage);
        }
        if let Some((_, text)) = failed.last_message {
            self.last_message = Some(text);
        }
        let entry = self.author.output(&failed.produced);
        match failed.why {
            // What had ended before is sent on; what was left open is stored as an item only.
            CallFailure::Cancelled => {
                self.record(entry.into_iter().collect()).await?;
                Err(Halt::Interrupted(None))
            }
            CallFailure::Fenced => Err(Halt::Fenced),
            CallFailure::Failed(failure) => {
                self.record(entry.into_iter().collect()).await?;
                Err(Halt::Failed(Box::new(failure.error())))
            }
            CallFailure::Stopped(error) => Err(Halt::Failed(error)),
            CallFailure::Overflow(failure) => {
                let failed = Halt::Failed(Box::new(failure.error()));
                if self.compacted == Compacted::SinceResponse {
                    return Err(failed);
                }
                self.compact(CompactTrigger::Auto).await?;
                match self.compacted {
                    Compacted::SinceResponse => Ok(()),
                    // A hook did not want it: the history still does not fit.
                    Compacted::NotSince => Err(failed),
                }
            }
        }
    }

    /// Records a response and runs its calls.
    async fn take_in(&mut self, response: Response) -> Result<Next, Halt> {
        let Response {
            produced,
            calls,
            last_message,
            usage,
            usage_failed,
            goes_on,
        } = response;
        for usage in usage_failed {
            self.add_usage(usage);
        }
        let entry = self.author.output(&produced);
        self.record(entry.into_iter().collect()).await?;
        if let Some((_, text)) = last_message {
            self.last_message = Some(text);
        }
        if let Some(usage) = usage {
            self.add_usage(usage);
            let total = u64::try_from(usage.total_tokens).unwrap_or_default();
            self.load.count(total, self.body.estimated_tokens());
        }
        if calls.is_empty() {
            return Ok(if goes_on { Next::Round } else { Next::End });
        }
        // Before the first effect: a crash hides no command that may have run, and a worker that
        // lost its lane starts none.
        self.sink.commit().await?;
        self.run_calls(calls).await
    }
}
