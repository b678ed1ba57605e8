//! What every peer can do, Codex's own server included.

use std::fmt::Write as _;
use std::time::Duration;

use turnlane_exec_server::client::{ClientError, Event, RemoteProcess, StartSpec};
use turnlane_process::{End, Signal, StreamName, Target, TerminalSize, Until};
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use super::places::Place;

/// Reads the lossless stream to the close; fails if anything is missing.
pub(super) async fn read_all(process: &RemoteProcess) -> Vec<(StreamName, Vec<u8>)> {
    let mut output = process.output().unwrap();
    let mut told = Vec::new();
    let mut next_seq = 1;
    let reading = async {
        while let Some(event) = output.next().await.unwrap() {
            let (seq, piece) = match event {
                Event::Output {
                    seq, stream, bytes, ..
                } => (seq, Some((stream, bytes.to_vec()))),
                Event::Exited { seq, .. } | Event::Closed { seq, .. } => (seq, None),
                other => panic!("{other:?}"),
            };
            assert_eq!(seq, next_seq, "numbers are dense");
            next_seq += 1;
            told.extend(piece);
        }
    };
    within("the close", DEADLINE, reading).await.unwrap();
    told
}

pub(super) async fn exit_code(process: &RemoteProcess) -> i32 {
    let exit = process.wait(Until::Closed, Some(DEADLINE)).await.unwrap();
    exit.unwrap().code
}

/// Reads until the stream holds `text`; everything so far.
pub(in crate::client) async fn read_until(process: &RemoteProcess, text: &str) -> String {
    let mut output = process.output().unwrap();
    let mut got = String::new();
    let reading = async {
        while !got.contains(text) {
            match output.next().await.unwrap() {
                Some(Event::Output { bytes, .. }) => got.push_str(&String::from_utf8_lossy(&bytes)),
                other => panic!("{other:?} after {got:?}"),
            }
        }
    };
    within(text, DEADLINE, reading).await.unwrap();
    got
}

/// Whether a process of this number is still there and no zombie.
pub(in crate::client) fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z')
}

pub(in crate::client) async fn gone(pid: i32) {
    let second = Duration::from_secs(1);
    let dead = eventually("the process to be gone", second, async || !is_alive(pid));
    dead.await.unwrap();
}

/// The number a script prints first.
pub(super) async fn printed_pid(process: &RemoteProcess) -> i32 {
    let text = read_until(process, "\n").await;
    text.lines().next().unwrap().trim().parse().unwrap()
}

pub(super) async fn a_command_tells_its_output_its_exit_and_its_close(place: &Place) {
    let mut events = place.client.events();
    let spec = place.script("printf A; exit 3");
    let process = place.client.start(spec).await.unwrap();
    let mut told = Vec::new();
    while told.len() < 3 {
        let event = within("an event", DEADLINE, events.next()).await.unwrap();
        told.push(event.unwrap());
    }
    let id = process.id();
    match &told[..] {
        [
            Event::Output {
                process,
                seq: 1,
                stream: StreamName::Stdout,
                bytes,
            },
            Event::Exited { seq: 2, exit, .. },
            Event::Closed { seq: 3, .. },
        ] => {
            assert_eq!((process, &bytes[..], exit.code), (id, &b"A"[..], 3));
        }
        other => panic!("{other:?}"),
    }
}

pub(super) async fn both_streams_are_kept_apart_and_kept(place: &Place) {
    let spec = place.script("echo out; echo err >&2");
    let process = place.client.start(spec).await.unwrap();
    assert_eq!(exit_code(&process).await, 0);
    let picture = process.snapshot().await.unwrap();
    assert_eq!(picture.stdout.text(), "out\n");
    assert_eq!(picture.stderr.text(), "err\n");
    assert_eq!((picture.running, picture.exit_code), (false, Some(0)));
}

pub(super) async fn a_terminal_is_one_stream_that_can_be_typed_into(place: &Place) {
    let spec = place.script("test -t 0 && test -t 1 && echo tty; read x; echo got:$x; exit 4");
    let spec = spec.on_terminal(TerminalSize::default());
    let process = place.client.start(spec).await.unwrap();
    process.write("hi\n").await.unwrap();
    let told = read_all(&process).await;
    assert!(told.iter().all(|(stream, _)| *stream == StreamName::Pty));
    let text: Vec<u8> = told.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let text = String::from_utf8_lossy(&text).into_owned();
    let code = exit_code(&process).await;
    assert!(
        text.contains("tty\r\n") && text.contains("got:hi\r\n"),
        "{text:?}, exit {code}"
    );
    assert_eq!(code, 4);
    assert_eq!(process.snapshot().await.unwrap().terminal.text(), text);
}

pub(super) async fn input_reaches_the_process_in_order(place: &Place) {
    let spec = place.script("head -c 600000 | cksum").with_stdin();
    let process = place.client.start(spec).await.unwrap();
    let input: Vec<u8> = (0..600_000_u32).map(|at| (at % 251) as u8).collect();
    process.write(input.clone()).await.unwrap();
    let got = read_all(&process).await;
    let file = place.path().join("input");
    std::fs::write(&file, &input).unwrap();
    let expected = place
        .client
        .start(place.script("cksum < input"))
        .await
        .unwrap();
    assert_eq!(got, read_all(&expected).await);
}

pub(super) async fn a_failed_start_says_why_and_harms_nothing(place: &Place) {
    let missing = StartSpec::new(["/no/such/program"], place.path());
    match place.client.start(missing).await {
        Err(ClientError::Rpc { code, message, .. }) => {
            assert_eq!(code, -32603);
            assert!(message.contains("No such file or directory"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let empty = StartSpec::new(Vec::<String>::new(), place.path());
    match place.client.start(empty).await {
        Err(ClientError::Rpc { code, message, .. }) => {
            assert_eq!((code, message.as_str()), (-32602, "argv must not be empty"));
        }
        other => panic!("{other:?}"),
    }
    let process = place.client.start(place.script("exit 5")).await.unwrap();
    assert_eq!(exit_code(&process).await, 5);
}

pub(super) async fn many_run_at_once_and_are_not_mixed_up(place: &Place) {
    let mut running = Vec::new();
    for number in 0..20 {
        let script = format!("echo {number}; echo {number} >&2; exit {number}");
        running.push(place.client.start(place.script(&script)).await.unwrap());
    }
    for (number, process) in running.iter().enumerate() {
        let code = i32::try_from(number).unwrap();
        assert_eq!(exit_code(process).await, code);
        let picture = process.snapshot().await.unwrap();
        assert_eq!(picture.stdout.text(), format!("{number}\n"));
        assert_eq!(picture.stderr.text(), format!("{number}\n"));
    }
}

pub(super) async fn an_interrupt_arrives(place: &Place) {
    let spec =
        place.script("trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done");
    let process = place.client.start(spec).await.unwrap();
    let mut output = process.output().unwrap();
    let ready = within("ready", DEADLINE, output.next()).await.unwrap();
    assert!(matches!(ready, Ok(Some(Event::Output { .. }))), "{ready:?}");
    let delivered = process.signal(Signal::Interrupt, Target::Group).await;
    assert!(delivered.unwrap());
    assert_eq!(exit_code(&process).await, 9);
}

pub(super) async fn an_end_by_force_is_137_and_said_once(place: &Place) {
    let spec = place.script("echo started; exec sleep 1000");
    let process = place.client.start(spec).await.unwrap();
    read_until(&process, "started").await;
    assert!(process.end(End::Force).await.unwrap(), "it was running");
    assert_eq!(exit_code(&process).await, 137);
    assert!(
        !process.end(End::Force).await.unwrap(),
        "it is not any more"
    );
}

pub(super) async fn the_environment_is_what_was_asked_for(place: &Place) {
    let spec = StartSpec::new(["/usr/bin/env"], place.path()).env("A", "b c");
    let process = place.client.start(spec).await.unwrap();
    let told = read_all(&process).await;
    assert_eq!(told, [(StreamName::Stdout, b"A=b c\n".to_vec())]);
    let process = place.client.start(place.script("pwd -P")).await.unwrap();
    exit_code(&process).await;
    let cwd = place.path().canonicalize().unwrap();
    let picture = process.snapshot().await.unwrap();
    assert_eq!(picture.stdout.text().trim_end(), cwd.to_str().unwrap());
}

pub(super) async fn everything_it_wrote_is_in_the_lossless_stream(place: &Place) {
    let spec = place.script("seq 1 200000; echo done >&2");
    let process = place.client.start(spec).await.unwrap();
    let told = read_all(&process).await;
    let of = |name| {
        let pieces = told.iter().filter(move |(stream, _)| *stream == name);
        pieces
            .flat_map(|(_, bytes)| bytes.clone())
            .collect::<Vec<u8>>()
    };
    let mut expected = String::new();
    for line in 1..=200_000 {
        writeln!(expected, "{line}").unwrap();
    }
    assert!(of(StreamName::Stdout) == expected.as_bytes());
    assert_eq!(of(StreamName::Stderr), b"done\n");
    assert!(matches!(process.output(), Err(ClientError::OutputTaken)));
}

pub(super) async fn a_picture_of_much_output_is_its_beginning_and_its_end(place: &Place) {
    let spec = place.script("echo first; head -c 5000000 /dev/zero; echo careful >&2; echo last");
    let process = place.client.start(spec).await.unwrap();
    assert_eq!(exit_code(&process).await, 0);
    let picture = process.snapshot().await.unwrap();
    assert!(picture.truncated);
    assert!(picture.stdout.head.starts_with(b"first\n\0\0"));
    assert!(picture.stdout.tail.ends_with(b"\0\0last\n"));
    let kept = picture.stdout.head.len() + picture.stdout.tail.len();
    assert_eq!(picture.stdout.total_bytes, 5_000_011);
    assert_eq!(kept as u64 + picture.stdout.omitted_bytes, 5_000_011);
    assert_eq!(picture.stderr.text(), "careful\n");
}

pub(super) async fn a_command_is_run_to_its_end_in_one_call(place: &Place) {
    let process = place
        .client
        .start(place.script("echo hi; exit 6"))
        .await
        .unwrap();
    let ran = process.communicate("", Some(DEADLINE)).await.unwrap();
    assert_eq!(
        (ran.exit.code, ran.snapshot.stdout.text()),
        (6, "hi\n".to_owned())
    );

    let slow = place.script("echo begun; exec sleep 1000");
    let process = place.client.start(slow).await.unwrap();
    let limit = Duration::from_millis(300);
    let ran = within("the limit", DEADLINE, process.communicate("", Some(limit)));
    let ran = ran.await.unwrap().unwrap();
    assert!([137, 143].contains(&ran.exit.code), "{:?}", ran.exit);
    assert_eq!(ran.snapshot.stdout.text(), "begun\n");
}

pub(super) async fn a_wait_in_vain_ends_at_its_limit(place: &Place) {
    let process = place
        .client
        .start(place.script("exec sleep 1000"))
        .await
        .unwrap();
    let waited = process
        .wait(Until::Exited, Some(Duration::from_millis(20)))
        .await;
    assert_eq!(waited.unwrap(), None);
    assert!(process.snapshot().await.unwrap().running);
}

pub(super) async fn a_dropped_handle_ends_the_process(place: &Place) {
    let spec = place.script("echo $$; exec sleep 1000");
    let process = place.client.start(spec).await.unwrap();
    let pid = printed_pid(&process).await;
    assert!(is_alive(pid));
    let mut events = place.client.events();
    drop(process);
    gone(pid).await;
    let exited = async {
        loop {
            if let Some(Event::Exited { exit, .. }) = events.next().await {
                return exit.code;
            }
        }
    };
    let code = within("its exit to be told", DEADLINE, exited).await;
    assert_eq!(code.unwrap(), 137);
}
