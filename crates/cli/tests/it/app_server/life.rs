//! How it starts, what it says when it cannot, and how it ends.

use std::time::Duration;

use serde_json::json;
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::DEADLINE;

use super::{Served, begin, came, ended, ok, run_what_is_said, thread, turn};

#[tokio::test]
async fn a_turn_streams_its_answer_and_a_restart_finds_it() {
    let served = Served::new(|_| Reply::streamed(["one ", "two"])).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    let end = turn(client, &thread, "hello").await;
    assert_eq!(end["status"], "completed", "{end}");
    let deltas: Vec<_> = came(client, "item/agentMessage/delta")
        .iter()
        .map(|message| message["params"]["delta"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(deltas.concat(), "one two");
    client.finish().await.unwrap();
    assert!(server.process.wait(DEADLINE).await.unwrap().success());

    let mut server = served.stdio().await;
    let params = json!({"threadId": thread});
    let resumed = ok(&mut server.client, "thread/resume", params).await;
    let items = &resumed["thread"]["turns"][0]["items"];
    assert_eq!(items[0]["content"][0]["text"], "hello", "{resumed}");
    assert_eq!(items[1]["text"], "one two", "{resumed}");
}

#[tokio::test]
async fn the_end_of_input_interrupts_what_runs_and_leaves_no_process() {
    let served = Served::new(run_what_is_said).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(
        client,
        &served.work(),
        json!({"sandbox": "danger-full-access"}),
    )
    .await;
    let mark = served.work().join("pid");
    let command = format!(
        "trap '' TERM INT; echo $$ > \"{}\"; sleep 1000",
        mark.display()
    );
    begin(client, &thread, &command).await;
    let pid = super::ends::pid_in(&mark).await;
    client.finish().await.unwrap();
    assert!(server.process.wait(DEADLINE).await.unwrap().success());
    assert!(
        !super::ends::is_alive(pid),
        "the command outlived its server"
    );

    let mut server = served.stdio().await;
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = ok(&mut server.client, "thread/read", params).await;
    let turn = &read["thread"]["turns"][0];
    assert_eq!(turn["status"], "interrupted", "{turn}");
    assert_eq!(turn["error"]["message"], "server stopped", "{turn}");
}

#[tokio::test]
async fn a_signal_waits_for_the_turn_and_a_second_one_does_not() {
    let served = Served::new(run_what_is_said).await;
    let go = served.work().join("go");
    let waiting = format!("until [ -e \"{}\" ]; do sleep 0.05; done", go.display());
    let mut server = served.sockets().await;
    let mut client = server.websocket().await;
    let first = thread(
        &mut client,
        &served.work(),
        json!({"sandbox": "danger-full-access"}),
    )
    .await;
    let id = begin(&mut client, &first, &waiting).await;
    client.message("item/started").await.unwrap();
    served.mock.wait_for_requests(1, DEADLINE).await.unwrap();
    server.process.terminate().unwrap();
    std::fs::write(&go, "").unwrap();
    assert_eq!(ended(&mut client, &id).await["status"], "completed");
    assert!(server.process.wait(DEADLINE).await.unwrap().success());

    std::fs::remove_file(&go).unwrap();
    let mut server = served.sockets().await;
    let mut client = server.websocket().await;
    let params = json!({"threadId": first});
    ok(&mut client, "thread/resume", params).await;
    begin(&mut client, &first, &waiting).await;
    served.mock.wait_for_requests(3, DEADLINE).await.unwrap();
    server.process.terminate().unwrap();
    server.process.terminate().unwrap();
    assert!(server.process.wait(DEADLINE).await.unwrap().success());
    assert!(!server.path.exists(), "the socket is left");
}

#[tokio::test]
async fn what_is_wrong_in_the_configuration_is_told_with_file_line_and_key() {
    let served = Served::new(|_| Reply::text("never")).await;
    let config = served.home.turnlane().join("config.toml");
    std::fs::write(&config, "model = \"m\"\nmodel_context_window = \"big\"\n").unwrap();
    let spec = crate::turnlane(&["app-server"]).envs(served.home.env());
    let output = crate::run(spec).await;
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "error: {}:2: model_context_window: expected a whole number, found a string",
        config.display()
    );
    assert_eq!(output.stderr_tail.trim(), expected);
}

#[tokio::test]
async fn a_changed_configuration_counts_from_the_next_turn() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let mut server = served.stdio().await;
    let client = &mut server.client;
    let thread = thread(client, &served.work(), json!({})).await;
    turn(client, &thread, "a").await;
    let path = served.home.turnlane().join("config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("model_verbosity = \"low\"\n{text}")).unwrap();
    turn(client, &thread, "b").await;
    let requests = served.mock.requests();
    assert!(requests[0].body.get("text").is_none());
    assert_eq!(requests[1].body["text"]["verbosity"], "low");
}

#[tokio::test]
async fn a_thread_that_nobody_needs_is_unloaded_with_its_processes() {
    let served = Served::new(|request| {
        let answered = request
            .input()
            .iter()
            .any(|item| item["type"] == "function_call_output");
        if answered {
            return Reply::text("it runs");
        }
        let arguments = json!({"cmd": request.last_user_text(), "yield_time_ms": 250});
        Reply::function_call("exec_command", arguments)
    })
    .await;
    let mut server = served
        .stdio_with(&["-c", "thread.unload_after=200ms"])
        .await;
    let client = &mut server.client;
    let thread = thread(
        client,
        &served.work(),
        json!({"sandbox": "danger-full-access"}),
    )
    .await;
    let mark = served.work().join("pid");
    let command = format!("echo $$ > \"{}\"; sleep 1000", mark.display());
    turn(client, &thread, &command).await;
    let pid = super::ends::pid_in(&mark).await;
    let params = json!({"threadId": thread});
    let listed = ok(client, "thread/backgroundTerminals/list", params.clone()).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "{listed}");
    assert!(super::ends::is_alive(pid));
    ok(client, "thread/unsubscribe", params).await;
    client.message("thread/closed").await.unwrap();
    super::ends::until_dead(pid, Duration::from_secs(30)).await;
}
