//! Permission profiles: honoured on every door, or refused in words.
//!
//! The configured sandbox of these tests is full access, so a profile that were dropped would be more
//! than the caller asked for.

use serde_json::{Value, json};

use crate::queue::{HOLD, whole};
use crate::support::{Client, ECHO, World, turn};

/// Whether this machine enforces `:read-only`; tests have nothing to say elsewhere.
async fn can_confine(client: &mut Client) -> bool {
    let params = json!({"permissions": ":read-only"});
    let answer = client.0.call("thread/start", params).await.unwrap();
    if answer["error"]["data"]["reason"] == "sandboxUnavailable" {
        turnlane_testkit::skipped(&answer["error"]["message"]);
        return false;
    }
    true
}

fn read_only() -> Value {
    json!({"type": "readOnly", "networkAccess": false})
}

fn profile(id: &str) -> Value {
    json!({"id": id, "extends": null})
}

#[tokio::test]
async fn a_profile_of_start_resume_and_fork_is_in_effect_and_shown() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    if !can_confine(&mut client).await {
        return;
    }
    let started = client
        .ok("thread/start", json!({"permissions": ":read-only"}))
        .await;
    assert_eq!(started["sandbox"], read_only());
    assert_eq!(started["activePermissionProfile"], profile(":read-only"));
    let thread = started["thread"]["id"].clone();
    let resumed = json!({"threadId": thread, "permissions": ":danger-full-access"});
    let resumed = client.ok("thread/resume", resumed).await;
    assert_eq!(resumed["sandbox"], json!({"type": "dangerFullAccess"}));
    assert_eq!(
        resumed["activePermissionProfile"],
        profile(":danger-full-access")
    );
    let forked = json!({"threadId": thread, "permissions": ":read-only"});
    let forked = client.ok("thread/fork", forked).await;
    assert_eq!(forked["sandbox"], read_only());
    assert_eq!(forked["activePermissionProfile"], profile(":read-only"));
    let chosen = json!({"threadId": thread, "sandbox": "read-only"});
    let resumed = client.ok("thread/resume", chosen).await;
    assert_eq!(resumed["activePermissionProfile"], json!(null));
    // A profile hides the sandbox of the nested form.
    let nested = json!({"threadId": thread, "permissions": ":read-only",
        "overrides": {"sandbox": "danger-full-access"}});
    let resumed = client.ok("thread/resume", nested).await;
    assert_eq!(resumed["sandbox"], read_only());
}

#[tokio::test]
async fn a_profile_of_turns_rows_and_updates_stays_with_the_thread() {
    let world = World::start(HOLD).await;
    let mut client = world.client().await;
    if !can_confine(&mut client).await {
        return;
    }
    let thread = client.thread().await;
    let mut first = turn(&thread, "x");
    first["permissions"] = json!(":read-only");
    let started = client.ok("turn/start", first).await;
    client.ended(started["turn"]["id"].as_str().unwrap()).await;
    let shown = json!({"threadSettings": {"sandboxPolicy": read_only(),
        "activePermissionProfile": profile(":read-only")}});
    client.told("thread/settings/updated", shown).await;

    let mut row = whole(&thread, "y");
    row["turnStartParams"]["permissions"] = json!(":danger-full-access");
    let added = client.ok("thread/queue/add", row).await;
    let queued = added["queuedTurn"]["turnId"].as_str().unwrap().to_owned();
    client.ended(&queued).await;
    let shown = json!({"threadSettings": {"sandboxPolicy": {"type": "dangerFullAccess"},
        "activePermissionProfile": profile(":danger-full-access")}});
    client.told("thread/settings/updated", shown).await;

    let update = json!({"threadId": thread, "permissions": ":workspace"});
    client.ok("thread/settings/update", update).await;
    let shown = json!({"threadSettings": {"activePermissionProfile": profile(":workspace")}});
    client.told("thread/settings/updated", shown).await;
    let resumed = client
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    assert_eq!(resumed["sandbox"]["type"], "workspaceWrite");
    assert_eq!(resumed["sandbox"]["networkAccess"], false);
    assert_eq!(resumed["activePermissionProfile"], profile(":workspace"));
}

#[tokio::test]
async fn a_profile_that_is_not_there_is_refused_on_every_door() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    for (id, message) in [
        (
            ":x",
            "failed to load configuration: default_permissions refers to unknown built-in profile \
             `:x`",
        ),
        (
            "x",
            "failed to load configuration: default_permissions requires a `[permissions]` table",
        ),
    ] {
        let mut started = turn(&thread, "x");
        started["permissions"] = json!(id);
        let mut row = whole(&thread, "x");
        row["turnStartParams"]["permissions"] = json!(id);
        let named = json!({"threadId": thread, "permissions": id});
        let doors = [
            ("thread/start", json!({"permissions": id})),
            ("thread/resume", named.clone()),
            ("thread/fork", named.clone()),
            ("thread/settings/update", named),
            ("turn/start", started),
            ("thread/queue/add", row),
            (
                "command/exec",
                json!({"command": ["true"], "permissionProfile": id}),
            ),
        ];
        for (method, params) in doors {
            let error = client.err(method, params).await;
            assert_eq!(error["message"], message, "{method}");
            assert_eq!(error["code"], -32600, "{method}");
            assert_eq!(error["data"]["reason"], "invalidParams", "{method}");
        }
    }
    let both = json!({"threadId": thread, "permissions": ":workspace",
        "sandboxPolicy": {"type": "dangerFullAccess"}});
    let error = client.err("thread/settings/update", both).await;
    assert_eq!(
        error["message"],
        "`permissions` cannot be combined with `sandboxPolicy`"
    );
}
