//! The privilege gate: refused before a byte is written, and a server that widens is left.

use serde_json::{Value, json};
use turnlane::{
    Approval, Client, PolicyError, Profile, Sandbox, SandboxPolicy, Thread, ThreadError,
    ThreadStartParams, TurnError, TurnStartParams, WorkspaceWrite,
};

use super::{answered, granting, nothing_was_sent};
use crate::double::{Double, Kind, thread_answer};
use crate::rig::rig;

/// Every row that can be refused before a call, with the text it is refused with.
fn rows() -> Vec<(Profile, Option<&'static str>, &'static str)> {
    const ESCALATION: &str = "privileged sandbox requires explicit escalation approval";
    const APPROVAL: &str = "privileged sandbox requires non-never approval policy";
    const SCOPE: &str = "privileged sandbox requires explicit scope via cwd or writable roots";
    let network = SandboxPolicy::ReadOnly {
        network_access: true,
    };
    let privileged: [Sandbox; 6] = [
        network.into(),
        WorkspaceWrite::default().into(),
        Sandbox::full_access(),
        Sandbox::Permissions("dev".to_owned()),
        Sandbox::Raw(json!({"type": "externalSandbox"})),
        Sandbox::Raw(json!({"type": "somethingNew"})),
    ];
    let mut rows = Vec::new();
    for sandbox in privileged {
        let asked = Profile::new()
            .sandbox(sandbox)
            .approval(Approval::OnRequest);
        let allowed = asked.clone().allow_privileged_escalation();
        rows.push((asked, Some("/srv"), ESCALATION));
        let unattended = allowed.clone().approval(Approval::Never);
        rows.push((unattended, Some("/srv"), APPROVAL));
        rows.push((allowed, None, SCOPE));
    }
    let raw = |value: Value| {
        Profile::new()
            .sandbox(Sandbox::Raw(value))
            .approval(Approval::OnRequest)
            .allow_privileged_escalation()
    };
    let no_object = "sandboxPolicy must be an object when provided";
    rows.push((raw(json!("read-only")), Some("/srv"), no_object));
    let no_type = "sandboxPolicy.type must be a non-empty string";
    rows.push((raw(json!({})), Some("/srv"), no_type));
    rows
}

fn policy(error: ThreadError) -> PolicyError {
    match error {
        ThreadError::Policy(error) => error,
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn every_row_is_refused_for_threads_before_a_byte_is_written() {
    for (profile, cwd, text) in rows() {
        let builder = Client::builder().profile(profile);
        let (mut double, client) = Double::connect(Kind::Codex, builder).await;
        let params = || ThreadStartParams {
            cwd: cwd.map(Into::into),
            ..ThreadStartParams::default()
        };
        let results = [
            client.thread_start(params()).await,
            client.thread_resume("T", params()).await,
            client
                .thread_fork(
                    "S",
                    turnlane::ForkParams {
                        start: params(),
                        ..turnlane::ForkParams::default()
                    },
                )
                .await,
        ];
        for result in results {
            assert_eq!(policy(result.unwrap_err()).to_string(), text);
        }
        nothing_was_sent(&mut double, &client).await;
    }
}

#[tokio::test]
async fn every_row_is_refused_for_turns_before_a_byte_is_written() {
    let (mut double, client, thread) = rig(Kind::Codex).await;
    for (sandbox, approval, text) in [
        (
            Sandbox::workspace_write(),
            Approval::OnRequest,
            "privileged sandbox requires explicit escalation approval",
        ),
        (
            Sandbox::Raw(json!(7)),
            Approval::OnRequest,
            "privileged sandbox requires explicit escalation approval",
        ),
    ] {
        let turn = thread
            .turn("hello")
            .sandbox(sandbox.clone())
            .approval(approval);
        let error = turn.await.unwrap_err();
        assert!(matches!(error, TurnError::Policy(_)));
        assert_eq!(error.to_string(), text);
        let params = TurnStartParams {
            input: "hello".into(),
            sandbox_policy: Some(sandbox),
            approval_policy: Some(approval),
            ..TurnStartParams::default()
        };
        let error = thread.turn_start(params).await.unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let unattended = thread
        .turn("hello")
        .sandbox(Sandbox::full_access())
        .allow_privileged_escalation()
        .allow_unattended_writes();
    assert_eq!(
        unattended.await.unwrap_err().to_string(),
        "privileged sandbox requires non-never approval policy"
    );
    let no_object = "sandboxPolicy must be an object when provided";
    let no_type = "sandboxPolicy.type must be a non-empty string";
    for (value, text) in [
        (json!(7), no_object),
        (json!({}), no_type),
        (json!({"type": " "}), no_type),
    ] {
        let turn = || {
            thread
                .turn("hello")
                .sandbox(Sandbox::Raw(value.clone()))
                .approval(Approval::OnRequest)
                .allow_privileged_escalation()
        };
        for error in [
            turn().await.unwrap_err(),
            turn().enqueue().await.unwrap_err(),
            turn().stream().await.unwrap_err(),
        ] {
            assert!(matches!(
                error,
                TurnError::Policy(PolicyError::InvalidSandbox { .. })
            ));
            assert_eq!(error.to_string(), text);
        }
    }
    let enqueued = thread.turn("x").sandbox(Sandbox::full_access()).enqueue();
    assert!(matches!(enqueued.await, Err(TurnError::Policy(_))));
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn a_turn_of_a_thread_without_a_folder_needs_a_scope() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let mut answer = thread_answer("T");
    answer["cwd"] = json!(" ");
    answer["thread"]["cwd"] = json!(" ");
    let resume = client.threads().resume("T").into_future();
    let (_, thread) = answered(&mut double, "thread/resume", answer, resume).await;
    let thread = thread.unwrap();
    let turn = |sandbox: Sandbox| {
        thread
            .turn("hello")
            .sandbox(sandbox)
            .approval(Approval::OnRequest)
            .allow_privileged_escalation()
    };
    let blank = WorkspaceWrite {
        writable_roots: vec![" ".to_owned()],
        ..WorkspaceWrite::default()
    };
    for sandbox in [
        Sandbox::workspace_write(),
        blank.into(),
        Sandbox::full_access(),
        Sandbox::Raw(json!({"type": "workspaceWrite", "writableRoots": [""]})),
    ] {
        for error in [
            turn(sandbox.clone()).await.unwrap_err(),
            turn(sandbox.clone()).enqueue().await.unwrap_err(),
            turn(sandbox).stream().await.unwrap_err(),
        ] {
            let is_scope = matches!(error, TurnError::Policy(PolicyError::ScopeRequired));
            assert!(is_scope, "{error:?}");
        }
    }
    nothing_was_sent(&mut double, &client).await;
    // A root that has a name is a scope.
    let named = WorkspaceWrite {
        writable_roots: vec!["/srv".to_owned()],
        ..WorkspaceWrite::default()
    };
    let run = tokio::spawn(turn(named.into()).into_future());
    let params = double.start_turn("T", "t1").await;
    assert_eq!(params["sandboxPolicy"]["writableRoots"], json!(["/srv"]));
    double.end_turn("T", "t1", "done");
    crate::rig::joined(run).await.unwrap();
}

#[tokio::test]
async fn configuration_does_not_lead_around_the_gate() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    for key in [
        "sandbox_mode",
        "sandbox_workspace_write.network_access",
        "approval_policy",
        "permissions",
        "default_permissions",
        "bypass_hook_trust",
    ] {
        let threads = client.threads();
        let start = threads.start("/srv").config(key, "x").await;
        let resume = threads.resume("T").config(key, "x").await;
        let fork = threads.fork("S").config(key, "x").await;
        for result in [start, resume, fork] {
            assert_eq!(
                policy(result.unwrap_err()),
                PolicyError::ConfigBypass {
                    key: key.to_owned()
                }
            );
        }
    }
    nothing_was_sent(&mut double, &client).await;
}

/// A server that grants full access, and then what the client says next.
async fn widened(
    double: &mut Double,
    method: &str,
    granted: Value,
    then: &[&str],
    open: impl Future<Output = Result<Thread, ThreadError>>,
) -> PolicyError {
    let play = async {
        double.expect(method).await.answer(granted);
        for method in then {
            let asked = double.expect(method).await;
            assert_eq!(asked.params, json!({"threadId": "T"}));
            asked.answer(json!({}));
        }
    };
    let ((), opened) = tokio::join!(play, open);
    policy(opened.unwrap_err())
}

#[tokio::test]
async fn d8_a_thread_that_was_granted_more_is_left_and_put_away() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let full = granting("T", &json!("never"), &json!({"type": "dangerFullAccess"}));
    let both = ["thread/unsubscribe", "thread/archive"];
    let start = client.threads().start("/srv").into_future();
    let error = widened(&mut double, "thread/start", full.clone(), &both, start).await;
    let PolicyError::Widened { asked, granted } = error else {
        panic!("{error:?}");
    };
    assert!(asked.contains("readOnly") && granted.contains("dangerFullAccess"));
    let fork = client.threads().fork("S").into_future();
    widened(&mut double, "thread/fork", full.clone(), &both, fork).await;
    // A thread that was there before is not ours to put away.
    let resume = client.threads().resume("T").into_future();
    let one = ["thread/unsubscribe"];
    widened(&mut double, "thread/resume", full, &one, resume).await;
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn fewer_questions_than_asked_for_and_words_nobody_knows_are_more() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let both = ["thread/unsubscribe", "thread/archive"];
    let read = json!({"type": "readOnly", "networkAccess": false});
    for (approval, sandbox) in [
        (json!("never"), read.clone()),
        (json!("sometimes"), read.clone()),
        (json!("untrusted"), json!({"type": "somethingNew"})),
        (
            json!("untrusted"),
            json!({"type": "readOnly", "networkAccess": true}),
        ),
    ] {
        let start = client.threads().start("/srv").approval(Approval::Untrusted);
        let granted = granting("T", &approval, &sandbox);
        let start = start.into_future();
        let error = widened(&mut double, "thread/start", granted, &both, start).await;
        assert!(matches!(error, PolicyError::Widened { .. }));
    }
}

#[tokio::test]
async fn a_server_that_refuses_to_be_left_changes_nothing() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let full = granting("T", &json!("never"), &json!({"type": "dangerFullAccess"}));
    let start = client.threads().start("/srv").into_future();
    let play = async {
        double.expect("thread/start").await.answer(full);
        for method in ["thread/unsubscribe", "thread/archive"] {
            let asked = double.expect(method).await;
            asked.refuse(-32603, "no", &Value::Null);
        }
    };
    let ((), opened) = tokio::join!(play, start);
    assert!(matches!(
        policy(opened.unwrap_err()),
        PolicyError::Widened { .. }
    ));
}

#[tokio::test]
async fn less_than_asked_for_is_fine() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let start = client
        .threads()
        .start("/srv")
        .sandbox(Sandbox::workspace_write())
        .approval(Approval::OnRequest)
        .allow_privileged_escalation()
        .into_future();
    let mut answer = thread_answer("T");
    answer["approvalPolicy"] = json!("untrusted");
    let (_, thread) = answered(&mut double, "thread/start", answer, start).await;
    assert_eq!(thread.unwrap().effective().approval, json!("untrusted"));
}
