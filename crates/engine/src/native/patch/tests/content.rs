//! What chunks make of a text, and how diffs tell it.
//!
//! The invariant here: every pass and every rule about terminators has a row.
//!
//! Files are not touched here.

use std::ops::RangeInclusive;

use super::super::{Operation, Patch, PatchError, unified, updated};
use super::patch;

fn change(old: &str, chunks: &str) -> Result<String, PatchError> {
    let patch = Patch::parse(&patch(&format!("*** Update File: f\n{chunks}"))).unwrap();
    let [Operation::Update { chunks, .. }] = patch.operations.as_slice() else {
        panic!("one update");
    };
    updated(old, chunks, "f")
}

/// One line for each number.
fn numbered(word: &str, numbers: RangeInclusive<usize>) -> String {
    let lines: Vec<String> = numbers.map(|n| format!("{word}{n}\n")).collect();
    lines.concat()
}

#[test]
fn chunks_are_found_and_replaced() {
    for (old, chunks, new) in [
        // The four passes; what stays keeps its bytes.
        ("a\nb\nc\n", " a\n-b\n+B", "a\nB\nc\n"),
        ("a  \nb\t\nc\n", " a\n-b\n+B", "a  \nB\nc\n"),
        ("  a\n\tb\nc\n", " a\n-b\n+B", "  a\nB\nc\n"),
        (
            "\u{201c}a\u{201d} \u{2013} b\u{a0}c\u{2019}s\nd\n",
            " \"a\" - b c's\n-d\n+D",
            "\u{201c}a\u{201d} \u{2013} b\u{a0}c\u{2019}s\nD\n",
        ),
        // A stricter pass further down wins over a lenient one further up.
        (" x\nx \nx\n", "-x\n+y", " x\nx \ny\n"),
        (" x\nx \n", "-x\n+y", " x\ny\n"),
        // Order and context lines.
        ("x\nx\nx\n", "@@\n-x\n+1\n@@\n-x\n+2", "1\n2\nx\n"),
        ("x\nf\nx\n", "@@ f\n-x\n+y", "x\nf\ny\n"),
        ("f\nf\nx\n", "@@ f\n f\n-x\n+y", "f\nf\ny\n"),
        (
            "x\n  fn f() \nx\n",
            "@@ fn f()\n-x\n+y",
            "x\n  fn f() \ny\n",
        ),
        ("g\nx\nf\nx\n", "@@ g\n-x\n+1\n@@ f\n-x\n+2", "g\n1\nf\n2\n"),
        // End of file.
        ("x\na\nx\n", "-x\n+y\n*** End of File", "x\na\ny\n"),
        ("x\nx", "-x\n+y\n*** End of File", "x\ny\n"),
        // An empty last line that is not there.
        ("a\nb\n", "-b\n+B\n", "a\nB\n"),
        ("a\nb\n", " a\n-b\n-\n+B\n+", "a\nB\n"),
        ("a\nb\n", "-b\n+B\n \n*** End of File", "a\nB\n"),
        ("a\n", " a\n \n+b", "a\n\nb\n"),
        ("a\n\nb\n", " a\n \n+x", "a\n\nx\nb\n"),
        // No old lines.
        ("a\nf\nb\n", "@@ f\n+x", "a\nf\nx\nb\n"),
        ("a\nb\n", "+x\n+y", "a\nb\nx\ny\n"),
        ("a\nf\nb\n", "@@ f\n+x\n*** End of File", "a\nf\nb\nx\n"),
        ("", "+x", "x\n"),
        ("a\nb\n", "@@\n+x\n@@\n-b\n+B", "a\nB\nx\n"),
        // Terminators.
        ("a\r\nb\r\nc\n", " a\n-b\n+B\n+C", "a\r\nB\r\nC\r\nc\n"),
        ("a\r\nb\nc\n", "-c\n+C", "a\r\nb\nC\n"),
        ("a\nb", "-b\n+B", "a\nB\n"),
        ("a\nb", "-a\n+A", "A\nb"),
        ("a\nb", " b\n+c", "a\nb\nc\n"),
        ("a\r\nb", "+c", "a\r\nb\r\nc\r\n"),
        ("a\nb", "-b", "a\n"),
        ("a", "-a", ""),
        // A byte order mark.
        ("\u{feff}a\nb\n", "-a\n+A", "\u{feff}A\nb\n"),
        ("\u{feff}", "+a", "\u{feff}a\n"),
        ("\u{feff}a", "-a\n+b", "\u{feff}b\n"),
    ] {
        assert_eq!(change(old, chunks).unwrap(), new, "{old:?} {chunks:?}");
    }
}

#[test]
fn what_is_not_found_is_told_in_the_known_words() {
    for (old, chunks, problem) in [
        ("a\n", "@@ f\n-a", "Failed to find context 'f' in f"),
        (
            "f\na\n",
            "@@ f\n-a\n@@ f\n-a",
            "Failed to find context 'f' in f",
        ),
        (
            "a\nb\n",
            " a\n-c\n+d",
            "Failed to find expected lines in f:\na\nc",
        ),
        (
            "a\nb\n",
            "@@\n-b\n@@\n-a",
            "Failed to find expected lines in f:\na",
        ),
        (
            "x\na\n",
            "-x\n*** End of File",
            "Failed to find expected lines in f:\nx",
        ),
        (
            "a\n",
            "-a\n-b\n-c",
            "Failed to find expected lines in f:\na\nb\nc",
        ),
        ("", "-a", "Failed to find expected lines in f:\na"),
    ] {
        let expected = format!("apply_patch verification failed: {problem}");
        assert_eq!(
            change(old, chunks).unwrap_err().text(),
            expected,
            "{old:?} {chunks:?}"
        );
    }
}

#[test]
fn diffs_have_three_lines_around_each_change() {
    let old: String = numbered("", 1..=20);
    let new = old.replace("\n5\n", "\nfive\n").replace("\n18\n", "\n");
    let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n\
                    @@ -15,6 +15,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n";
    assert_eq!(unified(&old, &new), expected);
    let near = old.replace("\n5\n", "\n").replace("\n11\n", "\n11\nx\n");
    assert_eq!(unified(&old, &near).matches("@@ -").count(), 1);
}

#[test]
fn diffs_tell_ends_without_a_terminator() {
    for (old, new, diff) in [
        ("a\n", "a\n", ""),
        ("", "a\n", "@@ -0,0 +1 @@\n+a\n"),
        ("a\n", "", "@@ -1 +0,0 @@\n-a\n"),
        (
            "a",
            "a\n",
            "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n",
        ),
        (
            "a\nb",
            "A\nb",
            "@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n",
        ),
        ("a\r\n", "a\n", "@@ -1 +1 @@\n-a\r\n+a\n"),
    ] {
        assert_eq!(unified(old, new), diff, "{old:?} {new:?}");
    }
}

#[test]
fn texts_with_nothing_in_common_are_told_apart_all_the_same() {
    let old: String = numbered("old ", 0..=2_999);
    let new: String = numbered("new ", 0..=2_999);
    let diff = unified(&old, &new);
    assert!(diff.starts_with("@@ -1,3000 +1,3000 @@\n-old 0\n"));
    assert!(diff.ends_with("+new 2999\n"));
    assert_eq!(diff.lines().count(), 6_001);
}

#[test]
fn a_search_in_repeating_lines_stays_linear() {
    let old = "x\n".repeat(200_000);
    let chunks = format!("{}-y", " x\n".repeat(50_000));
    assert!(matches!(
        change(&old, &chunks),
        Err(PatchError::Lines { .. })
    ));
}
