//! A job as its items are run: everything that is read out of its row once.
//!
//! The invariant here: a plan belongs to one job and one template. Turns are made of it inside the
//! transaction that claims, so it does no I/O and depends on nothing but the item, the time and new
//! ids.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use turnlane_protocol::ids::ThreadId as WireThreadId;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::TurnStartParams;
use turnlane_store::fanout::{
    AttemptRow, FanoutItem, ItemAttempt, ItemError, ItemStart, ItemToStart, ItemUsage, JobNo,
    JobRow, RepairItem,
};
use turnlane_store::queue::{NewRow, Policies};
use turnlane_store::thread::{Listed, NewThread};
use turnlane_store::{Json, ThreadId};

use super::jobs::spec::{ItemSettings, JobLimits, JobOptions, KeepThreads};
use super::prompt::{
    EarlierAttempt, ResultChannel, ResultDefect, WorkerPrompt, continue_prompt, repair_prompt,
    worker_prompt,
};
use super::row::{Columns, Row};
use super::rules::{Harvest, RepairCause};
use super::schema::{ResultSchema, final_message};
use super::template::{BoundTemplate, Missing, Template};
use super::worktree::{ItemTree, TreePlan, TreeRecord, opened};
use crate::ids;
use crate::lane::accept;
use crate::lane::rows::{self, FANOUT};
use crate::queue::content_hash;
use crate::runtime_tools::{ITEM_SOURCE, ItemFacts};
use crate::settings::Settings;

/// How many rows may wait in the lane of an item's thread.
const DEPTH_MAX: u32 = 1_000;

/// A job as its items are run; see the module.
pub(crate) struct JobPlan {
    pub no: JobNo,
    pub id: String,
    pub instruction: String,
    template: BoundTemplate,
    columns: Columns,
    pub schema: Option<ResultSchema>,
    schema_text: Option<Json>,
    pub channel: ResultChannel,
    pub settings: ItemSettings,
    thread_settings: Json,
    pub limits: JobLimits,
    pub options: JobOptions,
    pub keeps: KeepThreads,
    parent: Option<ThreadId>,
}

impl JobPlan {
    /// Reads a job; an error text when what is stored cannot be read.
    pub(crate) fn of(row: &JobRow) -> Result<Self, String> {
        let settings: ItemSettings = rows::read(&row.made.settings)?;
        let options: JobOptions = rows::read(&row.made.options)?;
        let columns = Columns::from_stored(&row.columns).map_err(|error| error.to_string())?;
        let missing = if options.allow_missing {
            Missing::Allowed
        } else {
            Missing::Refused
        };
        let template = Template::parse(&row.made.instruction);
        let template = template.and_then(|template| template.bind(&columns, missing));
        let schema = match &row.made.schema {
            None => None,
            Some(schema) => {
                let schema: serde_json::Value = rows::read(schema)?;
                Some(ResultSchema::compile(&schema).map_err(|error| error.to_string())?)
            }
        };
        let channel = ResultChannel::from_word(&row.made.channel);
        Ok(Self {
            no: row.no,
            id: row.made.id.clone(),
            instruction: row.made.instruction.clone(),
            template: template.map_err(|error| error.to_string())?,
            columns,
            schema,
            schema_text: row.made.schema.clone(),
            channel: channel.ok_or_else(|| format!("unknown channel {}", row.made.channel))?,
            thread_settings: rows::write(&settings.thread),
            limits: rows::read(&row.made.limits)?,
            keeps: options.keeps(row.total),
            parent: row.made.parent_thread,
            settings,
            options,
        })
    }

    /// Makes thread, row and message of an item that is being claimed.
    pub(crate) fn start(&self, item: ItemToStart<'_>, now_ms: i64) -> ItemStart {
        let text = match self.prompt(item) {
            Ok(text) => text,
            Err(message) => {
                return ItemStart::Fail(ItemError {
                    kind: "input".to_owned(),
                    message,
                });
            }
        };
        let key = format!("fanout:{}:{}:{}", self.id, item.seq, item.attempt);
        let made = self.turn(text, key, now_ms);
        // An attempt that goes on in its thread goes on in its tree.
        let begins = item.thread.is_none();
        let trees = self.settings.worktree.as_ref().filter(|_| begins);
        let tree = trees.map(|trees| trees.plan(&self.id, item.item_id, item.attempt));
        let branch = tree
            .as_ref()
            .map(|tree| opened(tree, item.attempt, item.branch));
        ItemStart::Begin {
            thread: begins
                .then(|| Box::new(self.thread(item.item_id, item.cells, tree.as_ref(), now_ms))),
            row: Box::new(made.0),
            accept: Box::new(made.1),
            branch,
        }
    }

    fn prompt(&self, item: ItemToStart<'_>) -> Result<String, String> {
        let row = Row::from_stored(item.cells).map_err(|error| error.to_string())?;
        let rendered = self.template.render(&self.columns, &row);
        let instruction = rendered.map_err(|error| error.to_string())?;
        let earlier: Vec<_> = item.earlier.iter().filter_map(earlier_attempt).collect();
        let prompt = WorkerPrompt {
            job_id: &self.id,
            item_id: item.item_id,
            instruction: &instruction,
            columns: &self.columns,
            row: &row,
            schema: self.schema_text.as_ref().map(Json::as_str),
            channel: self.channel,
            earlier: &earlier,
        };
        if item.thread.is_some() {
            return Ok(continue_prompt(&prompt));
        }
        worker_prompt(prompt).map_err(|error| error.to_string())
    }

    /// Makes the repair turn of an attempt.
    pub(crate) fn repair(&self, repair: &RepairTurn<'_>, now_ms: i64) -> RepairItem {
        let RepairTurn {
            item,
            item_id,
            nth,
            cause,
            usage,
        } = *repair;
        let defect = match cause {
            RepairCause::Missing => ResultDefect::Missing,
            RepairCause::Unusable(reason) => ResultDefect::NotAnObject { reason },
            RepairCause::Unfitting(problems) => ResultDefect::Schema(problems),
        };
        let text = repair_prompt(self.channel, item_id, defect);
        let key = format!("fanout:{}:{}:{}:{nth}", self.id, item.seq, item.attempt);
        let (row, accept) = self.turn(text, key, now_ms);
        RepairItem {
            item,
            row,
            accept,
            usage,
            at_ms: now_ms,
        }
    }

    fn turn(
        &self,
        text: String,
        key: String,
        now_ms: i64,
    ) -> (NewRow, turnlane_store::turn::Accept) {
        let schema = self.schema_text.as_ref();
        let schema = schema.filter(|_| self.channel == ResultChannel::Message);
        let params = TurnStartParams {
            input: vec![UserInput::text(text)],
            timeout_ms: Some(self.limits.timeout_ms),
            output_schema: schema.and_then(|schema| rows::read(schema).ok()),
            ..TurnStartParams::default()
        };
        let id = ids::new_row(now_ms);
        let item = ids::new_item(now_ms);
        let accept = accept::of_message(&item, &params.input, &key, now_ms);
        let row = NewRow {
            id,
            turn: ids::new_turn(now_ms),
            source: FANOUT.to_owned(),
            params: rows::write(&params),
            client_id: key.clone(),
            // Our own params have text keys only, so that they can always be written.
            content_hash: content_hash(&params).unwrap_or_default(),
            key: Some(key),
            not_before_ms: 0,
            policies: Policies::default(),
            bound: None,
        };
        (row, accept)
    }

    /// The settings of an item's thread where its row names a model or an effort.
    fn settings_of(&self, cells: &Json) -> Option<Settings> {
        let options = &self.options;
        if options.model_column.is_none() && options.effort_column.is_none() {
            return None;
        }
        // A row that cannot be read fails by its prompt before it gets a thread.
        let row = Row::from_stored(cells).ok()?;
        let cell = |column: &Option<String>| {
            let cell = row.value(&self.columns, column.as_deref()?)?;
            let cell = cell.trim();
            (!cell.is_empty()).then(|| cell.to_owned())
        };
        let mut settings = self.settings.thread.clone();
        if let Some(model) = cell(&options.model_column) {
            settings.model = model;
        }
        if let Some(effort) = cell(&options.effort_column) {
            settings.effort = Some(effort);
        }
        Some(settings)
    }

    /// The tree in which an item that was claimed works; none in a job without trees.
    pub(crate) fn tree(&self, item: &FanoutItem) -> Option<ItemTree> {
        let trees = self.settings.worktree.as_ref()?;
        let record = TreeRecord::of_item(item.branch.as_ref())?;
        Some(ItemTree {
            trees: trees.clone(),
            job: self.no,
            job_id: self.id.clone(),
            seq: item.seq,
            item_id: item.item_id.clone(),
            tree: record.tree,
        })
    }

    fn thread(
        &self,
        item_id: &str,
        cells: &Json,
        tree: Option<&TreePlan>,
        now_ms: i64,
    ) -> NewThread {
        let facts = HashMap::from([
            (
                "sourceDetail",
                serde_json::Value::from(format!("agent_job:{}", self.id)),
            ),
            (
                "fanoutItem",
                serde_json::to_value(ItemFacts {
                    job_id: self.id.clone(),
                    item_id: item_id.to_owned(),
                    reports: self.channel == ResultChannel::Tool,
                })
                .unwrap_or_default(),
            ),
        ]);
        let thread = WireThreadId::new(u64::try_from(now_ms).unwrap_or(0));
        let by_row = self.settings_of(cells);
        let whole = by_row.as_ref().unwrap_or(&self.settings.thread);
        let moved = self.settings.worktree.as_ref().zip(tree);
        let moved = moved.map(|(trees, tree)| trees.moved(whole, &tree.path));
        let own = moved.as_ref().or(by_row.as_ref());
        NewThread {
            id: ids::thread(thread),
            engine: self.settings.engine.clone(),
            settings: own.map_or_else(|| self.thread_settings.clone(), rows::write),
            facts: rows::write(&facts),
            name: None,
            cwd: own.unwrap_or(&self.settings.thread).cwd.clone(),
            source: ITEM_SOURCE.to_owned(),
            provider: self.settings.thread.provider.clone(),
            parent: self.parent,
            binding: None,
            listed: Listed::FromFirstTurn,
            max_depth: DEPTH_MAX,
            at_ms: now_ms,
        }
    }

    /// The cell of the id column as it was; none without such a column.
    pub(crate) fn source_id(&self, cells: &Json) -> Option<String> {
        let column = self.options.id_column.as_deref()?;
        let row = Row::from_stored(cells).ok()?;
        let cell = row.value(&self.columns, column)?;
        Some(cell.into_owned())
    }

    /// The result in the final message of a turn.
    pub(crate) fn harvest(&self, message: Option<&str>) -> Harvest {
        let message = message.filter(|text| !text.trim().is_empty());
        let Some(message) = message else {
            return Harvest::Nothing;
        };
        match self.channel {
            ResultChannel::Tool => Harvest::Nothing,
            ResultChannel::Text => accepted(&serde_json::json!({ "text": message })),
            ResultChannel::Message => match final_message(message) {
                Err(error) => Harvest::Unusable(error.to_string()),
                Ok(result) => {
                    let result = serde_json::Value::Object(result);
                    let problems = self.schema.as_ref().map(|schema| schema.check(&result));
                    match problems.filter(|problems| !problems.is_empty()) {
                        Some(problems) => Harvest::Unfitting(problems),
                        None => accepted(&result),
                    }
                }
            },
        }
    }
}

/// A repair turn to be made.
pub(crate) struct RepairTurn<'a> {
    pub item: ItemAttempt,
    pub item_id: &'a str,
    /// Its number within the attempt, from 1.
    pub nth: u32,
    pub cause: &'a RepairCause,
    /// The usage of the attempt so far.
    pub usage: ItemUsage,
}

fn accepted(result: &serde_json::Value) -> Harvest {
    Harvest::Result {
        digest: result_digest(result),
        result: rows::write(result),
    }
}

fn earlier_attempt(row: &AttemptRow) -> Option<EarlierAttempt> {
    let error = row.error.as_ref()?;
    Some(EarlierAttempt {
        attempt: row.attempt,
        kind: error.kind.clone(),
        message: error.message.clone(),
    })
}

/// The digest of the canonical form of a result: members sorted, no white space.
pub(crate) fn result_digest(result: &serde_json::Value) -> [u8; 32] {
    let mut text = String::new();
    write_canonical(result, &mut text);
    Sha256::digest(text.as_bytes()).into()
}

fn write_canonical(value: &serde_json::Value, text: &mut String) {
    use serde_json::Value;
    match value {
        Value::Array(values) => {
            text.push('[');
            for value in values {
                write_canonical(value, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (name, value) in members {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        value => text.push_str(&value.to_string()),
    }
}
