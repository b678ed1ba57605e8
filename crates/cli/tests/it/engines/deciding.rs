//! Questions of the real Codex, answered by `turnlane approvals`.

use serde_json::{Value, json};
use turnlane_testkit::mock_model::{Item, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::world::{World, is_answered, stored_turns};
use crate::app_server::thread;
use crate::serve::{add, drained};

/// A model that asks for a command with more rights than the sandbox gives.
fn escalating(request: &RecordedRequest) -> Reply {
    let text = request.last_user_text();
    let Some(file) = text.strip_prefix("touch ") else {
        return Reply::text("words");
    };
    if is_answered(request) {
        return Reply::text("it was tried");
    }
    let call = json!({"cmd": format!("touch {file}"), "yield_time_ms": 30_000,
        "sandbox_permissions": "require_escalated", "justification": "it was asked for"});
    Reply::of([Item::function_call("exec_command", call).call_id(format!("call_{file}"))])
}

/// The first open approval.
async fn asked(world: &World) -> Value {
    let mut open = Vec::new();
    eventually("an approval", DEADLINE, async || {
        open = world.json(&["approvals", "list"]).await;
        !open.is_empty()
    })
    .await
    .unwrap();
    open.remove(0)
}

#[tokio::test]
async fn a_person_accepts_and_declines_what_codex_asks() {
    let Some(world) = World::new(escalating).await else {
        return;
    };
    let daemon = world.daemon(None).await;
    let mut client = daemon.websocket().await;
    let settings = json!({"engine": "codex", "sandbox": "read-only",
        "approvalPolicy": "on-request"});
    let thread = thread(&mut client, &world.work(), settings).await;
    for (file, decision, status) in [
        ("yes", "accept", "completed"),
        ("no", "decline", "declined"),
    ] {
        add(&mut client, &thread, &format!("touch {file}"), json!({})).await;
        let approval = asked(&world).await;
        let command = approval["command"].as_str().unwrap();
        assert!(command.contains(&format!("touch {file}")), "{approval}");
        assert_eq!(approval["threadId"], thread.as_str());
        let id = approval["approvalId"].as_str().unwrap();
        let said = world.json(&["approvals", decision, id]).await;
        assert_eq!(said[0]["decision"], decision);
        drained(&mut client, &thread).await;
        assert_eq!(world.work().join(file).exists(), decision == "accept");
        let stored = stored_turns(&mut client, &thread).await;
        let turn = stored.last().unwrap();
        assert_eq!(turn["status"], "completed", "{turn:#}");
        let items = turn["items"].as_array().unwrap();
        let command = items.iter().find(|item| item["type"] == "commandExecution");
        assert_eq!(command.unwrap()["status"], status, "{turn:#}");
        assert_eq!(items.last().unwrap()["text"], "it was tried", "{turn:#}");
    }
    assert_eq!(world.json(&["approvals", "list"]).await, [0; 0]);
}
