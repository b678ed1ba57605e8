//! Every form of the grammar, every leniency, every text about them.
//!
//! The invariant here: a form is read into exactly one patch.
//!
//! What patches do to files is tested beside this.

use super::super::{Chunk, Line, Operation, PATCH_BYTES_MAX, Patch};
use super::patch;

fn update(path: &str, move_to: Option<&str>, chunks: Vec<Chunk>) -> Operation {
    let (path, move_to) = (path.to_owned(), move_to.map(str::to_owned));
    Operation::Update {
        path,
        move_to,
        chunks,
    }
}

/// Lines with their prefix.
fn chunk(context: Option<&str>, lines: &[&str]) -> Chunk {
    let line = |line: &&str| {
        let text = line[1..].to_owned();
        match &line[..1] {
            " " => Line::Context(text),
            "-" => Line::Removed(text),
            _ => Line::Added(text),
        }
    };
    let context = context.map(str::to_owned);
    Chunk {
        context,
        lines: lines.iter().map(line).collect(),
        end_of_file: false,
    }
}

fn at_end(chunk: Chunk) -> Chunk {
    Chunk {
        end_of_file: true,
        ..chunk
    }
}

fn assert_read(table: Vec<(&str, Vec<Operation>)>) {
    for (inner, operations) in table {
        assert_eq!(
            Patch::parse(&patch(inner)).unwrap().operations,
            operations,
            "{inner:?}"
        );
    }
}

#[test]
fn every_form_is_read() {
    let add = |content: &str| Operation::Add {
        path: "a b".into(),
        content: content.into(),
    };
    let delete = || Operation::Delete { path: "d".into() };
    let change = || chunk(None, &["-x", "+y"]);
    let table: Vec<(&str, Vec<Operation>)> = vec![
        (
            "*** Add File: a b\n+one\n+\n++two",
            vec![add("one\n\n+two\n")],
        ),
        ("*** Add File: a b", vec![add("")]),
        ("*** Delete File: d", vec![delete()]),
        (
            "*** Add File: a b\n+x\n*** Delete File: d",
            vec![add("x\n"), delete()],
        ),
        (
            "*** Update File: u\n@@\n-x\n+y",
            vec![update("u", None, vec![change()])],
        ),
        (
            "*** Update File: u\n-x\n+y",
            vec![update("u", None, vec![change()])],
        ),
        (
            "*** Update File: u\n\n\n@@\n-x\n+y",
            vec![update("u", None, vec![change()])],
        ),
        (
            "*** Update File: u\n\n-x",
            vec![update("u", None, vec![chunk(None, &[" ", "-x"])])],
        ),
        (
            "*** Update File: u\n*** Move to: v",
            vec![update("u", Some("v"), vec![])],
        ),
        (
            "*** Update File: u\n*** Move to: v\n@@\n-x\n+y\n*** Delete File: d",
            vec![update("u", Some("v"), vec![change()]), delete()],
        ),
        (
            "*** Update File: u\n@@ fn f()\n a\n\n-b\n@@\n+c\n*** End of File\n\n@@ g\n-x",
            vec![update(
                "u",
                None,
                vec![
                    chunk(Some("fn f()"), &[" a", " ", "-b"]),
                    at_end(chunk(None, &["+c"])),
                    chunk(Some("g"), &["-x"]),
                ],
            )],
        ),
    ];
    assert_read(table);
}

#[test]
fn blank_space_around_markers_and_carriage_returns_are_nothing() {
    let add = |content: &str| Operation::Add {
        path: "a b".into(),
        content: content.into(),
    };
    let delete = || Operation::Delete { path: "d".into() };
    let change = || chunk(None, &["-x", "+y"]);
    assert_read(vec![
        (
            "  *** Add File:  a b  \n+x\n\t*** Delete File: d ",
            vec![add("x\n"), delete()],
        ),
        ("*** Environment ID: x\n*** Delete File: d", vec![delete()]),
        (
            "*** Update File: u\r\n@@\r\n-x\r\n+y\r",
            vec![update("u", None, vec![change()])],
        ),
        (
            "*** Update File: u\n@@  \n-x\n+y\n*** End of File \t",
            vec![update("u", None, vec![at_end(change())])],
        ),
        (
            "*** Update File: u\n-x\n *** End of File",
            vec![update(
                "u",
                None,
                vec![chunk(None, &["-x", " *** End of File"])],
            )],
        ),
    ]);
}

#[test]
fn outer_wrappings_are_removed() {
    let operations = vec![Operation::Delete { path: "d".into() }];
    for text in [
        "*** Begin Patch\n*** Delete File: d\n*** End Patch\n",
        "\n \n  *** Begin Patch  \n*** Delete File: d\n\t*** End Patch \n\n",
        "*** Begin Patch\r\n*** Delete File: d\r\n*** End Patch\r\n",
        "<<EOF\n*** Begin Patch\n*** Delete File: d\n*** End Patch\nEOF",
        "<<'EOF'\n*** Begin Patch\n*** Delete File: d\n*** End Patch\nEOF\n",
        "<<\"EOF\"\n\n*** Begin Patch\n*** Delete File: d\n*** End Patch\n\nEOF",
    ] {
        assert_eq!(
            Patch::parse(text).unwrap().operations,
            operations,
            "{text:?}"
        );
    }
}

#[test]
fn what_is_no_patch_is_told_in_the_known_words() {
    let first = "invalid patch: The first line of the patch must be '*** Begin Patch'";
    let last = "invalid patch: The last line of the patch must be '*** End Patch'";
    for (text, problem) in [
        ("", first),
        (" \n", first),
        ("x", first),
        ("*** End Patch", first),
        ("<<EOF\nEOF", first),
        (
            "<<EOX\n*** Begin Patch\n*** Delete File: d\n*** End Patch\nEOX",
            first,
        ),
        ("*** Begin Patch", last),
        ("*** Begin Patch\n*** Delete File: d", last),
        (
            "*** Begin Patch\n*** Delete File: d\n*** End Patch\nx",
            last,
        ),
    ] {
        let expected = format!("apply_patch verification failed: {problem}");
        assert_eq!(Patch::parse(text).unwrap_err().text(), expected, "{text:?}");
    }
}

#[test]
fn a_wrong_line_is_named() {
    for (inner, problem) in [
        ("x", "at line 2, 'x' is not a valid hunk header"),
        (
            "*** Delete File: d\n\n*** Delete File: e",
            "at line 3, '' is not a valid hunk header",
        ),
        (
            "*** Add File: a\n+x\ny",
            "at line 4, 'y' is not a valid hunk header",
        ),
        (
            "*** Add File: ",
            "at line 2, '*** Add File:' is not a valid hunk header",
        ),
        (
            "*** Delete File: d\n+x",
            "at line 3, '+x' is not a valid hunk header",
        ),
        (
            "*** Update File: u\n-x\n*** Odd",
            "at line 4, '*** Odd' is not a valid hunk header",
        ),
        (
            "*** Update File: u",
            "at line 2, Update file hunk for path 'u' is empty",
        ),
        (
            "*** Update File: u\n\n",
            "at line 2, Update file hunk for path 'u' is empty",
        ),
        (
            "*** Delete File: d\n*** Update File: u\n@@",
            "at line 3, Update file hunk for path 'u' is empty",
        ),
        (
            "*** Update File: u\n*** Move to: v\n@@ x",
            "at line 2, Update file hunk for path 'u' is empty",
        ),
        (
            "*** Update File: u\n@@\n*** End of File",
            "at line 2, Update file hunk for path 'u' is empty",
        ),
        (
            "*** Update File: u\nx",
            "at line 3, Unexpected line found in update hunk: 'x'",
        ),
        (
            "*** Update File: u\n@@\n-a\nx",
            "at line 5, Unexpected line found in update hunk: 'x'",
        ),
        (
            "*** Update File: u\n@@x",
            "at line 3, Unexpected line found in update hunk: '@@x'",
        ),
        (
            "*** Update File: u\n@@ a\n@@ b\n-x",
            "at line 4, Unexpected line found in update hunk: '@@ b'",
        ),
        (
            "*** Update File: u\n-x\n*** End of File\n-y",
            "at line 5, Unexpected line found in update hunk: '-y'",
        ),
        (
            "*** Update File: u\n*** End of File",
            "at line 3, Unexpected line found in update hunk: '*** End of File'",
        ),
    ] {
        let expected = format!("apply_patch verification failed: invalid hunk {problem}");
        assert_eq!(
            Patch::parse(&patch(inner)).unwrap_err().text(),
            expected,
            "{inner:?}"
        );
    }
}

#[test]
fn a_patch_without_operations_modifies_nothing() {
    let text = "*** Begin Patch\n*** End Patch";
    assert_eq!(
        Patch::parse(text).unwrap_err().text(),
        "No files were modified."
    );
}

#[test]
fn a_patch_over_the_limit_is_not_read() {
    let fill = |length| format!("*** Add File: a\n+{}", "x".repeat(length));
    let frame = patch(&fill(0)).len();
    assert!(Patch::parse(&patch(&fill(PATCH_BYTES_MAX - frame))).is_ok());
    let error = Patch::parse(&patch(&fill(PATCH_BYTES_MAX - frame + 1))).unwrap_err();
    let expected = "invalid patch: The patch is larger than 1048576 bytes";
    assert_eq!(error.to_string(), expected);
}
