//! From an event to a line of bytes.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use super::Event;

/// The line of an event, with its line end.
///
/// An error means that a value in it has no JSON form, which no event made of JSON has.
pub fn encode_line(event: &Event) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = Vec::with_capacity(256);
    event.serialize(&mut Serializer::with_formatter(&mut line, OneLine))?;
    line.push(b'\n');
    Ok(line)
}

/// Compact JSON in which nothing looks like a line end.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some(at) = rest.find(['\u{85}', '\u{2028}', '\u{2029}']) {
            let (before, behind) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            let mut behind = behind.chars();
            let found = behind.next().map_or(0, u32::from);
            write!(writer, "\\u{found:04x}")?;
            rest = behind.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}
