//! Versions of Codex.

use std::fmt;

/// A version of Codex; a pre-release part is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodexVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl CodexVersion {
    /// A version from its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// Reads `0.166.0`, `0.166.0-alpha.3` or `0.166.0+build`.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.');
        let mut next = || parts.next()?.parse().ok();
        let version = Self::new(next()?, next()?, next()?);
        parts.next().is_none().then_some(version)
    }

    /// Reads the output of `--version`, whose first line is `codex-cli X.Y.Z`.
    pub(super) fn from_output(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        let (name, version) = line.trim().split_once(' ')?;
        // A wrapper that was given another name still says `codex`.
        name.starts_with("codex").then(|| Self::parse(version))?
    }
}

impl fmt::Display for CodexVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            major,
            minor,
            patch,
        } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let read = CodexVersion::from_output;
        let version = CodexVersion::new(0, 166, 0);
        assert_eq!(read("codex-cli 0.166.0\n"), Some(version));
        assert_eq!(read("\ncodex-cli 0.166.0-alpha.3\nmore"), Some(version));
        for wrong in [
            "",
            "codex-cli",
            "codex-cli 0.166",
            "node 0.166.0",
            "codex-cli 0.1.2.3",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert!(CodexVersion::parse("0.151.0") < CodexVersion::parse("0.166.0"));
        assert_eq!(version.to_string(), "0.166.0");
    }
}
