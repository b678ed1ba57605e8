//! Records of text: CSV records and lines, with physical line numbers and source positions.
//!
//! The invariant here: a record is bounded while it is read, not after. The splitters see the text once
//! and keep only the record they are in.

use csv_core::{ReadRecordResult, Reader as CsvCore, ReaderBuilder};

use super::decode::{DecodeFault, Decoder, Encoding};
use super::spec::{Format, InputSpec};
use crate::fanout::row::COLUMNS_MAX;

/// The longest record, in bytes of UTF-8 without its line end.
pub const RECORD_BYTES_MAX: usize = 1_048_576;

/// The text that a splitter is given at once; the buffer of a record grows by no more.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Its number, from 1; the header counts.
    pub(super) number: u64,
    /// The physical line of its first character, from 1.
    pub(super) line: u64,
    /// The position of its first character in the source.
    pub(super) offset: u64,
    /// Its cells; one for a line.
    pub(super) cells: Vec<String>,
}

/// The reason why no further record can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFault {
    Decode {
        fault: DecodeFault,
        line: u64,
        offset: u64,
    },
    TooLong {
        line: u64,
    },
    TooManyCells {
        line: u64,
    },
    OpenQuote {
        line: u64,
    },
}

/// The position of a reader between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordPosition {
    pub(super) encoding: Encoding,
    pub(super) offset: u64,
    pub(super) records: u64,
    pub(super) lines: LineCounter,
}

/// Counts physical lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineCounter {
    /// The current line, from 1.
    pub(super) line: u64,
    /// The last character was a CR: an LF behind it ends the same line.
    pub(super) after_cr: bool,
}

impl LineCounter {
    const fn new() -> Self {
        Self {
            line: 1,
            after_cr: false,
        }
    }

    fn pass(&mut self, text: &[u8]) {
        let mut from = 0;
        for at in memchr::memchr2_iter(b'\r', b'\n', text) {
            let joined = text[at] == b'\n' && self.after_cr && at == from;
            self.line += u64::from(!joined);
            self.after_cr = text[at] == b'\r';
            from = at + 1;
        }
        if from < text.len() {
            self.after_cr = false;
        }
    }
}

/// Reads records from bytes that arrive in pieces.
#[derive(Debug)]
pub(super) struct RecordReader {
    decoder: Decoder,
    /// Decoded text; the part before `at` was taken.
    text: Vec<u8>,
    at: usize,
    fault: Option<DecodeFault>,
    ended: bool,
    splitter: Splitter,
    lines: LineCounter,
    /// The position in the source of the next character.
    offset: u64,
    /// The position in the source of the current record.
    record_offset: u64,
    records: u64,
}

#[derive(Debug)]
enum Splitter {
    Csv(Box<CsvSplitter>),
    Lines(LineSplitter),
}

impl RecordReader {
    pub(super) fn new(spec: &InputSpec) -> Self {
        let splitter = match spec.format {
            Format::Csv | Format::Tsv => {
                Splitter::Csv(Box::new(CsvSplitter::new(spec.delimiter())))
            }
            Format::Jsonl | Format::Lines => Splitter::Lines(LineSplitter::default()),
        };
        Self {
            decoder: Decoder::new(spec.encoding),
            text: Vec::new(),
            at: 0,
            fault: None,
            ended: false,
            splitter,
            lines: LineCounter::new(),
            offset: 0,
            record_offset: 0,
            records: 0,
        }
    }

    /// A reader that continues behind a record.
    pub(super) fn resumed(spec: &InputSpec, position: RecordPosition) -> Self {
        Self {
            decoder: Decoder::resumed(position.encoding),
            lines: position.lines,
            offset: position.offset,
            records: position.records,
            ..Self::new(spec)
        }
    }

    /// The position behind the record that was returned last.
    pub(super) fn position(&self) -> RecordPosition {
        RecordPosition {
            encoding: self.decoder.encoding(),
            offset: self.offset,
            records: self.records,
            lines: self.lines,
        }
    }

    /// The bytes of buffers that the reader holds.
    pub(super) fn held_bytes(&self) -> usize {
        let record = match &self.splitter {
            Splitter::Csv(csv) => csv.cells.capacity() + csv.ends.capacity() * size_of::<usize>(),
            Splitter::Lines(lines) => lines.line.capacity(),
        };
        self.text.capacity() + record
    }

    /// Takes more bytes of the source.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.text.drain(..self.at);
        self.at = 0;
        if self.fault.is_none() {
            let before = self.decoder.mark_len();
            self.fault = self.decoder.decode(bytes, &mut self.text).err();
            self.offset += self.decoder.mark_len() - before;
        }
    }

    /// Takes the end of the source.
    pub(super) fn end(&mut self) {
        if !self.ended && self.fault.is_none() {
            let before = self.decoder.mark_len();
            self.fault = self.decoder.end(&mut self.text).err();
            self.offset += self.decoder.mark_len() - before;
        }
        self.ended = true;
    }

    /// The next record; none where more bytes are needed, or at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record>, RecordFault> {
        loop {
            let end = self.text.len().min(self.at + PIECE_BYTES_MAX);
            let piece = &self.text[self.at..end];
            if piece.is_empty() {
                return self.next_at_end();
            }
            if self.splitter.is_between_records() {
                self.record_offset = self.offset;
            }
            let step = match &mut self.splitter {
                Splitter::Csv(csv) => csv.take(piece, self.lines.line)?,
                Splitter::Lines(lines) => lines.take(piece, self.lines)?,
            };
            let taken = &piece[..step.taken];
            self.offset += self.decoder.encoding().source_len(taken);
            self.lines.pass(taken);
            self.at += step.taken;
            if let Some((line, cells)) = step.record {
                return Ok(Some(self.counted(line, cells)));
            }
        }
    }

    /// The record that the end of the source ends.
    fn next_at_end(&mut self) -> Result<Option<Record>, RecordFault> {
        if let Some(fault) = self.fault {
            return Err(RecordFault::Decode {
                fault,
                line: self.lines.line,
                offset: self.offset,
            });
        }
        if !self.ended {
            return Ok(None);
        }
        let last = match &mut self.splitter {
            Splitter::Csv(csv) => csv.end()?,
            Splitter::Lines(lines) => lines.end(),
        };
        Ok(last.map(|(line, cells)| self.counted(line, cells)))
    }

    fn counted(&mut self, line: u64, cells: Vec<String>) -> Record {
        self.records += 1;
        Record {
            number: self.records,
            line,
            offset: self.record_offset,
            cells,
        }
    }
}

impl Splitter {
    fn is_between_records(&self) -> bool {
        match self {
            Self::Csv(csv) => csv.line.is_none(),
            Self::Lines(lines) => lines.number.is_none(),
        }
    }
}

/// A line number and the cells of a record.
type Split = (u64, Vec<String>);

/// The outcome of one piece of text.
struct Step {
    taken: usize,
    record: Option<Split>,
}

/// Splits text into CSV records.
#[derive(Debug)]
struct CsvSplitter {
    core: CsvCore,
    /// The cells of the current record, one behind the other; the part before `cells_len` is used.
    cells: Vec<u8>,
    cells_len: usize,
    ends: Vec<usize>,
    ends_len: usize,
    /// The bytes of the current record so far.
    record_len: usize,
    /// The line of the current record; none between records.
    line: Option<u64>,
}

impl CsvSplitter {
    fn new(delimiter: u8) -> Self {
        let mut core = ReaderBuilder::new().delimiter(delimiter).build();
        // The core strips a mark of UTF-8 from its first bytes. The decoder has done so, and a record
        // behind a resumed position may begin with that character.
        core.read_record(b"\n", &mut [0; 8], &mut [0; 2]);
        Self {
            core,
            cells: Vec::new(),
            cells_len: 0,
            ends: vec![0; 16],
            ends_len: 0,
            record_len: 0,
            line: None,
        }
    }

    fn take(&mut self, text: &[u8], line: u64) -> Result<Step, RecordFault> {
        let Some(record_line) = self.line else {
            // Line ends between records are empty lines, or the second half of CRLF.
            let ends = text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n'));
            let taken = ends.count();
            if taken == 0 {
                self.line = Some(line);
                return self.take(text, line);
            }
            return Ok(Step {
                taken,
                record: None,
            });
        };
        // One byte more than a record may have: that of its line end.
        let room = RECORD_BYTES_MAX + 1 - self.record_len;
        let text = &text[..text.len().min(room)];
        let mut taken = 0;
        loop {
            let (result, read) = self.step(&text[taken..]);
            taken += read;
            self.record_len += read;
            match result {
                ReadRecordResult::Record => {
                    let record = Some((record_line, self.take_cells()));
                    return Ok(Step { taken, record });
                }
                ReadRecordResult::OutputEndsFull if self.ends_len > COLUMNS_MAX => {
                    return Err(RecordFault::TooManyCells { line: record_line });
                }
                ReadRecordResult::OutputEndsFull => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                // The buffer has room for all of the text, so it is never full.
                ReadRecordResult::InputEmpty
                | ReadRecordResult::End
                | ReadRecordResult::OutputFull => break,
            }
        }
        if self.record_len > RECORD_BYTES_MAX {
            return Err(RecordFault::TooLong { line: record_line });
        }
        Ok(Step {
            taken,
            record: None,
        })
    }

    fn step(&mut self, text: &[u8]) -> (ReadRecordResult, usize) {
        let needed = self.cells_len + text.len() + 1;
        if self.cells.len() < needed {
            self.cells.resize(needed, 0);
        }
        let cells = &mut self.cells[self.cells_len..];
        let ends = &mut self.ends[self.ends_len..];
        let (result, read, written, ended) = self.core.read_record(text, cells, ends);
        self.cells_len += written;
        self.ends_len += ended;
        (result, read)
    }

    /// Ends the last record as a line end would. A record that is still there then has an open quote.
    fn end(&mut self) -> Result<Option<Split>, RecordFault> {
        let Some(line) = self.line else {
            return Ok(None);
        };
        while let (result, _) = self.step(b"\n")
            && result != ReadRecordResult::Record
        {
            if result != ReadRecordResult::OutputEndsFull {
                // Only quoted cells have line ends, so the cells before the open one have them all.
                let closed = self.ends[..self.ends_len].last().copied().unwrap_or(0);
                let mut lines = LineCounter {
                    line,
                    after_cr: false,
                };
                lines.pass(&self.cells[..closed]);
                return Err(RecordFault::OpenQuote { line: lines.line });
            }
            self.ends.resize(self.ends.len() * 2, 0);
        }
        Ok(Some((line, self.take_cells())))
    }

    /// The cells of the record; the splitter is between records afterwards.
    fn take_cells(&mut self) -> Vec<String> {
        let mut from = 0;
        let cells = self.ends[..self.ends_len].iter().map(|end| {
            let cell = &self.cells[from..*end];
            from = *end;
            // The text is UTF-8 and is cut at ASCII characters only, so nothing is lost here.
            String::from_utf8_lossy(cell).into_owned()
        });
        let cells = cells.collect();
        self.cells_len = 0;
        self.ends_len = 0;
        self.record_len = 0;
        self.line = None;
        cells
    }
}

/// Splits text into lines.
#[derive(Debug, Default)]
struct LineSplitter {
    line: Vec<u8>,
    number: Option<u64>,
}

impl LineSplitter {
    fn take(&mut self, text: &[u8], lines: LineCounter) -> Result<Step, RecordFault> {
        if lines.after_cr && text[0] == b'\n' && self.number.is_none() {
            return Ok(Step {
                taken: 1,
                record: None,
            });
        }
        let number = *self.number.get_or_insert(lines.line);
        let end = memchr::memchr2(b'\r', b'\n', text);
        let part = &text[..end.unwrap_or(text.len())];
        if self.line.len() + part.len() > RECORD_BYTES_MAX {
            return Err(RecordFault::TooLong { line: number });
        }
        self.line.extend_from_slice(part);
        Ok(match end {
            None => Step {
                taken: text.len(),
                record: None,
            },
            Some(end) => Step {
                taken: end + 1,
                record: self.end(),
            },
        })
    }

    fn end(&mut self) -> Option<Split> {
        let number = self.number.take()?;
        let line = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        Some((number, vec![line]))
    }
}
