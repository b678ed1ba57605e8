//! Unified diffs of two texts.
//!
//! The invariant here: a diff is true, whatever it costs in length. The shortest one is looked
//! for up to [`EDITS_MAX`] edits; beyond that the differing middle is one removal and one
//! addition, so that no pair of texts takes long.
//!
//! File headers are not written; a fileChange item names its file itself.

use std::fmt::Write as _;
use std::ops::Range;

/// Lines around a change.
const CONTEXT: usize = 3;

/// How many edits the shortest way may have; the search keeps about its square in numbers.
const EDITS_MAX: usize = 1_000;

/// Old lines that were replaced by new ones; either side may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// The hunks of a unified diff from `old` to `new`, without file headers; empty if they are equal.
pub fn unified(old: &str, new: &str) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut text = String::new();
    for hunk in changes(&old, &new).chunk_by(|a, b| b.old.start - a.old.end <= 2 * CONTEXT) {
        write_hunk(&mut text, &old, &new, hunk);
    }
    text
}

/// What differs, in order; no two changes touch.
pub(super) fn changes(old: &[&str], new: &[&str]) -> Vec<Change> {
    let front = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (rest_old, rest_new) = (&old[front..], &new[front..]);
    let tail = rest_old.iter().rev().zip(rest_new.iter().rev());
    let back = tail.take_while(|(a, b)| a == b).count();
    let rest_old = &rest_old[..rest_old.len() - back];
    let rest_new = &rest_new[..rest_new.len() - back];
    if rest_old.is_empty() && rest_new.is_empty() {
        return Vec::new();
    }
    let mut changes = shortest(rest_old, rest_new).unwrap_or_else(|| {
        vec![Change {
            old: 0..rest_old.len(),
            new: 0..rest_new.len(),
        }]
    });
    for Change { old, new } in &mut changes {
        *old = old.start + front..old.end + front;
        *new = new.start + front..new.end + front;
    }
    changes
}

/// The greedy search of Myers: after `d` edits, how far each diagonal reaches.
fn shortest(old: &[&str], new: &[&str]) -> Option<Vec<Change>> {
    let mut reached: Vec<Vec<usize>> = Vec::new();
    for edits in 0..=EDITS_MAX.min(old.len() + new.len()) {
        // Diagonal `old - new` is at index `diagonal + edits`; every second one is unused.
        let mut row = vec![0; 2 * edits + 1];
        for index in (0..=2 * edits).step_by(2) {
            let (start, _) = step(reached.last(), edits, index);
            let mut at_old = start;
            // Off the grid; such a diagonal reaches nothing.
            let Some(mut at_new) = (at_old + edits).checked_sub(index) else {
                continue;
            };
            while at_old < old.len() && at_new < new.len() && old[at_old] == new[at_new] {
                at_old += 1;
                at_new += 1;
            }
            row[index] = at_old;
            if at_old >= old.len() && at_new >= new.len() {
                return Some(walk_back(&reached, edits, index, old.len(), new.len()));
            }
        }
        reached.push(row);
    }
    None
}

/// Where the way to a diagonal's first point comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    Start,
    ByRemoval,
    ByAddition,
}

/// The first point of diagonal `index` of row `edits`, and the edit that leads there.
fn step(before: Option<&Vec<usize>>, edits: usize, index: usize) -> (usize, Came) {
    let Some(before) = before else {
        return (0, Came::Start);
    };
    // In the row before, the diagonal below has index - 2 and the one above has index.
    let below = index.checked_sub(2).map(|below| before[below] + 1);
    let above = before.get(index).copied();
    match (below, above) {
        (Some(removed), Some(added)) if removed > added => (removed, Came::ByRemoval),
        (_, Some(added)) => (added, Came::ByAddition),
        (Some(removed), None) => (removed, Came::ByRemoval),
        (None, None) => (edits, Came::Start),
    }
}

fn walk_back(
    reached: &[Vec<usize>],
    edits: usize,
    mut index: usize,
    old_len: usize,
    new_len: usize,
) -> Vec<Change> {
    let mut gone = vec![false; old_len];
    let mut come = vec![false; new_len];
    for edits in (1..=edits).rev() {
        let (at_old, came) = step(reached.get(edits - 1), edits, index);
        let at_new = at_old + edits - index;
        match came {
            Came::ByRemoval => {
                gone[at_old - 1] = true;
                index -= 2;
            }
            Came::ByAddition => come[at_new - 1] = true,
            Came::Start => {}
        }
    }
    let (mut at_old, mut at_new) = (0, 0);
    let mut changes = Vec::new();
    while at_old < old_len || at_new < new_len {
        let removed = gone[at_old..].iter().take_while(|gone| **gone).count();
        let added = come[at_new..].iter().take_while(|come| **come).count();
        if removed + added > 0 {
            let (old, new) = (at_old..at_old + removed, at_new..at_new + added);
            changes.push(Change { old, new });
        }
        // One line both have lies behind each change, but for the last.
        at_old += removed + 1;
        at_new += added + 1;
        if at_old > old_len || at_new > new_len {
            break;
        }
    }
    changes
}

fn write_hunk(text: &mut String, old: &[&str], new: &[&str], hunk: &[Change]) {
    let ([first, ..], [.., last]) = (hunk, hunk) else {
        return;
    };
    let lead = first.old.start.min(CONTEXT);
    let trail = (old.len() - last.old.end).min(CONTEXT);
    let old_range = first.old.start - lead..last.old.end + trail;
    let new_range = first.new.start - lead..last.new.end + trail;
    // Writing to a string does not fail.
    let _ = writeln!(text, "@@ -{} +{} @@", place(&old_range), place(&new_range));
    let mut at = old_range.start;
    for change in hunk {
        old[at..change.old.start]
            .iter()
            .for_each(|line| write_line(text, ' ', line));
        old[change.old.clone()]
            .iter()
            .for_each(|line| write_line(text, '-', line));
        new[change.new.clone()]
            .iter()
            .for_each(|line| write_line(text, '+', line));
        at = change.old.end;
    }
    old[at..old_range.end]
        .iter()
        .for_each(|line| write_line(text, ' ', line));
}

/// A range as diffs write it: from 1, an empty one by the line before it.
fn place(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => format!("{}", range.start + 1),
        length => format!("{},{length}", range.start + 1),
    }
}

fn write_line(text: &mut String, sign: char, line: &str) {
    text.push(sign);
    text.push_str(line);
    if !line.ends_with('\n') {
        text.push_str("\n\\ No newline at end of file\n");
    }
}
