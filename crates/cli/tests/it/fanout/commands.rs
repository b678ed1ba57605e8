//! The commands that an item's agent runs.

use serde_json::json;
use turnlane_testkit::mock_model::{Item, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::{World, ends_with, report, tool_answers};
use crate::exec::kills::working_in;

#[tokio::test]
async fn commands_of_an_item_know_job_item_and_attempt() {
    let world = World::new(|request| {
        if tool_answers(request) > 0 {
            return Reply::of([report(request)]);
        }
        let command = json!({"cmd": "env | grep ^TURNLANE_FANOUT | sort > seen"});
        Reply::of([Item::function_call("exec_command", command)])
    })
    .await;
    world.write_rows("in.csv", 1);
    ends_with(&world.run(&["-s", "danger-full-access"]).await, 0);
    let job = world.job().await["id"].as_str().unwrap().to_owned();
    let expected = format!(
        "TURNLANE_FANOUT_ATTEMPT=1\nTURNLANE_FANOUT_ITEM=row-1\nTURNLANE_FANOUT_JOB={job}\n"
    );
    assert_eq!(world.read("seen"), expected);
}

/// A daemon runs the job and lives on, so it is not its end that ends the commands.
#[tokio::test]
async fn an_interrupted_item_leaves_no_process() {
    let world = World::new(|_| {
        let command = json!({"cmd": "setsid sleep 1000 & sleep 1000", "yield_time_ms": 30_000});
        Reply::of([Item::function_call("exec_command", command)])
    })
    .await;
    world.write_rows("in.csv", 3);
    let mut serve = world.serve().await;
    let flags = ["--detach", "-s", "danger-full-access", "--grace", "0s"];
    ends_with(&world.run(&flags).await, 0);
    let folder = world.path("");
    eventually("the commands of three items", DEADLINE, async || {
        let sleeping = working_in(&folder).into_iter().filter(|pid| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline"));
            words.is_ok_and(|words| words == b"sleep\x001000\x00")
        });
        sleeping.count() == 6
    })
    .await
    .unwrap();
    let paused = world.fanout(&["pause", "in", "--now"]).await;
    ends_with(&paused, 0);
    eventually("the end of the commands", DEADLINE, async || {
        working_in(&folder).is_empty()
    })
    .await
    .unwrap();
    eventually("the pause", DEADLINE, async || {
        let job = world.job().await;
        job["counts"]["running"] == 0
    })
    .await
    .unwrap();
    assert!(serve.try_wait().unwrap().is_none(), "the daemon has ended");
    for item in world.items().await {
        assert_eq!(item["state"], "pending", "{item}");
    }
    serve.terminate().unwrap();
    serve.wait(DEADLINE).await.unwrap();
}
