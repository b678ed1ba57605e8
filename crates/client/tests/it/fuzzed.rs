//! A server that has lost its mind: the client neither panics nor waits for ever, and works as soon
//! as the server does.
//!
//! The invariant here: what the server does follows from a seed alone. The clock is paused, so a
//! wait that nothing ends is found at once and takes no time. All tasks of a client run on the
//! test's own thread, so a panic in any of them is counted.

mod chaos;
mod wild;

use std::time::Duration;

use serde_json::json;
use turnlane::{CallOptions, Client, EventBody, Filter, Limits, Thread, TurnOutcome};
use turnlane_testkit::wait::within;

use self::chaos::Chaos;
use self::wild::Wild;
use crate::double::Kind;

/// Far more than all timeouts of one seed together.
const VIRTUAL_DEADLINE: Duration = Duration::from_hours(2);

/// Each takes half a second of a busy machine.
const SEEDS: u64 = 12;

fn limits() -> Limits {
    Limits {
        rpc_timeout: Duration::from_secs(2),
        handshake: Duration::from_secs(2),
        review: Duration::from_secs(2),
        ..Limits::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_mad_server_neither_stops_nor_crashes_a_client() {
    let panics = wild::count_panics();
    let mut reached = Reached::default();
    for seed in 0..SEEDS {
        let kind = if seed % 2 == 0 {
            Kind::Turnlane
        } else {
            Kind::Codex
        };
        let (wild, endpoint) = Wild::start(kind, Chaos::new(seed));
        let builder = Client::builder().endpoint(endpoint).limits(limits());
        let used = async {
            let client = builder.connect().await.unwrap();
            // Never read: must cost the others nothing.
            let unread = client.events(Filter::all());
            let mut read = client.events(Filter::all());
            let reading = tokio::spawn(async move {
                while let Some(event) = read.next().await {
                    std::hint::black_box(event);
                }
            });
            let (one, two, ()) = tokio::join!(
                use_thread(&client, 0),
                use_thread(&client, 1),
                use_raw(&client)
            );
            reached.add(one);
            reached.add(two);
            wild.calm_down();
            assert!(calm(&client).await, "seed {seed}");
            drop(unread);
            // However it ends, it ends.
            let _ = client.shutdown(Duration::from_millis(100)).await;
            reading.await.unwrap();
        };
        let what = format!("the end of seed {seed}");
        let used = within(&what, VIRTUAL_DEADLINE, Box::pin(used));
        used.await.unwrap();
        wild.ended().await;
        assert_eq!(panics(), 0, "a task panicked with seed {seed}");
    }
    // It was mad, but not so mad that nothing was tried.
    assert!(reached.threads > 20 && reached.queued > 10, "{reached:?}");
    assert!(reached.turns > 2 && reached.streams > 2, "{reached:?}");
}

/// Whether the client gets an answer of a server that has calmed down. What it said before may still
/// be on the way and pass for an answer, but there is not much of that.
async fn calm(client: &Client) -> bool {
    for _ in 0..200 {
        let call = client.call_raw("calm/ping", json!({}), CallOptions::default());
        if call
            .await
            .is_ok_and(|answer| answer == json!({"calm": true}))
        {
            return true;
        }
    }
    false
}

/// How far the client came with a mad server.
#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    threads: usize,
    turns: usize,
    streams: usize,
    queued: usize,
}

impl Reached {
    fn add(&mut self, more: Self) {
        self.threads += more.threads;
        self.turns += more.turns;
        self.streams += more.streams;
        self.queued += more.queued;
    }
}

/// A thread with a few turns, each used in another way. Every result will do.
async fn use_thread(client: &Client, first: u32) -> Reached {
    let mut reached = Reached::default();
    for round in first..first + 4 {
        let started = client.threads().start("/srv").await;
        let Ok(thread) = started else { continue };
        let _ = thread.queue().await;
        let (one, two, streamed) = tokio::join!(run(&thread), run(&thread), stream(&thread, round));
        reached.threads += 1;
        reached.turns += one.into_iter().chain(two).count();
        reached.streams += streamed.into_iter().count();
        if let Ok(queued) = thread.turn("later").enqueue().await {
            reached.queued += 1;
            let _ = queued.turn().await;
            let _ = queued.delete().await;
        }
        let _ = thread.archive().await;
    }
    reached
}

async fn run(thread: &Thread) -> Option<TurnOutcome> {
    let turn = thread.turn("hi").timeout(Duration::from_secs(5));
    turn.run().await.ok()
}

/// Reads a little of a stream, then leaves it in one of three ways.
async fn stream(thread: &Thread, round: u32) -> Option<()> {
    let turn = thread.turn("hi").timeout(Duration::from_secs(5));
    let mut stream = turn.stream().await.ok()?;
    for _ in 0..5 {
        stream.next().await?.ok()?;
    }
    match round % 3 {
        0 => drop(stream),
        1 => {
            let turn = stream.detach()?;
            let _ = turn.steer("more").await;
            let _ = turn.interrupt().await;
        }
        _ => {
            let _ = stream.outcome().await;
        }
    }
    Some(())
}

async fn use_raw(client: &Client) {
    for n in 0..40 {
        let options = CallOptions::default();
        let _ = client
            .call_raw("thread/read", json!({"threadId": "t"}), options)
            .await;
        let _ = client.notify_raw("noise", json!({ "n": n })).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_mad_answer_to_initialize_is_an_error_in_time() {
    let panics = wild::count_panics();
    for seed in 0..SEEDS {
        let (wild, endpoint) = Wild::start_mad(Chaos::new(seed));
        let connecting = Client::builder()
            .endpoint(endpoint)
            .limits(limits())
            .connect();
        // Some of what it says may pass for an answer.
        let connected = within(&format!("seed {seed}"), VIRTUAL_DEADLINE, connecting).await;
        drop(connected.unwrap());
        wild.ended().await;
        assert_eq!(panics(), 0, "a task panicked with seed {seed}");
    }
}

#[tokio::test]
async fn what_a_server_sends_is_kept_only_up_to_the_bounds() {
    const MIB: usize = 1 << 20;
    const SENT: u64 = 500;
    let limits = Limits {
        progress_bytes: MIB,
        lossless_buffer: 10_000,
        lossless_bytes: 2 * MIB,
        ..Limits::default()
    };
    let (wild, endpoint) = Wild::start(Kind::Turnlane, Chaos::new(1));
    wild.calm_down();
    let client = Client::builder()
        .endpoint(endpoint)
        .limits(limits)
        .connect();
    let client = client.await.unwrap();
    let mut progress = client.events(Filter::all().method_prefix("item/"));
    let mut lossless = client.events(Filter::all().method_prefix("odd/"));
    let text = "x".repeat(16 << 10);
    for _ in 0..SENT {
        let ids = json!({"threadId": "t", "turnId": "u", "itemId": "i", "delta": text});
        wild.tell("item/agentMessage/delta", &ids).await;
        wild.tell("odd/thing", &json!({ "text": text })).await;
        // Answers that nobody waits for are not kept at all.
        wild.say(&json!({"id": 1_u64 << 40, "result": text})).await;
    }
    // Answered after everything before it was taken in.
    let ping = client.call_raw("calm/ping", json!({}), CallOptions::default());
    assert_eq!(ping.await.unwrap(), json!({"calm": true}));
    assert!(client.metrics().dropped_progress >= SENT - 64);
    drop(client);

    let (mut kept, mut missed) = (0, 0);
    while let Some(event) = progress.next().await {
        match event.body {
            EventBody::Delta(delta) => kept += delta.text.len(),
            EventBody::Lagged { missed: more } => missed += more,
            other => panic!("{other:?}"),
        }
    }
    assert!(kept <= MIB, "{kept}");
    let deltas = u64::try_from(kept / text.len()).unwrap();
    assert_eq!(deltas + missed, SENT);

    let (mut kept, mut last) = (0, None);
    while let Some(event) = lossless.next().await {
        if let EventBody::Unknown(raw) = &event.body {
            kept += raw.params.get().len();
        }
        last = Some(event.body);
    }
    assert!(kept <= 2 * MIB, "{kept}");
    assert!(matches!(last, Some(EventBody::TooSlow)), "{last:?}");
}
