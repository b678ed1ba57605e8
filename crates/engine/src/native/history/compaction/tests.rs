//! Thresholds as a table, and what a compaction keeps.
//!
//! Byte counts here are four times token counts, as in the estimate.

use serde_json::Value;
use turnlane_protocol::ids::{ItemId, TurnId};
use turnlane_protocol::input::{ImageInput, ImageSource, UserInput};

use super::*;
use crate::native::history::{Answer, Produced};

fn author() -> Author {
    Author {
        turn_id: TurnId::at(1, [1; 10]),
        provider: "p".to_owned(),
        model: "m".to_owned(),
    }
}

fn said(text: &str) -> Entry {
    let input = [UserInput::text(text)];
    author().user(&ItemId::from("i"), &input).unwrap()
}

fn texts(entry: &Entry) -> Vec<String> {
    let items: Vec<Value> = serde_json::from_str(&entry.items).unwrap();
    items.iter().map(text_of).collect()
}

#[test]
fn a_limit_is_at_most_nine_tenths_of_the_window() {
    for (window, configured, limit) in [
        (None, None, 244_800),
        (Some(1_000), None, 900),
        (Some(1_000), Some(500), 500),
        (Some(1_000), Some(900), 900),
        (Some(1_000), Some(901), 900),
        (None, Some(1_000_000), 244_800),
        (Some(u64::MAX), None, u64::MAX / 100 * 90),
    ] {
        assert_eq!(token_limit(window, configured), limit);
    }
}

#[test]
fn a_load_is_what_was_counted_and_an_estimate_of_the_rest() {
    let mut load = Load::default();
    assert_eq!(load.tokens(100), 100);
    assert!(!load.is_due(899, 900));
    assert!(load.is_due(900, 900));
    load.count(500, 300);
    assert_eq!(load.tokens(300), 500);
    assert!(!load.is_due(699, 900));
    assert!(load.is_due(700, 900));
    // A request that became shorter is not counted below what the provider said.
    assert_eq!(load.tokens(10), 500);
}

#[test]
fn users_words_stay_in_order_and_the_summary_comes_last() {
    let call = Produced::Call {
        call_id: "c".to_owned(),
        name: "n".to_owned(),
        arguments: "{}".to_owned(),
    };
    let answer = Answer {
        call_id: "c".to_owned(),
        text: "result".to_owned(),
    };
    let picture = UserInput::Image(ImageInput {
        source: ImageSource::Url("data:image/gif;base64,R0lGODlh".to_owned()),
        detail: None,
    });
    let seen = [
        UserInput::text("see"),
        picture.clone(),
        UserInput::text("this"),
    ];
    let history = [
        said("first"),
        author().output(&[call]).unwrap(),
        author().answers(&[answer]).unwrap(),
        author().note("a hook said"),
        author().user(&ItemId::from("i"), &seen).unwrap(),
        author().user(&ItemId::from("i"), &[picture]).unwrap(),
    ];
    let entry = compacted(&author(), &history, "\nall done\n");
    assert_eq!(entry.kind, EntryKind::Compaction);
    assert_eq!((entry.item_id.as_ref(), entry.call_ids.len()), (None, 0));
    let summary = format!("{SUMMARY_HEAD}all done");
    assert_eq!(texts(&entry), ["first", "see\nthis", &summary]);
    assert!(!entry.items.contains("input_image"));

    // The next one keeps the words again, but not the former summary.
    let again = compacted(&author(), &[said("gone"), entry, said("third")], "more");
    let summary = format!("{SUMMARY_HEAD}more");
    assert_eq!(texts(&again), ["first", "see\nthis", "third", &summary]);
}

#[test]
fn the_newest_words_come_first_when_there_are_too_many() {
    let long = "x".repeat(40_000);
    let kept = |history: &[Entry]| {
        let mut texts = texts(&compacted(&author(), history, "s"));
        texts.pop();
        texts.iter().map(String::len).collect::<Vec<_>>()
    };
    assert_eq!(kept(&[said(&long), said(&long)]), [40_000, 40_000]);
    assert_eq!(
        kept(&[said("old"), said(&long), said(&long)]),
        [40_000, 40_000]
    );
    assert_eq!(
        kept(&[said("old"), said(&long), said(&long), said("new!")]),
        [39_996, 40_000, 4]
    );
    let huge = "é".repeat(50_000);
    let cut = compacted(&author(), &[said("old"), said(&huge)], "s");
    let texts = texts(&cut);
    assert_eq!(texts.len(), 2);
    assert!(texts[0].ends_with(CUT) && texts[0].len() <= 80_000 && texts[0].len() > 79_990);
}

#[test]
fn an_empty_history_is_its_summary() {
    let entry = compacted(&author(), &[], "nothing yet");
    assert_eq!(texts(&entry), [format!("{SUMMARY_HEAD}nothing yet")]);
}
