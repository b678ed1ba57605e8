//! The targets of the attacks, as a test wrote them down.

use std::collections::BTreeMap;
use std::ffi::CString;

/// What a test says about the targets. A missing key is an error of the test, and named.
pub(crate) struct Scene {
    values: BTreeMap<String, String>,
}

impl Scene {
    /// Reads `KEY=VALUE` lines.
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let values = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(Self {
            values: values.collect(),
        })
    }

    /// A text, empty where the test has none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// A number; -1, which no kernel object has, where the test has none.
    pub(crate) fn number(&self, key: &str) -> i64 {
        self.text(key).parse().unwrap_or(-1)
    }

    /// Whether a key says `yes`.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.text(key) == "yes"
    }

    /// A path below the directory that `key` names, for the kernel.
    pub(crate) fn path(&self, key: &str, below: &str) -> CString {
        let path = match below {
            "" => self.text(key).to_owned(),
            below => format!("{}/{below}", self.text(key)),
        };
        // A line of a text file holds no NUL in practice; an empty path fails with ENOENT.
        CString::new(path).unwrap_or_default()
    }

    /// The processes outside that no attack may touch: the bystander and the server.
    pub(crate) fn outsiders(&self) -> Vec<(&'static str, i64)> {
        let named = [
            ("bystander", self.number("bystander")),
            ("server", self.number("server")),
        ];
        named.into_iter().filter(|(_, pid)| *pid > 0).collect()
    }
}
