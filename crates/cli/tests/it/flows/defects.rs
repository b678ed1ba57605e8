//! Defects that were measured in another client against Codex 0.166, once for each server.
//!
//! The numbers are those of the table that `crates/client/tests/it/defects.rs` indexes; rows that the
//! other flows show are named there.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use turnlane::{
    Approval, CallError, Client, ConnectError, Connection, Sandbox, ThreadReadParams, TurnError,
    TurnStatus, Version,
};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::rig::Rig;
use super::turns::until_text;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn d05_an_interrupted_turn_is_an_error_that_keeps_what_was_said(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let mut stream = thread.turn("wait").stream().await.unwrap();
    until_text(&mut stream).await;
    stream.turn().unwrap().interrupt().await.unwrap();
    let outcome = within("the end", DEADLINE, stream.outcome()).await.unwrap();
    let error = outcome.unwrap().into_success().unwrap_err();
    let TurnError::Interrupted { outcome, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(outcome.status, TurnStatus::Interrupted);
    assert!(!outcome.items.is_empty(), "the question at least");
}

pub(crate) async fn d08_full_access_of_the_server_is_not_that_of_the_thread(rig: Rig) {
    // The server's own default would allow everything.
    let codex = rig.home.codex().join("config.toml");
    let text = std::fs::read_to_string(&codex).unwrap_or_default();
    let open = "sandbox_mode = \"danger-full-access\"\n";
    std::fs::write(&codex, format!("{open}{text}")).unwrap();
    let rig = rig.restart().await;
    let (_client, thread) = rig.thread().await;
    assert_eq!(thread.effective().sandbox["type"], "readOnly");
    let file = rig.work().join("written");
    let said = format!("run touch '{}'", file.display());
    let outcome = thread.turn(said.as_str()).await.unwrap();
    assert!(!file.exists(), "{outcome:?}");
}

pub(crate) async fn d09_a_resumed_thread_has_what_was_asked_for(rig: Rig) {
    let (client, thread) = rig.thread().await;
    thread.turn("before").await.unwrap();
    let id = thread.id().clone();
    drop(thread);
    client.shutdown(5 * SECOND).await.unwrap();
    let rig = rig.restart().await;
    let client = rig.client().await;
    let thread = client
        .threads()
        .resume(&id)
        .cwd(rig.work())
        .model("another-model")
        .approval(Approval::OnRequest)
        .sandbox(Sandbox::workspace_write())
        .allow_privileged_escalation()
        .await
        .unwrap();
    let effective = thread.effective();
    assert_eq!(effective.model, "another-model");
    assert_eq!(effective.approval, json!("on-request"));
    assert_eq!(effective.sandbox["type"], "workspaceWrite");
    thread.turn("after").await.unwrap();
    let request = rig.mock.requests().pop().unwrap();
    assert_eq!(request.body["model"], "another-model");
}

pub(crate) async fn d10_a_history_of_more_than_a_mebibyte_is_read_and_resumed(rig: Rig) {
    let (client, thread) = rig.thread().await;
    let long = "x".repeat(300_000);
    for _ in 0..3 {
        thread.turn(long.as_str()).await.unwrap();
    }
    let params = ThreadReadParams {
        thread_id: thread.id().clone(),
        include_turns: true,
    };
    let read = client.thread_read(params);
    let view = within("the history", 30 * SECOND, read)
        .await
        .unwrap()
        .unwrap();
    let bytes = serde_json::to_string(
        &view
            .turns
            .iter()
            .map(|turn| &turn.items)
            .collect::<Vec<_>>(),
    );
    assert!(bytes.unwrap().len() > 1024 * 1024);
    let again = client.threads().resume(thread.id()).into_future();
    let again = within("the thread", 30 * SECOND, again)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again.turns().count().await, 3);
}

pub(crate) async fn d11_a_server_that_is_killed_in_a_turn_is_noticed_within_a_second(rig: Rig) {
    let Some((client, pid)) = rig.client_by_pid().await else {
        return;
    };
    let thread = client.threads().start(rig.work()).await.unwrap();
    let mut stream = thread.turn("wait").stream().await.unwrap();
    until_text(&mut stream).await;
    let mut connection = client.connection();
    turnlane_testkit::TestProcess::run(
        turnlane_testkit::ProcessSpec::shell(&format!("kill -9 {pid}")),
        DEADLINE,
    )
    .await
    .unwrap();
    let error = within("the end of the turn", SECOND, stream.outcome())
        .await
        .unwrap();
    assert!(
        matches!(error, Err(TurnError::Call(CallError::Transport(_)))),
        "{error:?}"
    );
    let lost = connection.wait_for(|now| matches!(now, Connection::Closed { .. }));
    within("the loss", SECOND, lost).await.unwrap().unwrap();
    // Later calls fail too, and at once.
    let later = within("a later call", SECOND, thread.turn("more").into_future());
    assert!(later.await.unwrap().is_err());
    let proc = format!("/proc/{pid}");
    let gone = async || !std::path::Path::new(&proc).exists();
    eventually("the end of the child", 2 * SECOND, gone)
        .await
        .unwrap();
}

pub(crate) async fn d14_a_server_that_is_too_old_is_refused(rig: Rig) {
    let required = Version::new(99, 0, 0);
    let builder = Client::builder().min_version(required);
    let error = rig.try_client_with(builder).await.unwrap_err();
    let ConnectError::VersionTooOld { found, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(found, Version::new(0, 166, 0));
}

pub(crate) async fn d19_an_answer_of_tools_alone_is_a_success_without_text(rig: Rig) {
    let (_client, thread) = rig.thread().await;
    let outcome = thread.turn("run silently true").await.unwrap();
    assert_eq!(outcome.status, TurnStatus::Completed);
    assert_eq!(outcome.text, None);
    let shown = serde_json::to_value(&outcome.items).unwrap();
    let mut items = shown.as_array().unwrap().iter();
    assert!(
        items.any(|item| item["type"] == "commandExecution"),
        "{shown}"
    );
}
