//! Nobody outlives an end: not those who left their session, nor those who left their parent, nor a
//! host, a keeper or a holder that is killed.
//!
//! Each test runs under every containment that holds all descendants, and as an ordinary user too
//! where it can. Times are printed, not compared: the machine may be busy.

use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::containment_host::{
    Host, TREE_SIZE, User, am_root, is_root, kill9, parent_of, service_cgroup, tasks_of, users,
    zombies_of,
};
use crate::support::{is_alive, say};

const KINDS: [&str; 2] = ["reaper", "cgroup"];
const IOS: [&str; 2] = ["pipe", "pty"];

/// Trees of the tests that kill a host or a keeper.
const MANY: usize = 100;

#[tokio::test]
async fn a_forced_end_reaches_sessions_and_daemons() {
    for user in users() {
        for kind in KINDS {
            for io in IOS {
                let Some(mut host) = Host::start(user, kind, 2, io).await else {
                    continue;
                };
                let ends = host.ask("end").await;
                assert_eq!(ends, "ended 137:Terminated 137:Terminated");
                let took = host.until_nobody_is_alive().await;
                say(&format!(
                    "{kind}, {io}, {user:?}: ended after at most {took:?}"
                ));
            }
        }
    }
}

#[tokio::test]
async fn when_the_host_is_killed_every_tree_ends() {
    for user in users() {
        for kind in KINDS {
            for io in IOS {
                let Some(host) = Host::start(user, kind, MANY, io).await else {
                    continue;
                };
                let keeper = host.keeper();
                let cgroup = (kind == "cgroup").then(|| service_cgroup(host.alive()[0]));
                host.kill9();
                let took = host.until_nobody_is_alive().await;
                let what = format!("{kind}, {io}, {user:?}: {MANY} trees of {TREE_SIZE}");
                say(&format!("{what} gone {took:?} after SIGKILL of the host"));
                let gone =
                    async || !is_alive(keeper) && !cgroup.as_ref().is_some_and(|c| c.exists());
                eventually("keeper and cgroups to be gone", DEADLINE, gone)
                    .await
                    .unwrap();
            }
        }
    }
}

#[tokio::test]
async fn when_the_keeper_is_killed_every_tree_ends_and_the_service_goes_on() {
    for user in users() {
        for kind in KINDS {
            let Some(mut host) = Host::start(user, kind, MANY, "pipe").await else {
                continue;
            };
            let keeper = host.keeper();
            kill9(keeper);
            let took = host.until_nobody_is_alive().await;
            say(&format!(
                "{kind}, {user:?}: {MANY} trees gone {took:?} after SIGKILL of the keeper"
            ));
            let ends = host.ask("statuses").await;
            assert_eq!(ends, format!("ended{}", " -1:Lost".repeat(MANY)));
            // The next keeper is at work.
            assert_eq!(host.ask("one").await, "ended 5:Exited");
            assert_ne!(host.keeper(), keeper);
            let reaped = async || zombies_of(host.pid()).is_empty();
            let waited = eventually("the fallen to be reaped", DEADLINE, reaped).await;
            assert!(
                waited.is_ok(),
                "{:?} of {}",
                zombies_of(host.pid()),
                host.pid()
            );
        }
    }
}

#[tokio::test]
async fn when_a_holder_is_killed_its_tree_ends_and_no_other() {
    const TREES: usize = 5;
    for user in users() {
        let Some(mut host) = Host::start(user, "reaper", TREES, "pipe").await else {
            continue;
        };
        // A holder with a leader, not a spare.
        let member = host.alive()[0];
        let mut holder = member;
        while !host.holders().contains(&holder) {
            holder = parent_of(holder).unwrap();
        }
        kill9(holder);
        host.until_alive((TREES - 1) * TREE_SIZE).await;
        let ends = host.ask("end").await;
        assert_eq!(ends.matches(" -1:Lost").count(), 1, "{ends}");
        let others = ends.matches(" 137:Terminated").count();
        assert_eq!(others, TREES - 1, "{ends}");
        host.until_nobody_is_alive().await;
        assert_eq!(host.ask("one").await, "ended 5:Exited");
    }
}

#[tokio::test]
async fn a_fork_loop_is_ended() {
    // The limit of processes that bounds the loop does not hold for root.
    let user = if am_root() { User::Nobody } else { User::Me };
    for kind in KINDS {
        let Some(mut host) = Host::start(user, kind, 0, "pipe").await else {
            continue;
        };
        let limit = tasks_of(user) + 300;
        assert_eq!(host.ask(&format!("loop {limit}")).await, "looping");
        let many = async || host.alive().len() > 100;
        eventually("the loop to grow", DEADLINE, many)
            .await
            .unwrap();
        let ends = host.ask("end").await;
        let took = host.until_nobody_is_alive().await;
        say(&format!(
            "{kind}: a fork loop ended {took:?} after it was told: {ends}"
        ));
        // The loop's host is well.
        assert_eq!(host.ask("one").await, "ended 5:Exited");
    }
}

#[tokio::test]
async fn a_member_that_became_somebody_else_is_reported_until_it_ends() {
    if !am_root() {
        say("SKIPPED: only root can let a program become somebody else");
        return;
    }
    let Some(mut host) = Host::start(User::Climber, "reaper", 0, "pipe").await else {
        return;
    };
    let become_root = "setpriv --reuid 0 --regid 0 --clear-groups";
    let script = format!("tree {become_root} sleep 60 & sleep 1000");
    assert_eq!(host.ask(&script).await, "started");
    let started = async || host.alive().iter().any(|pid| is_root(*pid));
    eventually("the other user's process", DEADLINE, started)
        .await
        .unwrap();
    host.until_alive(3).await;
    assert_eq!(host.ask("end").await, "ended 137:Terminated");
    host.until_alive(1).await;
    let left = host.alive()[0];
    let reported = format!("1 left [[{left}]]");
    let told = async || host.ask("unkillable").await == reported;
    eventually("it to be reported", DEADLINE, told)
        .await
        .unwrap();
    kill9(left);
    host.until_nobody_is_alive().await;
    assert_eq!(host.ask("one").await, "ended 5:Exited");
}
