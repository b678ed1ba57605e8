//! Which thread, turn, row or approval is meant: by id, by a part of an id, by name or by place.
//!
//! The invariant here: what is not found, or not the only one, is refused with those it could be;
//! nothing is ever done to something that was not named. A whole id is taken as it is, and whoever
//! is asked about it says whether it exists.

use std::fmt::Write as _;

use anyhow::{anyhow, bail};
use serde_json::{Value, json};
use turnlane_protocol::ids::{ApprovalId, QueuedTurnId, ThreadId, TurnId};

use super::Session;
use crate::shown::text::{counted, cut, of_input, one_line, quoted};

/// So much of the beginning or the end of an id has to be given.
const PART_MIN: usize = 8;
/// How many of those that could be meant are listed.
const LISTED_MAX: usize = 5;
/// How much of what they are about is shown.
const ABOUT_CHARS: usize = 60;

/// Something that could be meant.
struct Candidate {
    id: String,
    name: Option<String>,
    about: String,
}

/// The id of the thread that is meant. Messages name it as the person did.
pub(crate) async fn thread(session: &Session, text: &str) -> anyhow::Result<String> {
    if let Ok(id) = text.parse::<ThreadId>() {
        return Ok(id.to_string());
    }
    let id = by_name_or_part(session, text).await?;
    // A name that begins like a flag could not be typed as it is.
    if !text.starts_with('-') {
        session.remember(&id, &quoted(text));
    }
    Ok(id)
}

async fn by_name_or_part(session: &Session, text: &str) -> anyhow::Result<String> {
    let mut candidates = Vec::new();
    for archived in [false, true] {
        let params = json!({"archived": archived, "sortKey": "updated_at"});
        let (threads, _) = session.list("thread/list", params, None).await?;
        candidates.extend(threads.iter().map(of_thread));
        // Archived threads do not keep their names: the one that is not archived is meant.
        let mut named = candidates
            .iter()
            .filter(|one| one.name.as_deref() == Some(text));
        if let (false, Some(only), None) = (archived, named.next(), named.next()) {
            return Ok(only.id.clone());
        }
    }
    let next = "`turnlane thread list` shows those there are, with --archived those put away";
    only("thread", text, &candidates, next)
}

/// The name of this thread, where it has one.
pub(crate) async fn name(session: &Session, thread: &str) -> Option<String> {
    let params = json!({"threadId": thread, "includeTurns": false});
    let read: Value = session.try_ask("thread/read", &params).await.ok()?;
    word(&read["thread"], "name")
}

/// The id of the turn of this thread that is meant.
pub(crate) async fn turn(session: &Session, thread: &str, text: &str) -> anyhow::Result<String> {
    if let Ok(id) = text.parse::<TurnId>() {
        return Ok(id.to_string());
    }
    let params = json!({"threadId": thread, "sortDirection": "desc", "itemsView": "summary"});
    let (turns, _) = session.list("thread/turns/list", params, None).await?;
    let candidates: Vec<_> = turns.iter().map(of_turn).collect();
    let next = format!(
        "`turnlane thread show {}` shows its turns",
        session.word(thread)
    );
    only("turn", text, &candidates, &next)
}

/// The id of the row of this thread that is meant: by its number in the queue, or by its id.
pub(crate) async fn row(session: &Session, thread: &str, text: &str) -> anyhow::Result<String> {
    if let Ok(id) = text.parse::<QueuedTurnId>() {
        return Ok(id.to_string());
    }
    let params = json!({"threadId": thread});
    let (rows, _) = session.list("thread/queue/list", params, None).await?;
    let candidates: Vec<_> = rows.iter().map(of_row).collect();
    let next = format!(
        "`turnlane queue list {}` shows what waits",
        session.word(thread)
    );
    if let Some(number) = number(text) {
        let at = number.checked_sub(1).and_then(|at| candidates.get(at));
        return at.map(|found| found.id.clone()).ok_or_else(|| {
            let count = counted(candidates.len(), "turn");
            anyhow!("there is no row #{number}: {count} waiting\n  {next}")
        });
    }
    only("queued turn", text, &candidates, &next)
}

/// The open approval that is meant.
pub(crate) async fn approval(session: &Session, text: &str) -> anyhow::Result<String> {
    if let Ok(id) = text.parse::<ApprovalId>() {
        return Ok(id.to_string());
    }
    let (open, _) = session.list("approval/list", json!({}), None).await?;
    let candidates: Vec<_> = open.iter().map(of_approval).collect();
    let next = "`turnlane approvals list` shows what is open";
    only("approval", text, &candidates, next)
}

fn word(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn of_thread(thread: &Value) -> Candidate {
    let name = word(thread, "name");
    Candidate {
        id: word(thread, "id").unwrap_or_default(),
        about: name.clone().or(word(thread, "preview")).unwrap_or_default(),
        name,
    }
}

fn of_row(row: &Value) -> Candidate {
    let input = row.get("input").and_then(Value::as_array);
    Candidate {
        id: word(row, "id").unwrap_or_default(),
        name: None,
        about: of_input(input.map(Vec::as_slice).unwrap_or_default()),
    }
}

fn of_turn(turn: &Value) -> Candidate {
    Candidate {
        id: word(turn, "id").unwrap_or_default(),
        name: None,
        about: word(turn, "status").unwrap_or_default(),
    }
}

/// A place in a queue: `2` or `#2`. Longer numbers are parts of ids.
fn number(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('#').unwrap_or(text);
    let is_short = !digits.is_empty() && digits.len() < PART_MIN;
    (is_short && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

fn of_approval(approval: &Value) -> Candidate {
    Candidate {
        id: word(approval, "approvalId").unwrap_or_default(),
        name: None,
        about: word(approval, "command")
            .or(word(approval, "kind"))
            .unwrap_or_default(),
    }
}

/// The only one that `text` can mean.
fn only(kind: &str, text: &str, all: &[Candidate], next: &str) -> anyhow::Result<String> {
    let part = text.to_ascii_lowercase();
    let by_id = |one: &Candidate| {
        part.len() >= PART_MIN && (one.id.starts_with(&part) || one.id.ends_with(&part))
    };
    let by_name = |one: &Candidate| one.name.as_deref() == Some(text);
    let found: Vec<_> = all
        .iter()
        .filter(|one| by_id(one) || by_name(one))
        .collect();
    let is_part = |one: &Candidate| one.id.starts_with(&part) || one.id.ends_with(&part);
    match found.as_slice() {
        [only] => Ok(only.id.clone()),
        [] if part.len() < PART_MIN && all.iter().any(is_part) => {
            bail!(
                "`{text}` is too short for an id\n  \
                 give at least {PART_MIN} characters of its beginning or end; {next}"
            )
        }
        [] => Err(anyhow!("there is no {kind} `{text}`\n  {next}")),
        many => {
            let mut listed = String::new();
            for one in many.iter().take(LISTED_MAX) {
                let about = cut(&one_line(&one.about), ABOUT_CHARS);
                // Writing into a string cannot fail.
                let _ = write!(listed, "\n  {}  {about}", one.id);
            }
            let more = many.len().saturating_sub(LISTED_MAX);
            if more > 0 {
                let _ = write!(listed, "\n  and {more} more");
            }
            let count = counted(many.len(), kind);
            Err(if many.iter().all(|one| by_name(one)) {
                anyhow!("{count} are named `{text}`; name one by its id{listed}")
            } else {
                anyhow!("`{text}` could be {count}; give more of the id{listed}")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates() -> Vec<Candidate> {
        let one = |id: &str, name: Option<&str>, about: &str| Candidate {
            id: id.to_owned(),
            name: name.map(str::to_owned),
            about: about.to_owned(),
        };
        vec![
            one("01990000-aa11", None, "first"),
            one("01990000-bb22", Some("docs"), "docs"),
            one("01990000-cc33", Some("docs"), "docs"),
            one("01991111-dd44", Some("01990000"), "odd"),
        ]
    }

    fn shown(text: &str) -> String {
        match only("thread", text, &candidates(), "look") {
            Ok(id) => id,
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn a_beginning_or_a_name_that_only_one_has_is_enough() {
        assert_eq!(shown("01990000-A"), "01990000-aa11");
        assert_eq!(shown("01991111"), "01991111-dd44");
        // So does the end, which is what lists show.
        assert_eq!(shown("990000-aa11"), "01990000-aa11");
        assert_eq!(shown("1111-DD44"), "01991111-dd44");
    }

    #[test]
    fn a_short_number_is_a_place_in_a_queue() {
        for (text, place) in [("1", Some(1)), ("#12", Some(12)), ("0", Some(0))] {
            assert_eq!(number(text), place);
        }
        for text in ["", "#", "1a", "12345678", "-1", "+1", "##1"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn what_could_be_several_is_refused_with_all_of_them() {
        let text = "2 threads are named `docs`; name one by its id\n  01990000-bb22  docs\n  \
                    01990000-cc33  docs";
        assert_eq!(shown("docs"), text);
        // The beginning of three ids, and the name of a fourth.
        assert!(shown("01990000").starts_with("`01990000` could be 4 threads; "));
    }

    #[test]
    fn what_is_none_or_too_short_is_refused() {
        assert_eq!(
            shown("nowhere-at-all"),
            "there is no thread `nowhere-at-all`\n  look"
        );
        assert!(shown("0199").starts_with("`0199` is too short for an id\n"));
        assert!(shown("").starts_with("`` is too short for an id\n"));
    }
}
