//! What is read of a thread instead of told: what was before, and what a lost connection did not tell.
//!
//! The invariant here: a turn or an item that is shown here is known from then on, so that events
//! about it are left out; of a turn that was followed only what was not told is shown.

use serde_json::{Value, json};
use turnlane::Item;

use super::super::show;
use super::Live;
use crate::shown::Form;

impl Live {
    /// Shows so many turns that have ended, and of one that runs the items that have.
    pub(in crate::commands::thread) fn history(
        &mut self,
        turns: &[Value],
        count: usize,
    ) -> anyhow::Result<()> {
        let (ended, running): (Vec<_>, Vec<_>) = turns
            .iter()
            .partition(|turn| turn["status"] != "inProgress");
        let left_out = ended.len().saturating_sub(count);
        for turn in &ended[..left_out] {
            self.told.extend(turn["id"].as_str().map(str::to_owned));
        }
        for turn in &ended[left_out..] {
            self.whole(turn)?;
        }
        for turn in running {
            self.so_far(turn)?;
        }
        Ok(())
    }

    /// Whether a turn was told to its end.
    pub(in crate::commands::thread) fn knows(&self, turn: &Value) -> bool {
        turn["id"].as_str().is_some_and(|id| self.told.contains(id))
    }

    /// Shows what was missed: of the turn that was followed what was not told, of others all.
    pub(in crate::commands::thread) fn missed(&mut self, turns: &[Value]) -> anyhow::Result<()> {
        self.end_line();
        for turn in turns {
            let is_followed =
                self.running.is_some() && self.running.as_deref() == turn["id"].as_str();
            match (is_followed, turn["status"] == "inProgress") {
                (true, _) => self.rest(turn)?,
                (false, true) => self.so_far(turn)?,
                (false, false) => self.whole(turn)?,
            }
        }
        Ok(())
    }

    /// Shows a turn that has ended.
    fn whole(&mut self, turn: &Value) -> anyhow::Result<()> {
        self.told.extend(turn["id"].as_str().map(str::to_owned));
        match self.screen.form {
            Form::Json => {
                self.items_json(turn)?;
                self.end_json(turn)
            }
            Form::People => self.screen.print(&show::of_turn(&self.screen, turn)),
        }
    }

    /// Shows what was not told of the turn that was followed.
    fn rest(&mut self, turn: &Value) -> anyhow::Result<()> {
        for item in turn["items"].as_array().into_iter().flatten() {
            let is_told = item["id"].as_str().is_some_and(|id| self.told.contains(id));
            if is_told || item["completedAtMs"].is_null() {
                continue;
            }
            self.told.extend(item["id"].as_str().map(str::to_owned));
            match self.screen.form {
                Form::Json => {
                    let line =
                        json!({"type": "item.completed", "turnId": turn["id"], "item": item});
                    self.screen.json(&line)?;
                }
                Form::People => {
                    if let Ok(item) = serde_json::from_value::<Item>(item.clone()) {
                        self.rest_of_item(&item)?;
                    }
                }
            }
        }
        if turn["status"] == "inProgress" {
            return Ok(());
        }
        self.told.extend(turn["id"].as_str().map(str::to_owned));
        self.running = None;
        self.shown.clear();
        match self.screen.form {
            Form::Json => self.end_json(turn),
            Form::People => self.line(&show::end_of(&self.screen, turn)),
        }
    }

    /// Shows of an item what is new, its end at least.
    fn rest_of_item(&mut self, item: &Item) -> anyhow::Result<()> {
        self.item_begun(item)?;
        self.item_ended(item)
    }

    fn end_json(&self, turn: &Value) -> anyhow::Result<()> {
        self.screen.json(&json!({
            "type": "turn.ended", "turnId": turn["id"], "status": turn["status"],
            "error": turn["error"]["message"],
        }))
    }

    /// Shows what has ended of a turn that runs; the rest comes as events.
    fn so_far(&mut self, turn: &Value) -> anyhow::Result<()> {
        let mut turn = turn.clone();
        if let Some(items) = turn["items"].as_array_mut() {
            items.retain(|item| !item["completedAtMs"].is_null());
            let ids = items.iter().filter_map(|item| item["id"].as_str());
            self.told.extend(ids.map(str::to_owned));
        }
        self.running = turn["id"].as_str().map(str::to_owned);
        match self.screen.form {
            Form::Json => {
                let line = json!({"type": "turn.started", "turnId": turn["id"]});
                self.screen.json(&line)?;
                self.items_json(&turn)
            }
            Form::People => self.screen.print(&show::of_turn(&self.screen, &turn)),
        }
    }

    fn items_json(&self, turn: &Value) -> anyhow::Result<()> {
        for item in turn["items"].as_array().into_iter().flatten() {
            let line = json!({"type": "item.completed", "turnId": turn["id"], "item": item});
            self.screen.json(&line)?;
        }
        Ok(())
    }
}
