//! Output: complete, in order, numbered, held back, kept head and tail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use turnlane_process::{
    Delivery, End, Event, Options, OutputTaken, ProcessService, Spec, StreamName, TryNext, Until,
};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::support::{
    OPEN_PIPE, PIPE, PTY, alone, count_from, end_of, listen, resident_kb, say, service, services,
    sh, sh_with, start, text, until_it_says, words,
};

#[tokio::test(flavor = "multi_thread")]
async fn output_comes_before_the_exit_and_the_exit_before_the_close() {
    let runs = count_from("TURNLANE_PROCESS_RUNS", 1000);
    let before = tokio::time::Instant::now();
    for service in services() {
        for io in [PIPE, PTY] {
            for _ in 0..runs / 6 {
                let process = start(&service, sh_with("printf A; exit 3", io)).await;
                assert_eq!(words(&listen(&process).await), ["A", "exited 3", "closed"]);
            }
        }
        service.stop().await;
    }
    say(&format!("{runs} runs in {:?}", before.elapsed()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_closed_early_has_ended_long_before_the_exit() {
    for service in services() {
        let script = "echo out; exec 1>&-; echo err >&2; read line; exit 3";
        let process = start(&service, sh_with(script, OPEN_PIPE)).await;
        let ended = process.stream_ended(StreamName::Stdout);
        within("the end of its output", DEADLINE, ended)
            .await
            .unwrap();
        // All of it was told before.
        let kept = process.snapshot();
        assert_eq!((kept.stdout.text().as_str(), kept.running), ("out\n", true));
        process.close_stdin().unwrap();
        assert_eq!(end_of(&process, Until::Closed).await.code, 3);
        let ended = process.stream_ended(StreamName::Stderr);
        within("the end of its errors", DEADLINE, ended)
            .await
            .unwrap();
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_survivor_writes_comes_after_the_exit() {
    for service in services() {
        let process = start(&service, sh("(sleep 1; echo late) & echo first")).await;
        let told = words(&listen(&process).await);
        assert_eq!(told, ["first", "exited 0", "late", "closed"]);
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_survivor_that_never_stops_writing_does_not_delay_the_exit() {
    for service in services() {
        for io in [PIPE, PTY] {
            let script = "trap '' HUP; (while :; do echo noise; done) & echo mine";
            let process = start(&service, sh_with(script, io)).await;
            let mut output = process.output().unwrap();
            let exited = async {
                let mut before = String::new();
                loop {
                    match output.next().await.unwrap() {
                        Event::Output { bytes, .. } => {
                            before.push_str(&String::from_utf8_lossy(&bytes));
                        }
                        Event::Exited { .. } => return before,
                        Event::Closed { .. } => panic!("closed before it exited"),
                    }
                }
            };
            let before = within("the exit", DEADLINE, exited).await.unwrap();
            assert!(before.contains("mine"));
            process.end(End::Force);
            let closed = async {
                loop {
                    if let Event::Closed {
                        drain_timed_out, ..
                    } = output.next().await.unwrap()
                    {
                        return drain_timed_out;
                    }
                }
            };
            assert!(!within("the close", DEADLINE, closed).await.unwrap());
        }
        service.stop().await;
    }
}

/// A pattern whose length is prime, so that a lost or repeated piece of any size shows.
fn pattern() -> (String, Vec<u8>) {
    let line = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ";
    let mut lines = Vec::new();
    while lines.len() < 256 * 1024 {
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
    }
    (line.to_owned(), lines)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_pauses_costs_nothing_and_loses_nothing() {
    let me = "output::a_consumer_that_pauses_costs_nothing_and_loses_nothing";
    if !alone(me, &[]).await {
        return;
    }
    let total = count_from("TURNLANE_PROCESS_BYTES", 1 << 30);
    let (line, expected) = pattern();
    let service = service();
    // Warm: the first process pays for what all share.
    listen(&start(&service, sh("echo warm")).await).await;
    let before_kb = resident_kb();
    let script = format!("yes {line} | head -c {total}");
    let process = start(&service, sh(&script)).await;
    eventually("a full window", DEADLINE, async || {
        service.counters().stalled == 1
    })
    .await
    .unwrap();
    let paused_kb = resident_kb().saturating_sub(before_kb);
    let undelivered = process.listed().undelivered_bytes;
    let begun = tokio::time::Instant::now();
    let mut output = process.output().unwrap();
    let mut seen = 0;
    let mut most_kb = 0;
    while let Some(event) = output.next().await {
        let Event::Output { bytes, seq, .. } = event else {
            continue;
        };
        let at = seen % (line.len() + 1);
        let same = expected.get(at..at + bytes.len());
        assert_eq!(same, Some(&bytes[..]), "after {seen} bytes");
        seen += bytes.len();
        if seq % 256 == 0 {
            most_kb = most_kb.max(resident_kb().saturating_sub(before_kb));
        }
    }
    say(&format!(
        "paused: {undelivered} bytes undelivered, +{paused_kb} kB; reading: at most +{most_kb} kB, \
         {} MB/s",
        total as u128 / begun.elapsed().as_micros().max(1)
    ));
    assert_eq!(seen, total);
    assert!(paused_kb < 2048, "+{paused_kb} kB while paused");
    assert!(undelivered <= 256 * 1024);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loud_stream_loses_its_middle_and_a_quiet_one_nothing() {
    let service = service();
    let script = "yes 0123456789 | head -c 100000000; yes error | head -c 100000 >&2; printf END";
    let spec = Spec {
        delivery: Delivery::Retain,
        ..sh(script)
    };
    let process = start(&service, spec).await;
    end_of(&process, Until::Closed).await;
    let snapshot = process.snapshot();
    let out = &snapshot.stdout;
    assert!(snapshot.truncated);
    assert_eq!(out.total_bytes, 100_000_003);
    let kept = (out.head.len() + out.tail.len()) as u64;
    assert_eq!(out.omitted_bytes + kept, out.total_bytes);
    let head = "0123456789\n".repeat(out.head.len() / 11 + 1);
    assert_eq!(out.head, head.as_bytes()[..out.head.len()]);
    assert!(
        out.head.len() > 60_000 && out.tail.len() > 700_000,
        "{kept}"
    );
    assert!(out.tail.ends_with(b"END"));
    let marker = format!("\n[... {} bytes omitted ...]\n", out.omitted_bytes);
    assert!(out.text().contains(&marker));
    let err = &snapshot.stderr;
    assert_eq!((err.total_bytes, err.omitted_bytes), (100_000, 0));
    assert_eq!(err.text().len(), 100_000);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_lossless_stream_and_it_goes_on_where_it_was() {
    let service = service();
    let process = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let mut output = process.output().unwrap();
    assert_eq!(process.output().unwrap_err(), OutputTaken);
    assert_eq!(output.try_next(), TryNext::Empty);
    process.write(Bytes::from_static(b"one")).await.unwrap();
    let event = within("one", DEADLINE, output.next()).await.unwrap();
    assert_eq!(event.map(|event| event.seq()), Some(1));
    drop(output);
    process.write(Bytes::from_static(b"two")).await.unwrap();
    process.close_stdin().unwrap();
    end_of(&process, Until::Closed).await;
    let mut output = process.output().unwrap();
    assert_eq!(output.position(), 1);
    output.skip_to(2);
    assert!(matches!(
        output.try_next(),
        TryNext::Event(Event::Exited { seq: 3, .. })
    ));
    assert!(matches!(
        output.try_next(),
        TryNext::Event(Event::Closed { seq: 4, .. })
    ));
    assert_eq!(output.try_next(), TryNext::Ended);
    assert_eq!(output.next().await, None);
    drop(output);
    assert_eq!(process.output().unwrap().next().await, None);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doorbell_rings_once_for_what_comes_after_nothing() {
    let service = service();
    let process = start(&service, sh_with("cat", OPEN_PIPE)).await;
    let mut output = process.output().unwrap();
    let rung = Arc::new(AtomicUsize::new(0));
    let bell = Arc::clone(&rung);
    output.set_doorbell(Arc::new(move || {
        bell.fetch_add(1, Ordering::SeqCst);
    }));
    let rings = async |count: usize| {
        eventually("a ring", DEADLINE, async || {
            rung.load(Ordering::SeqCst) >= count
        })
        .await
        .unwrap();
        assert_eq!(rung.load(Ordering::SeqCst), count);
    };
    process.write(Bytes::from_static(b"one")).await.unwrap();
    rings(1).await;
    process.write(Bytes::from_static(b"two")).await.unwrap();
    within("two", DEADLINE, process.readable(1)).await.unwrap();
    rings(1).await;
    while output.try_next() != TryNext::Empty {}
    process.close_stdin().unwrap();
    end_of(&process, Until::Closed).await;
    rings(2).await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_and_a_close_are_told_though_nobody_takes_the_output() {
    for service in services() {
        // More than the window, and the rest is in the pipe when the leader exits.
        let script = "head -c 300000 /dev/zero; echo late >&2";
        let process = start(&service, sh(script)).await;
        let status = end_of(&process, Until::Closed).await;
        assert_eq!(status.code, 0);
        let listed = process.listed();
        assert_eq!(listed.undelivered_bytes, 300_005);
        let events = listen(&process).await;
        assert_eq!(text(&events, StreamName::Stdout).len(), 300_000);
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_decides_how_much_is_held() {
    let service = service();
    let process = start(&service, sh("yes | head -c 10000000")).await;
    eventually("a full window", DEADLINE, async || {
        service.counters().stalled == 1
    })
    .await
    .unwrap();
    let held = process.listed().undelivered_bytes;
    assert!(held <= 256 * 1024, "{held}");
    process.set_window(1 << 20);
    eventually("a larger window", DEADLINE, async || {
        process.listed().undelivered_bytes > 900_000 && service.counters().stalled == 1
    })
    .await
    .unwrap();
    process.end(End::Force);
    let status = end_of(&process, Until::Closed).await;
    assert_eq!(status.code, 137);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_held_by_a_stranger_is_given_up_two_seconds_after_a_forced_end() {
    for service in services() {
        let process = start(&service, sh("echo up; exec sleep 1000")).await;
        until_it_says(&process, "up").await;
        // A descriptor of its standard output that no end reaches: ours.
        let path = format!("/proc/{}/fd/1", process.info().pid);
        let stranger = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        let before = tokio::time::Instant::now();
        process.end(End::Force);
        end_of(&process, Until::Exited).await;
        end_of(&process, Until::Closed).await;
        let took = before.elapsed();
        assert!(took >= Duration::from_millis(1900), "{took:?}");
        let events = listen(&process).await;
        assert!(matches!(
            events.last(),
            Some(Event::Closed {
                drain_timed_out: true,
                ..
            })
        ));
        drop(stranger);
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_read_what_is_kept_without_taking_it() {
    let service = service();
    let process = start(&service, sh("echo one; sleep 0.2; echo two >&2; exit 4")).await;
    end_of(&process, Until::Closed).await;
    let page = process.read(0, None);
    let told: Vec<_> = page
        .chunks
        .iter()
        .map(|(seq, stream, _)| (*seq, *stream))
        .collect();
    assert_eq!(told, [(1, StreamName::Stdout), (2, StreamName::Stderr)]);
    assert_eq!(
        (page.next_seq, page.closed, page.truncated),
        (5, Some(4), false)
    );
    assert_eq!(
        page.exited.map(|(seq, status)| (seq, status.code)),
        Some((3, 4))
    );
    let page = process.read(0, Some(1));
    assert_eq!((page.chunks.len(), page.next_seq), (1, 2));
    assert_eq!(listen(&process).await.len(), 4);
    assert_eq!(process.read(0, None).chunks.len(), 2);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn discarded_output_is_nowhere() {
    for service in services() {
        for io in [PIPE, PTY] {
            let spec = Spec {
                delivery: Delivery::Discard,
                ..sh_with("head -c 1000000 /dev/zero; exit 5", io)
            };
            let process = start(&service, spec).await;
            assert_eq!(words(&listen(&process).await), ["exited 5", "closed"]);
        }
        service.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_retention_only_the_undelivered_is_kept() {
    let options = Options {
        retained_output_bytes_per_process: 0,
        ..Options::default()
    };
    let service = ProcessService::start(options).unwrap();
    let process = start(&service, sh("echo kept")).await;
    end_of(&process, Until::Closed).await;
    assert_eq!(process.snapshot().stdout.text(), "kept\n");
    listen(&process).await;
    let page = process.read(0, None);
    assert!(page.chunks.is_empty() && page.truncated);
    assert_eq!(page.omitted_bytes, 5);
    service.stop().await;
}
