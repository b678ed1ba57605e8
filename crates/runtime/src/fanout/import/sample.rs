//! A sample of the rows of an input: those with the smallest hash of their key and the key of the sample.
//!
//! The invariant here: the same rows and the same key give the same sample, in whatever order the rows
//! come, and a row that is added to the input displaces at most one row of it. A sample is complete only
//! behind the last row, so nothing is committed before.

use std::collections::BinaryHeap;

use sha2::{Digest, Sha256};

use crate::fanout::input::{Filters, Problem, TableRow};
use crate::fanout::row::Columns;

/// The most rows of a sample: they are held in memory and committed together.
pub const SAMPLE_ROWS_MAX: u64 = 10_000;

/// The most bytes of a sample.
const SAMPLE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A row with the hash by which it is chosen.
struct Candidate {
    hash: [u8; 32],
    bytes: usize,
    row: TableRow,
}

impl Candidate {
    fn rank(&self) -> ([u8; 32], i64) {
        (self.hash, self.row.seq)
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The sample of one import.
pub(super) struct Sample {
    rows_max: usize,
    key: String,
    id_column: Option<String>,
    /// The largest hash is on top.
    rows: BinaryHeap<Candidate>,
    bytes: usize,
}

impl Sample {
    /// The sample that the filters ask for.
    pub(super) fn new(filters: &Filters, id_column: Option<&str>) -> Option<Self> {
        let rows_max = filters.sample?.min(SAMPLE_ROWS_MAX);
        Some(Self {
            rows_max: usize::try_from(rows_max).unwrap_or(0),
            key: filters.sample_key.clone().unwrap_or_default(),
            id_column: id_column.map(str::to_owned),
            rows: BinaryHeap::new(),
            bytes: 0,
        })
    }

    /// Takes a row in, if it belongs to the sample of the rows so far.
    pub(super) fn add(&mut self, row: TableRow, columns: &Columns) -> Result<(), Problem> {
        let hash = self.hash(&row, columns);
        let is_full = self.rows.len() >= self.rows_max;
        if is_full && self.rows.peek().is_none_or(|last| last.hash <= hash) {
            return Ok(());
        }
        let bytes = row.row.to_stored().as_str().len();
        self.bytes += bytes;
        self.rows.push(Candidate { hash, bytes, row });
        if is_full && let Some(displaced) = self.rows.pop() {
            self.bytes -= displaced.bytes;
        }
        if self.bytes > SAMPLE_BYTES_MAX {
            let message = format!("the sample has more than {SAMPLE_BYTES_MAX} bytes");
            return Err(Problem::new(message));
        }
        Ok(())
    }

    /// The key of a row is its id, or all its cells: then the sample does not depend on the order of the
    /// rows.
    fn hash(&self, row: &TableRow, columns: &Columns) -> [u8; 32] {
        let id = self.id_column.as_ref();
        let id = id.and_then(|column| row.row.value(columns, column));
        let id = id.filter(|id| !id.trim().is_empty());
        let row_key = match id {
            Some(id) => id.trim().to_owned(),
            None => row.row.to_json(columns),
        };
        let mut hasher = Sha256::new();
        hasher.update((row_key.len() as u64).to_le_bytes());
        hasher.update(row_key);
        hasher.update(&self.key);
        hasher.finalize().into()
    }

    /// The rows of the sample, in input order.
    pub(super) fn into_rows(self) -> Vec<TableRow> {
        let mut rows: Vec<_> = self.rows.into_iter().map(|it| it.row).collect();
        rows.sort_by_key(|row| row.seq);
        rows
    }
}
