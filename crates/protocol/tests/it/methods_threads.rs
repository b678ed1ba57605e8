//! Params and answers of the methods about stored threads.

use serde_json::{Value, json};
use turnlane_protocol::method::{
    BackgroundTerminalsCleanParams, BackgroundTerminalsListAnswer, BackgroundTerminalsListParams,
    BackgroundTerminalsTerminateAnswer, BackgroundTerminalsTerminateParams, Done, ItemsAnchor,
    ItemsCursor, NoParams, ReadStateUpdateAnswer, ReadStateUpdateParams, ThreadArchiveParams,
    ThreadCompactStartParams, ThreadDeleteParams, ThreadGoalClearAnswer, ThreadGoalClearParams,
    ThreadGoalGetAnswer, ThreadGoalGetParams, ThreadGoalSetAnswer, ThreadGoalSetParams,
    ThreadItemsListAnswer, ThreadItemsListParams, ThreadItemsReadAnswer, ThreadItemsReadParams,
    ThreadLoadedListAnswer, ThreadLoadedListParams, ThreadNameSetParams, ThreadRevertAnswer,
    ThreadRevertParams, ThreadRollbackAnswer, ThreadRollbackParams, ThreadSettingsUpdateParams,
    ThreadTurnsListParams, ThreadUnarchiveAnswer, ThreadUnarchiveParams, ThreadUnsubscribeAnswer,
    ThreadUnsubscribeParams,
};

use crate::example::{reads_as, refusal, whole, with};
use crate::item::item;
use crate::thread::{THREAD, thread};
use crate::turn::TURN;

pub(crate) fn goal() -> Value {
    json!({"threadId": THREAD, "objective": "o", "status": "active", "tokenBudget": null,
        "tokensUsed": 1, "timeUsedSeconds": 2, "createdAt": 3, "updatedAt": 4})
}

#[test]
fn archive_unarchive_and_delete_come_back_whole() {
    whole::<ThreadArchiveParams>(json!({"threadId": "t"}));
    whole::<ThreadUnarchiveParams>(json!({"threadId": "t"}));
    whole::<ThreadUnarchiveAnswer>(json!({"thread": thread(json!({}))}));
    whole::<ThreadDeleteParams>(json!({"threadId": "t"}));
    reads_as::<Done>(json!({"later": 1}), &json!({}));
    reads_as::<NoParams>(json!({"later": 1}), &json!({}));
    assert_eq!(
        refusal::<ThreadDeleteParams>(json!({})),
        "Invalid request: missing field `threadId`"
    );
}

#[test]
fn loaded_threads_and_subscriptions_come_back_whole() {
    whole::<ThreadLoadedListParams>(json!({}));
    whole::<ThreadLoadedListParams>(json!({"cursor": THREAD, "limit": 5}));
    whole::<ThreadLoadedListAnswer>(json!({"data": [THREAD], "nextCursor": THREAD}));
    whole::<ThreadUnsubscribeParams>(json!({"threadId": "t"}));
    for status in ["unsubscribed", "notSubscribed", "notLoaded"] {
        whole::<ThreadUnsubscribeAnswer>(json!({"status": status}));
    }
    whole::<ThreadNameSetParams>(json!({"threadId": "t", "name": ""}));
}

#[test]
fn pages_of_a_history_come_back_whole() {
    whole::<ThreadTurnsListParams>(json!({"threadId": "t"}));
    whole::<ThreadTurnsListParams>(json!({"threadId": "t", "cursor": "c", "limit": 5,
        "sortDirection": "asc", "itemsView": "notLoaded"}));
    whole::<ThreadItemsListParams>(json!({"threadId": "t"}));
    let page = whole::<ThreadItemsListParams>(json!({"threadId": "t", "turnId": "u",
        "cursor": "c", "limit": 5, "sortDirection": "desc"}));
    assert_eq!(page.cursor, Some(ItemsCursor::Page("c".into())));
    let at = whole::<ThreadItemsListParams>(
        json!({"threadId": "t", "cursor": {"type": "item", "itemId": "i"}}),
    );
    let item_id = "i".to_owned();
    assert_eq!(
        at.cursor,
        Some(ItemsCursor::Anchor(ItemsAnchor::Item { item_id }))
    );
    assert_eq!(
        refusal::<ThreadItemsListParams>(json!({"threadId": "t", "cursor": {"type": "turn"}})),
        "Invalid request: a cursor or an object with `type` \"item\" and an `itemId`"
    );
    let entry = json!({"turnId": TURN, "item": item("plan", json!({"text": "a"})),
        "startedAtMs": 5, "completedAtMs": null});
    whole::<ThreadItemsListAnswer>(
        json!({"data": [entry], "nextCursor": "n", "backwardsCursor": null}),
    );
    whole::<ThreadItemsReadParams>(json!({"threadId": "t", "turnId": "u", "itemIds": ["i"]}));
    whole::<ThreadItemsReadAnswer>(json!({"data": [entry]}));
}

#[test]
fn shortening_a_history_comes_back_whole() {
    whole::<ThreadRevertParams>(json!({"threadId": "t", "beforeTurnId": "u"}));
    whole::<ThreadRevertAnswer>(json!({"thread": thread(json!({})),
        "turnsBackwardsCursor": "a", "itemsBackwardsCursor": null}));
    whole::<ThreadRollbackParams>(json!({"threadId": "t", "numTurns": 0}));
    whole::<ThreadRollbackAnswer>(json!({"thread": thread(json!({}))}));
    whole::<ThreadCompactStartParams>(json!({"threadId": "t"}));
    assert!(
        serde_json::from_value::<ThreadRollbackParams>(json!({"threadId": "t", "numTurns": -1}))
            .is_err()
    );
}

#[test]
fn background_terminals_come_back_whole() {
    whole::<BackgroundTerminalsListParams>(json!({"threadId": "t"}));
    whole::<BackgroundTerminalsListParams>(json!({"threadId": "t", "cursor": "c", "limit": 5}));
    whole::<BackgroundTerminalsListAnswer>(json!({"nextCursor": null, "data": [
        {"itemId": "i", "processId": "1", "command": "c", "cwd": "/w", "osPid": 7,
            "cpuPercent": 0.5, "rssKb": 9},
        {"itemId": "i", "processId": "2", "command": "c", "cwd": "/w", "osPid": null,
            "cpuPercent": null, "rssKb": null}]}));
    whole::<BackgroundTerminalsTerminateParams>(json!({"threadId": "t", "processId": "1"}));
    whole::<BackgroundTerminalsTerminateAnswer>(json!({"terminated": true}));
    whole::<BackgroundTerminalsCleanParams>(json!({"threadId": "t"}));
}

#[test]
fn settings_updates_come_back_whole() {
    whole::<ThreadSettingsUpdateParams>(json!({"threadId": "t"}));
    let all = json!({"threadId": "t", "cwd": "/w", "approvalPolicy": "never",
        "approvalsReviewer": "user", "sandboxPolicy": {"type": "dangerFullAccess"},
        "permissions": "p", "model": "m", "effort": "low", "summary": "auto",
        "personality": "friendly", "serviceTier": "s", "multiAgentMode": "proactive",
        "disabledPluginIds": [], "collaborationMode": {"mode": "default",
            "settings": {"model": "m", "reasoning_effort": null, "developer_instructions": null}}});
    whole::<ThreadSettingsUpdateParams>(all.clone());
    let both = whole::<ThreadSettingsUpdateParams>(with(
        all,
        json!({"sandbox": {"type": "readOnly", "networkAccess": false}}),
    ));
    assert!(both.chosen_sandbox().is_err());
}

#[test]
fn goals_and_read_states_come_back_whole() {
    whole::<ThreadGoalGetParams>(json!({"threadId": "t"}));
    whole::<ThreadGoalGetAnswer>(json!({"goal": null}));
    for status in [
        "active",
        "paused",
        "blocked",
        "usageLimited",
        "budgetLimited",
        "complete",
    ] {
        whole::<ThreadGoalGetAnswer>(json!({"goal": with(goal(), json!({"status": status}))}));
    }
    whole::<ThreadGoalSetParams>(json!({"threadId": "t"}));
    whole::<ThreadGoalSetParams>(
        json!({"threadId": "t", "objective": "o", "status": "paused",
        "tokenBudget": 5, "origin": "user"}),
    );
    whole::<ThreadGoalSetAnswer>(json!({"goal": goal()}));
    whole::<ThreadGoalClearParams>(json!({"threadId": "t", "origin": "automatic"}));
    whole::<ThreadGoalClearAnswer>(json!({"cleared": false}));
    for operation in ["read", "unread"] {
        whole::<ReadStateUpdateParams>(json!({"threadId": "t", "expectedRevision": "1",
            "operation": {"type": operation}}));
    }
    for unread in [
        json!(null),
        json!({"type": "threadStart"}),
        json!({"type": "turn", "turnId": TURN}),
    ] {
        whole::<ReadStateUpdateAnswer>(
            json!({"readState": {"revision": "1", "firstUnread": unread}}),
        );
    }
}
