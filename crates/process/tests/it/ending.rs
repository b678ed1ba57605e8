//! Ends: forced, graceful, by a dropped handle, by a stopped service.

use std::time::Duration;

use tokio::time::Instant;
use turnlane_process::{
    Containment, End, Event, InputError, Options, ProcessService, ProcessState, Reason,
    SpawnErrorKind, Spec, StreamName, Survivors, Until,
};
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{
    OPEN_PIPE, PIPE, PTY, containment, end_of, is_alive, listen, say, service, services, sh,
    sh_with, start, text, until_it_says, words,
};

const fn graceful(interrupt_ms: u64, term_ms: u64) -> End {
    End::Graceful {
        interrupt: Duration::from_millis(interrupt_ms),
        term: Duration::from_millis(term_ms),
    }
}

/// The number a process printed alone on a line.
async fn pid_said(process: &turnlane_process::Process) -> i32 {
    until_it_says(process, "\n").await;
    let snapshot = process.snapshot();
    let text = format!("{}{}", snapshot.stdout.text(), snapshot.terminal.text());
    text.lines().next().unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_lets_a_trap_speak() {
    for service in services() {
        for io in [OPEN_PIPE, PTY] {
            let script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done";
            let process = start(&service, sh_with(script, io)).await;
            until_it_says(&process, "up").await;
            let before = Instant::now();
            assert!(process.end(graceful(0, 30_000)));
            let status = end_of(&process, Until::Closed).await;
            say(&format!("graceful end of a trap: {:?}", before.elapsed()));
            assert_eq!((status.code, status.reason), (5, Reason::Exited));
            let told = words(&listen(&process).await).join(" ");
            assert!(told.contains("bye exited 5 closed"), "{told}");
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ignores_the_request_dies_at_the_deadline() {
    for service in services() {
        let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
        let process = start(&service, sh(script)).await;
        until_it_says(&process, "up").await;
        let before = Instant::now();
        process.end(graceful(0, 300));
        let status = end_of(&process, Until::Closed).await;
        let took = before.elapsed();
        say(&format!("deadline of 300 ms: {took:?}"));
        assert!(took >= Duration::from_millis(300));
        assert_eq!((status.code, status.reason), (137, Reason::Terminated));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_comes_first_and_a_force_overrides() {
    for service in services() {
        let script =
            "trap 'echo int' INT; trap 'echo term' TERM; echo up; while :; do sleep 0.05; done";
        let process = start(&service, sh(script)).await;
        until_it_says(&process, "up").await;
        process.end(graceful(200, 60_000));
        until_it_says(&process, "int").await;
        until_it_says(&process, "term").await;
        let events = process.snapshot().stdout.text();
        assert!(events.find("int") < events.find("term"));
        assert!(process.end(End::Force));
        let status = end_of(&process, Until::Closed).await;
        assert_eq!((status.code, status.reason), (137, Reason::Terminated));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_waits_for_members_that_outlive_the_leader() {
    for service in services() {
        let script = "(trap '' TERM; echo up; while :; do sleep 0.05; done) & wait";
        let process = start(&service, sh(script)).await;
        until_it_says(&process, "up").await;
        let before = Instant::now();
        process.end(graceful(0, 400));
        let status = end_of(&process, Until::Exited).await;
        assert_eq!(status.signal, Some(15));
        end_of(&process, Until::Closed).await;
        assert!(before.elapsed() >= Duration::from_millis(400));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn survivors_are_kept_counted_and_ended() {
    for service in services() {
        let script = "sleep 1000 >/dev/null 2>&1 & echo $!; exit 0";
        let process = start(&service, sh(script)).await;
        let pid = pid_said(&process).await;
        end_of(&process, Until::Closed).await;
        assert!(is_alive(pid));
        assert_eq!(process.snapshot().survivors, [pid]);
        let listed = process.listed();
        assert_eq!((listed.survivors, listed.state), (1, ProcessState::Closed));
        process.end_survivors();
        eventually("the survivor's end", DEADLINE, async || !is_alive(pid))
            .await
            .unwrap();
        eventually("an empty containment", DEADLINE, async || {
            process.snapshot().survivors.is_empty()
        })
        .await
        .unwrap();

        let spec = Spec {
            survivors: Survivors::End,
            ..sh("sleep 1000 & echo $!; exit 6")
        };
        let process = start(&service, spec).await;
        let status = end_of(&process, Until::Closed).await;
        assert_eq!((status.code, status.reason), (6, Reason::Exited));
        let pid = pid_said(&process).await;
        eventually("the survivor's end", DEADLINE, async || !is_alive(pid))
            .await
            .unwrap();
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn end_survivors_does_nothing_while_the_leader_runs() {
    let service = service();
    let process = start(&service, sh_with("cat", OPEN_PIPE)).await;
    process.end_survivors();
    process.write("still here\n".into()).await.unwrap();
    until_it_says(&process, "still here").await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_takes_the_process_with_it() {
    for service in services() {
        let process = start(&service, sh("echo $$; exec sleep 1000")).await;
        let pid = pid_said(&process).await;
        let clone = process.clone();
        let mut output = process.output().unwrap();
        drop(process);
        assert!(is_alive(pid));
        drop(clone);
        // The signal was sent before the drop returned; dying takes the kernel a moment.
        eventually("the end", DEADLINE, async || !is_alive(pid))
            .await
            .unwrap();
        let mut last = None;
        while let Some(event) = output.next().await {
            last = Some(event);
        }
        assert!(matches!(last, Some(Event::Closed { .. })));
        eventually("an empty list", DEADLINE, async || {
            service.list().is_empty()
        })
        .await
        .unwrap();

        let spec = Spec {
            end_on_drop: false,
            ..sh("echo $$; head -c 1000000 /dev/zero; exec sleep 1000")
        };
        let process = start(&service, spec).await;
        let pid = pid_said(&process).await;
        drop(process);
        eventually("output that nobody takes", DEADLINE, async || {
            service
                .list()
                .first()
                .is_some_and(|line| line.total_bytes > 1_000_000)
        })
        .await
        .unwrap();
        assert!(is_alive(pid));
        service.stop().await;
        assert!(!is_alive(pid));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_graceful_and_a_second_one_is_not() {
    let options = Options {
        shutdown_grace: Duration::from_mins(1),
        ..Options::default()
    };
    let service = ProcessService::start(options).unwrap();
    let polite = start(
        &service,
        sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"),
    )
    .await;
    let stubborn = start(
        &service,
        sh("trap '' TERM; echo up; while :; do sleep 0.05; done"),
    )
    .await;
    until_it_says(&polite, "up").await;
    until_it_says(&stubborn, "up").await;
    let first = tokio::spawn({
        let service = service.clone();
        async move { service.stop().await }
    });
    let status = end_of(&polite, Until::Closed).await;
    assert_eq!(status.code, 0);
    assert_eq!(
        text(&listen(&polite).await, StreamName::Stdout),
        "up\nbye\n"
    );
    let refused = service.spawn(sh("true")).await.unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::Other);
    let before = Instant::now();
    service.stop().await;
    first.await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(30));
    assert_eq!(end_of(&stubborn, Until::Closed).await.code, 137);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_service_leaves_nobody() {
    for service in services() {
        let process = start(&service, sh("echo $$; exec sleep 1000")).await;
        let pid = pid_said(&process).await;
        drop(service);
        eventually("the end", DEADLINE, async || !is_alive(pid))
            .await
            .unwrap();
        let status = end_of(&process, Until::Closed).await;
        assert_eq!((status.code, status.reason), (137, Reason::Terminated));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_at_most_so_many_at_once() {
    let options = Options {
        processes_max: 2,
        ..Options::default()
    };
    let service = ProcessService::start(options).unwrap();
    let one = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let _two = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let mut third = sh_with("cat", PIPE);
    third.containment = containment(&service);
    let refused = service.spawn(third.clone()).await.unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::TooManyProcesses);
    one.end(End::Force);
    eventually("room", DEADLINE, async || {
        service.spawn(third.clone()).await.is_ok()
    })
    .await
    .unwrap();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_process_is_forgotten_in_time_and_when_there_is_too_much() {
    let options = Options {
        retain_after_exit: Duration::from_millis(200),
        retained_bytes_max: 3000,
        ..Options::default()
    };
    let service = ProcessService::start(options).unwrap();
    let mut all = Vec::new();
    for _ in 0..3 {
        let process = start(&service, sh("printf %2000s x")).await;
        end_of(&process, Until::Closed).await;
        listen(&process).await;
        all.push(process);
    }
    eventually("the oldest to go", DEADLINE, async || {
        all.first().unwrap().read(0, None).truncated
    })
    .await
    .unwrap();
    eventually("all to go", DEADLINE, async || service.list().is_empty())
        .await
        .unwrap();
    assert!(all.iter().all(|process| process.read(0, None).truncated));
    assert_eq!(service.counters().retained_bytes, 0);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_and_the_counters_tell_what_happened() {
    let service = service();
    let running = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let ended = start(&service, sh("echo 12345; exit 9")).await;
    end_of(&ended, Until::Closed).await;
    let list = service.list();
    let lines: Vec<_> = list
        .iter()
        .map(|line| {
            (
                line.id,
                line.state,
                line.status.map(|status| status.code),
                line.total_bytes,
            )
        })
        .collect();
    let expected = [
        (running.id(), ProcessState::Running, None, 0),
        (ended.id(), ProcessState::Closed, Some(9), 6),
    ];
    assert_eq!(lines, expected);
    let counters = service.counters();
    assert_eq!((counters.spawned, counters.output_bytes), (2, [6, 0, 0]));
    assert_eq!(counters.ends, [1, 0, 0, 0, 0]);
    assert_eq!(counters.unkillable, 0);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_service_starts_itself() {
    let mut spec = sh("echo default");
    spec.containment = Containment::Group;
    let process = turnlane_process::spawn(spec).await.unwrap();
    assert_eq!(
        words(&listen(&process).await),
        ["default", "exited 0", "closed"]
    );
}

#[test]
fn a_runtime_that_goes_away_takes_its_processes_with_it() {
    let first = tokio::runtime::Runtime::new().unwrap();
    let (service, process) = first.block_on(async {
        let service = service();
        let process = start(&service, sh("echo $$; exec sleep 1000")).await;
        until_it_says(&process, "\n").await;
        (service, process)
    });
    first.shutdown_background();
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(async {
        let pid = process.info().pid;
        let status = end_of(&process, Until::Closed).await;
        assert_eq!((status.code, status.reason), (-1, Reason::Lost));
        eventually("the end", DEADLINE, async || !is_alive(pid))
            .await
            .unwrap();
        let late = process.write("late".into()).await;
        assert_eq!(late, Err(InputError::StdinClosed));
    });
    drop(service);
}
