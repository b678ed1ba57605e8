//! Globs that deny: a small matcher, and its expansion over the file system as it is now.
//!
//! A pattern is a list of components: `**` stands for any number of them, `*` and `?` for characters
//! inside one; names that begin with a dot are names like others. Anything more (classes, braces,
//! escapes) is refused, since a glob that is misread denies the wrong files. Links are matched, not
//! entered. The work is bounded by depth, by matches and by entries looked at; beyond a bound the
//! whole intent is refused, since half a denial is none.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::IntentError;
use super::permissions::shown;

/// How many paths the globs of one intent may match.
pub(super) const MATCHES_MAX: usize = 10_000;

/// How many directory entries one pattern may look at: about a fifth of a second of work.
const ENTRIES_MAX: usize = 200_000;

/// One pattern, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    absolute: bool,
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// `**`
    AnyDepth,
    /// A name without wildcards.
    Literal(String),
    /// A name with `*` or `?`.
    Wild(String),
}

impl Pattern {
    pub(super) fn read(pattern: &str) -> Result<Self, IntentError> {
        let refuse =
            |why: &str| IntentError::new(format!("glob pattern `{}` {why}", shown(pattern)));
        if pattern.contains(['[', ']', '{', '}', '\\', '\0']) {
            return Err(refuse("uses more than `*`, `?` and `**`"));
        }
        let mut parts = Vec::new();
        for name in pattern.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(refuse("has `..`")),
                // Two in a row mean the same as one and would only cost time.
                "**" if parts.last() == Some(&Part::AnyDepth) => {}
                "**" => parts.push(Part::AnyDepth),
                name if name.contains(['*', '?']) => parts.push(Part::Wild(name.to_owned())),
                name => parts.push(Part::Literal(name.to_owned())),
            }
        }
        if parts.is_empty() {
            return Err(refuse("is empty"));
        }
        Ok(Self {
            absolute: pattern.starts_with('/'),
            parts,
        })
    }

    pub(super) fn is_absolute(&self) -> bool {
        self.absolute
    }

    /// What the pattern matches below `base`, looking `depth` directories deep from where its first
    /// wildcard stands. What lies below a match is not looked at: the match denies it already.
    pub(super) fn expand(
        &self,
        base: &Path,
        depth: usize,
        matches_left: &mut usize,
    ) -> Result<Vec<PathBuf>, IntentError> {
        let literal = self
            .parts
            .iter()
            .take_while(|part| matches!(part, Part::Literal(_)))
            .count();
        let (fixed, wild) = self.parts.split_at(literal);
        let mut start = base.to_owned();
        for part in fixed {
            if let Part::Literal(name) = part {
                start.push(name);
            }
        }
        let mut search = Search {
            parts: wild,
            found: Vec::new(),
            matches_left,
            entries_left: ENTRIES_MAX,
        };
        if wild.is_empty() {
            if start.symlink_metadata().is_ok() {
                search.keep(start)?;
            }
        } else {
            search.below(start, depth)?;
        }
        Ok(search.found)
    }
}

/// One expansion under way.
struct Search<'a> {
    parts: &'a [Part],
    found: Vec<PathBuf>,
    matches_left: &'a mut usize,
    entries_left: usize,
}

impl Search<'_> {
    fn keep(&mut self, path: PathBuf) -> Result<(), IntentError> {
        *self.matches_left = self.matches_left.checked_sub(1).ok_or_else(|| {
            IntentError::new(format!("glob patterns match more than {MATCHES_MAX} paths"))
        })?;
        self.found.push(path);
        Ok(())
    }

    /// Looks through a directory and those below it. Not recursive: the tree is not ours.
    fn below(&mut self, start: PathBuf, depth: usize) -> Result<(), IntentError> {
        // Each directory with the positions in the pattern it may be at.
        let mut waiting = vec![(start, depth, self.entered(vec![0]))];
        while let Some((directory, depth_left, states)) = waiting.pop() {
            if depth_left == 0 {
                continue;
            }
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                // Nothing there, or nothing that somebody with our rights could read.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound
                            | ErrorKind::NotADirectory
                            | ErrorKind::PermissionDenied
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(unreadable(&directory, &error)),
            };
            for entry in entries {
                let entry = entry.map_err(|error| unreadable(&directory, &error))?;
                self.entries_left = self.entries_left.checked_sub(1).ok_or_else(|| {
                    IntentError::new(format!(
                        "glob patterns look at more than {ENTRIES_MAX} files"
                    ))
                })?;
                let next = self.step(&states, &entry.file_name());
                if next.contains(&self.parts.len()) {
                    self.keep(entry.path())?;
                } else if !next.is_empty() && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    waiting.push((entry.path(), depth_left - 1, next));
                }
            }
        }
        Ok(())
    }

    /// The positions after one more name.
    fn step(&self, states: &[usize], name: &OsStr) -> Vec<usize> {
        let mut next = Vec::new();
        for &at in states {
            match self.parts.get(at) {
                Some(Part::AnyDepth) => {
                    next.push(at);
                    // At the end `**` is satisfied by any name.
                    if at + 1 == self.parts.len() {
                        next.push(at + 1);
                    }
                }
                Some(Part::Literal(literal)) if literal.as_bytes() == name.as_bytes() => {
                    next.push(at + 1);
                }
                Some(Part::Wild(wild)) if matches(wild.as_bytes(), name.as_bytes()) => {
                    next.push(at + 1);
                }
                Some(Part::Literal(_) | Part::Wild(_)) | None => {}
            }
        }
        self.entered(next)
    }

    /// `**` also stands for no component at all.
    fn entered(&self, mut states: Vec<usize>) -> Vec<usize> {
        let mut next = 0;
        while let Some(&at) = states.get(next) {
            let skipped = at + 1;
            if self.parts.get(at) == Some(&Part::AnyDepth)
                && skipped < self.parts.len()
                && !states.contains(&skipped)
            {
                states.push(skipped);
            }
            next += 1;
        }
        states.sort_unstable();
        states.dedup();
        states
    }
}

fn unreadable(directory: &Path, error: &std::io::Error) -> IntentError {
    IntentError::new(format!(
        "glob patterns cannot look into {}: {error}",
        directory.display()
    ))
}

/// Whether one name fits one wildcard: the last `*` takes one character more whenever the rest does
/// not fit, so the time is at most pattern times name.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, n));
            }
            Some(b'?') => {
                p += 1;
                n += character(&name[n..]);
            }
            Some(&byte) if byte == name[n] => {
                p += 1;
                n += 1;
            }
            Some(_) | None => {
                let Some((after, taken)) = star else {
                    return false;
                };
                p = after;
                n = taken + 1;
                star = Some((after, n));
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// How many bytes the first character has; a byte that begins none stands alone.
fn character(name: &[u8]) -> usize {
    let width = match name.first() {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        Some(_) | None => 1,
    };
    let whole = name
        .get(1..width)
        .is_some_and(|rest| rest.iter().all(|byte| byte & 0xC0 == 0x80));
    if whole { width } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stay_inside_a_name() {
        for (pattern, name, fits) in [
            ("*.env", ".env", true),
            ("*.env", "a.env", true),
            ("*.env", "a.envx", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a?c", "abc", true),
            ("a?c", "aßc", true),
            ("a?c", "ac", false),
            ("a*", "a", true),
            ("*", "", true),
            ("?", "", false),
            ("a**b", "axb", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                fits,
                "{pattern} {name}"
            );
        }
    }

    fn expand(pattern: &str, depth: usize) -> Vec<String> {
        let home = tempfile::tempdir().unwrap();
        for file in [
            "a.pem",
            "x/b.pem",
            "x/y/c.pem",
            "x/y/z/d.pem",
            "x/key/k",
            ".s/e.pem",
        ] {
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(home.path(), home.path().join("loop")).unwrap();
        let mut left = MATCHES_MAX;
        let mut found: Vec<String> = Pattern::read(pattern)
            .unwrap()
            .expand(home.path(), depth, &mut left)
            .unwrap()
            .iter()
            .map(|path| {
                let inside = path.strip_prefix(home.path()).unwrap();
                inside.to_str().unwrap().to_owned()
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn two_stars_stand_for_any_number_of_directories() {
        assert_eq!(
            expand("**/*.pem", 8),
            [".s/e.pem", "a.pem", "x/b.pem", "x/y/c.pem", "x/y/z/d.pem"]
        );
        assert_eq!(
            expand("x/**/*.pem", 8),
            ["x/b.pem", "x/y/c.pem", "x/y/z/d.pem"]
        );
        assert_eq!(expand("**/y/**", 8), ["x/y/c.pem", "x/y/z"]);
        assert_eq!(expand("*/key", 8), ["x/key"]);
        assert_eq!(expand("./x/b.pem", 8), ["x/b.pem"]);
        assert_eq!(expand("no/such/**", 8), [""; 0]);
        assert_eq!(expand("l*", 8), ["loop"]);
    }

    #[test]
    fn the_depth_counts_from_the_first_wildcard() {
        assert_eq!(expand("**/*.pem", 1), ["a.pem"]);
        assert_eq!(expand("**/*.pem", 2), [".s/e.pem", "a.pem", "x/b.pem"]);
        assert_eq!(expand("x/y/*.pem", 1), ["x/y/c.pem"]);
        assert_eq!(expand("*", 0), [""; 0]);
    }

    #[test]
    fn what_the_matcher_does_not_know_is_refused() {
        for pattern in ["", "/", "a/../b", "[ab]", "{a,b}", "a\\*"] {
            assert!(Pattern::read(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn one_match_too_many_refuses_all() {
        let home = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::write(home.path().join(name), "").unwrap();
        }
        let pattern = Pattern::read("*").unwrap();
        assert_eq!(pattern.expand(home.path(), 8, &mut 3).unwrap().len(), 3);
        let refusal = pattern.expand(home.path(), 8, &mut 2).unwrap_err();
        assert_eq!(refusal.0, "glob patterns match more than 10000 paths");
    }
}
