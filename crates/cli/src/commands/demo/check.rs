//! What a demo claims, compared with what is stored.
//!
//! The invariant here: a claim holds only if history and queue, as they were read back, say so. Rows
//! are known by their ids, so a turn that ran twice or for nobody is seen. Pure.

use turnlane::{TurnStatus, TurnView};

use crate::shown::text::counted;

/// A turn that was accepted: its row, and what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) prompt: String,
}

/// A turn of the history: whose it is and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) row: Option<String>,
    pub(super) status: TurnStatus,
}

impl From<&TurnView> for Attempt {
    fn from(turn: &TurnView) -> Self {
        Self {
            row: turn.queued_turn.as_ref().map(|row| row.as_str().to_owned()),
            status: turn.status.clone(),
        }
    }
}

/// Everything that was found at the end.
#[derive(Clone, Debug)]
pub(super) struct Found<'a> {
    /// What was accepted, in order.
    pub(super) rows: &'a [Row],
    /// The row whose first attempt was cut off.
    pub(super) killed: &'a str,
    /// The history, the oldest first.
    pub(super) attempts: &'a [Attempt],
    /// Rows that still wait.
    pub(super) waiting: usize,
    /// Processes that outlived their worker.
    pub(super) processes: usize,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) accepted: usize,
    pub(super) attempts: usize,
    pub(super) completed: usize,
    pub(super) interrupted: usize,
    pub(super) lost: usize,
    pub(super) doubled: usize,
    pub(super) processes: usize,
    /// What is not as it should be, in words; empty: all is well.
    pub(super) wrong: Vec<String>,
}

/// Counts, and says what is not as it should be.
pub(super) fn check(found: &Found<'_>) -> Tally {
    let of = |row: &Row, status: &TurnStatus| {
        let its = |attempt: &&Attempt| attempt.row.as_deref() == Some(&row.id);
        let its = found.attempts.iter().filter(its);
        its.filter(|attempt| attempt.status == *status).count()
    };
    let ended = |status: &TurnStatus| {
        let with = |attempt: &&Attempt| attempt.status == *status;
        found.attempts.iter().filter(with).count()
    };
    let mut tally = Tally {
        accepted: found.rows.len(),
        attempts: found.attempts.len(),
        completed: ended(&TurnStatus::Completed),
        interrupted: ended(&TurnStatus::Interrupted),
        processes: found.processes,
        ..Tally::default()
    };
    for row in found.rows {
        let completed = of(row, &TurnStatus::Completed);
        let interrupted = of(row, &TurnStatus::Interrupted);
        let expected = usize::from(row.id == found.killed);
        let prompt = &row.prompt;
        match completed {
            0 => {
                tally.lost += 1;
                tally
                    .wrong
                    .push(format!("\"{prompt}\" was accepted and never completed"));
            }
            1 => {}
            more => {
                tally.doubled += 1;
                tally
                    .wrong
                    .push(format!("\"{prompt}\" completed {more} times"));
            }
        }
        if interrupted != expected {
            tally.wrong.push(format!(
                "\"{prompt}\" was interrupted {} instead of {expected}",
                counted(interrupted, "time")
            ));
        }
    }
    let known = tally.completed + tally.interrupted;
    if tally.attempts != known {
        let others = tally.attempts - known;
        let others = counted(others, "turn");
        tally.wrong.push(format!("{others} ended neither way"));
    }
    let is_ours = |attempt: &&Attempt| {
        found
            .rows
            .iter()
            .any(|row| Some(&row.id) == attempt.row.as_ref())
    };
    let strangers = found.attempts.len() - found.attempts.iter().filter(is_ours).count();
    if strangers > 0 {
        let strangers = counted(strangers, "turn");
        tally
            .wrong
            .push(format!("{strangers} ran that nobody queued"));
    }
    if !is_in_order(found) {
        tally
            .wrong
            .push("the turns did not run in the order they were queued in".to_owned());
    }
    if found.waiting > 0 {
        let waiting = counted(found.waiting, "turn");
        tally.wrong.push(format!("{waiting} left in the queue"));
    }
    if found.processes > 0 {
        let processes = found.processes;
        tally
            .wrong
            .push(format!("left over from a worker: {processes}"));
    }
    tally
}

/// Whether rows were run one after the other as they were queued; a second attempt follows its first.
fn is_in_order(found: &Found<'_>) -> bool {
    let place = |attempt: &Attempt| {
        let its = |row: &Row| Some(&row.id) == attempt.row.as_ref();
        let row = found.rows.iter().position(its);
        (row, attempt.status == TurnStatus::Completed)
    };
    found.attempts.iter().map(place).is_sorted()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |id: &str| Row {
            id: id.to_owned(),
            prompt: format!("do {id}"),
        };
        ["a", "b", "c"].map(row).to_vec()
    }

    /// `a` completed, `b!` was interrupted, `c?` failed.
    fn history(words: &[&str]) -> Vec<Attempt> {
        let attempt = |word: &&str| Attempt {
            row: Some(word.trim_end_matches(['!', '?']).to_owned()),
            status: match word.chars().last() {
                Some('!') => TurnStatus::Interrupted,
                Some('?') => TurnStatus::Failed,
                _ => TurnStatus::Completed,
            },
        };
        words.iter().map(attempt).collect()
    }

    fn checked(words: &[&str], waiting: usize, processes: usize) -> Tally {
        check(&Found {
            rows: &rows(),
            killed: "b",
            attempts: &history(words),
            waiting,
            processes,
        })
    }

    #[test]
    fn every_turn_once_in_order_and_the_killed_one_again_is_right() {
        let tally = checked(&["a", "b!", "b", "c"], 0, 0);
        let expected = Tally {
            accepted: 3,
            attempts: 4,
            completed: 3,
            interrupted: 1,
            ..Tally::default()
        };
        assert_eq!(tally, expected);
    }

    #[test]
    fn a_turn_that_is_missing_is_lost() {
        let tally = checked(&["a", "b!", "b"], 0, 0);
        assert_eq!((tally.lost, tally.doubled), (1, 0));
        assert_eq!(tally.wrong, ["\"do c\" was accepted and never completed"]);
    }

    #[test]
    fn a_turn_that_completed_twice_is_doubled() {
        let tally = checked(&["a", "b!", "b", "c", "c"], 0, 0);
        assert_eq!((tally.lost, tally.doubled), (0, 1));
        assert_eq!(tally.wrong, ["\"do c\" completed 2 times"]);
    }

    #[test]
    fn turns_out_of_order_are_seen() {
        let order = "the turns did not run in the order they were queued in";
        for words in [
            ["a", "b!", "c", "b"],
            ["b!", "b", "a", "c"],
            ["a", "b", "b!", "c"],
        ] {
            assert_eq!(checked(&words, 0, 0).wrong, [order], "{words:?}");
        }
    }

    #[test]
    fn interruptions_of_others_failures_and_strangers_are_seen() {
        assert_eq!(
            checked(&["a!", "a", "b", "c"], 0, 0).wrong,
            [
                "\"do a\" was interrupted 1 time instead of 0",
                "\"do b\" was interrupted 0 times instead of 1"
            ]
        );
        assert_eq!(
            checked(&["a", "b!", "b", "c?", "c"], 0, 0).wrong,
            ["1 turn ended neither way"]
        );
        assert_eq!(
            checked(&["a", "b!", "b", "c", "x"], 0, 0).wrong[0],
            "1 turn ran that nobody queued"
        );
    }

    #[test]
    fn rows_that_wait_and_processes_that_are_left_are_seen() {
        assert_eq!(
            checked(&["a", "b!", "b", "c"], 1, 0).wrong,
            ["1 turn left in the queue"]
        );
        let tally = checked(&["a", "b!", "b", "c"], 0, 2);
        assert_eq!(tally.processes, 2);
        assert_eq!(tally.wrong, ["left over from a worker: 2"]);
    }
}
