//! What a turn hears: steers, notes, and what hooks say at its end.
//!
//! The invariant here: a steer is announced before it counts as heard, so every accepted one has its
//! item started and completed in the turn that took it, and the newest is what `{input}` stands for.
//!
//! The engine never closes steering; it asks the lane, and the lane knows what it has accepted.

use turnlane_protocol::ids::ItemId;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::item::{Extra, HookPrompt, HookPromptFragment, ItemBody, UserMessage};

use super::entries::{ScriptPosition, words};
use super::play::{Player, Stop};
use crate::hooks::BeforeEnd;
use crate::said::{Fenced, Steering};
use crate::steer::Steer;

impl Player {
    /// Whether the turn is over; if not, there is something new to answer.
    ///
    /// A stop of the worker lets the turn complete here, unless a hook has not answered or a steer
    /// waits.
    pub(super) async fn may_end(&mut self) -> Result<bool, Stop> {
        self.stop_if_cut_at_end()?;
        let hooked = self.control.ask.before_end(self.last_message.as_deref());
        let hooked = hooked.await?;
        self.note_all(&hooked.context).await?;
        if let BeforeEnd::GoOn(prompt) = hooked.answer {
            self.go_on(prompt).await?;
            return Ok(false);
        }
        match self.control.close_steer().await {
            Steering::Closed => {
                // Also the answer to a question that an interrupt cut off.
                self.stop_if_cut_at_end()?;
                if self.control.steer.waiting() > 0 {
                    // The turn that continues this one answers the steer.
                    self.place = ScriptPosition::FALLBACK;
                    self.stop_if_cancelled()?;
                }
                Ok(true)
            }
            Steering::More => {
                let more = self.control.steer.recv();
                let more = self.control.cancel.unless_cancelled(more).await?;
                self.take(more.ok_or(Fenced)?).await?;
                self.take_waiting().await?;
                Ok(false)
            }
        }
    }

    fn stop_if_cut_at_end(&self) -> Result<(), Stop> {
        match self.control.cancel.get_at_end() {
            Some(cancelled) => Err(cancelled.into()),
            None => Ok(()),
        }
    }

    async fn go_on(&mut self, prompt: String) -> Result<(), Stop> {
        let id = self.stage.next_item_id();
        let fragment = HookPromptFragment {
            hook_run_id: id.to_string(),
            text: prompt.clone(),
            extra: Extra::new(),
        };
        let body = HookPrompt {
            fragments: vec![fragment],
            extra: Extra::new(),
        };
        self.stage.start(id, ItemBody::HookPrompt(body)).await?;
        self.stage.complete(|_| ()).await?;
        let note = self.scribe.note(&prompt);
        self.stage.record(vec![note]).await?;
        self.heard = prompt;
        Ok(())
    }

    /// Takes what was said meanwhile.
    pub(super) async fn take_waiting(&mut self) -> Result<(), Stop> {
        while let Some(steer) = self.control.steer.try_recv() {
            self.take(steer).await?;
        }
        Ok(())
    }

    pub(super) async fn take(&mut self, steer: Steer) -> Result<(), Stop> {
        match steer {
            Steer::Note(text) => self.note_all(&[text]).await,
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
    ) -> Result<(), Stop> {
        self.heard = words(&input);
        let entry = self.scribe.user(&item_id, &self.heard);
        let body = UserMessage {
            content: input,
            client_id,
            extra: Extra::new(),
        };
        self.stage
            .start(item_id, ItemBody::UserMessage(body))
            .await?;
        self.stage.complete(|_| ()).await?;
        Ok(self.stage.record(vec![entry]).await?)
    }

    pub(super) async fn note_all(&mut self, texts: &[String]) -> Result<(), Stop> {
        if texts.is_empty() {
            return Ok(());
        }
        let notes = texts.iter().map(|text| self.scribe.note(text)).collect();
        Ok(self.stage.record(notes).await?)
    }
}
