//! A Codex that hangs: threads of other engines in the same daemon go on.

use rustix::process::Signal;
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, within};

use super::world::{World, signal};
use crate::app_server::{begin, ok, thread, turn};
use crate::serve::{add, drained, turns};

/// How many turns the other thread runs meanwhile.
const TURNS: usize = 20;

#[tokio::test]
async fn a_hanging_codex_holds_up_no_thread_of_another_engine() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |request| {
        let text = request.last_user_text();
        let reply = Reply::text(format!("did {text}"));
        match text.as_str() {
            "wait" => reply.gated_by(At::Request, &held),
            _ => reply,
        }
    });
    let Some(world) = world.await else { return };
    let daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    let cwd = world.work();
    let open = json!({"engine": "codex", "sandbox": "danger-full-access"});
    let slow = thread(&mut client, &cwd, open.clone()).await;
    let other = thread(&mut client, &cwd, open).await;
    let native = thread(&mut client, &cwd, json!({"engine": "native"})).await;
    turn(&mut client, &other, "warm").await;
    let waiting = begin(&mut client, &slow, "wait").await;
    within("the model", DEADLINE, gate.reached()).await.unwrap();
    let child = world.child("app-server").await;
    signal(child, Signal::STOP);
    // Its answer is there, and nothing reads it.
    gate.release();
    add(&mut client, &other, "behind it", json!({})).await;
    for n in 0..TURNS {
        let ended = turn(&mut client, &native, &format!("native {n}")).await;
        assert_eq!(ended["status"], "completed", "{ended}");
    }
    // Requests about the hanging threads are answered too.
    for thread in [&slow, &other] {
        ok(
            &mut client,
            "thread/queue/list",
            json!({"threadId": thread}),
        )
        .await;
        let stored = turns(&mut client, thread).await;
        assert_eq!(stored.last().unwrap().1, "inProgress", "{stored:?}");
    }
    let ends = |client: &turnlane_testkit::TestClient| -> Vec<String> {
        let messages = client.received().iter();
        let ended = messages.filter(|message| message["method"] == "turn/completed");
        let thread = |message: &Value| message["params"]["threadId"].as_str().map(str::to_owned);
        ended.filter_map(thread).collect()
    };
    let before = ends(&client);
    assert_eq!(before.iter().filter(|id| **id == native).count(), TURNS);
    assert!(!before.contains(&slow), "a stopped Codex has ended a turn");
    signal(child, Signal::CONT);
    let is_end = |message: &Value| {
        message["method"] == "turn/completed" && message["params"]["turn"]["id"] == waiting.as_str()
    };
    let end = client.find("the end of the turn", is_end).await.unwrap();
    assert_eq!(end["params"]["turn"]["status"], "completed", "{end}");
    drained(&mut client, &other).await;
    let stored = turns(&mut client, &other).await;
    let expected = ("behind it".to_owned(), "completed".to_owned());
    assert_eq!(stored.last(), Some(&expected));
    assert_eq!(
        world.children("app-server"),
        [child],
        "it was not restarted"
    );
    for text in ["wait", "behind it"] {
        assert_eq!(world.calls(text), 1, "{text}");
    }
}
