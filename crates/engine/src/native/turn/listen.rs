//! What a turn hears: steers, notes, and what hooks say at its end.
//!
//! The invariant here: a steer that was taken is announced and recorded in this turn; one that was
//! not stays with the lane, which keeps it for the next. The engine never closes steering; it asks
//! the lane, and the lane knows what it has accepted.

use turnlane_protocol::ids::ItemId;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{Extra, HookPrompt, HookPromptFragment, ItemBody, UserMessage};

use super::prepare::{clean_input, rendered};
use super::rounds::Next;
use super::{Halt, Turn};
use crate::event::Event;
use crate::hooks::BeforeEnd;
use crate::said::{Fenced, Steering};
use crate::steer::Steer;

impl Turn {
    /// Whether the turn is over; if not, there is something new to answer.
    ///
    /// A stop of the worker lets a turn complete whose last response called no tool, unless a hook
    /// has not answered or a steer waits. A tool that seems to end the turn may itself be cut.
    pub(super) async fn may_end(&mut self, next: Next) -> Result<bool, Halt> {
        self.stop_if_cut_at_end(next)?;
        if next == Next::End {
            let hooked = self.ask.before_end(self.last_message.as_deref()).await?;
            self.note_all(&hooked.context).await?;
            if let BeforeEnd::GoOn(prompt) = hooked.answer {
                self.go_on(&prompt).await?;
                return Ok(false);
            }
        }
        match self.ask.close_steer().await {
            Steering::Closed => {
                // Also the answer to a question that an interrupt cut off.
                self.stop_if_cut_at_end(next)?;
                if self.steer.waiting() > 0 {
                    self.stop_if_cancelled()?;
                }
                Ok(true)
            }
            Steering::More => {
                let more = self.steer.recv();
                let more = self.cancel.unless_cancelled(more).await?;
                self.take(more.ok_or(Fenced)?).await?;
                Ok(false)
            }
        }
    }

    fn stop_if_cut_at_end(&self, next: Next) -> Result<(), Halt> {
        let cancelled = match next {
            Next::End => self.cancel.get_at_end(),
            Next::EndByTool | Next::Round => self.cancel.get(),
        };
        match cancelled {
            Some(cancelled) => Err(cancelled.into()),
            None => Ok(()),
        }
    }

    async fn go_on(&mut self, prompt: &str) -> Result<(), Halt> {
        let prompt = self.clean(prompt);
        let id = self.next_item_id();
        let fragment = HookPromptFragment {
            hook_run_id: id.to_string(),
            text: prompt.clone(),
            extra: Extra::new(),
        };
        let body = HookPrompt {
            fragments: vec![fragment],
            extra: Extra::new(),
        };
        let item = self.start_item(id, ItemBody::HookPrompt(body)).await?;
        self.complete_item(item).await?;
        let note = self.author.note(&prompt);
        Ok(self.record(vec![note]).await?)
    }

    /// Takes what was said meanwhile.
    pub(super) async fn take_waiting(&mut self) -> Result<(), Halt> {
        while let Some(steer) = self.steer.try_recv() {
            self.take(steer).await?;
        }
        Ok(())
    }

    async fn take(&mut self, steer: Steer) -> Result<(), Halt> {
        match steer {
            Steer::Note(text) => Ok(self.note_all(&[text]).await?),
            Steer::Input {
                input,
                item_id,
                client_id,
            } => self.hear(input, item_id, client_id).await,
        }
    }

    async fn hear(
        &mut self,
        input: Vec<UserInput>,
        item_id: ItemId,
        client_id: Option<String>,
    ) -> Result<(), Halt> {
        let input = clean_input(input, &self.tools.redactor);
        let (entry, warning) = self.render(&item_id, input.clone()).await;
        if let Some(warning) = warning {
            self.sink.emit(Event::Warning(warning)).await?;
        }
        let body = UserMessage {
            content: input,
            client_id,
            extra: Extra::new(),
        };
        let body = ItemBody::UserMessage(body);
        let item = self.start_item(item_id, body).await?;
        self.complete_item(item).await?;
        Ok(self.record(vec![entry]).await?)
    }

    /// The entry of a steer; pictures are read where blocking is allowed.
    async fn render(
        &self,
        item_id: &ItemId,
        input: Vec<UserInput>,
    ) -> (crate::entry::Entry, Option<String>) {
        let reads_files = |part: &UserInput| matches!(part, UserInput::LocalImage { .. });
        if !input.iter().any(reads_files) {
            return rendered(&self.author, item_id, &input);
        }
        let (author, id) = (self.author.clone(), item_id.clone());
        let read = tokio::task::spawn_blocking(move || rendered(&author, &id, &input));
        // Only a panic or the end of the runtime gets here without an entry.
        read.await
            .unwrap_or_else(|_lost| rendered(&self.author, item_id, &[]))
    }
}
