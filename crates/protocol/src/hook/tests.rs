//! Every row of the two tables about a hook's output.

use serde_json::{Value, json};

use super::*;

fn ended(exit: Exit, stdout: &str, stderr: &str) -> Result<HookOutput, HookFailure> {
    at(HookEvent::PreToolUse, exit, stdout, stderr)
}

fn at(event: HookEvent, exit: Exit, stdout: &str, stderr: &str) -> Result<HookOutput, HookFailure> {
    let ended = Ended {
        exit,
        stdout: stdout.as_bytes(),
        stdout_bytes: stdout.len() as u64,
        stderr: stderr.as_bytes(),
    };
    read(event, event.as_str(), &ended)
}

fn said(event: HookEvent, output: &Value) -> Result<HookOutput, HookFailure> {
    at(event, Exit::Code(0), &output.to_string(), "")
}

fn verdict(event: HookEvent, output: &Value) -> Verdict {
    said(event, output).unwrap().verdict
}

fn fails(event: HookEvent, output: &Value) {
    let failure = said(event, output).unwrap_err();
    assert_eq!(failure.class, FailureClass::Output, "{event:?} {output}");
}

fn block(reason: &str) -> Verdict {
    Verdict::Block {
        reason: reason.to_owned(),
    }
}

fn stop(reason: &str) -> Verdict {
    Verdict::Stop {
        reason: reason.to_owned(),
    }
}

#[test]
fn names_are_read_in_every_spelling() {
    for event in HookEvent::ALL {
        assert_eq!(HookEvent::from_name(event.as_str()), Some(event));
    }
    for spelling in ["preToolUse", "pre_tool_use", "pre-tool-use"] {
        assert_eq!(HookEvent::from_name(spelling), Some(HookEvent::PreToolUse));
    }
    assert_eq!(HookEvent::from_name("Notification"), None);
}

#[test]
fn the_exit_code_says_whether_there_is_a_verdict() {
    assert_eq!(ended(Exit::Code(0), "", ""), Ok(HookOutput::default()));
    assert_eq!(ended(Exit::Code(0), " \n", ""), Ok(HookOutput::default()));
    let blocked = ended(Exit::Code(2), "{\"continue\":true}", " too bold \n").unwrap();
    assert_eq!(blocked.verdict, block("too bold"));
    let blocked = ended(Exit::Code(2), "", " ").unwrap();
    assert_eq!(blocked.verdict, block("blocked by hook (no message)"));
    let failed = ended(Exit::Code(1), "", "x").unwrap_err();
    assert_eq!(failed.class, FailureClass::Exit);
    assert_eq!(failed.message, "hook exited with code 1");
    let failed = ended(Exit::Signal, "", "").unwrap_err();
    assert_eq!(failed.message, "hook exited without a status code");
}

#[test]
fn those_who_only_watch_cannot_block_by_their_exit_code() {
    for event in HookEvent::ALL {
        let ended = at(event, Exit::Code(2), "", "no");
        let may = event.is_deciding()
            || matches!(
                event,
                HookEvent::PostToolUse | HookEvent::Stop | HookEvent::SubagentStop
            );
        assert_eq!(ended.is_ok(), may, "{event:?}");
    }
}

#[test]
fn text_that_is_no_json_is_context_where_there_is_a_place_for_it() {
    for event in HookEvent::ALL {
        let output = at(event, Exit::Code(0), "remember the milk\n", "").unwrap();
        let is_context = matches!(
            event,
            HookEvent::SessionStart | HookEvent::UserPromptSubmit | HookEvent::SubagentStart
        );
        assert_eq!(output.context.is_some(), is_context, "{event:?}");
        assert_eq!(output.warnings.is_empty(), is_context, "{event:?}");
    }
}

#[test]
fn what_cannot_be_read_is_a_failure() {
    let failed = ended(Exit::Code(0), "{nonsense", "").unwrap_err();
    assert_eq!(failed.class, FailureClass::Output);
    let raw = Ended {
        exit: Exit::Code(0),
        stdout: b"\xff\xfe",
        stdout_bytes: 2,
        stderr: b"",
    };
    let failed = read(HookEvent::Stop, "Stop", &raw).unwrap_err();
    assert_eq!(failed.class, FailureClass::Output);
    let long = Ended {
        stdout: b"",
        stdout_bytes: 1024 * 1024 + 1,
        ..raw
    };
    let failed = read(HookEvent::Stop, "Stop", &long).unwrap_err();
    assert_eq!(failed.class, FailureClass::Output);
    for output in [
        json!({"continue": "no"}),
        json!({"decision": "blok"}),
        json!({"decision": 1}),
        json!({"hookSpecificOutput": 1}),
        json!({"hookSpecificOutput": {"permissionDecision": "denied"}}),
        json!({"hookSpecificOutput": {"updatedInput": "rm"}}),
        json!({"hookSpecificOutput": {"hookEventName": "PostToolUse"}}),
        json!({"hookSpecificOutput": {"turnlane": []}}),
    ] {
        fails(HookEvent::PreToolUse, &output);
    }
}

#[test]
fn the_old_words_block_and_approve() {
    let output = json!({"decision": "block", "reason": "no"});
    for event in HookEvent::ALL {
        let blocks = matches!(
            event,
            HookEvent::SessionStart
                | HookEvent::UserPromptSubmit
                | HookEvent::PreToolUse
                | HookEvent::PostToolUse
                | HookEvent::PreCompact
                | HookEvent::SubagentStop
                | HookEvent::Stop
                | HookEvent::QueueAdmit
                | HookEvent::ScheduleTick
                | HookEvent::JobRow
        );
        let expected = if blocks {
            block("no")
        } else {
            Verdict::NoOpinion
        };
        assert_eq!(verdict(event, &output), expected, "{event:?}");
    }
    let blank = json!({"decision": "block", "reason": " "});
    assert_eq!(verdict(HookEvent::Stop, &blank), block(NO_MESSAGE));
    let approve = json!({"decision": "approve"});
    assert_eq!(verdict(HookEvent::PreToolUse, &approve), Verdict::Allow);
}

#[test]
fn continue_false_stops_and_is_stronger_than_anything_beside_it() {
    let output = json!({"continue": false, "stopReason": "enough", "decision": "block",
        "hookSpecificOutput": {"updatedInput": {"command": "x"}, "permissionDecision": "allow"}});
    let output = said(HookEvent::PreToolUse, &output).unwrap();
    assert_eq!(output.verdict, stop("enough"));
    assert_eq!(output.updated_input, None);
    let watching = json!({"continue": false});
    assert_eq!(verdict(HookEvent::TurnEnd, &watching), Verdict::NoOpinion);
}

#[test]
fn a_tool_is_allowed_denied_asked_about_or_rewritten() {
    let specific = |specific: Value| json!({"hookSpecificOutput": specific});
    let deny = specific(
        json!({"hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "no", "updatedInput": {"command": "x"}}),
    );
    let denied = said(HookEvent::PreToolUse, &deny).unwrap();
    assert_eq!((denied.verdict, denied.updated_input), (block("no"), None));
    let allow = specific(json!({"permissionDecision": "allow"}));
    assert_eq!(verdict(HookEvent::PreToolUse, &allow), Verdict::Allow);
    let ask = specific(json!({"permissionDecision": "ask", "permissionDecisionReason": "hm"}));
    let reason = Some("hm".to_owned());
    assert_eq!(
        verdict(HookEvent::PreToolUse, &ask),
        Verdict::Ask { reason }
    );
    let rewrite = specific(json!({"updatedInput": {"command": "ls"}, "additionalContext": "c"}));
    let rewritten = said(HookEvent::PreToolUse, &rewrite).unwrap();
    assert_eq!(rewritten.updated_input, Some(json!({"command": "ls"})));
    assert_eq!(rewritten.context.as_deref(), Some("c"));
    assert_eq!(rewritten.warnings, Vec::<String>::new());
}

#[test]
fn an_approval_is_answered_and_never_with_more_than_a_yes() {
    let decision = |decision: Value| json!({"hookSpecificOutput": {"decision": decision}});
    let event = HookEvent::PermissionRequest;
    let allow = decision(json!({"behavior": "allow"}));
    assert_eq!(verdict(event, &allow), Verdict::Allow);
    let deny = decision(json!({"behavior": "deny", "message": "no"}));
    assert_eq!(verdict(event, &deny), block("no"));
    let cancel = decision(json!({"behavior": "deny", "message": "no", "interrupt": true}));
    assert_eq!(verdict(event, &cancel), stop("no"));
    fails(event, &decision(json!({"behavior": "maybe"})));
    fails(
        event,
        &decision(json!({"behavior": "allow", "updatedInput": {}})),
    );
    fails(
        event,
        &json!({"hookSpecificOutput": {"updatedPermissions": []}}),
    );
    fails(
        HookEvent::PostToolUse,
        &json!({"hookSpecificOutput": {"updatedMCPToolOutput": "x"}}),
    );
}

#[test]
fn rewrites_count_where_they_are_allowed() {
    let output = json!({"hookSpecificOutput":
        {"turnlane": {"prompt": "p", "model": "m", "metadata": {"k": 1}}}});
    for event in HookEvent::ALL {
        let (prompt, model) = match event {
            HookEvent::UserPromptSubmit => (true, true),
            HookEvent::SessionStart => (false, true),
            HookEvent::QueueAdmit | HookEvent::ScheduleTick | HookEvent::JobRow => (true, false),
            _ => (false, false),
        };
        let read = said(event, &output).unwrap();
        assert_eq!(read.prompt.is_some(), prompt, "{event:?}");
        assert_eq!(read.model.is_some(), model, "{event:?}");
        assert_eq!(read.metadata.is_some(), prompt || model, "{event:?}");
    }
    let empty = json!({"hookSpecificOutput": {"turnlane": {"prompt": " "}}});
    fails(HookEvent::UserPromptSubmit, &empty);
    let odd = json!({"hookSpecificOutput": {"turnlane": {"metadata": 7}}});
    let odd = said(HookEvent::UserPromptSubmit, &odd).unwrap();
    assert_eq!(odd.metadata, Some(json!(7)));
}

#[test]
fn unknown_fields_are_warnings() {
    let output = json!({"systemMessage": "hi", "suppressOutput": true, "colour": "red",
        "hookSpecificOutput": {"shape": "round"}});
    let output = said(HookEvent::Stop, &output).unwrap();
    assert_eq!(output.system_message.as_deref(), Some("hi"));
    assert_eq!(
        output.warnings,
        ["`colour` is ignored at Stop", "`shape` is ignored at Stop"]
    );
}
