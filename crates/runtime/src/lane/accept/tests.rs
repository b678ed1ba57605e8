//! From a row to its turn: what is read, what is kept, what cannot be read.
//!
//! The invariant here: every test goes through the function that the store is given.
//!
//! That accepting is one transaction is tested in the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use turnlane_protocol::ids::ItemId;
use turnlane_protocol::turn_error::{ErrorKind, TurnError};
use turnlane_store::queue::{Acceptance, CannotStart, OnCannotStart, Row, RowState, Verdict};
use turnlane_store::thread::ThreadRow;
use turnlane_store::turn::{Accept, TurnStatus};
use turnlane_store::{Json, TurnId};
use uuid::Uuid;

use super::{Chosen, PREVIEW_CHARS_MAX, accepting};
use crate::lane::rights::CallerRights;
use crate::lane::rows::{self, DIRECT, FANOUT};

const NOW_MS: i64 = 1_700_000_000_000;

fn next_turn() -> TurnId {
    Uuid::from_u128(3).into()
}

fn settings() -> Value {
    json!({
        "model": "small", "provider": "openai", "cwd": "/old",
        "runtimeWorkspaceRoots": [], "config": {}, "approvalPolicy": "never",
        "approvalsReviewer": null, "sandboxPolicy": {"type": "readOnly", "networkAccess": false}, "effort": null,
        "summary": null, "personality": null, "serviceTier": null, "baseInstructions": null,
        "developerInstructions": null,
    })
}

fn row(params: &Value) -> Row {
    Row {
        client_id: "message-1".into(),
        params: Json::from(params.to_string()),
        ..rows::under_way(RowState::Claimed)
    }
}

fn said(text: &str) -> Value {
    json!({"threadId": "t", "input": [{"type": "text", "text": text}]})
}

fn thread(settings: Json) -> ThreadRow {
    ThreadRow {
        id: Uuid::from_u128(9).into(),
        engine: "native".into(),
        settings,
        facts: rows::write(&()),
        engine_state: None,
        usage: None,
        name: None,
        preview: String::new(),
        cwd: "/old".into(),
        source: "cli".into(),
        provider: "openai".into(),
        parent: None,
        binding: None,
        archived: false,
        created_ms: 0,
        updated_ms: 0,
        recency_ms: 0,
    }
}

fn decided_with(settings: &Json, row: &Row) -> Verdict {
    decided_by(CallerRights::Unconfined, settings, row)
}

fn decided_by(turns: CallerRights, settings: &Json, row: &Row) -> Verdict {
    let chosen = Chosen {
        turns,
        engines: Arc::new(BTreeSet::from(["native".to_owned()])),
        item: ItemId::new(u64::try_from(NOW_MS).unwrap()),
        next_turn: next_turn(),
        read: None,
        at_ms: NOW_MS,
    };
    let thread = thread(settings.clone());
    let accepting = accepting(chosen);
    let acceptance = Acceptance {
        row,
        thread: &thread,
    };
    let verdict = accepting.decide(acceptance);
    assert_eq!(accepting.decide(acceptance), verdict, "it may run again");
    verdict
}

fn decided(row: &Row) -> Verdict {
    decided_with(&Json::from(settings().to_string()), row)
}

fn accepted(params: &Value) -> Accept {
    match decided(&row(params)) {
        Verdict::Accept(accept) => *accept,
        Verdict::CannotStart(why) => panic!("not accepted: {why:?}"),
    }
}

fn refused(row: &Row) -> CannotStart {
    match decided(row) {
        Verdict::CannotStart(why) => *why,
        Verdict::Accept(accept) => panic!("accepted: {accept:?}"),
    }
}

fn text(json: &Json) -> String {
    let error: TurnError = rows::read(json).unwrap();
    assert_eq!(error.kind, Some(ErrorKind::EngineRefused));
    error.message
}

#[test]
fn what_was_said_becomes_a_user_message_under_the_clients_id() {
    let accept = accepted(&said("hello"));
    let item = accept.item.unwrap();
    assert_eq!(item.kind, "userMessage");
    let body: Value = serde_json::from_str(item.body.as_str()).unwrap();
    assert_eq!(body["id"], json!(item.id));
    assert_eq!(body["type"], "userMessage");
    assert_eq!(body["clientId"], "message-1");
    assert_eq!(body["content"][0]["text"], "hello");
    assert_eq!(accept.preview.as_deref(), Some("hello"));
}

#[test]
fn a_turn_that_requires_a_sandbox_does_not_start_without_one() {
    let with = |more: Value| {
        let mut params = said("hello");
        params["requireSandbox"] = json!(true);
        let more = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(more);
        row(&params)
    };
    let mut open = settings();
    open["sandboxPolicy"] = json!({"type": "dangerFullAccess"});
    let open = Json::from(open.to_string());
    let confined = Json::from(settings().to_string());
    let unconfined = [
        json!({"sandboxPolicy": {"type": "dangerFullAccess"}}),
        json!({"sandbox": "danger-full-access"}),
        json!({"sandboxPolicy": {"type": "externalSandbox"}}),
    ];
    for more in unconfined {
        let refused = decided_with(&confined, &with(more.clone()));
        assert!(matches!(refused, Verdict::CannotStart(_)), "{more}");
    }
    let refused = decided_with(&open, &with(json!({})));
    assert!(matches!(refused, Verdict::CannotStart(_)), "the thread's");
    let own = with(json!({"sandboxPolicy": {"type": "readOnly"}}));
    for settings in [&confined, &open] {
        let accepted = decided_with(settings, &own);
        assert!(matches!(accepted, Verdict::Accept(_)), "{accepted:?}");
    }
    let plain = row(&said("hello"));
    let accepted = decided_with(&open, &plain);
    assert!(matches!(accepted, Verdict::Accept(_)), "{accepted:?}");
    // A worker that runs nothing unconfined refuses it for every caller, and confined turns go on.
    let refused = decided_by(CallerRights::Confined, &open, &plain);
    assert!(matches!(refused, Verdict::CannotStart(_)), "{refused:?}");
    let accepted = decided_by(CallerRights::Confined, &confined, &plain);
    assert!(matches!(accepted, Verdict::Accept(_)), "{accepted:?}");
}

#[test]
fn an_empty_input_is_a_turn_without_a_message() {
    let accept = accepted(&json!({"threadId": "t", "input": []}));
    let expected = Accept {
        item: None,
        settings: None,
        cwd: None,
        preview: None,
    };
    assert_eq!(accept, expected);
}

#[test]
fn a_turn_that_changes_no_setting_writes_none() {
    let mut same = said("x");
    same["model"] = json!("small");
    same["cwd"] = json!("/old");
    let accept = accepted(&same);
    assert_eq!((accept.settings, accept.cwd), (None, None));
}

#[test]
fn settings_of_a_turn_stay_with_its_thread_and_those_for_one_turn_do_not() {
    let mut params = said("x");
    params["model"] = json!("large");
    params["cwd"] = json!("/new");
    params["outputSchema"] = json!({"type": "object"});
    params["serviceTierForTurn"] = json!("fast");
    let accept = accepted(&params);
    assert_eq!(accept.cwd.as_deref(), Some("/new"));
    let written: Value = serde_json::from_str(accept.settings.unwrap().as_str()).unwrap();
    let mut expected = settings();
    expected["model"] = json!("large");
    expected["cwd"] = json!("/new");
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(written.get(name).unwrap_or(&Value::Null), value, "{name}");
    }
    assert_eq!(written.get("outputSchema"), None);
    assert_eq!(written.get("serviceTierForTurn"), None);

    let mut only_for_one = said("x");
    only_for_one["serviceTierForTurn"] = json!("fast");
    assert_eq!(accepted(&only_for_one).settings, None);
}

#[test]
fn the_preview_is_the_first_text_trimmed_and_shortened_by_characters() {
    let long = "é".repeat(PREVIEW_CHARS_MAX + 40);
    let preview = accepted(&said(&format!("  {long}"))).preview.unwrap();
    assert_eq!(preview, "é".repeat(PREVIEW_CHARS_MAX));
    let params = json!({"threadId": "t", "input": [
        {"type": "text", "text": " \n "}, {"type": "text", "text": "second"}]});
    assert_eq!(accepted(&params).preview.as_deref(), Some("second"));
    assert_eq!(accepted(&said("   ")).preview, None);
}

#[test]
fn a_payload_that_cannot_be_read_is_shown_as_failed_and_kept() {
    for params in [json!({"threadId": "t", "input": 7}), json!("what?")] {
        match refused(&row(&params)) {
            CannotStart::Block { failure, turn } => {
                assert_eq!(turn, next_turn());
                let text = text(&failure);
                let start = "queued turn payload could not be read: ";
                assert!(
                    text.starts_with(start) && text.len() > start.len(),
                    "{text}"
                );
            }
            other => panic!("not blocked: {other:?}"),
        }
    }
}

#[test]
fn settings_that_cannot_be_read_are_no_reason_to_guess() {
    let verdict = decided_with(&Json::new("{\"later\":true}"), &row(&said("x")));
    assert!(matches!(verdict, Verdict::CannotStart(_)));
}

/// The turn that a refused row leaves in history.
fn left(row: &Row) -> String {
    match refused(row) {
        CannotStart::Fail(turn) => {
            assert_eq!(turn.end.status, TurnStatus::Failed);
            assert!(turn.end.muted);
            assert_eq!(turn.accept.item, None);
            assert_eq!(turn.accept.settings, None);
            text(&turn.end.error.unwrap())
        }
        other => panic!("no turn: {other:?}"),
    }
}

#[test]
fn on_cannot_start_continue_leaves_a_failed_turn() {
    let mut row = row(&json!(7));
    row.policies.on_cannot_start = OnCannotStart::Continue;
    assert!(left(&row).starts_with("queued turn payload could not be read: "));
}

#[test]
fn a_direct_row_that_cannot_start_leaves_a_failed_turn_whatever_its_policy() {
    let mut row = row(&json!(7));
    row.source = DIRECT.into();
    left(&row);
}

#[test]
fn a_fanout_row_that_cannot_start_is_given_up_without_a_turn() {
    let mut row = row(&json!(7));
    row.source = FANOUT.into();
    for on_cannot_start in [OnCannotStart::Block, OnCannotStart::Continue] {
        row.policies.on_cannot_start = on_cannot_start;
        assert!(matches!(refused(&row), CannotStart::Dead { .. }));
    }
}
