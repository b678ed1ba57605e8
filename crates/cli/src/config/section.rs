//! One table of the configuration, read key by key with errors that say where.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::shared::found_in_words;

/// Where a piece of configuration came from.
pub(super) struct Source<'a> {
    name: String,
    pub(super) text: &'a str,
    has_lines: bool,
}

impl<'a> Source<'a> {
    pub(super) fn file(path: &Path, text: &'a str) -> Self {
        Self {
            name: path.display().to_string(),
            text,
            has_lines: true,
        }
    }

    pub(super) fn flag(given: &str, text: &'a str) -> Self {
        Self {
            name: format!("-c {given}"),
            text,
            has_lines: false,
        }
    }

    /// `FILE:LINE: MESSAGE`, or `-c key=value: MESSAGE`.
    pub(super) fn error(&self, at: Option<usize>, message: &str) -> anyhow::Error {
        anyhow::anyhow!("{}: {message}", self.place(at))
    }

    /// `FILE:LINE: MESSAGE`, for those who collect warnings.
    pub(super) fn note(&self, at: usize, message: &str) -> String {
        format!("{}: {message}", self.place(Some(at)))
    }

    pub(super) fn warn(&self, at: usize, message: &str) {
        tracing::warn!("{}: {message}", self.place(Some(at)));
    }

    fn place(&self, at: Option<usize>) -> String {
        match at {
            Some(at) if self.has_lines => {
                let line = self.text[..at].matches('\n').count() + 1;
                format!("{}:{line}", self.name)
            }
            _ => self.name.clone(),
        }
    }
}

/// A table; remembers which keys somebody asked for.
pub(super) struct Section<'a> {
    source: &'a Source<'a>,
    name: &'static str,
    table: &'a DeTable<'a>,
    known: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(source: &'a Source<'a>, name: &'static str, table: &'a DeTable<'a>) -> Self {
        Self {
            source,
            name,
            table,
            known: RefCell::default(),
        }
    }

    fn get(&self, key: &'static str) -> Option<&Spanned<DeValue<'a>>> {
        self.known.borrow_mut().insert(key);
        self.table.get(key)
    }

    fn error(&self, key: &str, value: &Spanned<DeValue<'_>>, message: &str) -> anyhow::Error {
        let message = format!("{}.{key}: {message}", self.name);
        self.source.error(Some(value.span().start), &message)
    }

    fn expected(&self, key: &str, value: &Spanned<DeValue<'_>>, what: &str) -> anyhow::Error {
        let found = found_in_words(value.get_ref());
        self.error(key, value, &format!("expected {what}, found {found}"))
    }

    /// A table inside this one; `name` is its full name.
    pub(super) fn table(
        &self,
        key: &'static str,
        name: &'static str,
    ) -> anyhow::Result<Option<Section<'_>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref().as_table() {
            Some(table) => Ok(Some(Section::new(self.source, name, table))),
            None => Err(self.expected(key, value, "a table")),
        }
    }

    /// A whole number within `range`.
    pub(super) fn number(
        &self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> anyhow::Result<Option<u64>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let Some(integer) = value.get_ref().as_integer() else {
            return Err(self.expected(key, value, "a whole number"));
        };
        let digits = integer.as_str();
        let number = i128::from_str_radix(digits, integer.radix()).ok();
        match number.and_then(|number| u64::try_from(number).ok()) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let message = format!("must be {} to {}, not {digits}", range.start(), range.end());
                Err(self.error(key, value, &message))
            }
        }
    }

    pub(super) fn flag(&self, key: &'static str) -> anyhow::Result<Option<bool>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref().as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.expected(key, value, "true or false")),
        }
    }

    pub(super) fn text(&self, key: &'static str) -> anyhow::Result<Option<String>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.expected(key, value, "a string")),
        }
    }

    pub(super) fn texts(&self, key: &'static str) -> anyhow::Result<Option<Vec<String>>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let wrong = || self.expected(key, value, "a list of strings");
        let list = value.get_ref().as_array().ok_or_else(wrong)?;
        let texts = list.iter().map(|text| {
            let text = text.get_ref().as_str().ok_or_else(wrong)?;
            Ok(text.to_owned())
        });
        texts.collect::<anyhow::Result<_>>().map(Some)
    }

    /// A time as `"30s"`, `"10m"`, `"24h"` or `"0"`, at most `max`.
    pub(super) fn duration(
        &self,
        key: &'static str,
        max: Duration,
    ) -> anyhow::Result<Option<Duration>> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let Some(text) = value.get_ref().as_str() else {
            return Err(self.expected(key, value, "a time such as \"30s\""));
        };
        match parse_duration(text) {
            Some(time) if time <= max => Ok(Some(time)),
            Some(_) => Err(self.error(key, value, &format!("`{text}` is too long"))),
            None => {
                let message =
                    format!("must be a time such as \"30s\", \"10m\" or \"24h\", not `{text}`");
                Err(self.error(key, value, &message))
            }
        }
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&str, T)],
    ) -> anyhow::Result<Option<T>> {
        let Some(given) = self.text(key)? else {
            return Ok(None);
        };
        let found = words.iter().find(|(word, _)| *word == given);
        match (found, self.table.get(key)) {
            (Some((_, meant)), _) => Ok(Some(*meant)),
            (None, Some(value)) => {
                let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                let message = format!("must be one of {}, not `{given}`", all.join(", "));
                Err(self.error(key, value, &message))
            }
            (None, None) => Ok(None),
        }
    }

    /// Warns of keys nobody asked for.
    pub(super) fn finish(self) {
        let known = self.known.into_inner();
        for (key, _) in self.table {
            if !known.contains(key.get_ref().as_ref()) {
                let message = format!("unknown key `{}.{}`", self.name, key.get_ref());
                self.source.warn(key.span().start, &message);
            }
        }
    }
}

/// A number and a unit; `0` needs none.
fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, time) in [
            ("0", Some(Duration::ZERO)),
            ("250ms", Some(Duration::from_millis(250))),
            ("30s", Some(Duration::from_secs(30))),
            ("10m", Some(Duration::from_mins(10))),
            ("24h", Some(Duration::from_hours(24))),
            ("2d", Some(Duration::from_hours(48))),
            ("", None),
            ("5", None),
            ("m", None),
            ("1.5h", None),
            ("-1s", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(parse_duration(text), time, "{text}");
        }
    }
}
