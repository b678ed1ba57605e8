//! The prompts that a job would send, and an estimate of their tokens; no model is called.
//!
//! The invariant here: a preview renders with the functions that a claim renders with, so that it shows
//! what is sent.

use std::sync::Arc;

use turnlane_store::fanout::{ItemState, JobRow};
use turnlane_store::{Json, Store};

use super::import::{ImportError, InputOptions};
use super::prompt::{ResultChannel, WorkerPrompt, worker_prompt};
use super::row::{Columns, Row};
use super::template::{BoundTemplate, Missing, Template};

/// The most prompts of one preview.
pub const PROMPTS_MAX: u32 = 20;

/// The rows of a stored job whose prompts are measured; the others count as their mean.
const MEASURED_ROWS_MAX: u64 = 2_000;

/// The rows that are read at once.
const PAGE_ROWS: u32 = 200;

/// The characters of a token, about.
const TOKEN_CHARS: u64 = 4;

/// A prompt as it would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewPrompt {
    /// The item.
    pub item_id: String,
    /// The message, or the reason why there is none.
    pub text: String,
}

/// Some prompts of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// How many items the job has that are not skipped.
    pub total: i64,
    /// The prompts of the first items.
    pub prompts: Vec<PreviewPrompt>,
    /// The tokens of all prompts, about.
    pub estimated_tokens: u64,
}

/// Collects the first prompts of a job and the length of all.
#[derive(Clone, Debug)]
pub(super) struct PromptSample {
    job_id: String,
    template: Template,
    schema: Option<Json>,
    channel: ResultChannel,
    count: usize,
    /// The columns that the template is bound to, and their stored form.
    bound: Option<(Json, Columns, BoundTemplate)>,
    pub(super) prompts: Vec<PreviewPrompt>,
    pub(super) rows: u64,
    chars: u64,
}

impl PromptSample {
    /// Begins with a job that has an instruction.
    pub(super) fn new(job: &JobRow, count: u32) -> Result<Self, ImportError> {
        let made = &job.made;
        let template = Template::parse(&made.instruction);
        Ok(Self {
            job_id: made.id.clone(),
            template: template.map_err(|error| ImportError::Stored(error.to_string()))?,
            schema: made.schema.clone(),
            channel: ResultChannel::from_word(&made.channel).unwrap_or(ResultChannel::Tool),
            count: usize::try_from(count.min(PROMPTS_MAX)).unwrap_or(0),
            bound: None,
            prompts: Vec::new(),
            rows: 0,
            chars: 0,
        })
    }

    /// Adds the prompt of one item.
    pub(super) fn take(&mut self, columns: &Json, item_id: &str, cells: &Json) {
        let text = self.prompt(columns, item_id, cells);
        self.rows += 1;
        self.chars += text.as_ref().map_or(0, |text| text.chars().count() as u64);
        if self.prompts.len() < self.count {
            self.prompts.push(PreviewPrompt {
                item_id: item_id.to_owned(),
                text: text.unwrap_or_else(|reason| reason),
            });
        }
    }

    fn prompt(&mut self, stored: &Json, item_id: &str, cells: &Json) -> Result<String, String> {
        if self
            .bound
            .as_ref()
            .is_none_or(|(known, _, _)| known != stored)
        {
            let columns = Columns::from_stored(stored).map_err(|error| error.to_string())?;
            // The import refuses unknown placeholders once it knows all columns.
            let bound = self.template.bind(&columns, Missing::Allowed);
            let bound = bound.map_err(|error| error.to_string())?;
            self.bound = Some((stored.clone(), columns, bound));
        }
        let Some((_, columns, bound)) = &self.bound else {
            return Err(String::new());
        };
        let row = Row::from_stored(cells).map_err(|error| error.to_string())?;
        let instruction = bound.render(columns, &row);
        let instruction = instruction.map_err(|error| error.to_string())?;
        let prompt = worker_prompt(WorkerPrompt {
            job_id: &self.job_id,
            item_id,
            instruction: &instruction,
            columns,
            row: &row,
            schema: self.schema.as_ref().map(Json::as_str),
            channel: self.channel,
            earlier: &[],
        });
        prompt.map_err(|error| error.to_string())
    }

    /// The tokens of so many prompts, about.
    pub(super) fn tokens(&self, rows: u64) -> u64 {
        let chars = u128::from(self.chars) * u128::from(rows) / u128::from(self.rows.max(1));
        u64::try_from(chars).unwrap_or(u64::MAX) / TOKEN_CHARS
    }
}

/// The prompts of the first items of a stored job.
pub async fn preview(
    store: &Arc<dyn Store>,
    job: &JobRow,
    count: u32,
) -> Result<Preview, ImportError> {
    InputOptions::of_job(job)?;
    let mut sample = PromptSample::new(job, count)?;
    let mut from = 0;
    loop {
        let page = store.export_page(job.no, from, PAGE_ROWS).await?;
        let Some(last) = page.last() else { break };
        from = last.item.seq + 1;
        for detail in &page {
            if detail.item.state != ItemState::Skipped {
                sample.take(&job.columns, &detail.item.item_id, &detail.cells);
            }
        }
        if sample.rows >= MEASURED_ROWS_MAX {
            break;
        }
    }
    let total = job.total - job.counts.skipped;
    Ok(Preview {
        total,
        estimated_tokens: sample.tokens(u64::try_from(total).unwrap_or(0)),
        prompts: sample.prompts,
    })
}
