//! Rows of the queue, and the params and answers of its methods, in both dialects.

use serde_json::{Value, json};
use turnlane_protocol::method::{
    QueuedTurnAnswer, QueuedTurnState, ThreadQueueAddAnswer, ThreadQueueAddParams,
    ThreadQueueDeleteAnswer, ThreadQueueDeleteParams, ThreadQueueListAnswer, ThreadQueueListParams,
    ThreadQueueMoveParams, ThreadQueuePauseParams, ThreadQueueReorderAnswer,
    ThreadQueueReorderParams, ThreadQueueResumeParams, ThreadQueueRetryParams,
    ThreadQueueStartAnswer, ThreadQueueStartParams, ThreadQueueUpdateAnswer,
    ThreadQueueUpdateParams,
};
use turnlane_protocol::queue::{QueueState, QueuedTurn};

use crate::example::{refusal, whole, with};
use crate::thread::THREAD;
use crate::turn::{TURN, turn, turn_error};

/// A row.
const ROW: &str = "0198c0de-0000-7000-8000-0000000000aa";

/// A row that waits, with these members changed.
pub(crate) fn row(members: Value) -> Value {
    let input = json!([{"type": "text", "text": "run the tests", "text_elements": []}]);
    let row = json!({"id": ROW, "status": {"type": "pending"},
        "turnStartParams": {"threadId": THREAD, "input": input, "model": "m"},
        "input": input, "clientUserMessageId": "c-1", "turnId": TURN, "lastTurnId": null,
        "position": 0, "attempts": 0, "notBeforeMs": null, "source": "queue",
        "createdAtMs": 1_767_225_600_123_i64, "updatedAtMs": 1_767_225_600_123_i64});
    with(row, members)
}

/// What holds a queue.
pub(crate) fn state() -> Value {
    json!({"depth": 2, "paused": {"reason": "interrupt", "by": "my-tool", "sinceMs": 1},
        "waiting": {"kind": "quota", "message": "m", "sinceMs": 1, "untilMs": null},
        "blocked": {"queuedTurnId": ROW, "message": "m"},
        "running": {"queuedTurnId": null, "turnId": TURN}, "revision": 17})
}

#[test]
fn rows_and_states_come_back_whole() {
    whole::<QueuedTurn>(row(json!({})));
    whole::<QueuedTurn>(row(
        json!({"lastTurnId": TURN, "notBeforeMs": 5, "attempts": 2,
        "status": {"type": "failed", "error": turn_error(json!({}))}}),
    ));
    whole::<QueuedTurn>(row(json!({"turnStartParams": null, "input": []})));
    whole::<QueueState>(state());
    whole::<QueueState>(
        json!({"depth": 0, "paused": null, "waiting": null, "blocked": null,
        "running": null, "revision": 0}),
    );
}

#[test]
fn adds_of_both_dialects_come_back_whole() {
    let input = json!([{"type": "text", "text": "t", "text_elements": []}]);
    whole::<ThreadQueueAddParams>(json!({"threadId": "t", "input": input,
        "clientUserMessageId": "c"}));
    whole::<ThreadQueueAddParams>(json!({"threadId": "t",
        "turnStartParams": {"threadId": "t", "input": input, "effort": "high"},
        "idempotencyKey": "k", "notBeforeMs": 5, "source": "shim", "onError": "block",
        "onCrash": "retry", "onStop": "block", "onCannotStart": "continue", "onLimit": "fail",
        "retry": {"maxAttempts": 3, "baseMs": 1, "capMs": 2}}));
    for (member, word) in [
        ("source", "direct"),
        ("onError", "retry"),
        ("onCrash", "guess"),
        ("onStop", "guess"),
        ("onCannotStart", "wait"),
        ("onLimit", "block"),
    ] {
        let text = refusal::<ThreadQueueAddParams>(json!({"threadId": "t", member: word}));
        let start = format!("Invalid request: unknown variant `{word}`");
        assert!(text.starts_with(&start), "{text}");
    }
    whole::<ThreadQueueAddAnswer>(json!({"queuedTurn": row(json!({})),
        "queuedSubmission": row(json!({})), "deduplicated": false}));
    let again = whole::<ThreadQueueAddAnswer>(json!({"queuedTurn": row(json!({})),
        "queuedSubmission": row(json!({})), "deduplicated": true, "turnId": TURN,
        "state": "failedTurn"}));
    assert_eq!(again.state, Some(QueuedTurnState::FailedTurn));
}

#[test]
fn calls_about_the_queue_come_back_whole() {
    let rows = json!([row(json!({}))]);
    whole::<ThreadQueueListParams>(json!({"threadId": "t"}));
    whole::<ThreadQueueListParams>(json!({"threadId": "t", "cursor": "p1024", "limit": 5}));
    whole::<ThreadQueueListAnswer>(with(state(), json!({"data": rows, "nextCursor": null})));
    whole::<ThreadQueueUpdateParams>(json!({"threadId": "t", "queuedSubmissionId": ROW,
        "input": []}));
    whole::<ThreadQueueUpdateParams>(json!({"threadId": "t", "queuedTurnId": ROW,
        "turnStartParams": {"threadId": "t", "input": []}}));
    whole::<ThreadQueueUpdateAnswer>(json!({"queuedSubmission": rows[0], "queuedTurn": rows[0]}));
    for name in ["queuedTurnId", "queuedSubmissionId"] {
        let read = whole::<ThreadQueueDeleteParams>(json!({"threadId": "t", name: ROW}));
        assert_eq!(read.row.id(), Some(ROW));
        whole::<ThreadQueueStartParams>(json!({"threadId": "t", name: ROW}));
        whole::<ThreadQueueRetryParams>(json!({"threadId": "t", name: ROW}));
    }
    let head = whole::<ThreadQueueStartParams>(json!({"threadId": "t"}));
    assert_eq!(head.row.id(), None);
    whole::<ThreadQueueDeleteAnswer>(json!({"deleted": true}));
    whole::<ThreadQueueReorderParams>(json!({"threadId": "t", "queuedTurnIds": [ROW]}));
    whole::<ThreadQueueReorderParams>(json!({"threadId": "t", "queuedSubmissionIds": [ROW]}));
    whole::<ThreadQueueReorderAnswer>(json!({"queuedTurns": rows}));
    whole::<ThreadQueueStartAnswer>(json!({"turn": turn(json!({}))}));
    for target in [
        json!({"beforeId": ROW}),
        json!({"afterId": ROW}),
        json!({"position": 0}),
    ] {
        let params = json!({"threadId": "t", "queuedTurnId": ROW});
        whole::<ThreadQueueMoveParams>(with(params, target));
    }
    whole::<QueuedTurnAnswer>(json!({"queuedTurn": rows[0]}));
    whole::<ThreadQueuePauseParams>(json!({"threadId": "t"}));
    whole::<ThreadQueuePauseParams>(json!({"threadId": "t", "reason": "lunch"}));
    whole::<ThreadQueueResumeParams>(json!({"threadId": "t"}));
    whole::<ThreadQueueResumeParams>(json!({"threadId": "t", "reason": "shim"}));
    assert_eq!(
        refusal::<ThreadQueueStartParams>(json!({"queuedTurnId": ROW})),
        "Invalid request: missing field `threadId`"
    );
}
