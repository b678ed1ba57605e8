//! A turn that a dead daemon left to Codex: commands that only look leave it undecided, a daemon decides.

use rustix::process::Signal;
use serde_json::json;
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::world::{World, stored_turns};
use crate::app_server::{ok, thread};
use crate::serve::add;

#[tokio::test]
async fn a_desk_leaves_a_turn_of_codex_undecided_and_a_daemon_decides() {
    for engine in ["codex", "codex-exec"] {
        let gate = Gate::new();
        let held = gate.clone();
        let world = World::new(move |request| {
            let text = request.last_user_text();
            Reply::text(format!("did {text}")).gated_by(At::Request, &held)
        });
        let Some(world) = world.await else { return };
        let mut daemon = world.daemon(None).await;
        let mut client = daemon.websocket().await;
        let open = json!({"engine": engine, "sandbox": "danger-full-access"});
        let thread = thread(&mut client, &world.work(), open).await;
        let row = add(&mut client, &thread, "cut", json!({})).await;
        within("the model", DEADLINE, gate.reached()).await.unwrap();
        daemon.signal(Signal::KILL);
        daemon.process.wait(DEADLINE).await.unwrap();
        world.no_codex_left().await;
        for _look in 0..2 {
            let listed = world.json(&["thread", "list"]).await;
            assert_eq!(listed.len(), 1, "{listed:?}");
            world.json(&["queue", "list", &thread]).await;
            let shown = world.json(&["thread", "show", &thread]).await.remove(0);
            assert_eq!(shown["turns"][0]["status"], "inProgress", "{shown:#}");
            assert!(world.is_sent(&row));
            assert!(world.children("app-server").is_empty());
        }
        gate.release();
        let daemon = world.daemon(None).await;
        let mut client = daemon.websocket().await;
        let lane = json!({"threadId": thread});
        let blocked = async || {
            let queue = ok(&mut client, "thread/queue/list", lane.clone()).await;
            !queue["blocked"].is_null()
        };
        let waits = eventually("a row that waits", DEADLINE, blocked).await;
        waits.unwrap();
        let stored = stored_turns(&mut client, &thread).await;
        assert_eq!(stored[0]["status"], "interrupted", "{stored:#?}");
        assert_eq!(stored[0]["error"]["outcomeKnown"], false, "{stored:#?}");
        assert_eq!(world.calls("cut"), 1, "the model is not asked again");
    }
}
