//! Threads in every state.

use serde_json::{Value, json};
use turnlane_protocol::thread::{
    GitInfo, QueueSummary, SessionSource, SubAgentSource, Thread, ThreadEnvironment, ThreadStatus,
};

use crate::example::{reads_as, refusal, whole, with};
use crate::turn::turn;

pub(crate) const THREAD: &str = "0198c0de-0000-7000-8000-000000000001";

/// A new thread with these members.
pub(crate) fn thread(members: Value) -> Value {
    let all = json!({"id": THREAD, "sessionId": THREAD, "preview": "", "ephemeral": false,
        "modelProvider": "openai", "createdAt": 1, "updatedAt": 2, "status": {"type": "idle"},
        "cwd": "/w", "cliVersion": "0.166.0", "source": "appServer", "turns": [],
        "projectId": null, "name": null, "path": null, "forkedFromId": null,
        "parentThreadId": null, "model": null, "reasoningEffort": null, "gitInfo": null,
        "historyMode": "paginated", "environments": null, "recencyAt": null, "originator": null,
        "canAcceptDirectInput": true, "threadSource": null, "agentNickname": null,
        "agentRole": null, "section": null, "sectionEnteredAt": null, "extra": null,
        "daybreakEnabled": null, "engine": null, "binding": null, "queue": null});
    with(all, members)
}

#[test]
fn threads_come_back_whole_bare_and_full() {
    whole::<Thread>(thread(json!({})));
    whole::<Thread>(thread(
        json!({"preview": "hi", "ephemeral": true, "projectId": "p",
        "name": "n", "path": "/r.jsonl", "forkedFromId": THREAD, "parentThreadId": THREAD,
        "model": "m", "reasoningEffort": "high", "recencyAt": 3, "originator": "my-tool",
        "gitInfo": {"branch": "main", "originUrl": "u", "sha": "abc"},
        "environments": [{"environmentId": "local", "cwd": "/w", "runtimeWorkspaceRoots": ["/w"]}],
        "threadSource": "s", "agentNickname": "a", "agentRole": "r", "section": {"id": "s"},
        "sectionEnteredAt": 4, "extra": {"a": 1}, "daybreakEnabled": false, "engine": "native",
        "binding": "b", "turns": [turn(json!({}))],
        "queue": {"depth": 0, "paused": null, "waiting": null, "blocked": null}}),
    ));
}

#[test]
fn what_a_server_leaves_out_is_written_as_null() {
    reads_as::<Thread>(
        json!({"id": THREAD, "sessionId": THREAD, "preview": "", "ephemeral": false,
            "modelProvider": "openai", "createdAt": 1, "updatedAt": 2, "status": {"type": "idle"},
            "cwd": "/w", "cliVersion": "0.166.0", "source": "appServer", "turns": [], "later": 1}),
        &thread(json!({"historyMode": null, "canAcceptDirectInput": null})),
    );
}

#[test]
fn every_status_comes_back_whole() {
    for status in [
        json!({"type": "notLoaded"}),
        json!({"type": "idle"}),
        json!({"type": "systemError"}),
        json!({"type": "active", "activeFlags": []}),
        json!({"type": "active", "activeFlags": ["waitingOnApproval", "waitingOnUserInput"]}),
    ] {
        whole::<ThreadStatus>(status);
    }
    assert_eq!(
        refusal::<ThreadStatus>(json!({"type": "asleep"})),
        "Invalid request: unknown variant `asleep`, expected one of `notLoaded`, `idle`, \
         `systemError`, `active`"
    );
}

#[test]
fn every_source_comes_back_whole_known_or_not() {
    for source in [
        json!("cli"),
        json!("vscode"),
        json!("exec"),
        json!("appServer"),
        json!("unknown"),
        json!({"custom": "me"}),
        json!({"subAgent": {"other": "fanout"}}),
    ] {
        let read = whole::<SessionSource>(source.clone());
        assert!(!matches!(read, SessionSource::Unlisted(_)), "{source}");
    }
    for source in [
        json!({"subAgent": "review"}),
        json!({"subAgent": {"thread_spawn": {"depth": 1, "parent_thread_id": THREAD}}}),
    ] {
        let read = whole::<SessionSource>(source);
        assert!(matches!(
            read,
            SessionSource::SubAgent(SubAgentSource::Unlisted(_))
        ));
    }
    for source in [json!("telepathy"), json!({"later": {"a": 1}})] {
        assert_eq!(
            whole::<SessionSource>(source.clone()),
            SessionSource::Unlisted(source)
        );
    }
}

#[test]
fn parts_of_threads_come_back_whole() {
    whole::<GitInfo>(json!({"branch": null, "originUrl": null, "sha": null}));
    whole::<ThreadEnvironment>(json!({"environmentId": "local", "cwd": "/w"}));
    whole::<ThreadEnvironment>(
        json!({"environmentId": "local", "cwd": "/w", "runtimeWorkspaceRoots": []}),
    );
    whole::<QueueSummary>(json!({"depth": 2,
        "paused": {"reason": "interrupt", "by": "my-tool", "sinceMs": 5},
        "waiting": {"kind": "quota", "message": "later", "sinceMs": 5, "untilMs": null},
        "blocked": {"queuedTurnId": THREAD, "message": "no"}}));
}
