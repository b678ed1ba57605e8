//! The diff of one file with the headers of git.
//!
//! The invariant here: what is written can be applied by git, but for files that are left out for
//! their size, which are named with the reason.
//!
//! Which files there are is the business of the parent.

use std::fmt::Write as _;
use std::path::Path;

use sha1::{Digest as _, Sha1};

use super::{FileMode, Tracked};
use crate::native::patch::unified;

/// How many bytes a diff may have; files that do not fit any more are named without their lines.
const DIFF_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How git writes that there is nothing.
const NO_OBJECT: &str = "0000000000000000000000000000000000000000";

/// The parts as one text.
pub(super) fn joined(parts: &[(&Path, &str)], cwd: &Path) -> String {
    let mut diff = String::new();
    for (path, part) in parts {
        if diff.len() + part.len() <= DIFF_BYTES_MAX {
            diff.push_str(part);
        } else {
            diff.push_str(&left_out(path, cwd));
        }
    }
    diff
}

/// The part of a file whose lines are not shown.
pub(super) fn left_out(path: &Path, cwd: &Path) -> String {
    let (a, b) = (named("a", path, cwd), named("b", path, cwd));
    format!("diff --git {a} {b}\n# left out: the diff of this turn is too large\n")
}

/// The part of one file; empty if it is what and where it was.
pub(super) fn file(file: &Tracked, cwd: &Path) -> String {
    let (before, now) = (file.before.as_deref(), file.now.as_str());
    let (old, new) = match (before, &file.current) {
        (None, None) => return String::new(),
        (Some(before), Some(current)) if *current == file.origin && before == now => {
            return String::new();
        }
        (None, Some(current)) => (current.as_path(), current.as_path()),
        (Some(_), None) => (file.origin.as_path(), file.origin.as_path()),
        (Some(_), Some(current)) => (file.origin.as_path(), current.as_path()),
    };
    let mode = match file.mode {
        FileMode::Plain => "100644",
        FileMode::Executable => "100755",
    };
    let (a, b) = (named("a", old, cwd), named("b", new, cwd));
    let mut text = format!("diff --git {a} {b}\n");
    // Writing to a string does not fail.
    let _ = match (before, &file.current) {
        (None, _) => writeln!(
            text,
            "new file mode {mode}\nindex {NO_OBJECT}..{}",
            object(now)
        ),
        (Some(before), None) => {
            let before = object(before);
            writeln!(
                text,
                "deleted file mode {mode}\nindex {before}..{NO_OBJECT}"
            )
        }
        (Some(before), Some(_)) => {
            if old != new {
                let (from, to) = (quoted(shown(old, cwd)), quoted(shown(new, cwd)));
                let _ = writeln!(text, "rename from {from}\nrename to {to}");
            }
            if before == now {
                return text;
            }
            let (before, now) = (object(before), object(now));
            writeln!(text, "index {before}..{now} {mode}")
        }
    };
    let hunks = unified(before.unwrap_or_default(), now);
    if !hunks.is_empty() {
        let a = before.map_or("/dev/null", |_| a.as_str());
        let b = file.current.as_ref().map_or("/dev/null", |_| b.as_str());
        let _ = write!(text, "--- {a}\n+++ {b}\n{hunks}");
    }
    text
}

/// The name git gives to a content.
fn object(content: &str) -> String {
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(content);
    let mut name = String::with_capacity(NO_OBJECT.len());
    for byte in hash.finalize() {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn named(side: &str, path: &Path, cwd: &Path) -> String {
    quoted(format!("{side}/{}", shown(path, cwd)))
}

/// Relative to the folder of the turn, or as it is.
fn shown(path: &Path, cwd: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}

/// A name that would break its line is written with escapes.
fn quoted(name: String) -> String {
    let is_odd = |letter: char| letter.is_control() || letter == '"' || letter == '\\';
    if name.contains(is_odd) {
        return format!("{name:?}");
    }
    name
}
