//! Where one command ends and the next begins.
//!
//! The invariant here: a frame above the limit is skipped, never held, and reported with its length; one
//! that announces more than [`SKIPPED_BYTES_MAX`] ends the channel at once. Sans-I/O: bytes in, frames out.

use bytes::{Buf as _, Bytes, BytesMut};

/// The longest command.
pub(crate) const COMMAND_BYTES_MAX: usize = 1_048_576;
/// The longest frame that is skipped to its end; a longer one is taken for a broken peer.
pub(crate) const SKIPPED_BYTES_MAX: usize = 16 * 1_048_576;

/// How frames are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A 4-byte big-endian length, then that many bytes.
    Length,
    /// One per line.
    Lines,
    /// By the first byte: `0x00` begins a length, since no command is as long as 16 MiB.
    Detected,
}

/// What a decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inbound {
    Frame(Bytes),
    /// Too long, and skipped.
    TooLong {
        bytes: u64,
    },
    /// So long that nothing after it can be read.
    Broken {
        bytes: u64,
    },
}

/// Splits a byte stream.
#[derive(Debug)]
pub(crate) struct FrameDecoder {
    framing: Framing,
    /// Bytes of a frame that is being skipped, and how many of a known length are still to come.
    skipping: Option<(u64, usize)>,
}

impl FrameDecoder {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            skipping: None,
        }
    }

    /// The framing, once it is known.
    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// The next frame in the buffer.
    pub(crate) fn decode(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        if self.framing == Framing::Detected {
            self.framing = match buffer.first()? {
                0 => Framing::Length,
                _ => Framing::Lines,
            };
        }
        match self.framing {
            Framing::Length => self.decode_length(buffer),
            Framing::Lines | Framing::Detected => self.decode_line(buffer),
        }
    }

    /// At the end of the stream: a last line without its end is a line too.
    pub(crate) fn finish(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        if self.framing == Framing::Length || buffer.is_empty() {
            return None;
        }
        let rest = buffer.len();
        self.line(buffer, rest)
    }

    fn decode_length(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        if self.skipping.is_none() {
            let header = buffer.first_chunk::<4>()?;
            let bytes = u32::from_be_bytes(*header);
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            if length > SKIPPED_BYTES_MAX {
                return Some(Inbound::Broken {
                    bytes: bytes.into(),
                });
            }
            if length <= COMMAND_BYTES_MAX {
                if buffer.len() < 4 + length {
                    return None;
                }
                buffer.advance(4);
                return Some(Inbound::Frame(buffer.split_to(length).freeze()));
            }
            buffer.advance(4);
            self.skipping = Some((bytes.into(), length));
        }
        let (_, left) = self.skipping.as_mut()?;
        let count = buffer.len().min(*left);
        buffer.advance(count);
        *left -= count;
        if *left > 0 {
            return None;
        }
        let (bytes, _) = self.skipping.take()?;
        Some(Inbound::TooLong { bytes })
    }

    fn decode_line(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        loop {
            let Some(end) = memchr::memchr(b'\n', buffer) else {
                return self.skip_long_line(buffer);
            };
            let found = self.line(buffer, end);
            buffer.advance(1);
            if found.is_some() {
                return found;
            }
        }
    }

    fn line(&mut self, buffer: &mut BytesMut, bytes: usize) -> Option<Inbound> {
        let line = buffer.split_to(bytes).freeze();
        if let Some((skipped, _)) = self.skipping.take() {
            return Some(Inbound::TooLong {
                bytes: skipped + bytes as u64,
            });
        }
        if bytes > COMMAND_BYTES_MAX {
            return Some(Inbound::TooLong {
                bytes: bytes as u64,
            });
        }
        // Between lines an empty one means nothing.
        (!line.trim_ascii().is_empty()).then_some(Inbound::Frame(line))
    }

    fn skip_long_line(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        if self.skipping.is_none() && buffer.len() <= COMMAND_BYTES_MAX {
            return None;
        }
        let (skipped, _) = self.skipping.get_or_insert((0, 0));
        *skipped += buffer.len() as u64;
        buffer.clear();
        let bytes = *skipped;
        (bytes > SKIPPED_BYTES_MAX as u64).then_some(Inbound::Broken { bytes })
    }
}

/// One frame with its length or line end, so that it leaves in one write.
pub(crate) fn encode(framing: Framing, event: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(event.len() + 4);
    if framing == Framing::Length {
        let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(event);
    } else {
        // JSON text of ours has no line end in it.
        frame.extend_from_slice(event);
        frame.extend_from_slice(b"\n");
    }
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(decoder: &mut FrameDecoder, pieces: &[&[u8]]) -> Vec<Inbound> {
        let mut buffer = BytesMut::new();
        let mut found = Vec::new();
        for piece in pieces {
            buffer.extend_from_slice(piece);
            while let Some(inbound) = decoder.decode(&mut buffer) {
                let is_broken = matches!(inbound, Inbound::Broken { .. });
                found.push(inbound);
                if is_broken {
                    return found;
                }
            }
        }
        found.extend(decoder.finish(&mut buffer));
        found
    }

    fn frame(text: &str) -> Inbound {
        Inbound::Frame(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn the_first_byte_decides_the_framing() {
        let sent = encode(Framing::Length, &Bytes::from_static(b"{}"));
        let mut decoder = FrameDecoder::new(Framing::Detected);
        assert_eq!(all(&mut decoder, &[&sent]), [frame("{}")]);
        let mut decoder = FrameDecoder::new(Framing::Detected);
        assert_eq!(
            all(&mut decoder, &[b"{}\n\n[]"]),
            [frame("{}"), frame("[]")]
        );
        assert_eq!(decoder.framing(), Framing::Lines);
    }

    #[test]
    fn a_long_frame_is_skipped_and_the_next_one_read() {
        let long = vec![b' '; COMMAND_BYTES_MAX + 1];
        let mut stream = encode(Framing::Length, &Bytes::from(long.clone())).to_vec();
        stream.extend_from_slice(&encode(Framing::Length, &Bytes::from_static(b"{}")));
        let bytes = long.len() as u64;
        let mut decoder = FrameDecoder::new(Framing::Length);
        assert_eq!(
            all(&mut decoder, &[&stream[..100], &stream[100..]]),
            [Inbound::TooLong { bytes }, frame("{}")]
        );
        let mut stream = long.clone();
        stream.extend_from_slice(b"\n{}\n");
        let mut decoder = FrameDecoder::new(Framing::Lines);
        assert_eq!(
            all(
                &mut decoder,
                &[&stream[..long.len() - 1], &stream[long.len() - 1..]]
            ),
            [Inbound::TooLong { bytes }, frame("{}")]
        );
    }

    #[test]
    fn a_frame_beyond_all_bounds_breaks_the_channel_before_it_is_read() {
        let mut decoder = FrameDecoder::new(Framing::Length);
        assert_eq!(
            all(&mut decoder, &[&u32::MAX.to_be_bytes()]),
            [Inbound::Broken {
                bytes: u32::MAX.into()
            }]
        );
    }

    proptest! {
        #[test]
        fn frames_survive_any_split(
            texts in proptest::collection::vec("[ -~]{0,40}", 0..6),
            cuts in proptest::collection::vec(0usize..200, 0..6),
        ) {
            let mut stream = Vec::new();
            for text in &texts {
                stream.extend_from_slice(&encode(Framing::Length, &Bytes::from(text.clone())));
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.push(0);
            cuts.push(stream.len());
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            let found = all(&mut FrameDecoder::new(Framing::Length), &pieces);
            let sent: Vec<Inbound> = texts.iter().map(|text| frame(text)).collect();
            prop_assert_eq!(found, sent);
        }
    }
}
