//! What each step of a script says.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use turnlane_engine::scripted::{Script, Scripted};
use turnlane_engine::{Decided, EntryKind, OutcomeStatus, TurnKind};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_protocol::usage::TokenCounts;

use crate::support::{Lane, NOW_MS, Seen, clock, numbered, request, scripted, steps};

async fn play(yaml: &str) -> Seen {
    let seen = Lane::start(steps(yaml), request("hello")).finish().await;
    seen.assert_whole();
    seen
}

/// Lines that begin like this.
fn lines<'a>(seen: &'a Seen, begin: &str) -> Vec<&'a str> {
    let shown = seen.lines.iter().map(String::as_str);
    shown.filter(|line| line.starts_with(begin)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_say_streams_its_text_and_completes_with_it() {
    let seen =
        play("      - say: {text: \"grüße\", chunk: 2, delta_ms: 5, phase: commentary}").await;
    let times = format!("\"startedAtMs\":{NOW_MS}");
    let common = "\"delivery\":null,\"id\":\"{turn}-1\",\"memoryCitation\":null,\"phase\":\"commentary\",\"questions\":null";
    assert_eq!(
        seen.shown(),
        [
            &*format!(
                "started {{\"completedAtMs\":null,{common},{times},\"text\":\"\",\"type\":\"agentMessage\"}}"
            ),
            "item/agentMessage/delta {turn}-1 \"gr\"",
            "item/agentMessage/delta {turn}-1 \"üß\"",
            "item/agentMessage/delta {turn}-1 \"e\"",
            &*format!(
                "completed {{\"completedAtMs\":{NOW_MS},{common},{times},\"text\":\"grüße\",\"type\":\"agentMessage\"}}"
            ),
            "usage {\"cacheWriteInputTokens\":0,\"cachedInputTokens\":0,\"inputTokens\":10,\"outputTokens\":2,\"reasoningOutputTokens\":0,\"totalTokens\":12}",
            "close steer",
            "ended Completed",
        ]
    );
    assert_eq!(seen.outcome().last_agent_message.as_deref(), Some("grüße"));
    assert_eq!(seen.outcome().usage.unwrap().input_tokens, 10);
    let kinds: Vec<_> = seen.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::User, EntryKind::Output]);
    assert_eq!(seen.entries[0].item_id, Some("input".into()));
}

#[tokio::test(start_paused = true)]
async fn a_say_without_chunks_comes_whole() {
    let seen = play("      - say: {text: all, chunk: 0}").await;
    assert!(lines(&seen, "started")[0].contains("\"text\":\"all\""));
    assert!(lines(&seen, "item/").is_empty());
}

#[tokio::test(start_paused = true)]
async fn reasoning_is_a_summary_of_one_part() {
    let seen = play("      - reasoning: \"Look first, then think.\"").await;
    let shown = seen.shown();
    assert!(shown[0].contains("\"summary\":[]"), "{shown:?}");
    assert!(shown[1].starts_with("SummaryPartAdded"), "{shown:?}");
    assert_eq!(
        shown[2],
        "item/reasoning/summaryTextDelta {turn}-1 \"Look first, then\""
    );
    assert!(
        shown[4].contains("\"summary\":[\"Look first, then think.\"]"),
        "{shown:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_command_is_durable_before_it_has_an_effect() {
    let before = Instant::now();
    let seen = play("      - exec: {cmd: make, output: \"a\\nb\\n\", exit: 2, ms: 20}").await;
    assert_eq!(before.elapsed(), Duration::from_millis(20));
    let of_call = &seen.lines[1..];
    assert!(of_call[0].starts_with("record output [{\"arguments\":\"{\\\"cmd\\\":\\\"make\\\"}\""));
    assert!(of_call[1].contains("\"status\":\"inProgress\""));
    assert_eq!(of_call[2], "commit");
    assert_eq!(
        of_call[3],
        "item/commandExecution/outputDelta {turn}-1 \"a\\n\""
    );
    assert_eq!(
        of_call[4],
        "item/commandExecution/outputDelta {turn}-1 \"b\\n\""
    );
    for member in [
        "\"status\":\"failed\"",
        "\"exitCode\":2",
        "\"outcome\":\"exited\"",
        "\"aggregatedOutput\":\"a\\nb\\n\"",
        "\"cwd\":\"/project\"",
    ] {
        assert!(of_call[5].contains(member), "{member} in {}", of_call[5]);
    }
    assert!(of_call[6].starts_with("record toolOutput"));
    let [call, answer] = &seen.entries[1..] else {
        panic!("{:?}", seen.entries)
    };
    assert_eq!(call.call_ids, answer.call_ids);
    assert_eq!(call.call_ids.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_patch_shows_its_changes_and_the_diff_of_the_turn() {
    let seen = play(
        "      - patch: {input: \"*** Begin Patch\\n*** Add File: a\\n+x\\n*** End Patch\"}\n\
         \x20     - patch: {input: \"*** Begin Patch\\n*** Delete File: b\\n*** End Patch\", ms: 3}",
    )
    .await;
    let completed = lines(&seen, "completed");
    assert!(
        completed[0].contains("\"path\":\"/project/a\""),
        "{completed:?}"
    );
    assert!(
        completed[1].contains("\"kind\":{\"type\":\"delete\"}"),
        "{completed:?}"
    );
    let diffs = lines(&seen, "Diff");
    assert_eq!(diffs.len(), 2);
    assert!(
        diffs[1].contains("+++ a") && diffs[1].contains("--- b"),
        "{diffs:?}"
    );
    assert_eq!(lines(&seen, "commit").len(), 2);
    assert!(lines(&seen, "record toolOutput")[0].contains("Updated the following files:\\nA a"));
}

const APPROVE: &str = "      - approve: {cmd: touch x, reason: why, accepted: [{say: done}], declined: [{say: left it}]}";

async fn decided(decision: Decided) -> Seen {
    let mut lane = Lane::start(steps(APPROVE), request("hello"));
    lane.decision = decision;
    let seen = lane.finish().await;
    seen.assert_whole();
    seen
}

#[tokio::test(start_paused = true)]
async fn an_accepted_command_runs_after_the_answer_and_the_fence() {
    let seen = decided(Decided::new(Decision::AcceptForSession)).await;
    let shown = seen.shown();
    assert!(shown[0].starts_with("started"));
    assert_eq!(shown[1..3], ["approve {turn}-1", "commit"]);
    assert!(shown[3].contains("\"status\":\"completed\""));
    assert_eq!(seen.outcome().last_agent_message.as_deref(), Some("done"));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_nobody_decided_about_in_time_fails_the_turn() {
    let seen = decided(Decided::by_time_limit("no one answered")).await;
    assert!(lines(&seen, "completed")[0].contains("\"status\":\"declined\""));
    assert!(lines(&seen, "commit").is_empty());
    let outcome = seen.outcome();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    let error = outcome.error.clone().unwrap();
    assert_eq!(error.kind, Some(ErrorKind::ApprovalTimeout));
}

#[tokio::test(start_paused = true)]
async fn a_declined_command_does_not_run_and_the_model_is_told_why() {
    let reason = Some("no one answered".to_owned());
    let decision = Decision::Decline;
    let decline = Decided {
        reason,
        ..Decided::new(decision)
    };
    let seen = decided(decline).await;
    assert!(lines(&seen, "completed")[0].contains("\"status\":\"declined\""));
    assert!(lines(&seen, "commit").is_empty());
    assert!(lines(&seen, "record toolOutput")[0].contains("no one answered"));
    assert_eq!(
        seen.outcome().last_agent_message.as_deref(),
        Some("left it")
    );
    assert_eq!(seen.outcome().status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_approval_interrupts_the_turn() {
    let seen = decided(Decided::new(Decision::Cancel)).await;
    assert!(lines(&seen, "completed")[0].contains("\"status\":\"declined\""));
    assert!(lines(&seen, "record toolOutput")[0].contains("exec command rejected by user"));
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    assert_eq!(seen.outcome().last_agent_message, None);
}

#[tokio::test(start_paused = true)]
async fn plans_and_tokens_are_told() {
    let seen = play(
        "      - plan: [{step: look, status: completed}, {step: act, status: in_progress}]\n\
         \x20     - usage: {input: 100, cached: 40, output: 20, reasoning: 5}\n\
         \x20     - usage: {input: 1}",
    )
    .await;
    assert_eq!(
        lines(&seen, "plan"),
        [
            "plan [{\"status\":\"completed\",\"step\":\"look\"},{\"status\":\"inProgress\",\"step\":\"act\"}]"
        ]
    );
    let usage = lines(&seen, "usage");
    assert_eq!(usage.len(), 2, "no default beside the script's own");
    assert!(usage[0].contains("\"totalTokens\":120"));
    let total = TokenCounts {
        input_tokens: 101,
        cached_input_tokens: 40,
        cache_write_input_tokens: 0,
        output_tokens: 20,
        reasoning_output_tokens: 5,
    };
    assert_eq!(seen.outcome().usage, Some(total));
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_retried_waits_and_goes_on() {
    let before = Instant::now();
    let seen = play(
        "      - error: {info: rateLimitExceeded, message: slow, retry_after_ms: 100, will_retry: true}\n\
         \x20     - say: now",
    )
    .await;
    assert_eq!(before.elapsed(), Duration::from_millis(100));
    let retry = lines(&seen, "retry")[0];
    assert!(
        retry.contains("\"codexErrorInfo\":\"rateLimitExceeded\""),
        "{retry}"
    );
    assert_eq!(seen.outcome().status, OutcomeStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_error_ends_the_turn_with_its_kind_and_its_time() {
    for (step, kind) in [
        ("info: usageLimitExceeded", ErrorKind::Quota),
        ("info: responseStreamDisconnected", ErrorKind::Network),
        (
            "info: httpConnectionFailed, status: 503",
            ErrorKind::Overloaded,
        ),
        ("info: flexUnavailable", ErrorKind::Overloaded),
        ("info: other, kind: plan", ErrorKind::Plan),
        ("message: x", ErrorKind::Other),
    ] {
        let seen = play(&format!(
            "      - error: {{{step}, retry_after_ms: 900}}\n      - say: never"
        ))
        .await;
        let error = seen.outcome().error.as_ref().unwrap();
        assert_eq!(error.kind, Some(kind), "{step}");
        // 123 ms and 900 ms later is within the second after the next.
        assert_eq!(error.retry_at, Some(NOW_MS / 1000 + 2), "{step}");
        assert_eq!(seen.outcome().status, OutcomeStatus::Failed);
        assert_eq!(seen.outcome().last_agent_message, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_the_turn_until_it_is_opened() {
    let lane = Lane::start(
        steps("      - await: {gate: go}\n      - say: gone"),
        request("x"),
    );
    let gates = lane.gates.clone();
    let finish = tokio::spawn(lane.finish());
    gates.reached_by("go", 1).await;
    assert!(!finish.is_finished());
    gates.open("go");
    let seen = finish.await.unwrap();
    assert_eq!(seen.outcome().last_agent_message.as_deref(), Some("gone"));
}

#[tokio::test(start_paused = true)]
async fn an_await_goes_on_after_its_time() {
    for what in ["gate: never, ", "steer: true, ", ""] {
        let before = Instant::now();
        let seen = play(&format!("      - await: {{{what}ms: 1000}}")).await;
        assert_eq!(before.elapsed(), Duration::from_secs(1), "{what}");
        assert_eq!(seen.outcome().status, OutcomeStatus::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_is_the_end() {
    for (word, status) in [
        ("completed", OutcomeStatus::Completed),
        ("interrupted", OutcomeStatus::Interrupted),
        ("failed", OutcomeStatus::Failed),
    ] {
        let seen = play(&format!("      - end: {word}\n      - say: never")).await;
        assert_eq!(seen.outcome().status, status);
        assert_eq!(seen.outcome().error.is_some(), word == "failed");
        assert!(seen.started.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_rule_that_fits_is_played() {
    let engine = Arc::new(scripted(
        "turns:\n  - {match: cat, times: 1, steps: [{say: once}]}\n  - {match: cat, steps: [{say: again}]}\n\
         \x20 - {at: 3, steps: [{say: third}]}\nfallback: {say: \"heard {input}\"}",
    ));
    let mut history = Vec::new();
    let mut said = Vec::new();
    for (number, text) in [(1, "a cat"), (2, "a cat"), (3, "dog"), (4, "dog")] {
        let lane = Lane::shared(&engine, numbered(number, text, history.clone()));
        let seen = lane.finish().await;
        said.extend(seen.outcome().last_agent_message.clone());
        history.extend(seen.entries);
    }
    assert_eq!(said, ["once", "again", "third", "heard dog"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_keeps_its_number_over_a_compaction() {
    let engine = Arc::new(scripted("turns:\n  - {at: 3, steps: [{say: third}]}"));
    let mut history = Vec::new();
    for number in 1..=2 {
        let lane = Lane::shared(&engine, numbered(number, "x", history.clone()));
        history.extend(lane.finish().await.entries);
    }
    let mut compact = numbered(8, "", history.clone());
    compact.kind = TurnKind::Compact;
    compact.input.clear();
    compact.item_id = None;
    let seen = Lane::shared(&engine, compact).finish().await;
    seen.assert_whole();
    assert!(lines(&seen, "completed")[0].contains("contextCompaction"));
    let [compaction] = seen.entries.as_slice() else {
        panic!("{:?}", seen.entries)
    };
    assert_eq!(compaction.kind, EntryKind::Compaction);
    let lane = Lane::shared(&engine, numbered(3, "x", seen.entries));
    let seen = lane.finish().await;
    assert_eq!(seen.outcome().last_agent_message.as_deref(), Some("third"));
}

#[tokio::test(start_paused = true)]
async fn the_same_script_gives_the_same_bytes_twice() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let engine = Arc::new(Scripted::new(Script::demo().unwrap(), clock()));
        let mut history = Vec::new();
        let mut lines = Vec::new();
        for (number, text) in [(1, "hi"), (2, "run the tests"), (3, "clean up"), (4, "bye")] {
            let request = numbered(number, text, history.clone());
            let seen = Lane::shared(&engine, request).finish().await;
            seen.assert_whole();
            assert_eq!(seen.outcome().status, OutcomeStatus::Completed);
            lines.extend(seen.lines);
            history.extend(seen.entries);
        }
        runs.push(lines.join("\n").into_bytes());
    }
    assert!(runs[0].len() > 4000);
    assert!(runs[0] == runs[1]);
}
