//! How turns end, and what the orchestrator is told of it.

use serde_json::{Value, json};

use super::rig::{Rig, names, of};

#[tokio::test]
async fn only_a_completed_turn_has_a_completion() {
    let rig = Rig::new();
    let mut member = rig.member(&["--on-block", "fail"]);
    member.event("Ready").await;
    member.message("m1", "hello").await;
    let events = member.until("Completion").await;
    assert_eq!(
        names(&events),
        [
            "StateChanged",
            "MessageDelivered",
            "StateChanged",
            "Completion"
        ]
    );
    assert_eq!(events.last().unwrap()["response"], "done");
    for (id, body, told) in [
        ("f", "please fail", vec!["StateChanged", "DeliveryFailed"]),
        (
            "q",
            "quota once",
            vec!["StateChanged", "QuotaBlocked", "DeliveryFailed"],
        ),
        (
            "a",
            "log in",
            vec!["StateChanged", "AuthRequired", "DeliveryFailed"],
        ),
    ] {
        member.message(id, body).await;
        let events = member.until("DeliveryFailed").await;
        assert_eq!(names(&events)[2..], told, "{body}");
        assert_eq!(names(&events)[..2], ["StateChanged", "MessageDelivered"]);
    }
    // Words of the model change no state.
    member.message("w", "quote").await;
    let events = member.until("Completion").await;
    assert_eq!(
        names(&events),
        [
            "StateChanged",
            "MessageDelivered",
            "StateChanged",
            "Completion"
        ]
    );
    let said = "context window exceeded, usage limit, log out and sign in";
    assert_eq!(events.last().unwrap()["response"], said);
    member
        .send(json!({"cmd": "SendMessage", "from": "a", "body": "please fail"}))
        .await;
    let error = member.event("Error").await;
    assert_eq!(
        (&error["command"], &error["reason"]),
        (&json!("SendMessage"), &json!("no such thing"))
    );
    member.shutdown().await;
}

#[tokio::test]
async fn a_quota_keeps_what_waits_and_the_lane_goes_on() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("q", "quota once").await;
    let blocked = member.event("QuotaBlocked").await;
    assert_eq!(
        (&blocked["will_retry"], &blocked["kind"]),
        (&json!(true), &json!("quota"))
    );
    assert!(blocked.get("retry_at_epoch_secs").is_none(), "{blocked}");
    member.message("n", "hello").await;
    assert_eq!(member.event("Warning").await["depth"], 2);
    member.send(json!({"cmd": "GetState"})).await;
    assert_eq!(member.event("State").await["detail"], "blocked(quota)");
    member.send(json!({"cmd": "Resume", "req": 1})).await;
    let events = member.until("Completion").await;
    assert_eq!(of(&events, "MessageDelivered")[0]["attempt"], 2);
    assert_eq!(events.last().unwrap()["message_id"], "q");
    assert_eq!(member.event("Completion").await["message_id"], "n");
    member.shutdown().await;
}

#[tokio::test]
async fn a_reset_time_is_told_as_the_provider_said_it() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("q", "reset").await;
    let blocked = member.event("QuotaBlocked").await;
    assert!(blocked["retry_at_epoch_secs"].as_i64().unwrap() > 1_700_000_000);
    assert!(
        blocked["retry_at_label"]
            .as_str()
            .unwrap()
            .ends_with(" UTC")
    );
    member.shutdown().await;
}

#[tokio::test]
async fn an_exhausted_thread_hands_its_queue_to_a_successor() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    let first = member.event("Ready").await["thread_id"].clone();
    member.message("x", "exhaust").await;
    let events = member.until("DeliveryFailed").await;
    let told = ["StateChanged", "ContextExhausted", "DeliveryFailed"];
    assert_eq!(names(&events)[2..], told);
    assert_eq!(of(&events, "StateChanged")[1]["to"], "context_exhausted");
    loop {
        member.send(json!({"cmd": "GetState"})).await;
        let state = member.event("State").await;
        if state["detail"] == "context_exhausted" {
            break;
        }
    }
    member.message("n1", "hello").await;
    member.event("Warning").await;
    member.message("n2", "hello").await;
    member.event("Warning").await;
    let end = json!({"cmd": "Shutdown", "timeout_secs": 20, "reason": "context_exhausted"});
    member.send(end).await;
    member.rest().await;
    assert_eq!(member.exit().await.code(), Some(0));
    let mut member = rig.member(&[]);
    let ready = member.event("Ready").await;
    assert_ne!(ready["thread_id"], first);
    assert_eq!(member.event("Completion").await["message_id"], "n1");
    assert_eq!(member.event("Completion").await["message_id"], "n2");
    member.shutdown().await;
}

#[tokio::test]
async fn a_long_answer_is_cut_at_its_beginning() {
    let text = format!("{}the conclusion", "0123456789 ".repeat(140_000));
    let script = format!(
        "version: 1\nturns:\n  - match: \"\"\n    steps:\n      - say: {{text: \"{text}\", phase: final_answer}}\n      - reasoning: {{text: \"an afterthought\"}}\n"
    );
    let rig = Rig::with_script(&script);
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    member.message("m", "hello").await;
    let completion = member.event("Completion").await;
    assert!(
        completion["response"]
            .as_str()
            .unwrap()
            .ends_with("the conclusion")
    );
    assert_eq!(completion["truncated"], true);
    assert_eq!(completion["response_bytes"], text.len());
    let (thread, turn) = completion["response_ref"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap();
    assert_eq!(turn, completion["turn_id"]);
    // The whole of it is in the thread.
    let show = ["thread", "show", thread, "--answers", "--json"];
    let spec = crate::turnlane(&show).envs(rig.home.env());
    let shown = crate::run(spec).await;
    let line: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(line["turnId"], turn);
    assert!(line["answer"] == text, "the answer is not the whole text");
    member.send(json!({"cmd": "Ping"})).await;
    member.event("Pong").await;
    member.shutdown().await;
}

#[tokio::test]
async fn a_silent_agent_is_reported_and_ended_by_its_limit() {
    let rig = Rig::new();
    let mut member = rig.member(&["--stall-after", "1", "--turn-timeout", "3"]);
    member.event("Ready").await;
    member.message("m", "busy").await;
    let events = member.until("DeliveryFailed").await;
    let warnings = of(&events, "Warning");
    assert_eq!(warnings.len(), 1, "{events:?}");
    assert_eq!(warnings[0]["message"], "no output from the agent for 1 s");
    let failed = events.last().unwrap();
    assert_eq!(
        (&failed["kind"], &failed["code"]),
        (&json!("timeout"), &json!("timeout"))
    );
    assert!(of(&events, "Completion").is_empty());
    member.shutdown().await;
}

#[tokio::test]
async fn stats_count_each_turn_by_its_own_usage() {
    let rig = Rig::new();
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    for turns in 1..=2 {
        member.message(&format!("m{turns}"), "count").await;
        member.event("Completion").await;
        let stats: Value = member.event("SessionStats").await;
        assert_eq!(stats["input_tokens"], 1234 * turns);
        assert_eq!(stats["output_tokens"], 56 * turns);
        assert_eq!(stats["turns"], turns);
    }
    member.shutdown().await;
}
