//! One request of a model call, and its answer read to the end.
//!
//! The invariants here: a try ends in one of three ways and says which; what had arrived by then is
//! with it. A read ends at once on cancel, and the connection is closed then.
//!
//! Whether there is another try is decided by the call.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::item::ItemBody;
use turnlane_protocol::notification::DeltaKind;
use turnlane_protocol::turn_error::CodexErrorInfo;

use super::call::Calling;
use super::clean;
use super::gather::{Gathered, Replay};
use super::tell::{Begins, Fate};
use crate::native::failure::{Around, Cause, Failure, Fault, Now, Omission, classify};
use crate::native::http::{Answer, Broken, Post};
use crate::native::stream::{Body, CompletedItem, ResponseStream, Step, StreamError, Terminal};
use crate::said::Fenced;

/// How a try ended.
pub(super) enum Ended {
    /// The response completed.
    Completed {
        gathered: Gathered,
        end_turn: Option<bool>,
    },
    Failed {
        failure: Failure,
        /// What of the request was refused.
        refused: Option<Omission>,
        gathered: Gathered,
    },
    Cancelled(Gathered),
}

/// Why reading an answer stopped.
enum Stopped {
    /// The response is over.
    Over,
    Broken(Broken),
    Cancelled,
}

impl Calling<'_> {
    /// Makes one request and tells what its answer does.
    pub(super) async fn attempt(&mut self, body: Bytes) -> Result<Ended, Fenced> {
        let request_id = new_id((self.call.clock)());
        let post = Post {
            provider: self.call.provider,
            body,
            request_id: request_id.as_str(),
        };
        let cancel = self.call.cancel;
        let answer = cancel.unless_cancelled(self.models.clients.post(post));
        let mut answer = match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(broken)) => return Ok(self.broken(&broken, Gathered::default())),
            Err(_cancelled) => return Ok(Ended::Cancelled(Gathered::default())),
        };
        if !answer.is_success() {
            let Ok(body) = cancel.unless_cancelled(answer.error_body()).await else {
                return Ok(Ended::Cancelled(Gathered::default()));
            };
            return Ok(self.refused(&answer, &body));
        }
        let Some(form) = Body::of_content_type(answer.content_type()) else {
            let cause = Cause::NotAStream {
                status: answer.status(),
                headers: answer.headers(),
            };
            return Ok(self.failure(cause, Gathered::default()));
        };
        self.read(answer, form).await
    }

    fn refused(&self, answer: &Answer, body: &[u8]) -> Ended {
        let failure = self.classify(Cause::Answer {
            status: answer.status(),
            headers: answer.headers(),
            body,
        });
        let refused = (failure.info == CodexErrorInfo::BadRequest)
            .then(|| Omission::named_by(answer.status(), body));
        Ended::Failed {
            failure,
            refused: refused.flatten(),
            gathered: Gathered::default(),
        }
    }

    async fn read(&mut self, mut answer: Answer, form: Body) -> Result<Ended, Fenced> {
        let clock = Arc::clone(self.call.clock);
        let mut stream = ResponseStream::new(form, move || new_id(clock()));
        let mut gathered = Gathered::default();
        let mut steps = Vec::new();
        let stopped = loop {
            let chunk = self.call.cancel.unless_cancelled(answer.chunk());
            let (pushed, broken) = match chunk.await {
                Err(_cancelled) => break Stopped::Cancelled,
                Ok(Ok(Some(bytes))) => (stream.push(&bytes, &mut steps), None),
                Ok(Ok(None)) => (stream.finish(&mut steps), None),
                // The last event may be there but for its blank line.
                Ok(Err(broken)) => (stream.finish(&mut steps), Some(broken)),
            };
            self.take(&mut steps, &mut gathered).await?;
            if gathered.terminal.is_some() {
                break Stopped::Over;
            }
            if let Some(broken) = broken {
                break Stopped::Broken(broken);
            }
            if let Err(error) = pushed {
                break Stopped::Broken(broken_by(error));
            }
        };
        let skipped = stream.assembler().skipped();
        tracing::debug!(?skipped, "a response was read");
        if !matches!(gathered.terminal, Some(Terminal::Completed { .. })) {
            stream.abandon(&mut steps);
            self.take(&mut steps, &mut gathered).await?;
        }
        Ok(match stopped {
            Stopped::Cancelled => Ended::Cancelled(gathered),
            Stopped::Broken(broken) => self.broken(&broken, gathered),
            Stopped::Over => {
                let ended = self.over(&answer, gathered);
                answer.read_rest();
                ended
            }
        })
    }

    /// What the end of a response means.
    fn over(&self, answer: &Answer, mut gathered: Gathered) -> Ended {
        let headers = answer.headers();
        match gathered.terminal.take() {
            Some(Terminal::Completed { end_turn }) => Ended::Completed { gathered, end_turn },
            Some(Terminal::Incomplete { reason, .. }) => {
                let reason = reason.as_str();
                self.failure(Cause::Incomplete { reason, headers }, gathered)
            }
            Some(Terminal::Failed { error }) => {
                let event: Value = serde_json::from_str(error.get()).unwrap_or_default();
                let event = &event;
                self.failure(Cause::Event { event, headers }, gathered)
            }
            None => self.broken(&broken_by(StreamError::Cut), gathered),
        }
    }

    fn broken(&self, broken: &Broken, gathered: Gathered) -> Ended {
        let cause = Cause::Transport {
            fault: broken.fault,
            text: &broken.text,
        };
        self.failure(cause, gathered)
    }

    fn failure(&self, cause: Cause<'_>, gathered: Gathered) -> Ended {
        Ended::Failed {
            failure: self.classify(cause),
            refused: None,
            gathered,
        }
    }

    fn classify(&self, cause: Cause<'_>) -> Failure {
        let around = Around {
            model: self.call.model,
            now: Now {
                unix_ms: (self.call.clock)(),
            },
            redactor: &self.call.provider.redactor,
        };
        classify(cause, around)
    }

    /// Tells and gathers what an answer did.
    async fn take(&mut self, steps: &mut Vec<Step>, gathered: &mut Gathered) -> Result<(), Fenced> {
        let mut steps = steps.drain(..).peekable();
        while let Some(step) = steps.next() {
            let begins = match (&step, steps.peek()) {
                (Step::Opened { item_id, .. }, Some(Step::Completed(next)))
                    if next.item_id == *item_id =>
                {
                    Begins::Whole
                }
                (_, _) => Begins::InPart,
            };
            self.step(step, begins, gathered).await?;
        }
        Ok(())
    }

    async fn step(
        &mut self,
        step: Step,
        begins: Begins,
        gathered: &mut Gathered,
    ) -> Result<(), Fenced> {
        let redactor = &self.call.provider.redactor;
        match step {
            Step::Opened { item_id, body } => self.teller.opened(item_id, body, begins).await,
            Step::TextDelta { item_id, delta } => {
                let kind = DeltaKind::AgentMessage;
                self.teller.delta(item_id, kind, delta).await
            }
            Step::ReasoningSummaryPartAdded {
                item_id,
                summary_index,
            } => self.teller.summary_part(item_id, summary_index).await,
            Step::ReasoningSummaryDelta {
                item_id,
                summary_index,
                delta,
            } => {
                let kind = DeltaKind::ReasoningSummary { summary_index };
                self.teller.delta(item_id, kind, delta).await
            }
            Step::ReasoningTextDelta {
                item_id,
                content_index,
                delta,
            } => {
                let kind = DeltaKind::ReasoningText { content_index };
                self.teller.delta(item_id, kind, delta).await
            }
            Step::Completed(item) => self.completed(item, gathered).await,
            Step::Kept { place, raw } => {
                gathered.reasoning(place, clean::raw(redactor, &raw));
                Ok(())
            }
            Step::LeftOpen { item_id, mut body } => {
                clean::body(redactor, &mut body);
                gathered.left_open.push((item_id, body));
                Ok(())
            }
            Step::Call(mut call) => {
                clean::call(redactor, &mut call);
                gathered.call(call);
                Ok(())
            }
            Step::Warning(text) => self.teller.warning(&text).await,
            Step::Usage(usage) => {
                gathered.usage = Some(usage);
                self.teller.usage(usage).await
            }
            Step::Terminal(terminal) => {
                gathered.terminal = Some(terminal);
                Ok(())
            }
        }
    }

    async fn completed(
        &mut self,
        mut item: CompletedItem,
        gathered: &mut Gathered,
    ) -> Result<(), Fenced> {
        let redactor = &self.call.provider.redactor;
        clean::body(redactor, &mut item.body);
        match (&item.body, &item.raw) {
            (ItemBody::AgentMessage(message), raw) => {
                let replay = raw.as_ref().map_or(Replay::No, |_| Replay::Yes);
                gathered.message(item.place, &item.item_id, message, replay);
            }
            (ItemBody::Reasoning(_), Some(raw)) => {
                gathered.reasoning(item.place, clean::raw(redactor, raw));
            }
            // What a provider did by itself is shown, and not sent again.
            (_, _) => {}
        }
        let (item_id, body) = (item.item_id, item.body);
        self.teller.ended(item_id, body, Fate::Stored).await
    }
}

fn new_id(now_ms: i64) -> ItemId {
    ItemId::new(u64::try_from(now_ms).unwrap_or(0))
}

fn broken_by(error: StreamError) -> Broken {
    let fault = match error {
        StreamError::Cut => Fault::Cut,
        StreamError::Exceeded(_) | StreamError::TooManyItems { .. } => Fault::TooLarge,
        StreamError::NotAResponse => Fault::Framing,
    };
    Broken::new(fault, error.to_string())
}
