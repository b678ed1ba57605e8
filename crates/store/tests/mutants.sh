#!/bin/sh
# Does the suite notice? Breaks the SQLite store on purpose, one rule at a time, in a copy of the
# tree, and runs the conformance and the model tests on each.
#
#     crates/store/tests/mutants.sh [WORD...]     # only the mutants whose name has one of the words
#
# Prints a line per mutant: which of the two suites caught it, or NOT CAUGHT. Ends with 1 if one was
# not caught or could not be applied. TURNLANE_PROPTEST_CASES (128 here) says how long the model is
# tried; CARGO_TARGET_DIR may name a warm target folder of its own.
#
# An edit names a file below crates/store/src/sqlite, a mark, and two texts: in the first line at or
# behind the mark that has the first text, it is replaced by the second. The mark is there since the
# same text stands in several functions.
#
# Not here: a claim as one statement, which only PostgreSQL could be tempted to.
set -eu

root=$(cd "$(dirname "$0")/../../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null -cf - -T -) |
    tar -xf - -C "$copy"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$copy/target}"
export TURNLANE_PROPTEST_CASES="${TURNLANE_PROPTEST_CASES:-128}"
export TURNLANE_PROPTEST_SHRINKS=0 # that it fails is enough
source=$copy/crates/store/src/sqlite
log=$copy/mutants.log
words="$*"
status=0

# edit FILE MARK OLD NEW
edit() {
    cp "$root/crates/store/src/sqlite/$1" "$copy/original"
    [ -n "${edited##* $1 *}" ] || cp "$source/$1" "$copy/original"
    MARK=$2 OLD=$3 NEW=$4 awk '
        BEGIN { mark = ENVIRON["MARK"]; old = ENVIRON["OLD"]; new = ENVIRON["NEW"] }
        index($0, mark) { behind = 1 }
        behind && !done && (at = index($0, old)) {
            $0 = substr($0, 1, at - 1) new substr($0, at + length(old))
            done = 1
        }
        { print }
        END { exit !done }
    ' "$copy/original" >"$source/$1" || applied=no
    edited="$edited$1 "
}

wanted() {
    [ -n "$words" ] || return 0
    for word in $words; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

fails() {
    ! (cd "$copy" && timeout 600 cargo test -q --offline -p turnlane-store --test it "$1") \
        >"$log" 2>&1
}

say() {
    printf '%-58s %s\n' "$1" "$2"
}

# mutant NAME EDITS: the edits are a call of `edit`, or several.
mutant() {
    wanted "$1" || return 0
    applied=yes
    edited=' '
    eval "$2"
    if [ $applied = no ]; then
        say "$1" 'NOT APPLIED: the source has changed'
        status=1
    elif ! (cd "$copy" && cargo test -q --offline -p turnlane-store --test it --no-run) \
        >"$log" 2>&1; then
        say "$1" 'NOT APPLIED: it does not compile'
        tail -n 20 "$log" >&2
        status=1
    else
        by=
        if fails conformance; then by="$by conformance"; fi
        if fails model; then by="$by model"; fi
        say "$1" "${by:+caught by}${by:-NOT CAUGHT}"
        [ -n "$by" ] || status=1
    fi
    for file in $edited; do
        cp "$root/crates/store/src/sqlite/$file" "$source/$file"
    done
}

# without_fence NAME FILE FUNCTION GRIP
without_fence() {
    mutant "$1" "edit $2 'pub(super) fn $3(' 'Lane::held(db, $4)?' 'Lane::find(db, $4.thread)?'"
}

# The guard of every write.
without_fence 'no fence check at accept' claim.rs accept grip
without_fence 'no fence check at unclaim' claim.rs unclaim grip
without_fence 'no fence check at mark_sent' claim.rs mark_sent grip
without_fence 'put without fence' turns.rs put grip
without_fence 'steer without fence' turns.rs add_steer grip
without_fence 'completion without fence' turns.rs complete complete.grip
without_fence 'release without fence' owner.rs release grip
without_fence 'decision without fence' recovery.rs decide grip
mutant 'a grip is checked without its owner' \
    "edit lane.rs 'fn held' 'lane.owner == Some(db.me) && ' ''"
mutant 'a grip is checked without its fence' \
    "edit lane.rs 'fn held' ' && lane.fence == grip.fence' ''"
mutant 'takeover without fence+1' \
    "edit recovery.rs 'fn take_over' 'lane.fence.0 += 1;' ''"
mutant 'claim without fence+1' \
    "edit lane.rs 'fn occupy' 'self.fence.0 += 1;' ''"
mutant 'change of owner without fence+1' \
    "edit lane.rs 'fn give_to' 'self.fence.0 += 1;' ''"
mutant 'closing without fence+1' \
    "edit recovery.rs 'fn leave' ', fence = fence + 1' ''"

# What a claim needs.
mutant 'claim ignores active' \
    "edit claim.rs 'fn take_row' 'lane.active.is_some() || ' ''"
mutant 'claim ignores active, and the index that forbids two' \
    "edit claim.rs 'fn take_row' 'lane.active.is_some() || ' ''
     edit migrations/0001_threads_and_lanes.sql one_flight 'CREATE UNIQUE' CREATE"
mutant 'claim ignores the owner' \
    "edit claim.rs 'fn take_row' 'lane.owner.is_some_and(|owner| owner != db.me)' 'false'"
mutant 'claim ignores paused' \
    "edit claim.rs 'fn pick_due' 'lane.archived || lane.paused.is_some()' 'lane.archived'"
mutant 'claim ignores archived' \
    "edit claim.rs 'fn pick_due' 'lane.archived || lane.paused.is_some()' 'lane.paused.is_some()'"
mutant 'claim ignores waiting' \
    "edit claim.rs 'fn pick_due' 'if waiting.holds(at_ms)' 'if waiting.holds(at_ms) && false'"
mutant 'claim ignores the time a row is due' \
    "edit claim.rs 'fn pick_due' 'if due_ms <= at_ms' 'if due_ms <= at_ms.max(due_ms)'"
mutant 'claim takes the one behind a failed head' \
    "edit sql/head.sql WHERE \"('queued','blocked')\" \"('queued')\""
mutant 'claim ignores to whom a row is bound' \
    "edit lane.rs 'fn head(' 'if worker != db.me' 'if worker != db.me && false'"
mutant 'named claim ignores to whom a row is bound' \
    "edit claim.rs 'fn pick_now' 'worker != db.me' 'worker != db.me && false'"
mutant 'named claim keeps the pause' \
    "edit lane.rs 'fn end_holds' 'self.paused.take()' 'self.paused.clone()'"
mutant 'a look is never corrected' \
    "edit claim.rs 'fn pick_due' 'lane.ready_ms != worth_a_look_ms' 'false'"
mutant 'a claim that found nothing is not looked at again' \
    "edit claim.rs 'fn pick_due' '=> Some(due_ms)' '=> Some(due_ms).filter(|_| false)'"

# Rows that come back, and counts.
mutant 'depth is not counted back' \
    "edit ends.rs 'fn to_head' 'lane.gain();' 'lane.touch();'"
mutant 'depth is not counted down' \
    "edit lane.rs 'fn lose' 'self.depth = self.depth.saturating_sub(1);' ''"
mutant 'a row comes back at the tail' \
    "edit ends.rs 'fn to_head' 'row.position = Some(smallest.unwrap_or(lane.next_pos) - STEP);' \
     'lane.next_pos += STEP; row.position = smallest.max(Some(lane.next_pos - STEP));'"
mutant 'a row comes back with its old turn' \
    "edit ends.rs 'fn to_head' 'row.turn = turn;' 'let _ = turn;'"
mutant 'the last turn is forgotten' \
    "edit ends.rs 'fn to_head' 'row.last_turn = Some(row.turn)' '{}'"
mutant 'put-backs are not counted' \
    "edit turns.rs 'fn complete(' 'row.put_backs += 1' '{}'"
mutant 'losses are not counted' \
    "edit recovery.rs 'fn apply' 'row.losses += 1' '{}'"
mutant 'tries are not counted' \
    "edit claim.rs 'fn take_row' 'row.attempts += 1;' ''"
mutant 'a full queue takes more' \
    "edit queue.rs 'fn add_last' 'lane.depth >= lane.max_depth' 'lane.depth > lane.max_depth'"
mutant 'changes are not counted' \
    "edit lane.rs 'fn touch' 'self.revision += 1;' ''"

# Keys.
mutant 'a key is not unique' \
    "edit sql/live_key.sql WHERE 'dedupe = ?2' 'dedupe = ?2 AND 0'
     edit migrations/0001_threads_and_lanes.sql one_key 'CREATE UNIQUE' CREATE"
mutant 'a key stands for any content' \
    "edit queue.rs 'fn find_key' 'content_hash != new.content_hash' 'false'"
mutant 'a key is forgotten with its row' \
    "edit sql/ended_key.sql WHERE 'ended_ms > ?3' 'ended_ms > ?3 AND 0'"
mutant 'a key is remembered for ever' \
    "edit sql/ended_key.sql WHERE 'ended_ms > ?3' '(ended_ms > ?3 OR 1)'"
mutant 'a deleted row keeps its key' \
    "edit sql/ended_key.sql WHERE \"('done','dead')\" \"('done','dead','cancelled')\""

# Recovery.
mutant 'the reaper queues started rows again, undecided' \
    "edit recovery.rs 'fn take_over' 'asks = matches!' 'let decision = Decision { \
     turn_error: decision.turn_error, row: FoundFate::Back { turn: crate::ids::TurnId::from( \
     uuid::Uuid::from_u128(row.turn.as_uuid().as_u128() + 1)), loss: Loss::Counted } }; \
     asks = matches!'"
mutant 'recovery does not clear active' \
    "edit recovery.rs 'fn apply' 'lane.vacate();' ''"
mutant 'recovery leaves the owner' \
    "edit recovery.rs 'fn take_over' 'lane.owner = None;' ''"
mutant 'recovery takes live workers for dead' \
    "edit recovery.rs 'fn left_behind' ' && db.is_dead(*worker)' ''"
mutant 'recovery leaves bound rows' \
    "edit recovery.rs 'fn cancel_bound' 'for (thread, row) in bound' \
     'for (thread, row) in bound.into_iter().take(0)'"
mutant 'recovery leaves approvals open' \
    "edit recovery.rs 'fn apply' 'interrupt_open(db, lane.thread, left, at_ms)?;' 'let _ = left;'"
mutant 'a direct turn takes what must be recovered' \
    "edit lane.rs 'fn held_elsewhere' 'self.active.is_some() || ' ''"
mutant 'nobody is ever dead for a taker' \
    "edit lane.rs 'fn held_elsewhere' '!db.is_dead(owner)' 'true'"

# Turns.
mutant 'a turn ends and its lane stays busy' \
    "edit turns.rs 'fn complete(' 'lane.vacate();' ''"
mutant 'a turn ends and its lane is not looked at' \
    "edit lane.rs 'fn vacate' 'self.look_again();' ''"
mutant 'a pause at the end replaces the first' \
    "edit turns.rs 'fn hold' 'lane.paused.clone().or_else(|| complete.pause.clone())' \
     'complete.pause.clone().or_else(|| lane.paused.clone())'"
mutant 'a turn ends and leaves approvals open' \
    "edit turns.rs 'fn complete(' 'interrupt_open(db, lane.thread, row.turn, at_ms)?;' ''"
mutant 'any row may be accepted' \
    "edit lane.rs 'fn active_row' '.filter(|row| row.state == state)' '.filter(|_| state == state)'"

# Fan-out jobs.
mutant 'fanout: the limit counts one worker only' \
    "edit sql/fanout/counts.sql FROM 'WHERE job = ?1' 'WHERE job = ?1 AND worker = (SELECT min(worker) FROM fanout_count)'"
mutant 'fanout: a job that does not run is claimed from' \
    "edit fanout/claim.rs 'pub(super) fn claim(' 'job.row.state == JobState::Running' 'true'"
mutant 'fanout: due retries are left' \
    "edit fanout/claim.rs 'pub(super) fn claim(' 'claiming.claim_due(db)?;' ''"
mutant 'fanout: an item goes on in a busy thread' \
    "edit fanout/claim.rs 'let is_busy' 'lane.active.is_some() || lane.held_elsewhere(db).is_some()' 'lane.held_elsewhere(db).is_some()'"
mutant 'fanout: lost items run beside others' \
    "edit fanout/claim.rs 'Company::Others => (' 'losses < 2' 'losses < 9'
     edit migrations/0006_fanout.sql fanout_item_due 'losses < 2' 'losses < 9'"
mutant 'fanout: the cursor stays' \
    "edit fanout/claim.rs 'fn claim_fresh' 'if self.job.row.next_seq != began_at' 'if self.job.row.next_seq < began_at'"
mutant 'fanout: a result is replaced' \
    "edit fanout/report.rs 'fn report(' 'if let Some(digest) = known' 'if let Some(digest) = known.filter(|known| *known == report.digest)'
     edit sql/fanout/insert_result.sql INSERT 'INSERT INTO' 'INSERT OR REPLACE INTO'"
mutant 'fanout: a newer attempt is not superseded' \
    "edit fanout/report.rs 'fn report(' 'if newer != of {' 'if false {'"
mutant 'fanout: an ended item takes a report' \
    "edit fanout/report.rs 'fn report(' 'ItemState::Pending | ItemState::Running) {' 'ItemState::Pending | ItemState::Running | ItemState::Failed) {'"
mutant 'fanout: stop cancels nothing' \
    "edit fanout/report.rs 'fn report(' 'report.stop && ' 'report.stop && false && '"
mutant 'fanout: a replaced attempt moves the item' \
    "edit fanout/settle.rs 'fn settle_one' ' && item.attempt == of.attempt' ''"
mutant 'fanout: a closed attempt is settled again' \
    "edit fanout/settle.rs 'fn settle_one' 'attempt.ended_ms.is_some() || unfounded' 'unfounded'"
mutant 'fanout: usage is added twice' \
    "edit fanout/settle.rs 'fn settle_one' 'usage: usage - attempt.usage' 'usage'"
mutant 'fanout: an item waits in a cancelled job' \
    "edit fanout/settle.rs 'fn move_on' 'if job.row.cancel_asked' 'if false'"
mutant 'fanout: a retry revives the rest' \
    "edit fanout/retry.rs 'fn write_cancelled' 'job.fresh_cancelled = true;' ''"
mutant 'fanout: a retry forgets what waited' \
    "edit fanout/retry.rs 'fn write_cancelled' 'cancelled: waiting' 'cancelled: waiting - waiting'"
mutant 'fanout: computed ids are not compared' \
    "edit fanout/items.rs 'fn parse_computed' 'let number: i64 =' 'let number: i64 = if true { return None } else { 0 }; let _: i64 ='"
mutant 'fanout: a change ignores the version' \
    "edit fanout/jobs.rs 'pub(super) fn change(' 'job.row.version == change.version && ' ''"
mutant 'fanout: a running job is deleted' \
    "edit fanout/delete.rs 'pub(super) fn delete(' '!job.row.deleting && runs' 'false && runs'"

exit $status
