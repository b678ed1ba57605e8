//! Requests of the server: who decides, in which words, and what happens to questions nobody answers.

mod settled;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use turnlane::{
    ApprovalRequest, BoxFuture, CallOptions, Client, ConnectError, Decision, Endpoint, Limits,
    Reviewer, TurnEvent,
};
use turnlane_rpc::{CallError, Duplex};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::double::{Double, Kind, initialized, thread_answer, turn_event, turn_value};
use crate::rig::{Site, T, joined, nothing_else_is_sent, with_thread};

const COMMAND: &str = "item/commandExecution/requestApproval";
const PATCH: &str = "item/fileChange/requestApproval";
const PERMISSIONS: &str = "item/permissions/requestApproval";
const ELICITATION: &str = "mcpServer/elicitation/request";
const QUESTIONS: &str = "item/tool/requestUserInput";

fn asks(thread: &str, turn: &str, item: &str) -> Value {
    json!({"kind": "command", "threadId": thread, "turnId": turn, "itemId": item,
        "startedAtMs": 1, "environmentId": "local", "reason": "need it", "command": "touch a",
        "cwd": "/srv", "commandActions": [{"type": "unknown", "command": "touch a"}],
        "proposedExecpolicyAmendment": ["touch", "a"], "availableDecisions": ["accept",
        {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "a"]}}, "cancel"]})
}

fn word(decision: &str) -> Value {
    json!({ "decision": decision })
}

/// A question of the server in a task of its own.
fn asked(double: &Double, method: &str, params: Value) -> JoinHandle<Result<Value, CallError>> {
    let (peer, method) = (double.peer(), method.to_owned());
    tokio::spawn(async move { peer.call(&method, &params).await })
}

/// Says that it was asked, and decides when it is told to.
#[derive(Clone, Default)]
struct Slow {
    asked: Arc<AtomicUsize>,
    given_up: Arc<AtomicUsize>,
    go: Arc<Notify>,
}

impl Slow {
    async fn was_asked(&self, times: usize) {
        let asked = async || self.asked.load(Ordering::SeqCst) >= times;
        eventually("the reviewer", DEADLINE, asked).await.unwrap();
    }

    async fn was_given_up(&self, times: usize) {
        let given_up = async || self.given_up.load(Ordering::SeqCst) == times;
        eventually("the end of the review", DEADLINE, given_up)
            .await
            .unwrap();
    }
}

/// Counts a review that is dropped before it decided.
struct Review(Option<Arc<AtomicUsize>>);

impl Drop for Review {
    fn drop(&mut self) {
        if let Some(given_up) = &self.0 {
            given_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Reviewer for Slow {
    fn review<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Decision> {
        Box::pin(async {
            let mut review = Review(Some(Arc::clone(&self.given_up)));
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.go.notified().await;
            review.0 = None;
            Decision::Accept
        })
    }
}

/// D18: every method has its own words for a no.
#[tokio::test]
async fn without_a_reviewer_every_request_is_answered_in_its_own_words() {
    for kind in [Kind::Codex, Kind::Turnlane] {
        let (double, _client) = Double::plain(kind).await;
        for (method, expected) in [
            (COMMAND, word("decline")),
            (PATCH, word("decline")),
            (PERMISSIONS, json!({"permissions": {}, "scope": "turn"})),
            (ELICITATION, json!({"action": "decline", "content": null})),
            (QUESTIONS, json!({"answers": {}})),
            (
                "item/tool/call",
                json!({"contentItems": [], "success": false}),
            ),
            ("execCommandApproval", word("denied")),
            ("applyPatchApproval", word("denied")),
        ] {
            let params = json!({"threadId": "T", "turnId": "t1", "itemId": method});
            let answer = double.ask(method, params).await.unwrap();
            assert_eq!(answer, expected, "{method}");
        }
        let answer = double.ask("currentTime/read", json!({})).await.unwrap();
        let now = answer["currentTimeAt"].as_i64().unwrap();
        assert!(now > 1_700_000_000, "{answer}");
        for unknown in [
            "account/chatgptAuthTokens/refresh",
            "attestation/generate",
            "no/such",
        ] {
            let error = double.ask(unknown, json!({})).await.unwrap_err();
            let CallError::Refused(error) = error else {
                panic!("{error:?}");
            };
            assert_eq!(error.code, -32601);
            let message = format!("method not supported by client: {unknown}");
            assert_eq!(error.message, message);
        }
    }
}

#[tokio::test]
async fn a_closure_is_a_reviewer_and_sees_the_command() {
    let builder = Client::builder().reviewer(|r: &ApprovalRequest| match r.command() {
        Some(c) if c.starts_with("touch") => Decision::Accept,
        _ => Decision::Decline { reason: None },
    });
    let (double, _client) = Double::connect(Kind::Codex, builder).await;
    let answer = double.ask(COMMAND, asks(T, "t1", "i1")).await.unwrap();
    assert_eq!(answer, word("accept"));
    let mut other = asks(T, "t1", "i2");
    other["command"] = json!("rm -rf /");
    assert_eq!(double.ask(COMMAND, other).await.unwrap(), word("decline"));
}

#[tokio::test]
async fn every_decision_reaches_the_server_as_it_was_made() {
    let (decide, decisions) = mpsc::channel(8);
    let decisions = std::sync::Mutex::new(decisions);
    let reviewer = move |_: &ApprovalRequest| decisions.lock().unwrap().try_recv().unwrap();
    let builder = Client::builder().reviewer(reviewer);
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let rule = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "a"]}});
    for (n, (decision, expected)) in [
        (Decision::Accept, json!("accept")),
        (Decision::AcceptForSession, json!("acceptForSession")),
        (Decision::AcceptWithAmendment(json!(["touch", "a"])), rule),
        (
            Decision::AcceptWithAmendment(json!(["touch"])),
            json!("decline"),
        ),
        (Decision::Cancel, json!("cancel")),
    ]
    .into_iter()
    .enumerate()
    {
        decide.try_send(decision).unwrap();
        let item = format!("i{n}");
        let answer = double.ask(COMMAND, asks(T, "t1", &item)).await.unwrap();
        assert_eq!(answer, json!({ "decision": expected }));
    }
    // A no that the answer cannot say is said by other means.
    decide.try_send(Decision::Cancel).unwrap();
    let params = json!({"threadId": T, "turnId": "t1", "itemId": "p", "permissions": {}});
    let answer = double.ask(PERMISSIONS, params).await.unwrap();
    assert_eq!(answer, json!({"permissions": {}, "scope": "turn"}));
    let interrupt = double.expect("turn/interrupt").await;
    assert_eq!(interrupt.params, json!({"threadId": T, "turnId": "t1"}));
    interrupt.answer(json!({}));
    nothing_else_is_sent(&mut double, &client).await;
}

/// D1: an approval of one thread is never decided by another thread's reviewer.
#[tokio::test]
async fn a_hundred_threads_decide_for_themselves_alone() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let mut threads = Vec::new();
    for n in 0..100 {
        let own = format!("thread-{n}");
        let expected = own.clone();
        let start = client.threads().start("/srv");
        let start = match n % 3 {
            0 => start.reviewer(move |r: &ApprovalRequest| {
                assert_eq!(r.thread.as_ref().unwrap().as_str(), expected);
                Decision::Accept
            }),
            1 => start.reviewer(move |r: &ApprovalRequest| {
                assert_eq!(r.thread.as_ref().unwrap().as_str(), expected);
                Decision::Cancel
            }),
            _ => start,
        };
        let (thread, _) = tokio::join!(start.into_future(), double.start_thread(&own));
        threads.push(thread.unwrap());
    }
    // Steps of 37 visit all of them, far from the order in which they were made.
    let questions = (0..100).map(|n| n * 37 % 100).map(|n| {
        let params = asks(&format!("thread-{n}"), "t1", &format!("i{n}"));
        (n, asked(&double, COMMAND, params))
    });
    for (n, question) in questions.collect::<Vec<_>>() {
        let expected = ["accept", "cancel", "decline"][n % 3];
        assert_eq!(joined(question).await.unwrap(), word(expected), "{n}");
    }
    // A reviewer decides as long as its thread is held.
    drop(threads);
    let answer = double.ask(COMMAND, asks("thread-0", "t1", "again")).await;
    assert_eq!(answer.unwrap(), word("decline"));
}

#[tokio::test]
async fn a_turns_reviewer_is_found_by_a_question_that_overtakes_its_start() {
    let builder = Client::builder().reviewer(|_: &ApprovalRequest| Decision::Cancel);
    let (double, client) = Double::connect(Kind::Codex, builder).await;
    let (mut double, _client, thread) = with_thread(double, client).await;
    let turn = thread
        .turn("hello")
        .reviewer(|_: &ApprovalRequest| Decision::Accept);
    let turn = tokio::spawn(turn.into_future());
    let start = double.expect("turn/start").await;
    let key = start.params["clientUserMessageId"].clone();
    let early = asked(&double, COMMAND, asks(T, "t1", "i1"));
    let others = asked(&double, COMMAND, asks(T, "t0", "i2"));
    let elsewhere = double.ask(COMMAND, asks("other", "t1", "i3")).await;
    assert_eq!(elsewhere.unwrap(), word("cancel"));
    start.answer(json!({ "turn": turn_value("t1", "inProgress") }));
    assert_eq!(joined(early).await.unwrap(), word("accept"));
    assert_eq!(joined(others).await.unwrap(), word("cancel"));
    double.tell("turn/started", turn_event(T, "t1", "inProgress"));
    let ours = json!({"type": "userMessage", "id": "m", "clientId": key, "content": []});
    double.item(T, "t1", "item/completed", &ours);
    double.end_turn(T, "t1", "done");
    joined(turn).await.unwrap();
    // It has ended, and its reviewer with it.
    let late = double.ask(COMMAND, asks(T, "t1", "i4")).await;
    assert_eq!(late.unwrap(), word("cancel"));
}

#[tokio::test]
async fn a_question_right_behind_a_resume_finds_the_threads_reviewer() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let resume = client
        .threads()
        .resume(T)
        .reviewer(|_: &ApprovalRequest| Decision::Accept);
    let resume = tokio::spawn(resume.into_future());
    let call = double.expect("thread/resume").await;
    let early = asked(&double, COMMAND, asks(T, "t1", "i1"));
    assert_eq!(joined(early).await.unwrap(), word("accept"));
    call.answer(thread_answer(T));
    let _thread = joined(resume).await.unwrap();
    let later = double.ask(COMMAND, asks(T, "t1", "i2")).await;
    assert_eq!(later.unwrap(), word("accept"));
}

#[tokio::test(start_paused = true)]
async fn a_review_that_takes_too_long_is_a_no() {
    let slow = Slow::default();
    let builder = Client::builder().reviewer(slow.clone());
    let (double, client) = Double::connect(Kind::Codex, builder).await;
    let mut events = client.events(turnlane::Filter::default());
    let began = tokio::time::Instant::now();
    let peer = double.peer();
    let answer: Value = peer.call(COMMAND, &asks(T, "t1", "i1")).await.unwrap();
    assert_eq!(answer, word("decline"));
    assert_eq!(began.elapsed().as_secs(), 300);
    slow.was_given_up(1).await;
    let mut decisions = Vec::new();
    for _ in 0..2 {
        match events.next().await.unwrap().body {
            turnlane::EventBody::Approval(notice) => decisions.push(notice.decision),
            other => panic!("{other:?}"),
        }
    }
    let reason = Some("review timed out".to_owned());
    assert_eq!(decisions, [None, Some(Decision::Decline { reason })]);
}

#[tokio::test]
async fn a_reviewer_that_panics_says_no() {
    struct Panics;
    impl Reviewer for Panics {
        fn review<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Decision> {
            panic!("before its future")
        }
    }
    let closure = |_: &ApprovalRequest| -> Decision { panic!("a closure") };
    for builder in [
        Client::builder().reviewer(closure),
        Client::builder().reviewer(Panics),
    ] {
        let (double, _client) = Double::connect(Kind::Codex, builder).await;
        let answer = double.ask(COMMAND, asks(T, "t1", "i1")).await;
        assert_eq!(answer.unwrap(), word("decline"));
    }
}

/// D4: whoever thinks long delays nobody, not even when it blocks its thread.
#[tokio::test]
async fn a_slow_reviewer_delays_neither_calls_nor_other_questions() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let builder = Client::builder().reviewer(move |r: &ApprovalRequest| {
        if r.item.as_deref() == Some("slow") {
            held.lock().unwrap().recv().unwrap();
        }
        Decision::Accept
    });
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let slow = asked(&double, COMMAND, asks(T, "t1", "slow"));
    let quick = double.ask(COMMAND, asks(T, "t1", "quick")).await;
    assert_eq!(quick.unwrap(), word("accept"));
    nothing_else_is_sent(&mut double, &client).await;
    release.send(()).unwrap();
    assert_eq!(joined(slow).await.unwrap(), word("accept"));
}

#[tokio::test]
async fn two_questions_of_one_thread_are_reviewed_at_the_same_time() {
    let slow = Slow::default();
    let builder = Client::builder().reviewer(slow.clone());
    let (double, _client) = Double::connect(Kind::Codex, builder).await;
    let questions = ["i1", "i2"].map(|item| asked(&double, COMMAND, asks(T, "t1", item)));
    slow.was_asked(2).await;
    slow.go.notify_waiters();
    for question in questions {
        assert_eq!(joined(question).await.unwrap(), word("accept"));
    }
}
