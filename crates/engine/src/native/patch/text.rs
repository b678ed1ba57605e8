//! What a file holds after its chunks.
//!
//! The invariant here: a line that no chunk removes keeps its bytes and its terminator, and so
//! does a byte order mark. Only a last line without terminator gets one, when lines come after it.
//!
//! Where lines stand is found in the sibling `find`; files are not touched here.

use std::borrow::Cow;

use super::find::{Where, find};
use super::{Chunk, Line, PatchError};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Lines that take the place of `start..end`.
struct Edit<'a> {
    start: usize,
    lines: Cow<'a, [Line]>,
}

/// What `old` becomes by `chunks`; `path` is for the error's text.
pub fn updated(old: &str, chunks: &[Chunk], path: &str) -> Result<String, PatchError> {
    let (mark, text) = match old.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (&old[..BYTE_ORDER_MARK.len_utf8()], text),
        None => ("", old),
    };
    let whole: Vec<&str> = text.split_inclusive('\n').collect();
    let lines: Vec<&str> = whole.iter().map(|line| bare(line)).collect();
    let mut edits = Vec::new();
    let mut cursor = 0;
    for chunk in chunks {
        edits.push(edit(&lines, chunk, &mut cursor, path)?);
    }
    // Chunks are in file order but for those that append.
    edits.sort_by_key(|edit| edit.start);
    let mut new = New {
        text: mark.to_owned(),
        start: mark.len(),
        terminator: prevailing(&whole),
    };
    let mut at = 0;
    for edit in &edits {
        whole[at..edit.start].iter().for_each(|line| new.keep(line));
        at = edit.start;
        for line in edit.lines.iter() {
            match line {
                Line::Context(_) => new.keep(whole[at]),
                Line::Removed(_) => {}
                Line::Added(text) => new.add(text),
            }
            at += usize::from(!matches!(line, Line::Added(_)));
        }
    }
    whole[at..].iter().for_each(|line| new.keep(line));
    Ok(new.text)
}

fn edit<'a>(
    lines: &[&str],
    chunk: &'a Chunk,
    cursor: &mut usize,
    path: &str,
) -> Result<Edit<'a>, PatchError> {
    if let Some(context) = &chunk.context {
        let Some(at) = find(lines, &[context], Where::From(*cursor)) else {
            let (context, path) = (context.clone(), path.to_owned());
            return Err(PatchError::Context { context, path });
        };
        *cursor = at + 1;
    }
    let place = if chunk.end_of_file {
        Where::Last(*cursor)
    } else {
        Where::From(*cursor)
    };
    let old = chunk.old_lines();
    if old.is_empty() {
        return Ok(insertion(
            lines,
            chunk,
            *cursor,
            Cow::Borrowed(&chunk.lines),
        ));
    }
    if let Some(start) = find(lines, &old, place) {
        *cursor = start + old.len();
        return Ok(Edit {
            start,
            lines: Cow::Borrowed(&chunk.lines),
        });
    }
    if let Some(fewer) = without_last_empty(&chunk.lines) {
        let old = &old[..old.len() - 1];
        if old.is_empty() {
            return Ok(insertion(lines, chunk, *cursor, Cow::Owned(fewer)));
        }
        if let Some(start) = find(lines, old, place) {
            *cursor = start + old.len();
            return Ok(Edit {
                start,
                lines: Cow::Owned(fewer),
            });
        }
    }
    Err(PatchError::Lines {
        lines: old.join("\n"),
        path: path.to_owned(),
    })
}

/// Behind the context line if there is one, else at the end.
fn insertion<'a>(lines: &[&str], chunk: &Chunk, cursor: usize, added: Cow<'a, [Line]>) -> Edit<'a> {
    let at_cursor = chunk.context.is_some() && !chunk.end_of_file;
    Edit {
        start: if at_cursor { cursor } else { lines.len() },
        lines: added,
    }
}

/// The same without the empty line the old side ends with, and without the new side's.
///
/// Models end a chunk with the empty "line" behind the file's last terminator, or with the blank
/// line that parts it from the next operation.
fn without_last_empty(lines: &[Line]) -> Option<Vec<Line>> {
    let last_old = lines
        .iter()
        .rposition(|line| !matches!(line, Line::Added(_)))?;
    let is_context = match &lines[last_old] {
        Line::Context(text) if text.is_empty() => true,
        Line::Removed(text) if text.is_empty() => false,
        Line::Context(_) | Line::Removed(_) | Line::Added(_) => return None,
    };
    let mut fewer = lines.to_vec();
    if is_context {
        // It is new text now, and goes with the new side's last line if it is that.
        fewer[last_old] = Line::Added(String::new());
    } else {
        fewer.remove(last_old);
    }
    if fewer.last() == Some(&Line::Added(String::new())) {
        fewer.pop();
    }
    Some(fewer)
}

fn bare(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The terminator most lines have.
fn prevailing(lines: &[&str]) -> &'static str {
    let terminated = lines.iter().filter(|line| line.ends_with('\n')).count();
    let returned = lines.iter().filter(|line| line.ends_with("\r\n")).count();
    if returned * 2 > terminated {
        "\r\n"
    } else {
        "\n"
    }
}

struct New {
    text: String,
    /// Where the first line begins: behind the mark.
    start: usize,
    terminator: &'static str,
}

impl New {
    fn keep(&mut self, line: &str) {
        self.terminate();
        self.text.push_str(line);
    }

    fn add(&mut self, line: &str) {
        self.terminate();
        self.text.push_str(line);
        self.text.push_str(self.terminator);
    }

    fn terminate(&mut self) {
        if self.text.len() > self.start && !self.text.ends_with('\n') {
            self.text.push_str(self.terminator);
        }
    }
}
