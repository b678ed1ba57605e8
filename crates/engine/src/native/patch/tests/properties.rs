//! What holds for every input.
//!
//! The invariant here: no text panics, and a patch made from two texts turns one into the other.
//!
//! Known forms have their tables beside this.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::super::diff::changes;
use super::super::{Operation, Patch, recognise, unified, updated};
use super::patch;

/// The chunks that turn one text into the other, with `context` lines around each change.
fn chunks(old: &str, new: &str, context: usize) -> String {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let found = changes(&old, &new);
    let mut text = String::new();
    for group in found.chunk_by(|a, b| b.old.start - a.old.end <= 2 * context) {
        text.push_str("@@\n");
        let mut at = group[0].old.start.saturating_sub(context);
        let mut write = |sign, lines: &[&str]| {
            for line in lines {
                writeln!(text, "{sign}{line}").unwrap();
            }
        };
        for change in group {
            write(' ', &old[at..change.old.start]);
            write('-', &old[change.old.clone()]);
            write('+', &new[change.new.clone()]);
            at = change.old.end;
        }
        write(' ', &old[at..old.len().min(at.saturating_add(context))]);
    }
    text
}

fn turned(old: &str, chunks: &str) -> String {
    let text = patch(&format!(
        "*** Update File: f\n{}",
        chunks.trim_end_matches('\n')
    ));
    match Patch::parse(&text).unwrap().operations.as_slice() {
        [Operation::Update { chunks, .. }] => updated(old, chunks, "f").unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Turns `old` into the new text by the hunks of a unified diff, trusting their line numbers.
fn patched(old: &str, diff: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut new, mut at, mut sign) = (String::new(), 0, ' ');
    for line in diff.split_inclusive('\n') {
        if let Some(place) = line.strip_prefix("@@ -") {
            let place = place.split(' ').next().unwrap();
            let (start, length) = place.split_once(',').unwrap_or((place, "1"));
            let start: usize = start.parse().unwrap();
            let start = if length == "0" { start } else { start - 1 };
            old[at..start].iter().for_each(|line| new.push_str(line));
            at = start;
        } else if line.starts_with('\\') {
            new.truncate(new.len() - usize::from(sign != '-'));
        } else if let Some(line) = line.strip_prefix(['+', ' ']) {
            new.push_str(line);
        }
        at += usize::from(line.starts_with(['-', ' ']));
        sign = line.chars().next().unwrap();
    }
    old[at..].iter().for_each(|line| new.push_str(line));
    new
}

fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof!["[ab ]{0,2}", "(@@|\\*\\*\\*|-|\\+)? ?[a-z\u{2013}]{0,6}x"];
    prop::collection::vec(line, 0..25)
        .prop_map(|lines| lines.join("\n") + if lines.is_empty() { "" } else { "\n" })
}

/// A text of lines that differ from each other, and the same with some replaced, gone or added.
fn edited() -> impl Strategy<Value = (String, String)> {
    prop::collection::vec(0..12_u8, 1..80).prop_map(|fates| {
        let (mut old, mut new) = (String::new(), String::new());
        for (at, fate) in fates.iter().enumerate() {
            writeln!(old, "line {at}").unwrap();
            match fate {
                0 => writeln!(new, "other {at}").unwrap(),
                1 => {}
                2 => writeln!(new, "line {at}\nmore {at}").unwrap(),
                _ => writeln!(new, "line {at}").unwrap(),
            }
        }
        (old, new)
    })
}

/// Pieces that make near patches likely.
fn near_patch() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("*** Begin Patch".to_owned()),
        Just("*** End Patch".to_owned()),
        Just("*** Update File: f".to_owned()),
        Just("*** Add File: g".to_owned()),
        Just("*** Delete File: h".to_owned()),
        Just("*** Move to: i".to_owned()),
        Just("*** End of File".to_owned()),
        Just("<<EOF".to_owned()),
        Just("EOF".to_owned()),
        Just("cd x && apply_patch <<'EOF'".to_owned()),
        "@@ ?[ab]?",
        "[ +-][ab]{0,2}",
        "\\PC{0,6}",
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.join("\n"))
}

fn read_and_run(text: &str, old: &str) {
    let script = recognise(text);
    assert_eq!(script, recognise(text));
    for operation in Patch::parse(text)
        .map(|patch| patch.operations)
        .unwrap_or_default()
    {
        if let Operation::Update { chunks, .. } = operation
            && let Ok(new) = updated(old, &chunks, "f")
        {
            assert_eq!(patched(old, &unified(old, &new)), new);
        }
    }
}

fn settings() -> ProptestConfig {
    // Failures are fixed and become rows of the tables; no file of them is kept.
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn no_text_panics(text in any::<String>(), near in near_patch(), old in "[ab \r\n]{0,12}") {
        read_and_run(&text, &old);
        read_and_run(&near, &old);
        read_and_run(&patch(&near), &old);
        read_and_run(&patch(&format!("*** Update File: f\n{near}")), &old);
    }

    #[test]
    fn a_patch_made_from_two_texts_turns_one_into_the_other(old in lines(), new in lines()) {
        prop_assume!(old != new);
        // All lines as context: small texts repeat themselves.
        prop_assert_eq!(turned(&old, &chunks(&old, &new, usize::MAX / 4)), new);
    }

    #[test]
    fn a_patch_of_many_chunks_turns_one_text_into_the_other((old, new) in edited()) {
        prop_assume!(old != new);
        prop_assert_eq!(turned(&old, &chunks(&old, &new, 3)), new);
    }

    #[test]
    fn a_diff_leads_from_one_text_to_the_other(old in "[abc\n]{0,60}", new in "[abc\n]{0,60}") {
        prop_assert_eq!(patched(&old, &unified(&old, &new)), new);
    }
}
