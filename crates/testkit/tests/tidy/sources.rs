//! What every Rust file has and what none may have.

use crate::tree::{File, Tree};

/// Above this a file is two files.
const LINES_MAX: usize = 600;

/// Longer files, each with the reason why it is still one.
const LONG_FILES: &[(&str, &str)] = &[];

/// How many lines a crate needs at least to say what it is for.
const CHARTER_LINES_MIN: usize = 3;

/// The one crate that needs the system's own calls.
const MAY_BE_UNSAFE: &[&str] = &["crates/process/src/lib.rs"];

/// Tests that sleep, each with the reason why nothing can be awaited instead.
const SLEEPING_FILES: &[(&str, &str)] = &[(
    "crates/process/tests/it/double_kills.rs",
    "the time between two kills is the attack; nothing is waited for",
)];

pub(crate) fn too_long(tree: &Tree) -> Vec<String> {
    let lines = |file: &File| file.text.lines().count();
    let allowed = |file: &File| LONG_FILES.iter().any(|(path, _)| *path == file.path);
    let long = tree
        .rust()
        .filter(|file| lines(file) > LINES_MAX && !allowed(file));
    long.map(|file| format!("{} has {} lines, above {LINES_MAX}", file.path, lines(file)))
        .collect()
}

pub(crate) fn without_charter(tree: &Tree) -> Vec<String> {
    let is_root = |path: &str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let needed = |path: &str| {
        if is_root(path) { CHARTER_LINES_MIN } else { 1 }
    };
    let given = |text: &str| {
        let lines = text.lines().take_while(|line| line.starts_with("//!"));
        lines.filter(|line| line.len() > "//! ".len()).count()
    };
    let silent = tree
        .rust()
        .filter(|file| given(&file.text) < needed(&file.path));
    let complaint = |file: &File| {
        let needed = needed(&file.path);
        format!("{} does not start with {needed} lines of `//!`", file.path)
    };
    silent.map(complaint).collect()
}

pub(crate) fn without_forbid(tree: &Tree) -> Vec<String> {
    let needs = |path: &str| path.ends_with("/src/lib.rs") && !MAY_BE_UNSAFE.contains(&path);
    let forbids = |text: &str| text.lines().any(|line| line == "#![forbid(unsafe_code)]");
    let lax = tree
        .rust()
        .filter(|file| needs(&file.path) && !forbids(&file.text));
    lax.map(|file| format!("{} lacks `#![forbid(unsafe_code)]`", file.path))
        .collect()
}

pub(crate) fn ignored_tests(tree: &Tree) -> Vec<String> {
    let ignores = |line: &str| {
        let line = line.trim_start();
        line.starts_with("#[ignore") || line.starts_with("#[cfg_attr(") && line.contains(", ignore")
    };
    let complaint =
        |at: String| format!("{at} ignores a test; a skip must be visible and decided at run time");
    lines_where(tree.rust(), |file| &file.text, ignores)
        .map(complaint)
        .collect()
}

pub(crate) fn sleeping_tests(tree: &Tree) -> Vec<String> {
    let allowed = |file: &&File| !SLEEPING_FILES.iter().any(|(path, _)| *path == file.path);
    let complaint = |at: String| format!("{at} sleeps; wait for a condition instead");
    let files = tree.rust().filter(allowed);
    lines_where(files, test_part, sleeps)
        .map(complaint)
        .collect()
}

/// The part of a file that is test code.
fn test_part(file: &File) -> &str {
    if file.path.contains("/tests/") || file.path.ends_with("/tests.rs") {
        return &file.text;
    }
    file.text
        .find("#[cfg(test)]")
        .map_or("", |at| &file.text[at..])
}

/// Whether a line calls or imports one of the functions that sleep.
fn sleeps(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let imports = code.contains("time::") || code.contains("thread::");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices("sleep").any(|(at, _)| {
        let (before, after) = code.split_at(at);
        let (name, rest) = after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()));
        let whole = !before.ends_with(is_name) && ["sleep", "sleep_until"].contains(&name);
        whole && (imports || rest.starts_with('('))
    })
}

/// `path:line` of every line that fits; numbers count from the file's start.
fn lines_where<'a>(
    files: impl Iterator<Item = &'a File>,
    part: impl Fn(&'a File) -> &'a str,
    fits: impl Fn(&str) -> bool,
) -> impl Iterator<Item = String> {
    let in_file = move |file: &'a File| {
        let part = part(file);
        let skipped = file.text[..file.text.len() - part.len()].lines().count();
        let fitting = part.lines().enumerate().filter(|(_, line)| fits(line));
        let found = fitting.map(|(index, _)| format!("{}:{}", file.path, skipped + index + 1));
        found.collect::<Vec<_>>()
    };
    files.flat_map(in_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_reported() {
        let (long, fits) = ("x\n".repeat(601), "x\n".repeat(600));
        let tree = Tree::of([("crates/a/src/a.rs", &long), ("crates/a/src/b.rs", &fits)]);
        assert_eq!(
            too_long(&tree),
            ["crates/a/src/a.rs has 601 lines, above 600"]
        );
    }

    #[test]
    fn a_file_that_says_too_little_is_reported() {
        let tree = Tree::of([
            ("crates/a/src/lib.rs", "//! One.\n//!\n//! Two.\n"),
            ("crates/b/src/lib.rs", "//! One.\n//! Two.\n//! Three.\n"),
            ("crates/b/src/part.rs", "use x;\n"),
            ("crates/b/src/other.rs", "//! One.\n"),
        ]);
        assert_eq!(
            without_charter(&tree),
            [
                "crates/a/src/lib.rs does not start with 3 lines of `//!`",
                "crates/b/src/part.rs does not start with 1 lines of `//!`",
            ]
        );
    }

    #[test]
    fn a_library_that_allows_unsafe_code_is_reported() {
        let tree = Tree::of([
            ("crates/a/src/lib.rs", "//! A.\n#![forbid(unsafe_code)]\n"),
            (
                "crates/b/src/lib.rs",
                "//! B.\n// #![forbid(unsafe_code)]\n",
            ),
            ("crates/process/src/lib.rs", "//! C.\n"),
        ]);
        assert_eq!(
            without_forbid(&tree),
            ["crates/b/src/lib.rs lacks `#![forbid(unsafe_code)]`"]
        );
    }

    #[test]
    fn an_ignored_test_is_reported() {
        let text = "fn ignore() {}\n    #[ignore = \"slow\"]\n#[cfg_attr(miri, ignore)]\n";
        let tree = Tree::of([("crates/a/src/a.rs", text)]);
        assert_eq!(ignored_tests(&tree).len(), 2);
        assert!(ignored_tests(&tree)[0].starts_with("crates/a/src/a.rs:2 "));
    }

    #[test]
    fn a_sleep_is_reported_in_tests_and_only_there() {
        let inside =
            "tokio::time::sleep(x).await;\n#[cfg(test)]\nmod tests {\n    thread::sleep(x);\n";
        let tree = Tree::of([
            ("crates/a/src/a.rs", inside),
            (
                "crates/a/tests/it/b.rs",
                "use tokio::time::{Instant, sleep};\nsleep_until(x);\n",
            ),
            (
                "crates/a/tests/it/c.rs",
                "// sleep(1)\nstart(\"sleep 1000\");\nno_sleep();\n",
            ),
        ]);
        assert_eq!(
            sleeping_tests(&tree),
            [
                "crates/a/src/a.rs:4",
                "crates/a/tests/it/b.rs:1",
                "crates/a/tests/it/b.rs:2"
            ]
            .map(|at| format!("{at} sleeps; wait for a condition instead"))
        );
    }
}
