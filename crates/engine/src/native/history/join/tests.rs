//! Joining and repair, as tables and as properties.
//!
//! The properties hold for any order of entries, also for orders that no turn leaves.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use turnlane_protocol::ids::TurnId;

use super::*;

fn view() -> View {
    View {
        provider: "p".to_owned(),
        reasoning: Reasoning::Encrypted,
        pictures: Pictures::Sent,
    }
}

fn entry(turn: u64, kind: EntryKind, calls: &[&str], items: &Value) -> Entry {
    Entry {
        turn_id: TurnId::at(turn, [0; 10]),
        provider: "p".to_owned(),
        model: "m".to_owned(),
        kind,
        item_id: None,
        call_ids: calls.iter().map(|&id| id.to_owned()).collect(),
        items: items.to_string(),
    }
}

fn user(turn: u64, text: &str) -> Entry {
    entry(turn, EntryKind::User, &[], &json!([{"said": text}]))
}

fn calls(turn: u64, ids: &[&str]) -> Entry {
    let items = ids
        .iter()
        .map(|id| json!({"type": "function_call", "call_id": id}));
    entry(turn, EntryKind::Output, ids, &items.collect())
}

fn answers(turn: u64, ids: &[&str]) -> Entry {
    let items = ids
        .iter()
        .map(|id| json!({"type": "function_call_output", "call_id": id, "output": "done"}));
    entry(turn, EntryKind::ToolOutput, ids, &items.collect())
}

fn joined(view: View, entries: &[Entry]) -> Joined {
    let mut joined = Joined::new(b"{\"input\":[".to_vec(), view);
    joined.append(entries);
    joined
}

fn input(joined: &Joined) -> Vec<Value> {
    let body: Value = serde_json::from_slice(joined.as_bytes()).unwrap();
    body["input"].as_array().unwrap().clone()
}

/// One word per item: `c:ID` a call, `a:ID` its answer, `n:ID` the answer nobody gave, else the text.
fn short(entries: &[Entry]) -> String {
    let mut text = String::new();
    for item in input(&joined(view(), entries)) {
        let id = item["call_id"].as_str().unwrap_or_default();
        let word = match item["type"].as_str() {
            Some("function_call") => format!("c:{id}"),
            Some("function_call_output") if item["output"] == NO_RESULT => format!("n:{id}"),
            Some("function_call_output") => format!("a:{id}"),
            Some(other) => other.to_owned(),
            None => item["said"].as_str().unwrap().to_owned(),
        };
        write!(text, "{word} ").unwrap();
    }
    text.trim_end().to_owned()
}

#[test]
fn repair_as_a_table() {
    let note = |turn| entry(turn, EntryKind::Note, &[], &json!([{"said": "note"}]));
    let shorter = entry(3, EntryKind::Compaction, &[], &json!([{"said": "sum"}]));
    for (entries, expected) in [
        (vec![], ""),
        (
            vec![user(1, "hi"), calls(1, &["x"]), answers(1, &["x"])],
            "hi c:x a:x",
        ),
        (
            vec![
                calls(1, &["x", "y"]),
                answers(1, &["x"]),
                answers(1, &["y"]),
            ],
            "c:x c:y a:x a:y",
        ),
        // A response in two entries.
        (
            vec![calls(1, &["x"]), calls(1, &["y"]), answers(1, &["x", "y"])],
            "c:x c:y a:x a:y",
        ),
        // Calls without answers: at the end, before the next turn, in part.
        (vec![calls(1, &["x"])], "c:x n:x"),
        (vec![calls(1, &["x"]), user(2, "hi")], "c:x n:x hi"),
        (
            vec![calls(1, &["x", "y"]), answers(1, &["y"]), user(2, "hi")],
            "c:x c:y a:y n:x hi",
        ),
        (
            vec![calls(1, &["x"]), calls(2, &["y"]), answers(2, &["y"])],
            "c:x n:x c:y a:y",
        ),
        // Answers without calls: none, of another turn, one of two, given twice.
        (vec![answers(1, &["x"]), user(1, "hi")], "hi"),
        (vec![calls(1, &["x"]), answers(2, &["x"])], "c:x n:x"),
        (vec![calls(1, &["x"]), answers(1, &["q", "x"])], "c:x a:x"),
        (
            vec![
                calls(1, &["x"]),
                answers(1, &["x", "x"]),
                answers(1, &["x"]),
            ],
            "c:x a:x",
        ),
        // What came in between waits.
        (
            vec![calls(1, &["x"]), note(1), answers(1, &["x"]), user(1, "hi")],
            "c:x a:x note hi",
        ),
        (
            vec![calls(1, &["x"]), note(1), user(2, "hi")],
            "c:x n:x note hi",
        ),
        (
            vec![calls(1, &["x"]), note(1), calls(1, &["y"])],
            "c:x n:x note c:y n:y",
        ),
        // Ids repeat from response to response with some servers.
        (
            vec![
                calls(1, &["0"]),
                answers(1, &["0"]),
                calls(1, &["0"]),
                answers(1, &["0"]),
            ],
            "c:0 a:0 c:0 a:0",
        ),
        // A compaction replaces what was before it, open calls included.
        (
            vec![
                user(1, "hi"),
                calls(1, &["x"]),
                shorter.clone(),
                user(3, "on"),
            ],
            "sum on",
        ),
        (
            vec![shorter.clone(), user(3, "on"), shorter, answers(3, &["x"])],
            "sum",
        ),
    ] {
        assert_eq!(short(&entries), expected);
    }
}

#[test]
fn stored_bytes_are_sent_as_they_are() {
    let odd = "[ {\"type\" : \"reasoning\",\"n\":1.0e2 ,\"s\":\"\\u00e9\"} ]";
    let mut entry = calls(1, &[]);
    entry.items = odd.to_owned();
    let sent = joined(view(), &[user(1, "a"), entry]);
    let expected = "{\"input\":[{\"said\":\"a\"},{\"type\" : \"reasoning\",\"n\":1.0e2 ,\
                    \"s\":\"\\u00e9\"}]}";
    assert_eq!(str::from_utf8(sent.as_bytes()).unwrap(), expected);
}

#[test]
fn reasoning_of_others_is_left_out_and_their_words_stay() {
    let items = json!([{"type": "reasoning", "id": "r"}, {"type": "message", "text": "reasoning"}]);
    let mut ours = entry(1, EntryKind::Output, &[], &items);
    assert_eq!(input(&joined(view(), &[ours.clone()])).len(), 2);
    let without = View {
        reasoning: Reasoning::LeftOut,
        ..view()
    };
    assert_eq!(input(&joined(without, &[ours.clone()])), [items[1].clone()]);
    ours.provider = "other".to_owned();
    assert_eq!(input(&joined(view(), &[ours.clone()])), [items[1].clone()]);
    ours.items = json!([items[0]]).to_string();
    assert_eq!(
        input(&joined(view(), &[user(1, "a"), ours, user(1, "b")])).len(),
        2
    );
}

#[test]
fn a_model_without_eyes_is_told_what_it_misses() {
    let picture = json!({"type": "input_image", "image_url": "data:image/gif;base64,R0lG"});
    let said = words("\"image_url\":\"data: is only a text here");
    let items = json!([{"role": "user", "content": [said, picture]}]);
    let entries = [entry(1, EntryKind::User, &[], &items)];
    let sent = joined(view(), &entries);
    assert_eq!(input(&sent), *items.as_array().unwrap());
    assert_eq!((sent.picture_count(), sent.picture_bytes()), (1, 21));
    let blind = View {
        pictures: Pictures::LeftOut,
        ..view()
    };
    let sent = joined(blind, &entries);
    let content = json!([said, words(PICTURE_OMITTED)]);
    assert_eq!(input(&sent), [json!({"role": "user", "content": content})]);
    assert_eq!(sent.picture_count(), 0);
}

#[test]
fn another_head_keeps_the_entries() {
    let mut sent = joined(view(), &[user(1, "a"), calls(1, &["x"])]);
    sent.replace_head(b"{\"model\":\"m\",\"input\":[".to_vec());
    sent.append(&[answers(1, &["x"])]);
    let body: Value = serde_json::from_slice(sent.as_bytes()).unwrap();
    assert_eq!(
        (&body["model"], body["input"].as_array().unwrap().len()),
        (&json!("m"), 3)
    );
}

fn any_entry(kinds: std::ops::Range<u8>) -> impl Strategy<Value = Entry> {
    let ids = vec(prop::sample::select(vec!["x", "y", "z"]), 0..3);
    (kinds, 1..4_u64, ids, "[a-z\"]{0,5}").prop_map(|(kind, turn, ids, text)| match kind {
        0 => user(turn, &text),
        1 => calls(turn, &ids),
        2 => answers(turn, &ids),
        3 => entry(turn, EntryKind::Note, &[], &json!([])),
        _ => entry(turn, EntryKind::Compaction, &[], &json!([{"said": text}])),
    })
}

/// Every call is answered exactly once, behind it, before its id is called again.
fn is_sound(items: &[Value]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => open.push(id),
            Some("function_call_output") => match open.iter().position(|&one| one == id) {
                Some(found) => drop(open.remove(found)),
                None => return false,
            },
            _ if open.is_empty() => {}
            _ => return false,
        }
    }
    open.is_empty()
}

#[test]
fn reasoning_taken_out_later_leaves_what_was_joined_without_it() {
    let thoughts = json!([
        {"type": "reasoning", "id": "r", "encrypted_content": "x"},
        {"type": "function_call", "call_id": "b"},
    ]);
    let entries = [
        entry(
            1,
            EntryKind::Output,
            &[],
            &json!([{"type": "reasoning", "id": "q"}]),
        ),
        user(1, "a"),
        entry(1, EntryKind::Output, &["b"], &thoughts),
        user(1, "waits"),
        answers(1, &["b"]),
        user(1, "c"),
    ];
    let without = View {
        reasoning: Reasoning::LeftOut,
        ..view()
    };
    for cut in 0..=entries.len() {
        let mut later = joined(view(), &entries[..cut]);
        later.leave_reasoning_out();
        later.leave_reasoning_out();
        later.append(&entries[cut..]);
        let whole = joined(without.clone(), &entries);
        assert_eq!(later.as_bytes(), whole.as_bytes(), "behind {cut} entries");
        assert_eq!(later.settled(), whole.settled());
    }
}

proptest! {
    #[test]
    fn any_history_is_sent_with_every_call_answered(entries in vec(any_entry(0..5), 0..24)) {
        prop_assert!(is_sound(&input(&joined(view(), &entries))));
    }

    #[test]
    fn what_is_settled_is_the_start_of_every_longer_request(
        history in vec(any_entry(0..5), 0..16),
        more in vec(any_entry(0..4), 0..16),
    ) {
        let before = joined(view(), &history);
        let longer = joined(view(), &[history.clone(), more.clone()].concat());
        prop_assert!(longer.as_bytes().starts_with(&before.as_bytes()[..before.settled()]));

        // Entries of a new turn leave everything but the end as it was, missing answers included.
        let mut later = more;
        for entry in &mut later {
            entry.turn_id = TurnId::at(9, [0; 10]);
        }
        let longer = joined(view(), &[history, later].concat());
        let all = before.as_bytes().strip_suffix(END).unwrap();
        prop_assert!(longer.as_bytes().starts_with(all));
    }

    #[test]
    fn appending_gives_what_joining_at_once_gives(
        parts in vec(vec(any_entry(0..5), 0..6), 0..6),
    ) {
        let mut grown = joined(view(), &[]);
        for part in &parts {
            grown.append(part);
        }
        let at_once = joined(view(), &parts.concat());
        prop_assert_eq!(grown.as_bytes(), at_once.as_bytes());
        prop_assert_eq!(grown.settled(), at_once.settled());
    }
}
