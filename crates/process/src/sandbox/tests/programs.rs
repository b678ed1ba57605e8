//! Ordinary programs still run in a sandbox, also on a terminal.

use std::os::fd::OwnedFd;

use super::*;
use crate::launch::open_ends;
use crate::spec::{Delivery, Io, TerminalSize};

#[test]
fn git_status_and_cargo_version_run_read_only() {
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let policy = Sandbox::ReadOnly { network: false };
    let made = shell(
        &Sandbox::DangerFullAccess,
        "rm -r .git; git init -q .",
        &place.root(),
    );
    if made.code == Some(0) {
        let outcome = shell(&policy, "git status --short", &place.root());
        assert_eq!(
            (outcome.code, outcome.said.as_str()),
            (Some(0), "?? file\n")
        );
    } else {
        skipped(&format!("git: {}", made.said));
    }
    let there = shell(&Sandbox::DangerFullAccess, "cargo --version", &place.root());
    if there.code == Some(0) {
        let outcome = shell(&policy, "cargo --version", &place.root());
        assert_eq!((outcome.code, &outcome.said), (Some(0), &there.said));
    } else {
        skipped(&format!("cargo: {}", there.said));
    }
}

#[test]
fn a_shell_with_pipes_jobs_and_redirections_runs_in_a_workspace() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let command = "echo one | cat > made && sh -c 'echo two >> made' > /dev/null 2>&1 & wait $!; \
        (sleep 100 & kill $!; wait $! 2> /dev/null); cat made; echo x > /dev/stderr; exit 7";
    let outcome = shell(&place.workspace(), command, &place.root());
    assert_eq!(
        (outcome.code, outcome.said.as_str()),
        (Some(7), "one\ntwo\nx\n")
    );
}

/// Runs a command on a terminal of its own and returns what was shown.
fn on_a_terminal(policy: &Sandbox, command: &str) -> String {
    let spec = Spec::new(["sh", "-c", command], "/");
    let (ends, ours) = open_ends(Io::Pty(TerminalSize::default()), Delivery::Stream).unwrap();
    let around = Surroundings {
        pts: ours.pts.as_deref(),
        ..nowhere()
    };
    let confinement = machine().confine(policy, around).unwrap();
    let mut plan = prepare(&spec, vec![]).unwrap();
    plan.terminal = crate::launch::Terminal::Controlling;
    plan.restrictions = confinement.restrictions;
    let mut slots = Slots::reserve().unwrap();
    let ruleset = confinement.ruleset.as_ref().map(AsFd::as_fd);
    let child = launch(&mut slots, &plan, &ends, ruleset, None).unwrap();
    drop(ends);
    end_of(&child.pidfd);
    shown(&ours.terminal.unwrap())
}

fn shown(terminal: &OwnedFd) -> String {
    let mut text = Vec::new();
    let mut buffer = [0_u8; 4096];
    // The other side is closed: what is left comes at once, then an error.
    while let Ok(count @ 1..) = rustix::io::read(terminal, &mut buffer) {
        text.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_terminal_of_its_own_can_be_opened_and_controlled() {
    if !has(Need::Confinement) {
        return;
    }
    let command = "echo a > /dev/tty; echo b > $(tty); stty -echo < /dev/tty && stty size < $(tty)";
    let text = on_a_terminal(&Sandbox::ReadOnly { network: false }, command);
    assert_eq!(text, "a\r\nb\r\n24 80\r\n");
}

#[test]
fn the_terminal_of_another_process_cannot() {
    if !has(Need::Confinement) {
        return;
    }
    let (_ends, ours) = open_ends(Io::Pty(TerminalSize::default()), Delivery::Stream).unwrap();
    let other = ours.pts.as_ref().unwrap().display();
    let command = format!("echo x > {other} || echo refused");
    let text = on_a_terminal(&Sandbox::ReadOnly { network: false }, &command);
    assert!(
        text.contains("Permission denied") && text.ends_with("refused\r\n"),
        "{text}"
    );
    assert_eq!(shown(ours.terminal.as_ref().unwrap()), "");
}
