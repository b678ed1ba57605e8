//! Params and answers of methods.

use serde_json::{Value, json};
use turnlane_protocol::method::{
    CollaborationMode, Overrides, StartAnswer, ThreadForkParams, ThreadListAnswer,
    ThreadListParams, ThreadReadAnswer, ThreadReadParams, ThreadResumeAnswer, ThreadResumeParams,
    ThreadSettings, ThreadSourceKind, ThreadStartParams, TurnInterruptAnswer, TurnInterruptParams,
    TurnStartAnswer, TurnStartParams, TurnSteerAnswer, TurnSteerParams, TurnsPage,
};

use crate::example::{reads_as, refusal, whole, with};
use crate::queue::row;
use crate::thread::thread;
use crate::turn::{TURN, turn};

fn overrides() -> Value {
    json!({"model": "m", "modelProvider": "p", "cwd": "/w", "approvalPolicy": "never",
        "approvalsReviewer": "user", "sandbox": {"type": "dangerFullAccess"},
        "sandboxPolicy": {"type": "dangerFullAccess"}, "permissions": "strict",
        "config": {"a": {"b": 1}}, "baseInstructions": "b", "developerInstructions": "d",
        "personality": "friendly", "serviceTier": "flex", "runtimeWorkspaceRoots": ["/w"]})
}

fn collaboration_mode() -> Value {
    json!({"mode": "plan", "settings":
        {"model": "m", "reasoning_effort": null, "developer_instructions": "d"}})
}

pub(crate) fn settings() -> Value {
    json!({"cwd": "/w", "approvalPolicy": "on-request", "approvalsReviewer": "user",
        "sandboxPolicy": {"type": "readOnly", "networkAccess": false},
        "activePermissionProfile": null, "model": "m", "modelProvider": "p", "serviceTier": null,
        "effort": "low", "summary": "concise", "collaborationMode": collaboration_mode(),
        "multiAgentMode": "explicitRequestOnly", "personality": "pragmatic",
        "disabledPluginIds": []})
}

fn start_answer(members: Value) -> Value {
    let all = json!({"thread": thread(json!({})), "model": "m", "modelProvider": "p", "cwd": "/w",
        "approvalPolicy": "on-request", "approvalsReviewer": "user",
        "sandbox": {"type": "readOnly", "networkAccess": false}, "serviceTier": null,
        "reasoningEffort": null, "instructionSources": [], "runtimeWorkspaceRoots": ["/w"],
        "activePermissionProfile": null, "disabledPluginIds": [],
        "multiAgentMode": "explicitRequestOnly"});
    with(all, members)
}

#[test]
fn thread_start_comes_back_whole() {
    whole::<ThreadStartParams>(json!({}));
    let ours = json!({"ephemeral": true, "dynamicTools": [{"name": "t"}], "threadSource": "s",
        "environments": [{"environmentId": "local", "cwd": "/w"}], "sessionStartSource": "clear",
        "serviceName": "n", "engine": "native", "binding": "b", "supersedes": "t",
        "queueMaxDepth": 5});
    whole::<ThreadStartParams>(with(overrides(), ours));
    whole::<ThreadStartParams>(json!({"sessionStartSource": "startup", "personality": "none"}));
    reads_as::<ThreadStartParams>(
        json!({"later": 1, "model": null, "ephemeral": null, "sandbox": "read-only"}),
        &json!({"sandbox": {"type": "readOnly", "networkAccess": false}}),
    );
    whole::<StartAnswer>(start_answer(json!({})));
    whole::<StartAnswer>(start_answer(
        json!({"existing": true, "reasoningEffort": "high",
        "serviceTier": "flex", "activePermissionProfile": {"id": "p", "extends": null},
        "engineStatus": {"ok": false, "reason": "no key"}}),
    ));
}

#[test]
fn wrong_params_are_refused_with_their_text_also_among_overrides() {
    assert_eq!(
        refusal::<ThreadStartParams>(json!({"model": 5})),
        "Invalid request: invalid type: integer `5`, expected a string"
    );
    assert_eq!(
        refusal::<ThreadStartParams>(json!({"personality": "grumpy"})),
        "Invalid request: unknown variant `grumpy`, expected one of `none`, `friendly`, `pragmatic`"
    );
    assert_eq!(
        refusal::<TurnStartParams>(json!({"threadId": "t", "input": [], "summary": "long"})),
        "Invalid request: unknown variant `long`, expected one of `auto`, `concise`, `detailed`, \
         `none`"
    );
    assert_eq!(
        refusal::<TurnStartParams>(json!({"threadId": "t", "input": [], "whenBusy": "steer"})),
        "Invalid request: unknown variant `steer`, expected `queue` or `reject`"
    );
    assert_eq!(
        refusal::<ThreadResumeParams>(json!({"model": "m"})),
        "Invalid request: missing field `threadId`"
    );
    assert_eq!(
        refusal::<TurnStartParams>(json!({"threadId": "t"})),
        "Invalid request: missing field `input`"
    );
    assert_eq!(
        refusal::<ThreadListParams>(json!({"cwd": 5})),
        "Invalid request: a path or a list of paths"
    );
}

#[test]
fn thread_resume_comes_back_whole() {
    whole::<ThreadResumeParams>(json!({"threadId": "t"}));
    let own = json!({"threadId": "t", "excludeTurns": true, "sinceSeq": 5, "epoch": "e",
        "initialTurnsPage": {"limit": 5, "sortDirection": "desc", "itemsView": "full"},
        "overrides": overrides(), "history": [1], "path": "/p"});
    whole::<ThreadResumeParams>(with(overrides(), own));
    whole::<ThreadResumeParams>(json!({"threadId": "t", "initialTurnsPage": {}}));
    let rest = json!({"collaborationMode": null, "initialTurnsPage": null,
        "turnsBackwardsCursor": null, "itemsBackwardsCursor": null});
    whole::<ThreadResumeAnswer>(start_answer(rest));
    whole::<ThreadResumeAnswer>(start_answer(
        json!({"collaborationMode": collaboration_mode(),
        "initialTurnsPage": {"data": [turn(json!({}))], "nextCursor": "n", "backwardsCursor": null},
        "turnsBackwardsCursor": "t", "itemsBackwardsCursor": "i",
        "engineStatus": {"ok": true, "reason": null},
        "events": {"epoch": "e", "seq": 41, "replay": "snapshot"}}),
    ));
    whole::<TurnsPage>(json!({"data": [], "nextCursor": null, "backwardsCursor": "b"}));
}

#[test]
fn nested_overrides_are_read_as_if_flat_and_flat_ones_win() {
    let params: ThreadResumeParams = serde_json::from_value(json!({"threadId": "t", "model": "flat",
        "sandbox": "read-only",
        "overrides": {"model": "nested", "cwd": "/n", "sandboxPolicy": {"type": "dangerFullAccess"}}}))
    .unwrap();
    let effective = params.effective_overrides();
    assert_eq!(
        serde_json::to_value(&effective).unwrap(),
        json!({"model": "flat", "cwd": "/n",
            "sandbox": {"type": "readOnly", "networkAccess": false}})
    );
    assert!(effective.chosen_sandbox().is_ok());
    let everything = whole::<Overrides>(overrides());
    assert_eq!(Overrides::default().or(everything.clone()), everything);
    assert_eq!(everything.clone().or(Overrides::default()), everything);
}

#[test]
fn thread_fork_and_read_come_back_whole() {
    whole::<ThreadForkParams>(json!({"threadId": "t"}));
    whole::<ThreadForkParams>(with(
        overrides(),
        json!({"threadId": "t", "lastTurnId": "a",
        "beforeTurnId": "b", "ephemeral": true, "excludeTurns": true, "threadSource": "s"}),
    ));
    whole::<ThreadReadParams>(json!({"threadId": "t"}));
    whole::<ThreadReadParams>(json!({"threadId": "t", "includeTurns": true}));
    whole::<ThreadReadAnswer>(json!({"thread": thread(json!({})), "readState": null}));
    whole::<ThreadReadAnswer>(
        json!({"thread": thread(json!({})), "readState": {"revision": "1", "firstUnread": null}}),
    );
}

#[test]
fn thread_list_comes_back_whole() {
    whole::<ThreadListParams>(json!({}));
    whole::<ThreadListParams>(json!({"cursor": "c", "limit": 5, "sortKey": "recency_at",
        "sortDirection": "asc", "archived": true, "cwd": ["/a", "/b"], "searchTerm": "s",
        "sourceKinds": ["subAgentOther"], "modelProviders": ["p"], "parentThreadId": "t",
        "excludedThreadIds": ["u"], "sectionId": "x"}));
    for key in ["created_at", "updated_at", "recency_at", "section_position"] {
        whole::<ThreadListParams>(json!({"sortKey": key, "sortDirection": "desc"}));
    }
    for kind in [
        "cli",
        "vscode",
        "exec",
        "appServer",
        "subAgent",
        "subAgentReview",
        "subAgentCompact",
        "subAgentThreadSpawn",
        "subAgentOther",
        "unknown",
    ] {
        whole::<ThreadSourceKind>(json!(kind));
    }
    let one = whole::<ThreadListParams>(json!({"cwd": "/a"}));
    assert_eq!(one.cwd.unwrap().paths(), ["/a"]);
    let many = whole::<ThreadListParams>(json!({"cwd": ["/a", "/b"]}));
    assert_eq!(many.cwd.unwrap().paths(), ["/a", "/b"]);
    whole::<ThreadListAnswer>(json!({"data": [thread(json!({}))], "nextCursor": "n",
        "backwardsCursor": null, "readStates": {}}));
}

#[test]
fn turn_start_comes_back_whole() {
    whole::<TurnStartParams>(json!({"threadId": "t", "input": []}));
    whole::<TurnStartParams>(json!({"threadId": "t",
        "input": [{"type": "text", "text": "hi", "text_elements": []}],
        "clientUserMessageId": "c", "cwd": "/w", "runtimeWorkspaceRoots": ["/w"],
        "approvalPolicy": "untrusted", "approvalsReviewer": "user",
        "sandboxPolicy": {"type": "dangerFullAccess"}, "sandbox": {"type": "dangerFullAccess"},
        "permissions": "p", "model": "m", "effort": "high", "summary": "none",
        "personality": "pragmatic", "serviceTier": "a", "serviceTierForTurn": "b",
        "collaborationMode": collaboration_mode(), "outputSchema": {"type": "object"},
        "environments": [], "responsesapiClientMetadata": {"k": "v"},
        "additionalContext": {"s": {"kind": "untrusted", "value": "v", "name": "n"},
            "u": {"kind": "application", "value": "w"}},
        "turnTrigger": "t", "parentTurnId": "a", "rootTurnId": "b",
        "toolOutput": {"name": "f", "output": "x"}, "disabledPluginIds": ["p"],
        "whenBusy": "queue", "idempotencyKey": "k", "boundTo": "connection", "timeoutMs": 5}));
    whole::<TurnStartParams>(json!({"threadId": "t", "input": [], "whenBusy": "reject"}));
    whole::<TurnStartAnswer>(json!({"turn": turn(json!({}))}));
    whole::<TurnStartAnswer>(json!({"turn": turn(json!({})), "queuedTurn": row(json!({}))}));
}

#[test]
fn turn_steer_and_interrupt_come_back_whole() {
    whole::<TurnSteerParams>(json!({"threadId": "t", "expectedTurnId": "", "input": []}));
    whole::<TurnSteerParams>(json!({"threadId": "t", "expectedTurnId": "u",
        "input": [{"type": "text", "text": "hi", "text_elements": []}],
        "clientUserMessageId": "c"}));
    whole::<TurnSteerAnswer>(json!({"turnId": TURN}));
    whole::<TurnInterruptParams>(json!({"threadId": "t", "turnId": ""}));
    for queue in ["pause", "continue"] {
        whole::<TurnInterruptParams>(json!({"threadId": "t", "turnId": "u", "queue": queue}));
    }
    reads_as::<TurnInterruptAnswer>(json!({"later": 1}), &json!({}));
}

#[test]
fn settings_come_back_whole() {
    whole::<ThreadSettings>(settings());
    whole::<CollaborationMode>(collaboration_mode());
    whole::<CollaborationMode>(with(collaboration_mode(), json!({"mode": "default"})));
}
