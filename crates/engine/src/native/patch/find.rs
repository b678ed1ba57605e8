//! Where the lines of a chunk stand in a file.
//!
//! The invariant here: each pass compares by a key that makes equality an equivalence, so one
//! linear search serves all four and no text makes it quadratic.
//!
//! What is done with a place is decided in the sibling `text`.

use std::borrow::Cow;

type Key = for<'a> fn(&'a str) -> Cow<'a, str>;

/// From strict to lenient; the first that matches anywhere wins.
const PASSES: [Key; 4] = [
    |line| Cow::Borrowed(line),
    |line| Cow::Borrowed(line.trim_end()),
    |line| Cow::Borrowed(line.trim()),
    plain,
];

/// Which positions come into question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// All from this line on.
    From(usize),
    /// Only the last possible, if it is not before this line.
    Last(usize),
}

/// The first line at which `wanted` stands in `lines`; `wanted` is not empty.
pub(super) fn find(lines: &[&str], wanted: &[&str], place: Where) -> Option<usize> {
    let start = match place {
        Where::From(start) => start,
        Where::Last(start) => lines
            .len()
            .checked_sub(wanted.len())
            .filter(|at| *at >= start)?,
    };
    let lines = lines.get(start..)?;
    let found = PASSES.iter().find_map(|key| search(lines, wanted, *key));
    found.map(|at| start + at)
}

/// The search of Knuth, Morris and Pratt, over lines.
fn search(lines: &[&str], wanted: &[&str], key: Key) -> Option<usize> {
    let wanted: Vec<_> = wanted.iter().map(|line| key(line)).collect();
    // At `i`: how long a true prefix of `wanted` also ends at its line `i`.
    let mut borders = vec![0; wanted.len()];
    for at in 1..wanted.len() {
        let mut length = borders[at - 1];
        while length > 0 && wanted[at] != wanted[length] {
            length = borders[length - 1];
        }
        borders[at] = length + usize::from(wanted[at] == wanted[length]);
    }
    let mut length = 0;
    for (at, line) in lines.iter().enumerate() {
        let line = key(line);
        while length > 0 && wanted[length] != line {
            length = borders[length - 1];
        }
        length += usize::from(wanted[length] == line);
        if length == wanted.len() {
            return Some(at + 1 - length);
        }
    }
    None
}

/// A line with typographic dashes, quotes and spaces made plain, trimmed.
fn plain(line: &str) -> Cow<'_, str> {
    let line = line.trim();
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let plain = |letter| match letter {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    };
    Cow::Owned(line.chars().map(plain).collect())
}
