//! Tables as bytes: CSV, TSV, JSONL and plain lines become rows.
//!
//! The invariant here: the reader never holds more than one record, which is bounded, and the bytes it
//! was given last. A stray quote at the top of a large file is an error after one mebibyte.
//!
//! The readers do no input or output of their own: a caller feeds bytes in pieces of any size and takes
//! events. Line numbers are physical ones; a line ends with LF, CRLF or a lone CR, also inside quotes.

mod decode;
mod record;
mod spec;
mod table;

#[cfg(test)]
mod tests;

pub use decode::Encoding;
pub use record::RECORD_BYTES_MAX;
pub use spec::{Filters, Format, InputSpec, SpecError, delimiter_from_word};
pub(crate) use table::{Border, ObjectFault, object as parse_object};
pub use table::{Event, Problem, ROWS_MAX, ReaderState, TableReader, TableRow};
