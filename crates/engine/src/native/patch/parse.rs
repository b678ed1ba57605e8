//! The grammar of patches, with the leniency models need.
//!
//! The invariant here: no text panics, and a text that is read is read one way. A blank line is
//! context inside an update and an error everywhere else, so that a forgotten `+` never changes
//! what a new file holds.
//!
//! No file is looked at here; see [`Plan`](super::Plan).

use super::{PATCH_BYTES_MAX, PatchError};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const ENVIRONMENT: &str = "*** Environment ID: ";

/// A patch as it was written: at least one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// What it does, in order.
    pub operations: Vec<Operation>,
}

/// What a patch does to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Make or replace a file.
    Add {
        /// The file.
        path: String,
        /// All it holds then.
        content: String,
    },
    /// Remove a file.
    Delete {
        /// The file.
        path: String,
    },
    /// Change a file, move it, or both.
    Update {
        /// The file.
        path: String,
        /// Its new place.
        move_to: Option<String>,
        /// The changes, in the order of the file; empty only with `move_to`.
        chunks: Vec<Chunk>,
    },
}

/// One change inside a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The line behind `@@` that stands somewhere before the change.
    pub context: Option<String>,
    /// What was and what is to be.
    pub lines: Vec<Line>,
    /// Whether the old lines are the file's last.
    pub end_of_file: bool,
}

/// One line of a chunk, without prefix and terminator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Stays.
    Context(String),
    /// Goes.
    Removed(String),
    /// Comes.
    Added(String),
}

impl Chunk {
    /// The lines the file must hold: context and removed.
    pub fn old_lines(&self) -> Vec<&str> {
        let old = self
            .lines
            .iter()
            .filter(|line| !matches!(line, Line::Added(_)));
        old.map(Line::text).collect()
    }
}

impl Line {
    /// The line itself.
    pub fn text(&self) -> &str {
        match self {
            Self::Context(text) | Self::Removed(text) | Self::Added(text) => text,
        }
    }
}

impl Patch {
    /// Reads a patch.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        if text.len() > PATCH_BYTES_MAX {
            let problem = format!("The patch is larger than {PATCH_BYTES_MAX} bytes");
            return Err(PatchError::Invalid(problem));
        }
        let lines = body(text)?;
        let mut reader = Reader { lines, at: 0 };
        if reader
            .peek()
            .is_some_and(|line| line.trim_start().starts_with(ENVIRONMENT))
        {
            reader.at += 1;
        }
        let mut operations = Vec::new();
        while let Some(line) = reader.peek() {
            operations.push(reader.operation(line.trim())?);
        }
        if operations.is_empty() {
            return Err(PatchError::Empty);
        }
        Ok(Self { operations })
    }
}

/// The lines between the outer markers.
fn body(text: &str) -> Result<Vec<&str>, PatchError> {
    let mut lines: Vec<&str> = text.trim().lines().collect();
    if let [first, inner @ .., last] = lines.as_slice()
        && matches!(first.trim_end(), "<<EOF" | "<<'EOF'" | "<<\"EOF\"")
        && last.trim() == "EOF"
    {
        let blank = |line: &&&str| line.trim().is_empty();
        let front = inner.iter().take_while(blank).count();
        let back = inner[front..].iter().rev().take_while(blank).count();
        lines = inner[front..inner.len() - back].to_vec();
    }
    if lines.first().is_none_or(|line| line.trim() != BEGIN) {
        let problem = format!("The first line of the patch must be '{BEGIN}'");
        return Err(PatchError::Invalid(problem));
    }
    if lines.len() < 2 || lines.last().is_none_or(|line| line.trim() != END) {
        let problem = format!("The last line of the patch must be '{END}'");
        return Err(PatchError::Invalid(problem));
    }
    lines.pop();
    lines.remove(0);
    Ok(lines)
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn fail<T>(at: usize, problem: String) -> Result<T, PatchError> {
        // From 1, and behind the line `*** Begin Patch`.
        Err(PatchError::Hunk {
            line: at + 2,
            problem,
        })
    }

    /// Reads one operation; `header` is the line it starts with.
    fn operation(&mut self, header: &str) -> Result<Operation, PatchError> {
        let at = self.at;
        self.at += 1;
        if let Some(path) = header.strip_prefix(ADD) {
            let mut content = String::new();
            while let Some(text) = self.peek().and_then(|line| line.strip_prefix('+')) {
                content.push_str(text);
                content.push('\n');
                self.at += 1;
            }
            let path = path.trim().to_owned();
            return Ok(Operation::Add { path, content });
        }
        if let Some(path) = header.strip_prefix(DELETE) {
            let path = path.trim().to_owned();
            return Ok(Operation::Delete { path });
        }
        let Some(path) = header.strip_prefix(UPDATE) else {
            return Self::fail(at, format!("'{header}' is not a valid hunk header"));
        };
        let path = path.trim().to_owned();
        let move_to = self.peek().and_then(|line| line.trim().strip_prefix(MOVE));
        let move_to = move_to.map(|to| to.trim().to_owned());
        self.at += usize::from(move_to.is_some());
        let chunks = self.chunks()?;
        let no_lines = chunks.iter().any(|chunk| chunk.lines.is_empty());
        if no_lines || (chunks.is_empty() && move_to.is_none()) {
            return Self::fail(at, format!("Update file hunk for path '{path}' is empty"));
        }
        Ok(Operation::Update {
            path,
            move_to,
            chunks,
        })
    }

    fn chunks(&mut self) -> Result<Vec<Chunk>, PatchError> {
        let mut chunks: Vec<Chunk> = Vec::new();
        // Blank lines in front of the first `@@` are nothing; in front of a line they are context.
        let mut blank = 0;
        while let Some(line) = self.peek() {
            let marker = line.trim_end();
            let unexpected = || format!("Unexpected line found in update hunk: '{line}'");
            let open = chunks.last().is_none_or(|chunk| !chunk.end_of_file);
            if marker == END_OF_FILE {
                match chunks.last_mut() {
                    Some(chunk) if !chunk.end_of_file => chunk.end_of_file = true,
                    Some(_) | None => return Self::fail(self.at, unexpected()),
                }
            } else if line.starts_with("***") {
                break;
            } else if marker == "@@" || line.starts_with("@@ ") {
                if chunks.last().is_some_and(|chunk| chunk.lines.is_empty()) {
                    return Self::fail(self.at, unexpected());
                }
                let context = line
                    .strip_prefix("@@ ")
                    .filter(|text| !text.trim().is_empty());
                let context = context.map(str::to_owned);
                chunks.push(Chunk {
                    context,
                    ..Chunk::default()
                });
            } else if line.is_empty() && (chunks.is_empty() || !open) {
                blank += usize::from(chunks.is_empty());
            } else if let Some(line) = chunk_line(line).filter(|_| open) {
                if chunks.is_empty() {
                    let lines = vec![Line::Context(String::new()); blank];
                    chunks.push(Chunk {
                        lines,
                        ..Chunk::default()
                    });
                }
                chunks
                    .last_mut()
                    .into_iter()
                    .for_each(|chunk| chunk.lines.push(line.clone()));
            } else {
                return Self::fail(self.at, unexpected());
            }
            self.at += 1;
        }
        Ok(chunks)
    }
}

fn chunk_line(line: &str) -> Option<Line> {
    if line.is_empty() {
        return Some(Line::Context(String::new()));
    }
    let context = line
        .strip_prefix(' ')
        .map(|text| Line::Context(text.to_owned()));
    let removed = || {
        line.strip_prefix('-')
            .map(|text| Line::Removed(text.to_owned()))
    };
    let added = || {
        line.strip_prefix('+')
            .map(|text| Line::Added(text.to_owned()))
    };
    context.or_else(removed).or_else(added)
}
