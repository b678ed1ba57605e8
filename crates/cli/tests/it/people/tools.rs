//! Completions and manual pages: they know every command, and the programs they are for read them.
//!
//! A shell that is not installed is skipped aloud.

use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess, skipped};

use super::Person;
use super::examples::is_installed;
use super::help::every_command;
use crate::run;

/// Runs a program of this machine; none where it is not installed.
async fn tried(program: &str, arguments: &[&str]) -> Option<turnlane_testkit::Output> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !is_installed(program) {
        skipped(format!("{program} is not installed"));
        return None;
    }
    let spec = ProcessSpec::new("/usr/bin/env")
        .args([program])
        .args(arguments.iter().copied())
        .env("PATH", path)
        .env("LANG", "C.UTF-8");
    Some(TestProcess::run(spec, DEADLINE).await.unwrap())
}

#[tokio::test]
async fn completions_know_every_command_and_shells_read_them() {
    let person = Person::new();
    let commands = every_command().await;
    for (shell, check) in [
        ("bash", Some("-n")),
        ("zsh", Some("-n")),
        ("fish", Some("--no-execute")),
        ("elvish", None),
        ("powershell", None),
    ] {
        let output = run(person.spec(&["completions", shell])).await;
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        for command in &commands {
            for word in &command.words {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
        for word in ["not-before", "until-idle", "token-file"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let file = person.home.path().join(shell);
        std::fs::write(&file, script).unwrap();
        let Some(check) = check else { continue };
        if let Some(read) = tried(shell, &[check, file.to_str().unwrap()]).await {
            assert!(read.status.success(), "{shell}: {}", read.stderr_tail);
            assert_eq!(read.stderr_tail, "", "{shell}");
        }
    }
    // It completes: the words that bash proposes behind `turnlane queue `.
    let ask = "source \"$1\"; COMP_WORDS=(turnlane queue re); COMP_CWORD=2; \
               _turnlane turnlane re queue; echo \"${COMPREPLY[@]}\"";
    let script = person.home.path().join("bash");
    let arguments = ["-c", ask, "bash", script.to_str().unwrap()];
    if let Some(proposed) = tried("bash", &arguments).await {
        let words = String::from_utf8(proposed.stdout).unwrap();
        assert_eq!(words.trim(), "retry resume", "{}", proposed.stderr_tail);
    }
}

#[tokio::test]
async fn there_is_a_manual_page_for_every_command_and_it_can_be_read() {
    let person = Person::new();
    let folder = person.home.path().join("man");
    let out = folder.to_str().unwrap();
    let output = run(person.spec(&["man", "--out", out])).await;
    assert!(output.status.success(), "{}", output.stderr_tail);
    let mut pages = Vec::new();
    for command in every_command().await {
        let name = ["turnlane".to_owned()]
            .into_iter()
            .chain(command.words.clone());
        let name = name.collect::<Vec<_>>().join("-");
        let page = folder.join(format!("{name}.1"));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{name}");
        pages.push(page.to_str().unwrap().to_owned());
    }
    let pages: Vec<_> = pages.iter().map(String::as_str).collect();
    let arguments = [&["-man", "-ww", "-z", "-Tutf8"], &pages[..]].concat();
    if let Some(read) = tried("groff", &arguments).await {
        assert!(read.status.success(), "{}", read.stderr_tail);
        assert_eq!(read.stderr_tail, "");
    }
    let output = run(person.spec(&["man", "--out", "/dev/null/x"])).await;
    assert_eq!(output.status.code(), Some(1));
    let expected = "error: cannot write manual pages to /dev/null/x";
    assert!(output.stderr_tail.starts_with(expected));
}
