//! Errors about fan-out jobs.

use super::*;

#[test]
fn errors_about_jobs_are_exact() {
    check(vec![
        row(
            ErrorObject::job_not_found("j"),
            "job not found: j",
            json!({"reason": "jobNotFound"}),
        ),
        row(
            ErrorObject::ambiguous_job("in", "a (paused), b (failed)", &["a".into(), "b".into()]),
            "several jobs fit in: a (paused), b (failed)",
            json!({"reason": "ambiguousJob", "jobIds": ["a", "b"]}),
        ),
        row(
            ErrorObject::job_item_not_found("row-9"),
            "item not found: row-9",
            json!({"reason": "itemNotFound"}),
        ),
        row(
            ErrorObject::wrong_job_state("start", "importing"),
            "cannot start a job in state importing",
            json!({"reason": "wrongState", "state": "importing"}),
        ),
        row(
            ErrorObject::bad_template("instruction must be non-empty"),
            "instruction must be non-empty",
            json!({"reason": "badTemplate"}),
        ),
        row(
            ErrorObject::bad_schema("no"),
            "no",
            json!({"reason": "badSchema"}),
        ),
        row(
            ErrorObject::bad_limit("concurrency must be from 1 to 1024"),
            "concurrency must be from 1 to 1024",
            json!({"reason": "badLimit"}),
        ),
        row(
            ErrorObject::no_price("m"),
            "the price of model m is not known; maxCostUsd cannot be checked",
            json!({"reason": "noPrice"}),
        ),
        row(
            ErrorObject::channel_unsupported("acp", "tool"),
            "engine acp cannot deliver results by tool",
            json!({"reason": "channelUnsupported", "engine": "acp"}),
        ),
    ]);
}

#[test]
fn errors_about_files_of_jobs_are_exact() {
    check(vec![
        row(
            ErrorObject::no_worktree("the repository has no commit yet"),
            "a worktree per item is not possible: the repository has no commit yet",
            json!({"reason": "noWorktree"}),
        ),
        row(
            ErrorObject::unlanded(1, vec![json!({"path": "/t"})]),
            "1 worktree of the job has work in it",
            json!({"reason": "unlanded", "worktrees": [{"path": "/t"}]}),
        ),
        row(
            ErrorObject::unlanded(30, vec![json!({}); 30]),
            "30 worktrees of the job have work in them",
            json!({"reason": "unlanded", "worktrees": vec![json!({}); 20]}),
        ),
        row(
            ErrorObject::output_exists("/o"),
            "output file exists: /o",
            json!({"reason": "outputExists", "path": "/o"}),
        ),
        row(
            ErrorObject::output_is_input("/o"),
            "output file is the input file: /o",
            json!({"reason": "outputIsInput", "path": "/o"}),
        ),
        row(
            ErrorObject::offset_mismatch(5),
            "the next offset is 5",
            json!({"reason": "offsetMismatch", "nextOffset": 5}),
        ),
        row(
            ErrorObject::server_path_local_only("fanout/import"),
            "fanout/import takes paths of the server only on local connections",
            json!({"reason": "localOnly"}),
        ),
    ]);
}

#[test]
fn a_bad_input_names_at_most_twenty_problems() {
    let problem = |line| InputProblem {
        line: Some(line),
        message: format!("problem {line}"),
    };
    let problems: Vec<_> = (1..=25).map(problem).collect();
    let error = ErrorObject::bad_input(&problems);
    assert_eq!(error.message, "problem 1");
    let data = error.data.unwrap();
    assert_eq!(data["reason"], "badInput");
    let named = data["problems"].as_array().unwrap();
    assert_eq!(named.len(), 20);
    assert_eq!(named[4], json!({"line": 5, "message": "problem 5"}));
    assert_eq!(
        ErrorObject::bad_input(&[]).message,
        "the input cannot be imported"
    );
}
