//! The commands of dialect v2 that are one or two calls of the lane.
//!
//! The invariant here: each command has one result or one failure with a stable code.

use serde_json::{Map, Value, json};

use super::read::{QueueLook, QueueRow, split_attempt};
use super::{Draft, Lane, Submission, Unanswered};
use crate::error::LaneError;
use crate::state::EngineHealth;
use crate::wire::{AfterInterrupt, Command};

/// Why a command has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandFailure {
    pub(crate) code: &'static str,
    pub(crate) reason: String,
}

/// The fields beside `Ok`.
type Fields = Map<String, Value>;

impl CommandFailure {
    pub(crate) fn new(code: &'static str, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }
}

impl From<LaneError> for CommandFailure {
    fn from(error: LaneError) -> Self {
        let code = match (&error, error.word()) {
            (_, Some("notSteerable" | "unsupportedByEngine")) => "unsupported",
            (_, Some("noActiveTurn" | "notActive")) => "idle",
            (_, Some("approvalResolved" | "approvalNotFound" | "resolved" | "notFound")) => {
                "resolved"
            }
            (_, Some("queuedTurnNotFound")) => "not_waiting",
            (LaneError::Store(_) | LaneError::Unreachable(_), _) => "store",
            (LaneError::Held(_), _) => "held",
            (LaneError::Refused { .. }, _) => "bad_request",
        };
        Self::new(code, error.to_string())
    }
}

impl Lane {
    /// Carries out a command that is neither about the shim itself nor a message.
    pub(crate) async fn carry_out(
        self,
        command: Command,
        running: Option<String>,
    ) -> Result<Fields, CommandFailure> {
        match command {
            Command::Interrupt { turn_id, then } => {
                self.interrupt_turn(turn_id, then, running).await
            }
            Command::Steer { body, message_id } => self.steer(body, message_id, running).await,
            Command::ListQueue => self.list().await,
            Command::CancelMessage { message_id } => self.cancel(&message_id).await,
            Command::EditMessage { message_id, body } => self.edit(&message_id, &body).await,
            Command::ReorderQueue { ids } => self.reorder(ids).await,
            Command::RetryMessage { message_id } => self.retry(&message_id).await,
            Command::Pause { reason } => {
                let mut params = self.on_thread();
                if let Some(reason) = reason {
                    params["reason"] = reason.into();
                }
                self.call("thread/queue/pause", params).await?;
                Ok(Fields::new())
            }
            Command::Resume => {
                self.call("thread/queue/resume", self.on_thread()).await?;
                Ok(Fields::new())
            }
            Command::AnswerApproval {
                approval_id,
                decision,
            } => {
                let params = json!({"approvalId": approval_id, "decision": decision});
                self.call("approval/respond", params).await?;
                Ok(Fields::new())
            }
            Command::GetTranscript { since, limit } => self.transcript(since, limit).await,
            other => Err(CommandFailure::new(
                "bad_request",
                format!("{other:?} is no call of the lane"),
            )),
        }
    }

    async fn interrupt_turn(
        &self,
        turn_id: Option<String>,
        then: Option<AfterInterrupt>,
        running: Option<String>,
    ) -> Result<Fields, CommandFailure> {
        let Some(running) = running else {
            return Err(CommandFailure::new("idle", "no turn runs"));
        };
        if turn_id.is_some_and(|wanted| wanted != running) {
            let reason = format!("turn {running} runs");
            return Err(CommandFailure::new("bad_request", reason));
        }
        let mut params = json!({"threadId": &*self.thread, "turnId": running});
        match then {
            None => {}
            Some(AfterInterrupt::Pause) => params["queue"] = "pause".into(),
            Some(AfterInterrupt::Continue) => params["queue"] = "continue".into(),
        }
        self.call("turn/interrupt", params).await?;
        Ok(fields(json!({"turn_id": running})))
    }

    async fn steer(
        &self,
        body: String,
        message_id: Option<String>,
        running: Option<String>,
    ) -> Result<Fields, CommandFailure> {
        let Some(running) = running else {
            return Err(CommandFailure::new("idle", "no turn runs"));
        };
        let mut params = json!({"threadId": &*self.thread, "expectedTurnId": running,
                                "input": [{"type": "text", "text": body}]});
        if let Some(id) = message_id {
            params["clientUserMessageId"] = id.into();
        }
        self.call("turn/steer", params).await?;
        Ok(fields(json!({"turn_id": running})))
    }

    /// All rows of the queue.
    pub(crate) async fn rows(&self) -> Result<Vec<QueueRow>, LaneError> {
        let mut rows = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let mut params = json!({"threadId": &*self.thread, "limit": 100});
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let answer = self.call("thread/queue/list", params).await?;
            rows.extend(QueueLook::read(&answer).rows);
            cursor = answer["nextCursor"].clone();
            if cursor.is_null() {
                return Ok(rows);
            }
        }
    }

    async fn list(&self) -> Result<Fields, CommandFailure> {
        let rows = self.rows().await?;
        Ok(fields(json!({"queue": queue(&rows)})))
    }

    /// The waiting row of a message, whichever of its tries waits.
    async fn row_of(&self, message: &str) -> Result<QueueRow, CommandFailure> {
        let rows = self.rows().await?;
        let mut rows = rows.into_iter();
        let found = rows.find(|row| split_attempt(&row.client_id).0 == message);
        found.ok_or_else(|| {
            let reason = format!("message {message} does not wait");
            CommandFailure::new("not_waiting", reason)
        })
    }

    async fn cancel(&self, message: &str) -> Result<Fields, CommandFailure> {
        let row = self.row_of(message).await?;
        let params = json!({"threadId": &*self.thread, "queuedTurnId": row.id});
        let answer = self.call("thread/queue/delete", params).await?;
        if answer["deleted"] == true {
            return Ok(Fields::new());
        }
        let reason = format!("message {message} does not wait any more");
        Err(CommandFailure::new("not_waiting", reason))
    }

    async fn edit(&self, message: &str, body: &str) -> Result<Fields, CommandFailure> {
        let row = self.row_of(message).await?;
        let params = json!({"threadId": &*self.thread, "queuedTurnId": row.id,
                            "input": [{"type": "text", "text": body}]});
        self.call("thread/queue/update", params)
            .await
            .map_err(not_waiting)?;
        Ok(Fields::new())
    }

    async fn reorder(&self, ids: Vec<String>) -> Result<Fields, CommandFailure> {
        let rows = self.rows().await?;
        let row_of = |id: &String| {
            let found = rows
                .iter()
                .find(|row| split_attempt(&row.client_id).0 == id);
            found.map(|row| row.id.clone()).ok_or_else(|| {
                CommandFailure::new("not_waiting", format!("message {id} does not wait"))
            })
        };
        let order: Vec<String> = ids.iter().map(row_of).collect::<Result<_, _>>()?;
        let params = json!({"threadId": &*self.thread, "queuedTurnIds": order});
        self.call("thread/queue/reorder", params).await?;
        Ok(Fields::new())
    }

    async fn retry(&self, message: &str) -> Result<Fields, CommandFailure> {
        let row = match self.row_of(message).await {
            Err(failure) if failure.code == "not_waiting" => return self.run_again(message).await,
            row => row?,
        };
        if row.failure.is_none() {
            let reason = format!("message {message} waits and has not failed");
            return Err(CommandFailure::new("bad_request", reason));
        }
        let params = json!({"threadId": &*self.thread, "queuedTurnId": row.id});
        self.call("thread/queue/retry", params).await?;
        Ok(fields(json!({"attempt": row.attempts + 1})))
    }

    /// Puts a message whose turn did not complete to the head of the queue again, as its next try.
    async fn run_again(&self, message: &str) -> Result<Fields, CommandFailure> {
        let params = json!({"threadId": &*self.thread, "limit": 100, "sortDirection": "desc",
                            "itemsView": "summary"});
        let answer = self.call("thread/turns/list", params).await?;
        let turns = answer["data"].as_array().cloned().unwrap_or_default();
        let not_waiting = |reason: String| CommandFailure::new("not_waiting", reason);
        // The newest first.
        let last = turns.iter().find_map(|turn| last_try(turn, message));
        let Some(last) = last else {
            let reason = format!("no turn of message {message} is known");
            return Err(not_waiting(reason));
        };
        if last.is_open {
            let reason = format!("message {message} runs or has completed");
            return Err(not_waiting(reason));
        }
        let draft = Draft {
            message: super::message_name(message),
            prompt: last.prompt,
            from: String::new(),
            first_attempt: last.attempt + 1,
        };
        let submission = self.clone().submit(&draft, EngineHealth::Usable).await;
        let submission = submission.unwrap_or_else(Unanswered::into_refusal);
        match submission {
            Submission::Accepted { row, .. } => {
                let params = json!({"threadId": &*self.thread, "queuedTurnId": row, "position": 0});
                // An idle lane may have begun it already.
                let _ = self.call("thread/queue/move", params).await;
                Ok(Fields::new())
            }
            Submission::Repeated(_) => Err(CommandFailure::new(
                "not_waiting",
                format!("message {message} runs or has completed"),
            )),
            Submission::Refused { code, reason, .. } => Err(CommandFailure::new(code, reason)),
        }
    }

    async fn transcript(
        &self,
        since: Option<String>,
        limit: u32,
    ) -> Result<Fields, CommandFailure> {
        let mut params = json!({"threadId": &*self.thread, "limit": limit});
        if let Some(since) = since {
            params["cursor"] = since.into();
        }
        let answer = self.call("thread/items/list", params).await?;
        Ok(fields(
            json!({"items": answer["data"], "next": answer["nextCursor"]}),
        ))
    }
}

/// The words of a turn, if it is one of this message.
fn last_try(turn: &Value, message: &str) -> Option<LastTry> {
    let items = turn.get("items")?.as_array()?;
    let user = items.iter().find(|item| item["type"] == "userMessage")?;
    let client_id = user["clientId"].as_str()?;
    let (id, attempt) = split_attempt(client_id);
    if id != message {
        return None;
    }
    Some(LastTry {
        prompt: user["content"][0]["text"].as_str()?.to_owned(),
        attempt,
        is_open: !matches!(turn["status"].as_str(), Some("failed" | "interrupted")),
    })
}

/// The last try of a message, by its turn.
struct LastTry {
    prompt: String,
    attempt: u32,
    /// It runs or has completed.
    is_open: bool,
}

/// A row that left the queue between two calls.
fn not_waiting(error: LaneError) -> CommandFailure {
    match error {
        LaneError::Refused { message, .. } if message.contains("not found") => {
            CommandFailure::new("not_waiting", message)
        }
        error => error.into(),
    }
}

/// Rows in the words of the channel.
pub(crate) fn queue(rows: &[QueueRow]) -> Value {
    let row = |row: &QueueRow| {
        let (id, attempt) = split_attempt(&row.client_id);
        json!({"message_id": id, "position": row.position, "attempt": attempt + row.attempts,
               "state": if row.failure.is_some() { "failed" } else { "waiting" },
               "reason": row.failure})
    };
    rows.iter().map(row).collect()
}

fn fields(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}
