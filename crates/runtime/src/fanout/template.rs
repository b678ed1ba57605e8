//! The instruction of a job: a text with `{column}` in it.
//!
//! The invariant here: a template is read once, from left to right, and a value that was inserted is
//! never read again. `{b}` as the value of column `a` stays `{b}`.
//!
//! Text in braces that cannot be a placeholder is literal, so that samples of JSON in a template need
//! no escapes. A caller binds a template to the columns of a job once and renders it for every row.

use super::row::{Columns, Row};

/// The longest template, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 256 * 1024;

/// The longest rendered prompt, in characters.
pub const PROMPT_CHARS_MAX: usize = 1_048_576;

/// The longest column name that a message lists, and the most names; the rest is left out.
const LISTED_MAX: usize = 50;

/// The treatment of a placeholder or value that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// An unknown placeholder is an error.
    Refused,
    /// An unknown placeholder stays as it is written; a value that a row lacks is empty.
    Allowed,
}

/// A template that no columns are known for yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
}

/// A template that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is empty, or white space only.
    #[error("instruction must be non-empty")]
    Blank,
    /// It is too long.
    #[error("instruction has {bytes} bytes; the limit is {TEMPLATE_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It names a column that the input does not have.
    #[error("unknown placeholder {{{name}}}; columns: {columns}")]
    UnknownPlaceholder {
        /// The name in the braces.
        name: String,
        /// The columns there are, for people.
        columns: String,
    },
}

/// A rendered prompt is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rendered prompt is longer than {PROMPT_CHARS_MAX} characters")]
pub struct PromptTooLong;

/// A piece of a template.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    /// Text as it is.
    Literal(&'a str),
    /// Text in braces that is a placeholder if a column has this name.
    Braces(&'a str),
}

impl Template {
    /// Accepts a text as a template. Which of its braces are placeholders depends on the columns.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.trim().is_empty() {
            return Err(TemplateError::Blank);
        }
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(TemplateError::TooLong { bytes: text.len() });
        }
        Ok(Self {
            text: text.to_owned(),
        })
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Looks whether the template fits these columns.
    pub fn check(&self, columns: &Columns, missing: Missing) -> Result<(), TemplateError> {
        self.bind(columns, missing).map(drop)
    }

    /// Finds the placeholders among the braces.
    pub fn bind(
        &self,
        columns: &Columns,
        missing: Missing,
    ) -> Result<BoundTemplate, TemplateError> {
        let mut bound = BoundTemplate { parts: Vec::new() };
        let longest = columns.names().iter().map(String::len).max().unwrap_or(0);
        let mut rest = self.text.as_str();
        while let Some((piece, behind)) = next_piece(rest, longest, |name| columns.contains(name)) {
            match piece {
                Piece::Literal(text) => bound.push_text(text),
                Piece::Braces(name) if columns.contains(name) => {
                    bound.parts.push(Part::Value(name.to_owned()));
                }
                Piece::Braces(name) => match missing {
                    Missing::Allowed => {
                        bound.push_text(&format!("{{{name}}}"));
                    }
                    Missing::Refused => {
                        return Err(TemplateError::UnknownPlaceholder {
                            name: name.to_owned(),
                            columns: listed(columns),
                        });
                    }
                },
            }
            rest = behind;
        }
        Ok(bound)
    }

    /// Every text in braces that is a placeholder if the input has such a column, without repeats:
    /// a JSONL input shows its columns one row at a time.
    pub fn candidates(&self) -> Vec<&str> {
        const NAME_BYTES_MAX: usize = 256;
        const NAMES_MAX: usize = 1_024;
        let mut names: Vec<&str> = Vec::new();
        let mut rest = self.text.as_str();
        while let Some(open) = rest.find('{') {
            rest = &rest[open + 1..];
            let window = &rest.as_bytes()[..rest.len().min(NAME_BYTES_MAX + 1)];
            if let Some(close) = window.iter().position(|byte| *byte == b'}')
                && let Some(name) = rest.get(..close)
                && !name.is_empty()
                && !names.contains(&name)
                && names.len() < NAMES_MAX
            {
                names.push(name);
            }
        }
        names
    }
}

/// The next piece of a template and the text behind it; none at the end.
///
/// `longest` bounds the search for the end of a name, so that a text of open braces costs no more than
/// its length times that of the longest name.
fn next_piece(
    text: &str,
    longest: usize,
    is_column: impl Fn(&str) -> bool,
) -> Option<(Piece<'_>, &str)> {
    let first = text.bytes().next()?;
    if !matches!(first, b'{' | b'}') {
        let end = text.find(['{', '}']).unwrap_or(text.len());
        return Some((Piece::Literal(&text[..end]), &text[end..]));
    }
    let literal = |len: usize| Some((Piece::Literal(&text[..1]), &text[len..]));
    if text.as_bytes().get(1) == Some(&first) {
        return literal(2);
    }
    if first == b'}' {
        return literal(1);
    }
    let inside = &text[1..];
    let name_len = identifier_len(inside);
    if name_len > 0 && inside.as_bytes().get(name_len) == Some(&b'}') {
        return Some((Piece::Braces(&inside[..name_len]), &inside[name_len + 1..]));
    }
    let window = &inside.as_bytes()[..inside.len().min(longest + 1)];
    if let Some(close) = window.iter().position(|byte| *byte == b'}')
        && close > 0
        && is_column(&inside[..close])
    {
        return Some((Piece::Braces(&inside[..close]), &inside[close + 1..]));
    }
    literal(1)
}

/// The length of the name `[A-Za-z_][A-Za-z0-9_.-]*` at the beginning of a text.
fn identifier_len(text: &str) -> usize {
    let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let goes_on = |byte: u8| starts(byte) || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    match text.bytes().next() {
        Some(first) if starts(first) => text.bytes().take_while(|byte| goes_on(*byte)).count(),
        _ => 0,
    }
}

/// Returns true for a name that is an error where no column has it.
pub fn is_placeholder_name(name: &str) -> bool {
    !name.is_empty() && identifier_len(name) == name.len()
}

/// The names of the columns, for a message.
fn listed(columns: &Columns) -> String {
    let names = columns.names();
    let mut text = names[..names.len().min(LISTED_MAX)].join(", ");
    if names.len() > LISTED_MAX {
        text.push_str(", …");
    }
    text
}

/// A template whose placeholders are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTemplate {
    parts: Vec<Part>,
}

/// A part of a bound template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(String),
}

impl BoundTemplate {
    /// Adds literal text, joined with the text before it.
    fn push_text(&mut self, text: &str) {
        if let Some(Part::Text(last)) = self.parts.last_mut() {
            last.push_str(text);
        } else {
            self.parts.push(Part::Text(text.to_owned()));
        }
    }

    /// The instruction for one row. A value that the row lacks is empty.
    pub fn render(&self, columns: &Columns, row: &Row) -> Result<String, PromptTooLong> {
        let mut text = String::new();
        let mut chars = 0;
        let mut push = |part: &str| {
            // Counted before it is copied: many placeholders of one long cell must not fill the memory.
            chars += part.chars().count();
            if chars > PROMPT_CHARS_MAX {
                return Err(PromptTooLong);
            }
            text.push_str(part);
            Ok(())
        };
        for part in &self.parts {
            match part {
                Part::Text(literal) => push(literal)?,
                Part::Value(name) => {
                    if let Some(value) = row.value(columns, name) {
                        push(&value)?;
                    }
                }
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fanout::row::Members;

    fn render(text: &str, cells: &[(&str, &str)], missing: Missing) -> Result<String, String> {
        let columns = Columns::new(cells.iter().map(|(name, _)| (*name).to_owned()));
        let row = Row::Cells(cells.iter().map(|(_, cell)| (*cell).to_owned()).collect());
        let template = Template::parse(text).map_err(|error| error.to_string())?;
        let bound = template.bind(&columns, missing);
        let bound = bound.map_err(|error| error.to_string())?;
        let rendered = bound.render(&columns, &row);
        rendered.map_err(|error| error.to_string())
    }

    fn plain(text: &str) -> String {
        let cells = [("a", "{b}"), ("b", "2"), ("my col", "3"), ("x:y", "4")];
        render(text, &cells, Missing::Refused).unwrap_or_else(|error| format!("error: {error}"))
    }

    #[test]
    fn values_are_inserted_and_never_read_again() {
        assert_eq!(plain("{a}-{b}"), "{b}-2");
        assert_eq!(plain("{my col}{x:y}"), "34");
    }

    #[test]
    fn doubled_braces_are_single_ones() {
        assert_eq!(plain("{{a}} {{x}}"), "{a} {x}");
        assert_eq!(plain("{{{a}}}"), "{{b}}");
        assert_eq!(plain("{{{{b}}}}"), "{{b}}");
    }

    #[test]
    fn other_text_in_braces_is_literal() {
        assert_eq!(plain(r#"{"k": {b}}"#), r#"{"k": 2}"#);
        assert_eq!(plain("{ b } {} {1x} {b"), "{ b } {} {1x} {b");
        assert_eq!(plain("a } b"), "a } b");
        assert_eq!(plain("{\n  \"é\": {b}\n}"), "{\n  \"é\": 2\n}");
    }

    #[test]
    fn an_unknown_placeholder_is_an_error_that_names_the_columns() {
        let expected = "error: unknown placeholder {nope}; columns: a, b, my col, x:y";
        assert_eq!(plain("see {nope}"), expected);
        assert!(plain("{A}").starts_with("error: unknown placeholder {A}"));
        let kept = render("see {nope} {b}", &[("b", "2")], Missing::Allowed);
        assert_eq!(kept.as_deref(), Ok("see {nope} 2"));
    }

    #[test]
    fn a_blank_or_too_long_template_is_refused() {
        assert_eq!(plain(" \n\t"), "error: instruction must be non-empty");
        let long = "x".repeat(TEMPLATE_BYTES_MAX + 1);
        assert!(plain(&long).contains("the limit is 262144"));
        assert_eq!(plain(&long[1..]), long[1..]);
    }

    #[test]
    fn a_value_that_an_object_lacks_is_empty() {
        let columns = Columns::new(["a", "b"].map(str::to_owned));
        let row = Row::Object(Members::parse(r#"{"b": [1, "x"]}"#).unwrap());
        let bound = Template::parse("<{a}|{b}>").unwrap();
        let bound = bound.bind(&columns, Missing::Refused).unwrap();
        let rendered = bound.render(&columns, &row);
        assert_eq!(rendered.as_deref(), Ok("<|[1,\"x\"]>"));
    }

    #[test]
    fn a_prompt_that_is_too_long_is_never_built() {
        let cell = "é".repeat(1_000_000);
        let text = "{a}".repeat(80_000);
        let rendered = render(&text, &[("a", &cell)], Missing::Refused);
        assert!(rendered.unwrap_err().contains("1048576 characters"));
        let most = render(
            "{a}",
            &[("a", &"é".repeat(PROMPT_CHARS_MAX))],
            Missing::Refused,
        );
        assert_eq!(most.unwrap().chars().count(), PROMPT_CHARS_MAX);
    }

    #[test]
    fn candidates_are_all_texts_in_braces() {
        let template = Template::parse(r#"{a} {a} {"k": {b}} {c"#).unwrap();
        assert_eq!(template.candidates(), ["a", "\"k\": {b", "b"]);
    }

    #[test]
    fn open_braces_alone_cost_little() {
        let text = "{ ".repeat(TEMPLATE_BYTES_MAX / 2);
        assert_eq!(plain(&text), text);
    }
}
