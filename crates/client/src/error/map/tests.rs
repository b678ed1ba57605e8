//! Every row of what servers say and what it becomes.

use serde_json::{Value, json};

use super::*;

fn rpc(code: i64, message: &str) -> RpcError {
    RpcError {
        code,
        message: message.to_owned(),
        data: None,
    }
}

fn with(data: Value) -> RpcError {
    RpcError {
        code: INVALID_REQUEST,
        message: "words that nobody reads".to_owned(),
        data: Some(data),
    }
}

fn id() -> ThreadId {
    ThreadId::from("T")
}

fn of_thread(error: RpcError) -> ThreadError {
    thread(&id(), CallError::Rpc(error))
}

fn of_turn(error: RpcError) -> TurnError {
    turn(&id(), CallError::Rpc(error))
}

fn of_steer(error: RpcError) -> SteerError {
    steer(&TurnId::from("a"), CallError::Rpc(error))
}

#[test]
fn overload_says_when_to_come_back() {
    let told = RpcError {
        code: OVERLOADED,
        message: "Server overloaded; retry later.".to_owned(),
        data: Some(json!({"reason": "overloaded", "retryAfterMs": 1500})),
    };
    assert!(matches!(
        call("x", told),
        CallError::Overloaded { retry_after } if retry_after == Duration::from_millis(1500)
    ));
    let silent = rpc(OVERLOADED, "Server overloaded; retry later.");
    assert!(matches!(
        call("x", silent),
        CallError::Overloaded { retry_after } if retry_after == RETRY_AFTER
    ));
}

#[test]
fn every_way_to_say_that_a_method_is_not_served() {
    let unknown = "Invalid request: unknown variant `a/b`, expected one of `initialize`";
    for error in [
        rpc(-32601, "Method not found"),
        rpc(INVALID_REQUEST, unknown),
        rpc(INVALID_REQUEST, "a/b requires experimentalApi capability"),
        with(json!({"reason": "unknownMethod", "method": "a/b"})),
        with(json!({"reason": "experimental"})),
        with(json!({"reason": "capability"})),
    ] {
        assert!(
            matches!(call("a/b", error.clone()), CallError::Unsupported { method } if method == "a/b"),
            "{error:?}"
        );
    }
}

#[test]
fn what_sounds_like_it_is_not() {
    let other = "Invalid request: unknown variant `nope`, expected one of `text`, `image`";
    for error in [
        rpc(INVALID_REQUEST, other),
        rpc(-32603, "Invalid request: unknown variant `a/b`"),
        rpc(-32601, NO_TURNS_YET),
        with(json!({"reason": "invalidParams"})),
    ] {
        assert!(matches!(call("a/b", error), CallError::Rpc(_)));
    }
    assert!(is_no_turns_yet(&call("a/b", rpc(-32601, NO_TURNS_YET))));
    assert!(!is_no_turns_yet(&CallError::Closed));
}

#[test]
fn threads_of_turnlane_are_known_by_the_reason() {
    let word = |reason: &str| of_thread(with(json!({ "reason": reason })));
    assert!(matches!(word("threadNotFound"), ThreadError::NotFound { id } if id.as_str() == "T"));
    assert!(matches!(word("archived"), ThreadError::Archived { .. }));
    assert!(matches!(word("ownedElsewhere"), ThreadError::InUse { .. }));
    assert!(matches!(word("busy"), ThreadError::Call(CallError::Rpc(_))));
    assert!(matches!(
        word("somethingNew"),
        ThreadError::Call(CallError::Rpc(_))
    ));
}

#[test]
fn threads_of_codex_are_known_by_their_texts() {
    for text in [
        "thread not found: 0198",
        "thread not loaded: 0198",
        "no rollout found for thread id 0198",
        "no archived rollout found for thread id 0198",
    ] {
        let error = of_thread(rpc(INVALID_REQUEST, text));
        assert!(matches!(error, ThreadError::NotFound { .. }), "{text}");
    }
    let queue =
        "failed to read thread: invalid thread-store request: no rollout found for thread id 0";
    assert!(matches!(
        of_thread(rpc(INTERNAL_ERROR, queue)),
        ThreadError::NotFound { .. }
    ));
    let archived = "session 0198 is archived. Run `codex unarchive 0198` to unarchive it first.";
    assert!(matches!(
        of_thread(rpc(INVALID_REQUEST, archived)),
        ThreadError::Archived { .. }
    ));
    let owned = "thread 0198 already has an active writer";
    assert!(matches!(
        of_thread(rpc(INVALID_REQUEST, owned)),
        ThreadError::InUse { .. }
    ));
    for (code, text) in [
        (INVALID_REQUEST, "invalid cursor: rubbish"),
        (-32602, "thread not found: 0198"),
    ] {
        let error = of_thread(rpc(code, text));
        assert!(matches!(error, ThreadError::Call(CallError::Rpc(_))));
    }
}

#[test]
fn a_text_does_not_overrule_a_reason() {
    let mut error = rpc(INVALID_REQUEST, "thread not found: 0198");
    error.data = Some(json!({"reason": "invalidCursor"}));
    assert!(matches!(
        of_thread(error),
        ThreadError::Call(CallError::Rpc(_))
    ));
}

#[test]
fn a_hook_of_the_server_is_named() {
    let blocked = || {
        with(
            json!({"reason": "blockedByHook", "hook": "guard", "phase": "PreTurn",
            "message": "not today"}),
        )
    };
    let text = "blocked by hook 'guard' at PreTurn: not today";
    let ThreadError::Blocked(block) = of_thread(blocked()) else {
        panic!("not blocked");
    };
    assert_eq!(block.to_string(), text);
    let TurnError::Blocked(block) = of_turn(blocked()) else {
        panic!("not blocked");
    };
    assert_eq!(block.to_string(), text);
}

#[test]
fn a_busy_thread_says_with_what() {
    let busy = with(json!({"reason": "busy", "turnId": "u"}));
    assert!(matches!(of_turn(busy), TurnError::Busy { active } if active.as_str() == "u"));
    let codex = rpc(
        INVALID_REQUEST,
        "thread already has an active or pending turn",
    );
    assert!(matches!(of_turn(codex), TurnError::Busy { active } if active.as_str().is_empty()));
}

#[test]
fn a_turn_on_an_archived_thread_finds_it_closed() {
    let archived = "session 0198 is archived. Run `codex unarchive 0198` to unarchive it first.";
    for error in [
        with(json!({"reason": "archived"})),
        rpc(INVALID_REQUEST, archived),
    ] {
        let error = of_turn(error);
        assert!(matches!(
            &error,
            TurnError::Call(CallError::ThreadClosed { thread }) if thread.as_str() == "T"
        ));
        assert_eq!(error.to_string(), "session is closed");
    }
    assert!(matches!(
        of_turn(rpc(INVALID_REQUEST, "thread not found: 0198")),
        TurnError::Call(CallError::Rpc(_))
    ));
}

#[test]
fn steering_has_three_refusals_of_turnlane() {
    assert!(matches!(
        of_steer(with(json!({"reason": "noActiveTurn"}))),
        SteerError::NoActiveTurn
    ));
    let stale = with(json!({"reason": "staleTurn", "expected": "a", "actual": "b"}));
    assert!(matches!(
        of_steer(stale),
        SteerError::Stale { expected, actual } if expected.as_str() == "a" && actual.as_str() == "b"
    ));
    for word in ["review", "compact", "engine"] {
        let error = with(json!({"reason": "notSteerable",
            "codexErrorInfo": {"activeTurnNotSteerable": {"turnKind": word}}}));
        assert!(matches!(of_steer(error), SteerError::NotSteerable { kind } if kind == word));
    }
    assert!(matches!(
        of_steer(with(json!({"reason": "invalidInput"}))),
        SteerError::Call(CallError::Rpc(_))
    ));
}

#[test]
fn steering_has_the_same_refusals_of_codex() {
    assert!(matches!(
        of_steer(rpc(INVALID_REQUEST, "no active turn to steer")),
        SteerError::NoActiveTurn
    ));
    let stale = rpc(
        INVALID_REQUEST,
        "expected active turn id `a` but found `b-1`",
    );
    assert!(matches!(
        of_steer(stale),
        SteerError::Stale { actual, .. } if actual.as_str() == "b-1"
    ));
    let mut fixed = rpc(INVALID_REQUEST, "cannot steer a review turn");
    fixed.data =
        Some(json!({"codexErrorInfo": {"activeTurnNotSteerable": {"turnKind": "review"}}}));
    assert!(matches!(of_steer(fixed), SteerError::NotSteerable { kind } if kind == "review"));
    for error in [
        rpc(INVALID_REQUEST, "input must not be empty"),
        rpc(-32603, "no active turn to steer"),
    ] {
        assert!(matches!(
            of_steer(error),
            SteerError::Call(CallError::Rpc(_))
        ));
    }
}

#[test]
fn an_interrupt_may_find_nothing_to_do() {
    let nothing = |error| is_nothing_to_interrupt(&CallError::Rpc(error));
    assert!(nothing(with(json!({"reason": "noActiveTurn"}))));
    assert!(nothing(with(json!({"reason": "staleTurn"}))));
    assert!(nothing(rpc(INVALID_REQUEST, "no active turn to interrupt")));
    let stale = "expected active turn id 01 but found 02";
    assert!(nothing(rpc(INVALID_REQUEST, stale)));
    assert!(!nothing(with(json!({"reason": "queued"}))));
    assert!(!nothing(rpc(-32603, "no active turn to interrupt")));
    assert!(!is_nothing_to_interrupt(&CallError::Closed));
}

#[test]
fn errors_that_are_no_answers_pass_unchanged() {
    assert!(matches!(
        thread(&id(), CallError::Closed),
        ThreadError::Call(CallError::Closed)
    ));
    assert!(matches!(
        turn(&id(), CallError::Closed),
        TurnError::Call(CallError::Closed)
    ));
    assert!(matches!(
        steer(&TurnId::from("a"), CallError::Closed),
        SteerError::Call(CallError::Closed)
    ));
}

#[test]
fn an_error_can_be_given_once_more() {
    let errors = [
        CallError::Transport(crate::TransportError::Closed {
            reason: "x".to_owned(),
        }),
        CallError::Rpc(rpc(1, "x")),
        CallError::Contract {
            method: "m".to_owned(),
            side: crate::Side::Response,
            reason: "r".to_owned(),
        },
        CallError::Decode(DecodeError {
            what: "w".to_owned(),
            source: serde_json::from_str::<Value>("{").unwrap_err(),
        }),
        CallError::Unsupported {
            method: "m".to_owned(),
        },
        CallError::Overloaded {
            retry_after: Duration::from_secs(1),
        },
        CallError::Timeout {
            method: "m".to_owned(),
            after: Duration::from_secs(1),
        },
        CallError::InvalidArgument {
            what: "w",
            reason: "r".to_owned(),
        },
        CallError::ThreadClosed { thread: id() },
        CallError::Closed,
    ];
    for error in errors {
        let again = error.again();
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!(
            std::mem::discriminant(&again),
            std::mem::discriminant(&error)
        );
    }
}

#[test]
fn a_thread_that_could_not_be_opened_keeps_a_run_from_starting() {
    let archived: TurnError = ThreadError::Archived { id: id() }.into();
    assert_eq!(archived.to_string(), "session is closed");
    let missing: TurnError = ThreadError::NotFound { id: id() }.into();
    assert_eq!(missing.to_string(), "thread T not found");
}
