//! Values of a table by their types.
//!
//! The invariant here: a value of another type is an error that names its key with everything above
//! it; a value that is absent or null is none.

use serde_json::{Map, Value};

use crate::native::provider::Error;

/// A table and what stands above it.
pub(in crate::native) struct Table<'a> {
    above: &'static str,
    members: &'a Map<String, Value>,
}

impl<'a> Table<'a> {
    pub(in crate::native) fn top(members: &'a Map<String, Value>) -> Self {
        Self::named("", members)
    }

    pub(in crate::native) fn named(above: &'static str, members: &'a Map<String, Value>) -> Self {
        Self { above, members }
    }

    pub(in crate::native) fn wrong(&self, key: &str, problem: &str) -> Error {
        let dot = if self.above.is_empty() { "" } else { "." };
        Error::Invalid {
            key: format!("{}{dot}{key}", self.above),
            problem: problem.to_owned(),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.members.get(key).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        key: &str,
        problem: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        read(value)
            .map(Some)
            .ok_or_else(|| self.wrong(key, problem))
    }

    /// A text; a blank one counts as none.
    pub(in crate::native) fn text(&self, key: &str) -> Result<Option<String>, Error> {
        let text = self.read(key, "must be a string", Value::as_str)?;
        let filled = text.filter(|text| !text.trim().is_empty());
        Ok(filled.map(str::to_owned))
    }

    pub(in crate::native) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Error> {
        self.read(key, "must be a list of strings", |value| {
            let texts = value.as_array()?.iter().map(Value::as_str);
            texts.map(|text| text.map(str::to_owned)).collect()
        })
    }

    pub(in crate::native) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        self.read(key, "must be true or false", Value::as_bool)
    }

    /// A flag, or a table whose `enabled` is one.
    pub(in crate::native) fn switch(&self, key: &str) -> Result<Option<bool>, Error> {
        let problem = "must be true or false, or a table with `enabled`";
        self.read(key, problem, |value| match value {
            Value::Bool(is_on) => Some(Some(*is_on)),
            Value::Object(members) => match members.get("enabled") {
                None => Some(None),
                Some(enabled) => enabled.as_bool().map(Some),
            },
            _ => None,
        })
        .map(Option::flatten)
    }

    pub(in crate::native) fn whole(&self, key: &str) -> Result<Option<u64>, Error> {
        self.read(key, "must be a whole number, 0 or more", Value::as_u64)
    }

    pub(in crate::native) fn at_least_one(&self, key: &str) -> Result<Option<u64>, Error> {
        let positive = |value: &Value| value.as_u64().filter(|number| *number > 0);
        self.read(key, "must be a whole number, 1 or more", positive)
    }

    pub(in crate::native) fn count(&self, key: &str) -> Result<Option<u32>, Error> {
        let small = |value: &Value| u32::try_from(value.as_u64()?).ok().filter(|n| *n > 0);
        self.read(key, "must be a whole number, 1 or more", small)
    }

    pub(in crate::native) fn word<T: Copy>(
        &self,
        key: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Error> {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let problem = format!("must be one of {}", known.join(", "));
        self.read(key, &problem, |value| {
            let said = value.as_str()?;
            let found = words.iter().find(|(word, _)| *word == said);
            found.map(|(_, meaning)| *meaning)
        })
    }

    pub(in crate::native) fn table(
        &self,
        key: &str,
    ) -> Result<Option<&'a Map<String, Value>>, Error> {
        self.read(key, "must be a table", Value::as_object)
    }
}
