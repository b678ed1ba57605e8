//! Real processes under every kind this machine offers.
//!
//! A kind that is not there is skipped aloud. Every tree is marked by an argument that occurs nowhere
//! else, and "nobody is left" is looked up in `/proc`, not believed.

mod keeping;
mod leaving;
mod support;

use std::time::Duration;

use turnlane_testkit::wait::{DEADLINE, eventually};

use super::*;
use crate::contain::How;
use crate::spec::{Signal, Target};
use support::*;

#[tokio::test]
async fn a_kill_reaches_the_daemon_and_the_session_of_its_own() {
    for io in [PIPE, PTY] {
        for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
            let Some((spawner, _)) = spawner(kind) else {
                continue;
            };
            let mark = mark("tree");
            let argv = ["sh", "-c", TREE, &mark];
            let (running, _ends) = start(&spawner, &argv, io).await;
            assert_eq!(running.kind(), kind);
            all_up(&mark, 5).await;
            assert!(running.members().len() >= 5, "{:?}", running.members());
            running.kill();
            assert_eq!(exit(&running).await.how, How::Signal(libc::SIGKILL));
            empty(&running).await;
            nobody_left(&mark).await;
            assert!(running.members().is_empty());
        }
    }
}

#[tokio::test]
async fn a_group_does_not_claim_who_left_it() {
    let (spawner, found) = spawner(ContainmentKind::Group).unwrap();
    assert_eq!(found.kind, ContainmentKind::Group);
    let mark = mark("group");
    let script = "setsid sh -c 'echo $$; sleep 1000; : $0' $0 & sh -c 'sleep 1000; : $0' $0 & \
                  sleep 1000; : $0";
    let (request, ends) = request(&["sh", "-c", script, &mark], PIPE);
    let error = spawner.spawn(request).await.unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::ContainmentUnavailable);
    drop(ends);

    let (mut request, ends) = self::request(&["sh", "-c", script, &mark], PIPE);
    request.containment = Containment::Group;
    let running = spawner.spawn(request).await.unwrap();
    all_up(&mark, 3).await;
    let escaped: i32 = first_line(&ends).await.parse().unwrap();
    assert!(!running.members().contains(&escaped));
    assert!(running.members().contains(&running.pid()));
    running.kill();
    assert_eq!(exit(&running).await.how, How::Signal(libc::SIGKILL));
    empty(&running).await;
    assert!(running.members().is_empty());
    assert!(!running.signal(Signal::Terminate, Target::Group));
    assert!(marked(&mark).contains(&escaped));
    kill_escaped(&mark);
    drop(running);
    nobody_left(&mark).await;
}

#[tokio::test]
async fn every_kind_tells_how_a_leader_ended_and_what_it_used() {
    for (spawner, containment) in every_kind() {
        let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let ends_of = [
            ("exit 0".to_owned(), How::Code(0)),
            (format!("{work}; exit 300"), How::Code(44)),
            ("kill -SEGV $$".to_owned(), How::Signal(libc::SIGSEGV)),
            ("kill -INT $$".to_owned(), How::Signal(libc::SIGINT)),
        ];
        for (script, how) in ends_of {
            let (mut request, _ends) = request(&["sh", "-c", &script], PIPE);
            request.containment = containment;
            let running = spawner.spawn(request).await.unwrap();
            let ended = exit(&running).await;
            assert_eq!(ended.how, how, "{script} under {}", running.kind().name());
            assert!(ended.rusage.max_resident_bytes > 100_000);
            if how == How::Code(44) {
                assert!(ended.rusage.user + ended.rusage.system > Duration::ZERO);
            }
            assert_eq!(exit(&running).await.how, how, "told again");
            empty(&running).await;
            assert!(!running.signal(Signal::Kill, Target::Leader));
            assert!(!running.signal(Signal::Kill, Target::Group));
            assert!(!running.signal(Signal::Kill, Target::All));
        }
    }
}

#[tokio::test]
async fn a_signal_reaches_the_leader_the_group_or_everybody() {
    for (spawner, containment) in every_kind() {
        let mark = mark("signal");
        let script = "trap 'echo leader' USR1; \
            sh -c 'trap \"echo member\" USR1; echo up; while :; do sleep 0.01; done' $0 & \
            setsid sh -c 'trap \"echo far\" USR1; echo up; while :; do sleep 0.01; done' $0 & \
            echo up; while :; do sleep 0.01; done";
        let (mut request, ends) = request(&["sh", "-c", script, &mark], PIPE);
        request.containment = containment;
        let running = spawner.spawn(request).await.unwrap();
        let mut lines = Lines::of(&ends);
        for _ in 0..3 {
            assert_eq!(lines.next().await, "up");
        }
        let far = containment == Containment::Tree;
        for (target, expected) in [
            (Target::Leader, vec!["leader"]),
            (Target::Group, vec!["leader", "member"]),
            (
                Target::All,
                if far {
                    vec!["far", "leader", "member"]
                } else {
                    vec!["leader", "member"]
                },
            ),
        ] {
            assert!(running.signal(Signal::Usr1, target));
            let mut got = Vec::new();
            for _ in &expected {
                got.push(lines.next().await);
            }
            got.sort();
            assert_eq!(got, expected, "{target:?} under {}", running.kind().name());
        }
        running.kill();
        exit(&running).await;
        empty(&running).await;
        if !far {
            kill_escaped(&mark);
        }
        nobody_left(&mark).await;
    }
}

#[tokio::test]
async fn emptiness_comes_after_the_last_member_and_not_before() {
    for (spawner, containment) in every_kind() {
        let mark = mark("empty");
        let script = "sh -c 'sleep 1000; : $0' $0 & exit 5";
        let (mut request, _ends) = request(&["sh", "-c", script, &mark], PIPE);
        request.containment = containment;
        let running = spawner.spawn(request).await.unwrap();
        assert_eq!(exit(&running).await.how, How::Code(5));
        let emptied = tokio::time::timeout(Duration::from_millis(120), empty(&running)).await;
        assert!(emptied.is_err(), "{}", running.kind().name());
        let members = running.members();
        assert!(!members.is_empty() && !members.contains(&running.pid()));
        assert!(!running.signal(Signal::Terminate, Target::Leader));
        let empty = empty(&running);
        let kill = async { assert!(running.signal(Signal::Kill, Target::All)) };
        tokio::join!(empty, kill);
        nobody_left(&mark).await;
    }
}

#[tokio::test]
async fn what_a_kind_cannot_limit_it_refuses_by_name() {
    for (spawner, containment) in every_kind() {
        for (memory_max, pids_max, name) in
            [(Some(1 << 26), None, "memory"), (None, Some(9), "pids")]
        {
            let (mut request, _ends) = request(&["true"], PIPE);
            (request.containment, request.memory_max, request.pids_max) =
                (containment, memory_max, pids_max);
            let has = spawner
                .shared
                .tree()
                .is_some_and(|tree| tree.controllers().iter().any(|found| found == name));
            match spawner.spawn(request).await {
                Ok(running) => {
                    assert!(has && running.kind() == ContainmentKind::Cgroup);
                    assert_eq!(exit(&running).await.how, How::Code(0));
                }
                Err(error) => {
                    assert_eq!(error.kind, SpawnErrorKind::ResourceLimit);
                    assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_kind_that_is_asked_for_and_not_there_fails_the_start() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut options = Options {
        containment: Some(ContainmentKind::Cgroup),
        cgroup_root: Some(nowhere.path().to_owned()),
        ..Options::default()
    };
    match Spawner::start(&mut options, Mark::choose()).unwrap_err() {
        StartError::Containment { wanted, reason } => {
            assert_eq!(wanted, "cgroup");
            assert!(reason.contains("cgroup.kill"), "{reason}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(std::fs::read_dir(nowhere.path()).unwrap().count(), 0);

    let mut options = Options {
        containment: Some(ContainmentKind::Reaper),
        keeper: Some(vec!["/bin/false".into()]),
        ..Options::default()
    };
    let error = Spawner::start(&mut options, Mark::choose())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`reaper`") && error.contains("keeper"),
        "{error}"
    );
}

#[tokio::test]
async fn the_next_kind_is_taken_and_the_reason_told() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut options = Options {
        cgroup_root: Some(nowhere.path().to_owned()),
        keeper: Some(vec!["/bin/false".into()]),
        ..Options::default()
    };
    let (spawner, found) = Spawner::start(&mut options, Mark::choose()).unwrap();
    assert_eq!(found.kind, ContainmentKind::Group);
    let absent: Vec<_> = found.absent.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(absent, [ContainmentKind::Cgroup, ContainmentKind::Reaper]);
    assert!(found.absent[1].1.contains("keeper"), "{:?}", found.absent);
    spawner.stop();
}

#[test]
fn without_a_runtime_there_is_no_service() {
    let started = Spawner::start(&mut Options::default(), Mark::choose());
    assert!(matches!(started, Err(StartError::NoRuntime)));
}

#[tokio::test]
async fn a_fork_loop_is_ended() {
    for kind in [ContainmentKind::Cgroup, ContainmentKind::Reaper] {
        let Some((spawner, _)) = spawner(kind) else {
            continue;
        };
        let mark = mark("forks");
        // 60 at a time, each of which leaves its session and starts its successor. Not faster: the dead
        // are reaped now and then, and must not fill the table of processes meanwhile.
        let script = "i=0; while [ $i -lt 60 ]; do setsid sh -c \"$1\" \"$0\" \"$1\" & \
                      i=$((i+1)); done; wait";
        let again = "sleep 0.2; setsid sh -c \"$1\" \"$0\" \"$1\" & : $0";
        let (running, _ends) = start(&spawner, &["sh", "-c", script, &mark, again], PIPE).await;
        let many = async || marked(&mark).len() > 40;
        eventually("many processes", DEADLINE, many).await.unwrap();
        running.kill();
        exit(&running).await;
        empty(&running).await;
        nobody_left(&mark).await;
    }
}
