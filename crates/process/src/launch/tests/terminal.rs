//! Terminals and the other streams, seen from both sides.

use std::fs::File;

use super::*;
use crate::spec::{Delivery, TerminalSize};

/// All a terminal shows until nobody has its other side open.
fn read_terminal(master: &OwnedFd) -> String {
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let mut wait = [PollFd::new(master, PollFlags::IN)];
        rustix::event::poll(&mut wait, None).unwrap();
        match rustix::io::read(master, &mut buffer) {
            Ok(read) => shown.extend_from_slice(&buffer[..read]),
            Err(rustix::io::Errno::IO) => return String::from_utf8(shown).unwrap(),
            Err(error) => panic!("reading a terminal: {error}"),
        }
    }
}

fn on_terminal(script: &str, size: TerminalSize) -> (String, OurEnds) {
    let mut slots = Slots::reserve().unwrap();
    let mut spec = sh(script);
    spec.io = Io::Pty(size);
    let (ends, ours) = open_ends(spec.io, spec.delivery).unwrap();
    let launched = launch(&mut slots, &plan(&spec), &ends, None, None).unwrap();
    drop(ends);
    let shown = read_terminal(ours.terminal.as_ref().unwrap());
    assert_eq!(
        wait(launched.pidfd.as_fd()).exit_status(),
        Some(0),
        "{shown}"
    );
    (shown, ours)
}

#[test]
fn a_terminal_has_its_size_before_its_program_starts() {
    let size = TerminalSize {
        rows: 33,
        cols: 101,
    };
    let (shown, ours) = on_terminal("stty size; tty", size);
    let pts = ours.pts.unwrap();
    assert_eq!(shown, format!("33 101\r\n{}\r\n", pts.display()));
}

#[test]
fn the_terminal_controls_the_session_of_the_child() {
    let script = "test -t 0 && test -t 1 && test -t 2 && : < /dev/tty && cat /proc/$$/stat";
    let (shown, _ours) = on_terminal(script, TerminalSize::default());
    let pid = shown.split_whitespace().next().unwrap();
    let fields: Vec<_> = shown[shown.rfind(')').unwrap() + 4..]
        .split_whitespace()
        .collect();
    // Group and session are its own, there is a terminal, and the foreground is ours.
    assert_eq!((fields[1], fields[2], fields[4]), (pid, pid, pid));
    assert_ne!(fields[3], "0");
}

#[test]
fn a_terminal_without_a_proper_size_is_refused() {
    for (rows, cols) in [(0, 80), (24, 0), (10_001, 80), (24, u16::MAX)] {
        let io = Io::Pty(TerminalSize { rows, cols });
        assert!(open_ends(io, Delivery::Stream).is_err(), "{rows} {cols}");
    }
}

#[test]
fn our_ends_do_not_block_and_no_end_survives_an_exec() {
    let terminal = Io::Pty(TerminalSize::default());
    for io in [Io::Pipe { stdin: Stdin::Open }, terminal] {
        let (ends, ours) = open_ends(io, Delivery::Retain).unwrap();
        let ours = [ours.stdin, ours.stdout, ours.stderr, ours.terminal];
        let ours: Vec<_> = ours.into_iter().flatten().collect();
        for end in &ours {
            let flags = rustix::fs::fcntl_getfl(end).unwrap();
            assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
        }
        let theirs = [ends.stdin, ends.stdout, ends.stderr];
        for end in &theirs {
            let flags = rustix::fs::fcntl_getfl(end).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
        }
        for end in ours.iter().chain(&theirs) {
            let flags = rustix::io::fcntl_getfd(end).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }
}

#[test]
fn input_reaches_the_child_and_ends_when_we_close_it() {
    let mut slots = Slots::reserve().unwrap();
    let io = Io::Pipe { stdin: Stdin::Open };
    let (ends, ours) = open_ends(io, Delivery::Stream).unwrap();
    let launched = launch(&mut slots, &cat(), &ends, None, None).unwrap();
    drop(ends);
    File::from(ours.stdin.unwrap())
        .write_all(b"in and out")
        .unwrap();
    assert_eq!(wait(launched.pidfd.as_fd()).exit_status(), Some(0));
    assert_eq!(read_all(ours.stdout), "in and out");
}

#[test]
fn closed_input_is_at_its_end_and_discarded_output_goes_nowhere() {
    let mut slots = Slots::reserve().unwrap();
    let script = "cat && readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2";
    let ran = run(&sh(script)).unwrap();
    assert!(ran.stdout.starts_with("/dev/null\npipe:"), "{}", ran.stdout);
    let (ends, ours) = open_ends(sh("").io, Delivery::Discard).unwrap();
    assert!(ours.stdin.is_none() && ours.stdout.is_none() && ours.stderr.is_none());
    let script =
        r#"test "$(readlink /proc/$$/fd/1)$(readlink /proc/$$/fd/2)" = /dev/null/dev/null"#;
    let launched = launch(&mut slots, &plan(&sh(script)), &ends, None, None).unwrap();
    assert_eq!(wait(launched.pidfd.as_fd()).exit_status(), Some(0));
}
