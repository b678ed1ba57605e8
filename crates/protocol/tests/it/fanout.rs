//! Fan-out jobs, their items, and the params and answers of their methods.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use turnlane_protocol::fanout::{Job, JobItem, JobItemDetail, JobItemState, JobState, JobStatus};
use turnlane_protocol::method::fanout;
use turnlane_protocol::method::{
    FanoutCreateParams, FanoutDeleteParams, FanoutExportAnswer, FanoutExportParams,
    FanoutImportAnswer, FanoutImportParams, FanoutImportWriteAnswer, FanoutImportWriteParams,
    FanoutItemsAddAnswer, FanoutItemsAddParams, FanoutItemsListAnswer, FanoutItemsListParams,
    FanoutItemsReadAnswer, FanoutItemsReadParams, FanoutJobAnswer, FanoutJobParams,
    FanoutListAnswer, FanoutListParams, FanoutPauseParams, FanoutPreviewAnswer,
    FanoutPreviewParams, FanoutRetryAnswer, FanoutRetryParams, FanoutSubscribeParams,
};
use turnlane_protocol::strict;

use crate::example::{reads_as, refusal, whole, with};
use crate::thread::THREAD;
use crate::turn::TURN;

/// A job.
pub(crate) const JOB: &str = "0193f0c2-7d1e-7a40-9c55-3f2b8e6d1a77";

/// A job as `fanout/updated` has it.
pub(crate) fn status() -> Value {
    json!({"id": JOB, "name": "review", "state": "paused", "reason": "quota",
        "reasonMessage": "You've hit your usage limit", "resumeAtMs": 1_763_240_700_000_i64,
        "owner": "detached", "parentThreadId": null, "parentTurnId": null, "version": 12,
        "resultChannel": "tool", "idColumn": "path", "columns": ["path"],
        "limits": {"concurrency": 16, "maxFailures": "20%"}, "currentLimit": 8, "hold": null,
        "import": {"bytes": 4096, "rows": 100, "blankRows": 0, "hash": "ab", "warnings": []},
        "counts": {"total": 100, "pending": 60, "running": 0, "succeeded": 37, "failed": 3,
            "skipped": 0, "cancelled": 0},
        "usage": {"inputTokens": 4000, "cachedInputTokens": 0, "outputTokens": 200,
            "reasoningOutputTokens": 0, "totalTokens": 4200, "costUsd": null, "attempts": 40},
        "worktrees": {"directory": "/w/j", "base": "c0ffee", "kept": 2,
            "sharedFiles": [{"path": "a.rs", "itemIds": ["row-1", "row-2"], "items": 2}]},
        "exportPath": "out.csv", "exportError": null, "createdAtMs": 1, "startedAtMs": 2,
        "endedAtMs": null})
}

/// A whole job.
pub(crate) fn job() -> Value {
    with(
        status(),
        json!({"instruction": "Review {path}", "outputSchema": null, "settings": {},
            "options": {"onDuplicate": "skip", "allowMissing": true, "onCrash": "fail",
                "keepThreads": "failed", "endOnReport": false, "repairTurns": 0, "dedupe": true}}),
    )
}

/// An item as lists have it.
pub(crate) fn item() -> Value {
    json!({"itemId": "row-1", "seq": 0, "sourceId": null, "state": "failed", "attempt": 2,
        "notBeforeMs": null, "threadId": THREAD, "dupOf": null, "branch": null,
        "error": {"kind": "timeout", "message": "worker exceeded max runtime of 60s"},
        "usage": usage(), "startedAtMs": 1, "reportedAtMs": null, "endedAtMs": 3})
}

fn usage() -> Value {
    json!({"inputTokens": 5, "cachedInputTokens": 1, "outputTokens": 2,
        "reasoningOutputTokens": 1, "totalTokens": 7, "costUsd": 0.25})
}

fn detail() -> Value {
    with(
        item(),
        json!({"row": {"path": "src/lib.rs"}, "result": {"score": 5},
            "attempts": [{"attempt": 1, "threadId": THREAD, "turnId": TURN, "outcome": "lost",
                "error": null, "startedAtMs": 1, "endedAtMs": null, "usage": usage()}],
            "worktrees": [{"branch": "fanout/1/2", "path": "/w/j/2", "state": "kept", "head": "c0ffee",
                "changedFiles": ["a.rs"], "changedCount": 1, "dirty": true, "error": null}]}),
    )
}

#[test]
fn jobs_and_items_come_back_whole() {
    whole::<JobStatus>(status());
    let read = whole::<Job>(job());
    assert!(read.status.is_settled());
    let held = json!({"hold": {"kind": "rate_limited", "message": null, "untilMs": 5},
        "parentThreadId": THREAD, "parentTurnId": TURN, "outputSchema": {"type": "object"},
        "settings": {"engine": "native", "sandbox": {"type": "readOnly", "networkAccess": false},
            "approvalPolicy": "never", "worktree": "item", "labels": ["gpu"]}});
    whole::<Job>(with(job(), held));
    whole::<JobItem>(item());
    whole::<JobItemDetail>(detail());
    whole::<JobItemDetail>(with(detail(), json!({"result": null, "attempts": []})));
}

#[test]
fn a_job_is_settled_when_it_ended_or_is_paused_and_nothing_runs() {
    let mut read = whole::<JobStatus>(status());
    read.counts.running = 1;
    assert!(!read.is_settled());
    read.counts.running = 0;
    for state in JobState::ALL {
        read.state = state;
        let settled = state.is_terminal() || state == JobState::Paused;
        assert_eq!(read.is_settled(), settled, "{state:?}");
    }
}

#[test]
fn the_words_of_states_are_those_of_the_wire() {
    for state in JobState::ALL {
        assert_eq!(json!(state), json!(state.as_str()));
    }
    for state in JobItemState::ALL {
        assert_eq!(json!(state), json!(state.as_str()));
    }
    let methods: BTreeSet<_> = fanout::ALL.iter().collect();
    assert_eq!(methods.len(), fanout::ALL.len());
    assert!(fanout::ALL.iter().all(|name| name.starts_with("fanout/")));
}

#[test]
fn the_creation_of_a_job_comes_back_whole() {
    whole::<FanoutCreateParams>(json!({"instruction": "Review {path}"}));
    let all = json!({"name": "review", "clientJobId": "ci-4711", "instruction": "Review {path}",
        "idColumn": "path", "onDuplicate": "error", "allowMissing": false,
        "outputSchema": {"type": "object", "required": ["score"]}, "resultChannel": "auto",
        "owner": "detached", "onCrash": "continue", "endOnReport": true, "repairTurns": 1,
        "dedupe": false, "keepThreads": "failed",
        "settings": {"engine": "native", "cwd": "/home/ann/app", "approvalPolicy": "never",
            "worktree": "none", "labels": []},
        "limits": {"concurrency": 16, "startRate": 1.5, "retries": 2, "timeoutMs": 1_800_000,
            "idleTimeoutMs": 1, "deadlineMs": 1, "maxTokens": 5_000_000, "maxFailures": 3,
            "maxCostUsd": 0.5, "maxAttempts": 7, "graceMs": 1},
        "export": {"path": "out.csv", "format": "csv"}});
    whole::<FanoutCreateParams>(all);
    // Null is absence, and the sandbox is written in its object form.
    reads_as::<FanoutCreateParams>(
        json!({"instruction": "i", "keepThreads": null,
            "settings": {"model": null, "sandbox": "read-only"},
            "export": {"path": "o", "overwrite": false}}),
        &json!({"instruction": "i", "export": {"path": "o"},
            "settings": {"sandbox": {"type": "readOnly", "networkAccess": false}}}),
    );
    for (member, word) in [
        ("onDuplicate", "ignore"),
        ("resultChannel", "mail"),
        ("owner", "nobody"),
        ("onCrash", "block"),
        ("keepThreads", "some"),
    ] {
        let text = refusal::<FanoutCreateParams>(json!({"instruction": "i", member: word}));
        let start = format!("Invalid request: unknown variant `{word}`");
        assert!(text.starts_with(&start), "{text}");
    }
    assert_eq!(
        refusal::<FanoutCreateParams>(json!({})),
        "Invalid request: missing field `instruction`"
    );
}

#[test]
fn calls_about_jobs_come_back_whole() {
    whole::<FanoutJobParams>(json!({"jobId": JOB}));
    whole::<FanoutJobAnswer>(json!({"job": job()}));
    whole::<FanoutImportParams>(
        json!({"jobId": JOB, "source": {"type": "path", "path": "items.csv"}, "format": "tsv",
            "delimiter": ";", "encoding": "latin1", "offset": 1, "limit": 2,
            "where": [["lang", "rust"]]}),
    );
    whole::<FanoutImportParams>(json!({"jobId": JOB, "source": {"type": "stream"}}));
    whole::<FanoutImportAnswer>(json!({"job": job(), "nextOffset": 0}));
    whole::<FanoutImportWriteParams>(
        json!({"jobId": JOB, "offset": 0, "dataBase64": "aGk=", "end": true}),
    );
    whole::<FanoutImportWriteAnswer>(json!({"nextOffset": 2}));
    whole::<FanoutItemsAddParams>(json!({"jobId": JOB, "seq": 0, "rows": [{"a": 1}, {}]}));
    whole::<FanoutItemsAddAnswer>(json!({"nextSeq": 2}));
    whole::<FanoutPreviewParams>(json!({"jobId": JOB, "count": 3}));
    whole::<FanoutPreviewAnswer>(
        json!({"total": 5, "prompts": [{"itemId": "row-1", "text": "t"}],
            "estimatedTokens": 100}),
    );
    whole::<FanoutListParams>(json!({}));
    whole::<FanoutListParams>(
        json!({"cursor": "c", "limit": 5, "states": ["running"], "parentThreadId": THREAD}),
    );
    whole::<FanoutListAnswer>(json!({"data": [job()], "nextCursor": null}));
    whole::<FanoutPauseParams>(json!({"jobId": JOB}));
    whole::<FanoutPauseParams>(json!({"jobId": JOB, "now": true, "graceMs": 5000}));
    whole::<FanoutRetryParams>(
        json!({"jobId": JOB, "states": ["failed"], "itemIds": ["row-3"], "instruction": "i"}),
    );
    whole::<FanoutRetryAnswer>(json!({"job": job(), "retried": 3}));
    whole::<FanoutItemsListParams>(
        json!({"jobId": JOB, "cursor": "c", "limit": 5, "states": ["succeeded"]}),
    );
    whole::<FanoutItemsListAnswer>(json!({"data": [item()], "nextCursor": "c"}));
    whole::<FanoutItemsReadParams>(json!({"jobId": JOB, "itemId": "row-1"}));
    whole::<FanoutItemsReadAnswer>(json!({"item": detail()}));
    whole::<FanoutExportParams>(
        json!({"jobId": JOB, "format": "jsonl", "path": "out.jsonl", "overwrite": true,
            "wide": true, "flatten": true, "raw": true}),
    );
    whole::<FanoutExportParams>(json!({"jobId": JOB, "cursor": "c"}));
    whole::<FanoutExportAnswer>(json!({"path": "out.csv", "rows": 5}));
    whole::<FanoutExportAnswer>(json!({"data": "a\n", "nextCursor": null}));
    whole::<FanoutDeleteParams>(json!({"jobId": JOB, "force": true}));
    whole::<FanoutSubscribeParams>(json!({"jobId": null}));
    whole::<FanoutSubscribeParams>(json!({"jobId": JOB, "items": true}));
}

#[test]
fn rows_keep_their_digits_and_bytes_have_no_bound_of_a_text() {
    let text = r#"{"jobId":"j","seq":0,"rows":[{"b":1.10,"a":123456789012345678901234}]}"#;
    let read: FanoutItemsAddParams = strict::read_params(text.as_bytes()).unwrap();
    assert_eq!(
        read.rows[0].as_str(),
        r#"{"b":1.10,"a":123456789012345678901234}"#
    );
    let long = json!({"jobId": "j", "offset": 0, "dataBase64": "A".repeat(1_400_000)});
    let read: FanoutImportWriteParams = strict::read_params(long.to_string().as_bytes()).unwrap();
    assert_eq!(read.data_base64.len(), 1_400_000);
    let long = json!({"instruction": "i".repeat(300_000)});
    strict::read_params::<FanoutCreateParams>(long.to_string().as_bytes()).unwrap();
}
