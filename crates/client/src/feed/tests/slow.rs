//! A reader that sleeps, by counts.

use serde_json::json;

use super::{delta, event, fed, read, router, turn_started};
use crate::event::{EventBody, ItemBody};
use crate::feed::{Fed, Filter};
use crate::ids::{ThreadId, TurnId};
use crate::limits::Limits;

const DELTAS: u64 = 100_000;

fn item(method: &str, text: &str) -> crate::event::Event {
    let item = json!({"type": "agentMessage", "id": "i", "text": text});
    event(
        method,
        &json!({"threadId": "t", "turnId": "u", "item": item}),
    )
}

#[test]
fn a_reader_that_slept_gets_one_marker_the_newest_deltas_and_the_whole_item() {
    let router = router(&Limits::default());
    let mut sleeping = router.events(Filter::all().thread("t"));
    let mut feed = router.follow(&ThreadId::from("t"), &TurnId::from("u"));
    let mut other = router.follow(&ThreadId::from("o"), &TurnId::from("v"));
    let mut whole = String::new();
    let mut others = 0;
    router.deliver(item("item/started", ""));
    for n in 0..DELTAS {
        let text = format!("{n} ");
        router.deliver(delta("t", "u", &text));
        whole.push_str(&text);
        if n % 1_000 == 0 {
            router.deliver(delta("o", "v", "x"));
            others += fed(&mut other).len();
        }
    }
    router.deliver(item("item/completed", &whole));
    assert_eq!(
        others, 100,
        "another thread's reader got everything at once"
    );

    let (events, _) = read(&mut sleeping);
    assert_eq!(events.len(), 1_024 + 3);
    assert!(matches!(events[0].body, EventBody::ItemStarted(_)));
    assert!(matches!(events[1].body, EventBody::Lagged { missed } if missed == DELTAS - 1_024));
    assert!(matches!(&events[2].body, EventBody::Delta(delta) if delta.text == "98976 "));
    let EventBody::ItemCompleted(item) = &events[1_026].body else {
        panic!("the last event is the item's end");
    };
    assert!(matches!(&item.body, ItemBody::AgentMessage(message) if message.text == whole));
    assert_eq!(fed(&mut feed).len(), 1_024 + 3);
    assert_eq!(router.dropped(), 2 * (DELTAS - 1_024));
}

#[test]
fn a_reader_that_is_late_again_and_again_can_count_every_delta() {
    let limits = Limits {
        progress_buffer: 16,
        ..Limits::default()
    };
    let router = router(&limits);
    let mut feed = router.follow(&ThreadId::from("t"), &TurnId::from("u"));
    let (mut seen, mut missed, mut gaps, mut after_gap) = (0, 0, 0, false);
    router.deliver(turn_started("t", "u"));
    let mut take = |fed: Fed| {
        let Fed::Event(event) = fed else { return };
        match &event.body {
            EventBody::Lagged { missed: more } => {
                assert!(!after_gap, "two markers follow each other");
                (missed, gaps, after_gap) = (missed + more, gaps + 1, true);
            }
            EventBody::Delta(delta) => {
                assert_eq!(
                    delta.text,
                    (seen + missed).to_string(),
                    "a delta out of place"
                );
                (seen, after_gap) = (seen + 1, false);
            }
            _ => {}
        }
    };
    for n in 0_u64..10_000 {
        router.deliver(delta("t", "u", &n.to_string()));
        // Reads one of three, with a rest now and then.
        if n % 3 == 0 && n % 1_000 < 700 {
            super::next(&mut feed).into_iter().for_each(&mut take);
        }
    }
    while let Some(fed) = super::next(&mut feed) {
        take(fed);
    }
    assert_eq!(seen + missed, 10_000);
    assert!(gaps > 10 && gaps < seen);
    assert_eq!(router.dropped(), missed);
}

#[test]
fn long_texts_are_bounded_by_bytes() {
    let limits = Limits {
        progress_bytes: 1 << 20,
        ..Limits::default()
    };
    let router = router(&limits);
    let mut sleeping = router.events(Filter::all());
    let text = "x".repeat(100 << 10);
    for _ in 0..500 {
        router.deliver(delta("t", "u", &text));
    }
    let (events, _) = read(&mut sleeping);
    let bytes: usize = events.iter().map(|event| event.bytes).sum();
    assert!(bytes <= 1 << 20, "{bytes}");
    assert_eq!(events.len(), 1 + 10, "a marker, and as many as fit");
}
