//! Interrupts at any point: always answered, everything completed, never two turns at once.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{World, turn};

const ROUNDS: usize = 200;

const LONG: &str = "version: 1
turns:
  - steps:
      - reasoning: {text: \"one two three four five\", chunk: 2}
      - say: {text: \"a b c d e f g h i j k l m n o p q r s t u v w x y z\", chunk: 1}
      - exec: {cmd: ls, output: \"a\\nb\\n\"}
      - approve: {cmd: touch x, accepted: [{say: yes}], declined: [{say: no}]}
";

/// What was started and what was completed among these messages.
fn items(messages: &[Value]) -> (HashSet<String>, HashSet<String>) {
    let of = |method: &str| -> HashSet<String> {
        messages
            .iter()
            .filter(|message| message["method"] == method)
            .map(|message| message["params"]["item"]["id"].as_str().unwrap().to_owned())
            .collect()
    };
    (of("item/started"), of("item/completed"))
}

#[tokio::test]
async fn an_interrupt_at_any_point_is_answered_and_leaves_nothing_open() {
    let world = World::start(LONG).await;
    let mut client = world.client().await;
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        let thread = client.thread().await;
        let from = client.0.received().len();
        let id = client.turn(&thread, "go").await;
        let goal = from + round % 60;
        while client.0.received().len() < goal {
            let last = client.0.next().await.unwrap();
            if last["method"] == "item/commandExecution/requestApproval" {
                break;
            }
        }
        let stop = json!({"threadId": thread, "turnId": id});
        // Two of them, and a new turn right behind, in one breath.
        let first = client
            .0
            .request("turn/interrupt", stop.clone())
            .await
            .unwrap();
        let second = client.0.request("turn/interrupt", stop).await.unwrap();
        let next = client
            .0
            .request("turn/start", turn(&thread, "next"))
            .await
            .unwrap();
        for request in [first, second] {
            let answer = client.0.answer(request).await.unwrap();
            assert_eq!(answer["result"], json!({}), "{answer}");
        }
        let ended = client.ended(&id).await;
        assert_eq!(ended["status"], "interrupted");
        interrupted += 1;
        let next = client.0.answer(next).await.unwrap();
        let next = next["result"]["turn"]["id"].as_str().unwrap().to_owned();
        assert_ne!(next, id, "never a steer of what was stopped");

        let messages = client.0.received()[from..].to_vec();
        let end = messages.iter().position(|message| {
            message["method"] == "turn/completed" && message["params"]["turn"]["id"] == id.as_str()
        });
        let (started, completed) = items(&messages[..end.unwrap()]);
        assert_eq!(started, completed, "round {round}");
        let begins = messages.iter().position(|message| {
            message["method"] == "turn/started" && message["params"]["turn"]["id"] == next.as_str()
        });
        assert!(begins.is_none_or(|begins| begins > end.unwrap()));
        let stored = json!({"threadId": thread, "turnId": id, "limit": 100});
        let stored = client.ok("thread/items/list", stored).await;
        let stored: HashSet<String> = stored["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["item"]["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(stored, completed, "history equals the wire");
        let stop = json!({"threadId": thread, "turnId": ""});
        client.ok("turn/interrupt", stop.clone()).await;
        client.ended(&next).await;
        assert_eq!(client.ok("turn/interrupt", stop).await, json!({}), "idle");
    }
    assert_eq!(interrupted, ROUNDS);
}
