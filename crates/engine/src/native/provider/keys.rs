//! Where keys come from: the environment, else `keys.env` of the home.
//!
//! The invariant here: a file that others may read is not read, and no error repeats a line of
//! it. A blank value counts as none in both places.
//!
//! Which variables are asked for is the configuration's business.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Error, Secret};

/// The largest file of keys that is read.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The variables of `keys.env`.
#[derive(Clone, Debug, Default)]
pub struct KeyFile {
    keys: BTreeMap<String, Secret>,
}

impl KeyFile {
    /// Reads the file; a file that is not there has no keys.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        let unreadable = |source| Error::KeyFileUnreadable {
            file: file.clone(),
            source,
        };
        // Before opening as well: opening a pipe would wait for its writer.
        match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => return Err(unreadable(not_a_file())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(error)),
        }
        let opened = File::open(path).map_err(unreadable)?;
        // Of the opened file, so that it cannot be exchanged in between.
        let found = opened.metadata().map_err(unreadable)?;
        let mode = found.permissions().mode() & 0o7777;
        if mode != 0o600 {
            return Err(Error::KeyFileMode { file, mode });
        }
        let mut text = String::new();
        let read = opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        if read.map_err(unreadable)? as u64 > FILE_BYTES_MAX {
            return Err(unreadable(io::ErrorKind::FileTooLarge.into()));
        }
        Self::parse(&file, &text)
    }

    /// Reads lines `NAME=value`; `export` in front, quotes around and lines with `#` are allowed.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut keys = BTreeMap::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (nth, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem| Error::KeyFileLine {
                file: file.to_owned(),
                line: nth + 1,
                problem,
            };
            let (name, value) = line
                .split_once('=')
                .ok_or_else(|| wrong("not of the form NAME=value"))?;
            let name = name.trim();
            let name = name.strip_prefix("export ").map_or(name, str::trim);
            if !is_variable(name) {
                return Err(wrong("the name before = is not that of a variable"));
            }
            let value = unquoted(value.trim()).ok_or_else(|| wrong("a quote is not closed"))?;
            keys.insert(name.to_owned(), Secret::new(value));
        }
        Ok(Self { keys })
    }

    /// All values, for the redactor.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.keys.values().map(Secret::expose)
    }

    /// The names of its variables, for those who take keys out of the environment of children.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// Whether a text can be the name of a variable.
pub(super) fn is_variable(name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(part)
}

fn unquoted(value: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.strip_suffix(quote);
        }
    }
    Some(value)
}

/// The variables that a turn can see.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Looks into the environment of the process.
    pub variables: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// What the environment does not have.
    pub keys: &'a KeyFile,
}

impl Environment<'_> {
    /// The value of a variable without blanks around it; none: unset or blank in both places.
    pub fn get(&self, variable: &str) -> Option<Secret> {
        let filled = |value: &str| {
            let value = value.trim();
            (!value.is_empty()).then(|| Secret::new(value))
        };
        (self.variables)(variable)
            .and_then(|value| filled(&value))
            .or_else(|| filled(self.keys.keys.get(variable)?.expose()))
    }
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn lines_are_read_as_a_shell_would() {
        let text =
            "\u{feff}# keys\n\nA=one\nexport B = \"two # 2\" \r\nC='th\"ree'\nD=\nA=last=1\n";
        let keys = KeyFile::parse("keys.env", text).unwrap();
        assert_eq!(keys.names().collect::<Vec<_>>(), ["A", "B", "C", "D"]);
        let values: Vec<&str> = keys.values().collect();
        assert_eq!(values, ["last=1", "two # 2", "th\"ree", ""]);
        assert!(!format!("{keys:?}").contains("two"));
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        for (text, line) in [
            ("\nsecret", 2),
            ("9A=secret", 1),
            ("A=\"secret", 1),
            ("A=\"", 1),
        ] {
            let error = KeyFile::parse("keys.env", text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("keys.env:{line}: ")), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_a_file_for_its_owner_is_read() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("keys.env");
        assert_eq!(KeyFile::read(&path).unwrap().names().count(), 0);
        fs::write(&path, "A=one-secret").unwrap();
        for mode in [0o644, 0o640, 0o604, 0o660, 0o700] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = KeyFile::read(&path).unwrap_err();
            let is_mode = matches!(error, Error::KeyFileMode { mode: found, .. } if found == mode);
            assert!(is_mode, "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let keys = KeyFile::read(&path).unwrap();
        assert_eq!(keys.values().collect::<Vec<_>>(), ["one-secret"]);
        fs::write(&path, "#".repeat(70_000)).unwrap();
        let large = KeyFile::read(&path).unwrap_err();
        assert!(matches!(large, Error::KeyFileUnreadable { .. }));
        let folder = KeyFile::read(home.path()).unwrap_err();
        assert!(matches!(folder, Error::KeyFileUnreadable { .. }));
    }

    #[test]
    fn the_environment_comes_before_the_file_and_blank_is_unset() {
        let keys = KeyFile::parse("keys.env", "A=file-a\nB=file-b\nC= \n").unwrap();
        let variables = |name: &str| match name {
            "A" => Some(" env-a\n".to_owned()),
            "B" => Some("  ".to_owned()),
            _ => None,
        };
        let environment = Environment {
            variables: &variables,
            keys: &keys,
        };
        let get = |name| environment.get(name).map(|value| value.expose().to_owned());
        assert_eq!(get("A").as_deref(), Some("env-a"));
        assert_eq!(get("B").as_deref(), Some("file-b"));
        assert_eq!(get("C"), None);
        assert_eq!(get("D"), None);
    }
}
