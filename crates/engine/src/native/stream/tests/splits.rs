//! The same steps however the bytes are cut, and no bytes that panic.

use super::*;

fn rows() -> impl Iterator<Item = Row> {
    events::all().into_iter().chain(disorder::all())
}

#[test]
fn every_row_split_at_every_byte_gives_the_same_steps() {
    for row in rows() {
        let stream = row.stream.as_bytes();
        for at in 0..=stream.len() {
            let (head, tail) = stream.split_at(at);
            assert_eq!(told(&[head, tail]), row.told, "{} at {at}", row.name);
        }
    }
}

#[test]
fn every_row_byte_by_byte_and_with_every_line_end_gives_the_same_steps() {
    for row in rows() {
        for end in ["\n", "\r\n", "\r"] {
            let stream = format!("\u{feff}{}", row.stream.replace('\n', end));
            let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
            assert_eq!(told(&bytes), row.told, "{} with {end:?}", row.name);
        }
    }
}

#[test]
fn every_row_is_whole_without_its_last_blank_line() {
    for row in rows() {
        let stream = row.stream.trim_end();
        assert_eq!(told(&[stream.as_bytes()]), row.told, "{}", row.name);
    }
}

#[test]
fn a_row_cut_anywhere_never_gives_out_a_call_without_its_completed() {
    for row in rows() {
        for at in 0..row.stream.len() {
            let lines = told(&[&row.stream.as_bytes()[..at]]);
            let called = lines.iter().any(|line| line.starts_with("call "));
            let completed = lines.iter().any(|line| line.starts_with("completed"));
            assert!(completed || !called, "{} at {at}: {lines:?}", row.name);
            let over = |line: &&String| line.ends_with("before response.completed");
            let opened = lines
                .iter()
                .filter(|line| line.contains(" opened: "))
                .count();
            let closed =
                |line: &&String| line.contains(" completed at ") || line.contains(" left open: ");
            assert_eq!(
                lines.iter().filter(closed).count(),
                opened,
                "{} at {at}",
                row.name
            );
            let ended = |line: &&String| {
                ["completed", "failed: ", "incomplete: "]
                    .iter()
                    .any(|word| line.starts_with(word))
            };
            let (ends, errors) = (lines.iter().filter(ended), lines.iter().filter(over));
            assert_eq!(
                ends.count() + errors.count(),
                1,
                "{} at {at}: {lines:?}",
                row.name
            );
        }
    }
}

/// A generator that gives the same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

#[test]
fn random_bytes_never_panic_and_never_complete_an_answer() {
    let mut numbers = Numbers(0x5eed);
    for _ in 0..2_000 {
        let length = numbers.below(300);
        let words: [&[u8]; 8] = [
            b"data: ",
            b"\n\n",
            b"\r",
            b"event: ",
            b"{\"type\":",
            b"\"error\"",
            b"\xff",
            b"[DONE]",
        ];
        let mut stream = Vec::new();
        while stream.len() < length {
            match numbers.below(3) {
                0 => stream.extend_from_slice(words[numbers.below(words.len())]),
                _ => stream.push(u8::try_from(numbers.below(256)).unwrap()),
            }
        }
        let size = 1 + numbers.below(20);
        let cut: Vec<&[u8]> = stream.chunks(size).collect();
        let lines = told(&cut);
        assert_eq!(lines, told(&[&stream]));
        assert!(
            !lines.iter().any(|line| line.starts_with("completed")),
            "{lines:?}"
        );
    }
}

#[test]
fn rows_with_random_bytes_changed_and_events_shuffled_never_panic() {
    let mut numbers = Numbers(0xbad);
    let rows: Vec<Row> = rows().collect();
    for _ in 0..3_000 {
        let mut frames: Vec<&str> = Vec::new();
        for _ in 0..3 {
            frames.extend(
                rows[numbers.below(rows.len())]
                    .stream
                    .split_inclusive("\n\n"),
            );
        }
        for at in (1..frames.len()).rev() {
            frames.swap(at, numbers.below(at + 1));
        }
        let mut stream = frames.concat().into_bytes();
        for _ in 0..numbers.below(4) {
            let at = numbers.below(stream.len());
            stream[at] = u8::try_from(numbers.below(256)).unwrap();
        }
        let lines = told(&[&stream]);
        let opened = lines
            .iter()
            .filter(|line| line.contains(" opened: "))
            .count();
        let closed =
            |line: &&String| line.contains(" completed at ") || line.contains(" left open: ");
        assert_eq!(lines.iter().filter(closed).count(), opened, "{lines:#?}");
    }
}

#[test]
fn what_is_skipped_is_counted() {
    let stream = [
        "data: {\n\n".to_owned(),
        e!("metadata"),
        e!("output_text.delta"),
        e!("output_item.done", {"item": {"type": "compaction"}}),
        e!("completed", {"response": {"id": "resp_9"}}),
        e!("metadata"),
    ];
    let mut reader = ResponseStream::new(Body::Events, counting());
    let mut steps = Vec::new();
    reader.push(stream.concat().as_bytes(), &mut steps).unwrap();
    let skipped = Skipped {
        events: 2,
        not_json: 1,
        late: 1,
        items: 1,
    };
    assert_eq!(reader.assembler().skipped(), skipped);
    assert_eq!(reader.assembler().response_id(), Some("resp_9"));
}

#[test]
fn more_items_than_anybody_means_are_an_error() {
    let added = |index: usize| e!("output_item.added", {"output_index": index, "item": {"type": "function_call"}});
    let stream: String = (0..=ITEMS_MAX).map(added).collect();
    let lines = told(&[stream.as_bytes()]);
    assert_eq!(lines, ["error: the response has more than 1024 items"]);
}

#[test]
fn an_answer_over_the_limit_is_an_error_unless_it_is_over() {
    let limits = crate::native::sse::Limits {
        event_bytes_max: 100,
        response_bytes_max: 1_000,
    };
    let reader = || ResponseStream::with_limits(Body::Events, limits, counting());
    let long = format!("data: {}\n\n", "x".repeat(100));
    let lines = told_of(reader(), &[long.as_bytes()]);
    assert_eq!(lines, ["error: an event is larger than 100 bytes"]);
    let late = format!("{}{long}", e!("completed"));
    assert_eq!(told_of(reader(), &[late.as_bytes()]), ["completed"]);
}
