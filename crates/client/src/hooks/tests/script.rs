//! What commands read, and what their answers become.

use turnlane_protocol::hook::{HookOutput, Verdict};

use super::super::shell::script::{event, input, said};
use super::super::wire::Said;
use super::*;

fn context(phase: HookPhase) -> HookContext {
    HookContext {
        phase,
        thread_id: Some(ThreadId::from("t")),
        turn_id: Some(TurnId::from("u")),
        cwd: Some(PathBuf::from("/w")),
        model: Some("m".to_owned()),
        prompt: Some("p".to_owned()),
        main_status: None,
        correlation_id: "c".to_owned(),
        at: SystemTime::UNIX_EPOCH,
        metadata: Map::new(),
        tool_name: Some("Bash".to_owned()),
        tool_input: Some(json!({"command": "ls"})),
    }
}

#[test]
fn phases_are_told_under_the_names_of_the_server() {
    for (phase, name) in [
        (HookPhase::PreSessionStart, "SessionStart"),
        (HookPhase::PostSessionStart, "PostSessionStart"),
        (HookPhase::PreRun, "QueueAdmit"),
        (HookPhase::PreTurn, "UserPromptSubmit"),
        (HookPhase::PostTurn, "TurnEnd"),
        (HookPhase::PostRun, "PostRun"),
        (HookPhase::PreToolUse, "PreToolUse"),
        (HookPhase::PostToolUse, "PostToolUse"),
    ] {
        assert_eq!(event(phase).1, name);
        let input = input("guard", &context(phase));
        assert_eq!(input["hook_event_name"], name);
        assert_eq!(input["session_id"], "t");
        assert_eq!(input["turn_id"], "u");
        assert_eq!(input["cwd"], "/w");
        assert_eq!(input["model"], "m");
        assert_eq!(input["transcript_path"], Value::Null);
        assert_eq!(input["turnlane"]["hook"], "guard");
        assert_eq!(
            input["turnlane"]["delivery_id"],
            format!("c:{name}:guard").as_str()
        );
    }
    let started = input("h", &context(HookPhase::PreSessionStart));
    assert_eq!(started["source"], "resume");
    let submitted = input("h", &context(HookPhase::PreTurn));
    assert_eq!(submitted["prompt"], "p");
    let tool = input("h", &context(HookPhase::PreToolUse));
    assert_eq!(tool["tool_input"], json!({"command": "ls"}));
    let mut ended = context(HookPhase::PostTurn);
    ended.main_status = Some(MainStatus::Error);
    assert_eq!(input("h", &ended)["status"], "failed");
}

#[test]
fn whatever_is_a_no_on_the_server_is_a_no_here() {
    let reason = || "r".to_owned();
    for verdict in [
        Verdict::Block { reason: reason() },
        Verdict::Stop { reason: reason() },
        Verdict::Ask {
            reason: Some(reason()),
        },
    ] {
        let output = HookOutput {
            verdict,
            prompt: Some("rewritten".to_owned()),
            ..HookOutput::default()
        };
        let said = said(&context(HookPhase::PreTurn), output);
        assert_eq!(said.action, block("r"));
    }
}

#[test]
fn context_is_added_where_there_are_words_and_an_issue_elsewhere() {
    let output = || HookOutput {
        context: Some("more".to_owned()),
        ..HookOutput::default()
    };
    let told = said(&context(HookPhase::PreTurn), output());
    let patch = HookPatch {
        prompt: Some("p\n\nmore".to_owned()),
        ..HookPatch::default()
    };
    assert_eq!(told.action, HookAction::Mutate(patch));
    let told = said(&context(HookPhase::PreSessionStart), output());
    assert_eq!(
        told,
        Said {
            action: HookAction::Noop,
            wrong: vec!["additionalContext is not allowed in PreSessionStart".to_owned()],
        }
    );
}

#[test]
fn metadata_that_is_no_object_is_an_issue() {
    let output = HookOutput {
        metadata: Some(json!([1])),
        ..HookOutput::default()
    };
    let told = said(&context(HookPhase::PreTurn), output);
    assert_eq!(told.action, HookAction::Noop);
    assert_eq!(told.wrong, ["metadata_delta must be null or object"]);
}
