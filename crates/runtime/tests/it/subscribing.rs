//! Joining a thread: a picture at a cut, then every notice from there on, none twice.

use std::sync::Arc;
use std::time::Duration;

use turnlane_protocol::item::ItemBody;
use turnlane_runtime::{NoticeBody, Options, Replay, Since, StartHow, Subscriber};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Ear, Home, start};

const SCRIPT: &str = "version: 1
turns:
  - match: slow
    steps:
      - say: before
      - say: {text: \"one two three four\", chunk: 4, delta_ms: 10}
      - await: {gate: go}
      - say: after
fallback: {say: \"You said: {input}\"}
";

/// Writes a long message in small pieces.
const LONG: &str = "version: 1
turns:
  - steps:
      - say: {text: \"PLACE\", chunk: 2, delta_ms: 1}
";

#[tokio::test]
async fn whoever_joins_in_the_middle_of_a_message_gets_its_text_and_exactly_what_follows() {
    let home = Home::new();
    let text = "abcdefghijklmnopqrstuvwxyz".repeat(8);
    let world = home.start(&LONG.replace("PLACE", &text)).await;
    let thread = world.thread().await;
    let (_, first) = world.listen(thread).await;
    world.add(thread, "go").await;
    let mut joined = Vec::new();
    for _ in 0..8 {
        let length = first.said().len();
        eventually("more text", DEADLINE, async || {
            first.said().len() > length || first.words().iter().any(|word| word == "turn Completed")
        })
        .await
        .unwrap();
        let ear = Arc::new(Ear::default());
        let subscriber: Arc<dyn Subscriber> = Arc::clone(&ear) as _;
        let (_, snapshot) = world
            .handle
            .subscribe(thread, subscriber, None)
            .await
            .unwrap();
        joined.push((snapshot, ear));
    }
    first.hears("turn Completed", 1).await;
    let mut in_the_middle = 0;
    for (snapshot, ear) in joined {
        let first_seq = ear.notices().first().map(|notice| notice.seq);
        if let Some(first_seq) = first_seq {
            assert_eq!(first_seq, snapshot.seq + 1, "notices go on at the cut");
        }
        let Some(running) = snapshot.running else {
            continue;
        };
        let open = running.open.iter().find_map(|item| match &item.body {
            ItemBody::AgentMessage(message) => Some(message.text.clone()),
            _ => None,
        });
        if let Some(open) = open {
            in_the_middle += 1;
            assert_eq!(format!("{open}{}", ear.said()), text);
        }
    }
    assert!(in_the_middle > 0, "somebody joined in the middle");
}

#[tokio::test]
async fn a_picture_holds_ended_and_open_items_and_the_queue() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world
        .handle
        .start(thread, start("slow", StartHow::OrSteer))
        .await
        .unwrap();
    ear.hears("completed agentMessage", 2).await;
    world.add(thread, "waits").await;
    let late = Arc::new(Ear::default());
    let (_, snapshot) = world
        .handle
        .subscribe(thread, Arc::clone(&late) as _, None)
        .await
        .unwrap();
    let running = snapshot.running.as_ref().unwrap();
    let ended: Vec<_> = running
        .ended
        .iter()
        .map(|item| item.kind.as_str())
        .collect();
    assert_eq!(ended, ["userMessage", "agentMessage", "agentMessage"]);
    assert!(running.open.is_empty());
    assert_eq!(snapshot.queue.rows.len(), 1);
    assert_eq!(snapshot.replay, Replay::Snapshot);
    world.gates.open("go");
    late.hears("turn Completed", 2).await;
}

#[tokio::test]
async fn whoever_comes_back_soon_gets_exactly_what_was_missed() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, keeps) = world.listen(thread).await;
    let ear = Arc::new(Ear::default());
    let (id, snapshot) = world
        .handle
        .subscribe(thread, Arc::clone(&ear) as _, None)
        .await
        .unwrap();
    world.handle.unsubscribe(thread, id).await;
    world.add(thread, "missed").await;
    keeps.hears("turn Completed", 1).await;
    let since = Since {
        epoch: snapshot.epoch.clone(),
        seq: snapshot.seq,
    };
    let back = Arc::new(Ear::default());
    let (_, snapshot) = world
        .handle
        .subscribe(thread, Arc::clone(&back) as _, Some(since.clone()))
        .await
        .unwrap();
    assert_eq!(snapshot.replay, Replay::Events);
    let seqs = |ear: &Ear| -> Vec<u64> { ear.notices().iter().map(|notice| notice.seq).collect() };
    assert_eq!(seqs(&back), seqs(&keeps));

    let other = Since {
        epoch: "another load".to_owned(),
        ..since
    };
    let (_, snapshot) = world
        .handle
        .subscribe(thread, Arc::new(Ear::default()), Some(other))
        .await
        .unwrap();
    assert_eq!(snapshot.replay, Replay::Snapshot);
}

#[tokio::test]
async fn whoever_missed_a_long_queue_growing_gets_it_once_as_it_is() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, keeps) = world.listen(thread).await;
    let ear = Arc::new(Ear::default());
    let (id, snapshot) = world
        .handle
        .subscribe(thread, Arc::clone(&ear) as _, None)
        .await
        .unwrap();
    world.handle.unsubscribe(thread, id).await;
    world.handle.pause(thread, None, None).await.unwrap();
    for nth in 1..=30 {
        world.add(thread, "waits").await;
        keeps.hears(&format!("queue {nth} paused"), 1).await;
    }
    let since = Since {
        epoch: snapshot.epoch.clone(),
        seq: snapshot.seq,
    };
    let back = Arc::new(Ear::default());
    let (_, snapshot) = world
        .handle
        .subscribe(thread, Arc::clone(&back) as _, Some(since))
        .await
        .unwrap();
    assert_eq!(snapshot.replay, Replay::Events);
    assert_eq!(back.words(), ["warning", "queue 30 paused"]);
    assert_eq!(back.notices()[1].seq, snapshot.seq);
}

#[tokio::test]
async fn a_lane_that_nobody_needs_is_unloaded_and_comes_back_unseen() {
    let home = Home::new();
    let options = Options {
        unload_after: Duration::from_millis(20),
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let thread = world.thread().await;
    let watcher = Arc::new(Ear::default());
    world.handle.watch(Arc::clone(&watcher) as _);
    let (id, ear) = world.listen(thread).await;
    world.add(thread, "while somebody listens").await;
    ear.hears("turn Completed", 1).await;
    assert_eq!(world.handle.loaded(), 1, "somebody listens");
    assert!(!watcher.words().contains(&"thread/closed".to_owned()));
    world.handle.unsubscribe(thread, id).await;
    watcher.hears("thread/closed", 1).await;
    let words = watcher.words();
    assert_eq!(
        words[words.len() - 2..],
        ["status notLoaded", "thread/closed"]
    );
    let view = world
        .handle
        .store()
        .look(thread.as_uuid().into())
        .await
        .unwrap();
    assert_eq!(view.owner, None, "it is nobody's");
    world.add(thread, "again").await;
    world.ended(thread, 2).await;
}

#[tokio::test]
async fn a_queue_is_told_with_its_rows_and_what_holds_it() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world
        .handle
        .pause(thread, Some("lunch".to_owned()), None)
        .await
        .unwrap();
    ear.hears("queue 0 paused", 1).await;
    let row = world.add(thread, "one").await;
    ear.hears("queue 1 paused", 1).await;
    let id = turnlane_protocol::ids::QueuedTurnId::from_uuid(row.id.as_uuid());
    assert!(world.handle.delete(thread, id).await.unwrap());
    ear.hears("queue 0 paused", 2).await;
    let last = ear.notices().pop().unwrap();
    let NoticeBody::Queue(page) = &last.body else {
        panic!("the last notice is the queue");
    };
    assert_eq!(page.lane.paused.as_ref().unwrap().reason, "lunch");
}
