//! How the end of a leader is told: one rule for pipes and terminals.

use std::time::Duration;

use bytes::Bytes;
use turnlane_process::{End, Reason, Signal, Spec, Target, Until};

use crate::support::{OPEN_PIPE, PTY, end_of, services, sh_with, start, until_it_says};

#[tokio::test(flavor = "multi_thread")]
async fn exits_and_signals_have_the_codes_a_shell_would_show() {
    let cases = [
        ("exit 0", 0, None),
        ("exit 3", 3, None),
        ("exit 300", 44, None),
        ("kill -INT $$", 130, Some(2)),
        ("kill -KILL $$", 137, Some(9)),
        ("kill -SEGV $$", 139, Some(11)),
        ("kill -TERM $$", 143, Some(15)),
    ];
    for service in services() {
        for io in [OPEN_PIPE, PTY] {
            for (script, code, signal) in cases {
                let process = start(&service, sh_with(script, io)).await;
                let status = end_of(&process, Until::Closed).await;
                assert_eq!(
                    (status.code, status.signal),
                    (code, signal),
                    "{script} {io:?}"
                );
                let by_itself = match signal {
                    None => Reason::Exited,
                    Some(_) => Reason::Signaled,
                };
                assert_eq!(status.reason, by_itself, "{script} {io:?}");
            }
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_typed_into_a_terminal_is_130() {
    for service in services() {
        let process = start(&service, sh_with("echo up; exec sleep 1000", PTY)).await;
        until_it_says(&process, "up").await;
        process.write(Bytes::from_static(b"\x03")).await.unwrap();
        let status = end_of(&process, Until::Closed).await;
        assert_eq!((status.code, status.reason), (130, Reason::Signaled));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_end_is_137_and_the_second_one_says_that_it_had_ended() {
    for service in services() {
        for io in [OPEN_PIPE, PTY] {
            let process = start(&service, sh_with("echo up; sleep 1000", io)).await;
            assert!(process.end(End::Force));
            let status = end_of(&process, Until::Closed).await;
            assert_eq!((status.code, status.reason), (137, Reason::Terminated));
            assert!(!process.end(End::Force));
            assert!(!process.end(End::GRACEFUL));
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_124_with_the_last_signal() {
    let timeout = Some(Duration::from_millis(200));
    for service in services() {
        for io in [OPEN_PIPE, PTY] {
            let cases = [
                ("exec sleep 1000", 15),
                ("trap '' TERM; while :; do sleep 1; done", 9),
            ];
            for (script, signal) in cases {
                let spec = Spec {
                    timeout,
                    ..sh_with(script, io)
                };
                let process = start(&service, spec).await;
                let status = end_of(&process, Until::Closed).await;
                let told = (status.code, status.signal, status.reason);
                assert_eq!(
                    told,
                    (124, Some(signal), Reason::Timeout),
                    "{script} {:?}",
                    process.info()
                );
            }
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_reach_group_leader_and_all_and_nobody_after_the_exit() {
    for service in services() {
        for target in [Target::Group, Target::Leader, Target::All] {
            for io in [OPEN_PIPE, PTY] {
                let spec = sh_with(
                    "trap 'exit 7' USR1; echo up; while :; do sleep 0.05; done",
                    io,
                );
                let process = start(&service, spec).await;
                until_it_says(&process, "up").await;
                assert!(process.signal(Signal::Usr1, target));
                let status = end_of(&process, Until::Exited).await;
                assert_eq!(
                    (status.code, status.reason),
                    (7, Reason::Exited),
                    "{target:?} {io:?}"
                );
                assert!(!process.signal(Signal::Usr1, target));
            }
        }
        let process = start(&service, sh_with("echo up; exec sleep 1000", PTY)).await;
        until_it_says(&process, "up").await;
        assert!(process.signal(Signal::Hangup, Target::Leader));
        let status = end_of(&process, Until::Closed).await;
        assert_eq!((status.code, status.reason), (129, Reason::Terminated));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_leader_used_is_told() {
    for service in services() {
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let process = start(&service, sh_with(script, OPEN_PIPE)).await;
        let rusage = end_of(&process, Until::Exited).await.rusage;
        assert!(rusage.user + rusage.system > Duration::from_millis(5));
        assert!(rusage.max_resident_bytes > 100_000);
        service.stop().await;
    }
}
