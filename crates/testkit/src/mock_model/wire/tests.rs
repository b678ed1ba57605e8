//! How events become steps.

use serde_json::json;

use super::*;

fn events() -> Vec<Bytes> {
    vec![Bytes::from("one"), Bytes::from("two"), Bytes::from("three")]
}

/// Data as text, everything else as a word.
fn shown(steps: &[Step]) -> Vec<String> {
    let word = |step: &Step| match step {
        Step::Data(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Step::Pause(_) => "<pause>".to_owned(),
        Step::Gate(_) => "<gate>".to_owned(),
        Step::Cut => "<cut>".to_owned(),
    };
    steps.iter().map(word).collect()
}

fn body(delivery: &Delivery) -> Vec<String> {
    shown(&delivery.body(&events()))
}

#[test]
fn an_event_is_written_with_its_name_and_one_data_line() {
    let event = json!({"type": "error"});
    let mut delivery = Delivery::default();
    assert_eq!(
        delivery.write(&event),
        "event: error\ndata: {\"type\":\"error\"}\n\n"
    );
    delivery.line_end = LineEnd::CrLf;
    delivery.unnamed = true;
    assert_eq!(delivery.write(&event), "data: {\"type\":\"error\"}\r\n\r\n");
}

#[test]
fn insertions_stand_where_they_were_asked_for() {
    let text = |text: &'static str| Insertion::Bytes(Bytes::from(text));
    let delivery = Delivery {
        insertions: vec![
            (At::Request, Insertion::Pause(Duration::from_secs(1))),
            (At::AfterEvents(0), text("first")),
            (At::AfterEvents(1), Insertion::Gate(Gate::new())),
            (At::LastEvent, text("before last")),
            (At::End, text("end")),
            (At::AfterEvents(99), text("far")),
        ],
        ..Delivery::default()
    };
    assert_eq!(
        body(&delivery),
        [
            "first",
            "one",
            "<gate>",
            "two",
            "before last",
            "three",
            "end",
            "far"
        ]
    );
    assert_eq!(shown(&delivery.before_head()), ["<pause>"]);
}

#[test]
fn a_delay_stands_before_every_event() {
    let delivery = Delivery {
        event_delay: Duration::from_millis(1),
        ..Delivery::default()
    };
    assert_eq!(
        body(&delivery),
        ["<pause>", "one", "<pause>", "two", "<pause>", "three"]
    );
}

#[test]
fn a_cut_counts_events_or_bytes() {
    let cut = |cut| {
        body(&Delivery {
            cut: Some(cut),
            ..Delivery::default()
        })
    };
    assert_eq!(cut(Cut::AfterEvents(0)), ["<cut>"]);
    assert_eq!(cut(Cut::AfterEvents(2)), ["one", "two", "<cut>"]);
    assert_eq!(cut(Cut::AtByte(0)), ["<cut>"]);
    assert_eq!(cut(Cut::AtByte(3)), ["one", "<cut>"]);
    assert_eq!(cut(Cut::AtByte(4)), ["one", "t", "<cut>"]);
    assert_eq!(cut(Cut::AtByte(99)), ["one", "two", "three", "<cut>"]);
}

#[test]
fn chunks_divide_and_join_without_changing_a_byte() {
    for chunks in [
        Chunks::PerEvent,
        Chunks::OfBytes(2),
        Chunks::OfBytes(0),
        Chunks::Joined,
    ] {
        let delivery = Delivery {
            chunks,
            ..Delivery::default()
        };
        assert_eq!(body(&delivery).concat(), "onetwothree");
    }
    let of_two = Delivery {
        chunks: Chunks::OfBytes(2),
        ..Delivery::default()
    };
    assert_eq!(body(&of_two), ["on", "e", "tw", "o", "th", "re", "e"]);
    let joined = Delivery {
        chunks: Chunks::Joined,
        insertions: vec![(At::AfterEvents(2), Insertion::Gate(Gate::new()))],
        ..Delivery::default()
    };
    assert_eq!(body(&joined), ["onetwo", "<gate>", "three"]);
}
