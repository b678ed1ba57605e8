//! Records to rows: the header, the checks of every record, blank records, filters.
//!
//! The invariant here: the hash is chained over every record up to the reader's position, whether it
//! became a row or not. A file that gives the same hash up to a position has the same records there.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::decode::{DecodeFault, Encoding};
use super::record::{
    LineCounter, RECORD_BYTES_MAX, Record, RecordFault, RecordPosition, RecordReader,
};
use super::spec::{Format, InputSpec};
use crate::fanout::row::{COLUMNS_MAX, Columns, JsonFault, Members, Row, check_json};

/// The most rows of an input, filtered ones included.
pub const ROWS_MAX: i64 = 10_000_000;

/// A problem of an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The physical line, from 1; none where the problem concerns the whole input.
    pub line: Option<u64>,
    /// The problem, for people.
    pub message: String,
}

impl Problem {
    /// A problem of the whole input.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            line: None,
            message: message.into(),
        }
    }

    /// A problem of a line.
    pub fn at(line: u64, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            message: message.into(),
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// Its number, from 0: that of its record behind the header.
    pub seq: i64,
    /// Its physical line, from 1.
    pub line: u64,
    /// Its values.
    pub row: Row,
}

/// Something that the reader found.
#[derive(Clone, Debug)]
pub enum Event {
    /// The columns are known. JSONL has no such event: every row may add some.
    Columns,
    /// A row that passed the filters.
    Row(TableRow),
    /// A record that is no row: it is blank, or a filter left it out.
    Passed,
    /// A record that is not as it must be; the reader goes on behind it.
    Problem(Problem),
    /// A problem behind which nothing can be read.
    Fatal(Problem),
}

/// The state of a reader between two records, beside offset, hash, columns and blank records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReaderState {
    encoding: Encoding,
    records: u64,
    line: u64,
    after_cr: bool,
    rows: u64,
    matched: u64,
    kept: u64,
}

impl ReaderState {
    /// Returns true if the reader has seen a row.
    pub(crate) const fn has_rows(self) -> bool {
        self.rows > 0
    }
}

/// Where a reader stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Border {
    pub(crate) offset: u64,
    pub(crate) hash: [u8; 32],
    pub(crate) blank_rows: u64,
    pub(crate) state: ReaderState,
}

#[cfg(test)]
impl Border {
    /// The same place behind so many records.
    pub(super) fn with_records(mut self, records: u64) -> Self {
        self.state.records = records;
        self
    }
}

/// What is known of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    /// The first record will have their names.
    Awaited,
    /// They are known without a header; the caller has not been told.
    Given,
    /// The caller knows them, or learns them from each row.
    Done,
}

/// Reads the rows of an input that arrives in pieces.
#[derive(Debug)]
pub struct TableReader {
    spec: InputSpec,
    records: RecordReader,
    columns: Columns,
    header: Header,
    hash: [u8; 32],
    blank_rows: u64,
    /// Rows in front of the filters, rows with the values of the filters, rows behind all filters.
    rows: u64,
    matched: u64,
    kept: u64,
    /// The first of the blank JSONL lines since the last row. They are an error unless they are the last.
    blank_line: Option<u64>,
    waiting: Option<Record>,
    received: u64,
    ended: bool,
    done: bool,
}

impl TableReader {
    /// A reader at the beginning of an input.
    pub fn new(spec: InputSpec) -> Self {
        let (columns, header) = match spec.format {
            Format::Lines => (Columns::new(["line".to_owned()]), Header::Given),
            Format::Csv | Format::Tsv => (Columns::default(), Header::Awaited),
            Format::Jsonl => (Columns::default(), Header::Done),
        };
        Self {
            records: RecordReader::new(&spec),
            columns,
            header,
            hash: [0; 32],
            blank_rows: 0,
            rows: 0,
            matched: 0,
            kept: 0,
            blank_line: None,
            waiting: None,
            received: 0,
            ended: false,
            done: false,
            spec,
        }
    }

    /// A reader that continues behind a record of which it kept this much.
    pub(crate) fn resumed(spec: InputSpec, columns: Columns, border: &Border) -> Self {
        let state = border.state;
        let position = RecordPosition {
            encoding: state.encoding,
            offset: border.offset,
            records: state.records,
            lines: LineCounter {
                line: state.line,
                after_cr: state.after_cr,
            },
        };
        Self {
            records: RecordReader::resumed(&spec, position),
            columns,
            header: if spec.format.has_header() && state.records == 0 {
                Header::Awaited
            } else {
                Header::Done
            },
            hash: border.hash,
            blank_rows: border.blank_rows,
            rows: state.rows,
            matched: state.matched,
            kept: state.kept,
            received: border.offset,
            ..Self::new(spec)
        }
    }

    /// The columns known so far.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// How many bytes were pushed, from the beginning of the input.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many rows passed the filters.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// How many records have only empty cells.
    pub fn blank_rows(&self) -> u64 {
        self.blank_rows
    }

    /// The hash chained over the records so far.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// The bytes of buffers that the reader holds.
    pub fn held_bytes(&self) -> usize {
        self.records.held_bytes()
    }

    /// The position behind the record of the last event.
    pub(crate) fn border(&self) -> Border {
        let position = self.records.position();
        Border {
            offset: position.offset,
            hash: self.hash,
            blank_rows: self.blank_rows,
            state: ReaderState {
                encoding: position.encoding,
                records: position.records,
                line: position.lines.line,
                after_cr: position.lines.after_cr,
                rows: self.rows,
                matched: self.matched,
                kept: self.kept,
            },
        }
    }

    /// Things that people should know of the input, though it can be read.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let (true, [name]) = (self.spec.format.has_header(), self.columns.names()) {
            let other = [(';', ";"), ('\t', "\\t"), ('|', "|")];
            if let Some((_, shown)) = other.iter().find(|(other, _)| name.contains(*other)) {
                warnings.push(format!(
                    "only one column found; did you mean --delimiter '{shown}'?"
                ));
            }
        }
        if self.done && self.kept == 0 {
            let text = if self.rows > 0 {
                "no row passes the filters"
            } else {
                "input has no data rows"
            };
            warnings.push(text.to_owned());
        }
        warnings
    }

    /// Takes more bytes of the input.
    pub fn push(&mut self, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        self.records.push(bytes);
    }

    /// Takes the end of the input.
    pub fn end(&mut self) {
        self.ended = true;
        self.records.end();
    }

    /// The next event; none where more bytes are needed, or at the end.
    pub fn next_event(&mut self) -> Option<Event> {
        if self.done {
            return None;
        }
        if self.header == Header::Given {
            self.header = Header::Done;
            return Some(Event::Columns);
        }
        if let Some(record) = self.waiting.take() {
            return Some(self.event(record));
        }
        loop {
            let record = match self.records.next() {
                Err(fault) => {
                    self.done = true;
                    return Some(Event::Fatal(self.problem_of(fault)));
                }
                Ok(None) if !self.ended => return None,
                Ok(None) => {
                    self.done = true;
                    return (self.header == Header::Awaited).then(|| {
                        Event::Fatal(Problem::new("csv input must include a header row"))
                    });
                }
                Ok(Some(record)) => record,
            };
            if self.spec.format == Format::Jsonl {
                if record.cells[0].trim().is_empty() {
                    self.blank_line.get_or_insert(record.line);
                    continue;
                }
                if let Some(line) = self.blank_line.take() {
                    self.waiting = Some(record);
                    let message = format!("line {line} is not a JSON object");
                    return Some(Event::Problem(Problem::at(line, message)));
                }
            }
            return Some(self.event(record));
        }
    }

    fn event(&mut self, record: Record) -> Event {
        self.chain(&record);
        if self.header == Header::Awaited {
            return match self.read_header(&record) {
                Ok(()) => {
                    self.header = Header::Done;
                    Event::Columns
                }
                Err(problem) => {
                    self.done = true;
                    Event::Fatal(problem)
                }
            };
        }
        let header = u64::from(self.spec.format.has_header());
        let seq = i64::try_from(record.number - 1 - header).unwrap_or(i64::MAX);
        if seq >= ROWS_MAX {
            self.done = true;
            let message = format!("input has more than {ROWS_MAX} rows (line {})", record.line);
            return Event::Fatal(Problem::at(record.line, message));
        }
        let line = record.line;
        match self.row(record) {
            Err(problem) => Event::Problem(problem),
            Ok(row) if row.is_blank() => {
                self.blank_rows += 1;
                Event::Passed
            }
            Ok(row) if !self.passes_filters(&row) => Event::Passed,
            Ok(row) => Event::Row(TableRow { seq, line, row }),
        }
    }

    /// Adds a record to the hash; lengths keep apart what would be equal side by side.
    fn chain(&mut self, record: &Record) {
        let mut hasher = Sha256::new();
        hasher.update(self.hash);
        for cell in &record.cells {
            hasher.update((cell.len() as u64).to_le_bytes());
            hasher.update(cell.as_bytes());
        }
        self.hash = hasher.finalize().into();
    }

    fn read_header(&mut self, record: &Record) -> Result<(), Problem> {
        if record.cells.len() > COLUMNS_MAX {
            return Err(too_many_columns(record.line));
        }
        for (at, name) in record.cells.iter().enumerate() {
            if name.trim().is_empty() {
                let message = format!("csv header column {} has no name", at + 1);
                return Err(Problem::at(record.line, message));
            }
            if self.columns.contains(name) {
                let message = format!("csv header {name} is duplicated");
                return Err(Problem::at(record.line, message));
            }
            self.columns.add(name);
        }
        Ok(())
    }

    fn row(&mut self, record: Record) -> Result<Row, Problem> {
        let line = record.line;
        match self.spec.format {
            Format::Lines => Ok(Row::Cells(record.cells)),
            Format::Csv | Format::Tsv => {
                let (fields, columns) = (record.cells.len(), self.columns.names().len());
                let number = record.number;
                let row = Row::Cells(record.cells);
                if fields != columns && !row.is_blank() {
                    let message = format!(
                        "csv row {number} has {fields} fields but header has {columns} (line {line})"
                    );
                    return Err(Problem::at(line, message));
                }
                Ok(row)
            }
            Format::Jsonl => {
                let text = &record.cells[0];
                let members = object(text).map_err(|fault| match fault {
                    ObjectFault::Text(message) => format!("line {line} {message}"),
                    ObjectFault::Nul { at } => {
                        let encoding = self.records.position().encoding;
                        let offset = record.offset + encoding.source_len(&text.as_bytes()[..at]);
                        format!("line {line} has a NUL character (byte offset {offset})")
                    }
                });
                let members = members.map_err(|message| Problem::at(line, message))?;
                self.add_columns(&members, line)?;
                Ok(Row::Object(members))
            }
        }
    }

    fn add_columns(&mut self, members: &Members, line: u64) -> Result<(), Problem> {
        for name in members.names() {
            self.columns.add(name);
        }
        if self.columns.names().len() > COLUMNS_MAX {
            return Err(too_many_columns(line));
        }
        Ok(())
    }

    fn passes_filters(&mut self, row: &Row) -> bool {
        self.rows += 1;
        let filters = &self.spec.filters;
        let has_value = |(column, value): &(String, String)| {
            row.value(&self.columns, column).as_deref() == Some(value)
        };
        if !filters.values.iter().all(has_value) {
            return false;
        }
        self.matched += 1;
        let in_range =
            self.matched > filters.offset && filters.limit.is_none_or(|limit| self.kept < limit);
        self.kept += u64::from(in_range);
        in_range
    }

    fn problem_of(&self, fault: RecordFault) -> Problem {
        let number = self.records.position().records + 1;
        match fault {
            RecordFault::OpenQuote { line } => {
                Problem::at(line, format!("unclosed quote, opened at line {line}"))
            }
            RecordFault::TooLong { line } => {
                let row = if self.spec.format.has_header() {
                    "csv row"
                } else {
                    "row"
                };
                let message =
                    format!("{row} {number} is longer than {RECORD_BYTES_MAX} bytes (line {line})");
                Problem::at(line, message)
            }
            RecordFault::TooManyCells { line } => too_many_columns(line),
            RecordFault::Decode {
                fault,
                line,
                offset,
            } => {
                let what = match fault {
                    DecodeFault::Nul => "has a NUL character",
                    DecodeFault::NotText(Encoding::Utf16le | Encoding::Utf16be) => {
                        "is not valid UTF-16"
                    }
                    DecodeFault::NotText(_) => "is not valid UTF-8",
                };
                let message = format!("input {what} (line {line}, byte offset {offset})");
                Problem::at(line, message)
            }
        }
    }
}

fn too_many_columns(line: u64) -> Problem {
    let message = format!("input has more than {COLUMNS_MAX} columns (line {line})");
    Problem::at(line, message)
}

/// A text that is not a row.
pub(crate) enum ObjectFault {
    /// The reason, to be put behind the name of the line.
    Text(String),
    /// It has an escaped NUL character at this byte.
    Nul { at: usize },
}

/// Reads one JSON object that may be a row.
pub(crate) fn object(text: &str) -> Result<Members, ObjectFault> {
    let fault = |message: String| Err(ObjectFault::Text(message));
    if !text.trim_start().starts_with('{') {
        return fault("is not a JSON object".to_owned());
    }
    let members = match Members::parse(text) {
        Ok(members) => members,
        Err(error) => return fault(format!("is not valid JSON: {error}")),
    };
    match check_json(text) {
        Ok(()) => Ok(members),
        Err(JsonFault::Nul) => Err(ObjectFault::Nul {
            at: text.find("\\u0000").unwrap_or(0),
        }),
        Err(other) => fault(other.to_string()),
    }
}
