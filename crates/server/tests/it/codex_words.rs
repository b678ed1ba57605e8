//! Names and words that Codex 0.166 knows: nobody sees others without asking for them.
//!
//! `codex_words.json` is the list: the names of all notifications and server requests, and by method
//! (or by the method answered) the words that stand at a path, `*` for any member of a list. It was
//! made from the schema that Codex 0.166 writes (`app-server generate-json-schema --experimental`).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{Client, World};

/// Everything a script can make happen, with an approval of each kind.
const RICH: &str = "version: 1
turns:
  - match: fail
    steps:
      - error: {info: usageLimitExceeded, message: used up}
  - match: rich
    steps:
      - reasoning: think
      - plan: [{step: look, status: completed}, {step: act, status: in_progress}]
      - say: {text: first, phase: commentary}
      - error: {info: responseStreamDisconnected, message: again, will_retry: true}
      - exec: {cmd: ls, output: \"a\\n\"}
      - exec: {cmd: grep x, exit: 1}
      - patch: {input: \"*** Begin Patch\\n*** Add File: a.txt\\n+a\\n*** End Patch\"}
      - usage: {input: 10, cached: 2, output: 3, reasoning: 1}
      - approve: {cmd: touch x, accepted: [{say: did it}], declined: [{say: left it}]}
      - approve: {input: \"*** Begin Patch\\n*** Add File: b.txt\\n+b\\n*** End Patch\", accepted: [{say: yes}], declined: [{say: no}]}
      - await: {gate: go}
      - say: {text: last, phase: final_answer}
fallback: {say: \"You said: {input}\"}
";

/// Lives through all that a thread can: a rich turn with a steer, a failure, a row that waits, a
/// name, a revert, settings, the archive and back, and its end.
async fn live_it_all(world: &World, client: &mut Client, thread: &str) {
    let named = json!({"threadId": thread});
    let turn = client.turn(thread, "rich").await;
    let mut later = crate::support::turn(thread, "later");
    later["whenBusy"] = json!("queue");
    let later = client.ok("turn/start", later).await["turn"]["id"].clone();
    for (method, decision) in [
        ("item/commandExecution/requestApproval", "decline"),
        ("item/fileChange/requestApproval", "accept"),
    ] {
        let asked = client.0.message(method).await.unwrap();
        let answer = json!({"id": asked["id"], "result": {"decision": decision}});
        client.0.send(&answer).await.unwrap();
    }
    let input = json!([{"type": "text", "text": "go on"}]);
    let steer = json!({"threadId": thread, "expectedTurnId": turn, "input": input});
    client.ok("turn/steer", steer).await;
    world.gates.open("go");
    assert_eq!(client.ended(&turn).await["status"], "completed");
    client.ended(later.as_str().unwrap()).await;
    let mut failing = crate::support::turn(thread, "fail");
    failing["model"] = json!("another-model");
    let failing = client.ok("turn/start", failing).await["turn"]["id"].clone();
    let failed = client.ended(failing.as_str().unwrap()).await;
    assert_eq!(failed["status"], "failed");
    let name = json!({"threadId": thread, "name": "named"});
    client.ok("thread/name/set", name).await;
    let revert = json!({"threadId": thread, "beforeTurnId": failing});
    client.ok("thread/revert", revert).await;
    client.ok("thread/compact/start", named.clone()).await;
    let compacted = json!({"item": {"type": "contextCompaction"}});
    client.told("item/completed", compacted).await;
    for method in ["thread/archive", "thread/unarchive"] {
        client.ok(method, named.clone()).await;
    }
    client.ok("thread/resume", named.clone()).await;
    client.ok("thread/delete", named).await;
    client.told("thread/deleted", json!({})).await;
}

/// The words at a path that are not among those known.
fn strangers<'a>(value: &'a Value, path: &[&str], known: &[Value], found: &mut Vec<&'a Value>) {
    let Some((first, rest)) = path.split_first() else {
        if value.is_string() && !known.contains(value) {
            found.push(value);
        }
        return;
    };
    match (value, *first) {
        (Value::Array(members), "*") => {
            for member in members {
                strangers(member, rest, known, found);
            }
        }
        (Value::Object(members), name) => {
            if let Some(member) = members.get(name) {
                strangers(member, rest, known, found);
            }
        }
        _ => {}
    }
}

/// Asserts that a message has only words that are known at their places.
fn check(words: &Value, what: &str, value: &Value) {
    let Some(places) = words[what].as_object() else {
        return;
    };
    for (place, known) in places {
        let path: Vec<&str> = place.split('/').filter(|part| !part.is_empty()).collect();
        let mut found = Vec::new();
        strangers(value, &path, known.as_array().unwrap(), &mut found);
        assert!(
            found.is_empty(),
            "{what}: {place} says {found:?} in {value}"
        );
    }
}

#[tokio::test]
async fn without_asking_nobody_sees_a_name_or_word_that_codex_does_not_know() {
    let list: Value = serde_json::from_str(include_str!("codex_words.json")).unwrap();
    let names = |kind: &str| list[kind].as_array().unwrap().clone();
    let known: HashSet<String> = [names("notifications"), names("requests")]
        .concat()
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    let world = World::start(RICH).await;
    let mut knowing = world.knowing_client().await;
    let mut client = world.client().await;
    let mut plain = world.client_with(json!({})).await;
    let started = client.ok("thread/start", json!({})).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    check(&list["answers"], "thread/start", &started);
    plain.ok("thread/resume", json!({"threadId": thread})).await;
    live_it_all(&world, &mut client, &thread).await;
    client.settle().await;
    plain.told("thread/deleted", json!({})).await;
    knowing.told("thread/deleted", json!({})).await;

    for message in client.0.received().iter().chain(plain.0.received()) {
        if let Some(method) = message["method"].as_str() {
            assert!(known.contains(method), "{message}");
            check(&list["words"], method, &message["params"]);
        }
    }
    let gated = [
        "thread/queue/changed",
        "thread/settings/updated",
        "thread/reverted",
    ];
    let all = client.words(0);
    for method in gated {
        assert!(all.iter().any(|word| word == method), "{method} was told");
        let seen = plain.words(0).iter().any(|word| word == method);
        assert!(!seen, "{method} needs experimentalApi");
    }
    let ours = knowing.words(0);
    let ours = ours.iter().filter(|word| *word == "approval/changed");
    assert_eq!(ours.count(), 4, "two asked, two decided");
}

#[tokio::test]
async fn answers_have_only_words_that_codex_knows() {
    let list: Value = serde_json::from_str(include_str!("codex_words.json")).unwrap();
    let world = World::start(RICH).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    for text in ["fail", "hello"] {
        let params = crate::support::turn(&thread, text);
        let answer = client.ok("turn/start", params).await;
        check(&list["answers"], "turn/start", &answer);
        client.ended(answer["turn"]["id"].as_str().unwrap()).await;
    }
    let named = json!({"threadId": thread, "includeTurns": true, "itemsView": "full"});
    for method in [
        "thread/read",
        "thread/list",
        "thread/turns/list",
        "thread/items/list",
        "thread/resume",
    ] {
        let answer = client.ok(method, named.clone()).await;
        assert!(list["answers"][method].is_object(), "{method} is listed");
        check(&list["answers"], method, &answer);
    }
}

/// Each of these clients leaves out one notification, and everything else comes.
#[tokio::test]
async fn any_notification_can_be_left_out_and_no_other_goes_with_it() {
    let world = World::start(RICH).await;
    let mut author = world.knowing_client().await;
    let thread = author.thread().await;
    let capabilities = |silent: &[&str]| {
        json!({"experimentalApi": true, "turnlane": {"version": 1},
            "optOutNotificationMethods": silent})
    };
    let methods = [
        "error",
        "thread/status/changed",
        "thread/name/updated",
        "thread/settings/updated",
        "thread/tokenUsage/updated",
        "thread/queue/changed",
        "thread/archived",
        "thread/unarchived",
        "thread/deleted",
        "thread/closed",
        "thread/reverted",
        "turn/started",
        "turn/completed",
        "turn/plan/updated",
        "turn/diff/updated",
        "item/started",
        "item/completed",
        "item/agentMessage/delta",
        "item/reasoning/summaryTextDelta",
        "item/commandExecution/outputDelta",
        "serverRequest/resolved",
        "approval/changed",
        "item/commandExecution/requestApproval",
        "item/fileChange/requestApproval",
    ];
    let mut listeners = Vec::new();
    for method in methods {
        let mut client = world.client_with(capabilities(&[method])).await;
        let named = json!({"threadId": thread});
        client.ok("thread/resume", named).await;
        listeners.push((method, client));
    }
    let mut whole = world.client_with(capabilities(&[])).await;
    whole.ok("thread/resume", json!({"threadId": thread})).await;
    live_it_all(&world, &mut author, &thread).await;
    let end = json!({"id": 900, "method": "thread/loaded/list", "params": {}});
    let heard = async |client: &mut Client| -> Vec<String> {
        client.0.send(&end).await.unwrap();
        client.0.answer(900).await.unwrap();
        let words = client.words(0).into_iter();
        words.filter(|word| word != "answer").collect()
    };
    let all = heard(&mut whole).await;
    for (method, mut client) in listeners {
        let kept: Vec<String> = all.iter().filter(|word| *word != method).cloned().collect();
        if method != "thread/closed" {
            assert!(kept.len() < all.len(), "{method} never came to anybody");
        }
        assert_eq!(heard(&mut client).await, kept, "without {method}");
    }
}
