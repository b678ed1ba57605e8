//! A person at a terminal: questions, Ctrl-C, colours, narrow windows, and pipes that close.
//!
//! The invariant here: a command leaves the terminal as it found it, whatever ends it.

use std::time::Duration;

use turnlane_process::{
    Containment, ContainmentKind, Delivery, Io, Options, Process, ProcessService, Spec,
    TerminalSize, Until,
};
use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::{DEADLINE, within};
use unicode_width::UnicodeWidthStr as _;

use super::Person;

const COLUMNS: u16 = 100;

/// A shell in a terminal of its own; `$T` is the binary.
struct Terminal {
    process: Process,
    _service: ProcessService,
}

impl Terminal {
    async fn start(person: &Person, script: &str) -> Self {
        Self::of_width(person, script, COLUMNS).await
    }

    async fn of_width(person: &Person, script: &str, cols: u16) -> Self {
        let service = ProcessService::start(Options {
            containment: Some(ContainmentKind::Group),
            ..Options::default()
        })
        .unwrap();
        // The shell lives through Ctrl-C, and tells what became of the command and of the terminal.
        let whole = format!(
            "stty -g > before; trap : INT; {script}; echo \"code $?\"; stty -g > after; \
             cmp before after && echo unchanged"
        );
        let mut spec = Spec::new(["/bin/sh", "-c", &whole], person.home.workspace());
        for (name, value) in person.home.env() {
            spec.env.vars.insert(name.into(), value.into());
        }
        let program = env!("CARGO_BIN_EXE_turnlane");
        spec.env.vars.insert("T".into(), program.into());
        spec.env.vars.insert("TERM".into(), "xterm".into());
        let size = TerminalSize { rows: 24, cols };
        let process = service.spawn(Spec {
            io: Io::Pty(size),
            delivery: Delivery::Retain,
            containment: Containment::Group,
            ..spec
        });
        Self {
            process: process.await.unwrap(),
            _service: service,
        }
    }

    fn screen(&self) -> String {
        self.process
            .snapshot()
            .terminal
            .text()
            .replace("\r\n", "\n")
    }

    async fn see(&self, text: &str) {
        let seen = async {
            let mut after = 0;
            while !self.screen().contains(text) {
                let running = self.process.snapshot().running;
                assert!(running, "it ended without {text}: {}", self.screen());
                let readable = self.process.readable(after);
                // An end wakes nobody who waits for output.
                let _ = tokio::time::timeout(Duration::from_millis(500), readable).await;
                let page = self.process.read(after, None);
                after = page.chunks.last().map_or(after, |(seq, ..)| *seq);
            }
        };
        let seen = within(text, DEADLINE, seen).await;
        assert!(seen.is_ok(), "no {text} on the screen: {}", self.screen());
    }

    async fn types(&self, text: &'static str) {
        self.process.write(text.into()).await.unwrap();
    }

    /// Everything that was on the screen.
    async fn end(self) -> String {
        let ended = self.process.wait(Until::Closed, Some(DEADLINE)).await;
        let screen = self.screen();
        assert!(ended.is_some(), "{screen}");
        assert!(screen.contains("unchanged"), "{screen}");
        screen
    }
}

#[tokio::test]
async fn nothing_is_deleted_unless_a_person_says_yes() {
    let person = Person::new();
    person.queued("docs", "x").await;
    for (answer, code) in [("n\n", 1), ("\n", 1), ("yess\n", 1), ("\u{3}", 130)] {
        let terminal = Terminal::start(&person, "\"$T\" thread rm docs").await;
        terminal
            .see("Delete docs for good, with all turns? [y/N] ")
            .await;
        terminal.types(answer).await;
        let screen = terminal.end().await;
        assert!(
            screen.contains("nothing was deleted"),
            "{answer:?}: {screen}"
        );
        assert!(
            screen.contains(&format!("code {code}\n")),
            "{answer:?}: {screen}"
        );
        assert_eq!(person.json(&["thread", "list"]).await.len(), 1);
    }
    let terminal = Terminal::start(&person, "\"$T\" thread rm docs").await;
    terminal.see("[y/N] ").await;
    terminal.types("y\n").await;
    let screen = terminal.end().await;
    assert!(screen.contains("deleted docs\ncode 0\n"), "{screen}");
    assert_eq!(person.json(&["thread", "list"]).await.len(), 0);
}

#[tokio::test]
async fn ctrl_c_leaves_what_waits_and_the_terminal_as_it_was() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hang on").await;
    person.until_running(&thread).await;
    for flags in ["", " --until-idle", " --json"] {
        let terminal = Terminal::start(&person, &format!("\"$T\" thread tail docs{flags}")).await;
        terminal.see("working on it").await;
        terminal.types("\u{3}").await;
        let screen = terminal.end().await;
        assert!(screen.contains("left; the turn goes on."), "{screen}");
        assert!(screen.contains("code 130\n"), "{screen}");
    }
    // What reads a prompt from the terminal is left too, and nothing is queued.
    let terminal = Terminal::start(&person, "\"$T\" queue add --thread docs -").await;
    terminal.see("Ctrl-C leaves").await;
    terminal.types("half a senten").await;
    terminal.see("half a senten").await;
    terminal.types("\u{3}").await;
    let screen = terminal.end().await;
    assert!(screen.contains("code 130\n"), "{screen}");
    let queue = person.queue(&thread).await;
    assert_eq!(queue["depth"], 0, "{queue}");
    assert!(!queue["running"].is_null(), "the turn goes on");
}

#[tokio::test]
async fn tables_fit_a_terminal_and_are_whole_in_a_pipe() {
    let person = Person::new();
    let long = "文書を直す 🙂 ".repeat(20);
    person.queued(long.trim(), "x").await;
    person.queued("短い", "x").await;
    let terminal = Terminal::start(&person, "NO_COLOR=1 \"$T\" thread list").await;
    let screen = terminal.end().await;
    let lines: Vec<_> = screen.lines().take(3).collect();
    let widest = lines.iter().map(|line| line.width()).max();
    assert!(
        widest.is_some_and(|widest| widest <= COLUMNS.into()),
        "{screen}"
    );
    let cut = lines.iter().filter(|line| line.contains('…')).count();
    assert_eq!(cut, 1, "{screen}");
    assert!(!screen.contains('\u{1b}'), "{screen}");
    // What they are about begins in the same column.
    let about = lines[0].find("NAME").map(|at| lines[0][..at].width());
    for (line, name) in [(1, "短い"), (2, "文書を直す")] {
        let at = lines[line].find(name).unwrap();
        assert_eq!(Some(lines[line][..at].width()), about, "{screen}");
    }
    let piped = crate::shown(person.spec(&["thread", "list"])).await;
    assert!(piped.contains(long.trim()), "{piped}");

    let terminal = Terminal::start(&person, "\"$T\" thread list").await;
    let screen = terminal.end().await;
    assert!(screen.contains("\u{1b}[1mTHREAD\u{1b}[0m"), "{screen}");
    for plain in ["CLICOLOR=0", "TERM=dumb"] {
        let script = format!("{plain} \"$T\" thread list");
        let screen = Terminal::start(&person, &script).await.end().await;
        assert!(!screen.contains('\u{1b}'), "{plain}: {screen}");
    }
    let forced = person.spec(&["thread", "list"]).env("CLICOLOR_FORCE", "1");
    assert!(crate::shown(forced).await.contains("\u{1b}[1mTHREAD"));
}

#[tokio::test]
async fn lists_fit_every_terminal_and_keep_what_matters() {
    let person = Person::new();
    let daemon = person.daemon().await;
    let (asking, _) = person.queued("nightly", "clean up").await;
    person.asked().await;
    let long = "a name of many words ".repeat(40);
    person.queued(long.trim(), &"x ".repeat(500)).await;
    person.queued("docs", "hang on").await;
    person.until_running("docs").await;
    person.adds("docs", &"a long prompt ".repeat(20)).await;
    for columns in [120, 80, 60, 40] {
        for command in [
            "thread list",
            "queue list",
            "queue list docs",
            "approvals list",
            "status",
        ] {
            let script = format!("NO_COLOR=1 \"$T\" {command} 2>&-");
            let screen = Terminal::of_width(&person, &script, columns)
                .await
                .end()
                .await;
            let lines = screen.lines().take_while(|line| !line.starts_with("code "));
            // What is said of the daemon is whole, since its path cannot be cut.
            let lines = lines.filter(|line| {
                !line.starts_with("daemon ")
                    && !line.starts_with("last 24h")
                    && !line.starts_with("threads ")
            });
            for line in lines {
                assert!(
                    line.width() <= columns.into(),
                    "{columns} {command}: {screen}"
                );
            }
            let short = &asking[asking.len() - 8..];
            if command == "thread list" {
                assert!(screen.contains(short), "{columns}: {screen}");
                assert!(screen.contains("needs approval"), "{columns}: {screen}");
                assert!(screen.contains("nightly"), "{columns}: {screen}");
            }
        }
    }
    drop(daemon);
}

#[tokio::test]
async fn a_run_streams_to_a_person_and_ctrl_c_is_130() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let script = "NO_COLOR=1 \"$T\" run --skip-git-repo-check 'hang on'";
    let terminal = Terminal::start(&person, script).await;
    // The turn has not ended: its words came as they were said, by the agent and by no engine.
    terminal.see("agent\nworking on it").await;
    terminal.types("\u{3}").await;
    let screen = terminal.end().await;
    assert!(screen.contains("turn interrupted"), "{screen}");
    assert!(screen.contains("code 130\n"), "{screen}");
    assert_eq!(screen.matches("working on it").count(), 1, "{screen}");
    // An answer that streamed is not shown again at its end.
    let script = "NO_COLOR=1 \"$T\" run --skip-git-repo-check 'hello you'";
    let screen = Terminal::start(&person, script).await.end().await;
    assert!(screen.contains("agent\nYou said: hello you"), "{screen}");
    assert_eq!(screen.matches("You said: hello you").count(), 1, "{screen}");
    assert!(screen.contains("code 0\n"), "{screen}");
}

#[tokio::test]
async fn a_reader_that_wants_no_more_is_no_failure() {
    let person = Person::new();
    let _daemon = person.daemon().await;
    let (thread, _) = person.queued("docs", "hello").await;
    person.until_idle(&thread).await;
    for arguments in [
        &["thread", "list"][..],
        &["thread", "list", "--json"],
        &["thread", "show", "docs"],
        &["thread", "tail", "docs", "--until-idle"],
        &["queue", "list", "docs", "--json"],
        &["completions", "bash"],
        &["--help"],
        &["queue", "add", "--help"],
        &["--version"],
    ] {
        let mut process = TestProcess::start(person.spec(arguments)).unwrap();
        drop(process.take_stdout());
        let status = process.wait(DEADLINE).await.unwrap();
        let stderr = process.stderr_tail();
        assert_eq!(status.code(), Some(0), "{arguments:?}: {stderr}");
        assert!(
            !stderr.contains("error") && !stderr.contains("panic"),
            "{stderr}"
        );
    }
}
