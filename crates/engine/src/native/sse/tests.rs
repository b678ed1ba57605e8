//! The framing, byte by byte.

use super::*;

fn decode(chunks: &[&[u8]]) -> Vec<SseEvent> {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(chunk, &mut events).unwrap();
    }
    events.extend(decoder.finish());
    events
}

fn data(stream: &str) -> Vec<String> {
    let events = decode(&[stream.as_bytes()]);
    events.into_iter().map(|event| event.data).collect()
}

#[test]
fn lines_end_with_lf_crlf_or_cr() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = "event: a\ndata: 1\n\ndata: 2\n\n".replace('\n', end);
        let events = decode(&[stream.as_bytes()]);
        assert_eq!(events.len(), 2, "{end:?}");
        assert_eq!(events[0].name.as_deref(), Some("a"));
        assert_eq!(
            (events[0].data.as_str(), events[1].data.as_str()),
            ("1", "2")
        );
        assert_eq!(events[1].name, None);
    }
}

#[test]
fn an_event_is_given_out_with_its_blank_line_even_if_that_is_a_cr() {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    decoder.push(b"data: 1\r\r", &mut events).unwrap();
    assert_eq!(events.len(), 1);
    decoder.push(b"\ndata: 2\r\n\r", &mut events).unwrap();
    assert_eq!(events.len(), 2);
}

#[test]
fn several_data_lines_are_joined_by_line_feeds() {
    assert_eq!(data("data: a\ndata:b\ndata\ndata:  c\n\n"), ["a\nb\n\n c"]);
}

#[test]
fn comments_ids_retries_and_unknown_fields_are_ignored() {
    assert_eq!(
        data(": keep-alive\n\nid: 7\nretry: 10\nwhat: x\nnonsense\n: y\ndata: 1\n: z\n\n:\n\n"),
        ["1"]
    );
}

#[test]
fn a_byte_order_mark_is_skipped_only_at_the_beginning() {
    assert_eq!(
        data("\u{feff}data: 1\n\n\u{feff}data: 2\n\ndata: 3\n\n"),
        ["1", "3"]
    );
}

#[test]
fn a_character_split_over_chunks_is_whole() {
    let stream = "data: gr\u{fc}n \u{1f980}\n\n".as_bytes();
    for at in 0..=stream.len() {
        let (head, tail) = stream.split_at(at);
        assert_eq!(decode(&[head, tail])[0].data, "gr\u{fc}n \u{1f980}", "{at}");
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_replaced() {
    assert_eq!(decode(&[b"data: a\xFFb\n\n"])[0].data, "a\u{fffd}b");
}

#[test]
fn a_last_event_without_its_blank_line_is_given_out() {
    assert_eq!(data("data: 1\n\ndata: 2"), ["1", "2"]);
    assert_eq!(data("data: 1\n\ndata: 2\n"), ["1", "2"]);
    assert_eq!(data("data: 1\n\nevent: x\n"), ["1"]);
}

#[test]
fn the_done_marker_is_no_event() {
    assert_eq!(data("data: 1\n\ndata: [DONE]\n\n"), ["1"]);
    assert_eq!(data("data: [DONE] "), Vec::<String>::new());
}

#[test]
fn limits_hold_at_the_same_byte_however_the_bytes_are_cut() {
    let limits = Limits {
        event_bytes_max: 12,
        response_bytes_max: 40,
    };
    let read = |stream: &[u8], size: usize| {
        let mut decoder = Decoder::with_limits(limits);
        let mut events = Vec::new();
        let failed = stream
            .chunks(size)
            .find_map(|chunk| decoder.push(chunk, &mut events).err());
        (events, failed, decoder.finish())
    };
    let large_event = b"data: 1\n\ndata: 2\ndata: 45678\n\n";
    let large_response = b"data: 1\n\n: 23456\n: 23456\n: 23456\n: 23456\n: 23456\n";
    for size in 1..=64 {
        let (events, failed, last) = read(large_event, size);
        assert_eq!(failed, Some(Exceeded::Event { bytes_max: 12 }), "{size}");
        assert_eq!((events.len(), last), (1, None), "{size}");
        let (events, failed, last) = read(large_response, size);
        assert_eq!(failed, Some(Exceeded::Response { bytes_max: 40 }), "{size}");
        assert_eq!((events.len(), last), (1, None), "{size}");
    }
}

#[test]
fn an_event_and_a_response_of_exactly_the_limit_are_read() {
    let stream = b"data: 456789\n\n";
    let limits = Limits {
        event_bytes_max: 12,
        response_bytes_max: stream.len(),
    };
    let mut decoder = Decoder::with_limits(limits);
    let mut events = Vec::new();
    decoder.push(stream, &mut events).unwrap();
    assert_eq!(events[0].data, "456789");
    let full = decoder.push(b"\n", &mut events).unwrap_err();
    assert_eq!(decoder.push(b"", &mut events), Err(full));
}

#[test]
fn the_usual_limits_are_those_of_the_contract() {
    let usual = Limits::default();
    assert_eq!(usual.event_bytes_max, 16 * 1024 * 1024);
    assert_eq!(usual.response_bytes_max, 64 * 1024 * 1024);
}
