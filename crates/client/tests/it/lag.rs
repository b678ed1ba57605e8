//! A stream of deltas faster than its reader: what is left out is said once, nothing else is lost,
//! and nobody else waits.
//!
//! Everything is counted. Times of a busy machine prove nothing, so the one bound on a time is as
//! wide as a test may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use turnlane::{CallOptions, Client, EventBody, Filter, ItemBody, Thread, TurnEvent, TurnStatus};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::double::{Double, Kind, turn_event};

/// Ten megabytes in pieces of one kilobyte.
const DELTAS: u64 = 10_000;
const DELTA_BYTES: usize = 1_000;
const PROGRESS_MAX: u64 = 1_024;

async fn started(double: &mut Double, client: &Client) -> Thread {
    let (thread, _) = tokio::join!(client.threads().start("/srv"), double.start_thread("t"));
    thread.unwrap()
}

/// The text of a delta: its number, made long.
fn text(n: u64) -> String {
    format!("{n:0>DELTA_BYTES$}")
}

fn delta(n: u64) -> serde_json::Value {
    json!({"threadId": "t", "turnId": "u", "itemId": "i", "delta": text(n)})
}

fn item(text: &str) -> serde_json::Value {
    json!({"type": "agentMessage", "id": "i", "text": text, "phase": "final_answer"})
}

/// Waits until the client has taken in everything that was told before.
async fn settled(double: &mut Double, client: &Client) {
    let asked = client.call_raw(
        "thread/read",
        json!({"threadId": "o"}),
        CallOptions::default(),
    );
    let answer = async {
        let asked = double.expect("thread/read").await;
        asked.answer(json!({"thread": {"id": "o"}}));
    };
    let (answered, ()) = tokio::join!(asked, answer);
    answered.unwrap();
}

#[tokio::test]
async fn a_turn_whose_reader_sleeps_ends_with_its_whole_text_and_one_marker_per_gap() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let thread = started(&mut double, &client).await;
    let turn = thread.turn("hi").timeout(Duration::MAX).stream();
    let (turn, _) = tokio::join!(turn, double.start_turn("t", "u"));
    let mut turn = turn.unwrap();
    double.item("t", "u", "item/started", &item(""));
    let mut whole = String::new();
    for n in 0..DELTAS {
        double.tell("item/agentMessage/delta", delta(n));
        whole.push_str(&text(n));
        if n % 64 == 63 {
            settled(&mut double, &client).await;
        }
    }
    double.item("t", "u", "item/completed", &item(&whole));
    double.tell("turn/completed", turn_event("t", "u", "completed"));
    settled(&mut double, &client).await;

    let (mut seen, mut missed, mut after_gap, mut ended) = (0, 0, false, None);
    while let Some(event) = within("an event", DEADLINE, turn.next()).await.unwrap() {
        match event.unwrap() {
            TurnEvent::Lagged { missed: more } => {
                assert!(more > 0 && !after_gap, "two markers for one gap");
                (missed, after_gap) = (missed + more, true);
            }
            TurnEvent::Delta(delta) => {
                assert_eq!(delta.text, text(seen + missed), "a delta out of its place");
                (seen, after_gap) = (seen + 1, false);
            }
            TurnEvent::ItemCompleted(item) => {
                if let ItemBody::AgentMessage(message) = &item.body {
                    assert_eq!(seen + missed, DELTAS, "everything was told or counted");
                    assert_eq!(message.text, whole);
                }
            }
            TurnEvent::Ended(status) => ended = Some(status),
            _ => {}
        }
    }
    assert_eq!(ended, Some(TurnStatus::Completed));
    assert!(seen <= PROGRESS_MAX, "{seen}");
    assert!(client.metrics().dropped_progress >= missed);
}

#[tokio::test]
async fn the_outcome_of_a_turn_that_nobody_watched_has_its_whole_text() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let thread = started(&mut double, &client).await;
    let running = thread.turn("hi").timeout(Duration::MAX).run();
    let serving = async {
        double.start_turn("t", "u").await;
        let whole: String = (0..3_000).map(text).collect();
        for n in 0..3_000 {
            double.tell("item/agentMessage/delta", delta(n));
            if n % 64 == 63 {
                settled(&mut double, &client).await;
            }
        }
        double.item("t", "u", "item/completed", &item(&whole));
        double.tell("turn/completed", turn_event("t", "u", "completed"));
        whole
    };
    let (outcome, whole) = tokio::join!(running, serving);
    assert_eq!(outcome.unwrap().text, Some(whole));
}

#[tokio::test]
async fn calls_of_others_are_answered_while_a_stream_that_nobody_reads_grows() {
    const CALLS: usize = 200;
    let (mut double, client) = Double::plain(Kind::Turnlane).await;
    let mut unread = client.events(Filter::all().thread("t"));
    let told = Arc::new(AtomicU64::new(0));
    let enough = Arc::new(AtomicBool::new(false));
    let server = tokio::spawn({
        let (told, enough) = (Arc::clone(&told), Arc::clone(&enough));
        async move {
            while !enough.load(Ordering::Relaxed) {
                // A burst, then a look at what the client wants.
                for _ in 0..32 {
                    let n = told.fetch_add(1, Ordering::Relaxed);
                    double.tell("item/agentMessage/delta", delta(n));
                }
                let asked = double.expect("thread/read").await;
                asked.answer(json!({"thread": {"id": "o"}}));
            }
            double
        }
    });
    let mut behind_max = 0;
    for n in 1..=CALLS {
        if n == CALLS {
            enough.store(true, Ordering::Relaxed);
        }
        let before = told.load(Ordering::Relaxed);
        let params = json!({"threadId": "o"});
        let call = client.call_raw("thread/read", params, CallOptions::default());
        let answer = within("an answer", Duration::from_secs(10), call).await;
        assert_eq!(answer.unwrap().unwrap()["thread"]["id"], "o");
        behind_max = behind_max.max(told.load(Ordering::Relaxed) - before);
    }
    // An answer waits for what was on the way before it, never for a reader.
    assert!(
        behind_max <= 3 * 32,
        "{behind_max} deltas went before an answer"
    );
    drop(server.await.unwrap());
    drop(client);

    let told = told.load(Ordering::Relaxed);
    let (mut seen, mut missed, mut markers) = (0, 0, 0);
    while let Some(event) = within("an event", DEADLINE, unread.next()).await.unwrap() {
        match event.body {
            EventBody::Delta(delta) => {
                assert_eq!(delta.text, text(seen + missed));
                seen += 1;
            }
            EventBody::Lagged { missed: more } => (missed, markers) = (missed + more, markers + 1),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((seen, markers), (PROGRESS_MAX, 1));
    assert_eq!(seen + missed, told);
}
