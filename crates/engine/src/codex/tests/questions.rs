//! Questions of Codex, each answered exactly once.

use serde_json::{Value, json};
use turnlane_protocol::approval::{Decision, OfferedDecision};
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_rpc::CallError;
use turnlane_testkit::wait::{DEADLINE, within};

use super::double::{Bench, Child, THREAD};
use super::lane::{Lane, request};
use crate::{ApprovalSubject, Decided, OutcomeStatus, RuntimeTool, TurnOutcome, TurnRequest};

const COMMAND: &str = "item/commandExecution/requestApproval";

fn command(turn: &str) -> Value {
    json!({
        "kind": "command", "threadId": THREAD, "turnId": turn, "itemId": "c", "startedAtMs": 1,
        "reason": "need it", "command": "touch x", "cwd": "/w",
        "commandActions": [{"type": "unknown", "command": "touch x"}],
        "proposedExecpolicyAmendment": ["touch", "x"],
        "availableDecisions": ["accept", {"applyNetworkPolicyAmendment": {}}, "cancel"],
    })
}

/// The answer of the engine to one question during a turn.
async fn asked(
    request: TurnRequest,
    decided: Decided,
    method: &str,
    params: Value,
) -> (Result<Value, CallError>, Lane, TurnOutcome) {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request);
    lane.decide = Box::new(move |_| Some(decided.clone()));
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        child.run("t1", "c");
        let answer = ask(&child, method, &params).await;
        let is_cancelled = matches!(&answer, Ok(answer) if answer["decision"] == "cancel");
        let status = if is_cancelled {
            "interrupted"
        } else {
            "completed"
        };
        child.turn("turn/completed", "t1", status);
        (answer, child)
    };
    let (outcome, (answer, _child)) = tokio::join!(lane.finish(), play);
    (answer, lane, outcome)
}

async fn ask(child: &Child, method: &str, params: &Value) -> Result<Value, CallError> {
    let answer = child.peer.call::<Value>(method, params);
    within("an answer of the engine", DEADLINE, answer)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn decisions_about_a_command_reach_codex() {
    let amended = Decision::AcceptWithExecpolicyAmendment {
        execpolicy_amendment: vec!["touch".to_owned()],
    };
    for (decision, expected, status) in [
        (Decision::Accept, json!("accept"), OutcomeStatus::Completed),
        (
            Decision::AcceptForSession,
            json!("acceptForSession"),
            OutcomeStatus::Completed,
        ),
        (
            amended,
            json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}}),
            OutcomeStatus::Completed,
        ),
        (
            Decision::Decline,
            json!("decline"),
            OutcomeStatus::Completed,
        ),
        (
            Decision::Cancel,
            json!("cancel"),
            OutcomeStatus::Interrupted,
        ),
    ] {
        let decided = Decided::new(decision);
        let (answer, lane, outcome) = asked(request("x"), decided, COMMAND, command("t1")).await;
        assert_eq!(answer.unwrap(), json!({"decision": expected}));
        assert_eq!(outcome.status, status);
        let line = format!("approve {}/c", request("").turn_id);
        assert_eq!(lane.count(&line), 1, "{:#?}", lane.lines);
    }
}

#[tokio::test(start_paused = true)]
async fn people_are_asked_what_codex_asked() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("x"));
    let (sender, mut seen) = tokio::sync::mpsc::channel(1);
    lane.decide = Box::new(move |request| {
        sender.try_send(request.clone()).unwrap();
        Some(Decided::new(Decision::Decline))
    });
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        ask(&child, COMMAND, &command("t1")).await.unwrap();
        child.turn("turn/completed", "t1", "completed");
        child
    };
    let (_outcome, _child) = tokio::join!(lane.finish(), play);
    let question = seen.recv().await.unwrap();
    assert_eq!(question.reason.as_deref(), Some("need it"));
    let ApprovalSubject::Command { command, cwd, .. } = question.subject else {
        panic!("{:?}", question.subject);
    };
    assert_eq!((command.as_str(), cwd.as_str()), ("touch x", "/w"));
    let network = OfferedDecision::Unlisted(json!({"applyNetworkPolicyAmendment": {}}));
    let expected = vec![
        OfferedDecision::Known(Decision::Accept),
        OfferedDecision::Known(Decision::AcceptForSession),
        network,
        OfferedDecision::Known(Decision::Decline),
        OfferedDecision::Known(Decision::Cancel),
    ];
    assert_eq!(question.available_decisions, Some(expected));
}

#[tokio::test(start_paused = true)]
async fn an_approval_past_its_time_limit_fails_the_turn() {
    let late = Decided::by_time_limit("late");
    let (answer, lane, outcome) = asked(request("x"), late, COMMAND, command("t1")).await;
    assert_eq!(answer.unwrap(), json!({"decision": "cancel"}));
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    let kind = outcome.error.unwrap().kind;
    assert_eq!(kind, Some(ErrorKind::ApprovalTimeout));
    assert_eq!(lane.count("completed commandExecution"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_needs_its_sandbox_is_not_asked() {
    let mut confined = request("x");
    confined.settings.requires_sandbox = true;
    let yes = Decided::new(Decision::Accept);
    let (answer, lane, _) = asked(confined, yes, COMMAND, command("t1")).await;
    assert_eq!(answer.unwrap(), json!({"decision": "decline"}));
    assert_eq!(lane.count("approve"), 0);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_question_is_answered_in_its_shape() {
    let with_turn = |mut params: Value| {
        params["threadId"] = json!(THREAD);
        params["turnId"] = json!("t1");
        params
    };
    let yes = || Decided::new(Decision::Accept);
    let no = || Decided::new(Decision::Decline);
    let wanted = json!({"network": {"enabled": true}});
    let permissions =
        with_turn(json!({"itemId": "c", "startedAtMs": 1, "cwd": "/w", "permissions": wanted}));
    let patch = with_turn(json!({"itemId": "c", "startedAtMs": 1, "reason": null}));
    let former = json!({
        "conversationId": THREAD, "callId": "c", "command": ["ls"], "cwd": "/w", "parsedCmd": [],
    });
    let former_patch = json!({"conversationId": THREAD, "callId": "c", "fileChanges": {}});
    let tool = with_turn(json!({"callId": "c", "tool": "report", "arguments": {}}));
    let questions = with_turn(json!({"itemId": "c", "questions": []}));
    let elicited = with_turn(json!({"serverName": "s", "mode": "form", "message": "?"}));
    for (method, params, decided, expected) in [
        (
            "item/permissions/requestApproval",
            permissions.clone(),
            yes(),
            json!({"permissions": wanted, "scope": "turn"}),
        ),
        (
            "item/permissions/requestApproval",
            permissions,
            no(),
            json!({"permissions": {}}),
        ),
        (
            "item/fileChange/requestApproval",
            patch,
            yes(),
            json!({"decision": "accept"}),
        ),
        (
            "execCommandApproval",
            former,
            yes(),
            json!({"decision": "approved"}),
        ),
        (
            "applyPatchApproval",
            former_patch,
            no(),
            json!({"decision": "denied"}),
        ),
        (
            "item/tool/call",
            tool,
            yes(),
            json!({"contentItems": [], "success": false}),
        ),
        (
            "item/tool/requestUserInput",
            questions,
            yes(),
            json!({"answers": {}}),
        ),
        (
            "mcpServer/elicitation/request",
            elicited,
            yes(),
            json!({"action": "decline", "content": null}),
        ),
        (
            "currentTime/read",
            json!({"threadId": THREAD}),
            yes(),
            json!({"currentTimeAt": 1_767_225_600}),
        ),
    ] {
        let (answer, ..) = asked(request("x"), decided, method, params).await;
        assert_eq!(answer.unwrap(), expected, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_of_the_runtime_is_called() {
    let yes = Decided::new(Decision::Accept);
    let tool = json!({
        "threadId": THREAD, "turnId": "t1", "callId": "c", "tool": "report", "arguments": {},
    });
    let mut equipped = request("x");
    equipped.runtime_tools.push(RuntimeTool {
        name: "report".to_owned(),
        description: String::new(),
        parameters: json!({}),
    });
    let (answer, lane, _) = asked(equipped, yes, "item/tool/call", tool).await;
    let expected = json!([{"type": "inputText", "text": "answered"}]);
    assert_eq!(answer.unwrap()["contentItems"], expected);
    assert_eq!(lane.count("call report"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_answered_is_refused() {
    for (method, params) in [
        ("account/chatgptAuthTokens/refresh", json!({})),
        ("attestation/generate", json!({})),
        ("brand/new", json!({"threadId": THREAD, "turnId": "t1"})),
        (COMMAND, json!({"threadId": THREAD, "turnId": "t1"})),
        (COMMAND, command("another")),
        (COMMAND, json!({"threadId": "elsewhere"})),
        (COMMAND, json!(["t1"])),
    ] {
        let yes = Decided::new(Decision::Accept);
        let (answer, lane, outcome) = asked(request("x"), yes, method, params).await;
        assert!(matches!(answer, Err(CallError::Refused(_))), "{method}");
        assert_eq!(lane.count("approve"), 0);
        assert_eq!(outcome.status, OutcomeStatus::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_codex_takes_back_is_withdrawn() {
    let mut bench = Bench::new();
    let mut lane = Lane::start(&bench, request("x"));
    lane.decide = Box::new(|_| None);
    let play = async {
        let mut child = bench.child().await;
        child.start_thread().await;
        child.start_turn("t1").await;
        let asking = child.peer.clone();
        tokio::spawn(async move { asking.call::<Value>(COMMAND, &command("t1")).await });
        child
    };
    let (child, ()) = tokio::join!(play, lane.until("approve"));
    // The ids of a peer count from 0.
    let resolved = json!({"threadId": THREAD, "requestId": 0});
    child.tell("serverRequest/resolved", &resolved);
    let mut reply = lane.open.pop().unwrap();
    within("the withdrawal", DEADLINE, reply.closed())
        .await
        .unwrap();
    child.turn("turn/completed", "t1", "completed");
    assert_eq!(lane.finish().await.status, OutcomeStatus::Completed);
}
