//! What servers ask and are answered.

use super::super::wire::{answer, phase};
use super::*;

#[test]
fn only_questions_about_tools_are_for_hooks_of_clients() {
    assert_eq!(phase("PreToolUse"), Some(HookPhase::PreToolUse));
    assert_eq!(phase("postToolUse"), Some(HookPhase::PostToolUse));
    assert_eq!(phase("Stop"), None);
    assert_eq!(phase("no such event"), None);
}

#[test]
fn a_server_is_answered_in_its_own_words() {
    let (pre, post) = (HookPhase::PreToolUse, HookPhase::PostToolUse);
    assert_eq!(answer(pre, HookAction::Noop, Vec::new()), json!({}));
    assert_eq!(
        answer(pre, block("no"), Vec::new()),
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "permissionDecision": "deny", "permissionDecisionReason": "no"}})
    );
    let patch = HookPatch {
        tool_input: Some(json!({"command": "ls"})),
        ..HookPatch::default()
    };
    assert_eq!(
        answer(pre, HookAction::Mutate(patch), vec!["hm".to_owned()]),
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "updatedInput": {"command": "ls"}}, "systemMessage": "hm"})
    );
    assert_eq!(
        answer(post, block("no"), Vec::new()),
        json!({"systemMessage": "block is not allowed in PostToolUse"})
    );
}
