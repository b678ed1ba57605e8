//! Threads: made, named, read, listed, put away, copied, shortened, removed.

use serde_json::{Value, json};

use crate::support::{Client, ECHO, World};

/// Every notification of this method that came.
fn all<'a>(client: &'a Client, method: &str) -> Vec<&'a Value> {
    let all = client.0.received().iter();
    all.filter(|message| message["method"] == method).collect()
}

#[tokio::test]
async fn a_start_is_answered_with_what_is_in_effect_and_everybody_is_told() {
    let world = World::start(ECHO).await;
    let mut other = world.client().await;
    let mut client = world.client().await;
    let params = json!({"model": "m", "approvalPolicy": "on-failure", "cwd": "/w",
        "sandboxPolicy": {"type": "dangerFullAccess"}, "config": {"model": "below"},
        "threadSource": "mine"});
    let answer = client.ok("thread/start", params).await;
    assert_eq!(answer["model"], "m");
    assert_eq!(answer["approvalPolicy"], "on-request");
    assert_eq!(answer["sandbox"], json!({"type": "dangerFullAccess"}));
    assert_eq!(answer["runtimeWorkspaceRoots"], json!(["/w"]));
    assert_eq!(answer["multiAgentMode"], "explicitRequestOnly");
    assert_eq!(answer["engineStatus"]["ok"], true);
    let thread = &answer["thread"];
    assert_eq!(thread["sessionId"], thread["id"]);
    assert_eq!(thread["status"], json!({"type": "idle"}));
    assert_eq!(thread["source"], "appServer");
    assert_eq!(thread["originator"], "test");
    assert_eq!(thread["threadSource"], "mine");
    assert_eq!(thread["turns"], json!([]));
    assert_eq!(thread["queue"]["depth"], 0);
    for client in [&mut client, &mut other] {
        let told = client.told("thread/started", json!({})).await;
        assert_eq!(told["params"]["thread"]["id"], thread["id"]);
        assert!(told["emittedAtMs"].is_i64());
    }
    let words = client.words(1);
    assert_eq!(words[..2], ["answer", "thread/started"]);
    let below = client
        .ok("thread/start", json!({"config": {"model": "below"}}))
        .await;
    assert_eq!(below["model"], "below");
}

#[tokio::test]
async fn a_start_shows_the_repository_and_the_instructions_of_its_directory() {
    let world = World::start(ECHO).await;
    let tree = world.folder.path().join("tree");
    std::fs::create_dir_all(tree.join(".git")).unwrap();
    std::fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let mut client = world.client().await;
    let started = client.ok("thread/start", json!({"cwd": tree})).await;
    let sources = json!([tree.join("AGENTS.md")]);
    assert_eq!(started["instructionSources"], sources);
    let info = json!({"branch": "main", "originUrl": null, "sha": null});
    assert_eq!(started["thread"]["gitInfo"], info);
    // As it was when the thread was started.
    std::fs::write(tree.join(".git/HEAD"), "ref: refs/heads/other\n").unwrap();
    let named = json!({"threadId": started["thread"]["id"]});
    let read = client.ok("thread/read", named.clone()).await;
    assert_eq!(read["thread"]["gitInfo"], info);
    let resumed = client.ok("thread/resume", named).await;
    assert_eq!(resumed["instructionSources"], sources);
}

#[tokio::test]
async fn a_name_is_stored_and_told_to_all() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let mut other = world.client().await;
    let thread = client.thread().await;
    let name = json!({"threadId": thread, "name": " a name "});
    let from = client.0.received().len();
    assert_eq!(client.ok("thread/name/set", name).await, json!({}));
    let told = other.told("thread/name/updated", json!({})).await;
    assert_eq!(told["params"]["threadName"], "a name");
    client.told("thread/name/updated", json!({})).await;
    let words = client.words(from);
    let place = |word: &str| words.iter().position(|found| found == word);
    assert!(place("answer") < place("thread/name/updated"), "{words:?}");
    let read = client.ok("thread/read", json!({"threadId": thread})).await;
    assert_eq!(read["thread"]["name"], "a name");
    let empty = json!({"threadId": thread, "name": "  "});
    let error = client.err("thread/name/set", empty).await;
    assert_eq!(error["message"], "thread name must not be empty");
}

#[tokio::test]
async fn a_thread_is_put_away_taken_back_and_removed() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let mut other = world.client().await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "hello").await;
    client.ended(&id).await;
    let named = json!({"threadId": thread});

    assert_eq!(client.ok("thread/archive", named.clone()).await, json!({}));
    for client in [&mut client, &mut other] {
        client
            .told("thread/archived", json!({"threadId": thread}))
            .await;
    }
    let again = client.err("thread/archive", named.clone()).await;
    assert_eq!(
        again["message"],
        format!("no rollout found for thread id {thread}")
    );
    let error = client
        .err("turn/start", crate::support::turn(&thread, "x"))
        .await;
    assert_eq!(error["data"]["reason"], "archived");
    let error = client.err("thread/resume", named.clone()).await;
    assert_eq!(
        error["message"],
        format!(
            "session {thread} is archived. Run `turnlane unarchive {thread}` to unarchive it first."
        )
    );
    let listed = client.ok("thread/list", json!({"archived": true})).await;
    assert_eq!(listed["data"][0]["id"], thread.as_str());
    let read = client.ok("thread/read", named.clone()).await;
    assert_eq!(read["thread"]["preview"], "hello");

    let back = client.ok("thread/unarchive", named.clone()).await;
    assert_eq!(back["thread"]["id"], thread.as_str());
    other
        .told("thread/unarchived", json!({"threadId": thread}))
        .await;
    let again = client.err("thread/unarchive", named.clone()).await;
    assert_eq!(
        again["message"],
        format!("no archived rollout found for thread id {thread}")
    );

    assert_eq!(client.ok("thread/delete", named.clone()).await, json!({}));
    other
        .told("thread/deleted", json!({"threadId": thread}))
        .await;
    client
        .told("thread/deleted", json!({"threadId": thread}))
        .await;
    let gone = client.err("thread/read", named.clone()).await;
    assert_eq!(gone["message"], format!("thread not loaded: {thread}"));
    client.settle().await;
    for method in ["thread/archived", "thread/unarchived", "thread/deleted"] {
        assert_eq!(all(&client, method).len(), 1, "{method} is told once");
    }
}

#[tokio::test]
async fn a_fork_has_its_own_history_and_knows_where_it_came_from() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let first = client.turn(&thread, "one").await;
    client.ended(&first).await;
    let second = client.turn(&thread, "two").await;
    client.ended(&second).await;
    let params = json!({"threadId": thread, "lastTurnId": first});
    let fork = client.ok("thread/fork", params).await;
    let copy = fork["thread"]["id"].as_str().unwrap().to_owned();
    assert_eq!(fork["thread"]["forkedFromId"], thread.as_str());
    assert_eq!(fork["thread"]["sessionId"], thread.as_str());
    assert_eq!(fork["thread"]["parentThreadId"], Value::Null);
    assert_eq!(fork["thread"]["turns"].as_array().unwrap().len(), 1);
    let before = json!({"threadId": thread, "beforeTurnId": first, "excludeTurns": true});
    let empty = client.ok("thread/fork", before).await;
    assert_eq!(empty["thread"]["turns"], json!([]));
    let both = json!({"threadId": thread, "lastTurnId": first, "beforeTurnId": second});
    let error = client.err("thread/fork", both).await;
    assert_eq!(
        error["message"],
        "`beforeTurnId` cannot be combined with `lastTurnId`"
    );
    client
        .ok("thread/delete", json!({"threadId": thread}))
        .await;
    let read = json!({"threadId": copy, "includeTurns": true});
    let read = client.ok("thread/read", read).await;
    let items = &read["thread"]["turns"][0]["items"];
    assert_eq!(items[0]["content"][0]["text"], "one");
    assert_eq!(items[1]["text"], "You said: one");
}

#[tokio::test]
async fn a_revert_and_a_rollback_take_turns_out_of_the_history() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let mut turns = Vec::new();
    for text in ["one", "two", "three", "four"] {
        let id = client.turn(&thread, text).await;
        client.ended(&id).await;
        turns.push(id);
    }
    let params = json!({"threadId": thread, "beforeTurnId": turns[3]});
    let answer = client.ok("thread/revert", params).await;
    let cursor = answer["turnsBackwardsCursor"].clone();
    client
        .told("thread/reverted", json!({"threadId": thread}))
        .await;
    let page = json!({"threadId": thread, "cursor": cursor, "sortDirection": "desc"});
    let page = client.ok("thread/turns/list", page).await;
    let ids: Vec<_> = page["data"].as_array().unwrap().iter().collect();
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[0]["id"], turns[2].as_str());
    let error = client
        .err(
            "thread/rollback",
            json!({"threadId": thread, "numTurns": 0}),
        )
        .await;
    assert_eq!(error["message"], "numTurns must be at least 1");
    let params = json!({"threadId": thread, "numTurns": 2});
    let answer = client.ok("thread/rollback", params).await;
    assert_eq!(answer["thread"]["turns"].as_array().unwrap().len(), 1);
    let read = json!({"threadId": thread, "includeTurns": true});
    let read = client.ok("thread/read", read).await;
    assert_eq!(read["thread"]["turns"], answer["thread"]["turns"]);
    let id = client.turn(&thread, "again").await;
    assert_eq!(client.ended(&id).await["status"], "completed");
}

#[tokio::test]
async fn turns_and_items_come_in_pages_both_ways() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let empty = client
        .ok("thread/turns/list", json!({"threadId": thread}))
        .await;
    assert_eq!(
        empty,
        json!({"data": [], "nextCursor": null, "backwardsCursor": null})
    );
    let mut turns = Vec::new();
    for n in 0..7 {
        let id = client.turn(&thread, &format!("n{n}")).await;
        client.ended(&id).await;
        turns.push(id);
    }
    let ids = |page: &Value| -> Vec<String> {
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    let last_page = loop {
        let params = json!({"threadId": thread, "limit": 3, "cursor": cursor});
        let page = client.ok("thread/turns/list", params).await;
        seen.extend(ids(&page));
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break page;
        }
    };
    let newest_first: Vec<_> = turns.iter().rev().cloned().collect();
    assert_eq!(seen, newest_first);
    let back = json!({"threadId": thread, "sortDirection": "asc", "limit": 3,
        "cursor": last_page["backwardsCursor"], "itemsView": "full"});
    let back = client.ok("thread/turns/list", back).await;
    assert_eq!(ids(&back)[0], ids(&last_page)[0], "the anchor comes again");
    assert_eq!(back["data"][0]["items"].as_array().unwrap().len(), 2);
    assert_eq!(back["data"][0]["itemsView"], "full");

    let items = json!({"threadId": thread, "turnId": turns[2]});
    let items = client.ok("thread/items/list", items).await;
    let rows = items["data"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["turnId"], turns[2].as_str());
    assert_eq!(rows[0]["item"]["type"], "userMessage");
    let anchor = json!({"threadId": thread, "limit": 1,
        "cursor": {"type": "item", "itemId": rows[1]["item"]["id"]}});
    let next = client.ok("thread/items/list", anchor).await;
    assert_eq!(next["data"][0]["turnId"], turns[3].as_str());
    let wrong = json!({"threadId": thread, "cursor": last_page["backwardsCursor"]});
    let error = client.err("thread/items/list", wrong).await;
    assert_eq!(error["data"]["reason"], "invalidCursor");
}

#[tokio::test]
async fn following_ends_when_it_is_ended() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let mut other = world.client().await;
    let thread = client.thread().await;
    let named = json!({"threadId": thread});
    let status = |answer: Value| answer["status"].as_str().unwrap().to_owned();
    let first = other.ok("thread/unsubscribe", named.clone()).await;
    assert_eq!(status(first), "notSubscribed");
    let ended = client.ok("thread/unsubscribe", named.clone()).await;
    assert_eq!(status(ended), "unsubscribed");
    let unknown = json!({"threadId": "0198c0de-0000-7000-8000-000000000002"});
    let unknown = client.ok("thread/unsubscribe", unknown).await;
    assert_eq!(status(unknown), "notLoaded");
    let loaded = client.ok("thread/loaded/list", json!({})).await;
    assert_eq!(loaded["data"], json!([thread]));
    let id = other.turn(&thread, "hello").await;
    other.ended(&id).await;
    client.settle().await;
    assert!(all(&client, "turn/started").is_empty());
    let status = all(&client, "thread/status/changed").len();
    assert_eq!(status, 2, "everybody is told active and idle");
}

#[tokio::test]
async fn an_ephemeral_thread_works_and_is_never_listed() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let params = json!({"ephemeral": true});
    let answer = client.ok("thread/start", params).await;
    assert_eq!(answer["thread"]["ephemeral"], true);
    let thread = answer["thread"]["id"].as_str().unwrap().to_owned();
    let mut params = crate::support::turn(&thread, "title?");
    params["outputSchema"] = json!({"type": "object"});
    let started = client.ok("turn/start", params).await;
    let id = started["turn"]["id"].as_str().unwrap().to_owned();
    assert_eq!(client.ended(&id).await["status"], "completed");
    let read = json!({"threadId": thread, "includeTurns": true});
    let read = client.ok("thread/read", read).await;
    assert_eq!(read["thread"]["turns"][0]["id"], id.as_str());
    let listed = client.ok("thread/list", json!({})).await;
    assert_eq!(listed["data"], json!([]));
}

#[tokio::test]
async fn after_a_restart_threads_are_there_and_go_on() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "before").await;
    client.ended(&id).await;
    let world = world.restart(ECHO).await;
    let ending = client.0.ending().await.unwrap();
    assert_eq!(ending, turnlane_testkit::Ending::Cut);
    let mut client = world.client().await;
    let named = json!({"threadId": thread});
    let read = client.ok("thread/read", named.clone()).await;
    assert_eq!(read["thread"]["status"]["type"], "notLoaded");
    let resumed = client.ok("thread/resume", named).await;
    assert_eq!(resumed["thread"]["status"]["type"], "idle");
    assert_eq!(resumed["thread"]["turns"][0]["id"], id.as_str());
    let id = client.turn(&thread, "after").await;
    assert_eq!(client.ended(&id).await["status"], "completed");
}

#[tokio::test]
async fn a_list_says_how_the_last_turn_stands_to_clients_that_know_our_fields() {
    let world = World::start(ECHO).await;
    let mut client = world.knowing_client().await;
    let new = client.thread().await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "hello").await;
    client.ended(&id).await;
    let listed = client.ok("thread/list", json!({})).await;
    let of = |id: &str| {
        let data = listed["data"].as_array().unwrap();
        data.iter().find(|one| one["id"] == id).cloned()
    };
    let last = of(&thread).unwrap()["lastTurn"].clone();
    assert_eq!(last["id"], id.as_str());
    assert_eq!(last["status"], "completed");
    assert!(last["completedAtMs"].is_i64(), "{last}");
    // Others are not told, and pay nothing for it.
    let mut other = world.client().await;
    let plain = other.ok("thread/list", json!({})).await;
    assert!(!plain.to_string().contains("lastTurn"), "{plain}");
    // A thread without a turn has none.
    if let Some(new) = of(&new) {
        assert!(new.get("lastTurn").is_none(), "{new}");
    }
}
