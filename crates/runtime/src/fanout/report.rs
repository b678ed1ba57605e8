//! The tool `report_agent_job_result`: a worker agent reports the result of its item.
//!
//! The invariants here: a result is checked before it is recorded, and recorded on disk before the tool
//! answers. The thread of the caller decides which item is meant; the ids in the call only confirm it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use turnlane_engine::{BoxFuture, RuntimeTool, ToolAnswer, ToolCall};
use turnlane_protocol::usage::TokenCounts;
use turnlane_store::fanout::{
    ItemAttempt, ItemReport, ItemState, ItemUsage, JobKey, JobNo, Reported,
};
use turnlane_store::{Store, StoreError, ThreadId, crash};

use super::board::Board;
use super::plan::{JobPlan, result_digest};
use super::prompt::REPORT_TOOL;
use super::rules::schema_error;
use super::schema::{RESULT_BYTES_MAX, SchemaProblem};
use crate::clock::Clock;
use crate::ids;
use crate::lane::rows;
use crate::runtime_tools::{ItemFacts, Tool, ToolTurn};

/// Results of one attempt that may be refused; with the next one the attempt ends.
const REFUSALS_MAX: u32 = 5;

/// The tool; see the module.
pub(crate) struct ReportTool {
    pub store: Arc<dyn Store>,
    pub board: Arc<Board>,
    pub clock: Arc<dyn Clock>,
}

/// A report as it was called.
struct Report {
    job_id: String,
    item_id: String,
    result: Map<String, Value>,
    stop: bool,
}

/// The attempt that a thread works on.
struct Caller {
    item: ItemAttempt,
    plan: Arc<JobPlan>,
}

impl Tool for ReportTool {
    fn offer(&self, turn: &ToolTurn) -> Option<RuntimeTool> {
        turn.item.as_ref().filter(|item| item.reports)?;
        Some(shown())
    }

    fn call(
        &self,
        turn: Arc<ToolTurn>,
        call: ToolCall,
        used: Option<TokenCounts>,
    ) -> BoxFuture<'static, ToolAnswer> {
        let tool = Self {
            store: Arc::clone(&self.store),
            board: Arc::clone(&self.board),
            clock: Arc::clone(&self.clock),
        };
        Box::pin(async move {
            let thread = ids::thread(turn.thread);
            let Some(item) = &turn.item else {
                return failure(format!("there is no tool {}", call.tool));
            };
            let report = match read(call.arguments) {
                Ok(report) => report,
                Err(text) => return failure(text),
            };
            let used = used.map_or_else(ItemUsage::default, usage_of);
            match tool.report(thread, item, report, used).await {
                Ok(answer) => answer,
                Err(error) => failure(format!("the result could not be recorded: {error}")),
            }
        })
    }
}

/// The tool as models are shown it.
pub(crate) fn shown() -> RuntimeTool {
    RuntimeTool {
        name: REPORT_TOOL.to_owned(),
        description: "For workers only: record the result of the item being processed.".to_owned(),
        parameters: json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["job_id", "item_id", "result"],
            "properties": {
                "job_id": {"type": "string", "description": "Job id from the task."},
                "item_id": {"type": "string", "description": "Item id from the task."},
                "result": {
                    "type": "object",
                    "properties": {},
                    "description": "Result object for this item."
                },
                "stop": {
                    "type": "boolean",
                    "description": "true ends the job: rows not yet started are cancelled."
                }
            }
        }),
    }
}

fn read(arguments: Value) -> Result<Report, String> {
    let unreadable = |why: &str| format!("failed to parse function arguments: {why}");
    let Value::Object(mut members) = arguments else {
        return Err(unreadable("expected an object"));
    };
    let mut text = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(unreadable(&format!("{name} must be a string"))),
        None => Err(unreadable(&format!("missing field `{name}`"))),
    };
    let (job_id, item_id) = (text("job_id")?, text("item_id")?);
    let stop = match members.remove("stop") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(stop)) => stop,
        Some(_) => return Err(unreadable("stop must be a boolean")),
    };
    match members.remove("result") {
        Some(Value::Object(result)) => Ok(Report {
            job_id,
            item_id,
            result,
            stop,
        }),
        Some(_) => Err("result must be a JSON object".to_owned()),
        None => Err(unreadable("missing field `result`")),
    }
}

impl ReportTool {
    async fn report(
        &self,
        thread: ThreadId,
        item: &ItemFacts,
        report: Report,
        used: ItemUsage,
    ) -> Result<ToolAnswer, StoreError> {
        if report.job_id != item.job_id || report.item_id != item.item_id {
            let text = format!(
                "this thread works on item {} of job {}",
                item.item_id, item.job_id
            );
            return Ok(refusal(&text));
        }
        let result = Value::Object(report.result);
        let text = rows::write(&result);
        let bytes = text.as_str().len();
        if bytes > RESULT_BYTES_MAX {
            let text = format!("result has {bytes} bytes; the limit is {RESULT_BYTES_MAX}");
            return Ok(refusal(&text));
        }
        let Some(caller) = self.caller(thread, item).await? else {
            let text = format!("item {} is not in job {}", item.item_id, item.job_id);
            return Ok(refusal(&text));
        };
        let schema = caller.plan.schema.as_ref();
        let problems = schema.map_or_else(Vec::new, |schema| schema.check(&result));
        if !problems.is_empty() {
            return Ok(self.refuse(thread, caller.item, &problems));
        }
        let reported = self.store.report_item(ItemReport {
            item: caller.item,
            digest: result_digest(&result),
            result: text,
            usage: used,
            stop: report.stop,
            at_ms: self.clock.now_ms(),
        });
        let reported = reported.await?;
        if matches!(reported, Reported::Accepted { .. }) {
            self.board.counted(thread, used.total_tokens);
        }
        crash::point("fanout:report:before-answer");
        Ok(self.answer(thread, item, &caller, &reported))
    }

    fn answer(
        &self,
        thread: ThreadId,
        item: &ItemFacts,
        caller: &Caller,
        reported: &Reported,
    ) -> ToolAnswer {
        let options = &caller.plan.options;
        match reported {
            Reported::Accepted { superseded } => {
                if let Some(newer) = superseded {
                    self.board.stop_thread_at(*newer, Instant::now());
                }
                if !options.end_on_report {
                    let grace = Duration::from_millis(caller.plan.limits.grace_ms);
                    self.board.stop_thread_at(thread, Instant::now() + grace);
                }
                self.board.result_accepted(caller.item.job);
                acceptance(&json!({"accepted": true}), options.end_on_report)
            }
            Reported::Duplicate => acceptance(
                &json!({"accepted": true, "duplicate": true}),
                options.end_on_report,
            ),
            Reported::Other => refusal("a result is already recorded"),
            Reported::Ended(state) => {
                refusal(&format!("item {} is {}", item.item_id, state_word(*state)))
            }
        }
    }

    /// Refuses a result that does not fit; the attempt ends after too many.
    fn refuse(
        &self,
        thread: ThreadId,
        item: ItemAttempt,
        problems: &[SchemaProblem],
    ) -> ToolAnswer {
        let errors: Vec<Value> = problems
            .iter()
            .map(|problem| json!({"path": problem.path, "message": problem.message}))
            .collect();
        let is_last = self.board.count_refusal(thread) > REFUSALS_MAX;
        if is_last {
            self.board.judge(item, schema_error(problems));
        }
        ToolAnswer {
            text: json!({"accepted": false, "errors": errors}).to_string(),
            success: true,
            end_turn: is_last,
        }
    }

    /// The attempt that a thread works on, or worked on last.
    async fn caller(
        &self,
        thread: ThreadId,
        facts: &ItemFacts,
    ) -> Result<Option<Caller>, StoreError> {
        if let Some(running) = self.board.running(thread) {
            return Ok(Some(Caller {
                item: running.item,
                plan: running.plan,
            }));
        }
        let Some(row) = self.store.job(JobKey::Id(facts.job_id.clone())).await? else {
            return Ok(None);
        };
        let no: JobNo = row.no;
        let detail = self.store.item_of_job(no, facts.item_id.clone()).await?;
        let Some(detail) = detail else {
            return Ok(None);
        };
        let attempts = detail.attempts.iter().rev();
        let attempt = attempts
            .filter(|attempt| attempt.thread == thread)
            .map(|attempt| ItemAttempt {
                job: no,
                seq: detail.item.seq,
                attempt: attempt.attempt,
            })
            .next();
        let (Some(item), Ok(plan)) = (attempt, JobPlan::of(&row)) else {
            return Ok(None);
        };
        let plan = Arc::new(plan);
        Ok(Some(Caller { item, plan }))
    }
}

/// The tokens of a turn as items count them.
pub(crate) fn usage_of(counts: TokenCounts) -> ItemUsage {
    ItemUsage {
        input_tokens: counts.input_tokens,
        cached_input_tokens: counts.cached_input_tokens,
        output_tokens: counts.output_tokens,
        reasoning_output_tokens: counts.reasoning_output_tokens,
        total_tokens: counts.input_tokens + counts.output_tokens,
    }
}

/// The wire's word for the state of an item.
pub(crate) const fn state_word(state: ItemState) -> &'static str {
    match state {
        ItemState::Pending => "pending",
        ItemState::Running => "running",
        ItemState::Succeeded => "succeeded",
        ItemState::Failed => "failed",
        ItemState::Skipped => "skipped",
        ItemState::Cancelled => "cancelled",
    }
}

fn acceptance(answer: &Value, end_turn: bool) -> ToolAnswer {
    ToolAnswer {
        text: answer.to_string(),
        success: true,
        end_turn,
    }
}

fn refusal(error: &str) -> ToolAnswer {
    acceptance(&json!({"accepted": false, "error": error}), false)
}

fn failure(text: String) -> ToolAnswer {
    ToolAnswer {
        text,
        success: false,
        end_turn: false,
    }
}
