//! A subscriber that stops reading: nobody waits for it, and it gets what is kept when it wakes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{Client, World, say, size};

const MIB: usize = 1024 * 1024;

/// A message, and how often it is said: this many MiB in all.
fn script(mib: usize) -> String {
    let text = "x".repeat(MIB / 2);
    let says = format!("      - say: {{text: \"{text}\", chunk: 16384}}\n").repeat(2 * mib);
    format!("version: 1\nturns:\n  - steps:\n{says}")
}

fn completed(client: &Client) -> usize {
    let all = client.0.received().iter();
    let all = all.filter(|message| message["method"] == "item/completed");
    all.count()
}

/// How long a turn takes for somebody who follows it.
async fn run(reader: &mut Client, thread: &str) -> (String, Duration) {
    let from = Instant::now();
    let id = reader.turn(thread, "go").await;
    reader.ended(&id).await;
    (id, from.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_as_fast_with_a_sleeping_subscriber_as_without() {
    let mib = size(12, 50);
    let world = World::start(&script(mib)).await;
    let path = world.listen().await;
    let mut reader = world.client().await;
    let mut sleeper = World::unix_client(&path).await;
    let items = 2 * mib + 1;

    let thread = reader.thread().await;
    let (_, mut alone) = run(&mut reader, &thread).await;
    let thread = reader.thread().await;
    let named = json!({"threadId": thread});
    sleeper.ok("thread/resume", named).await;
    let before = completed(&reader);
    let (id, mut beside) = run(&mut reader, &thread).await;
    assert_eq!(
        completed(&reader) - before,
        items,
        "a reader misses nothing"
    );

    // It wakes, and everything that is kept is there.
    sleeper.ended(&id).await;
    assert_eq!(completed(&sleeper), items);
    let text = "x".repeat(MIB / 2);
    let whole = sleeper.0.received().iter().filter(|message| {
        let item = &message["params"]["item"];
        message["method"] == "item/completed" && item["text"] == text.as_str()
    });
    assert_eq!(whole.count(), 2 * mib, "each with its whole text");

    // The better of two, since the machine has other work as well.
    let thread = reader.thread().await;
    alone = alone.min(run(&mut reader, &thread).await.1);
    let thread = reader.thread().await;
    let mut other = World::unix_client(&path).await;
    other.ok("thread/resume", json!({"threadId": thread})).await;
    beside = beside.min(run(&mut reader, &thread).await.1);
    let ratio = beside.as_secs_f64() / alone.as_secs_f64();
    say(&format!(
        "{mib} MiB: {alone:?} alone, {beside:?} beside a sleeper, ratio {ratio:.2}"
    ));
    assert!(ratio < 2.0, "the turn was slowed: {ratio:.2}");
}

/// Deltas of one open item beyond what may wait: they are left out, and it is said.
const LOUD: &str = "version: 1
turns:
  - steps:
      - exec: {cmd: yes, output: \"LINES\"}
      - say: done
";

/// How much output of commands was told as it grew.
fn grown(client: &Client) -> usize {
    let all = client.0.received().iter();
    let deltas = all.filter(|message| message["method"] == "item/commandExecution/outputDelta");
    let lengths = deltas.map(|message| message["params"]["delta"].as_str().unwrap().len());
    lengths.sum()
}

/// What was told to be missing.
fn lags(client: &Client) -> Vec<Value> {
    let all = client.0.received().iter();
    let all = all.filter(|message| message["method"] == "connection/lagged");
    all.cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_misses_what_may_wait() {
    // Below the bound of what waits for one connection, with room for what surrounds the text.
    let lines = "0123456789abcdef".repeat(4 * MIB / 16);
    let world = World::start(&LOUD.replace("LINES", &lines)).await;
    let path = world.listen().await;
    let mut reader = world.knowing_client().await;
    let thread = reader.thread().await;
    let mut sleeper = World::unix_client(&path).await;
    let named = json!({"threadId": thread});
    sleeper.ok("thread/resume", named).await;
    let id = reader.turn(&thread, "go").await;
    for client in [&mut reader, &mut sleeper] {
        client.ended(&id).await;
        assert!(lags(client).is_empty(), "misses nothing");
        assert_eq!(grown(client), lines.len(), "and has it all");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asked_is_told_what_it_missed_and_others_are_not() {
    let lines = "0123456789abcdef".repeat(12 * MIB / 16);
    let world = World::start(&LOUD.replace("LINES", &lines)).await;
    let path = world.listen().await;
    let mut reader = world.knowing_client().await;
    let thread = reader.thread().await;
    let connect = async |capabilities: Value| {
        let options = turnlane_rpc::connect::Options::default();
        let duplex = turnlane_rpc::connect::connect_unix(&path, &options).await;
        let mut client = Client(turnlane_testkit::TestClient::new(duplex.unwrap()));
        let hello = json!({"clientInfo": {"name": "s", "version": "1"},
            "capabilities": capabilities});
        client.ok("initialize", hello).await;
        client
            .ok("thread/resume", json!({"threadId": thread}))
            .await;
        client
    };
    let mut knowing = connect(json!({"turnlane": {"version": 1}})).await;
    let mut plain = connect(json!({"experimentalApi": true})).await;
    let quiet = json!({"turnlane": {"version": 1},
        "optOutNotificationMethods": ["connection/lagged"]});
    let mut quiet = connect(quiet).await;
    let id = reader.turn(&thread, "go").await;
    reader.ended(&id).await;
    // Whether one that reads keeps up with this much is the machine's business. It is told of what it
    // missed, and of nothing else.
    let has_all = grown(&reader) == lines.len();
    assert_eq!(has_all, lags(&reader).is_empty(), "told what it missed");
    for client in [&mut knowing, &mut plain, &mut quiet] {
        client.ended(&id).await;
        assert_eq!(completed(client), completed(&reader));
    }
    let told = lags(&knowing);
    assert!(!told.is_empty(), "it was told");
    for lag in &told {
        assert_eq!(lag["params"]["threadId"], thread.as_str());
        assert!(lag["params"]["missed"].as_u64().unwrap() > 0, "{lag}");
        assert!(lag.get("seq").is_none(), "{lag}");
    }
    assert!(lags(&plain).is_empty());
    assert!(lags(&quiet).is_empty());
}
