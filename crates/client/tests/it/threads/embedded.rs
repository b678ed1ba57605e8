//! The same calls against the real server, embedded in this process.

use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::json;
use turnlane::{
    Approval, CallError, Client, Endpoint, Sandbox, Thread, ThreadError, ThreadId,
    ThreadListParams, ThreadReadParams, ThreadRollbackParams, ThreadStartParams, TurnStatus,
    WorkspaceWrite,
};
use turnlane_engine::scripted::{AbortSteps, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};

const ECHO: &str = "version: 1\nfallback: {say: \"You said: {input}\"}";

/// The same without deltas, for long texts.
const WHOLE: &str = "version: 1\nfallback: {say: {text: \"You said: {input}\", chunk: 0}}";

async fn server(script: &str) -> Embedded {
    let script = Script::parse("test.yaml", script, AbortSteps::Refused).unwrap();
    let engine = Arc::new(Scripted::new(script, Arc::new(|| 0)));
    Embedded::start(EmbeddedConfig::new(engine)).await.unwrap()
}

async fn client(server: &Embedded) -> Client {
    Client::connect(Endpoint::io(server.connect()))
        .await
        .unwrap()
}

async fn said(thread: &Thread, texts: &[&str]) {
    for text in texts {
        let outcome = thread.turn(*text).await.unwrap();
        assert_eq!(outcome.status, TurnStatus::Completed);
    }
}

fn read(thread: &ThreadId) -> ThreadReadParams {
    ThreadReadParams {
        thread_id: thread.clone(),
        include_turns: true,
    }
}

/// The first words of each turn, the oldest first.
async fn words(client: &Client, thread: &ThreadId) -> Vec<String> {
    let view = client.thread_read(read(thread)).await.unwrap();
    let first = |turn: &turnlane::TurnView| {
        let item = serde_json::to_value(&turn.items[0]).unwrap();
        item["content"][0]["text"].as_str().unwrap().to_owned()
    };
    view.turns.iter().map(first).collect()
}

#[tokio::test]
async fn a_thread_is_started_resumed_and_read() {
    let server = server(ECHO).await;
    let (one, other) = (client(&server).await, client(&server).await);
    let thread = one.threads().start("/tmp").await.unwrap();
    let effective = thread.effective();
    assert_eq!(effective.cwd, "/tmp");
    assert_eq!(effective.approval, json!("never"));
    assert_eq!(
        effective.sandbox,
        json!({"type": "readOnly", "networkAccess": false})
    );
    said(&thread, &["a", "b"]).await;
    let again = other.threads().resume(thread.id()).await.unwrap();
    said(&again, &["c"]).await;
    assert_eq!(words(&one, thread.id()).await, ["a", "b", "c"]);
    let turns: Vec<_> = again.turns().collect().await;
    let newest = turns[0].as_ref().unwrap();
    assert_eq!((turns.len(), newest.items.len()), (3, 2));
    let missing = one.threads().resume("0198f000-0000-7000-8000-000000000000");
    assert!(matches!(missing.await, Err(ThreadError::NotFound { .. })));
}

#[tokio::test]
async fn every_policy_that_is_asked_for_is_granted_and_no_more() {
    let server = server(ECHO).await;
    let client = client(&server).await;
    let limits = WorkspaceWrite {
        writable_roots: vec!["/tmp/extra".to_owned()],
        ..WorkspaceWrite::default()
    };
    let sandboxes = [
        Sandbox::read_only(),
        Sandbox::workspace_write(),
        limits.into(),
        Sandbox::full_access(),
    ];
    for sandbox in sandboxes {
        for approval in [Approval::Untrusted, Approval::OnRequest] {
            let start = client
                .threads()
                .start("/tmp")
                .sandbox(sandbox.clone())
                .approval(approval)
                .allow_privileged_escalation();
            let thread = start.await.unwrap();
            let resume = client
                .threads()
                .resume(thread.id())
                .cwd("/tmp")
                .sandbox(sandbox.clone())
                .approval(approval)
                .allow_privileged_escalation();
            resume.await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_fork_takes_the_history_that_was_asked_for() {
    let server = server(ECHO).await;
    let client = client(&server).await;
    let thread = client.threads().start("/tmp").await.unwrap();
    said(&thread, &["a", "b", "c"]).await;
    let view = client.thread_read(read(thread.id())).await.unwrap();
    let middle = view.turns[1].id.clone();
    let threads = client.threads();
    let whole = threads.fork(thread.id()).await.unwrap();
    assert_eq!(words(&client, whole.id()).await, ["a", "b", "c"]);
    let up_to = threads.fork(thread.id()).last_turn(&middle).await.unwrap();
    assert_eq!(words(&client, up_to.id()).await, ["a", "b"]);
    let before = threads
        .fork(thread.id())
        .before_turn(&middle)
        .await
        .unwrap();
    assert_eq!(words(&client, before.id()).await, ["a"]);
    let kept = threads.fork(thread.id()).ephemeral().await.unwrap();
    said(&kept, &["d"]).await;
    let fork = client.thread_read(read(up_to.id())).await.unwrap();
    assert_eq!(fork.summary.forked_from.as_ref(), Some(thread.id()));
}

#[tokio::test]
async fn threads_are_listed_page_by_page() {
    let server = server(ECHO).await;
    let client = client(&server).await;
    let mut made = Vec::new();
    for number in 0..5 {
        let thread = client.threads().start("/tmp").await.unwrap();
        said(&thread, &[&format!("thread {number}")]).await;
        made.push(thread.id().clone());
    }
    let query = ThreadListParams {
        limit: Some(2),
        ..ThreadListParams::default()
    };
    let listed: Vec<_> = client
        .threads()
        .list(query)
        .map(|thread| thread.unwrap().id)
        .collect()
        .await;
    made.reverse();
    assert_eq!(listed, made);
    let loaded = client
        .thread_loaded_list(turnlane::ThreadLoadedListParams::default())
        .await
        .unwrap();
    assert_eq!(loaded.data.len(), 5);
    let query = ThreadListParams {
        search_term: Some("thread 3".to_owned()),
        ..ThreadListParams::default()
    };
    let found = client.thread_list(query).await.unwrap();
    assert_eq!(found.data[0].preview, "thread 3");
    let skills = client.skills_list(turnlane::SkillsListParams {
        cwds: vec!["/tmp".to_owned()],
        force_reload: false,
    });
    assert_eq!(skills.await.unwrap().data[0].cwd, "/tmp");
}

#[tokio::test]
async fn a_thread_is_put_away_and_taken_back() {
    let server = server(ECHO).await;
    let (one, other) = (client(&server).await, client(&server).await);
    let thread = one.threads().start("/tmp").await.unwrap();
    said(&thread, &["a"]).await;
    let theirs = other.threads().resume(thread.id()).await.unwrap();
    thread.archive().await.unwrap();
    thread.archive().await.unwrap();
    turnlane_testkit::wait::eventually(
        "the other client sees it",
        turnlane_testkit::wait::DEADLINE,
        async || theirs.is_closed(),
    )
    .await
    .unwrap();
    let error = thread.turn("x").await.unwrap_err();
    assert_eq!(error.to_string(), "session is closed");
    let resume = one.threads().resume(thread.id()).await;
    assert!(matches!(resume, Err(ThreadError::Archived { .. })));
    let view = one.thread_unarchive(thread.id()).await.unwrap();
    assert_eq!(view.id(), thread.id());
    let again = one.threads().resume(thread.id()).await.unwrap();
    said(&again, &["b"]).await;
    assert!(thread.is_closed() && !again.is_closed());
}

#[tokio::test]
async fn the_last_turns_are_taken_out_of_a_history() {
    let server = server(ECHO).await;
    let client = client(&server).await;
    let thread = client.threads().start("/tmp").await.unwrap();
    said(&thread, &["a", "b", "c"]).await;
    let rollback = |num_turns| {
        client.thread_rollback(ThreadRollbackParams {
            thread_id: thread.id().clone(),
            num_turns,
        })
    };
    assert!(matches!(
        rollback(4).await,
        Err(ThreadError::NotEnoughTurns { have: 3 })
    ));
    rollback(2).await.unwrap();
    assert_eq!(words(&client, thread.id()).await, ["a"]);
    said(&thread, &["d"]).await;
    assert_eq!(words(&client, thread.id()).await, ["a", "d"]);
}

#[tokio::test]
async fn d10_a_history_of_sixteen_mebibytes_is_read_and_resumed() {
    let server = server(WHOLE).await;
    let client = client(&server).await;
    let thread = client.threads().start("/tmp").await.unwrap();
    // Twice the text per turn: what was said, and what came back.
    let long = "x".repeat(1_000_000);
    for _ in 0..9 {
        said(&thread, &[&long]).await;
    }
    let view = client.thread_read(read(thread.id())).await.unwrap();
    let bytes: usize = view
        .turns
        .iter()
        .flat_map(|turn| &turn.items)
        .map(|item| serde_json::to_string(item).unwrap().len())
        .sum();
    assert!(bytes > 16 * 1024 * 1024, "{bytes} bytes");
    client.threads().resume(thread.id()).await.unwrap();
    assert_eq!(thread.turns().count().await, 9);
}

#[tokio::test]
async fn a_method_that_nobody_serves_is_unsupported() {
    let server = server(ECHO).await;
    let client = client(&server).await;
    for _ in 0..2 {
        let call = client.call_raw("no/such", json!({}), turnlane::CallOptions::default());
        assert!(matches!(call.await, Err(CallError::Unsupported { .. })));
    }
}

#[tokio::test]
async fn a_binding_is_found_again_by_one_client_at_a_time() {
    let server = server(ECHO).await;
    let (one, other) = (client(&server).await, client(&server).await);
    let bound = || ThreadStartParams {
        cwd: Some("/tmp".into()),
        binding: Some("nightly".to_owned()),
        ..ThreadStartParams::default()
    };
    let thread = one.thread_start(bound()).await.unwrap();
    said(&thread, &["a"]).await;
    let again = one.thread_start(bound()).await.unwrap();
    assert_eq!(again.id(), thread.id());
    let error = other.thread_start(bound()).await.unwrap_err();
    let ThreadError::Call(CallError::Rpc(rpc)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(rpc.reason(), Some("bindingInUse"));
    let successor = ThreadStartParams {
        supersedes: Some(thread.id().clone()),
        ..bound()
    };
    let next = one.thread_start(successor).await.unwrap();
    assert_ne!(next.id(), thread.id());
    assert_eq!(words(&one, thread.id()).await, ["a"]);

    let unbound = ThreadStartParams {
        supersedes: Some(thread.id().clone()),
        ..ThreadStartParams::default()
    };
    let refused = [
        one.thread_start(unbound).await,
        one.thread_resume(thread.id(), bound()).await,
    ];
    for refused in refused {
        let error = refused.map(|thread| thread.id().clone()).unwrap_err();
        assert!(
            matches!(error, ThreadError::Call(CallError::InvalidArgument { .. })),
            "{error:?}"
        );
    }
}
