//! Start, resume and fork: the exact fields, and what is made of the answers.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnlane::{
    Approval, CallError, Client, ForkParams, Personality, Sandbox, Side, ThreadError,
    ThreadResumeParams, ThreadStartParams, TurnId, WorkspaceWrite,
};

use super::{answered, granting, nothing_was_sent, refused};
use crate::double::{Double, Kind, thread_answer};

fn everything() -> ThreadStartParams {
    ThreadStartParams {
        model: Some("m".to_owned()),
        model_provider: Some("p".to_owned()),
        service_tier: Some("flex".to_owned()),
        cwd: Some(PathBuf::from("/srv")),
        approval_policy: Some(Approval::OnRequest),
        sandbox: Some(Sandbox::read_only()),
        config: json!({"a.b": 1}).as_object().cloned(),
        service_name: Some("s".to_owned()),
        base_instructions: Some("base".to_owned()),
        developer_instructions: Some("more".to_owned()),
        personality: Some(Personality::Friendly),
        ephemeral: Some(true),
        ..ThreadStartParams::default()
    }
}

fn everything_sent() -> Value {
    json!({"model": "m", "modelProvider": "p", "serviceTier": "flex", "cwd": "/srv",
        "approvalPolicy": "on-request", "sandbox": "read-only", "config": {"a.b": 1},
        "serviceName": "s", "baseInstructions": "base", "developerInstructions": "more",
        "personality": "friendly", "ephemeral": true})
}

fn granted() -> Value {
    granting("T", &json!("on-request"), &json!({"type": "readOnly"}))
}

#[tokio::test]
async fn a_thread_is_started_with_the_fields_of_codex() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let start = client.thread_start(everything());
    let (sent, thread) = answered(&mut double, "thread/start", granted(), start).await;
    assert_eq!(sent, everything_sent());
    assert_eq!(thread.unwrap().id().as_str(), "T");
}

#[tokio::test]
async fn a_thread_with_nothing_chosen_may_read_and_asks_nobody() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let start = client.thread_start(ThreadStartParams::default());
    let (sent, thread) = answered(&mut double, "thread/start", thread_answer("T"), start).await;
    assert_eq!(
        sent,
        json!({"approvalPolicy": "never", "sandbox": "read-only"})
    );
    let effective = thread.unwrap().effective();
    assert_eq!(
        (
            effective.cwd.as_str(),
            effective.model.as_str(),
            effective.model_provider.as_str()
        ),
        ("/srv", "mock-model", "mock")
    );
    assert_eq!(effective.approval, json!("never"));
    assert_eq!(
        effective.sandbox,
        json!({"type": "readOnly", "networkAccess": false})
    );
}

#[tokio::test]
async fn roots_and_network_of_a_workspace_go_into_the_configuration() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let limits = WorkspaceWrite {
        writable_roots: vec!["/extra".to_owned()],
        network_access: true,
        ..WorkspaceWrite::default()
    };
    let start = client
        .threads()
        .start("/srv")
        .sandbox(limits)
        .approval(Approval::OnRequest)
        .allow_privileged_escalation()
        .config("x", 1)
        .into_future();
    let answer = granting(
        "T",
        &json!("on-request"),
        &json!({"type": "workspaceWrite", "writableRoots": ["/extra"], "networkAccess": true}),
    );
    let (sent, thread) = answered(&mut double, "thread/start", answer, start).await;
    assert_eq!(
        sent,
        json!({"cwd": "/srv", "approvalPolicy": "on-request", "sandbox": "workspace-write",
            "config": {"x": 1, "sandbox_workspace_write":
                {"writable_roots": ["/extra"], "network_access": true}}})
    );
    thread.unwrap();
}

#[tokio::test]
async fn d9_a_thread_is_resumed_with_flat_fields_and_without_its_turns() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let resume = client.thread_resume("T", everything());
    let (sent, thread) = answered(&mut double, "thread/resume", granted(), resume).await;
    let mut expected = everything_sent();
    expected["threadId"] = json!("T");
    expected["excludeTurns"] = json!(true);
    assert_eq!(sent, expected);
    thread.unwrap();

    let resume = client.threads().resume("T").into_future();
    let (sent, thread) = answered(&mut double, "thread/resume", thread_answer("T"), resume).await;
    assert_eq!(
        sent,
        json!({"threadId": "T", "excludeTurns": true, "approvalPolicy": "never",
            "sandbox": "read-only"})
    );
    thread.unwrap();
}

#[tokio::test]
async fn another_thread_than_the_one_asked_for_is_refused() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let resume = client.thread_resume("a", ThreadResumeParams::default());
    let (_, result) = answered(&mut double, "thread/resume", thread_answer("b"), resume).await;
    let error = result.unwrap_err();
    assert!(matches!(error, ThreadError::MismatchedThread { .. }));
    assert_eq!(
        error.to_string(),
        "thread/resume returned mismatched thread id: requested=a actual=b"
    );
    let fork = client.threads().fork("a").into_future();
    let (_, result) = answered(&mut double, "thread/fork", thread_answer("a"), fork).await;
    assert_eq!(
        result.unwrap_err().to_string(),
        "thread/fork returned mismatched thread id: requested=a actual=a"
    );
}

#[tokio::test]
async fn a_fork_says_where_it_cuts() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let params = ForkParams {
        last_turn_id: Some(TurnId::from("u")),
        start: ThreadStartParams {
            ephemeral: Some(true),
            ..ThreadStartParams::default()
        },
        ..ForkParams::default()
    };
    let fork = client.thread_fork("S", params);
    let (sent, thread) = answered(&mut double, "thread/fork", thread_answer("T"), fork).await;
    assert_eq!(
        sent,
        json!({"threadId": "S", "lastTurnId": "u", "ephemeral": true, "excludeTurns": true,
            "approvalPolicy": "never", "sandbox": "read-only"})
    );
    assert_eq!(thread.unwrap().id().as_str(), "T");

    let fork = client.threads().fork("S").before_turn("v").into_future();
    let (sent, thread) = answered(&mut double, "thread/fork", thread_answer("T"), fork).await;
    assert_eq!(
        sent,
        json!({"threadId": "S", "beforeTurnId": "v", "excludeTurns": true,
            "approvalPolicy": "never", "sandbox": "read-only"})
    );
    thread.unwrap();

    let both = client.threads().fork("S").before_turn("v").last_turn("u");
    let error = both.await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`beforeTurnId` cannot be combined with `lastTurnId`"
    );
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn an_answer_without_a_thread_is_against_the_contract() {
    for validation in [turnlane::Validation::Known, turnlane::Validation::Off] {
        let builder = Client::builder().validation(validation);
        let (mut double, client) = Double::connect(Kind::Codex, builder).await;
        let start = client.threads().start("/srv").into_future();
        let answer = json!({"thread": {}});
        let (_, result) = answered(&mut double, "thread/start", answer, start).await;
        let Err(ThreadError::Call(CallError::Contract {
            method,
            side,
            reason,
        })) = result
        else {
            panic!("{result:?}");
        };
        assert_eq!(
            (method.as_str(), side, reason.as_str()),
            (
                "thread/start",
                Side::Response,
                "result is missing thread id"
            )
        );
    }
}

#[tokio::test]
async fn what_servers_say_of_a_thread_becomes_its_error() {
    type IsRight = fn(&ThreadError) -> bool;

    let (mut double, client) = Double::plain(Kind::Turnlane).await;
    let archived = "session T is archived. Run `codex unarchive T` to unarchive it first.";
    let rows: [(&str, Value, IsRight); 7] = [
        (
            "x",
            json!({"reason": "threadNotFound"}),
            |error| matches!(error, ThreadError::NotFound { id } if id.as_str() == "T"),
        ),
        ("x", json!({"reason": "archived"}), |error| {
            matches!(error, ThreadError::Archived { .. })
        }),
        ("x", json!({"reason": "ownedElsewhere"}), |error| {
            matches!(error, ThreadError::InUse { .. })
        }),
        (
            "x",
            json!({"reason": "blockedByHook", "hook": "h", "phase": "SessionStart", "message": "no"}),
            |error| error.to_string() == "blocked by hook 'h' at SessionStart: no",
        ),
        ("no rollout found for thread id T", Value::Null, |error| {
            matches!(error, ThreadError::NotFound { .. })
        }),
        (archived, Value::Null, |error| {
            matches!(error, ThreadError::Archived { .. })
        }),
        ("something else", Value::Null, |error| {
            matches!(error, ThreadError::Call(CallError::Rpc(_)))
        }),
    ];
    for (message, data, is_right) in rows {
        let resume = client.threads().resume("T").into_future();
        let error = (-32600, message, data);
        let result = refused(&mut double, "thread/resume", error, resume).await;
        let error = result.unwrap_err();
        assert!(is_right(&error), "{message}: {error:?}");
    }
}

#[tokio::test]
async fn a_relative_directory_is_made_absolute_and_a_senseless_one_refused() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let start = client.threads().start("no/such/place").into_future();
    let (sent, thread) = answered(&mut double, "thread/start", thread_answer("T"), start).await;
    let expected = std::env::current_dir().unwrap().join("no/such/place");
    assert_eq!(sent["cwd"], json!(expected.to_str().unwrap()));
    thread.unwrap();
    for cwd in ["", "a\0b"] {
        let error = client.threads().start(cwd).await.unwrap_err();
        assert!(matches!(
            error,
            ThreadError::Call(CallError::InvalidArgument { what: "cwd", .. })
        ));
        assert!(client.run(cwd, "hello").await.is_err());
    }
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn empty_ids_are_refused_before_anything_is_sent() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let text = "params.threadId must be a non-empty string";
    let said = |error: &dyn std::error::Error| error.to_string();
    let threads = client.threads();
    assert_eq!(said(&threads.resume("").await.unwrap_err()), text);
    assert_eq!(said(&threads.fork(" ").await.unwrap_err()), text);
    assert_eq!(said(&client.thread_archive("").await.unwrap_err()), text);
    assert_eq!(said(&client.thread_unarchive("").await.unwrap_err()), text);
    assert_eq!(
        said(&client.turn_interrupt("", "u").await.unwrap_err()),
        text
    );
    assert_eq!(
        said(&client.turn_interrupt("t", "").await.unwrap_err()),
        "params.turnId must be a non-empty string"
    );
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn what_the_client_chose_is_below_what_the_thread_chose() {
    let profile = turnlane::Profile::new().model("below").service_tier("slow");
    let builder = Client::builder().profile(profile);
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let start = client.threads().start("/srv").model("above").into_future();
    let (sent, thread) = answered(&mut double, "thread/start", thread_answer("T"), start).await;
    assert_eq!(
        (&sent["model"], &sent["serviceTier"]),
        (&json!("above"), &json!("slow"))
    );
    thread.unwrap();
}
