//! A service that begins when it is needed: what it starts when, and what it holds meanwhile.

use std::io::Read as _;

use turnlane_process::{Begin, Enforces as _, Options, ProcessService, SpawnErrorKind, Until};

use crate::support::{alone, end_of, service, sh, start};

fn late(hold: Vec<std::os::fd::OwnedFd>) -> ProcessService {
    let options = Options {
        begin: Begin::WhenNeeded,
        hold,
        ..Options::default()
    };
    ProcessService::start(options).unwrap()
}

/// Whether this process has a spawning thread.
fn has_begun() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names.any(|name| name.is_ok_and(|name| name.trim() == "turnlane-spawn"))
}

#[tokio::test]
async fn who_starts_nothing_needs_no_keeper() {
    if !alone("beginning::who_starts_nothing_needs_no_keeper", &[]).await {
        return;
    }
    let (mut reader, writer) = std::io::pipe().unwrap();
    let service = late(vec![writer.into()]);
    let asked = (service.landlock().clone(), service.seccomp().clone());
    assert!(service.list().is_empty());
    assert!(!has_begun());
    service.stop().await;
    assert!(!has_begun());
    // What was to be held was let go of.
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    let refused = service.spawn(sh("true")).await.unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::Other);
    let report = service.report();
    assert!(!report.containment_absent.is_empty(), "it has stopped");
    assert_eq!((report.landlock.clone(), report.seccomp.clone()), asked);
    assert!(!has_begun());
}

#[tokio::test]
async fn the_first_processes_find_one_beginning_and_the_stop_ends_it() {
    let test = "beginning::the_first_processes_find_one_beginning_and_the_stop_ends_it";
    if !alone(test, &[]).await {
        return;
    }
    let (mut reader, writer) = std::io::pipe().unwrap();
    let service = late(vec![writer.into()]);
    let spawn = || service.spawn(sh("exit 3"));
    let (one, two, three) = tokio::join!(spawn(), spawn(), spawn());
    for process in [one, two, three] {
        assert_eq!(end_of(&process.unwrap(), Until::Exited).await.code, 3);
    }
    assert!(has_begun());
    service.stop().await;
    assert!(!has_begun());
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the keeper let go");
}

#[tokio::test]
async fn a_spawn_that_is_cancelled_at_the_beginning_leaves_one_for_the_next() {
    let service = late(Vec::new());
    let mut first = Box::pin(service.spawn(sh("exit 3")));
    assert!(at_first_look(&mut first).await.is_none());
    drop(first);
    let process = start(&service, sh("exit 4")).await;
    assert_eq!(end_of(&process, Until::Exited).await.code, 4);
    service.stop().await;
}

/// What a future has at its first look.
async fn at_first_look<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn a_late_report_says_what_an_early_one_says() {
    let (early, late) = (service(), late(Vec::new()));
    let (one, two) = (early.report(), late.report());
    assert_eq!(one.containment, two.containment);
    assert_eq!(one.containment_absent, two.containment_absent);
    assert_eq!(one.cgroup_controllers, two.cgroup_controllers);
    assert_eq!(one.cgroup_root.is_some(), two.cgroup_root.is_some());
    let enforced = |report: &turnlane_process::Report| {
        let (landlock, seccomp) = (report.landlock.clone(), report.seccomp.clone());
        (landlock, seccomp, report.mounts.clone())
    };
    assert_eq!(enforced(one), enforced(two));
    early.stop().await;
    late.stop().await;
}
