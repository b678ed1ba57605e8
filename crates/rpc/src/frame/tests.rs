//! Every framing against arbitrary splits of its input, its limits, and bytes that are no frames.

use bytes::{BufMut as _, Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

const LIMIT: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Lines,
    Length,
    ToServer,
    ToClient,
}

impl Kind {
    const ALL: [Kind; 4] = [Self::Lines, Self::Length, Self::ToServer, Self::ToClient];

    fn decoder(self) -> Decoder {
        match self {
            Self::Lines => Decoder::Lines(LinesDecoder::new(LIMIT)),
            Self::Length => Decoder::Length(LengthDecoder::new(LIMIT)),
            Self::ToServer => Decoder::WebSocket(WebSocketDecoder::new(Role::Server, LIMIT)),
            Self::ToClient => Decoder::WebSocket(WebSocketDecoder::new(Role::Client, LIMIT)),
        }
    }

    fn encoder(self) -> Encoder {
        match self {
            Self::Lines => Encoder::Lines,
            Self::Length => Encoder::Length,
            Self::ToServer => Encoder::WebSocket(WebSocketEncoder::new(Role::Client)),
            Self::ToClient => Encoder::WebSocket(WebSocketEncoder::new(Role::Server)),
        }
    }
}

/// Writes `frames`, then reads the bytes in pieces of the given sizes.
fn passed_through(framing: Kind, frames: &[Bytes], pieces: &[usize]) -> Vec<Inbound> {
    let written = written(framing, frames);
    read(framing, &written, pieces).expect("well-formed")
}

fn written(framing: Kind, frames: &[Bytes]) -> Vec<u8> {
    written_by(framing.encoder(), frames)
}

fn written_by(encoder: Encoder, frames: &[Bytes]) -> Vec<u8> {
    write_all(encoder, |writer| {
        for frame in frames {
            writer.push(frame.clone());
        }
    })
}

fn write_all(encoder: Encoder, push: impl FnOnce(&mut FrameWriter)) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut writer = FrameWriter::stream(near, encoder);
        push(&mut writer);
        writer
            .flush(std::time::Duration::from_secs(10))
            .await
            .unwrap();
        drop(writer);
        let mut out = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut far, &mut out)
            .await
            .unwrap();
        out
    })
}

fn read(framing: Kind, bytes: &[u8], pieces: &[usize]) -> Result<Vec<Inbound>, FrameError> {
    let mut decoder = framing.decoder();
    let mut buffer = BytesMut::new();
    let mut found = Vec::new();
    let mut rest = bytes;
    let mut pieces = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let count = pieces.next().unwrap_or(1).clamp(1, rest.len());
        buffer.extend_from_slice(&rest[..count]);
        rest = &rest[count..];
        while let Some(inbound) = decoder.decode(&mut buffer)? {
            found.push(inbound);
        }
    }
    while let Some(inbound) = decoder.finish(&mut buffer) {
        found.push(inbound);
    }
    Ok(found)
}

fn message(text: &str) -> Inbound {
    Inbound::Message(Bytes::copy_from_slice(text.as_bytes()))
}

proptest! {
    #[test]
    fn frames_come_back_whole_however_the_bytes_arrive(
        texts in prop::collection::vec("[ -~é]{1,90}", 0..12),
        pieces in prop::collection::vec(1usize..64, 1..8),
    ) {
        let frames: Vec<Bytes> = texts.iter().map(|text| format!("<{text}>").into()).collect();
        let expected: Vec<Inbound> = frames.iter().cloned().map(Inbound::Message).collect();
        for framing in Kind::ALL {
            prop_assert_eq!(&passed_through(framing, &frames, &pieces), &expected, "{:?}", framing);
        }
    }

    #[test]
    fn a_frame_above_the_limit_is_skipped_and_the_next_one_is_read(
        excess in 1usize..1000,
        pieces in prop::collection::vec(1usize..64, 1..8),
    ) {
        let long = Bytes::from(vec![b'x'; LIMIT + excess]);
        let frames = ["before".into(), long.clone(), "after".into()];
        let skipped = Inbound::TooLarge(TooLarge {
            bytes: long.len() as u64,
            limit: LIMIT,
            head: long.slice(..HEAD_BYTES_KEPT),
        });
        let expected = [message("before"), skipped, message("after")];
        for framing in [Kind::Lines, Kind::Length, Kind::ToClient] {
            prop_assert_eq!(&passed_through(framing, &frames, &pieces)[..], &expected[..], "{:?}", framing);
        }
        let to_server = read(Kind::ToServer, &written(Kind::ToServer, &frames), &pieces);
        prop_assert!(matches!(to_server, Err(FrameError::TooLarge)));
    }

    #[test]
    fn a_message_in_fragments_is_one_message(
        parts in prop::collection::vec("[a-z]{0,20}", 1..6),
        pieces in prop::collection::vec(1usize..16, 1..4),
    ) {
        let mut bytes = BytesMut::new();
        for (index, part) in parts.iter().enumerate() {
            let opcode = u8::from(index == 0);
            let fin = if index + 1 == parts.len() { 0x80 } else { 0 };
            raw_frame(&mut bytes, fin | opcode, part.as_bytes());
            // Control frames may come between the fragments.
            raw_frame(&mut bytes, 0x89, b"p");
        }
        let mut found = read(Kind::ToClient, &bytes, &pieces).unwrap();
        found.retain(|inbound| !matches!(inbound, Inbound::Ping(_)));
        prop_assert_eq!(found, vec![message(&parts.concat())]);
    }

    #[test]
    fn random_bytes_are_never_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        pieces in prop::collection::vec(1usize..64, 1..4),
    ) {
        for framing in Kind::ALL {
            let _ = read(framing, &bytes, &pieces);
        }
    }
}

/// An unmasked frame as a server writes it.
fn raw_frame(out: &mut BytesMut, first: u8, payload: &[u8]) {
    out.put_u8(first);
    out.put_u8(u8::try_from(payload.len()).unwrap());
    out.put_slice(payload);
}

fn to_client(frames: &[(u8, &[u8])]) -> Result<Vec<Inbound>, FrameError> {
    let mut bytes = BytesMut::new();
    for (first, payload) in frames {
        raw_frame(&mut bytes, *first, payload);
    }
    read(Kind::ToClient, &bytes, &[7])
}

#[test]
fn blank_lines_mean_nothing_and_the_last_line_needs_no_end() {
    let found = read(Kind::Lines, b"\n \r\n{\"a\":1}\r\n\n\t\n{\"b\":2}", &[3]).unwrap();
    assert_eq!(found, [message("{\"a\":1}\r"), message("{\"b\":2}")]);
}

#[test]
fn json_over_several_lines_is_written_on_one() {
    let found = passed_through(Kind::Lines, &["{\n \"a\": 1\n}".into()], &[5]);
    assert_eq!(found, [message("{  \"a\": 1 }")]);
}

#[test]
fn large_payloads_are_written_from_where_they_are() {
    let long = Bytes::from(vec![b'y'; 100_000]);
    for framing in [Kind::Lines, Kind::Length, Kind::ToClient, Kind::ToServer] {
        let bytes = written(framing, &["a".into(), long.clone(), "b".into()]);
        assert!(bytes.len() >= 100_002, "{framing:?}");
    }
    let lines = written(Kind::Lines, &["a".into(), long.clone(), "b".into()]);
    assert_eq!(&lines[..2], b"a\n");
    assert_eq!(&lines[100_002..], b"\nb\n");
}

#[test]
fn a_length_frame_cut_off_by_the_end_is_no_frame() {
    assert_eq!(read(Kind::Length, b"\0\0\0\x05abc", &[2]).unwrap(), []);
    assert_eq!(
        read(Kind::Length, b"\0\0\0\0", &[1]).unwrap(),
        [message("")]
    );
}

#[test]
fn binary_messages_are_ignored_and_control_frames_reported() {
    let found = to_client(&[
        (0x82, b"binary"),
        (0x02, b"bin"),
        (0x80, b"ary"),
        (0x81, b"text"),
        (0x89, b"ping"),
        (0x8A, b"pong"),
        (0x88, &[0x03, 0xE9, b'b']),
    ])
    .unwrap();
    assert_eq!(
        found,
        [
            Inbound::Alive,
            Inbound::Alive,
            message("text"),
            Inbound::Ping("ping".into()),
            Inbound::Alive,
            Inbound::Close(1001),
        ]
    );
    assert_eq!(to_client(&[(0x88, b"")]).unwrap(), [Inbound::Close(1005)]);
}

#[test]
fn what_no_conforming_peer_sends_is_a_violation() {
    let violations: [&[(u8, &[u8])]; 7] = [
        &[(0x80, b"continuation of nothing")],
        &[(0x01, b"a"), (0x81, b"inside")],
        &[(0x83, b"reserved opcode")],
        &[(0x8B, b"reserved control")],
        &[(0xC1, b"reserved bit")],
        &[(0x09, b"ping in pieces")],
        &[(0x89, &[0; 125]), (0x91, b"")],
    ];
    for frames in violations {
        assert!(
            matches!(to_client(frames), Err(FrameError::Protocol(_))),
            "{frames:?}"
        );
    }
    let unmasked = read(Kind::ToServer, b"\x81\x01a", &[9]);
    assert!(matches!(unmasked, Err(FrameError::Protocol(_))));
    let long_ping = read(Kind::ToClient, &[0x89, 126, 0, 126], &[9]);
    assert!(matches!(long_ping, Err(FrameError::Protocol(_))));
}

#[test]
fn an_announced_length_costs_no_memory() {
    let mut decoder = Kind::ToServer.decoder();
    let mut buffer = BytesMut::from(
        &[
            0x81, 0xFF, 0x7F, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4,
        ][..],
    );
    assert!(matches!(
        decoder.decode(&mut buffer),
        Err(FrameError::TooLarge)
    ));
    assert!(buffer.capacity() < 1024);
}

#[test]
fn a_long_message_is_cut_into_fragments_that_are_read_as_one() {
    for kind in [Kind::ToServer, Kind::ToClient] {
        let mut encoder = kind.encoder();
        if let Encoder::WebSocket(websocket) = &mut encoder {
            websocket.fragment_bytes_max = 7;
        }
        let frames = [Bytes::from("x".repeat(50)), Bytes::from("y".repeat(7))];
        let bytes = written_by(encoder, &frames);
        // The first fragment is a text that goes on, the second message one final text.
        assert_eq!(bytes.first(), Some(&0x01), "{kind:?}");
        let read = read(kind, &bytes, &[3]).expect("well-formed");
        assert_eq!(read, frames.map(Inbound::Message), "{kind:?}");
    }
}

#[test]
fn a_frame_that_is_written_in_place_looks_like_one_that_was_pushed() {
    // What a client writes is masked differently each time.
    for kind in [Kind::Lines, Kind::Length, Kind::ToClient] {
        for frame in ["short", &"long ".repeat(10_000)] {
            let in_place = write_all(kind.encoder(), |writer| {
                writer.push_written(frame.len(), |out| out.extend_from_slice(frame.as_bytes()));
            });
            let pushed = written(kind, &[frame.to_owned().into()]);
            assert!(in_place == pushed, "{kind:?}, {} bytes", frame.len());
        }
    }
    let masked = write_all(Kind::ToServer.encoder(), |writer| {
        writer.push_written(5, |out| out.extend_from_slice(b"short"));
    });
    let found = read(Kind::ToServer, &masked, &[3]).unwrap();
    assert_eq!(found, [Inbound::Message("short".into())]);
}

#[test]
fn a_close_reason_is_cut_between_characters() {
    let mut out = BytesMut::new();
    WebSocketEncoder::new(Role::Server).close(&mut out, 1002, &"é".repeat(100));
    assert_eq!(out[..4], [0x88, 2 + 122, 0x03, 0xEA]);
    assert!(std::str::from_utf8(&out[4..]).is_ok());
}
