//! Bytes to UTF-8 text, piece by piece.
//!
//! The invariant here: only whole characters leave the decoder, none of them NUL, and the position of
//! every character in the source can be computed from the text in front of it.

use serde::{Deserialize, Serialize};

/// An encoding of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, the low byte first.
    Utf16le,
    /// UTF-16, the high byte first.
    Utf16be,
    /// The code page of Windows in western Europe.
    Windows1252,
    /// ISO 8859-1.
    Latin1,
}

/// The characters of Windows-1252 for the bytes 0x80 to 0x9f; a byte without one stands for itself.
const WINDOWS_1252: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039,
    0x0152, 0x8d, 0x017d, 0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
    0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d, 0x017e, 0x0178,
];

impl Encoding {
    /// Finds the encoding of a name, in any case.
    pub fn from_word(word: &str) -> Option<Self> {
        match word.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" => Some(Self::Utf8),
            "utf-16" | "utf16" | "utf-16le" | "utf16le" => Some(Self::Utf16le),
            "utf-16be" | "utf16be" => Some(Self::Utf16be),
            "windows-1252" | "cp1252" => Some(Self::Windows1252),
            "iso-8859-1" | "latin-1" | "latin1" => Some(Self::Latin1),
            _ => None,
        }
    }

    /// The mark at the beginning of a text in this encoding.
    const fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => b"\xef\xbb\xbf",
            Self::Utf16le => b"\xff\xfe",
            Self::Utf16be => b"\xfe\xff",
            Self::Windows1252 | Self::Latin1 => b"",
        }
    }

    /// How many bytes of the source stand for these bytes of UTF-8.
    pub(super) fn source_len(self, text: &[u8]) -> u64 {
        let starts = |byte: &&u8| !(0x80..0xc0).contains(*byte);
        let count = match self {
            Self::Utf8 => text.len(),
            Self::Utf16le | Self::Utf16be => text
                .iter()
                .filter(starts)
                .map(|byte| if *byte < 0xf0 { 2 } else { 4 })
                .sum(),
            Self::Windows1252 | Self::Latin1 => text.iter().filter(starts).count(),
        };
        count as u64
    }
}

/// Decodes a source that arrives in pieces.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    encoding: Encoding,
    /// The encoding is certain: it was named, or the first bytes were seen.
    begun: bool,
    named: bool,
    /// The beginning of a character, or of the source, whose rest has not arrived.
    rest: Vec<u8>,
    /// The length of the mark that was left out.
    mark_len: u64,
}

/// A source that is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodeFault {
    NotText(Encoding),
    Nul,
}

impl Decoder {
    pub(super) fn new(named: Option<Encoding>) -> Self {
        Self {
            encoding: named.unwrap_or(Encoding::Utf8),
            begun: false,
            named: named.is_some(),
            rest: Vec::new(),
            mark_len: 0,
        }
    }

    /// A decoder behind the beginning of a source.
    pub(super) fn resumed(encoding: Encoding) -> Self {
        Self {
            begun: true,
            ..Self::new(Some(encoding))
        }
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The length of the mark at the beginning of the source, which is no text.
    pub(super) fn mark_len(&self) -> u64 {
        self.mark_len
    }

    /// Appends the text of these bytes. On a fault the text in front of it has been appended.
    pub(super) fn decode(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeFault> {
        self.rest.extend_from_slice(bytes);
        if !self.begun && self.rest.len() < 3 {
            return Ok(());
        }
        self.decode_rest(out, Ending::More)
    }

    /// Appends the text of the bytes that were kept for more.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), DecodeFault> {
        self.decode_rest(out, Ending::Last)
    }

    fn decode_rest(&mut self, out: &mut Vec<u8>, ending: Ending) -> Result<(), DecodeFault> {
        if !self.begun {
            self.begin();
        }
        let from = out.len();
        let bytes = std::mem::take(&mut self.rest);
        let (used, mut outcome) = match self.encoding {
            Encoding::Utf8 => utf8(&bytes, out),
            Encoding::Utf16le => utf16(&bytes, u16::from_le_bytes, out),
            Encoding::Utf16be => utf16(&bytes, u16::from_be_bytes, out),
            Encoding::Windows1252 => single_bytes(&bytes, windows_1252, out),
            Encoding::Latin1 => single_bytes(&bytes, char::from, out),
        };
        if outcome.is_ok() && used < bytes.len() {
            match ending {
                Ending::More => self.rest.extend_from_slice(&bytes[used..]),
                Ending::Last => outcome = Err(()),
            }
        }
        if let Some(nul) = memchr::memchr(0, &out[from..]) {
            out.truncate(from + nul);
            return Err(DecodeFault::Nul);
        }
        outcome.map_err(|()| DecodeFault::NotText(self.encoding))
    }

    /// Decides the encoding by the first bytes and drops the mark.
    fn begin(&mut self) {
        self.begun = true;
        let marked = [Encoding::Utf8, Encoding::Utf16le, Encoding::Utf16be]
            .into_iter()
            .find(|encoding| self.rest.starts_with(encoding.mark()));
        let utf16 = |encoding| matches!(encoding, Encoding::Utf16le | Encoding::Utf16be);
        let Some(marked) = marked else { return };
        // A mark decides unless another encoding was named; a named UTF-16 takes either order.
        let fits =
            !self.named || marked == self.encoding || (utf16(marked) && utf16(self.encoding));
        if fits {
            self.encoding = marked;
            self.mark_len = marked.mark().len() as u64;
            self.rest.drain(..marked.mark().len());
        }
    }
}

#[derive(Clone, Copy)]
enum Ending {
    More,
    Last,
}

/// Appends the whole characters; returns how many bytes they took.
fn utf8(bytes: &[u8], out: &mut Vec<u8>) -> (usize, Result<(), ()>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            out.extend_from_slice(text.as_bytes());
            (bytes.len(), Ok(()))
        }
        Err(error) => {
            let valid = error.valid_up_to();
            out.extend_from_slice(&bytes[..valid]);
            let outcome = error.error_len().map_or(Ok(()), |_| Err(()));
            (valid, outcome)
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, out: &mut Vec<u8>) -> (usize, Result<(), ()>) {
    let units = bytes.as_chunks().0.iter().map(|pair| unit(*pair));
    let mut used = 0;
    for decoded in char::decode_utf16(units) {
        match decoded {
            Ok(c) => {
                used += 2 * c.len_utf16();
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Err(lone) => {
                let is_first = (0xd800..0xdc00).contains(&lone.unpaired_surrogate());
                // The second half may be in the next piece.
                let outcome = if is_first && bytes.len() - used < 4 {
                    Ok(())
                } else {
                    Err(())
                };
                return (used, outcome);
            }
        }
    }
    (used, Ok(()))
}

fn single_bytes(
    bytes: &[u8],
    character: fn(u8) -> char,
    out: &mut Vec<u8>,
) -> (usize, Result<(), ()>) {
    for byte in bytes {
        out.extend_from_slice(character(*byte).encode_utf8(&mut [0; 4]).as_bytes());
    }
    (bytes.len(), Ok(()))
}

fn windows_1252(byte: u8) -> char {
    let special = byte
        .checked_sub(0x80)
        .and_then(|at| WINDOWS_1252.get(usize::from(at)));
    let special = special.and_then(|code| char::from_u32(u32::from(*code)));
    special.unwrap_or(char::from(byte))
}
