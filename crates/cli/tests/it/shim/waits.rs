//! Limits of the provider: what waits stays, and the lane goes on by itself.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{ApiError, At, Gate, MockModel, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE, Provider};

use super::rig::{Member, Rig, names, of};

/// The member is `native`, without tries of its own.
async fn native() -> (Rig, MockModel) {
    let rig = Rig::new();
    let model = MockModel::start().await.unwrap();
    let provider = Provider {
        request_max_retries: Some(0),
        stream_max_retries: Some(0),
        ..Provider::default()
    };
    rig.home.use_provider(&model.base_url(), &provider).unwrap();
    (rig, model)
}

/// Sends a message that the limit stops and one behind it, which waits for the same time.
async fn blocked(member: &mut Member, told: &str) -> Value {
    member.message("q", "hello").await;
    let events = member.until(told).await;
    assert!(of(&events, "Completion").is_empty(), "{events:?}");
    member.message("n", "next").await;
    assert_eq!(member.event("Warning").await["depth"], 2);
    events.into_iter().next_back().unwrap()
}

/// The state, once both messages wait in it.
async fn waiting(member: &mut Member, detail: &str) -> Value {
    let mut state = Value::Null;
    let is_there = eventually("the state", DEADLINE, async || {
        member.send(json!({"cmd": "GetState"})).await;
        state = member.event("State").await;
        state["detail"] == detail && state["queue_depth"] == 2
    });
    let result = is_there.await;
    result.unwrap_or_else(|error| panic!("{error}: {state}"));
    state
}

#[tokio::test]
async fn a_quota_with_a_reset_time_ends_by_itself() {
    let script = r#"version: 1
turns:
  - match: "hello"
    times: 1
    steps: [{error: {message: "You have hit your usage limit.", kind: quota, retry_after_ms: 6000}}]
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;
    let rig = Rig::with_script(script);
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    let told = blocked(&mut member, "QuotaBlocked").await;
    assert_eq!(told["will_retry"], true);
    let state = waiting(&mut member, "blocked(quota)").await;
    assert!(!state["blocked_until"].is_null(), "{state}");
    // No command ends the wait.
    let events = member.until("Completion").await;
    assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], 2);
    assert_eq!(events.last().unwrap()["message_id"], "q");
    assert!(of(&events, "DeliveryFailed").is_empty(), "{events:?}");
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

#[tokio::test]
async fn a_login_that_is_refused_keeps_what_waits_until_it_is_good() {
    let (rig, model) = native().await;
    model.push(Reply::http_error(ApiError::unauthorized()));
    let mut member = rig.member_of(&["--agent-type", "native"]);
    member.event("Ready").await;
    let told = blocked(&mut member, "AuthRequired").await;
    assert_eq!(told["message_id"], "q");
    assert_eq!(told["will_retry"], true);
    waiting(&mut member, "blocked(auth)").await;
    // They stay over a restart, too.
    member.shutdown().await;
    model.choose_with(|_| Some(Reply::text("done")));
    let keys = rig.home.turnlane().join("keys.env");
    std::fs::write(&keys, format!("{MOCK_KEY_VARIABLE}={MOCK_KEY}\n")).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&keys, private).unwrap();
    let mut member = rig.member_of(&["--agent-type", "native"]);
    assert_eq!(member.event("Ready").await["queue_depth"], 2);
    member.send(json!({"cmd": "Resume"})).await;
    assert_eq!(member.event("Completion").await["message_id"], "q");
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

#[tokio::test]
async fn a_structured_reset_time_is_told_as_its_epoch() {
    const RESETS_AT: u64 = 1_893_531_900;
    let (rig, model) = native().await;
    model.push(Reply::http_error(ApiError::usage_limit_reached(RESETS_AT)));
    let mut member = rig.member_of(&["--agent-type", "native"]);
    member.event("Ready").await;
    member.message("q", "hello").await;
    let told = member.event("QuotaBlocked").await;
    let epoch = told["retry_at_epoch_secs"].as_u64().unwrap();
    assert_eq!(epoch, RESETS_AT, "{told}");
    assert!(
        told["retry_at_label"].as_str().unwrap().contains("2030"),
        "{told}"
    );
    member.shutdown().await;
}

#[tokio::test]
async fn a_silent_model_is_asked_once_and_never_again() {
    let (rig, model) = native().await;
    let gate = Gate::new();
    model.push(Reply::text("late").gated_by(At::Request, &gate));
    let mut member = rig.member_of(&["--agent-type", "native", "--stall-after", "1"]);
    member.event("Ready").await;
    member.message("m", "hello").await;
    let events = member.until("Warning").await;
    assert!(of(&events, "Completion").is_empty(), "{events:?}");
    member.send(json!({"cmd": "GetState"})).await;
    assert_eq!(member.event("State").await["detail"], "stalled");
    assert_eq!(model.requests().len(), 1, "nothing is sent unasked");
    gate.release();
    let events = member.until("Completion").await;
    assert_eq!(names(&events), ["StateChanged", "Completion"]);
    assert_eq!(events.last().unwrap()["response"], "late");
    assert_eq!(model.requests().len(), 1);
    assert_eq!(model.unscripted_requests().len(), 0);
    member.shutdown().await;
}

#[tokio::test]
async fn an_engine_whose_program_appears_later_works_from_then_on() {
    for agent in ["codex", "codex-exec"] {
        let Ok(codex) = std::env::var("TURNLANE_TEST_CODEX") else {
            turnlane_testkit::skipped("a program that appears: TURNLANE_TEST_CODEX is not set");
            return;
        };
        let (rig, model) = native().await;
        model.choose_with(|_| Some(Reply::text("here now")));
        let config = rig.home.codex().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(
            &config,
            text.replace(MOCK_KEY_VARIABLE, "MOCK_PROVIDER_KEY"),
        )
        .unwrap();
        let mut variables = rig.home.env();
        variables.push(("MOCK_PROVIDER_KEY".to_owned(), MOCK_KEY.to_owned()));
        let program = rig.home.path().join("codex-later");
        let ours = rig.home.turnlane().join("config.toml");
        let text = std::fs::read_to_string(&ours).unwrap();
        let text = format!("{text}\n[engine.codex]\nprogram = {}\n", json!(program));
        std::fs::write(&ours, text).unwrap();
        let mut member = rig.member_with(variables, &["--agent-type", agent]);
        let events = member.until("Ready").await;
        assert_eq!(names(&events), ["Error", "Ready"], "{agent}");
        assert_eq!(
            (&events[0]["command"], &events[0]["code"]),
            (&json!("startup"), &json!("engine_unavailable"))
        );
        assert_eq!(events[1]["engine_ok"], false);
        member.message("m", "hello").await;
        let failed = member.event("DeliveryFailed").await;
        assert_eq!(
            (&failed["code"], &failed["retryable"]),
            (&json!("engine_unavailable"), &json!(true)),
            "{agent}: {failed}"
        );
        std::os::unix::fs::symlink(&codex, &program).unwrap();
        let taken = eventually("the program", DEADLINE, async || {
            member.message("m", "hello").await;
            let event = loop {
                let event = member.next().await.unwrap();
                let ends = ["Completion", "DeliveryFailed"];
                if ends.contains(&event["event"].as_str().unwrap()) {
                    break event;
                }
            };
            event["response"] == "here now"
        });
        taken.await.unwrap();
        member.shutdown().await;
    }
}

#[tokio::test]
async fn the_context_error_of_the_real_codex_exhausts_the_thread() {
    use super::recovery::{Agent, World};
    let error = || Reply::failed(ApiError::context_length_exceeded());
    for agent in [Agent::Codex, Agent::CodexExec] {
        let Some(world) = World::new(agent, error).await else {
            return;
        };
        world.gate.release();
        let mut member = world.member(&[]);
        world.begin(&mut member).await;
        member.message("m", "hold").await;
        let events = member.until("DeliveryFailed").await;
        let told = ["StateChanged", "ContextExhausted", "DeliveryFailed"];
        assert_eq!(names(&events)[2..], told, "{agent:?}: {events:?}");
        assert_eq!(of(&events, "ContextExhausted")[0]["message_id"], "m");
        assert_eq!(of(&events, "StateChanged")[1]["to"], "context_exhausted");
        member.message("n", "next").await;
        member.event("Warning").await;
        let events = member.shutdown().await;
        assert!(of(&events, "MessageDelivered").is_empty(), "{events:?}");
    }
}
