//! Columns and rows of a job's input, and the texts in which the store keeps them.
//!
//! The invariant here: a value is never changed. A cell of a table keeps its characters; a number of a
//! JSONL row keeps its digits, since it is carried as text and never as a float.
//!
//! Rows are pure data. `input` makes them of bytes, `import` stores them.

mod json_text;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use turnlane_store::Json;

pub(crate) use json_text::pretty as pretty_json;
pub use json_text::{JsonFault, check as check_json, compact as compact_json};

/// The most columns of an input.
pub const COLUMNS_MAX: usize = 1_024;

/// The names of a job's columns, in input order, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    names: Vec<String>,
    positions: HashMap<String, usize>,
}

impl Columns {
    /// Makes columns of names; a repeated name keeps its first position.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut columns = Self::default();
        for name in names {
            columns.add(&name);
        }
        columns
    }

    /// Reads the columns of a stored job.
    pub fn from_stored(columns: &Json) -> Result<Self, RowError> {
        let names: Vec<String> = serde_json::from_str(columns.as_str()).map_err(RowError::new)?;
        Ok(Self::new(names))
    }

    /// Writes the columns as the store keeps them: a JSON array of names.
    pub fn to_stored(&self) -> Json {
        let quoted: Vec<String> = self.names.iter().map(|name| quote(name)).collect();
        Json::new(format!("[{}]", quoted.join(",")))
    }

    /// Adds a name behind the others unless it is known.
    pub fn add(&mut self, name: &str) {
        if !self.positions.contains_key(name) {
            self.positions.insert(name.to_owned(), self.names.len());
            self.names.push(name.to_owned());
        }
    }

    /// The names in input order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The position of a column, from 0.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Returns true if a column has exactly this name.
    pub fn contains(&self, name: &str) -> bool {
        self.positions.contains_key(name)
    }
}

/// The members of one JSON object in the order of its text; each value keeps its own text.
#[derive(Clone, Debug, Default)]
pub struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Reads an object. It checks the syntax only; [`check_json`] finds what a row must not have.
    pub fn parse(text: &str) -> Result<Self, RowError> {
        serde_json::from_str(text).map_err(RowError::new)
    }

    /// The names in the order of the text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_ref())
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

/// One row of the input.
#[derive(Clone, Debug)]
pub enum Row {
    /// A record of a table: one text per column, in the order of the columns.
    Cells(Vec<String>),
    /// A JSON object.
    Object(Members),
}

impl Row {
    /// Reads the cells of a stored row.
    pub fn from_stored(cells: &Json) -> Result<Self, RowError> {
        let text = cells.as_str();
        if text.trim_start().starts_with('[') {
            let cells = serde_json::from_str(text).map_err(RowError::new)?;
            return Ok(Self::Cells(cells));
        }
        Members::parse(text).map(Self::Object)
    }

    /// Writes the row as the store keeps it: an array in the order of the columns, or the object.
    pub fn to_stored(&self) -> Json {
        match self {
            Self::Cells(cells) => {
                let mut text = String::from("[");
                for (at, cell) in cells.iter().enumerate() {
                    if at > 0 {
                        text.push(',');
                    }
                    text.push_str(&quote(cell));
                }
                text.push(']');
                Json::new(text)
            }
            Self::Object(members) => {
                let members = members.0.iter();
                Json::new(object(members.map(|(name, value)| {
                    (name.as_str(), Cow::Owned(compact_json(value.get())))
                })))
            }
        }
    }

    /// The value of a column as templates and CSV cells show it: strings as they are, null as nothing,
    /// other JSON values in compact form. None where the row has no such column.
    pub fn value(&self, columns: &Columns, name: &str) -> Option<Cow<'_, str>> {
        match self {
            Self::Cells(cells) => {
                let cell = cells.get(columns.position(name)?)?;
                Some(Cow::Borrowed(cell.as_str()))
            }
            Self::Object(members) => members.get(name).map(shown),
        }
    }

    /// The row as a compact JSON object, keys in the order of the columns.
    pub fn to_json(&self, columns: &Columns) -> String {
        object(self.members(columns))
    }

    /// The row as a JSON object with an indent of two spaces, keys in the order of the columns.
    pub fn to_pretty_json(&self, columns: &Columns) -> String {
        pretty_json(&self.to_json(columns))
    }

    /// Returns true if the row is a table record whose cells are all empty.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Cells(cells) => cells.iter().all(String::is_empty),
            Self::Object(_) => false,
        }
    }

    /// Names and JSON texts of the values, in the order of the columns.
    fn members<'a>(
        &'a self,
        columns: &'a Columns,
    ) -> Box<dyn Iterator<Item = (&'a str, Cow<'a, str>)> + 'a> {
        let names = columns.names.iter().map(String::as_str);
        match self {
            Self::Cells(cells) => Box::new(
                names
                    .zip(cells)
                    .map(|(name, cell)| (name, Cow::Owned(quote(cell)))),
            ),
            Self::Object(members) => {
                let mut sorted: Vec<_> = members.0.iter().collect();
                sorted.sort_by_key(|(name, _)| columns.position(name).unwrap_or(usize::MAX));
                Box::new(
                    sorted.into_iter().map(|(name, value)| {
                        (name.as_str(), Cow::Owned(compact_json(value.get())))
                    }),
                )
            }
        }
    }
}

/// A JSON value as a template shows it.
fn shown(value: &RawValue) -> Cow<'_, str> {
    let text = value.get();
    if text == "null" {
        return Cow::Borrowed("");
    }
    if text.starts_with('"') {
        // A string that does not decode was refused by the import; its text is the next best.
        return serde_json::from_str::<String>(text).map_or(Cow::Borrowed(text), Cow::Owned);
    }
    Cow::Owned(compact_json(text))
}

/// A text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A JSON object of names and JSON texts.
fn object<'a>(members: impl Iterator<Item = (&'a str, Cow<'a, str>)>) -> String {
    let mut text = String::from("{");
    for (at, (name, value)) in members.enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&quote(name));
        text.push(':');
        text.push_str(&value);
    }
    text.push('}');
    text
}

/// A stored row or list of columns that cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RowError(String);

impl RowError {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "it is passed to map_err as it is"
    )]
    fn new(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Columns {
        Columns::new(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn cells_come_back_from_the_store_byte_for_byte() {
        let cells = vec![
            "a\"b".to_owned(),
            "x\r\ny\u{2028}".to_owned(),
            String::new(),
        ];
        let stored = Row::Cells(cells.clone()).to_stored();
        let Ok(Row::Cells(read)) = Row::from_stored(&stored) else {
            panic!("not cells: {}", stored.as_str());
        };
        assert_eq!(read, cells);
    }

    #[test]
    fn numbers_of_an_object_keep_their_digits() {
        let text = r#"{"n": 1.10, "big": 123456789012345678901234567890, "o": {"a": [1, 2]}, "z": null, "s": "x\ty"}"#;
        let row = Row::Object(Members::parse(text).unwrap());
        let row = Row::from_stored(&row.to_stored()).unwrap();
        let columns = columns(&["s", "n", "big", "o", "z"]);
        let value = |name: &str| row.value(&columns, name).map(Cow::into_owned);
        assert_eq!(value("n").as_deref(), Some("1.10"));
        let big = value("big");
        assert_eq!(big.as_deref(), Some("123456789012345678901234567890"));
        assert_eq!(value("o").as_deref(), Some(r#"{"a":[1,2]}"#));
        assert_eq!(value("z").as_deref(), Some(""));
        assert_eq!(value("s").as_deref(), Some("x\ty"));
        assert_eq!(value("missing"), None);
        let json = row.to_json(&columns);
        let expected = r#"{"s":"x\ty","n":1.10,"big":123456789012345678901234567890,"o":{"a":[1,2]},"z":null}"#;
        assert_eq!(json, expected, "keys are in the order of the columns");
    }

    #[test]
    fn columns_come_back_in_their_order() {
        let made = columns(&["b", "a\"", "b", "c"]);
        assert_eq!(made.names(), ["b", "a\"", "c"]);
        assert_eq!(Columns::from_stored(&made.to_stored()), Ok(made));
    }

    #[test]
    fn a_row_is_shown_with_an_indent_of_two() {
        let row = Row::Cells(vec!["1".to_owned(), "{x".to_owned()]);
        let shown = row.to_pretty_json(&columns(&["b", "a"]));
        assert_eq!(shown, "{\n  \"b\": \"1\",\n  \"a\": \"{x\"\n}");
    }
}
