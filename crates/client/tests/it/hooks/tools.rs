//! Hooks about tools: registered where the server asks them, refused where nobody would.
//!
//! What they answer is compared as the server reads it.

use super::*;

fn about_tools() -> HookSet {
    let guard = |context: &HookContext| match context.tool_name.as_deref() {
        Some("Bash") => Ok(HookAction::Block {
            message: "no shell".to_owned(),
        }),
        _ => Ok(HookAction::Mutate(HookPatch {
            tool_input: Some(json!({"command": "ls"})),
            prompt: Some("not allowed here".to_owned()),
            ..HookPatch::default()
        })),
    };
    HookSet::new().on(
        Matcher::phases([HookPhase::PreToolUse]).tool("Bash|apply_patch"),
        ("guard", guard),
    )
}

fn is_unsupported(error: &CallError) -> bool {
    matches!(error, CallError::Unsupported { method } if method == "hook/register")
}

#[tokio::test]
async fn hooks_about_tools_are_refused_where_nobody_would_ask_them() {
    for kind in [Kind::Codex, Kind::Turnlane] {
        let (ours, theirs) = Duplex::memory();
        let mut double = Double::over(ours);
        let client = Client::builder()
            .hooks(about_tools())
            .endpoint(Endpoint::io(theirs));
        let client = tokio::spawn(client.connect());
        double.initialize(kind).await;
        let error = joined(client).await.unwrap_err();
        let ConnectError::Call(error) = error else {
            panic!("{error:?}");
        };
        assert!(is_unsupported(&error), "{error:?}");
        double.ended().await;

        let (double, client) = Double::plain(kind).await;
        let (mut double, client, thread) = with_thread(double, client).await;
        let start = client.threads().start("/srv").hooks(about_tools());
        let error = start.await.unwrap_err();
        let ThreadError::Call(error) = error else {
            panic!("{error:?}");
        };
        assert!(is_unsupported(&error), "{error:?}");
        let error = thread.turn("x").hooks(about_tools()).await.unwrap_err();
        let TurnError::Call(error) = error else {
            panic!("{error:?}");
        };
        assert!(is_unsupported(&error), "{error:?}");
        nothing_else_is_sent(&mut double, &client).await;
    }
}

fn run_params(registration: &str, thread: &str, tool: &str) -> Value {
    json!({"registrationId": registration, "runId": "r", "input": {
        "session_id": thread, "turn_id": "t1", "transcript_path": null, "cwd": "/srv",
        "hook_event_name": "PreToolUse", "model": "m", "permission_mode": "default",
        "tool_name": tool, "tool_input": {"command": "rm -rf /"}, "tool_use_id": "c",
        "turnlane": {"version": 1, "hook": "guard", "metadata": {}}}})
}

/// Plays a server that asks hooks of its clients.
async fn initialize(double: &mut Double) {
    let mut result = initialized(Kind::Turnlane);
    result["turnlane"]["features"] = json!(["hook"]);
    double.expect("initialize").await.answer(result);
    double.told().await;
}

#[tokio::test]
async fn hooks_about_tools_are_registered_again_on_another_connection() {
    let mut site = Site::open().await;
    let client = Client::builder()
        .hooks(about_tools())
        .endpoint(Endpoint::Unix(site.path()))
        .reconnect(Reconnect::Backoff {
            initial: Duration::from_millis(1),
            max: Duration::from_millis(5),
            give_up_after: None,
        });
    let client = tokio::spawn(client.connect());
    let mut first = Double::over(site.arrival().await);
    initialize(&mut first).await;
    let register = first.expect("hook/register").await;
    assert_eq!(register.params.get("threadId"), None);
    register.answer(json!({"registrationIds": ["h1"]}));
    let _client = joined(client).await.unwrap();
    let anywhere = first.ask("hook/run", run_params("h1", "any", "Bash")).await;
    anywhere.unwrap();
    first.peer().close();

    let mut second = Double::over(site.arrival().await);
    initialize(&mut second).await;
    let register = second.expect("hook/register").await;
    // Until then the old names mean nothing.
    let early = second
        .ask("hook/run", run_params("h1", "any", "Bash"))
        .await;
    early.unwrap_err();
    register.answer(json!({"registrationIds": ["h2"]}));
    let asked = async || {
        let run = second.ask("hook/run", run_params("h2", "any", "Bash"));
        run.await.is_ok()
    };
    eventually("the hook under its new name", DEADLINE, asked)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_asks_hooks_gets_their_answers_for_their_own_thread_only() {
    let (ours, theirs) = Duplex::memory();
    let mut double = Double::over(ours);
    let client = tokio::spawn(Client::connect(Endpoint::io(theirs)));
    initialize(&mut double).await;
    let client = joined(client).await.unwrap();

    let start = client.threads().start("/srv").hooks(about_tools());
    let start = tokio::spawn(start.into_future());
    double.expect("thread/start").await.answer(thread_answer(T));
    let register = double.expect("hook/register").await;
    assert_eq!(
        register.params,
        json!({"threadId": T, "hooks": [{"name": "guard", "event": "PreToolUse",
            "matcher": "Bash|apply_patch", "timeoutMs": 30_000, "onFailure": "block"}]})
    );
    register.answer(json!({"registrationIds": ["h1"]}));
    let thread = joined(start).await.unwrap();

    let denied = double.ask("hook/run", run_params("h1", T, "Bash")).await;
    assert_eq!(
        denied.unwrap(),
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "permissionDecision": "deny", "permissionDecisionReason": "no shell"}})
    );
    let changed = double.ask("hook/run", run_params("h1", T, "apply_patch"));
    assert_eq!(
        changed.await.unwrap(),
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse",
            "updatedInput": {"command": "ls"}},
            "systemMessage": "prompt_override is not allowed in PreToolUse"})
    );
    for wrong in [
        run_params("h1", "another thread", "Bash"),
        run_params("h2", T, "Bash"),
        json!({"registrationId": "h1", "input": {"hook_event_name": "Stop"}}),
        json!({}),
    ] {
        double.ask("hook/run", wrong).await.unwrap_err();
    }

    drop(thread);
    let unregister = double.expect("hook/unregister").await;
    assert_eq!(unregister.params, json!({"registrationIds": ["h1"]}));
    unregister.answer(json!({}));
    let gone = double.ask("hook/run", run_params("h1", T, "Bash")).await;
    gone.unwrap_err();
}
