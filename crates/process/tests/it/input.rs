//! Input: queued in order, bounded, and never in anybody's way.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use turnlane_process::{
    End, InputError, Reason, ResizeError, Signal, StreamName, Target, TerminalSize, Until,
};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::support::{
    OPEN_PIPE, PIPE, PTY, end_of, listen, say, service, services, sh, sh_with, start, text,
    until_it_says,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_never_reads_holds_up_its_writers_and_nobody_else() {
    for service in services() {
        let process = start(&service, sh_with("echo up; exec sleep 1000", OPEN_PIPE)).await;
        until_it_says(&process, "up").await;
        let piece = Bytes::from(vec![b'x'; 64 * 1024]);
        let mut accepted = 0;
        let waiting = loop {
            let mut write = Box::pin(process.write(piece.clone()));
            let answer = tokio::time::timeout(Duration::from_millis(300), &mut write).await;
            match answer {
                Ok(answer) => answer.unwrap(),
                Err(_) => break write,
            }
            accepted += piece.len();
        };
        // The queue, and what the pipe itself holds.
        assert!(
            (1 << 20..=(1 << 20) + 256 * 1024).contains(&accepted),
            "{accepted}"
        );
        let before = Instant::now();
        process.end(End::Force);
        let answer = within("the waiting write", DEADLINE, waiting)
            .await
            .unwrap();
        let status = end_of(&process, Until::Exited).await;
        say(&format!("end with a full queue: {:?}", before.elapsed()));
        assert_eq!(answer, Err(InputError::StdinClosed));
        assert_eq!(status.reason, Reason::Terminated);
        assert_eq!(process.write(piece).await, Err(InputError::StdinClosed));
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn communicate_moves_more_than_any_buffer_both_ways() {
    let service = service();
    let input: Bytes = vec![b'm'; 64 << 20].into();
    let process = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let before = Instant::now();
    let done = process.communicate(input, Some(DEADLINE)).await.unwrap();
    say(&format!("64 MiB there and back: {:?}", before.elapsed()));
    assert_eq!(done.status.code, 0);
    assert_eq!(done.snapshot.stdout.total_bytes, 64 << 20);
    assert!(process.output().is_err());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn communicate_ends_what_takes_too_long_and_returns_what_there_is() {
    for service in services() {
        let script = "echo begun; while :; do sleep 1; done";
        let process = start(&service, sh_with(script, OPEN_PIPE)).await;
        until_it_says(&process, "begun").await;
        let limit = Some(Duration::from_millis(100));
        let done = process.communicate(Bytes::new(), limit).await.unwrap();
        let told = (done.status.code, done.status.reason);
        assert_eq!(told, (124, Reason::Timeout));
        assert_eq!(done.snapshot.stdout.text(), "begun\n");
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_arrives_in_the_order_of_the_calls_and_ends_after_it() {
    let service = service();
    let process = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let mut expected = String::new();
    for number in 0..500 {
        let line = format!("{number}\n");
        process.write(line.clone().into()).await.unwrap();
        expected.push_str(&line);
    }
    process.close_stdin().unwrap();
    process.close_stdin().unwrap();
    let late = process.write(Bytes::from_static(b"late")).await;
    assert_eq!(late, Err(InputError::StdinClosed));
    let events = listen(&process).await;
    assert_eq!(text(&events, StreamName::Stdout), expected);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_room_keeps_its_place_and_dropped_room_is_given_back() {
    let service = service();
    let process = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let first = process.reserve(4).await.unwrap();
    let dropped = process.reserve(1 << 19).await.unwrap();
    let second = process.reserve(4).await.unwrap();
    second.send(Bytes::from_static(b"two\n")).unwrap();
    drop(dropped);
    first.send(Bytes::from_static(b"one\n")).unwrap();
    process.close_stdin().unwrap();
    let events = listen(&process).await;
    assert_eq!(text(&events, StreamName::Stdout), "one\ntwo\n");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_input_says_so_at_once() {
    let service = service();
    let process = start(&service, sh_with("cat", PIPE)).await;
    let answer = process.write(Bytes::from_static(b"x")).await;
    assert_eq!(answer, Err(InputError::StdinClosed));
    process.close_stdin().unwrap();
    end_of(&process, Until::Closed).await;
    // One that closed its end itself: the next write finds out.
    let process = start(
        &service,
        sh_with("exec <&-; echo up; exec sleep 1000", OPEN_PIPE),
    )
    .await;
    until_it_says(&process, "up").await;
    eventually("the broken pipe", DEADLINE, async || {
        process.write(Bytes::from_static(b"x")).await == Err(InputError::StdinClosed)
    })
    .await
    .unwrap();
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_takes_input_sizes_and_signals_for_its_foreground() {
    for service in services() {
        let script = "stty size; read line; echo got $line; stty size; sh -mc 'sleep 1000; echo job over'; echo over";
        let process = start(&service, sh_with(script, PTY)).await;
        until_it_says(&process, "24 80").await;
        assert_eq!(process.close_stdin(), Err(InputError::NotAPipe));
        let size = TerminalSize {
            rows: 50,
            cols: 132,
        };
        process.resize(size).unwrap();
        assert_eq!(process.snapshot().size, Some(size));
        let bad = TerminalSize { rows: 0, cols: 1 };
        assert_eq!(process.resize(bad), Err(ResizeError::BadSize));
        process.write(Bytes::from_static(b"hello\n")).await.unwrap();
        until_it_says(&process, "got hello").await;
        until_it_says(&process, "50 132").await;
        let pipe = start(&service, sh("sleep 1000")).await;
        assert_eq!(pipe.resize(size), Err(ResizeError::NotATerminal));
        assert_eq!(pipe.snapshot().size, None);
        // The interactive shell gives the terminal to the job: the interrupt ends that, not the leader.
        eventually("the job in the foreground", DEADLINE, async || {
            foreground_is_not(process.info().pid)
        })
        .await
        .unwrap();
        assert!(process.signal(Signal::Interrupt, Target::Group));
        until_it_says(&process, "over").await;
        service.stop().await;
    }
}

/// Whether the terminal of the session `leader` leads belongs to somebody else at the moment.
fn foreground_is_not(leader: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{leader}/stat")).unwrap_or_default();
    let rest = stat.rsplit(") ").next().unwrap_or_default();
    let mut fields = rest.split(' ');
    // state ppid pgrp session tty_nr tpgid
    let group: Option<i32> = fields.nth(5).and_then(|field| field.parse().ok());
    let comm = group.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    group.is_some_and(|group| group != leader) && comm.is_some_and(|comm| comm.trim() == "sleep")
}
