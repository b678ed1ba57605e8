//! Service and keeper are killed together, in every order, and no process is left.
//!
//! Rounds of kills under every containment that holds all descendants, as root and as an ordinary
//! user. `TURNLANE_TEST_FULL=1` makes them many. What is not ended without help is ended by the next
//! start, before that accepts work.

use std::time::Duration;

use rustix::process::{Pid, Signal};

use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::containment_host::{
    Host, TREE_SIZE, User, kill9, service_cgroup, signal, users, zombies_of,
};
use crate::support::{is_alive, say};

const KINDS: [&str; 2] = ["reaper", "cgroup"];

/// Trees of each host.
const TREES: usize = 5;

/// The order in which service and keeper are killed.
#[derive(Clone, Copy, Debug)]
enum Order {
    KeeperFirst,
    HostFirst,
    /// The host cannot react to the keeper's death.
    HostStopped,
}

const ORDERS: [Order; 3] = [Order::KeeperFirst, Order::HostFirst, Order::HostStopped];

fn rounds() -> u64 {
    if std::env::var_os("TURNLANE_TEST_FULL").is_some() {
        30
    } else {
        2
    }
}

fn kill_both(host: &Host, keeper: i32, order: Order, pause: Duration) {
    match order {
        Order::KeeperFirst => {
            kill9(keeper);
            std::thread::sleep(pause);
            host.kill9();
        }
        Order::HostFirst => {
            host.kill9();
            std::thread::sleep(pause);
            kill9_if_there(keeper); // It may have done its work and exited.
        }
        Order::HostStopped => {
            host.pause();
            kill9(keeper);
            std::thread::sleep(pause);
            host.kill9();
        }
    }
}

fn kill9_if_there(pid: i32) {
    let pid = Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}

#[tokio::test(flavor = "multi_thread")]
async fn service_and_keeper_killed_together_leave_no_process() {
    for user in users() {
        for kind in KINDS {
            for order in ORDERS {
                for round in 0..rounds() {
                    let Some(host) = Host::start(user, kind, TREES, "pipe").await else {
                        break;
                    };
                    // The pause is part of the attack: the two deaths lie that far apart.
                    let pause = Duration::from_millis(round * 37 % 300);
                    kill_both(&host, host.keeper(), order, pause);
                    let took = host.until_nobody_is_alive().await;
                    if round == 0 {
                        say(&format!(
                            "{user:?}, {kind}, {order:?}: no process left after {took:?}"
                        ));
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_all_keepers_leave_is_ended_by_the_next_start() {
    for user in users() {
        let Some(host) = Host::start(user, "cgroup", TREES, "pipe").await else {
            continue;
        };
        let Some(mut next_to) = Host::start(user, "cgroup", 1, "pipe").await else {
            continue;
        };
        let cgroup = service_cgroup(host.alive()[0]);
        // All of them are stopped first, so that none reacts to the death of another.
        let keeper = host.keeper();
        let second = host.second().unwrap();
        signal(keeper, Signal::STOP);
        signal(second, Signal::STOP);
        host.pause();
        kill9(second);
        kill9(keeper);
        host.kill9();
        let dead = async || [keeper, second].into_iter().all(|pid| !is_alive(pid));
        eventually("the keepers to be dead", DEADLINE, dead)
            .await
            .unwrap();
        let leaders_gone = async || host.alive().len() == TREES * (TREE_SIZE - 1);
        let waited = eventually("only the leaders to be gone", DEADLINE, leaders_gone).await;
        assert!(waited.is_ok(), "{} are left", host.alive().len());
        // In the same place, as the same user.
        let mut next = host.start_beside().await;
        assert_eq!(
            host.alive(),
            Vec::<i32>::new(),
            "when the next one is ready"
        );
        assert!(!cgroup.exists());
        next_to.until_alive(TREE_SIZE).await;
        next.stop().await;
        next_to.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_falls_to_the_service_is_ended_at_once() {
    for user in users() {
        for round in 0..rounds() {
            let Some(mut host) = Host::start(user, "reaper", TREES, "pipe").await else {
                break;
            };
            let (keeper, mut holders) = (host.keeper(), host.holders());
            if round % 2 == 0 {
                // The keeper must not sweep behind the holders.
                kill9(keeper);
            } else {
                holders.push(keeper);
            }
            for pid in holders {
                kill9_if_there(pid);
            }
            host.until_nobody_is_alive().await;
            assert_eq!(host.ask("one").await, "ended 5:Exited");
            let reaped = async || zombies_of(host.pid()).is_empty();
            eventually("the fallen to be reaped", DEADLINE, reaped)
                .await
                .unwrap();
            host.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_falls_to_the_service_while_it_stops_is_ended() {
    for user in users() {
        let Some(mut host) = Host::start(user, "reaper", TREES, "pipe").await else {
            continue;
        };
        let (keeper, holders) = (host.keeper(), host.holders());
        // The host reacts to nothing until every tree has fallen to it.
        host.pause();
        kill9(keeper);
        for pid in holders {
            kill9_if_there(pid);
        }
        host.resume();
        host.stop().await;
        assert_eq!(host.alive(), Vec::<i32>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keeper_killed_alone_leaves_one_second_keeper() {
    for user in users() {
        let Some(mut host) = Host::start(user, "cgroup", 1, "pipe").await else {
            continue;
        };
        let (keeper, second) = (host.keeper(), host.second().unwrap());
        kill9(keeper);
        host.until_nobody_is_alive().await;
        assert_eq!(host.ask("one").await, "ended 5:Exited");
        assert_eq!(host.ask("tree exec sleep 1000").await, "started");
        let dismissed =
            async || !is_alive(second) && host.second().is_some_and(|new| new != second);
        eventually("the old one to be dismissed", DEADLINE, dismissed)
            .await
            .unwrap();
        // The dismissed one killed no process.
        host.until_alive(1).await;
        // One that is killed is replaced.
        let second = host.second().unwrap();
        kill9(second);
        let replaced = async || host.second().is_some_and(|new| new != second);
        eventually("another second keeper", DEADLINE, replaced)
            .await
            .unwrap();
        host.until_alive(1).await;
        let reaped = async || zombies_of(host.pid()).is_empty();
        eventually("the second keeper to be reaped", DEADLINE, reaped)
            .await
            .unwrap();
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_the_program_by_its_command_line_spares_the_keeper() {
    let Some(mut host) = Host::start(User::Me, "reaper", 0, "pipe").await else {
        return;
    };
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", host.keeper())).unwrap();
    assert!(!line.contains("process_host"), "{line}");
    host.stop().await;
}
