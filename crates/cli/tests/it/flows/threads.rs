//! Threads: connecting, starting, going on, forking, listing, leaving.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use turnlane::{CallError, CallOptions, Client, ServerKind, SkillsListParams, ThreadListParams};
use turnlane::{ThreadReadParams, ThreadRollbackParams, TurnError, Version};
use turnlane_testkit::wait::{DEADLINE, within};

use super::rig::Rig;

pub(crate) async fn connecting_says_which_server_it_is(rig: Rig) {
    let builder = Client::builder().min_version(Version::new(0, 166, 0));
    let client = rig.client_with(builder).await;
    let server = client.server();
    assert_eq!(server.kind, rig.kind());
    assert_eq!(server.version, Some(Version::new(0, 166, 0)));
    let has_queue = server.features.iter().any(|word| word == "queue");
    assert_eq!(has_queue, rig.kind() == ServerKind::Turnlane);
}

pub(crate) async fn a_thread_has_what_was_asked_for_and_no_more(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let effective = thread.effective();
    assert_eq!(effective.cwd, rig.work().to_str().unwrap());
    assert_eq!(effective.model, "mock-model");
    assert_eq!(effective.approval, json!("never"));
    assert_eq!(effective.sandbox["type"], "readOnly");
    assert_ne!(effective.sandbox["networkAccess"], json!(true));
}

pub(crate) async fn a_history_is_read_back(rig: Rig) {
    let (client, thread) = rig.thread().await;
    let mut asked = Vec::new();
    for text in ["one", "two", "three"] {
        asked.push(thread.turn(text).await.unwrap().turn);
    }
    let turns: Vec<_> = thread.turns().map(Result::unwrap).collect().await;
    let ids: Vec<_> = turns.into_iter().map(|turn| turn.id).rev().collect();
    assert_eq!(ids, asked);
    let params = ThreadReadParams {
        thread_id: thread.id().clone(),
        include_turns: true,
    };
    let view = client.thread_read(params).await.unwrap();
    let ids: Vec<_> = view.turns.iter().map(|turn| turn.id.clone()).collect();
    assert_eq!(ids, asked);
    let shown = serde_json::to_string(&view.turns[1].items).unwrap();
    assert!(shown.contains("you said two"), "{shown}");
}

pub(crate) async fn threads_are_listed(rig: Rig) {
    let client = rig.client().await;
    let mut started = Vec::new();
    for text in ["a", "b"] {
        let thread = client.threads().start(rig.work()).await.unwrap();
        thread.turn(text).await.unwrap();
        started.push(thread.id().clone());
    }
    let listed = client.threads().list(ThreadListParams::default());
    let mut listed: Vec<_> = listed.map(|thread| thread.unwrap().id).collect().await;
    listed.sort();
    started.sort();
    assert_eq!(listed, started);
}

pub(crate) async fn a_thread_is_resumed_in_the_same_process(rig: Rig) {
    let (client, thread) = rig.thread().await;
    thread.turn("before").await.unwrap();
    let again = client.threads().resume(thread.id()).await.unwrap();
    assert_eq!(again.id(), thread.id());
    let outcome = again.turn("after").await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("you said after"));
}

pub(crate) async fn a_thread_is_resumed_after_a_restart(rig: Rig) {
    let (client, thread) = rig.thread().await;
    thread.turn("before").await.unwrap();
    let id = thread.id().clone();
    drop(thread);
    client.shutdown(Duration::from_secs(5)).await.unwrap();
    let rig = rig.restart().await;
    let client = rig.client().await;
    let thread = client.threads().resume(&id).await.unwrap();
    thread.turn("after").await.unwrap();
    let request = rig.mock.requests().pop().unwrap();
    let sent = request.body.to_string();
    assert!(sent.contains("you said before"), "{sent}");
}

pub(crate) async fn a_fork_begins_with_the_history_of_its_source(rig: Rig) {
    let (client, thread) = rig.thread().await;
    thread.turn("common").await.unwrap();
    let fork = client.threads().fork(thread.id()).await.unwrap();
    assert_ne!(fork.id(), thread.id());
    fork.turn("apart").await.unwrap();
    let sent = rig.mock.requests().pop().unwrap().body.to_string();
    assert!(sent.contains("you said common"), "{sent}");
    let turns = thread.turns().collect::<Vec<_>>().await;
    assert_eq!(turns.len(), 1, "the source has its own turns only");
}

pub(crate) async fn a_rollback_forgets_the_last_turn(rig: Rig) {
    let (client, thread) = rig.thread().await;
    thread.turn("kept").await.unwrap();
    thread.turn("forgotten").await.unwrap();
    let params = ThreadRollbackParams {
        thread_id: thread.id().clone(),
        num_turns: 1,
    };
    client.thread_rollback(params).await.unwrap();
    thread.turn("next").await.unwrap();
    let sent = rig.mock.requests().pop().unwrap().body.to_string();
    assert!(sent.contains("you said kept"), "{sent}");
    assert!(!sent.contains("you said forgotten"), "{sent}");
}

pub(crate) async fn an_archived_thread_takes_no_turn(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    thread.turn("hello").await.unwrap();
    thread.archive().await.unwrap();
    thread.archive().await.unwrap();
    assert!(thread.is_closed());
    let error = thread.turn("more").await.unwrap_err();
    assert!(
        matches!(error, TurnError::Call(CallError::ThreadClosed { .. })),
        "{error:?}"
    );
    assert_eq!(rig.mock.requests().len(), 1);
}

pub(crate) async fn skills_are_listed(rig: Rig) {
    let client = rig.client().await;
    let params = SkillsListParams {
        cwds: vec![rig.work().display().to_string()],
        ..SkillsListParams::default()
    };
    let listed = client.skills_list(params).await.unwrap();
    assert_eq!(listed.data.len(), 1, "{listed:?}");
}

pub(crate) async fn a_command_runs_without_a_thread(rig: Rig) {
    let client = rig.client().await;
    let params = json!({"command": ["echo", "4711"], "cwd": rig.work(), "timeoutMs": 60_000});
    let answer = client.call_raw("command/exec", params, CallOptions::default());
    let answer = answer.await.unwrap();
    assert_eq!(answer["exitCode"], 0, "{answer}");
    assert_eq!(answer["stdout"], "4711\n");
}

pub(crate) async fn an_unknown_method_is_unsupported(rig: Rig) {
    let client = rig.client().await;
    for _ in 0..2 {
        let answer = client.call_raw("no/such", json!({}), CallOptions::default());
        let error = answer.await.unwrap_err();
        assert!(
            matches!(&error, CallError::Unsupported { method } if method == "no/such"),
            "{error:?}"
        );
    }
    // The second one was not sent.
    assert_eq!(client.metrics().sent, 1);
}

pub(crate) async fn a_shutdown_ends_everything(rig: Rig) {
    let (client, thread) = rig.thread().await;
    let other = client.clone();
    let report = within(
        "the shutdown",
        DEADLINE,
        client.shutdown(Duration::from_secs(10)),
    );
    let report = report.await.unwrap().unwrap();
    assert!(!report.forced, "{report:?}");
    assert!(
        other
            .call_raw("thread/list", json!({}), CallOptions::default())
            .await
            .is_err()
    );
    assert!(thread.turn("hello").await.is_err());
}
