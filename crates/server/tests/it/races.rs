//! Steers, ends, interrupts and starts that meet: each has one clear result, and never run two
//! turns of a thread at once.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{Client, Dice, World, turn};

/// How often something meets something else.
const ROUNDS: u64 = 200;

const SHORT: &str = "version: 1
turns:
  - steps:
      - say: {text: \"a b c d e f g h i j k l m n o p\", chunk: 2}
      - exec: {cmd: ls, output: \"a\\n\"}
      - say: done
";

/// Asserts that a turn of a thread never began before the one before had ended, and that every one
/// that began has ended.
fn one_at_a_time(messages: &[Value], thread: &str) {
    let mut running = None;
    for message in messages {
        let params = &message["params"];
        if params["threadId"] != thread {
            continue;
        }
        match message["method"].as_str() {
            Some("turn/started") => {
                let before = running.replace(params["turn"]["id"].clone());
                assert_eq!(before, None, "two turns at once: {message}");
            }
            Some("turn/completed") => {
                assert_eq!(running.take(), Some(params["turn"]["id"].clone()));
            }
            Some("item/started" | "item/completed") => {
                assert_eq!(running.as_ref(), Some(&params["turnId"]), "{message}");
            }
            _ => {}
        }
    }
    assert_eq!(running, None, "every turn has ended");
}

/// How long to dawdle so that both sides of a race are met, whatever else the machine does: longer
/// after each round that came too early, shorter after each that came too late.
struct Aim(u64);

impl Aim {
    fn early(&mut self) {
        self.0 = (self.0 + self.0 / 8 + 1).min(10_000);
    }

    fn late(&mut self) {
        self.0 = (self.0 - self.0 / 8).max(8);
    }
}

/// Lets the rest of the world go on for a while.
async fn dawdle(client: &mut Client, dice: &mut Dice, most: u64) {
    for _ in 0..dice.below(most) {
        tokio::task::yield_now().await;
    }
    for _ in 0..dice.below(most / 8) {
        let next = client.0.next().await.unwrap();
        if next["method"] == "turn/completed" {
            break;
        }
    }
}

fn texts(items: &Value) -> HashSet<String> {
    let entries = items["data"].as_array().unwrap().iter();
    let texts = entries.filter_map(|entry| entry["item"]["content"][0]["text"].as_str());
    texts.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_steer_at_the_end_of_a_turn_is_refused_or_kept() {
    let world = World::start(SHORT).await;
    let mut client = world.client().await;
    let mut dice = Dice::new(11);
    let mut aim = Aim(160);
    let (mut kept, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let thread = client.thread().await;
        let from = client.0.received().len();
        let id = client.turn(&thread, "go").await;
        dawdle(&mut client, &mut dice, aim.0).await;
        let text = format!("steer {round}");
        let input = json!([{"type": "text", "text": text}]);
        let steer = json!({"threadId": thread, "expectedTurnId": id, "input": input});
        let steer = client.0.request("turn/steer", steer).await.unwrap();
        let answer = client.0.answer(steer).await.unwrap();
        client.ended(&id).await;
        let items = json!({"threadId": thread, "turnId": id, "limit": 100});
        let items = client.ok("thread/items/list", items).await;
        let is_kept = texts(&items).contains(&text);
        if answer.get("result").is_some() {
            assert_eq!(answer["result"]["turnId"], id.as_str());
            assert!(is_kept, "round {round}: accepted and lost");
            let messages = &client.0.received()[from..];
            let shown = messages.iter().position(|message| {
                message["method"] == "item/completed"
                    && message["params"]["item"]["content"][0]["text"] == text.as_str()
            });
            let end = messages.iter().position(|message| {
                message["method"] == "turn/completed"
                    && message["params"]["turn"]["id"] == id.as_str()
            });
            assert!(
                shown.is_some() && shown < end,
                "round {round}: told too late"
            );
            kept += 1;
            aim.early();
        } else {
            assert_eq!(
                answer["error"]["data"]["reason"], "noActiveTurn",
                "{answer}"
            );
            assert!(!is_kept, "round {round}: refused and kept");
            refused += 1;
            aim.late();
        }
        one_at_a_time(&client.0.received()[from..], &thread);
    }
    crate::support::say(&format!("{kept} steers kept, {refused} refused"));
    assert!(kept > 10 && refused > 10, "both sides of the race are met");
}

#[tokio::test]
async fn a_start_that_meets_the_end_steers_the_old_turn_or_begins_a_new_one() {
    let world = World::start(SHORT).await;
    let mut client = world.client().await;
    let mut dice = Dice::new(12);
    let mut aim = Aim(160);
    let (mut steered, mut begun) = (0, 0);
    for round in 0..ROUNDS {
        let thread = client.thread().await;
        let from = client.0.received().len();
        let id = client.turn(&thread, "go").await;
        dawdle(&mut client, &mut dice, aim.0).await;
        let text = format!("more {round}");
        let second = client.turn(&thread, &text).await;
        client.ended(&id).await;
        client.ended(&second).await;
        if second == id {
            steered += 1;
            aim.early();
        } else {
            begun += 1;
            aim.late();
        }
        let items = json!({"threadId": thread, "turnId": second, "limit": 100});
        let items = client.ok("thread/items/list", items).await;
        assert!(texts(&items).contains(&text), "round {round}");
        one_at_a_time(&client.0.received()[from..], &thread);
    }
    crate::support::say(&format!("{steered} steered, {begun} began"));
    assert!(steered > 10 && begun > 10, "both sides of the race are met");
}

#[tokio::test]
async fn a_start_right_after_the_answer_to_an_interrupt_is_a_new_turn() {
    let world = World::start(SHORT).await;
    let mut client = world.client().await;
    let mut dice = Dice::new(13);
    let mut aim = Aim(120);
    let mut interrupted = 0;
    for round in 0..ROUNDS {
        let thread = client.thread().await;
        let from = client.0.received().len();
        let id = client.turn(&thread, "go").await;
        dawdle(&mut client, &mut dice, aim.0).await;
        let stop = json!({"threadId": thread, "turnId": id});
        let stop = client.0.call("turn/interrupt", stop).await.unwrap();
        // The very next thing it says.
        let next = client.turn(&thread, "next").await;
        assert_ne!(next, id, "round {round}: a stopped turn was steered");
        let ended = client.ended(&id).await;
        // Told to stop and done before it could: that is an answer to the interrupt as well.
        match stop.get("result") {
            Some(_) if ended["status"] == "interrupted" => {
                interrupted += 1;
                aim.early();
            }
            Some(_) => {
                assert_eq!(ended["status"], "completed", "round {round}");
                aim.late();
            }
            None => {
                aim.late();
                assert_eq!(stop["error"]["data"]["reason"], "noActiveTurn", "{stop}");
                assert_eq!(ended["status"], "completed", "round {round}");
            }
        }
        assert_eq!(client.ended(&next).await["status"], "completed");
        one_at_a_time(&client.0.received()[from..], &thread);
    }
    crate::support::say(&format!("{interrupted} of {ROUNDS} interrupted"));
    assert!(interrupted > 10);
}

#[tokio::test]
async fn steers_starts_and_interrupts_of_three_clients_at_once_never_make_two_turns() {
    let world = World::start(SHORT).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(world.client().await);
    }
    let mut dice = Dice::new(14);
    let thread = clients[0].thread().await;
    let named = json!({"threadId": thread});
    for client in &mut clients[1..] {
        client.ok("thread/resume", named.clone()).await;
    }
    let mut waiting = Vec::new();
    for round in 0..ROUNDS {
        let who = usize::try_from(dice.below(3)).unwrap();
        let any = json!({"threadId": thread, "turnId": ""});
        let (method, params) = match dice.below(4) {
            0 => ("turn/interrupt", any),
            1 => {
                let mut queued = turn(&thread, &format!("row {round}"));
                queued["whenBusy"] = json!("queue");
                ("turn/start", queued)
            }
            _ => ("turn/start", turn(&thread, &format!("start {round}"))),
        };
        let client = &mut clients[who];
        waiting.push((who, client.0.request(method, params).await.unwrap()));
        for _ in 0..dice.below(40) {
            tokio::task::yield_now().await;
        }
    }
    let mut turns = HashSet::new();
    for (who, request) in waiting {
        let answer = clients[who].0.answer(request).await.unwrap();
        assert!(answer.get("result").is_some(), "{answer}");
        if let Some(id) = answer["result"]["turn"]["id"].as_str() {
            turns.insert(id.to_owned());
        }
    }
    for client in &mut clients {
        for id in &turns {
            client.ended(id).await;
        }
        one_at_a_time(client.0.received(), &thread);
    }
}
