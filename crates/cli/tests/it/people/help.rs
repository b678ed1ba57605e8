//! What `--help`, `-h`, a wrong argument and a missing one say, for every command there is.
//!
//! The invariant here: the commands are found by reading the help itself, from the top down, so that
//! none is forgotten; a new one has no snapshot and fails.

use std::fmt::Write as _;

use insta::assert_snapshot;

use crate::{run, shown, turnlane};

/// A command, and what its `--help` says.
pub(super) struct Taught {
    pub(super) words: Vec<String>,
    pub(super) help: String,
}

impl Taught {
    pub(super) fn name(&self) -> String {
        self.words.join(" ")
    }

    /// Whether it only holds other commands.
    pub(super) fn is_group(&self) -> bool {
        self.usage().ends_with("<COMMAND>")
    }

    fn usage(&self) -> &str {
        let line = self.help.lines().find(|line| line.starts_with("Usage: "));
        line.unwrap()
    }

    /// By what its snapshots are called.
    fn group(&self) -> &str {
        self.words.first().map_or("turnlane", String::as_str)
    }
}

/// Every command, those that hold others before what they hold.
pub(super) async fn every_command() -> Vec<Taught> {
    let mut left = vec![Vec::new()];
    let mut found = Vec::new();
    while let Some(words) = left.pop() {
        let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let output = run(turnlane(&arguments)).await;
        assert!(output.status.success(), "{words:?}: {}", output.stderr_tail);
        let help = String::from_utf8(output.stdout).unwrap();
        for name in named_in(&help).into_iter().rev() {
            left.push([words.clone(), vec![name]].concat());
        }
        found.push(Taught { words, help });
    }
    found
}

/// The names below `Commands:`.
fn named_in(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let name = |line: &str| {
        let line = line.strip_prefix("  ")?;
        let is_name = line.starts_with(|first: char| first.is_ascii_alphabetic());
        is_name.then(|| line.split(' ').next().unwrap_or_default().to_owned())
    };
    let names = lines.filter_map(name);
    names.filter(|name| name != "help").collect()
}

/// One snapshot for each word behind `turnlane`.
fn compare(what: &str, commands: &[Taught], told: impl Fn(&Taught) -> String) {
    let mut at = 0;
    while let Some(first) = commands.get(at) {
        let group = commands[at..].iter();
        let group: Vec<_> = group
            .take_while(|one| one.group() == first.group())
            .collect();
        at += group.len();
        let text: String = group.into_iter().map(&told).collect();
        assert_snapshot!(format!("{what}_{}", first.group()), text);
    }
}

#[tokio::test]
async fn every_command_has_its_help() {
    let commands = every_command().await;
    assert!(commands.len() > 30, "{}", commands.len());
    let mut short = Vec::new();
    for command in &commands {
        let words = command.words.iter().map(String::as_str);
        let arguments: Vec<_> = words.chain(["-h"]).collect();
        short.push(shown(turnlane(&arguments)).await);
    }
    let short_of = |command: &Taught| {
        let at = commands.iter().position(|one| one.words == command.words);
        &short[at.unwrap()]
    };
    compare("help", &commands, |command| {
        let (name, help) = (command.name(), &command.help);
        let mut text = format!("$ turnlane {name} --help\n{help}\n");
        writeln!(text, "$ turnlane {name} -h\n{}", short_of(command)).unwrap();
        text
    });
}

#[tokio::test]
async fn every_command_says_what_is_wrong_with_its_arguments() {
    let commands = every_command().await;
    let mut told = Vec::new();
    for command in &commands {
        let words: Vec<_> = command.words.iter().map(String::as_str).collect();
        let mut lines = vec![[&words[..], &["--no-such-flag"]].concat()];
        // Where nothing is missing, the command would run.
        if command.usage().contains('<') {
            lines.push(words.clone());
        }
        let mut text = String::new();
        for line in lines {
            let said = shown(turnlane(&line)).await;
            assert!(
                said.starts_with("exit 2\n-- stdout\n-- stderr\n"),
                "{line:?}: {said}"
            );
            assert_eq!(said.matches("Usage: ").count(), 1, "{line:?}: {said}");
            // A group without a command shows its whole help, which is compared elsewhere.
            let said = match said.split_once("\nCommands:\n") {
                Some((before, _)) => format!("{before}\n…\n"),
                None => said,
            };
            writeln!(text, "$ turnlane {}\n{said}", line.join(" ")).unwrap();
        }
        told.push(text);
    }
    compare("wrong", &commands, |command| {
        let at = commands.iter().position(|one| one.words == command.words);
        told[at.unwrap()].clone()
    });
}

#[tokio::test]
async fn commands_that_servers_name_work_without_their_group() {
    let mut person = super::Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "first").await;
    person.until_idle(&thread).await;
    for arguments in [
        &["archive", &thread][..],
        &["thread", "ls"],
        &["unarchive", &thread],
        &["thread", "ls"],
        &["queue", "ls"],
        &["fork", "docs", "--name", "copy"],
        &["approvals", "ls"],
        &["thread", "delete", "--yes", "copy"],
    ] {
        person.types(arguments).await;
    }
    assert_snapshot!(person.story());
}
