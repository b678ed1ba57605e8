//! Handles: identity, their end, and what is checked before a thread is opened.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use serde_json::{Value, json};
use turnlane::{
    Approval, Attachment, CallError, Client, HookAction, HookContext, HookPatch, HookPhase,
    HookSet, Matcher, Sandbox, SteerError, Thread, ThreadError, TurnError, TurnStartParams,
};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{answered, nothing_was_sent, refused};
use crate::double::{Double, Kind, thread_answer};
use crate::rig::{T, joined, rig};

async fn resumed(double: &mut Double, client: &Client) -> Thread {
    let resume = client.threads().resume(T).into_future();
    let (_, thread) = answered(double, "thread/resume", thread_answer(T), resume).await;
    thread.unwrap()
}

async fn is_closed(thread: &Thread) {
    eventually("the end is seen", DEADLINE, async || thread.is_closed())
        .await
        .unwrap();
}

fn said() -> TurnStartParams {
    TurnStartParams {
        input: "x".into(),
        ..TurnStartParams::default()
    }
}

#[tokio::test]
async fn archiving_is_done_once_and_every_handle_gets_its_result() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let other = resumed(&mut double, &client).await;
    let clone = thread.clone();
    let both = async { tokio::join!(thread.archive(), other.archive()) };
    let (sent, results) = answered(&mut double, "thread/archive", json!({}), both).await;
    assert_eq!(sent, json!({"threadId": T}));
    assert!(results.0.is_ok() && results.1.is_ok());
    clone.archive().await.unwrap();
    assert!(thread.is_closed() && clone.is_closed() && other.is_closed());
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_failed_archiving_is_told_again_and_closes_nothing() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let error = (-32603, "disk", Value::Null);
    let failed = refused(&mut double, "thread/archive", error, thread.archive()).await;
    assert_eq!(failed.unwrap_err().code(), Some(-32603));
    assert_eq!(thread.archive().await.unwrap_err().code(), Some(-32603));
    assert!(!thread.is_closed());
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn archiving_goes_on_when_nobody_waits_for_it() {
    let (mut double, _client, thread) = rig(Kind::Codex).await;
    let clone = thread.clone();
    let archiving = tokio::spawn(async move { clone.archive().await });
    let asked = double.expect("thread/archive").await;
    archiving.abort();
    asked.answer(json!({}));
    is_closed(&thread).await;
    thread.archive().await.unwrap();
}

#[tokio::test]
async fn every_call_on_a_closed_handle_finds_it_closed() {
    for method in ["thread/archived", "thread/closed", "thread/deleted"] {
        let (mut double, client, thread) = rig(Kind::Codex).await;
        double.tell(method, json!({"threadId": T}));
        is_closed(&thread).await;
        let closed = |error: &CallError| {
            assert!(matches!(error, CallError::ThreadClosed { thread } if thread.as_str() == T));
            assert_eq!(error.to_string(), "session is closed");
        };
        for error in [
            thread.turn("x").await.unwrap_err(),
            thread.turn("x").stream().await.unwrap_err(),
            thread.turn("x").enqueue().await.unwrap_err(),
            thread.turn_start(said()).await.unwrap_err(),
        ] {
            let TurnError::Call(error) = error else {
                panic!("{error:?}");
            };
            closed(&error);
        }
        let Err(SteerError::Call(error)) = thread.turn_steer("u", "x").await else {
            panic!("steered a closed thread");
        };
        closed(&error);
        closed(&thread.queue().await.unwrap_err());
        let mut turns = thread.turns();
        closed(&turns.next().await.unwrap().unwrap_err());
        assert!(turns.next().await.is_none());
        nothing_was_sent(&mut double, &client).await;
    }
}

#[tokio::test]
async fn a_thread_that_is_opened_again_is_open_and_its_old_handles_stay_closed() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    double.tell("thread/archived", json!({"threadId": T}));
    is_closed(&thread).await;
    let again = resumed(&mut double, &client).await;
    assert!(!again.is_closed());
    assert!(thread.is_closed());
    double.tell("thread/deleted", json!({"threadId": T}));
    is_closed(&again).await;
}

#[tokio::test]
async fn dropping_a_handle_does_nothing_on_the_server() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    drop(thread);
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn two_handles_of_a_thread_keep_their_own_choices() {
    let (mut double, client, plain) = rig(Kind::Turnlane).await;
    let resume = client
        .threads()
        .resume(T)
        .cwd("/srv")
        .sandbox(Sandbox::workspace_write())
        .approval(Approval::OnRequest)
        .allow_privileged_escalation()
        .into_future();
    let mut answer = thread_answer(T);
    answer["approvalPolicy"] = json!("on-request");
    let (_, writing) = answered(&mut double, "thread/resume", answer, resume).await;
    let writing = writing.unwrap();
    for (thread, sandbox) in [(&writing, "workspaceWrite"), (&plain, "readOnly")] {
        let answer = json!({ "turn": crate::double::turn_value("u", "inProgress") });
        let call = thread.turn_start(said());
        let (sent, turn) = answered(&mut double, "turn/start", answer, call).await;
        assert_eq!(sent["sandboxPolicy"]["type"], json!(sandbox));
        turn.unwrap();
    }
}

#[tokio::test]
async fn the_latest_answer_is_what_is_in_effect() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let mut answer = thread_answer(T);
    answer["model"] = json!("other");
    let resume = client.threads().resume(T).into_future();
    let (_, again) = answered(&mut double, "thread/resume", answer, resume).await;
    assert_eq!(again.unwrap().effective().model, "other");
    assert_eq!(thread.effective().model, "other");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_found_before_anything_is_sent() {
    let home = tempfile::tempdir().unwrap();
    let (mut double, client, thread) = rig(Kind::Codex).await;
    let missing = Attachment::LocalImage("missing.png".into());
    let start = client.threads().start(home.path()).attach(missing.clone());
    let error = start.await.unwrap_err();
    assert!(matches!(
        error,
        ThreadError::AttachmentNotFound { path } if path == home.path().join("missing.png")
    ));
    let turn = thread.turn("look").attach(missing).await.unwrap_err();
    assert!(matches!(
        turn,
        TurnError::AttachmentNotFound { path } if path.ends_with("srv/missing.png")
    ));
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_file_that_is_there_goes_along_with_its_whole_path() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.png"), "x").unwrap();
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let start = client.threads().start(home.path());
    let start = start.attach(Attachment::LocalImage("a.png".into()));
    let mut answer = thread_answer(T);
    answer["cwd"] = json!(home.path());
    let (_, thread) = answered(&mut double, "thread/start", answer, start.into_future()).await;
    let answer = json!({ "turn": crate::double::turn_value("u", "inProgress") });
    let call = thread.unwrap();
    let call = call.turn_start(said());
    let (sent, turn) = answered(&mut double, "turn/start", answer, call).await;
    let expected = json!({"type": "localImage", "path": home.path().join("a.png")});
    assert_eq!(sent["input"][1], expected);
    turn.unwrap();
}

#[tokio::test]
async fn a_hook_that_blocks_keeps_a_thread_from_being_started() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let hooks = HookSet::new().on(
        Matcher::phases([HookPhase::PreSessionStart]),
        ("guard", |_: &HookContext| {
            Ok(HookAction::Block {
                message: "not today".to_owned(),
            })
        }),
    );
    let start = client.threads().start("/srv").hooks(hooks);
    let error = start.await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "blocked by hook 'guard' at PreSessionStart: not today"
    );
    assert!(matches!(error, ThreadError::Blocked(_)));
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn hooks_of_client_and_thread_run_around_a_start_and_may_choose_the_model() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = |name: &'static str| {
        let order = Arc::clone(&order);
        (name, move |context: &HookContext| {
            order
                .lock()
                .unwrap()
                .push((name, context.phase, context.thread_id.clone()));
            if context.phase == HookPhase::PreSessionStart && name == "thread" {
                return Ok(HookAction::Mutate(HookPatch {
                    model: Some("chosen".to_owned()),
                    ..HookPatch::default()
                }));
            }
            Ok(HookAction::Noop)
        })
    };
    let both = |name| {
        HookSet::new().on(
            Matcher::phases([HookPhase::PreSessionStart, HookPhase::PostSessionStart]),
            seen(name),
        )
    };
    let builder = Client::builder()
        .hooks(both("client"))
        .profile(turnlane::Profile::new().hooks(both("profile")));
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let start = client.threads().start("/srv").hooks(both("thread"));
    let start = start.into_future();
    let (sent, thread) = answered(&mut double, "thread/start", thread_answer(T), start).await;
    assert_eq!(sent["model"], json!("chosen"));
    let id = Some(thread.unwrap().id().clone());
    let order = order.lock().unwrap();
    let before: Vec<_> = order.iter().take(3).map(|run| (run.0, run.1)).collect();
    assert_eq!(
        before,
        ["client", "profile", "thread"].map(|name| (name, HookPhase::PreSessionStart))
    );
    let after: Vec<_> = order.iter().skip(3).collect();
    assert_eq!(after.len(), 3);
    assert!(
        after
            .iter()
            .all(|run| run.1 == HookPhase::PostSessionStart && run.2 == id)
    );
}

#[tokio::test]
async fn the_reviewer_of_a_thread_decides_for_it_and_for_no_other() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let start = client.threads().start("/srv").approval(Approval::OnRequest);
    let start = start.reviewer(move |_: &turnlane::ApprovalRequest| {
        count.fetch_add(1, Ordering::SeqCst);
        turnlane::Decision::Accept
    });
    let mut answer = thread_answer(T);
    answer["approvalPolicy"] = json!("on-request");
    let (_, thread) = answered(&mut double, "thread/start", answer, start.into_future()).await;
    let _thread = thread.unwrap();
    for (thread, decision) in [(T, "accept"), ("other", "decline")] {
        let request = json!({"threadId": thread, "turnId": "u", "itemId": format!("i-{thread}"),
            "command": "ls", "cwd": "/srv"});
        let peer = double.peer();
        let answer = tokio::spawn(async move {
            let method = "item/commandExecution/requestApproval";
            peer.call::<Value>(method, &request).await
        });
        assert_eq!(joined(answer).await.unwrap()["decision"], json!(decision));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
