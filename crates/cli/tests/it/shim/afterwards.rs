//! What is left after each end of a shim: no process, no file that still changes, and the work preserved.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::ends::{processes_below, shell};
use super::rig::{Member, Rig, names, of};
use crate::app_server::ok;
use crate::serve::{Daemon, turns};

/// A turn whose child in a session of its own writes for ever.
const SCRIPT: &str = r#"version: 1
turns:
  - match: "write"
    steps:
      - exec: {cmd: "setsid sh -c 'trap \"\" INT TERM HUP; while :; do echo line >> grows; sleep 0.01; done' & while :; do sleep 1; done", real: true}
  - match: "busy"
    steps:
      - exec: {cmd: "while [ ! -e go ]; do sleep 0.02; done", real: true}
      - say: {text: "busy no more", phase: final_answer}
  - match: ""
    steps: [{say: {text: "done", phase: final_answer}}]
"#;

/// How a shim is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    Shutdown,
    Eof,
}

const SHUTDOWN_SECS: u64 = 6;

async fn repository(rig: &Rig) {
    let prepare = "git init -q . && echo one > kept && git add kept && git commit -qm first \
                   && echo changed > kept && echo grows > .git/info/exclude";
    shell(rig, prepare).await;
}

/// The changed file, as it was preserved.
async fn preserved(rig: &Rig) -> String {
    // The next shim has preserved it once more.
    let first = "git for-each-ref --count=1 --sort=refname --format='%(refname)' refs/turnlane";
    shell(rig, &format!("git show $({first}):kept")).await
}

/// A member whose agent writes, and the file that grows.
async fn writing(rig: &Rig) -> (Member, PathBuf) {
    let mut member = rig.member(&["-s", "workspace-write"]);
    member.event("Ready").await;
    member.message("m", "write").await;
    member.event("MessageDelivered").await;
    let grows = rig.home.workspace().join("grows");
    eventually("lines of the child", DEADLINE, async || size(&grows) > 20)
        .await
        .unwrap();
    (member, grows)
}

fn size(path: &std::path::Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

async fn leaves_nothing(end: End) {
    let rig = Rig::with_script(SCRIPT);
    repository(&rig).await;
    let (mut member, grows) = writing(&rig).await;
    #[expect(clippy::disallowed_methods, reason = "a time limit is what is tested")]
    let began = Instant::now();
    match end {
        End::Kill => member.send(json!({"cmd": "Kill"})).await,
        End::Shutdown => {
            let end = json!({"cmd": "Shutdown", "timeout_secs": SHUTDOWN_SECS});
            member.send(end).await;
        }
        End::Eof => member.hang_up(),
    }
    if !matches!(end, End::Eof) {
        let events = member.rest().await;
        let told = names(&events);
        assert_eq!(told[told.len() - 2..], ["StateChanged", "Died"], "{end:?}");
        assert_eq!(of(&events, "DeliveryFailed")[0]["kind"], "interrupted");
    }
    assert_eq!(member.exit().await.code(), Some(0), "{end:?}");
    let left = size(&grows);
    let took = began.elapsed();
    // `Kill` and the end of the channel have five seconds and five for the preserving, `Shutdown` has its
    // own time. A machine that does other things besides may take as long again.
    let limit = match end {
        End::Shutdown => SHUTDOWN_SECS,
        End::Kill | End::Eof => 10,
    };
    assert!(took < 2 * Duration::from_secs(limit), "{end:?}: {took:?}");
    let workspace = rig.home.workspace();
    let processes = processes_below(workspace.to_str().unwrap());
    assert!(processes.is_empty(), "{end:?}: {processes:?}");
    // The next shim has been through its whole life, and nothing was written meanwhile.
    let mut next = rig.member(&["-s", "workspace-write"]);
    next.event("Ready").await;
    next.message("n", "hello").await;
    assert_eq!(next.event("Completion").await["message_id"], "n");
    next.shutdown().await;
    assert_eq!(size(&grows), left, "{end:?}: a file changed afterwards");
    assert_eq!(preserved(&rig).await, "changed\n", "{end:?}");
}

#[tokio::test]
async fn a_kill_leaves_no_process_and_no_file_that_changes() {
    leaves_nothing(End::Kill).await;
}

#[tokio::test]
async fn a_shutdown_leaves_no_process_and_no_file_that_changes() {
    leaves_nothing(End::Shutdown).await;
}

#[tokio::test]
async fn the_end_of_the_channel_leaves_no_process_and_no_file_that_changes() {
    leaves_nothing(End::Eof).await;
}

#[tokio::test]
async fn the_end_of_the_channel_lets_the_turn_go_on_where_it_may_drain() {
    let rig = Rig::with_script(SCRIPT);
    let drain = [
        "--on-disconnect",
        "drain",
        "--graceful-shutdown-timeout-secs",
        "60",
    ];
    let mut member = rig.member(&drain);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.message("n", "hello").await;
    member.event("Warning").await;
    member.hang_up();
    rig.go();
    assert_eq!(member.exit().await.code(), Some(0));
    // The turn was completed and nothing new began.
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    let events = member.until("Completion").await;
    let first = events.last().unwrap();
    assert_eq!(
        (
            &first["message_id"],
            &first["recovered"],
            &first["response"]
        ),
        (&json!("m"), &json!(true), &json!("busy no more"))
    );
    let second = member.event("Completion").await;
    assert_eq!(second["message_id"], "n");
    assert!(second.get("recovered").is_none(), "{second}");
    member.shutdown().await;
}

#[tokio::test]
async fn a_drain_that_takes_too_long_interrupts_the_turn() {
    let rig = Rig::with_script(SCRIPT);
    let drain = [
        "--on-disconnect",
        "drain",
        "--graceful-shutdown-timeout-secs",
        "1",
    ];
    let mut member = rig.member(&drain);
    member.event("Ready").await;
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.hang_up();
    assert_eq!(member.exit().await.code(), Some(0));
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    let failed = member.event("DeliveryFailed").await;
    assert_eq!(
        (&failed["id"], &failed["kind"]),
        (&json!("m"), &json!("interrupted"))
    );
    member.shutdown().await;
}

#[tokio::test]
async fn the_end_of_the_channel_detaches_from_a_daemon_and_the_turn_goes_on() {
    let rig = Rig::with_script(SCRIPT);
    let daemon = Daemon::start(&rig.home, &["--script", rig.script()]).await;
    let mut member = rig.member_of_daemon(&["--on-disconnect", "detach"]);
    let thread = member.event("Ready").await["thread_id"].clone();
    let thread = thread.as_str().unwrap();
    member.message("m", "busy").await;
    member.event("MessageDelivered").await;
    member.hang_up();
    assert_eq!(member.exit().await.code(), Some(0));
    let mut client = daemon.unix().await;
    assert_eq!(turns(&mut client, thread).await[0].1, "inProgress");
    let listed = ok(
        &mut client,
        "thread/queue/list",
        json!({"threadId": thread}),
    )
    .await;
    assert_ne!(listed["paused"], true, "{listed}");
    rig.go();
    eventually("the end of the turn", DEADLINE, async || {
        turns(&mut client, thread).await[0].1 == "completed"
    })
    .await
    .unwrap();
    let mut member = rig.member_of_daemon(&[]);
    let events = member.until("Completion").await;
    assert_eq!(names(&events), ["Ready", "MessageDelivered", "Completion"]);
    assert_eq!(events.last().unwrap()["recovered"], true);
    member.shutdown().await;
}

#[tokio::test]
async fn a_change_in_the_second_of_a_commit_is_preserved() {
    let rig = Rig::with_script(SCRIPT);
    let mut member = rig.member(&[]);
    member.event("Ready").await;
    // The same length and the same second, and no `git status` that would refresh the index.
    let prepare = "git init -q . && echo one > kept && git add kept && git commit -qm first \
                   && echo two > kept";
    shell(&rig, prepare).await;
    member.send(json!({"cmd": "Kill"})).await;
    member.rest().await;
    assert_eq!(member.exit().await.code(), Some(0));
    let text = "git show $(git for-each-ref --format='%(refname)' refs/turnlane):kept";
    assert_eq!(shell(&rig, text).await, "two\n");
}
