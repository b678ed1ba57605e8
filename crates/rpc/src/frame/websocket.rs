//! Websocket messages (RFC 6455, version 13, no extensions).
//!
//! Text messages carry frames of ours. Binary messages are skipped without being held, unless the
//! protocol spoken lets them carry JSON too ([`BinaryMessages`]).
//! Whether a text is UTF-8 is not checked here but by whoever reads it as JSON: a bad one then
//! gets an answer instead of costing the connection.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::{BinaryMessages, FrameError, Framing, Inbound, Skipped, take};

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CONTROL_BYTES_MAX: usize = 125;

/// In place of a short length: two or eight bytes of length follow.
const MEDIUM: u8 = 0x7E;
const LONG: u8 = 0x7F;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xA;

/// The code reported when a close frame carries none.
const NO_STATUS: u16 = 1005;

/// Which end of the connection we are: clients mask what they send, servers do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// A message of several frames, so far.
#[derive(Debug)]
enum Partial {
    Text(BytesMut),
    TooLarge(Skipped),
    Binary,
}

/// A frame header as read.
#[derive(Clone, Copy, Debug)]
struct Header {
    fin: bool,
    opcode: u8,
    mask: Option<[u8; 4]>,
    payload_bytes: u64,
}

/// Splits a byte stream into websocket messages.
#[derive(Debug)]
pub(crate) struct WebSocketDecoder {
    role: Role,
    frame_bytes_max: usize,
    binary: BinaryMessages,
    partial: Option<Partial>,
    /// A frame that is being dropped as it arrives, and how much of it is still to come.
    dropping: Option<(Header, u64)>,
}

impl WebSocketDecoder {
    pub(crate) fn new(role: Role, frame_bytes_max: usize) -> Self {
        Self {
            role,
            frame_bytes_max,
            binary: BinaryMessages::Skipped,
            partial: None,
            dropping: None,
        }
    }

    pub(super) fn set(&mut self, framing: &Framing) {
        self.frame_bytes_max = framing.frame_bytes_max;
        self.binary = framing.binary;
    }

    pub(super) fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Inbound>, FrameError> {
        loop {
            if let Some((header, left)) = self.dropping.take() {
                if let Some(found) = self.drop_some(buffer, header, left) {
                    return Ok(Some(found));
                }
                if self.dropping.is_some() {
                    return Ok(None);
                }
            }
            let Some((header, header_bytes)) = parse_header(buffer) else {
                return Ok(None);
            };
            self.check(&header)?;
            if header.opcode >= CLOSE {
                // Control frames are short, so waiting for the whole of one is bounded.
                let payload_bytes = usize::try_from(header.payload_bytes).unwrap_or(usize::MAX);
                if buffer.len() < header_bytes + payload_bytes {
                    return Ok(None);
                }
                buffer.advance(header_bytes);
                return Ok(Some(control(
                    header,
                    unmasked(buffer, payload_bytes, header.mask),
                )));
            }
            if !self.wanted(&header)? {
                buffer.advance(header_bytes);
                self.dropping = Some((header, header.payload_bytes));
                continue;
            }
            // `wanted` has compared it with the limit, which is a usize.
            let payload_bytes = usize::try_from(header.payload_bytes).unwrap_or(usize::MAX);
            if buffer.len() < header_bytes + payload_bytes {
                return Ok(None);
            }
            buffer.advance(header_bytes);
            let payload = unmasked(buffer, payload_bytes, header.mask);
            if let Some(message) = self.append(header, payload) {
                return Ok(Some(message));
            }
        }
    }

    /// Refuses what no conforming peer sends.
    fn check(&self, header: &Header) -> Result<(), FrameError> {
        let is_control = header.opcode >= CLOSE;
        match header.opcode {
            CONTINUATION if self.partial.is_none() => {
                Err(FrameError::Protocol("continuation of nothing"))
            }
            TEXT | BINARY if self.partial.is_some() => {
                Err(FrameError::Protocol("a message inside a message"))
            }
            CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG => Ok(()),
            _ => Err(FrameError::Protocol("reserved opcode")),
        }?;
        if header.mask.is_some() != (self.role == Role::Server) {
            return Err(FrameError::Protocol("wrong masking"));
        }
        if is_control && (!header.fin || header.payload_bytes > CONTROL_BYTES_MAX as u64) {
            return Err(FrameError::Protocol("control frame too long or in pieces"));
        }
        Ok(())
    }

    /// Whether this data frame belongs to a text within the limit. Turns the message into one to
    /// be skipped where it has just become too long.
    fn wanted(&mut self, header: &Header) -> Result<bool, FrameError> {
        let so_far = match &self.partial {
            None if header.opcode == BINARY && self.binary == BinaryMessages::Skipped => {
                self.partial = Some(Partial::Binary);
                return Ok(false);
            }
            None => 0,
            Some(Partial::Text(text)) => text.len(),
            Some(Partial::Binary | Partial::TooLarge(_)) => return Ok(false),
        };
        if header.payload_bytes <= (self.frame_bytes_max - so_far) as u64 {
            return Ok(true);
        }
        if self.role == Role::Server {
            return Err(FrameError::TooLarge);
        }
        let mut skipped = Skipped::default();
        if let Some(Partial::Text(mut text)) = self.partial.take() {
            let count = text.len();
            skipped.discard(&mut text, count);
        }
        self.partial = Some(Partial::TooLarge(skipped));
        Ok(false)
    }

    fn append(&mut self, header: Header, payload: Bytes) -> Option<Inbound> {
        match (self.partial.take(), header.fin) {
            (None, true) => Some(Inbound::Message(payload)),
            (None, false) => {
                self.partial = Some(Partial::Text(BytesMut::from(payload)));
                None
            }
            (Some(Partial::Text(mut text)), fin) => {
                text.extend_from_slice(&payload);
                if fin {
                    return Some(Inbound::Message(text.freeze()));
                }
                self.partial = Some(Partial::Text(text));
                None
            }
            // `wanted` keeps these from coming here.
            (Some(other @ (Partial::TooLarge(_) | Partial::Binary)), _) => {
                self.partial = Some(other);
                None
            }
        }
    }

    fn drop_some(&mut self, buffer: &mut BytesMut, header: Header, left: u64) -> Option<Inbound> {
        let count = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        match &mut self.partial {
            // Masked bytes are of no use as a head, but only clients skip, and servers do not mask.
            Some(Partial::TooLarge(skipped)) => skipped.discard(buffer, count),
            _ => buffer.advance(count),
        }
        let left = left - count as u64;
        if left > 0 {
            self.dropping = Some((header, left));
            return None;
        }
        if !header.fin {
            return None;
        }
        match self.partial.take() {
            Some(Partial::TooLarge(skipped)) => Some(skipped.report(self.frame_bytes_max)),
            _ => Some(Inbound::Alive),
        }
    }
}

/// The header at the front of `buffer` and its length, once it is all there. The reserved bits
/// are folded into the opcode, so that a set one is an opcode nobody knows.
fn parse_header(buffer: &[u8]) -> Option<(Header, usize)> {
    let [first, second] = *buffer.first_chunk::<2>()?;
    let (payload_bytes, mut at) = match second & !MASKED {
        MEDIUM => (
            u64::from(u16::from_be_bytes(*buffer[2..].first_chunk()?)),
            4,
        ),
        LONG => (u64::from_be_bytes(*buffer[2..].first_chunk()?), 10),
        short => (u64::from(short), 2),
    };
    let mask = if second & MASKED == 0 {
        None
    } else {
        let key = *buffer[at..].first_chunk::<4>()?;
        at += 4;
        Some(key)
    };
    let opcode = first & (RESERVED | 0x0F);
    Some((
        Header {
            fin: first & FIN != 0,
            opcode,
            mask,
            payload_bytes,
        },
        at,
    ))
}

fn unmasked(buffer: &mut BytesMut, count: usize, mask: Option<[u8; 4]>) -> Bytes {
    if let Some(key) = mask {
        apply_mask(&mut buffer[..count], key);
    }
    take(buffer, count)
}

fn control(header: Header, payload: Bytes) -> Inbound {
    match header.opcode {
        PING => Inbound::Ping(payload),
        CLOSE => Inbound::Close(
            payload
                .first_chunk()
                .map_or(NO_STATUS, |code| u16::from_be_bytes(*code)),
        ),
        _ => Inbound::Alive,
    }
}

/// Masking is its own inverse. Eight bytes at a time; the compiler makes vectors of it.
fn apply_mask(payload: &mut [u8], key: [u8; 4]) {
    let [a, b, c, d] = key;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut chunks = payload.chunks_exact_mut(8);
    for chunk in &mut chunks {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(chunk);
        chunk.copy_from_slice(&(u64::from_ne_bytes(bytes) ^ wide).to_ne_bytes());
    }
    for (byte, key) in chunks.into_remainder().iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// Writes websocket frames; one message is one frame unless it is longer than a fragment may be.
#[derive(Debug)]
pub(crate) struct WebSocketEncoder {
    pub(super) fragment_bytes_max: usize,
    /// Clients: random bytes for masks, used four at a time.
    masks: Option<MaskSource>,
}

impl WebSocketEncoder {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            fragment_bytes_max: usize::MAX,
            masks: (role == Role::Client).then(MaskSource::default),
        }
    }

    /// Whether payloads can be written as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.masks.is_none()
    }

    /// A text, or a fragment of one.
    pub(super) fn text(&mut self, out: &mut BytesMut, payload: &[u8], place: Place) {
        self.frame(out, place.first_byte(), payload);
    }

    /// The header of an unmasked text or fragment whose payload follows.
    pub(super) fn text_header(out: &mut BytesMut, payload_bytes: usize, place: Place) {
        put_header(out, place.first_byte(), payload_bytes, 0);
    }

    pub(super) fn ping(&mut self, out: &mut BytesMut) {
        self.frame(out, FIN | PING, b"");
    }

    pub(super) fn pong(&mut self, out: &mut BytesMut, payload: &[u8]) {
        self.frame(out, FIN | PONG, payload);
    }

    pub(super) fn close(&mut self, out: &mut BytesMut, code: u16, reason: &str) {
        let mut payload = BytesMut::with_capacity(CONTROL_BYTES_MAX);
        payload.put_u16(code);
        let room = CONTROL_BYTES_MAX - payload.len();
        payload.put_slice(&reason.as_bytes()[..reason.floor_char_boundary(room)]);
        self.frame(out, FIN | CLOSE, &payload);
    }

    fn frame(&mut self, out: &mut BytesMut, first: u8, payload: &[u8]) {
        let Some(masks) = &mut self.masks else {
            put_header(out, first, payload.len(), 0);
            out.put_slice(payload);
            return;
        };
        let key = masks.next_key();
        put_header(out, first, payload.len(), MASKED);
        out.put_slice(&key);
        let start = out.len();
        out.put_slice(payload);
        apply_mask(&mut out[start..], key);
    }
}

/// Where a frame stands in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Whole,
    First,
    Middle,
    Last,
}

impl Place {
    const fn first_byte(self) -> u8 {
        match self {
            Self::Whole => FIN | TEXT,
            Self::First => TEXT,
            Self::Middle => CONTINUATION,
            Self::Last => FIN | CONTINUATION,
        }
    }
}

fn put_header(out: &mut BytesMut, first: u8, payload_bytes: usize, masked: u8) {
    out.put_u8(first);
    match (u8::try_from(payload_bytes), u16::try_from(payload_bytes)) {
        (Ok(short @ 0..=125), _) => out.put_u8(masked | short),
        (_, Ok(medium)) => {
            out.put_u8(masked | MEDIUM);
            out.put_u16(medium);
        }
        _ => {
            out.put_u8(masked | LONG);
            out.put_u64(payload_bytes as u64);
        }
    }
}

/// Unpredictable masks at a fraction of a system call each.
#[derive(Debug, Default)]
struct MaskSource {
    pool: Bytes,
}

impl MaskSource {
    const POOL_BYTES: usize = 1024;

    fn next_key(&mut self) -> [u8; 4] {
        if self.pool.is_empty() {
            let mut fresh = [0; Self::POOL_BYTES];
            // Masks guard naive proxies against forged requests and hide nothing. Where the
            // system has no randomness, a constant mask is a legal one.
            if getrandom::fill(&mut fresh).is_err() {
                fresh.fill(0);
            }
            self.pool = Bytes::copy_from_slice(&fresh);
        }
        let key = self.pool.first_chunk().copied().unwrap_or_default();
        self.pool.advance(key.len().min(self.pool.len()));
        key
    }
}
