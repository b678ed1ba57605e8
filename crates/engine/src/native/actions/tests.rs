//! What commands are described as.
//!
//! The invariant here: each row is written out; `?` is the whole script as one unknown action.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Each action in one line.
fn told(script: &str) -> Vec<String> {
    let line = |action: &CommandAction| match action {
        CommandAction::Read {
            command,
            name,
            path,
            ..
        } => format!("{command}: read {name} {path}"),
        CommandAction::ListFiles { command, path, .. } => {
            format!("{command}: list {}", path.as_deref().unwrap_or("-"))
        }
        CommandAction::Search {
            command,
            query,
            path,
            ..
        } => format!(
            "{command}: search {} {}",
            query.as_deref().unwrap_or("-"),
            path.as_deref().unwrap_or("-")
        ),
        CommandAction::Unknown { command, .. } => {
            assert_eq!(command, script);
            "?".to_owned()
        }
        CommandAction::Unlisted(_) => "unlisted".to_owned(),
    };
    of(script).iter().map(line).collect()
}

#[test]
fn reading_listing_and_searching_are_told() {
    for (script, expected) in [
        ("cat a/b.rs", "cat a/b.rs: read b.rs a/b.rs"),
        ("cat -n '/x y/z'", "cat -n '/x y/z': read z /x y/z"),
        ("head -n 20 a", "head -n 20 a: read a a"),
        ("head -20 a", "head -20 a: read a a"),
        ("tail --lines=5 a", "tail --lines=5 a: read a a"),
        ("sed -n 1,200p a", "sed -n 1,200p a: read a a"),
        ("sed -n '5p' a", "sed -n '5p' a: read a a"),
        ("sed -n '10,$p' a", "sed -n '10,$p' a: read a a"),
        ("nl -ba a", "nl -ba a: read a a"),
        ("nl -b a f", "nl -b a f: read f f"),
        ("less a", "less a: read a a"),
        ("bat -r 1:5 a", "bat -r 1:5 a: read a a"),
        ("ls", "ls: list -"),
        ("ls -1", "ls -1: list -"),
        ("ls -la src", "ls -la src: list src"),
        ("tree -L 2 src", "tree -L 2 src: list src"),
        (
            "find . -name '*.rs' -type f",
            "find . -name '*.rs' -type f: list .",
        ),
        ("find -maxdepth 1", "find -maxdepth 1: list -"),
        ("rg --files", "rg --files: list -"),
        (
            "rg --files -g '*.rs' src",
            "rg --files -g '*.rs' src: list src",
        ),
        ("git ls-files", "git ls-files: list -"),
        ("grep -rn 'a b' src", "grep -rn 'a b' src: search a b src"),
        ("grep -e x -A 3 f", "grep -e x -A 3 f: search x f"),
        ("rg foo", "rg foo: search foo -"),
        (
            "rg -n -g '*.rs' foo src lib",
            "rg -n -g '*.rs' foo src lib: search foo src",
        ),
        ("rg --regexp=foo src", "rg --regexp=foo src: search foo src"),
        ("rg -- -x src", "rg -- -x src: search -x src"),
        ("ag foo", "ag foo: search foo -"),
        (
            "git grep -n foo crates",
            "git grep -n foo crates: search foo crates",
        ),
        ("cat a 2>/dev/null", "cat a 2>/dev/null: read a a"),
    ] {
        assert_eq!(told(script), [expected], "{script}");
    }
}

#[test]
fn a_script_of_known_parts_has_one_action_each() {
    for (script, expected) in [
        ("cat a && ls", vec!["cat a: read a a", "ls: list -"]),
        (
            "ls; rg x | head -n 5",
            vec!["ls: list -", "rg x: search x -"],
        ),
        ("cat a b", vec!["cat a b: read a a", "cat a b: read b b"]),
        ("cd x && cat a", vec!["cat a: read a x/a"]),
        (
            "cd x/ && cd y && ls && cat /z",
            vec!["ls: list x/y", "cat /z: read z /z"],
        ),
        ("cd x && rg y", vec!["rg y: search y x"]),
        ("cat a | wc -l", vec!["cat a: read a a"]),
        ("ls | sort -k 2 | uniq | tail -3", vec!["ls: list -"]),
        ("nl -ba a | sed -n '1,5p'", vec!["nl -ba a: read a a"]),
        ("cat a | grep -v x", vec!["cat a: read a a"]),
        ("find . | cut -d / -f 2 | tr a b", vec!["find .: list ."]),
    ] {
        assert_eq!(told(script), expected, "{script}");
    }
}

#[test]
fn one_unknown_part_makes_the_whole_unknown() {
    for script in [
        "",
        "pwd",
        "touch z",
        "cd x",
        "cat",
        "cat -",
        "cat a && touch b",
        "cat a > b",
        "cat $A",
        "cat $(ls)",
        "cat a | xargs rm",
        "cat a | sh",
        "cat a | tail -n 3 b",
        "ls | sort -o out",
        "ls | grep x file",
        "ls &",
        "(ls)",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprintf out x",
        "sed -i s/a/b/ f",
        "sed -n 's/a/b/w out' f",
        "sed 1p f",
        "rg",
        "git status",
        "A=b cat f",
        "head -n 5",
        "cat <<E\nx\nE",
        "cd - && ls",
    ] {
        assert_eq!(told(script), ["?"], "{script}");
    }
}

#[test]
fn actions_are_written_as_clients_know_them() {
    assert_eq!(
        json!(of("ls -1")),
        json!([{"type": "listFiles", "command": "ls -1", "path": null}])
    );
    assert_eq!(
        json!(of("pwd")),
        json!([{"type": "unknown", "command": "pwd"}])
    );
    let read: Value = json!([{"type": "read", "command": "cat a/b", "name": "b", "path": "a/b"}]);
    assert_eq!(json!(of("cat a/b")), read);
    let search = json!([{"type": "search", "command": "rg x", "query": "x", "path": null}]);
    assert_eq!(json!(of("rg x")), search);
}

proptest! {
    #[test]
    fn any_script_has_actions(script in "(?s)(cat|ls|rg|sed -n|find|cd)?.{0,40}") {
        prop_assert!(!of(&script).is_empty());
    }
}
