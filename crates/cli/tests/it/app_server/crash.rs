//! `kill -9`: what was answered is there, what ran is interrupted and never run again.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Item, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::ends::{is_alive, pid_in, until_dead};
use super::{Served, begin, ok, run_what_is_said, thread, turn};

/// The full number takes minutes.
fn rounds() -> usize {
    match std::env::var_os("TURNLANE_TEST_FULL") {
        Some(_) => 500,
        None => 12,
    }
}

#[tokio::test]
async fn an_answered_turn_is_in_the_history_after_a_kill() {
    let served = Served::new(|_| Reply::text("too late").gated_by(At::Request, &Gate::new())).await;
    for round in 0..rounds() {
        let mut server = served.stdio().await;
        let client = &mut server.client;
        let thread = thread(client, &served.work(), json!({})).await;
        let said = format!("message {round}");
        let id = begin(client, &thread, &said).await;
        server.process.kill9().await.unwrap();

        let mut server = served.stdio().await;
        let params = json!({"threadId": thread, "includeTurns": true});
        let read = ok(&mut server.client, "thread/read", params).await;
        let turns = read["thread"]["turns"].as_array().unwrap();
        assert_eq!(turns.len(), 1, "{read}");
        assert_eq!(turns[0]["id"], id.as_str());
        assert_eq!(turns[0]["items"][0]["content"][0]["text"], said.as_str());
        assert_eq!(turns[0]["status"], "interrupted");
        server.process.kill9().await.unwrap();
    }
}

#[tokio::test]
async fn a_command_under_way_is_recorded_ended_and_not_run_again() {
    let served = Served::new(run_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(
        client,
        &served.work(),
        json!({"sandbox": "danger-full-access"}),
    )
    .await;
    let (count, mark) = (served.work().join("count"), served.work().join("pid"));
    let command = format!(
        "echo run >> \"{}\"; trap '' TERM; echo $$ > \"{}\"; sleep 1000",
        count.display(),
        mark.display()
    );
    begin(client, &thread, &command).await;
    let pid = pid_in(&mark).await;
    server.process.kill9().await.unwrap();
    until_dead(pid, Duration::from_secs(30)).await;

    let mut server = served.stdio().await;
    let client = &mut server.client;
    ok(client, "thread/resume", json!({"threadId": thread})).await;
    assert_eq!(turn(client, &thread, "true").await["status"], "completed");
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "run\n");
    let requests = served.mock.requests();
    let sent = requests[1].input();
    let outputs: Vec<&Value> = sent
        .iter()
        .filter(|item| item["type"] == "function_call_output")
        .collect();
    let told = outputs[0]["output"].as_str().unwrap();
    assert!(told.starts_with("no result recorded"), "{told}");
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn a_thread_of_a_dead_server_is_taken_over_while_a_live_one_keeps_its_own() {
    let gate = Gate::new();
    let served = Served::new({
        let gate = gate.clone();
        move |request| match request.last_user_text().as_str() {
            "wait" => Reply::of([Item::text("late")]).gated_by(At::Request, &gate),
            _ => Reply::text("hi"),
        }
    })
    .await;
    let mut first = served.stdio().await;
    let id = thread(&mut first.client, &served.work(), json!({})).await;
    begin(&mut first.client, &id, "wait").await;
    served.mock.wait_for_requests(1, DEADLINE).await.unwrap();

    let mut second = served.stdio().await;
    let params = json!({"threadId": id, "input": [{"type": "text", "text": "mine"}]});
    let error = super::refused(&mut second.client, "turn/start", params.clone()).await;
    assert_eq!(error["data"]["reason"], "ownedElsewhere", "{error}");
    assert_eq!(error["data"]["worker"]["pid"], first.process.pid());
    first.process.kill9().await.unwrap();
    // Whoever keeps its processes holds its place until none is left.
    let free = async || {
        let answer = second.client.call("turn/start", params.clone()).await;
        answer.unwrap().get("result").is_some()
    };
    eventually("the thread to be free", DEADLINE, free)
        .await
        .unwrap();
    let end = second.client.message("turn/completed").await.unwrap();
    assert_eq!(end["params"]["turn"]["status"], "completed", "{end}");
    gate.release();
}
