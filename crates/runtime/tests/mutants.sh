#!/usr/bin/env bash
# Breaks one rule of a lane at a time and sees whether a test notices.
#
# Each mutant is a file, a text that stands in it and what to write instead (the first place counts).
# The workspace is copied, so the working tree stays as it is. Ends with 1 if a mutant was not caught,
# or if its text is not there any more. `mutants.sh NAME` tries those whose name contains NAME.
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar -C "$root" --exclude=./target --exclude=./.git -cf - . | tar -C "$copy" -xf -
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$copy/target}"

lane="$copy/crates/runtime/src/lane"
# A target directory that outlives this run may hold the last mutant of another.
touch "$lane"/*.rs "$lane"/*/*.rs
only="${1:-}"
missed=0
tried=0

# The rules are run through some 250,000 states, which an unoptimized build takes its time for.
run_tests() {
    (cd "$copy" && timeout 600 cargo test -q -p turnlane-runtime --lib \
        --config 'profile.test.package.turnlane-runtime.opt-level=1' lane) >"$copy/out" 2>&1
}

say() {
    printf '%-12s %s\n' "$1" "$2"
}

mutant() { # name, file, text, replacement
    local file="$lane/$2" source mutated
    [[ "$1" == *"$only"* ]] || return 0
    tried=$((tried + 1))
    source=$(<"$file")
    mutated="${source/"$3"/"$4"}"
    if [[ "$mutated" == "$source" ]]; then
        say 'TEXT GONE' "$1"
        missed=1
        return 0
    fi
    printf '%s\n' "$mutated" >"$file"
    if run_tests; then
        say 'NOT CAUGHT' "$1"
        missed=1
    elif grep -q 'test result: FAILED' "$copy/out"; then
        say 'caught' "$1"
    else
        say 'NOT BUILT' "$1"
        grep -m1 -A6 '^error' "$copy/out" || true
        missed=1
    fi
    printf '%s\n' "$source" >"$file"
}

if ! run_tests; then
    echo 'the tests fail without a mutant'
    exit 1
fi

# Claims.
mutant 'claim while paused' state/work.rs \
    '                && !look.paused' ''
mutant 'claim while the lane is elsewhere' state/work.rs \
    '                && !look.elsewhere' ''
mutant 'claim while waiting' state/work.rs \
    '                && waited_out(look.waiting, now.wall_ms)' ''
mutant 'claim before its time' state/work.rs \
    'if at_ms <= now.wall_ms' 'if at_ms < i64::MAX'
mutant 'claim without a slot' state/work.rs \
    'Slot::Asked => {}' 'Slot::Asked => {
                    self.phase = Phase::Taking { request: None, take: Take::Begin };
                    effects.push(Effect::Commit(Op::Claim { which: Which::Head, request: None }));
                }'
mutant 'claim spins when the store says not now' state.rs \
    'if self.may_claim(now) {' 'if self.kept.len() > KEPT_MAX {'
mutant 'no timer for a head that comes due' state/work.rs \
    '(free_ms > now.wall_ms).then_some(free_ms)' '(free_ms == i64::MAX).then_some(free_ms)'

# Slots and the end of a lane.
mutant 'slot not given back at the end' state.rs \
    'self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
        self.look_at_kept' 'self.slot = Slot::None;
        }
        self.look_at_kept'
mutant 'slot held when a request was faster' state/work.rs \
    'self.slot = Slot::None;
            effects.push(Effect::GiveSlot);
        }
    }

    pub(super) fn subscribers_changed' 'self.slot = Slot::Held;
        }
    }

    pub(super) fn subscribers_changed'
mutant 'slot not given back by a lost lane' state.rs \
    'if self.slot != Slot::None {' 'if self.slot == Slot::Asked {'
mutant 'unloaded while clients listen' state/work.rs \
    'self.subscribers > 0 || ' ''
mutant 'lost lane goes on' state.rs \
    'std::mem::replace(&mut self.phase, Phase::Lost)' \
    'std::mem::replace(&mut self.phase, Phase::Idle)'
mutant 'a result after the end is called lost' state.rs \
    'Event::Committed(_) => Answer::Result' 'Event::Committed(_) => Answer::Lost'

# Requests.
mutant 'kept requests dropped' state/requests.rs \
    'self.kept.push_back(Kept { request, event });' 'let _ = Kept { request, event };'
mutant 'kept requests looked at after rows' state.rs \
    'self.look_at_kept(now, effects);
    }

    fn steered' '}

    fn steered'
mutant 'kept requests looked at backwards' state/requests.rs \
    'in std::mem::take(&mut self.kept) {' 'in std::mem::take(&mut self.kept).into_iter().rev() {'
mutant 'steered during an interrupt' state/requests.rs \
    'Phase::Running(running) if running.stop.is_none() => {
                let steering' 'Phase::Running(running) => {
                let steering'
mutant 'steered after steering was closed' state.rs \
    'running.steering = Steering::Closed;' 'running.steering = Steering::Open;'
mutant 'steers that wait are ignored' state.rs \
    'if waiting > 0 && running.stop.is_none()' 'if waiting > 99 && running.stop.is_none()'
mutant 'steer not handed over' state.rs \
    'effects.push(Effect::HandSteer(request));' ''
mutant 'a stopping worker takes new turns' state/requests.rs \
    'if self.stopping.is_some() {' 'if self.kept.len() > KEPT_MAX {'

# Interrupts.
mutant 'engine told to stop twice' state/requests.rs \
    'if first {' 'if first || why == crate::lane::event::CancelWhy::Timeout {'
mutant 'deadline ignored' state.rs \
    'late.is_some_and(|deadline| deadline <= now.mono)' 'late.is_some_and(|deadline| deadline.is_zero())'
mutant 'engine given up before its deadline' state.rs \
    'late.is_some_and(|deadline| deadline <= now.mono)' 'late.is_some()'
mutant 'interrupt answered at once' state/requests.rs \
    'stop.requests.extend(request);' \
    'effects.extend(request.map(|request| Effect::Answer(request, Answer::Interrupted)));'
mutant 'another turn interrupted than was named' state/requests.rs \
    'turn.is_some_and(|turn| turn != *active)' 'turn.is_some_and(|turn| turn != *active && false)'
mutant 'pause of an interrupt forgotten' state/requests.rs \
    'stop.queue = queue;' 'stop.queue = AfterInterrupt::Continue;'
mutant 'grace of a stop ignored' state.rs \
    '(now.mono + grace, StopWhy::Worker)' '(now.mono.max(grace.min(now.mono)), StopWhy::Worker)'
mutant 'haste ignored by what is being stopped' state.rs \
    'stop.deadline.min(now.mono + HASTY_GRACE)' 'stop.deadline.min(now.mono + STOP_GRACE)'
mutant 'haste ignored by what is stopped' state.rs \
    'StopWhy::WorkerInHaste => HASTY_GRACE' 'StopWhy::WorkerInHaste => STOP_GRACE'
mutant 'a closed thread is a stopped worker' state/work.rs \
    'StopWhy::Close => Unload::Closed' 'StopWhy::Close => Unload::Stopping'

# Turns.
mutant 'engine runs before its turn is accepted' state.rs \
    'effects.push(Effect::Commit(Op::Accept));' \
    'effects.extend([Effect::RunEngine, Effect::Commit(Op::Accept)]);'
mutant 'an end that failed is given up' state.rs \
    'closing.retry_at = Some(now.mono + RETRY_AFTER);' 'closing.retry_at = None;'
mutant 'an acceptance that failed leaves the row claimed' state.rs \
    'match take {' 'let _ = (take, request);
        match Take::Begin {'
mutant 'clients not told of an end' state.rs \
    'effects.push(Effect::Tell(Tell::Completed));' ''

# Fates.
mutant 'put back despite an effect' fate.rs \
    'comes_back(ended.row) && !ended.had_effect' 'comes_back(ended.row)'
mutant 'twentieth put-back not blocked' fate.rs \
    'ended.row.put_backs + 1 >= PUT_BACKS_MAX' 'ended.row.put_backs + 1 > PUT_BACKS_MAX'
mutant 'direct rows come back' fate.rs \
    'if !comes_back(ended.row) {' 'if ended.row.source == FANOUT {'
mutant 'fan-out makes the lane wait' fate.rs \
    'if waits_it_out && ended.row.source != FANOUT {' 'if waits_it_out {'
mutant 'on-limit ignored' fate.rs \
    ' && policies.on_limit == OnLimit::Wait' ''
mutant 'put-backs use up tries' fate.rs \
    '        .saturating_sub(row.put_backs)' ''
mutant 'a turn that never began is sent to the model' fate.rs \
    '(Fate::Done, !ended.outcome.begun)' '(Fate::Done, false)'
mutant 'a graceful stop goes by on-crash' fate.rs \
    'ended.worker_stop == WorkerStop::Graceful {' 'ended.worker_stop == WorkerStop::No {'
mutant 'a stop uses up a try' fate.rs \
    '        .saturating_sub(row.stops)' ''
mutant 'an unanswered approval is an ordinary failure' fate.rs \
    '} else if unanswered {' '} else if unanswered && ended.had_effect {'
mutant 'an unanswered approval does not pause after a direct turn' fate.rs \
    'pause: if unanswered && ended.row.source == DIRECT {' 'pause: if false {'

# Recovery.
mutant 'started row queued again after a crash' recovery.rs \
    'row: by_crash_policy(found.row, &worker_stopped(), now_ms),' \
    'row: FoundFate::Back { turn: ids::new_turn(now_ms), loss: Loss::Counted },'
mutant 'poison limit ignored' recovery.rs \
    'if row.losses + 1 < losses_max {' 'if row.losses + 1 < u32::MAX {'
mutant 'an ended turn decided again' recovery.rs \
    'status == TurnStatus::InProgress' 'status != TurnStatus::Completed'
mutant 'reserved turn id lost' recovery.rs \
    'let turn = if comes_back(row) {' 'let turn = if row.state == RowState::Claimed {'
mutant 'claimed fan-out row queued again' recovery.rs \
    'if row.source == FANOUT || row.bound.is_some() {' 'if row.bound.is_some() {'

# Turns of foreign engines.
mutant 'a turn that was handed over is run again unasked' recovery.rs \
    'History::Askable if found.row.sent => undecided(FoundFate::Ask),' ''
mutant 'a worker without the engine decides' recovery.rs \
    'other: History::OtherWorkers,' 'other: History::Ours,'
mutant 'a desk asks engines' recovery.rs \
    'askable: if max_running == 0 {' 'askable: if max_running == usize::MAX {'
mutant 'a reboot is not noticed' recovery.rs \
    'let same_boot = !boot_id.is_empty()' 'let same_boot = true || !boot_id.is_empty()'
mutant 'a turn that was never taken is sent to the model' recovery.rs \
    'muted: returns,' 'muted: false,'
mutant 'a stop forgets that nothing was handed over' fate.rs \
    'let never_taken = hand_over == HandOver::NotSent ||' 'let never_taken = false &&'
mutant 'a stopping worker waits for an engine' state.rs \
    'Phase::Reconciling { .. } if deadline <= now.mono => self.leave_undecided(effects),' ''
mutant 'an undecided turn is forgotten behind a start' state.rs \
    'Some(turn) => self.ask_engine(turn, effects),' 'Some(_) => self.look_at_kept(now, effects),'

echo "$tried mutants"
exit "$missed"
