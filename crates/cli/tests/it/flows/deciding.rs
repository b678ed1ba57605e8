//! Deciding: reviewers, hooks, and what is refused before a byte is sent.

use std::sync::{Arc, Mutex};

use turnlane::{Approval, ApprovalRequest, BoxFuture, Client, Decision, HookSet, PolicyError};
use turnlane::{Hook, HookAction, HookContext, HookIssue, HookPatch, HookPhase, Matcher};
use turnlane::{SandboxPolicy, ServerKind, ThreadError, TurnError};

use super::rig::Rig;

pub(crate) async fn an_accepted_command_runs(rig: Rig) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let builder = Client::builder().reviewer(move |request: &ApprovalRequest| {
        let command = request.command().map(str::to_owned);
        seen.lock().unwrap().push(command);
        // As the guide's reviewer decides: by the words of the command, on every kind of server.
        if request.runs(&["touch"]) {
            Decision::Accept
        } else {
            Decision::Decline { reason: None }
        }
    });
    let client = rig.client_with(builder).await;
    let start = client.threads().start(rig.work());
    let thread = start.approval(Approval::OnRequest).await.unwrap();
    let outcome = thread.turn("ask to touch made").await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("the command is done"));
    assert!(rig.work().join("made").exists());
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    assert!(
        asked[0].as_deref().unwrap().contains("touch made"),
        "{asked:?}"
    );
}

pub(crate) async fn a_declined_command_does_not_run(rig: Rig) {
    // Nobody was named, so the answer is no.
    let client = rig.client().await;
    let start = client.threads().start(rig.work());
    let thread = start.approval(Approval::OnRequest).await.unwrap();
    let outcome = thread.turn("ask to touch made").await.unwrap();
    assert!(!rig.work().join("made").exists());
    let shown = serde_json::to_string(&outcome.items).unwrap();
    assert!(shown.contains("\"declined\""), "{shown}");
}

pub(crate) async fn nobody_is_asked_for_another_thread(rig: Rig) {
    let client = rig.client().await;
    let start = || {
        client
            .threads()
            .start(rig.work())
            .approval(Approval::OnRequest)
    };
    let open = start().reviewer(|_: &ApprovalRequest| Decision::Accept);
    let open = open.await.unwrap();
    let shut = start().await.unwrap();
    shut.turn("ask to touch no").await.unwrap();
    open.turn("ask to touch yes").await.unwrap();
    assert!(!rig.work().join("no").exists());
    assert!(rig.work().join("yes").exists());
}

/// A hook that answers with what a function says.
struct Told<F>(&'static str, F);

impl<F> Hook for Told<F>
where
    F: Fn(&HookContext) -> HookAction + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.0
    }

    fn call<'a>(
        &'a self,
        context: &'a HookContext,
    ) -> BoxFuture<'a, Result<HookAction, HookIssue>> {
        let action = (self.1)(context);
        Box::pin(async move { Ok(action) })
    }
}

pub(crate) async fn a_hook_changes_what_is_said(rig: Rig) {
    let change = Told("louder", |context: &HookContext| {
        HookAction::Mutate(HookPatch {
            prompt: context.prompt.as_ref().map(|prompt| prompt.to_uppercase()),
            ..HookPatch::default()
        })
    });
    let hooks = HookSet::new().on(Matcher::phases([HookPhase::PreTurn]), change);
    let client = rig.client_with(Client::builder().hooks(hooks)).await;
    let outcome = client.run(rig.work(), "hello").await.unwrap();
    assert_eq!(outcome.text.as_deref(), Some("you said HELLO"));
    assert_eq!(outcome.hooks.runs.len(), 1);
}

pub(crate) async fn a_hook_that_blocks_sends_nothing(rig: Rig) {
    let refuse = Told("guard", |_: &HookContext| HookAction::Block {
        message: "not on Sundays".to_owned(),
    });
    let hooks = HookSet::new().on(Matcher::phases([HookPhase::PreRun]), refuse);
    let client = rig.client_with(Client::builder().hooks(hooks)).await;
    let thread = client.threads().start(rig.work()).await.unwrap();
    let sent = client.metrics().sent;
    let error = thread.turn("hello").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "blocked by hook 'guard' at PreRun: not on Sundays"
    );
    assert!(matches!(error, TurnError::Blocked(_)));
    assert_eq!(client.metrics().sent, sent);
    assert!(rig.mock.requests().is_empty());
}

pub(crate) async fn hooks_run_in_their_order(rig: Rig) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let phases = [
        HookPhase::PreSessionStart,
        HookPhase::PostSessionStart,
        HookPhase::PreRun,
        HookPhase::PreTurn,
        HookPhase::PostTurn,
        HookPhase::PostRun,
    ];
    let note = |name: &'static str| {
        let order = Arc::clone(&order);
        Told(name, move |context: &HookContext| {
            order.lock().unwrap().push((name, context.phase));
            HookAction::Noop
        })
    };
    let of_client = HookSet::new().on(Matcher::phases(phases), note("client"));
    let of_turn = HookSet::new().on(Matcher::phases(phases), note("turn"));
    let client = rig.client_with(Client::builder().hooks(of_client)).await;
    let thread = client.threads().start(rig.work()).await.unwrap();
    thread.turn("hello").hooks(of_turn).await.unwrap();
    let expected = [
        ("client", HookPhase::PreSessionStart),
        ("client", HookPhase::PostSessionStart),
        ("client", HookPhase::PreRun),
        ("turn", HookPhase::PreRun),
        ("client", HookPhase::PreTurn),
        ("turn", HookPhase::PreTurn),
        ("client", HookPhase::PostTurn),
        ("turn", HookPhase::PostTurn),
        ("client", HookPhase::PostRun),
        ("turn", HookPhase::PostRun),
    ];
    assert_eq!(*order.lock().unwrap(), expected);
}

pub(crate) async fn writing_needs_a_word_of_the_caller(rig: Rig) {
    let client = rig.client().await;
    let writing = || SandboxPolicy::WorkspaceWrite(turnlane::WorkspaceWrite::default());
    let start = || client.threads().start(rig.work()).sandbox(writing());
    let error = start().await.unwrap_err();
    assert!(
        matches!(
            error,
            ThreadError::Policy(PolicyError::EscalationNotAllowed)
        ),
        "{error:?}"
    );
    let allowed = start().allow_privileged_escalation();
    let error = allowed.await.unwrap_err();
    assert!(
        matches!(error, ThreadError::Policy(PolicyError::ApprovalRequired)),
        "{error:?}"
    );
    let thread = start()
        .allow_privileged_escalation()
        .allow_unattended_writes()
        .await
        .unwrap();
    assert_eq!(thread.effective().sandbox["type"], "workspaceWrite");
    thread.turn("run echo x > written").await.unwrap();
    // Codex needs a helper of its own for its sandbox, which is not everywhere.
    if rig.kind() == ServerKind::Turnlane {
        assert!(rig.work().join("written").exists());
    }
}
