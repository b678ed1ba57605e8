//! Commands that outlive their calls and their turns.

use serde_json::json;
use turnlane_engine::Engine as _;
use turnlane_testkit::mock_model::{Item, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Bench, thread};

fn call(id: &str, name: &str, arguments: &serde_json::Value) -> Reply {
    Reply::of([Item::function_call(name, arguments).call_id(id)])
}

#[tokio::test]
async fn a_command_goes_on_in_a_session_survives_the_turn_and_ends_with_the_thread() {
    let bench = Bench::new().await;
    let cmd = "echo $$ > pid; cat";
    let start = json!({"cmd": cmd, "tty": true, "yield_time_ms": 250});
    bench.mock.push(call("start", "exec_command", &start));
    bench.mock.push(Reply::text("it runs"));
    let first = bench.turn("start it").await;
    first.assert_completed();
    let output = bench.mock.requests()[1].tool_output("start").unwrap();
    let (_, number) = output
        .split_once("Process running with session ID ")
        .unwrap();
    let number: u64 = number.lines().next().unwrap().parse().unwrap();
    let item = &first.items("commandExecution")[0];
    assert_eq!(
        (&item["status"], &item["exitCode"]),
        (&json!("completed"), &json!(null))
    );

    let background = bench.engine.background(thread()).await;
    assert_eq!(background.len(), 1);
    assert_eq!(background[0].process_id, number.to_string());

    let write = json!({"session_id": number, "chars": "hello\n", "yield_time_ms": 2000});
    bench.mock.push(call("write", "write_stdin", &write));
    bench.mock.push(Reply::text("it answered"));
    let next = bench.request(2, "feed it", first.entries.clone());
    let second = bench.start(next).finish().await;
    second.assert_completed();
    assert_eq!(second.count("terminal"), 1);
    let output = bench.mock.requests()[3].tool_output("write").unwrap();
    assert!(output.contains("hello"), "{output}");
    assert_eq!(
        second.items("commandExecution")[0]["source"],
        "unifiedExecInteraction"
    );

    bench.engine.close(thread()).await;
    assert!(bench.engine.background(thread()).await.is_empty());
    let pid = std::fs::read_to_string(bench.cwd.path().join("pid")).unwrap();
    let process = std::path::Path::new("/proc").join(pid.trim());
    let gone = async || !process.exists();
    eventually("the command's end", DEADLINE, gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_interrupt_leaves_the_commands_of_earlier_turns_alone() {
    let bench = Bench::new().await;
    let start = json!({"cmd": "tail -f /dev/null", "yield_time_ms": 250});
    bench.mock.push(call("start", "exec_command", &start));
    bench.mock.push(Reply::text("it runs"));
    let first = bench.turn("start it").await;
    bench.mock.push(call(
        "more",
        "exec_command",
        &json!({"cmd": "echo started; tail -f /dev/null"}),
    ));
    let mut lane = bench.start(bench.request(2, "more", first.entries.clone()));
    lane.until("delta \"started").await;
    lane.end
        .cancel
        .cancel(turnlane_engine::CancelReason::Interrupt);
    lane.finish().await.assert_whole();
    let background = bench.engine.background(thread()).await;
    assert_eq!(background.len(), 1);
    let id = background[0].process_id.clone();
    assert_eq!(bench.engine.end_background(thread(), Some(id)).await, 1);
    assert_eq!(bench.engine.end_background(thread(), None).await, 0);
}
