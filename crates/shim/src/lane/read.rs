//! What answers and notifications of the server mean. Pure.

use serde_json::Value;
use turnlane::ErrorKind;

use crate::state::{
    EngineHealth, Failure, Fate, LaneHold, LaneView, MessageName, Outcome, TurnEnd,
};

use super::SHIM_PAUSE;

/// The reason of the pause of a thread whose context is exhausted.
pub(crate) const EXHAUSTED: &str = "context_exhausted";
/// Ids that a shim gives to messages without one.
const OWN_ID_PREFIX: &str = "shim-";

/// The first rows of a queue and what holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueLook {
    pub(crate) lane: LaneView,
    pub(crate) rows: Vec<QueueRow>,
    /// The turn that runs or is about to.
    pub(crate) running: Option<String>,
    /// Its row, which is not among `rows`.
    pub(crate) running_row: Option<String>,
}

/// A row of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueRow {
    pub(crate) id: String,
    pub(crate) client_id: String,
    pub(crate) is_ours: bool,
    pub(crate) last_turn: Option<String>,
    pub(crate) position: u32,
    pub(crate) attempts: u32,
    /// Why it failed, if it did.
    pub(crate) failure: Option<String>,
}

impl QueueLook {
    /// Reads the answer to `thread/queue/list`, or a `thread/queue/changed`.
    pub(crate) fn read(value: &Value) -> Self {
        let rows = value.get("data").or_else(|| value.get("queuedTurns"));
        let rows = rows.and_then(Value::as_array).into_iter().flatten();
        Self {
            lane: lane_view(value),
            rows: rows.filter_map(row).collect(),
            running: text(value.get("running"), "turnId"),
            running_row: text(value.get("running"), "queuedTurnId"),
        }
    }

    /// What became of the row of a turn that ended without completing.
    pub(crate) fn fate_of(&self, turn: &str, row: Option<&str>) -> Fate {
        let mut rows = self.rows.iter();
        match rows.find(|row| row.last_turn.as_deref() == Some(turn)) {
            Some(row) if row.failure.is_some() => Fate::Holds,
            Some(_) => Fate::PutBack,
            // A row that was put back and claimed again at once is not in the list.
            None if row.is_some()
                && row == self.running_row.as_deref()
                && self.running.as_deref() != Some(turn) =>
            {
                Fate::PutBack
            }
            None => Fate::Done,
        }
    }
}

fn row(value: &Value) -> Option<QueueRow> {
    let status = value.get("status")?;
    let failure = (status["type"] == "failed")
        .then(|| text(status.get("error"), "message").unwrap_or_default());
    let number = |name: &str| {
        let number = value.get(name).and_then(Value::as_u64).unwrap_or(0);
        u32::try_from(number).unwrap_or(u32::MAX)
    };
    Some(QueueRow {
        id: text(Some(value), "id")?,
        client_id: text(Some(value), "clientUserMessageId")?,
        is_ours: value["source"] == "shim",
        last_turn: text(Some(value), "lastTurnId"),
        position: number("position"),
        attempts: number("attempts"),
        failure,
    })
}

/// What a queue says of itself.
pub(crate) fn lane_view(value: &Value) -> LaneView {
    let depth = value.get("depth").and_then(Value::as_u64).unwrap_or(0);
    let given = |name: &str| value.get(name).filter(|given| !given.is_null());
    let paused = given("paused").and_then(|paused| text(Some(paused), "reason"));
    let hold = if paused.as_deref() == Some(EXHAUSTED) {
        Some(LaneHold::Exhausted)
    } else if let Some(waiting) = given("waiting") {
        Some(LaneHold::Waiting {
            kind: text(Some(waiting), "kind").unwrap_or_default(),
            until_ms: waiting.get("untilMs").and_then(Value::as_i64),
        })
    } else if given("blocked").is_some() {
        Some(LaneHold::FailedHead)
    } else {
        // The pause of a shim that ends is shown by its own state.
        let foreign = paused.filter(|reason| reason != SHIM_PAUSE);
        foreign.map(|_| LaneHold::Paused)
    };
    LaneView {
        depth: u32::try_from(depth).unwrap_or(u32::MAX),
        hold,
    }
}

/// Whether the engine can run a turn, as `thread/start` and `thread/resume` say.
pub(super) fn health(answer: &Value) -> EngineHealth {
    match answer.get("engineStatus") {
        Some(status) if status["ok"] == false => EngineHealth::Unusable(
            text(Some(status), "reason").unwrap_or_else(|| "the engine is not usable".to_owned()),
        ),
        _ => EngineHealth::Usable,
    }
}

/// A message's id and which try a client id of ours names.
pub(crate) fn split_attempt(client_id: &str) -> (&str, u32) {
    let split = client_id.rsplit_once('#');
    let numbered = split.and_then(|(id, number)| Some((id, number.parse().ok()?)));
    match numbered {
        Some((id, number)) if number > 1 && !id.is_empty() => (id, number),
        _ => (client_id, 1),
    }
}

/// The client id of a message's try.
pub(crate) fn client_id(id: &str, attempt: u32) -> String {
    if attempt <= 1 {
        id.to_owned()
    } else {
        format!("{id}#{attempt}")
    }
}

/// The name of a message, by its id.
pub(crate) fn message_name(id: &str) -> MessageName {
    let is_own = id
        .strip_prefix(OWN_ID_PREFIX)
        .is_some_and(|rest| rest.len() == 36 && uuid::Uuid::try_parse(rest).is_ok());
    MessageName {
        id: id.to_owned(),
        is_given: !is_own,
    }
}

/// The message and try that a stored turn belongs to; none for a turn of another client.
pub(super) fn owner(turn: &Value) -> Option<(MessageName, u32)> {
    if turn["source"] != "shim" {
        return None;
    }
    let items = turn.get("items")?.as_array()?;
    let user = items.iter().find(|item| item["type"] == "userMessage")?;
    let client_id = text(Some(user), "clientId")?;
    let (id, attempt) = split_attempt(&client_id);
    let of_row = turn.get("attempt").and_then(Value::as_u64).unwrap_or(1);
    let of_row = u32::try_from(of_row).unwrap_or(1).max(1);
    Some((message_name(id), attempt + of_row - 1))
}

/// A stored turn that has ended; none while it runs.
pub(crate) fn turn_end(turn: &Value) -> Option<TurnEnd> {
    let outcome = match turn["status"].as_str()? {
        "completed" => Outcome::Completed,
        "failed" => Outcome::Failed(failure(turn.get("error"), ErrorKind::Unknown)),
        "interrupted" => Outcome::Interrupted(failure(turn.get("error"), ErrorKind::Interrupted)),
        _ => return None,
    };
    let items = turn.get("items").and_then(Value::as_array);
    let mut said = items.into_iter().flatten().rev();
    let response = said.find(|item| item["type"] == "agentMessage");
    let (message, attempt) = owner(turn).unzip();
    Some(TurnEnd {
        turn: text(Some(turn), "id")?,
        former_thread: None,
        row: text(Some(turn), "queuedTurnId"),
        message,
        attempt: attempt.unwrap_or(1),
        outcome,
        fate: Fate::Done,
        response: text(response, "text").unwrap_or_default(),
        usage: usage(turn.get("usage")),
        lane: None,
    })
}

fn failure(error: Option<&Value>, default: ErrorKind) -> Failure {
    let error = error.filter(|error| error.is_object());
    let default = serde_json::to_value(default).ok();
    let default = default
        .as_ref()
        .and_then(Value::as_str)
        .unwrap_or("unknown");
    Failure {
        kind: text(error, "kind").unwrap_or_else(|| default.to_owned()),
        message: text(error, "message").unwrap_or_else(|| format!("the turn was {default}")),
        // A back-off of the lane is no time that the provider named.
        retry_at: error
            .filter(|error| error["retryEstimated"] != true)
            .and_then(|error| error.get("retryAt")?.as_i64()),
        is_unknown: error.is_some_and(|error| error["outcomeKnown"] == false),
    }
}

/// The usage of a stored turn in the words of the channel.
fn usage(usage: Option<&Value>) -> Value {
    let part = |name: &str| {
        let counts = usage?.get(name).filter(|counts| counts.is_object())?;
        let count = |name: &str| counts.get(name).and_then(Value::as_i64).unwrap_or(0);
        Some(serde_json::json!({
            "input_tokens": count("inputTokens"),
            "cached_input_tokens": count("cachedInputTokens"),
            "cache_write_input_tokens": count("cacheWriteInputTokens"),
            "output_tokens": count("outputTokens"),
            "reasoning_output_tokens": count("reasoningOutputTokens"),
        }))
    };
    serde_json::json!({"turn": part("turn"), "thread": part("thread")})
}

fn text(value: Option<&Value>, name: &str) -> Option<String> {
    value?.get(name)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_client_id_names_a_message_and_a_try() {
        assert_eq!(split_attempt("m1"), ("m1", 1));
        assert_eq!(split_attempt("m1#2"), ("m1", 2));
        assert_eq!(split_attempt("a#b"), ("a#b", 1));
        assert_eq!(client_id("m1", 3), "m1#3");
        assert!(message_name("shim-x").is_given);
        let own = format!("shim-{}", uuid::Uuid::now_v7());
        assert!(!message_name(&own).is_given);
    }

    #[test]
    fn what_holds_a_queue_is_read_from_its_state() {
        let hold = |value: Value| lane_view(&value).hold;
        assert_eq!(hold(json!({"depth": 1, "paused": null})), None);
        let paused = |reason: &str| hold(json!({"paused": {"reason": reason}}));
        assert_eq!(paused("shim"), None);
        assert_eq!(paused("user"), Some(LaneHold::Paused));
        assert_eq!(paused("context_exhausted"), Some(LaneHold::Exhausted));
        let waiting = hold(json!({"waiting": {"kind": "quota", "untilMs": 5}}));
        let kind = "quota".to_owned();
        let until_ms = Some(5);
        assert_eq!(waiting, Some(LaneHold::Waiting { kind, until_ms }));
        assert_eq!(
            hold(json!({"blocked": {"message": "m"}})),
            Some(LaneHold::FailedHead)
        );
    }

    #[test]
    fn a_row_that_was_claimed_again_at_once_counts_as_put_back() {
        let look = |value: Value| QueueLook::read(&value);
        let again = look(json!({"data": [], "running": {"queuedTurnId": "r", "turnId": "t2"}}));
        assert_eq!(again.fate_of("t1", Some("r")), Fate::PutBack);
        assert_eq!(again.fate_of("t1", Some("other")), Fate::Done);
        assert_eq!(again.fate_of("t1", None), Fate::Done);
        // The turn itself is still shown as the one that runs.
        assert_eq!(again.fate_of("t2", Some("r")), Fate::Done);
        let waits = look(json!({"data": [{"id": "r", "clientUserMessageId": "m",
            "status": {"type": "pending"}, "lastTurnId": "t1"}]}));
        assert_eq!(waits.fate_of("t1", Some("r")), Fate::PutBack);
    }

    #[test]
    fn a_stored_turn_knows_its_message() {
        let turn = json!({"id": "u", "source": "shim", "status": "completed", "attempt": 1,
            "items": [{"type": "userMessage", "clientId": "m#2"},
                      {"type": "agentMessage", "text": "done"}]});
        let end = turn_end(&turn).unwrap();
        assert_eq!(end.message.unwrap().id, "m");
        assert_eq!((end.attempt, end.response.as_str()), (2, "done"));
        let foreign = json!({"id": "u", "source": "direct", "status": "interrupted", "items": []});
        let end = turn_end(&foreign).unwrap();
        assert_eq!(end.message, None);
        assert!(
            matches!(end.outcome, Outcome::Interrupted(failure) if failure.kind == "interrupted")
        );
        assert!(turn_end(&json!({"id": "u", "status": "inProgress"})).is_none());
    }
}
