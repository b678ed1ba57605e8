//! The invariants of the queue, each a function over what can be read before and after a step.
//!
//! The invariant here: nothing of the reference is used, so a mistake in it hides nothing. They
//! stand in the order of the queue's contract. The twelfth, one run record and at most one row per
//! due occurrence of a schedule, has nothing to look at yet: the store knows no schedules.

use turnlane_store::WorkerId;
use turnlane_store::lane::Ready;
use turnlane_store::queue::{Claim, Row, RowState, Which};
use turnlane_store::turn::TurnStatus;

use super::op::{End, Op};
use super::picture::Picture;

/// One step as the store shows it.
pub(crate) struct Seen<'a> {
    pub(crate) before: &'a Picture,
    /// Nothing when a worker came or went.
    pub(crate) op: Option<&'a Op>,
    pub(crate) end: &'a End,
    pub(crate) after: &'a Picture,
}

/// Why an invariant does not hold.
pub(crate) type Verdict = Result<(), String>;

type Invariant = fn(&Seen<'_>) -> Verdict;

fn holds(condition: bool, why: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(why()) }
}

/// All that concern one step.
pub(crate) fn check(seen: &Seen<'_>) -> Verdict {
    let all: [(&str, Invariant); 10] = [
        ("single flight", single_flight),
        ("no loss", no_loss),
        ("no double dispatch", no_double_dispatch),
        ("fifo", fifo),
        ("fence", fence),
        ("accept before effect", accept_before_effect),
        ("depth", depth),
        ("blocked head", blocked_head),
        ("paused or waiting", paused_or_waiting),
        ("idempotent add", idempotent_add),
    ];
    for (name, invariant) in all {
        invariant(seen).map_err(|why| format!("{name}: {why}"))?;
    }
    revision(seen).map_err(|why| format!("revision: {why}"))
}

/// 1. At most one row is claimed, started or being decided, and it is the lane's.
pub(crate) fn single_flight(seen: &Seen<'_>) -> Verdict {
    let after = seen.after;
    let active: Vec<_> = after
        .rows
        .iter()
        .filter(|row| row.state.is_active())
        .collect();
    holds(active.len() <= 1, || format!("{active:?}"))?;
    let named = after.lane.active.map(|active| (active.row, active.turn));
    let found = active.first().map(|row| (row.id, row.turn));
    holds(named == found, || {
        format!("the lane names {named:?}, active is {found:?}")
    })?;
    let running = after
        .turns
        .iter()
        .filter(|turn| turn.status == TurnStatus::InProgress);
    for turn in running {
        let owner = active
            .first()
            .filter(|row| Some(row.id) == turn.row && row.turn == turn.id);
        let fits = owner.is_some_and(|row| row.state != RowState::Claimed);
        holds(fits, || format!("{turn:?} runs without its row"))?;
    }
    let started = active.first().filter(|row| row.state == RowState::Started);
    let its_turn = |row: &Row| after.turns.iter().any(|turn| turn.id == row.turn);
    holds(started.is_none_or(|row| its_turn(row)), || {
        format!("{started:?} has no turn")
    })
}

/// 2. A row that was there is there, and an ended one has an end that stays.
pub(crate) fn no_loss(seen: &Seen<'_>) -> Verdict {
    for row in &seen.before.rows {
        let now = seen.after.row(row.id);
        let now = now.ok_or_else(|| format!("{} is gone", row.id))?;
        let same_end = !row.state.is_ended() || now == row;
        holds(same_end, || format!("{row:?} became {now:?}"))?;
    }
    let known = |end: &End| match end {
        End::New(row) | End::Claimed(_, row) => seen.after.row(row.id).is_some(),
        End::Begun(begun) => seen.after.row(begun.row.id).is_some(),
        _ => true,
    };
    holds(known(seen.end), || {
        format!("{:?} was acknowledged and is not there", seen.end)
    })?;
    for row in &seen.after.rows {
        let fits = row.state.is_ended() == row.ended_ms.is_some()
            && row.state.is_visible() == row.position.is_some()
            && row.state.is_visible() == seen.after.queue.contains(row);
        holds(fits, || format!("{row:?}"))?;
    }
    for turn in &seen.before.turns {
        let now = seen.after.turns.iter().find(|now| now.ord == turn.ord);
        let kept = now.is_some_and(|now| now.id == turn.id && now.row == turn.row);
        holds(kept, || format!("{turn:?} became {now:?}"))?;
    }
    let items = &seen.before.items;
    holds(seen.after.items.starts_with(items), || {
        "items are gone".to_owned()
    })
}

/// 3. A turn begins only for a row that waited or was claimed, one per claim.
pub(crate) fn no_double_dispatch(seen: &Seen<'_>) -> Verdict {
    let new = &seen.after.turns[seen.before.turns.len().min(seen.after.turns.len())..];
    holds(new.len() <= 1, || format!("{new:?}"))?;
    for turn in new {
        let before = turn.row.and_then(|row| seen.before.row(row));
        let state = before.map(|row| row.state);
        let could = state.is_none_or(|state| state.is_visible() || state == RowState::Claimed);
        holds(could, || format!("{turn:?} began from {before:?}"))?;
    }
    for row in &seen.after.rows {
        let of_row = |turn: &&_| {
            let turn: &turnlane_store::turn::TurnRow = turn;
            turn.row == Some(row.id)
        };
        let mut tries: Vec<_> = seen
            .after
            .turns
            .iter()
            .filter(of_row)
            .map(|turn| turn.attempt)
            .collect();
        let count = tries.len();
        tries.dedup();
        let fits = tries.len() == count
            && tries.is_sorted()
            && tries.last().is_none_or(|last| *last <= row.attempts);
        holds(fits, || format!("{row:?} was tried as {tries:?}"))?;
    }
    Ok(())
}

/// The row that was claimed because it was the head, and the claim.
fn claimed_head<'a>(seen: &'a Seen<'_>) -> Option<(&'a Claim, turnlane_store::RowId)> {
    let (Op::Claim(claim) | Op::Begin(claim, _)) = seen.op? else {
        return None;
    };
    let row = match seen.end {
        End::Claimed(_, row) | End::CannotStart(row, _) => row.id,
        End::Begun(begun) => begun.row.id,
        _ => return None,
    };
    (claim.which == Which::Head).then_some((claim, row))
}

/// 4. The head is claimed and nothing else; a new order leaves the row under way alone.
pub(crate) fn fifo(seen: &Seen<'_>) -> Verdict {
    if let Some((_, row)) = claimed_head(seen) {
        let head = seen.before.queue.first().map(|head| head.id);
        holds(head == Some(row), || {
            format!("claimed {row:?}, the head was {head:?}")
        })?;
    }
    if let Some(Op::Reorder(..) | Op::Move(_)) = seen.op {
        let active = |picture: &Picture| {
            let active = picture.lane.active.map(|active| active.row);
            active.and_then(|row| picture.row(row).cloned())
        };
        let (before, after) = (active(seen.before), active(seen.after));
        holds(before == after, || format!("{before:?} became {after:?}"))?;
    }
    let positions: Vec<_> = seen.after.queue.iter().map(|row| row.position).collect();
    holds(positions.is_sorted(), || format!("{positions:?}"))?;
    let ahead: Vec<_> = seen.after.queue.iter().map(|row| row.ahead).collect();
    holds(
        ahead.iter().copied().eq((0..).map(Some).take(ahead.len())),
        || format!("{ahead:?}"),
    )
}

/// 5. The fence only grows, with every claim and every change of owner; what is refused changed
///    nothing.
pub(crate) fn fence(seen: &Seen<'_>) -> Verdict {
    let (before, after) = (&seen.before.lane, &seen.after.lane);
    let grown = after.fence.0 - before.fence.0;
    holds(grown >= 0, || format!("{before:?} became {after:?}"))?;
    let claims = matches!(seen.end, End::Claimed(..))
        || matches!(seen.end, End::Begun(_)) && !matches!(seen.op, Some(Op::Accept(..)));
    let moved = before.owner != after.owner || claims;
    holds(!moved || grown > 0, || {
        format!("{before:?} became {after:?}")
    })?;
    let refused = matches!(
        seen.end,
        End::Refused(_) | End::NotNow | End::Busy | End::Repeated(..)
    );
    holds(!refused || seen.before == seen.after, || {
        format!(
            "{:?} changed {:?} to {:?}",
            seen.end, seen.before, seen.after
        )
    })
}

/// 6. What a turn produced is recorded behind its message, never without it.
pub(crate) fn accept_before_effect(seen: &Seen<'_>) -> Verdict {
    for turn in &seen.after.turns {
        let first = seen
            .after
            .items
            .iter()
            .find(|item| item.turn_ord == turn.ord);
        let said = first.is_some_and(|item| item.kind == "userMessage");
        holds(said, || format!("{turn:?} begins with {first:?}"))?;
    }
    for item in &seen.after.items {
        let of_turn = seen
            .after
            .turns
            .iter()
            .any(|turn| turn.ord == item.turn_ord);
        holds(of_turn, || format!("{item:?} belongs to no turn"))?;
    }
    Ok(())
}

/// 7. Depth is the number of visible rows; an add never takes it above the maximum.
pub(crate) fn depth(seen: &Seen<'_>) -> Verdict {
    let lane = &seen.after.lane;
    let visible = seen
        .after
        .rows
        .iter()
        .filter(|row| row.state.is_visible())
        .count();
    let counts = lane.depth as usize == visible && seen.after.queue.len() == visible;
    holds(counts, || format!("{visible} rows wait in {lane:?}"))?;
    // What comes back may; its place is taken by another add meanwhile.
    let added = matches!(seen.end, End::New(_));
    holds(!added || lane.depth <= lane.max_depth, || {
        format!("{lane:?}")
    })
}

/// 8. A failed head is passed by nothing that claims the head.
pub(crate) fn blocked_head(seen: &Seen<'_>) -> Verdict {
    let Some((claim, _)) = claimed_head(seen) else {
        return Ok(());
    };
    let head = seen.before.queue.first();
    let due = head
        .is_some_and(|head| head.state == RowState::Queued && head.not_before_ms <= claim.at_ms);
    holds(due, || format!("{claim:?} passed {head:?}"))
}

/// 9. A lane that is paused or waits is not claimed, and resuming loses nothing.
pub(crate) fn paused_or_waiting(seen: &Seen<'_>) -> Verdict {
    let before = &seen.before.lane;
    if let Some((claim, _)) = claimed_head(seen) {
        let waits = before
            .waiting
            .as_ref()
            .is_some_and(|wait| wait.holds(claim.at_ms));
        let free = before.paused.is_none() && !waits;
        holds(free, || format!("{claim:?} passed {before:?}"))?;
    }
    if let Some(Op::Resume(..)) = seen.op {
        let ids = |picture: &Picture| picture.queue.iter().map(|row| row.id).collect::<Vec<_>>();
        let same = ids(seen.before) == ids(seen.after);
        holds(same, || "resuming changed the rows".to_owned())?;
    }
    Ok(())
}

/// 10. A lane that a worker could claim from is found by it, and an owner whose death would leave
///     something to do is named.
pub(crate) fn liveness(after: &Picture, me: WorkerId, now_ms: i64, ready: &Ready) -> Verdict {
    let lane = &after.lane;
    let waits = lane.waiting.as_ref().is_some_and(|wait| wait.holds(now_ms));
    let due = after.queue.first().is_some_and(|head| {
        let mine = head.bound.is_none_or(|worker| worker == me);
        head.state == RowState::Queued && head.not_before_ms <= now_ms && mine
    });
    let free = lane.active.is_none() && lane.paused.is_none() && !waits;
    let other = lane.owner.filter(|owner| *owner != me);
    let found = match other {
        None => !(free && due) || ready.lanes.contains(&lane.thread),
        Some(owner) => {
            let matters = lane.active.is_some() || free && due;
            !matters || ready.owners.contains(&owner)
        }
    };
    holds(found, || format!("liveness: {lane:?} is not in {ready:?}"))
}

/// 11. A key stands for one row, and a repeated add finds it.
pub(crate) fn idempotent_add(seen: &Seen<'_>) -> Verdict {
    let live = |picture: &Picture| {
        let keyed = picture.rows.iter().filter(|row| !row.state.is_ended());
        keyed.filter_map(|row| row.key.clone()).collect::<Vec<_>>()
    };
    let mut keys = live(seen.after);
    keys.sort();
    holds(keys.windows(2).all(|pair| pair[0] != pair[1]), || {
        format!("{keys:?}")
    })?;
    let key = match seen.op {
        Some(Op::Append(append)) => append.row.key.as_ref(),
        Some(Op::Start(_, row, ..)) => row.key.as_ref(),
        _ => None,
    };
    let Some(key) = key else {
        return Ok(());
    };
    let known = live(seen.before).contains(key);
    match seen.end {
        End::New(_) | End::Begun(_) => holds(!known, || format!("{key} was there")),
        End::Repeated(row, _) => {
            let same = row.key.as_ref() == Some(key) && seen.before.row(row.id).is_some();
            holds(same, || format!("{row:?} is not the row of {key}"))
        }
        _ => Ok(()),
    }
}

/// Not one of the twelve: what is visible of the queue changes only with its revision.
fn revision(seen: &Seen<'_>) -> Verdict {
    let (before, after) = (&seen.before.lane, &seen.after.lane);
    let visible = |picture: &Picture| {
        let shown = |row: &Row| {
            (
                row.id,
                row.turn,
                row.state,
                row.params.clone(),
                row.failure.clone(),
            )
        };
        picture.queue.iter().map(shown).collect::<Vec<_>>()
    };
    let changed = visible(seen.before) != visible(seen.after)
        || before.paused != after.paused
        || before.waiting != after.waiting;
    let grown = after.revision - before.revision;
    holds(grown >= 0 && (!changed || grown > 0), || {
        format!("{} became {}", before.revision, after.revision)
    })
}
