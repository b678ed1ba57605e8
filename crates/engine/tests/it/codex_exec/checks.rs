//! What the engine can say before a turn and after a crash.

use std::sync::{Arc, Mutex};

use turnlane_engine::codex_exec::{HistoryError, HistoryReader, PastTurn, PastTurnStatus};
use turnlane_engine::{Accepted, BoxFuture, Engine as _, OutcomeStatus, Reconciled};
use turnlane_protocol::policy::ApprovalPolicy;
use turnlane_protocol::turn_error::ErrorKind;

use super::support::{Fake, FakeOptions, NOW_MS, THREAD};

fn with_program(program: &str) -> Fake {
    let options = FakeOptions {
        program: Some(program.into()),
        ..FakeOptions::default()
    };
    Fake::with("", options)
}

#[tokio::test]
async fn a_missing_program_is_unavailable_and_a_missing_directory_is_not() {
    let fake = with_program("turnlane-no-such-program");
    let seen = fake.turn("x").await;
    let outcome = seen.assert_failed(ErrorKind::EngineUnavailable);
    assert_eq!((outcome.accepted, outcome.begun), (Accepted::No, false));
    assert_eq!(seen.count("handing over"), 0);
    let status = fake.engine.check(&fake.request("x").settings).await;
    let reason = "cannot find the program `turnlane-no-such-program` in PATH";
    assert_eq!((status.ok, status.reason.as_deref()), (false, Some(reason)));
    let fake = Fake::new("");
    let mut request = fake.request("x");
    request.settings.cwd = fake.path("absent").display().to_string();
    let seen = fake.start(request).finish().await;
    seen.assert_failed(ErrorKind::BadRequest);
}

#[tokio::test]
async fn a_program_that_is_not_codex_is_not_ok() {
    let fake = with_program("true");
    let status = fake.engine.check(&fake.request("x").settings).await;
    assert!(!status.ok);
    let reason = status.reason.unwrap();
    assert!(reason.contains("--version` ended with code 0"), "{reason}");
}

#[tokio::test]
async fn settings_that_need_approvals_are_refused_before_anything_runs() {
    let fake = Fake::new("echo ran > ran");
    let mut request = fake.request("x");
    request.settings.approval_policy = ApprovalPolicy::Untrusted;
    let seen = fake.start(request).finish().await;
    let outcome = seen.assert_failed(ErrorKind::Unsupported);
    assert_eq!((outcome.accepted, outcome.begun), (Accepted::No, false));
    assert!(!fake.path("ran").exists());
}

#[tokio::test]
async fn a_state_of_another_version_is_not_run_as_a_new_thread() {
    let fake = Fake::new("echo ran > ran");
    let mut request = fake.resumed("x");
    let state = r#"{"v":9,"threadId":"x","total":null}"#.to_owned();
    request.engine_state = Some(serde_json::value::RawValue::from_string(state).unwrap());
    let seen = fake.start(request).finish().await;
    seen.assert_failed(ErrorKind::Protocol);
    assert!(!fake.path("ran").exists());
}

/// A history that a test wrote.
struct WrittenHistory {
    turns: Mutex<Option<Vec<PastTurn>>>,
}

impl HistoryReader for WrittenHistory {
    fn read_turns(
        &self,
        thread_id: String,
        since_ms: i64,
    ) -> BoxFuture<'_, Result<Vec<PastTurn>, HistoryError>> {
        assert_eq!((thread_id.as_str(), since_ms), (THREAD, NOW_MS));
        let turns = self.turns.lock().unwrap().clone();
        let unreadable = HistoryError {
            reason: "a test says so".to_owned(),
        };
        Box::pin(async move { turns.ok_or(unreadable) })
    }
}

#[tokio::test]
async fn a_turn_of_a_dead_worker_is_read_back() {
    let past = PastTurn {
        started_ms: NOW_MS,
        status: PastTurnStatus::Completed,
        user_text: "context\n\nours".to_owned(),
        error: None,
        items: Vec::new(),
    };
    let history = Arc::new(WrittenHistory {
        turns: Mutex::new(Some(vec![past])),
    });
    let options = FakeOptions {
        history: Some(Arc::<WrittenHistory>::clone(&history)),
        ..FakeOptions::default()
    };
    let fake = Fake::with("", options);
    let mut request = fake.resumed("ours");
    request.context = vec!["context".to_owned()];
    let Reconciled::Ended { outcome, .. } = fake.engine.reconcile(request).await else {
        panic!("not found");
    };
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(
        fake.engine.reconcile(fake.resumed("other")).await,
        Reconciled::Absent
    );
    // Codex had not named its thread when the worker died.
    assert_eq!(
        fake.engine.reconcile(fake.request("ours")).await,
        Reconciled::Unknown
    );
    *history.turns.lock().unwrap() = None;
    assert_eq!(
        fake.engine.reconcile(fake.resumed("ours")).await,
        Reconciled::Unknown
    );
    let without = Fake::new("");
    assert_eq!(
        without.engine.reconcile(without.resumed("x")).await,
        Reconciled::Unknown
    );
}
