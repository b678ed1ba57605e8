#!/usr/bin/env bash
# Breaks one rule of the native engine at a time and sees whether a test notices.
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

native="$copy/crates/engine/src/native"
# A target directory that outlives this run may hold the last mutant of another.
find "$native" -name '*.rs' -exec touch {} +
only="${1:-}"
missed=0
tried=0

run_tests() {
    (cd "$copy" && timeout 600 cargo test -q -p turnlane-engine --lib --test it native) \
        >"$copy/out" 2>&1
}

say() {
    printf '%-12s %s\n' "$1" "$2"
}

mutant() { # name, file, text, replacement
    local file="$native/$2" source mutated
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
        say 'caught' "$1 ($(sed -n 's/^    \(.*native.*::.*\)$/\1/p' "$copy/out" | sort -u | head -2 | paste -sd' '))"
    else
        say 'NOT BUILT' "$1"
        grep -m1 -A6 '^error' "$copy/out" || true
        missed=1
    fi
    printf '%s\n' "$source" >"$file"
}

if ! run_tests; then
    echo 'the tests fail without a mutant'
    tail -20 "$copy/out"
    exit 1
fi

# What is durable, and whose lane it is.
mutant 'effect before its call is durable' turn/rounds.rs \
    'self.sink.commit().await?;
        self.run_calls(calls).await' 'self.run_calls(calls).await'
mutant 'fence not looked at after an approval' tools/exec.rs \
    'self.turn.sink.commit().await?;
                Consent::Given' 'Consent::Given'

# The stream and its tries.
mutant 'keys in deltas' model/tell.rs \
    'shown => shown.into_owned(),' '_ => delta,'
mutant 'calls of a cut stream run' model/answer.rs \
    'Stopped::Broken(broken) => self.broken(&broken, gathered),' \
    'Stopped::Broken(_) => Ended::Completed { gathered, end_turn: None },'
mutant 'learned omission forgotten' model/omit.rs \
    'let omissions = learned.omissions(&call.provider.id, call.model);' \
    'let omissions = { let _ = learned; BTreeSet::new() };'
mutant 'usage of failed tries lost' model/call.rs \
    'self.used.extend(gathered.usage);' ''
mutant 'silence is waited out' http/answer.rs \
    'tokio::time::timeout(self.idle_max, self.response.chunk())' \
    'tokio::time::timeout(self.idle_max * 1000, self.response.chunk())'

# Calls and approvals.
mutant 'what the policy refuses runs' tools/exec.rs \
    'Consent::Declined(REFUSED_BY_POLICY.to_owned())' 'Consent::Given'
mutant 'never asks nobody and runs' policy.rs \
    'ApprovalPolicy::Never => Stance::Refuse,' 'ApprovalPolicy::Never => Stance::Run,'
mutant 'answers in the order of their ends' turn/calls.rs \
    'while let Some(text) = self.answers.get_mut(self.recorded).and_then(Option::take) {
            let call_id = self.call_ids[self.recorded].clone();' \
    'while let Some(at) = self.answers.iter().position(Option::is_some) {
            let text = self.answers[at].take().unwrap_or_default();
            let call_id = self.call_ids[at].clone();'
mutant 'a ninth call at once' tools/slots.rs \
    'most.clamp(1, Semaphore::MAX_PERMITS)' '(most + 1).clamp(1, Semaphore::MAX_PERMITS)'
mutant 'a 65th command' sessions/thread.rs \
    'all.running() >= RUNNING_MAX' 'all.running() > RUNNING_MAX'
mutant 'a round more than the limit' turn/rounds.rs \
    'self.rounds_made >= rounds_max' 'self.rounds_made > rounds_max'
mutant 'keys in the environment of commands' tools/exec/launch.rs \
    'vars: PLAIN_OUTPUT.into_iter().map(pair).collect(),' \
    'vars: std::env::vars_os().chain(PLAIN_OUTPUT.into_iter().map(pair)).collect(),'
mutant 'escalated commands stay confined' tools/exec/launch.rs \
    'Escalation::Escalated => Sandbox::DangerFullAccess' \
    'Escalation::Escalated => policy::sandbox(&settings.sandbox_policy, Path::new(&settings.cwd), &[])'

# Patches.
mutant 'patches judged by their links' patch/resolve.rs \
    'Ok(found) if found.is_symlink() => path.read_link().map(Some),' ''
mutant 'failed patch not undone' patch/apply.rs \
    '.filter(|done| done.restore().is_err());' '.filter(|_| false);'

# Interrupts, steers, compaction.
mutant 'interrupt leaves commands' turn/ending.rs \
    'Err(Halt::Interrupted(error)) => {
                in_turn.interrupt().await;' 'Err(Halt::Interrupted(error)) => {
                in_turn.end().await;'
mutant 'dropped turn leaves commands' sessions/in_turn.rs \
    'if !self.is_over {' 'if self.is_over {'
mutant 'model not told of an interrupt' turn/ending.rs \
    'let _ = self.tell_next_turn().await;' ''
mutant 'steer at the last moment dropped' turn/listen.rs \
    'self.take(more.ok_or(Fenced)?).await?;' 'let _ = more.ok_or(Fenced)?;'
mutant 'compaction keeps the old entries' history/join.rs \
    'self.start_over();
                self.push_message(entry);' 'self.push_message(entry);'
mutant 'failed compaction changes the history' turn/compact.rs \
    'let summary = self.summary().await;' 'let summary = self.summary().await;
        if summary.is_err() { self.record(vec![compacted(&self.author, &self.history, "")]).await?; }'

echo "$tried mutants"
exit "$missed"
