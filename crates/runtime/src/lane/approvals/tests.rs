//! Accepts for the session: the questions they cover, and the callers whose accept counts.

use turnlane_protocol::policy::{ApprovalsReviewer, SandboxPolicy};

use super::*;

fn rights(mode: &str, cwd: &str) -> TurnRights {
    TurnRights {
        sandbox: SandboxPolicy::from_mode(mode).unwrap(),
        cwd: cwd.to_owned(),
        reviewer: ApprovalsReviewer::User,
        caller: CallerRights::Unconfined,
    }
}

fn asked(command: &str, cwd: &str, escalated: bool) -> ApprovalSubject {
    let is_simple = !command.contains([';', '&', '|', '$', '>']);
    let words = command.split_whitespace().map(str::to_owned).collect();
    ApprovalSubject::Command {
        command: command.to_owned(),
        cwd: cwd.to_owned(),
        actions: Vec::new(),
        words: is_simple.then_some(words),
        stdin: None,
        escalated,
        proposed_amendment: None,
    }
}

fn command(command: &str, escalated: bool) -> Subject {
    Subject::new(&asked(command, "/w", escalated), &rights("read-only", "/w"))
}

fn beginning(words: &[&str]) -> Decision {
    Decision::AcceptWithExecpolicyAmendment {
        execpolicy_amendment: words.iter().map(|word| (*word).to_owned()).collect(),
    }
}

#[test]
fn an_accepted_beginning_covers_simple_commands_that_begin_so() {
    let mut session = SessionAccepts::default();
    session.remember(command("git log -1", false), &beginning(&["git", "log"]));
    let covers = |text: &str| session.covers(&command(text, false));
    assert!(covers("git log") && covers("git log --oneline src/a.rs"));
    for other in [
        "git",
        "git logs",
        "git -C / log",
        "git log; rm -r .",
        "git log && rm x",
        "git log $(rm x)",
        "git log > x",
        "git log | sh",
    ] {
        assert!(!covers(other), "{other}");
    }
    let outside = command("git log", true);
    assert!(!session.covers(&outside), "not outside of the sandbox");
}

#[test]
fn an_empty_beginning_covers_only_the_command_itself() {
    let mut session = SessionAccepts::default();
    session.remember(command("make", false), &beginning(&[]));
    assert!(session.covers(&command("make", false)));
    assert!(!session.covers(&command("make install", false)));
    assert!(!session.covers(&command("rm x", false)));
}

#[test]
fn one_accept_or_a_refusal_is_not_remembered() {
    let mut session = SessionAccepts::default();
    for decision in [Decision::Accept, Decision::Decline, Decision::Cancel] {
        session.remember(command("make", false), &decision);
    }
    assert!(!session.covers(&command("make", false)));
}

#[test]
fn an_accept_counts_only_in_the_sandbox_and_directory_it_was_given_in() {
    let given = rights("workspace-write", "/w");
    let same = Subject::new(&asked("make all", "/w", false), &given);
    for decision in [Decision::AcceptForSession, beginning(&["make"])] {
        let mut session = SessionAccepts::default();
        session.remember(same.clone(), &decision);
        assert!(session.covers(&same));
        for (what, cwd, rights) in [
            (
                "another directory",
                "/w/sub",
                rights("workspace-write", "/w"),
            ),
            ("another workspace", "/w", rights("workspace-write", "/v")),
            ("a narrower sandbox", "/w", rights("read-only", "/w")),
            ("no sandbox", "/w", rights("danger-full-access", "/w")),
        ] {
            let other = Subject::new(&asked("make all", cwd, false), &rights);
            assert!(!session.covers(&other), "{what}, {decision:?}");
        }
    }
}

#[test]
fn an_accepted_patch_counts_only_in_its_sandbox() {
    let patch = |escalated| ApprovalSubject::FileChange {
        changes: Vec::new(),
        grant_root: None,
        escalated,
    };
    let given = rights("workspace-write", "/w");
    let mut session = SessionAccepts::default();
    let subject = Subject::new(&patch(false), &given);
    session.remember(subject.clone(), &Decision::AcceptForSession);
    assert!(session.covers(&subject));
    assert!(!session.covers(&Subject::new(&patch(true), &given)));
    let wider = rights("danger-full-access", "/w");
    assert!(!session.covers(&Subject::new(&patch(false), &wider)));
}

#[test]
fn writing_to_a_command_is_another_subject_than_starting_it() {
    let given = rights("read-only", "/w");
    let mut session = SessionAccepts::default();
    let started = Subject::new(&asked("bash", "/w", false), &given);
    session.remember(started, &Decision::AcceptForSession);
    let mut written = asked("bash", "/w", false);
    if let ApprovalSubject::Command { words, stdin, .. } = &mut written {
        *words = None;
        *stdin = Some("rm x".to_owned());
    }
    assert!(!session.covers(&Subject::new(&written, &given)));
}

#[test]
fn whatever_leaves_the_sandbox_is_unconfined() {
    let confined = rights("workspace-write", "/w");
    let without = rights("danger-full-access", "/w");
    let permissions = ApprovalSubject::Permissions {
        cwd: "/w".to_owned(),
        permissions: serde_json::Map::new(),
    };
    let is_unconfined = |subject: &ApprovalSubject, rights| {
        let subject = Subject::new(subject, rights);
        subject.is_unconfined()
    };
    assert!(!is_unconfined(&asked("make", "/w", false), &confined));
    assert!(is_unconfined(&asked("make", "/w", true), &confined));
    assert!(is_unconfined(&asked("make", "/w", false), &without));
    assert!(is_unconfined(&permissions, &confined));
}
