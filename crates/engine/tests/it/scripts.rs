//! Scripts that cannot be played say where.

use turnlane_engine::Error;
use turnlane_engine::scripted::{AbortSteps, Script};

fn refused(text: &str) -> String {
    let error = Script::parse("my.yaml", text, AbortSteps::Refused);
    error.unwrap_err().to_string()
}

/// A script whose one step stands in line 4.
fn with_step(step: &str) -> String {
    format!("version: 1\nturns:\n  - steps:\n    - {step}\n")
}

/// A step, the column of the complaint about it, and what follows the path of the step.
const COMPLAINTS: &[(&str, usize, &str)] = &[
    (
        "sya: x",
        12,
        ".sya: unknown step, expected reasoning, say, exec, patch, call, approve, plan, usage, await, error or end",
    ),
    (
        "say: {text: x, chunks: 3}",
        30,
        ".say.chunks: unknown key, expected text, chunk, delta_ms, phase",
    ),
    ("say: {chunk: 3}", 7, ".say: the key text is missing"),
    (
        "say: {text: x, chunk: many}",
        29,
        ".say.chunk: expected a whole number in range",
    ),
    (
        "say: {text: x, phase: late}",
        29,
        ".say.phase: expected commentary, partial_answer or final_answer",
    ),
    ("say: ", 10, ".say: expected a text"),
    (
        "exec: {cmd: make, exit: 99999999999}",
        31,
        ".exec.exit: expected a whole number in range",
    ),
    (
        "exec: {cmd: make, real: maybe}",
        31,
        ".exec.real: expected true or false",
    ),
    (
        "patch: {input: x}",
        22,
        ".patch.input: the first line of a patch is '*** Begin Patch'",
    ),
    (
        "patch: {input: x, real: true}",
        22,
        ".patch.input: the first line of a patch is '*** Begin Patch'",
    ),
    (
        "approve: {cmd: x, accepted: [{say: [1]}]}",
        37,
        ".approve.accepted[0].say: expected a text",
    ),
    (
        "approve: {reason: x}",
        7,
        ".approve: expected either cmd (a command) or input (a patch)",
    ),
    ("plan: {}", 7, ".plan: expected a list"),
    (
        "plan: [{step: a, status: later}]",
        32,
        ".plan[0].status: expected pending, in_progress or completed",
    ),
    (
        "usage: {input: -1}",
        22,
        ".usage.input: expected a whole number in range",
    ),
    (
        "await: {steer: maybe}",
        22,
        ".await.steer: expected true or false",
    ),
    (
        "await: {}",
        7,
        ".await: expected `steer: true`, a gate or ms",
    ),
    (
        "error: {info: rateLimit}",
        21,
        ".error.info: not a word of codexErrorInfo",
    ),
    ("error: {kind: bad}", 21, ".error.kind: not a kind of error"),
    (
        "end: now",
        12,
        ".end: expected completed, interrupted, failed, hang or abort",
    ),
    (
        "end: abort",
        12,
        ".end: abort ends the whole process and is for crash tests only",
    ),
    ("hello", 7, ": expected a step such as `say: text`"),
    ("{say: a, end: hang}", 7, ": expected exactly one key"),
];

#[test]
fn a_bad_key_is_named_with_file_line_and_path() {
    for (step, column, complaint) in COMPLAINTS {
        let complaint = format!("my.yaml:4:{column}: turns[0].steps[0]{complaint}");
        assert_eq!(refused(&with_step(step)), complaint);
    }
}

#[test]
fn the_frame_of_a_script_is_checked_too() {
    for (text, complaint) in [
        ("", "my.yaml:1:1: the script is empty"),
        (
            "turns: []",
            "my.yaml:1:1: the script: the key version is missing",
        ),
        (
            "version: 2",
            "my.yaml:1:10: version: only version 1 is known",
        ),
        (
            "version: 1\nversion: 1",
            "my.yaml:2:10: version: the key is there twice",
        ),
        (
            "version: 1\nturn: []",
            "my.yaml:2:1: turn: unknown key, expected version, turns, fallback",
        ),
        (
            "version: 1\nturns:\n  - {at: 0, steps: []}",
            "my.yaml:3:10: turns[0].at: counts from 1",
        ),
        (
            "version: 1\nturns:\n  - {match: x}",
            "my.yaml:3:5: turns[0]: the key steps is missing",
        ),
        (
            "version: 1\n---\nversion: 1",
            "my.yaml:2:1: a script is one document",
        ),
        (
            "version: 1\nturns: &a []\nfallback: *a",
            "my.yaml:3:1: an alias cannot be read here",
        ),
    ] {
        assert_eq!(refused(text), complaint);
    }
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(refused(&deep), "my.yaml:1:66: nested too deeply");
}

#[test]
fn broken_yaml_says_where_it_broke() {
    let error = Script::parse("my.yaml", "version: 1\nturns: [", AbortSteps::Refused);
    let Err(Error::Syntax { file, line, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!((&*file, line), ("my.yaml", 2));
}

#[test]
fn json_is_read_as_well_as_yaml() {
    let json = r#"{"version": 1, "turns": [
        {"match": "x", "times": 2, "steps": [{"say": {"text": "a\nb", "chunk": 3}}]}
    ], "fallback": [{"reasoning": "hm"}, {"say": "no"}]}"#;
    let yaml = "version: 1\nturns:\n- match: x\n  times: 2\n  steps:\n  - say:\n      text: |-\n        a\n        b\n      chunk: 3\n\
                fallback:\n- reasoning: hm\n- say: no\n";
    let read = |text| Script::parse("x", text, AbortSteps::Refused).unwrap();
    assert_eq!(read(json), read(yaml));
}

#[test]
fn a_script_is_loaded_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.yaml");
    let error = Script::load(&path, AbortSteps::Refused).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
    std::fs::write(&path, "version: 1\nturns: [{steps: [{end: abort}]}]").unwrap();
    Script::load(&path, AbortSteps::Allowed).unwrap();
    let error = Script::load(&path, AbortSteps::Refused).unwrap_err();
    let place = format!("{}:2:24: turns[0].steps[0].end: ", path.display());
    assert!(error.to_string().starts_with(&place), "{error}");
}

#[test]
fn the_demo_can_be_played() {
    Script::demo().unwrap();
}
