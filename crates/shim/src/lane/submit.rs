//! A message becomes a queued turn, once.
//!
//! The invariant here: a message is accepted when its row is on disk, and the same id runs again only after
//! its last try ended without completing. What is refused has a code, a reason, and says whether the same
//! message may be accepted later.

use serde_json::{Value, json};

use super::{Lane, client_id, turn_end};
use crate::error::LaneError;
use crate::state::{EngineHealth, Fate, MessageName, Outcome, Repeat, TurnEnd};
use crate::wire::{Injection, Message};

/// The longest prompt, in characters.
const PROMPT_CHARS_MAX: usize = 1_048_576;
/// The longest name of a sender.
const FROM_BYTES_MAX: usize = 128;
/// The longest id of a message.
const ID_BYTES_MAX: usize = 256;
/// Tries of one message that the sender may ask for.
const ATTEMPTS_MAX: u32 = 10_000;

/// A message that is ready to be added.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) message: MessageName,
    pub(crate) prompt: String,
    /// The sender, who is part of what a repeated message is compared with.
    pub(crate) from: String,
    /// The first try that may be this one; earlier ones are known to have ended.
    pub(crate) first_attempt: u32,
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Submission {
    Accepted {
        row: String,
        position: u32,
        /// Which try of the message the row is, by the sender's wish.
        tries: u32,
    },
    Repeated(Box<Repeat>),
    Refused {
        code: &'static str,
        reason: String,
        retryable: bool,
    },
}

/// The server could not be reached, or had no room: the add may or may not have been carried out.
#[derive(Debug)]
pub(crate) struct Unanswered(pub(crate) String);

impl Unanswered {
    /// The refusal of a message that was tried for long enough.
    pub(crate) fn into_refusal(self) -> Submission {
        refusal(&LaneError::Unreachable(self.0))
    }
}

impl Submission {
    pub(crate) fn refused(code: &'static str, reason: impl Into<String>) -> Self {
        let retryable = matches!(
            code,
            "queue_full" | "engine_unavailable" | "store" | "closing"
        );
        Self::Refused {
            code,
            reason: reason.into(),
            retryable,
        }
    }
}

impl Draft {
    /// Checks a message and puts it into the words for the agent.
    pub(crate) fn new(message: &Message, reply_command: Option<&str>) -> Result<Self, Submission> {
        let bad = |reason: &str| Submission::refused("bad_request", reason);
        if message.from.len() > FROM_BYTES_MAX {
            return Err(bad("`from` must be at most 128 bytes"));
        }
        if message.from.chars().any(char::is_control) {
            return Err(bad("`from` must not have control characters"));
        }
        if message.body.trim().is_empty() {
            return Err(bad("`body` is blank"));
        }
        let message_name = match &message.message_id {
            None => MessageName {
                id: format!("shim-{}", uuid::Uuid::now_v7()),
                is_given: false,
            },
            Some(id) => named(id).map_err(bad)?,
        };
        let prompt = match (message.inject, reply_command) {
            (Some(Injection::Plain), _) | (_, None) => message.body.clone(),
            (_, Some(command)) => injected(&message.from, command, &message.body),
        };
        if prompt.chars().count() > PROMPT_CHARS_MAX {
            let reason = format!("the prompt exceeds {PROMPT_CHARS_MAX} characters");
            return Err(Submission::refused("too_large", reason));
        }
        Ok(Self {
            message: message_name,
            prompt,
            from: message.from.clone(),
            first_attempt: 1,
        })
    }
}

fn named(id: &str) -> Result<MessageName, &'static str> {
    if id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
        return Err("`message_id` must have 1 to 256 bytes and no control characters");
    }
    if super::split_attempt(id).1 > 1 {
        return Err("`message_id` must not end in # and a number, which names a further try");
    }
    Ok(MessageName {
        id: id.to_owned(),
        is_given: true,
    })
}

/// A body with its sender and how to reply.
fn injected(from: &str, reply_command: &str, body: &str) -> String {
    format!(
        "--- Message from {from} ---\nReply-To: {from}\nIf you need to reply, use: {reply_command} \
         {from} \"<your reply>\"\n\n{body}"
    )
}

impl Lane {
    /// Adds a message; returns when its row is on disk, when it is refused, or when the server cannot be
    /// reached. Repeating is harmless: the id is the key of the row.
    pub(crate) async fn submit(
        self,
        draft: &Draft,
        mut engine: EngineHealth,
    ) -> Result<Submission, Unanswered> {
        match self.try_submit(draft, &mut engine).await {
            Ok(submission) => Ok(submission),
            Err(LaneError::Unreachable(reason)) => Err(Unanswered(reason)),
            Err(error) => Ok(refusal(&error)),
        }
    }

    async fn try_submit(
        &self,
        draft: &Draft,
        engine: &mut EngineHealth,
    ) -> Result<Submission, LaneError> {
        if matches!(engine, EngineHealth::Unusable(_)) {
            *engine = self.engine_health().await?;
            if let EngineHealth::Unusable(reason) = engine {
                return Ok(Submission::refused("engine_unavailable", reason.as_str()));
            }
            self.end_engine_wait().await?;
        }
        for attempt in draft.first_attempt..=ATTEMPTS_MAX {
            let answer = self.add(draft, attempt).await?;
            let row = &answer["queuedTurn"];
            let id = row["id"].as_str().unwrap_or_default().to_owned();
            let position = row["position"].as_u64().unwrap_or(0);
            let position = u32::try_from(position).unwrap_or(u32::MAX);
            if answer["deduplicated"] != true {
                return Ok(Submission::Accepted {
                    row: id,
                    position,
                    tries: attempt,
                });
            }
            let turn = answer["turnId"].as_str().unwrap_or_default().to_owned();
            match answer["state"].as_str().unwrap_or_default() {
                "failed" => {
                    let params = json!({"threadId": &*self.thread, "queuedTurnId": id});
                    self.call("thread/queue/retry", params).await?;
                    return Ok(Submission::Accepted {
                        row: id,
                        position,
                        tries: attempt,
                    });
                }
                "pending" => {
                    let position = self.position_of(&id).await?.unwrap_or(position);
                    return Ok(repeated(Repeat::Waiting { position }));
                }
                "dispatching" | "running" => return Ok(repeated(Repeat::Running { turn })),
                "completed" => return self.completed(draft, attempt, &turn).await,
                // It ended without completing: the sender wants it again.
                _ => {}
            }
        }
        Ok(Submission::refused(
            "bad_request",
            "the message was tried too often",
        ))
    }

    /// The engine is back: a lane that waits for it goes on now. A pause stays.
    async fn end_engine_wait(&self) -> Result<(), LaneError> {
        let params = json!({"threadId": &*self.thread, "limit": 1});
        let queue = self.call("thread/queue/list", params).await?;
        if queue["waiting"]["kind"] == "engine_unavailable" && queue["paused"].is_null() {
            let params = json!({"threadId": &*self.thread});
            self.call("thread/queue/resume", params).await?;
        }
        Ok(())
    }

    async fn add(&self, draft: &Draft, attempt: u32) -> Result<Value, LaneError> {
        let id = client_id(&draft.message.id, attempt);
        let mut turn = json!({"threadId": &*self.thread, "clientUserMessageId": id,
                              "input": [{"type": "text", "text": draft.prompt}]});
        if attempt == 1 {
            // Compared when the message comes again. A further try is compared by its text alone, because
            // `RetryMessage` does not know the sender.
            turn["turnTrigger"] = format!("message from {}", draft.from).into();
        }
        if let Some(limit) = self.options.turn_timeout {
            turn["timeoutMs"] = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).into();
        }
        let mut params = self.policies();
        params["threadId"] = (&*self.thread).into();
        params["turnStartParams"] = turn;
        self.call("thread/queue/add", params).await
    }

    async fn position_of(&self, row: &str) -> Result<Option<u32>, LaneError> {
        let look = self.look().await?;
        let found = look.rows.iter().find(|found| found.id == row);
        Ok(found.map(|found| found.position))
    }

    async fn completed(
        &self,
        draft: &Draft,
        attempt: u32,
        turn: &str,
    ) -> Result<Submission, LaneError> {
        let stored = self.turn(turn).await?;
        let mut end = stored
            .as_ref()
            .and_then(turn_end)
            .unwrap_or_else(|| taken_back(turn));
        end.message = Some(draft.message.clone());
        end.attempt = end.attempt.max(attempt);
        Ok(repeated(Repeat::Completed(Box::new(end))))
    }
}

/// The end of a turn that is known to have completed and was taken out of the history since.
fn taken_back(turn: &str) -> TurnEnd {
    TurnEnd {
        turn: turn.to_owned(),
        former_thread: None,
        row: None,
        message: None,
        attempt: 1,
        outcome: Outcome::Completed,
        fate: Fate::Done,
        response: String::new(),
        usage: Value::Null,
        lane: None,
    }
}

fn repeated(repeat: Repeat) -> Submission {
    Submission::Repeated(Box::new(repeat))
}

fn refusal(error: &LaneError) -> Submission {
    let code = match (error.word(), error) {
        (Some("queueFull"), _) => "queue_full",
        (Some("idempotencyConflict"), _) => "duplicate_conflict",
        (Some("inputTooLarge" | "tooLarge"), _) => "too_large",
        // A lane that another worker took is not written to either; the same message may be accepted
        // later.
        (_, LaneError::Store(_) | LaneError::Unreachable(_) | LaneError::Held(_)) => "store",
        (_, LaneError::Refused { .. }) => "bad_request",
    };
    Submission::refused(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(from: &str, body: &str, id: Option<&str>) -> Message {
        Message {
            from: from.to_owned(),
            body: body.to_owned(),
            message_id: id.map(str::to_owned),
            inject: None,
            expected_thread_id: None,
            client_data: None,
        }
    }

    fn code(draft: &Result<Draft, Submission>) -> &'static str {
        match draft {
            Err(Submission::Refused { code, .. }) => code,
            _ => "accepted",
        }
    }

    #[test]
    fn the_sender_and_how_to_reply_stand_before_the_body() {
        let sent = message("manager", "fix it\n", Some("m1"));
        let draft = Draft::new(&sent, Some("batty send")).unwrap();
        assert_eq!(
            draft.prompt,
            "--- Message from manager ---\nReply-To: manager\nIf you need to reply, use: batty send \
             manager \"<your reply>\"\n\nfix it\n"
        );
        assert_eq!(Draft::new(&sent, None).unwrap().prompt, "fix it\n");
        let plain = Message {
            inject: Some(Injection::Plain),
            ..sent
        };
        assert_eq!(Draft::new(&plain, Some("x")).unwrap().prompt, "fix it\n");
    }

    #[test]
    fn messages_that_make_no_sense_are_refused() {
        let check = |from: &str, body: &str, id| code(&Draft::new(&message(from, body, id), None));
        assert_eq!(check("a", "b", None), "accepted");
        assert_eq!(check("a\nb", "b", None), "bad_request");
        assert_eq!(check(&"a".repeat(129), "b", None), "bad_request");
        assert_eq!(check("a", " \n", None), "bad_request");
        assert_eq!(check("a", "b", Some("")), "bad_request");
        assert_eq!(check("a", "b", Some("m#2")), "bad_request");
        assert_eq!(
            check("a", &"x".repeat(PROMPT_CHARS_MAX + 1), None),
            "too_large"
        );
    }
}
