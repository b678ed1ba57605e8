//! Joining in the middle: picture and live notices meet exactly.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::support::{Client, Dice, World};

/// How often a client joins at some point of a streaming turn.
const ROUNDS: usize = 200;

/// A text that takes many deltas; its length is the script's.
const STREAM: &str = "version: 1
turns:
  - steps:
      - reasoning: {text: \"one two three four five six seven eight nine ten\", chunk: 3}
      - say: {text: \"alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega\", chunk: 2}
      - exec: {cmd: ls, output: \"a\\nb\\nc\\n\"}
      - say: {text: \"the end of it all, at long last, word by word by word\", chunk: 2}
";

/// Follows the text of items as a client does; a delta of an unknown item is a mistake.
#[derive(Default)]
struct Texts(HashMap<String, String>);

impl Texts {
    fn take(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("item/started") => {
                let id = params["item"]["id"].as_str().unwrap().to_owned();
                self.0.insert(id, text_of(&params["item"]));
            }
            Some(
                "item/agentMessage/delta"
                | "item/commandExecution/outputDelta"
                | "item/reasoning/summaryTextDelta"
                | "item/reasoning/textDelta",
            ) => {
                let id = params["itemId"].as_str().unwrap();
                let text = self.0.get_mut(id);
                let text = text.unwrap_or_else(|| panic!("a delta of unknown item {id}"));
                text.push_str(params["delta"].as_str().unwrap());
            }
            Some("item/completed") => {
                let id = params["item"]["id"].as_str().unwrap();
                if let Some(text) = self.0.remove(id) {
                    assert_eq!(text, text_of(&params["item"]), "{message}");
                }
            }
            _ => {}
        }
    }
}

fn text_of(item: &Value) -> String {
    let parts = |value: &Value| -> String {
        let parts = value.as_array().into_iter().flatten();
        parts.filter_map(Value::as_str).collect()
    };
    match item["type"].as_str() {
        Some("agentMessage") => item["text"].as_str().unwrap().to_owned(),
        Some("commandExecution") => item["aggregatedOutput"].as_str().unwrap_or("").to_owned(),
        Some("reasoning") => parts(&item["summary"]) + &parts(&item["content"]),
        _ => String::new(),
    }
}

/// Reads messages until the turn has ended, following the texts.
async fn follow(client: &mut Client, turn: &str, mut texts: Texts) {
    let mut at = 0;
    loop {
        while at < client.0.received().len() {
            let message = client.0.received()[at].clone();
            at += 1;
            texts.take(&message);
            let params = &message["params"];
            if message["method"] == "turn/completed" && params["turn"]["id"] == turn {
                assert!(texts.0.is_empty(), "every open item was completed");
                return;
            }
        }
        client.0.next().await.unwrap();
    }
}

#[tokio::test]
async fn whoever_resumes_at_any_point_has_every_text_whole() {
    let world = World::start(STREAM).await;
    let mut author = world.client().await;
    let mut dice = Dice::new(9);
    let mut in_the_middle = 0;
    for round in 0..ROUNDS {
        let thread = author.thread().await;
        let turn = author.turn(&thread, "go").await;
        // Every second round by chance, the others one point after the other, so that all are met.
        let point = match round % 2 {
            0 => usize::try_from(dice.below(120)).unwrap(),
            _ => round % 120,
        };
        let goal = author.0.received().len() + point;
        while author.0.received().len() < goal {
            let last = author.0.next().await.unwrap();
            if last["method"] == "turn/completed" {
                break;
            }
        }
        let mut late = world.client().await;
        let answer = late.ok("thread/resume", json!({"threadId": thread})).await;
        let turns = answer["thread"]["turns"].as_array().unwrap();
        let shown = turns.iter().find(|shown| shown["id"] == turn.as_str());
        match shown.map(|turn| turn["status"].as_str().unwrap()) {
            Some("inProgress") => {
                in_the_middle += 1;
                follow(&mut late, &turn, Texts::default()).await;
                let answer_at = late.words(0).iter().rposition(|word| word == "answer");
                let started_at = late.words(0).iter().position(|word| word == "turn/started");
                assert!(answer_at < started_at, "answer, then picture");
            }
            Some(status) => assert_eq!(status, "completed"),
            None => follow(&mut late, &turn, Texts::default()).await,
        }
        author.ended(&turn).await;
    }
    assert!(
        in_the_middle > 20,
        "only {in_the_middle} joined in the middle"
    );
}

#[tokio::test]
async fn the_picture_carries_the_number_of_its_cut_and_live_notices_the_next() {
    let script = "version: 1
turns:
  - steps:
      - say: {text: \"before\", chunk: 2}
      - await: {gate: go}
      - say: after
";
    let world = World::start(script).await;
    let mut author = world.client().await;
    let thread = author.thread().await;
    let turn = author.turn(&thread, "x").await;
    author
        .told("item/completed", json!({"item": {"type": "agentMessage"}}))
        .await;
    let mut late = world.client().await;
    let answer = late.ok("thread/resume", json!({"threadId": thread})).await;
    let cut = answer["events"]["seq"].as_u64().unwrap();
    assert!(answer["events"]["epoch"].is_string());
    assert_eq!(answer["thread"]["status"]["type"], "active");
    let running = &answer["thread"]["turns"][0];
    assert_eq!(running["status"], "inProgress");
    assert_eq!(running["items"][1]["text"], "before");
    let started = late.told("turn/started", json!({})).await;
    assert_eq!(started["seq"], cut);
    world.gates.open("go");
    late.ended(&turn).await;
    let live: Vec<u64> = late
        .0
        .received()
        .iter()
        .filter_map(|message| message["seq"].as_u64())
        .filter(|seq| *seq > cut)
        .collect();
    assert_eq!(live[0], cut + 1);
    assert!(
        live.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{live:?}"
    );

    // What was missed since then is replayed exactly, where it is still there.
    let mut back = world.client().await;
    let params = json!({"threadId": thread, "sinceSeq": cut, "epoch": answer["events"]["epoch"]});
    let again = back.ok("thread/resume", params).await;
    assert_eq!(again["events"]["replay"], Value::Null);
    back.ended(&turn).await;
    let replayed: Vec<u64> = back
        .0
        .received()
        .iter()
        .filter_map(|message| message["seq"].as_u64())
        .collect();
    assert_eq!(replayed, live);
    let params = json!({"threadId": thread, "sinceSeq": cut, "epoch": "another"});
    let mut lost = world.client().await;
    let answer = lost.ok("thread/resume", params).await;
    assert_eq!(answer["events"]["replay"], "snapshot");
}
