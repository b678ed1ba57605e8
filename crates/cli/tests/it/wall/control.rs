//! The attacks are real: without a sandbox they succeed, and the watchers notice.
//!
//! A matrix of attacks that fail for reasons of their own would prove nothing.

use std::fs;

use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::DEADLINE;

use super::matrix::scene;
use super::routes::{Gate, Policy, Route};
use super::table::{Cell, read};
use super::world::{Bystander, HomePlace, User, World, changes, is_root};

/// Attacks that need no luck and no rights beyond those of the user.
const WORK: &[&str] = &[
    "write-outside",
    "write-through-links",
    "change-metadata-outside",
    "make-protected-names",
    "leave-setuid-programs",
    "read-home",
    "list-home",
    "write-home",
    "lock-home",
    "limits-of-others",
    "scheduling-of-others",
    "signal-others",
    "proc-of-others",
    "clone3",
    "openat2",
    "unix-sockets",
    "network-sockets",
    "own-server",
    "sysv-ipc",
    "posix-ipc",
    "terminals",
    "secrets-in-environment",
    "own-rights",
];

/// Attacks that only root can make.
const WORK_FOR_ROOT: &[&str] = &[
    "make-devices",
    "leave-cgroup",
    "kernel-settings",
    "raw-sockets",
    "namespaces",
    "memory-of-others",
];

#[tokio::test]
async fn without_a_sandbox_the_attacks_succeed_and_are_noticed() {
    let world = World::new(User::Me, HomePlace::Outside).await;
    let report = world.doctor().await;
    let gate = Gate::open(&world).await;
    let mut bystander = Bystander::start(&world).await;
    let cell = (Route::CommandExec, Policy::WorkspaceWrite);
    let path = scene(&world, &gate, &bystander, &report, cell);
    // Attacks leave out what would hurt the machine.
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("confined=yes", "confined=no");
    fs::write(&path, text.replace("mounts=no", "mounts=yes")).unwrap();
    let before = bystander.state(&world).await;
    let argv = [
        world.attacker.to_str().unwrap(),
        "run",
        path.to_str().unwrap(),
    ];
    let output = TestProcess::run(world.program(&argv), DEADLINE)
        .await
        .unwrap();
    let column = read(&String::from_utf8_lossy(&output.stdout));
    let broken = |name: &&str| {
        let found = column.iter().find(|(attack, _)| attack == name);
        matches!(found, Some((_, Cell::Broken(detail))) if !detail.starts_with("unknown"))
    };
    let for_root = WORK_FOR_ROOT.iter().filter(|_| is_root());
    let harmless: Vec<&&str> = WORK
        .iter()
        .chain(for_root)
        .filter(|name| !broken(name))
        .collect();
    assert!(harmless.is_empty(), "{harmless:?} in {column:#?}");
    let changes = changes(&before, &bystander.state(&world).await).join("\n");
    for noticed in [
        "limit 4",
        "priority",
        "pending signals",
        "queue",
        "semaphore",
        "posix memory",
        "terminal",
        "stream connections",
        "datagrams",
        "packet connections",
        "abstract connections",
        "tcp connections",
        "outside/file",
        "outside/spare",
        "planted in the home",
    ] {
        assert!(changes.contains(noticed), "{noticed} in {changes}");
    }
}
