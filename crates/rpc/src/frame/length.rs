//! A 4-byte big-endian length, then that many bytes.

use bytes::{Buf as _, BytesMut};

use super::{Inbound, Skipped, take};

const HEADER_BYTES: usize = 4;

/// Splits a byte stream by the lengths in it.
#[derive(Debug)]
pub(crate) struct LengthDecoder {
    pub(super) frame_bytes_max: usize,
    /// A frame above the limit and how much of it is still to come.
    skipping: Option<(Skipped, usize)>,
}

impl LengthDecoder {
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        Self {
            frame_bytes_max,
            skipping: None,
        }
    }

    pub(super) fn decode(&mut self, buffer: &mut BytesMut) -> Option<Inbound> {
        if self.skipping.is_none() {
            let header = buffer.first_chunk::<HEADER_BYTES>()?;
            // A u32 fits a usize on every platform we build for.
            let frame_bytes = u32::from_be_bytes(*header) as usize;
            if frame_bytes <= self.frame_bytes_max {
                if buffer.len() < HEADER_BYTES + frame_bytes {
                    return None;
                }
                buffer.advance(HEADER_BYTES);
                return Some(Inbound::Message(take(buffer, frame_bytes)));
            }
            buffer.advance(HEADER_BYTES);
            self.skipping = Some((Skipped::default(), frame_bytes));
        }
        let (skipped, left) = self.skipping.as_mut()?;
        let count = buffer.len().min(*left);
        skipped.discard(buffer, count);
        *left -= count;
        if *left > 0 {
            return None;
        }
        self.skipping
            .take()
            .map(|(skipped, _)| skipped.report(self.frame_bytes_max))
    }
}
