//! The commands of dialect v2, each through the binary: what it does, and the one answer that it has.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{MockModel, Reply, Usage};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::ends::shell;
use super::rig::{Member, Rig, id_of, of};

/// A turn that asks runs its command when it may; one that is busy ends when the file `go` is there.
const SCRIPT: &str = r#"version: 1
turns:
  - match: "ask"
    steps:
      - approve:
          cmd: "touch approved"
          reason: "is this fine?"
          real: true
          accepted: [{say: {text: "it was allowed", phase: final_answer}}]
          declined: [{say: {text: "it was refused", phase: final_answer}}]
  - match: "busy"
    steps:
      - say: {text: "at work", phase: commentary}
      - exec: {cmd: "while [ ! -e go ]; do sleep 0.02; done", real: true}
      - say: {text: "busy no more", phase: final_answer}
  - match: "fail once"
    times: 1
    steps: [{error: {message: "no such thing", kind: bad_request}}]
  - match: "please fail"
    steps: [{error: {message: "no such thing", kind: bad_request}}]
  - match: "edited"
    steps: [{say: {text: "the edited text ran", phase: final_answer}}]
  - match: "count"
    steps:
      - usage: {input: 1234, cached: 0, output: 56, reasoning: 0}
      - say: {text: "counted", phase: final_answer}
  - match: "lines"
    steps:
      - exec: {cmd: "make it", output: "made", exit: 3}
      - say: {text: "one\ntwo\nthree", phase: final_answer}
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;

/// A member that speaks v2, ready.
async fn member(rig: &Rig, arguments: &[&str]) -> Member {
    let mut member = rig.member(arguments);
    member.event("Ready").await;
    greet(&mut member).await;
    member
}

async fn greet(member: &mut Member) {
    member.send(json!({"cmd": "Hello", "version": 2})).await;
    member.event("Welcome").await;
}

/// Sends a command and returns its one answer.
async fn call(member: &mut Member, mut command: Value) -> Value {
    command["req"] = "r".into();
    member.send(command).await;
    loop {
        let event = member.next().await.unwrap();
        if event["req"] == "r" {
            return event;
        }
    }
}

async fn ok(member: &mut Member, command: Value) -> Value {
    let answer = call(member, command).await;
    assert_eq!(answer["event"], "Ok", "{answer}");
    answer
}

/// The code of the error that answers a command.
async fn refused(member: &mut Member, command: Value) -> String {
    let answer = call(member, command).await;
    assert_eq!(answer["event"], "Error", "{answer}");
    answer["code"].as_str().unwrap().to_owned()
}

/// The detail of the state, once it is this one.
async fn in_state(member: &mut Member, detail: &str) {
    let mut seen = Value::Null;
    let is_there = eventually("the state", DEADLINE, async || {
        member.send(json!({"cmd": "GetState"})).await;
        seen = member.event("State").await["detail"].clone();
        seen == detail
    });
    let result = is_there.await;
    result.unwrap_or_else(|error| panic!("{error}: {seen}, not {detail}"));
}

/// The terminal receipt of a message.
async fn end_of(member: &mut Member, id: &str) -> Value {
    loop {
        let event = member.next().await.unwrap();
        let is_end = ["Completion", "DeliveryFailed"].contains(&event["event"].as_str().unwrap());
        if is_end && id_of(&event) == Some(id) {
            return event;
        }
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_the_queue_pauses_or_goes_on() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = member(&rig, &[]).await;
    assert_eq!(
        refused(&mut member, json!({"cmd": "Interrupt"})).await,
        "idle"
    );
    for then in ["pause", "continue"] {
        let (busy, next) = (format!("busy-{then}"), format!("next-{then}"));
        member.message(&busy, "busy").await;
        let turn = member.event("TurnStarted").await["turn_id"].clone();
        member.message(&next, "hello").await;
        member.event("MessageQueued").await;
        let wrong = json!({"cmd": "Interrupt", "turn_id": "another", "then": then});
        assert_eq!(refused(&mut member, wrong).await, "bad_request");
        let right = json!({"cmd": "Interrupt", "turn_id": turn, "then": then});
        member.send(right).await;
        let finished = member.event("TurnFinished").await;
        assert_eq!(
            (&finished["message_id"], &finished["outcome"]),
            (&json!(busy), &json!("interrupted"))
        );
        if then == "pause" {
            in_state(&mut member, "blocked(paused)").await;
            ok(&mut member, json!({"cmd": "Resume"})).await;
        }
        assert_eq!(end_of(&mut member, &next).await["event"], "Completion");
    }
    member.shutdown().await;
}

#[tokio::test]
async fn a_waiting_message_can_be_edited_and_a_failed_one_tried_again() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = member(&rig, &[]).await;
    member.message("b", "busy").await;
    member.event("TurnStarted").await;
    member.message("e", "hello").await;
    member.event("MessageQueued").await;
    let edit = |id: &str| json!({"cmd": "EditMessage", "message_id": id, "body": "edited"});
    ok(&mut member, edit("e")).await;
    for id in ["b", "unknown"] {
        assert_eq!(refused(&mut member, edit(id)).await, "not_waiting");
    }
    let retry = |id: &str| json!({"cmd": "RetryMessage", "message_id": id});
    assert_eq!(refused(&mut member, retry("unknown")).await, "not_waiting");
    rig.go();
    assert_eq!(
        end_of(&mut member, "e").await["response"],
        "the edited text ran"
    );
    assert_eq!(refused(&mut member, edit("e")).await, "not_waiting");
    member.message("f", "fail once").await;
    assert_eq!(end_of(&mut member, "f").await["event"], "DeliveryFailed");
    // The head of the queue is its place, whatever waits.
    ok(&mut member, json!({"cmd": "Pause"})).await;
    member.message("n", "hello").await;
    member.event("MessageQueued").await;
    ok(&mut member, retry("f")).await;
    let queue = ok(&mut member, json!({"cmd": "ListQueue"})).await["queue"].clone();
    assert_eq!(queue[0]["message_id"], "f", "{queue}");
    ok(&mut member, json!({"cmd": "Resume"})).await;
    let started = member.event("TurnStarted").await;
    assert_eq!(
        (&started["message_id"], &started["attempt"]),
        (&json!("f"), &json!(2))
    );
    assert_eq!(end_of(&mut member, "f").await["event"], "Completion");
    assert_eq!(end_of(&mut member, "n").await["event"], "Completion");
    assert_eq!(refused(&mut member, retry("f")).await, "not_waiting");
    member.shutdown().await;
}

#[tokio::test]
async fn an_approval_is_answered_once_and_its_decision_counts() {
    for (decision, is_run) in [("accept", true), ("decline", false)] {
        let rig = Rig::with_script(SCRIPT);
        let mut member = member(&rig, &["-s", "workspace-write"]).await;
        member.message("m", "ask").await;
        let asked = member.event("ApprovalRequested").await;
        assert!(
            asked["summary"]
                .as_str()
                .unwrap()
                .contains("touch approved"),
            "{asked}"
        );
        assert_eq!(asked["on_timeout"], "fail");
        in_state(&mut member, "waiting").await;
        let answer = json!({"cmd": "AnswerApproval", "approval_id": asked["approval_id"],
                            "decision": decision});
        member.send(answer.clone()).await;
        let resolved = member.event("ApprovalResolved").await;
        assert_eq!(resolved["approval_id"], asked["approval_id"]);
        assert_eq!(resolved["decision"], decision, "{resolved}");
        let completion = end_of(&mut member, "m").await;
        let said = if is_run {
            "it was allowed"
        } else {
            "it was refused"
        };
        assert_eq!(completion["response"], said);
        assert_eq!(rig.home.workspace().join("approved").exists(), is_run);
        // The first answer wins.
        assert_eq!(refused(&mut member, answer).await, "resolved");
        let wrong = json!({"cmd": "AnswerApproval", "approval_id": "x", "decision": "maybe"});
        assert_eq!(refused(&mut member, wrong).await, "bad_request");
        member.shutdown().await;
    }
}

#[tokio::test]
async fn an_approval_that_is_cancelled_interrupts_the_turn() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = member(&rig, &["-s", "workspace-write"]).await;
    member.message("m", "ask").await;
    let asked = member.event("ApprovalRequested").await;
    let answer = json!({"cmd": "AnswerApproval", "approval_id": asked["approval_id"],
                        "decision": "cancel"});
    member.send(answer).await;
    let finished = member.event("TurnFinished").await;
    assert_eq!(finished["outcome"], "interrupted", "{finished}");
    assert!(!rig.home.workspace().join("approved").exists());
    member.shutdown().await;
}

#[tokio::test]
async fn a_member_of_v1_is_asked_nothing_and_its_approval_waits() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = rig.member(&["-s", "workspace-write", "--turn-timeout", "2"]);
    member.event("Ready").await;
    member.message("m", "ask").await;
    let events = member.until("DeliveryFailed").await;
    assert!(of(&events, "ApprovalRequested").is_empty(), "{events:?}");
    assert!(of(&events, "Completion").is_empty(), "{events:?}");
    assert!(!rig.home.workspace().join("approved").exists());
    member.shutdown().await;
}

#[tokio::test]
async fn transcript_usage_and_screen_show_what_was_said() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = member(&rig, &[]).await;
    let capture = |lines: Value| json!({"cmd": "CaptureScreen", "last_n_lines": lines});
    for (id, body) in [("c", "count"), ("l", "lines")] {
        member.message(id, body).await;
        end_of(&mut member, id).await;
    }
    // The screen is the last turn while nothing runs.
    member.send(capture(Value::Null)).await;
    let screen = member.event("ScreenCapture").await;
    let content = screen["content"].as_str().unwrap();
    assert!(content.contains("$ make it"), "{content}");
    assert!(content.ends_with("one\ntwo\nthree"), "{content}");
    assert_eq!(
        (&screen["cursor_row"], &screen["cursor_col"]),
        (&json!(0), &json!(0))
    );
    member.send(capture(2.into())).await;
    let screen = member.event("ScreenCapture").await;
    assert_eq!(screen["content"], "two\nthree");
    let usage = ok(&mut member, json!({"cmd": "GetUsage"})).await;
    // The second turn has the numbers of a script that names none.
    let total = &usage["usage"]["total"];
    assert_eq!(
        (&total["input_tokens"], &total["output_tokens"]),
        (&json!(1234 + 10), &json!(56 + 2)),
        "{usage}"
    );
    // Page by page, each item once.
    let mut items = Vec::new();
    let mut since = Value::Null;
    loop {
        let page = json!({"cmd": "GetTranscript", "limit": 2, "since": since});
        let page = ok(&mut member, page).await;
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= 2, "{page}");
        items.extend(found.iter().cloned());
        since = page["next"].clone();
        if since.is_null() {
            break;
        }
    }
    let text = serde_json::to_string(&items).unwrap();
    for said in ["count", "counted", "lines", "one\\ntwo\\nthree"] {
        let quoted = format!("\"text\":\"{said}\"");
        assert_eq!(text.matches(&quoted).count(), 1, "{said}: {text}");
    }
    assert_eq!(text.matches("\"commandExecution\"").count(), 1, "{text}");
    member.shutdown().await;
}

#[tokio::test]
async fn work_is_preserved_on_request_while_no_turn_runs() {
    let rig = Rig::with_script(SCRIPT);
    let prepare = "git init -q . && echo one > kept && git add kept && git commit -qm first \
                   && echo changed > kept && echo new > other && printf 'ignored\\n' > .git/info/exclude \
                   && echo x > ignored";
    shell(&rig, prepare).await;
    let mut member = member(&rig, &[]).await;
    let status = shell(&rig, "git status --porcelain; git rev-parse HEAD").await;
    member
        .send(json!({"cmd": "Preserve", "label": "before lunch"}))
        .await;
    let preserved = member.event("Preserved").await;
    assert_eq!(preserved["files"], 2, "{preserved}");
    let reference = preserved["ref"].as_str().unwrap();
    assert!(
        reference.starts_with("refs/turnlane/preserve/eng-1/"),
        "{reference}"
    );
    let files = shell(&rig, &format!("git ls-tree -r --name-only {reference}")).await;
    assert_eq!(files, "kept\nother\n");
    let after = shell(&rig, "git status --porcelain; git rev-parse HEAD").await;
    assert_eq!(after, status);
    member.message("b", "busy").await;
    member.event("TurnStarted").await;
    let preserve = json!({"cmd": "Preserve", "label": "now"});
    assert_eq!(refused(&mut member, preserve).await, "busy");
    rig.go();
    end_of(&mut member, "b").await;
    member.shutdown().await;
}

#[tokio::test]
async fn a_successor_takes_the_waiting_messages_and_the_expected_thread_is_checked() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = rig.member(&[]);
    let first = member.event("Ready").await["thread_id"].clone();
    greet(&mut member).await;
    ok(&mut member, json!({"cmd": "Pause"})).await;
    for id in ["a", "b"] {
        member.message(id, "hello").await;
        member.event("MessageQueued").await;
    }
    let second = ok(&mut member, json!({"cmd": "Successor"})).await["thread_id"].clone();
    assert_ne!(second, first);
    let message = |id: &str, thread: &Value| {
        json!({"cmd": "SendMessage", "from": "a", "body": "hello", "message_id": id,
               "expected_thread_id": thread})
    };
    assert_eq!(
        refused(&mut member, message("x", &first)).await,
        "bad_request"
    );
    member.send(message("y", &first)).await;
    let failed = end_of(&mut member, "y").await;
    assert_eq!(failed["code"], "bad_request", "{failed}");
    ok(&mut member, message("c", &second)).await;
    ok(&mut member, json!({"cmd": "Resume"})).await;
    for id in ["a", "b", "c"] {
        let started = member.event("TurnStarted").await;
        assert_eq!(
            (&started["message_id"], &started["thread_id"]),
            (&json!(id), &second)
        );
        assert_eq!(member.event("Completion").await["message_id"], id);
    }
    member.shutdown().await;
}

#[tokio::test]
async fn failures_in_a_row_hold_the_lane_where_that_is_wanted() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = member(&rig, &["--hold-after-failures", "2"]).await;
    for id in ["f1", "f2"] {
        member.message(id, "please fail").await;
        assert_eq!(end_of(&mut member, id).await["event"], "DeliveryFailed");
    }
    in_state(&mut member, "blocked(paused)").await;
    member.message("n", "hello").await;
    member.event("MessageQueued").await;
    ok(&mut member, json!({"cmd": "Resume"})).await;
    assert_eq!(end_of(&mut member, "n").await["event"], "Completion");
    member.shutdown().await;
}

/// A thread is compacted above so many tokens, which it never has.
const NO_COMPACTION: &str = "model_auto_compact_token_limit=1000000";

#[tokio::test]
async fn a_context_that_fills_up_is_told_once_at_each_step() {
    let rig = Rig::new();
    let model = MockModel::start().await.unwrap();
    rig.home.use_model(&model.base_url()).unwrap();
    let arguments = [
        "--agent-type",
        "native",
        "-c",
        "model_context_window=100000",
        "-c",
        NO_COMPACTION,
    ];
    let mut member = rig.member_of(&arguments);
    member.event("Ready").await;
    let mut told = Vec::new();
    // 95 of 100 tokens of a window are for the thread.
    for (number, input) in [10_000, 77_000, 78_000, 86_000, 91_000, 10_000, 77_000]
        .into_iter()
        .enumerate()
    {
        let usage = Usage {
            input,
            ..Usage::SAMPLE
        };
        model.push(Reply::text("done").usage(usage));
        member.message(&format!("m{number}"), "hello").await;
        let events = member.until("Completion").await;
        let warnings = of(&events, "ContextWarning");
        told.push(
            warnings
                .iter()
                .map(|warning| warning["usage_pct"].as_u64().unwrap())
                .collect::<Vec<_>>(),
        );
        for warning in warnings {
            assert_eq!(warning["input_tokens"], input);
            assert!(
                warning["context_limit_tokens"].as_u64().is_some(),
                "{warning}"
            );
        }
    }
    let shown: Vec<usize> = told.iter().map(Vec::len).collect();
    assert_eq!(shown, [0, 1, 0, 1, 1, 0, 1], "{told:?}");
    member.shutdown().await;
}
