//! The queue against a model: what a reader sees, however slowly it reads.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use turnlane_protocol::envelope::{Stamp, encode_delta, encode_notification};

use super::queue::{Queue, Reader};
use super::*;
use crate::peer::{LagNotice, Scope};

fn notice() -> LagNotice {
    Arc::new(|scope, missed| {
        let params = json!({"threadId": scope, "missed": missed});
        let frame = encode_notification("connection/lagged", &params, None);
        Some(frame.unwrap().into())
    })
}

fn limits(delta_bytes_max: usize) -> Limits {
    Limits {
        joined_bytes_max: 2000,
        delta_bytes_max,
        lag_notice: Some(notice()),
        ..Limits::default()
    }
}

/// Makes the events of several threads, numbered as the runtime numbers them.
#[derive(Default)]
struct Threads(HashMap<String, u64>);

impl Threads {
    fn stamp(&mut self, thread: &str) -> Stamp {
        let seq = self.0.entry(thread.to_owned()).or_default();
        *seq += 1;
        Stamp {
            emitted_at_ms: 1,
            seq: Some(*seq),
        }
    }

    fn kept(&mut self, thread: &str) -> Outgoing {
        let stamp = self.stamp(thread);
        let frame = encode_notification("kept", &json!({"threadId": thread}), Some(stamp)).unwrap();
        Outgoing::kept(frame, Some(thread.into()))
    }

    fn completed(&mut self, thread: &str, item: &str) -> Outgoing {
        let stamp = self.stamp(thread);
        let params = json!({"threadId": thread, "itemId": item});
        let frame = encode_notification("completed", &params, Some(stamp)).unwrap();
        Outgoing::completing(frame, thread.into(), item.into())
    }

    fn newest(&mut self, thread: &str, state: u64) -> Outgoing {
        let stamp = self.stamp(thread);
        let params = json!({"threadId": thread, "state": state});
        let frame = encode_notification("newest", &params, Some(stamp)).unwrap();
        Outgoing::newest(frame, thread.into(), "newest")
    }

    fn delta(&mut self, thread: &str, item: &str, text: &str) -> Outgoing {
        let stamp = self.stamp(thread);
        let params = json!({"threadId": thread, "itemId": item});
        let delta = encode_delta("delta", &params, text, stamp).unwrap();
        Outgoing::delta(delta, thread.into(), item.into(), ("delta", 0))
    }
}

/// What a client knows after reading.
#[derive(Debug, Default, PartialEq)]
struct View {
    kept: Vec<(String, u64)>,
    answers: Vec<u64>,
    texts: HashMap<(String, String), String>,
    states: HashMap<String, u64>,
    missed: HashMap<String, u64>,
    seqs: HashMap<String, u64>,
}

impl View {
    fn read(&mut self, frame: &[u8]) {
        let value: Value = serde_json::from_slice(frame).expect("a whole JSON text");
        if let Some(id) = value["id"].as_u64() {
            return self.answers.push(id);
        }
        let params = &value["params"];
        let thread = params["threadId"].as_str().unwrap().to_owned();
        if value["method"] == "connection/lagged" {
            *self.missed.entry(thread).or_default() += params["missed"].as_u64().unwrap();
            return;
        }
        let seq = value["seq"].as_u64().unwrap();
        let last = self.seqs.insert(thread.clone(), seq).unwrap_or(0);
        assert!(last < seq, "{thread}: {seq} after {last}");
        match value["method"].as_str().unwrap() {
            "delta" => {
                let item = params["itemId"].as_str().unwrap().to_owned();
                let text = params["delta"].as_str().unwrap();
                self.texts.entry((thread, item)).or_default().push_str(text);
            }
            "newest" => drop(
                self.states
                    .insert(thread, params["state"].as_u64().unwrap()),
            ),
            _ => self.kept.push((thread, seq)),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Kept(u8),
    Delta(u8, u8, String),
    Newest(u8),
    Answer,
    Take(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3u8).prop_map(Step::Kept),
        6 => (0..3u8, 0..2u8, "[a-z\"\\\\\n\u{1F600}]{0,12}").prop_map(|(t, i, s)| Step::Delta(t, i, s)),
        2 => (0..3u8).prop_map(Step::Newest),
        2 => Just(Step::Answer),
        1 => (0..400usize).prop_map(Step::Take),
    ]
}

proptest! {
    /// A slow reader, for whom things are joined and replaced, ends up knowing what a fast one
    /// does, with every kept message and answer, in order.
    #[test]
    fn a_slow_reader_learns_the_same(
        steps in prop::collection::vec(step(), 0..120),
        reader in prop_oneof![Just(Reader::KeepsUp), Just(Reader::IsBehind)],
    ) {
        let limits = limits(usize::MAX);
        let (mut queue, mut fast, mut slow) = (Queue::default(), View::default(), View::default());
        let mut threads = Threads::default();
        for (number, step) in steps.into_iter().enumerate() {
            let number = number as u64;
            let message = match step {
                Step::Kept(thread) => threads.kept(&thread.to_string()),
                Step::Delta(thread, item, text) => {
                    threads.delta(&thread.to_string(), &item.to_string(), &text)
                }
                Step::Newest(thread) => threads.newest(&thread.to_string(), number),
                Step::Answer => {
                    let frame = Bytes::from(format!("{{\"id\":{number},\"result\":1}}"));
                    fast.read(&frame);
                    queue.push_answer(frame);
                    continue;
                }
                Step::Take(bytes_max) => {
                    let (frames, taken) = queue.take(bytes_max, &limits);
                    prop_assert_eq!(taken.bytes, frames.iter().map(Bytes::len).sum::<usize>());
                    for frame in &frames {
                        slow.read(frame);
                    }
                    continue;
                }
            };
            fast.read(&message.frame);
            queue.push(&message, &limits, reader);
        }
        let (frames, _) = queue.take(usize::MAX, &limits);
        for frame in &frames {
            slow.read(frame);
        }
        prop_assert_eq!(queue.totals(), Totals::default());
        // The last event of a thread may have been joined or replaced, so the numbers end equal.
        prop_assert_eq!(slow, fast);
    }
}

fn taken(queue: &mut Queue, limits: &Limits) -> Vec<Value> {
    let (frames, _) = queue.take(usize::MAX, limits);
    frames
        .iter()
        .map(|frame| serde_json::from_slice(frame).unwrap())
        .collect()
}

#[test]
fn deltas_are_joined_only_when_crowded_and_only_next_to_each_other() {
    let limits = limits(usize::MAX);
    let mut threads = Threads::default();
    let mut queue = Queue::default();
    let messages = [
        threads.delta("t", "a", "1"),
        threads.delta("t", "a", "2"),
        threads.delta("u", "a", "other thread"),
        threads.delta("t", "a", "3"),
        threads.delta("t", "b", "other item"),
        threads.delta("t", "a", "4"),
        threads.kept("t"),
        threads.delta("t", "a", "5"),
    ];
    for message in &messages {
        queue.push(message, &limits, Reader::IsBehind);
    }
    let texts: Vec<Value> = taken(&mut queue, &limits)
        .iter()
        .map(|value| value["params"]["delta"].clone())
        .collect();
    assert_eq!(
        texts,
        [
            json!("123"),
            json!("other thread"),
            json!("other item"),
            json!("4"),
            json!(null),
            json!("5")
        ]
    );
    for message in &messages {
        queue.push(message, &limits, Reader::KeepsUp);
    }
    assert_eq!(
        taken(&mut queue, &limits).len(),
        messages.len(),
        "a client that reads sees each"
    );
}

#[test]
fn joined_deltas_stay_below_their_size() {
    let limits = limits(usize::MAX);
    let mut threads = Threads::default();
    let mut queue = Queue::default();
    for _ in 0..100 {
        queue.push(
            &threads.delta("t", "a", &"x".repeat(100)),
            &limits,
            Reader::IsBehind,
        );
    }
    let (frames, _) = queue.take(usize::MAX, &limits);
    assert!(frames.len() > 4 && frames.len() < 10, "{}", frames.len());
    assert!(
        frames
            .iter()
            .all(|frame| frame.len() <= limits.joined_bytes_max + 10)
    );
}

#[test]
fn a_newer_state_takes_the_place_at_the_end() {
    let limits = limits(usize::MAX);
    let mut threads = Threads::default();
    let mut queue = Queue::default();
    for message in [
        threads.newest("t", 1),
        threads.kept("t"),
        threads.newest("t", 2),
    ] {
        queue.push(&message, &limits, Reader::IsBehind);
    }
    let seqs: Vec<Value> = taken(&mut queue, &limits)
        .iter()
        .map(|value| value["seq"].clone())
        .collect();
    assert_eq!(seqs, [json!(2), json!(3)]);
}

#[test]
fn above_its_bound_an_item_loses_all_further_deltas_until_it_completes() {
    let limits = limits(400);
    let mut threads = Threads::default();
    let mut queue = Queue::default();
    let text = "x".repeat(60);
    for _ in 0..10 {
        queue.push(&threads.delta("t", "a", &text), &limits, Reader::KeepsUp);
    }
    let first = taken(&mut queue, &limits);
    let (deltas, notices): (Vec<_>, Vec<_>) =
        first.iter().partition(|value| value["method"] == "delta");
    assert_eq!(deltas.len(), 2);
    assert_eq!(notices[0]["params"], json!({"threadId": "t", "missed": 8}));

    // There is room again, but a text with a hole would be wrong.
    queue.push(&threads.delta("t", "a", "late"), &limits, Reader::KeepsUp);
    queue.push(
        &threads.delta("t", "b", "other item"),
        &limits,
        Reader::KeepsUp,
    );
    queue.push(&threads.completed("t", "a"), &limits, Reader::KeepsUp);
    queue.push(
        &threads.delta("t", "a", "a new life"),
        &limits,
        Reader::KeepsUp,
    );
    let then: Vec<String> = taken(&mut queue, &limits)
        .iter()
        .map(|value| {
            value["params"]["delta"]
                .as_str()
                .unwrap_or_else(|| value["method"].as_str().unwrap())
                .to_owned()
        })
        .collect();
    assert_eq!(
        then,
        ["connection/lagged", "other item", "completed", "a new life"]
    );
}

#[test]
fn without_a_notice_deltas_are_left_out_in_silence() {
    let limits = Limits {
        lag_notice: None,
        ..limits(150)
    };
    let mut threads = Threads::default();
    let mut queue = Queue::default();
    for _ in 0..5 {
        queue.push(
            &threads.delta("t", "a", "0123456789"),
            &limits,
            Reader::KeepsUp,
        );
    }
    assert_eq!(taken(&mut queue, &limits).len(), 1);
    assert_eq!(queue.totals(), Totals::default());
}

fn small() -> Limits {
    Limits {
        unanswered_max: 4,
        unwritten_bytes_max: 100,
        waiting_bytes_max: 1000,
        ..Limits::default()
    }
}

#[test]
fn reading_stops_at_a_bound_and_goes_on_at_half_of_it() {
    let outbox = Outbox::new(small());
    let paused = || outbox.state().update_reading(&outbox.limits);
    for _ in 0..4 {
        assert!(!paused());
        outbox.request_read();
    }
    assert!(paused());
    outbox.answer(Bytes::from_static(b"a"));
    outbox.answer(Bytes::from_static(b"a"));
    assert!(paused(), "two of four are not below half");
    outbox.answer(Bytes::from_static(b"a"));
    assert!(!paused());

    outbox.send(Bytes::from(vec![b'x'; 100]));
    assert!(paused(), "answers that nobody reads");
}

#[test]
fn too_much_in_all_ends_the_connection() {
    let outbox = Outbox::new(small());
    let scope: Scope = "t".into();
    for _ in 0..11 {
        outbox.notify(&Outgoing::kept(vec![b'x'; 100], Some(scope.clone())));
    }
    assert_eq!(outbox.state().end, End::Over(CloseReason::SlowConsumer));
    assert_eq!(
        outbox.waiting().bytes,
        0,
        "its memory is given back at once"
    );
}
