//! How an input is to be read: format, delimiter, encoding, filters.

use std::ffi::OsStr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::decode::Encoding;

/// The format of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// RFC 4180 records behind a header record.
    #[default]
    Csv,
    /// As CSV, with a TAB between the cells.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// One line per row, in one column with the name `line`.
    Lines,
}

impl Format {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Jsonl => "jsonl",
            Self::Lines => "lines",
        }
    }

    /// Finds the format of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Csv, Self::Tsv, Self::Jsonl, Self::Lines]
            .into_iter()
            .find(|format| format.as_str() == word)
    }

    /// Chooses the format by the suffix of a path; CSV where the suffix is not known.
    pub fn from_path(path: &Path) -> Self {
        let suffix = path.extension().map(OsStr::to_ascii_lowercase);
        match suffix.as_deref().and_then(|suffix| suffix.to_str()) {
            Some("tsv" | "tab") => Self::Tsv,
            Some("jsonl" | "ndjson") => Self::Jsonl,
            Some("txt") => Self::Lines,
            _ => Self::Csv,
        }
    }

    /// Returns true if the first record has the names of the columns.
    pub(super) const fn has_header(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }
}

/// How an input is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InputSpec {
    /// The format.
    pub format: Format,
    /// The byte between cells, where it is not that of the format.
    pub delimiter: Option<u8>,
    /// The encoding; found by the first bytes where it is not named.
    pub encoding: Option<Encoding>,
    /// The rows that are kept.
    pub filters: Filters,
}

impl InputSpec {
    /// The byte between cells.
    pub(super) fn delimiter(&self) -> u8 {
        let of_format = if self.format == Format::Tsv {
            b'\t'
        } else {
            b','
        };
        self.delimiter.unwrap_or(of_format)
    }
}

/// The rows of an input that become rows of the job: of those that have all the values of `values`, the
/// ones behind the first `offset`, at most `limit`, and of these a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Filters {
    /// Columns and the values they must have.
    pub values: Vec<(String, String)>,
    /// How many rows are passed over.
    pub offset: u64,
    /// The most rows that are kept.
    pub limit: Option<u64>,
    /// The number of rows that are chosen of those, by the hash of their key and `sample_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u64>,
    /// Another key gives another sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_key: Option<String>,
}

/// A description of an input that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The delimiter is not one usable byte.
    #[error("delimiter {0:?} is not one ASCII character other than a quote or a line end")]
    Delimiter(String),
}

/// Reads a delimiter: one ASCII character, or `\t` for TAB.
pub fn delimiter_from_word(word: &str) -> Result<u8, SpecError> {
    match word.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => Ok(*byte),
        _ => Err(SpecError::Delimiter(word.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_chooses_the_format() {
        let format = |path: &str| Format::from_path(Path::new(path)).as_str();
        let chosen = [
            "a.csv", "a.TAB", "a.tsv", "a.ndjson", "a.jsonl", "a.txt", "a", "a.xls",
        ];
        let formats = ["csv", "tsv", "tsv", "jsonl", "jsonl", "lines", "csv", "csv"];
        assert_eq!(chosen.map(format), formats);
    }

    #[test]
    fn a_delimiter_is_one_byte() {
        assert_eq!(delimiter_from_word(";"), Ok(b';'));
        assert_eq!(delimiter_from_word("\\t"), Ok(b'\t'));
        for wrong in ["", ";;", "é", "\"", "\n", "\0"] {
            assert!(delimiter_from_word(wrong).is_err(), "{wrong:?}");
        }
    }
}
