//! Errors about the handshake, threads, turns and approvals.

use super::*;

const KINDS: [UnsteerableTurn; 3] = [
    UnsteerableTurn::Review,
    UnsteerableTurn::Compact,
    UnsteerableTurn::Engine,
];

#[test]
fn errors_of_the_handshake_and_of_gates_are_exact() {
    check(vec![
        row(
            ErrorObject::not_initialized(),
            "Not initialized",
            json!({"reason": "notInitialized"}),
        ),
        row(
            ErrorObject::already_initialized(),
            "Already initialized",
            json!({"reason": "alreadyInitialized"}),
        ),
        row(
            ErrorObject::invalid_request("missing field `params`"),
            "Invalid request: missing field `params`",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::unknown_method("no/such"),
            "Invalid request: unknown variant `no/such`",
            json!({"reason": "unknownMethod", "method": "no/such"}),
        ),
        row(
            ErrorObject::experimental("thread/queue/list"),
            "thread/queue/list requires experimentalApi capability",
            json!({"reason": "experimental"}),
        ),
        row(
            ErrorObject::capability("approval/list", "turnlane.events"),
            "approval/list requires turnlane.events capability",
            json!({"reason": "capability"}),
        ),
        row(
            ErrorObject::local_only("hook/trust"),
            "hook/trust is only served on local connections",
            json!({"reason": "localOnly"}),
        ),
    ]);
}

#[test]
fn errors_about_which_thread_is_meant_are_exact() {
    let bad = "x".parse::<crate::ids::ThreadId>().unwrap_err();
    // The words are the UUID reader's own, as with Codex.
    let why = "invalid character: found `x` at 0";
    check(vec![
        row(
            ErrorObject::invalid_thread_id(&bad),
            &format!("invalid thread id: {why}"),
            json!({"reason": "invalidThreadId"}),
        ),
        row(
            ErrorObject::invalid_session_id(&bad),
            &format!("invalid session id: {why}"),
            json!({"reason": "invalidThreadId"}),
        ),
        row(
            ErrorObject::thread_not_found(MissingThread::NotFound, "t"),
            "thread not found: t",
            json!({"reason": "threadNotFound"}),
        ),
        row(
            ErrorObject::thread_not_found(MissingThread::NotLoaded, "t"),
            "thread not loaded: t",
            json!({"reason": "threadNotFound"}),
        ),
        row(
            ErrorObject::thread_not_found(MissingThread::NoRollout, "t"),
            "no rollout found for thread id t",
            json!({"reason": "threadNotFound"}),
        ),
        row(
            ErrorObject::thread_not_found(MissingThread::NoArchivedRollout, "t"),
            "no archived rollout found for thread id t",
            json!({"reason": "threadNotFound"}),
        ),
        row(
            ErrorObject::archived("t"),
            "session t is archived. Run `turnlane unarchive t` to unarchive it first.",
            json!({"reason": "archived"}),
        ),
        row(
            ErrorObject::owned_elsewhere(
                "t",
                &Owner {
                    id: "w".into(),
                    pid: Some(7),
                    host: Some("h".into()),
                    endpoint: None,
                },
            ),
            "thread t already has an active writer",
            json!({"reason": "ownedElsewhere", "threadId": "t",
                "worker": {"id": "w", "pid": 7, "host": "h", "endpoint": null}}),
        ),
    ]);
}

#[test]
fn errors_about_threads_are_exact() {
    check(vec![
        row(
            ErrorObject::invalid_cursor("rubbish"),
            "invalid cursor: rubbish",
            json!({"reason": "invalidCursor"}),
        ),
        row(
            ErrorObject::empty_thread_name(),
            "thread name must not be empty",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::too_few_turns(),
            "numTurns must be at least 1",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::history_not_supported(),
            "history is not supported",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::binding_not_held("t", "k"),
            "thread t does not hold binding k",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::binding_in_use("k"),
            "binding is in use: k",
            json!({"reason": "bindingInUse"}),
        ),
        row(
            ErrorObject::both_fork_ends(),
            "`beforeTurnId` cannot be combined with `lastTurnId`",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::relative_cwd("w"),
            "cwd must be absolute: w",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::unknown_environment("e"),
            "unknown turn environment id `e`",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::invalid_output_schema("why"),
            "invalid outputSchema: why",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::sandbox_disagreement(),
            "sandbox and sandboxPolicy disagree",
            json!({"reason": "invalidParams"}),
        ),
        row(
            ErrorObject::permissions_with("sandboxPolicy"),
            "`permissions` cannot be combined with `sandboxPolicy`",
            json!({"reason": "invalidParams"}),
        ),
    ]);
}

#[test]
fn errors_about_what_cannot_be_done_here_are_exact() {
    check(vec![
        row(
            ErrorObject::history_too_large(5),
            "thread history is too large for one message: 5 bytes",
            json!({"reason": "tooLarge"}),
        ),
        row(
            ErrorObject::unsupported_by_engine("acp", "thread/fork"),
            "engine 'acp' does not support thread/fork",
            json!({"reason": "unsupportedByEngine", "engine": "acp"}),
        ),
        (
            ErrorObject::disk_full("No space left on device (os error 28)"),
            INTERNAL_ERROR,
            "store is full: No space left on device (os error 28)".into(),
            json!({"reason": "diskFull"}),
        ),
        (
            ErrorObject::not_writable("/h/turnlane.db", "Permission denied (os error 13)"),
            INTERNAL_ERROR,
            "cannot write /h/turnlane.db: Permission denied (os error 13); nothing was recorded"
                .into(),
            json!({"reason": "notWritable", "path": "/h/turnlane.db"}),
        ),
        row(
            ErrorObject::name_in_use("docs", "t"),
            "the name \"docs\" is in use by thread t; choose another name, or rename or archive that \
             thread first",
            json!({"reason": "nameInUse", "threadId": "t", "name": "docs"}),
        ),
        (
            ErrorObject::sandbox_unavailable("no namespaces"),
            INTERNAL_ERROR,
            "no namespaces".into(),
            json!({"reason": "sandboxUnavailable"}),
        ),
    ]);
}

#[test]
fn errors_about_turns_are_exact() {
    check(vec![
        row(
            ErrorObject::turn_not_found("u"),
            "turn not found: u",
            json!({"reason": "turnNotFound"}),
        ),
        row(
            ErrorObject::turn_in_progress("u"),
            "turn is in progress: u",
            json!({"reason": "busy", "turnId": "u"}),
        ),
        row(
            ErrorObject::stale_steer("a", "b"),
            "expected active turn id `a` but found `b`",
            json!({"reason": "staleTurn", "expected": "a", "actual": "b"}),
        ),
        row(
            ErrorObject::stale_interrupt("a", "b"),
            "expected active turn id a but found b",
            json!({"reason": "staleTurn", "expected": "a", "actual": "b"}),
        ),
        row(
            ErrorObject::nothing_to_steer(),
            "no active turn to steer",
            json!({"reason": "noActiveTurn"}),
        ),
        row(
            ErrorObject::nothing_to_interrupt(),
            "no active turn to interrupt",
            json!({"reason": "noActiveTurn"}),
        ),
        row(
            ErrorObject::turn_is_queued(),
            "turn is queued; remove it with thread/queue/delete",
            json!({"reason": "queued"}),
        ),
        row(
            ErrorObject::empty_steer(),
            "input must not be empty",
            json!({"reason": "invalidInput"}),
        ),
        row(
            ErrorObject::empty_expected_turn(),
            "expectedTurnId must not be empty",
            json!({"reason": "invalidInput"}),
        ),
    ]);
    for kind in KINDS {
        check(vec![row(
            ErrorObject::not_steerable(kind),
            "active turn cannot be steered",
            json!({"reason": "notSteerable", "codexErrorInfo":
                {"activeTurnNotSteerable": {"turnKind": kind.as_str()}}}),
        )]);
    }
}

#[test]
fn errors_about_busy_threads_and_approvals_are_exact() {
    check(vec![
        row(
            ErrorObject::busy(Some("u")),
            "thread already has an active or pending turn",
            json!({"reason": "busy", "turnId": "u"}),
        ),
        row(
            ErrorObject::blocked_by_hook("h", "PreToolUse", "no"),
            "blocked by hook 'h' at PreToolUse: no",
            json!({"reason": "blockedByHook", "hook": "h", "phase": "PreToolUse",
                "message": "no"}),
        ),
        row(
            ErrorObject::idempotency_conflict("k"),
            "clientUserMessageId already used for a different queued turn: k",
            json!({"reason": "idempotencyConflict"}),
        ),
        row(
            ErrorObject::queue_full(1000),
            "queue cannot contain more than 1000 submissions",
            json!({"reason": "queueFull", "maxDepth": 1000}),
        ),
        row(
            ErrorObject::approval_not_found("a"),
            "approval not found: a",
            json!({"reason": "approvalNotFound"}),
        ),
        row(
            ErrorObject::approval_resolved("a", "accept", "client"),
            "approval already resolved: a",
            json!({"reason": "approvalResolved", "decision": "accept", "by": "client"}),
        ),
    ]);
}
