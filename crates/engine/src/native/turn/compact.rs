//! Making the history shorter.
//!
//! The invariant here: the history changes in one step, when the summary is there; a failure, an
//! interrupt or a hook before that leaves it as it was. The item is completed in every case.
//!
//! What the new history consists of is decided in `history`, when it is due in `rounds`.

use std::sync::Arc;

use turnlane_protocol::item::{Extra, ItemBody};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use super::{Compacted, Halt, Turn};
use crate::entry::Entry;
use crate::hooks::{BeforeCompact, CompactTrigger};
use crate::native::history::{COMPACT_PROMPT, Load, compacted};
use crate::native::model::{CallFailed, CallFailure, ModelCall, Response, Show};
use crate::native::request::Body;

impl Turn {
    /// The whole of a turn that somebody asked for to get a shorter history.
    pub(super) async fn compact_by_request(&mut self) -> Result<(), Halt> {
        self.compact(CompactTrigger::Manual).await?;
        // Not steerable, but a hook that was not waited for may have said something.
        self.take_waiting().await
    }

    /// Replaces the history by a summary, if hooks agree.
    pub(super) async fn compact(&mut self, trigger: CompactTrigger) -> Result<(), Halt> {
        let hooked = self.ask.before_compact(trigger).await;
        self.stop_if_cancelled()?;
        self.note_all(&hooked.context).await?;
        match hooked.answer {
            BeforeCompact::Go => {}
            BeforeCompact::Skip => return Ok(()),
            BeforeCompact::Stop(text) => return Err(Halt::by_hook(self.clean(&text))),
        }
        let id = self.next_item_id();
        let body = ItemBody::ContextCompaction(Extra::new());
        let item = self.start_item(id, body).await?;
        let summary = self.summary().await;
        if let Ok(Some(summary)) = &summary {
            let entry = compacted(&self.author, &self.known(), summary);
            // Everything before it is in it.
            self.past = Arc::default();
            self.added.clear();
            self.record(vec![entry]).await?;
            self.load = Load::default();
            self.compacted = Compacted::SinceResponse;
        }
        if !matches!(summary, Err(Halt::Fenced)) {
            self.complete_item(item).await?;
        }
        summary?;
        let hooked = self.ask.after_compact(trigger).await;
        Ok(self.note_all(&hooked.context).await?)
    }

    /// What the model says about the history; none when there is nothing to say.
    async fn summary(&mut self) -> Result<Option<String>, Halt> {
        if self.known_len() == 0 {
            return Ok(None);
        }
        let mut left_out = 0;
        loop {
            let response = match self.ask_for_summary(left_out).await {
                Ok(response) => response,
                Err(failed) => {
                    left_out = self.after_failed_summary(failed, left_out)?;
                    continue;
                }
            };
            for usage in response.usage_failed.into_iter().chain(response.usage) {
                self.add_usage(usage);
            }
            let text = response.last_message.map(|(_, text)| text);
            let text = text.filter(|text| !text.trim().is_empty());
            return text.map(Some).ok_or_else(|| {
                let text = "the model gave no summary to compact the conversation with";
                Halt::failed(text, CodexErrorInfo::Other, ErrorKind::Other)
            });
        }
    }

    /// Everything the model knows, in one piece.
    fn known(&self) -> Vec<Entry> {
        [self.past.as_slice(), &self.added].concat()
    }

    fn known_len(&self) -> usize {
        self.past.len() + self.added.len()
    }

    async fn ask_for_summary(&mut self, left_out: usize) -> Result<Response, CallFailed> {
        let setup = Arc::clone(&self.setup);
        let fields = setup.fields();
        let prompt = setup.config.compact_prompt.as_deref();
        let asked = (&self.author, prompt.unwrap_or(COMPACT_PROMPT));
        let history = self.known();
        let history = &history[left_out..];
        let mut body = Body::compacting(&fields, setup.view.clone(), history, asked);
        let fields = fields.compacting();
        let call = ModelCall {
            provider: &setup.provider,
            model: &self.author.model,
            body: &mut body,
            fields: &fields,
            sink: &self.sink,
            ask: &self.ask,
            cancel: &self.cancel,
            clock: &self.shared.clock,
            context_window: setup.told_window(),
            show: Show::Nothing,
        };
        self.shared.models.call(call).await
    }

    /// How many of the oldest entries are left out of the next try.
    fn after_failed_summary(&mut self, failed: CallFailed, left_out: usize) -> Result<usize, Halt> {
        for usage in failed.usage {
            self.add_usage(usage);
        }
        match failed.why {
            CallFailure::Cancelled => Err(Halt::Interrupted(None)),
            CallFailure::Fenced => Err(Halt::Fenced),
            CallFailure::Failed(failure) => Err(Halt::Failed(Box::new(failure.error()))),
            CallFailure::Stopped(error) => Err(Halt::Failed(error)),
            CallFailure::Overflow(failure) => {
                // One, then two, then four: a history of thousands of entries is not asked about
                // thousands of times.
                let more = left_out * 2 + 1;
                if more >= self.known_len() {
                    return Err(Halt::Failed(Box::new(failure.error())));
                }
                Ok(more)
            }
        }
    }
}
