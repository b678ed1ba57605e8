//! `turnlane demo` in an empty home: what is told, what is checked, and that nothing is left.
//!
//! The invariant here: each demo has a temporary folder of its own, so whatever it leaves, on disk or
//! running, is known by that folder's name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use turnlane_process::{
    Containment, EnvSpec, Event, Io, Options, Output, Process, ProcessService, Spec, TerminalSize,
    Until,
};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{ProcessSpec, TempHome, skipped};

use crate::people::Following;
use crate::{run, shown, turnlane};

/// How long a process that was killed may take to be gone.
const GONE_MAX: Duration = Duration::from_secs(10);

/// A machine with nothing on it: an empty home, and a folder for what is temporary.
struct Machine {
    home: TempHome,
}

impl Machine {
    fn new() -> Self {
        let home = TempHome::new().unwrap();
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        Self { home }
    }

    fn tmp(&self) -> PathBuf {
        self.home.path().join("tmp")
    }

    fn env(&self) -> Vec<(String, String)> {
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        let programs = std::env::var("PATH").unwrap();
        vec![
            ("PATH".to_owned(), programs),
            ("HOME".to_owned(), path(self.home.user())),
            ("TMPDIR".to_owned(), path(self.tmp())),
        ]
    }

    fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        turnlane(&["demo"])
            .args(arguments.iter().copied())
            .envs(self.env())
            .current_dir(self.home.workspace())
    }

    /// Neither a file nor a process is left.
    async fn is_clean(&self) {
        for folder in [self.home.user(), self.tmp(), self.home.workspace()] {
            assert_eq!(entries(&folder), Vec::<PathBuf>::new());
        }
        let nothing = async || of_folder(&self.tmp()).is_empty();
        let gone = eventually("nobody left", GONE_MAX, nothing).await;
        assert!(gone.is_ok(), "left over: {:?}", of_folder(&self.tmp()));
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Processes that were told of a folder or work below it; those of other tests know another one.
fn of_folder(folder: &Path) -> Vec<String> {
    let name = folder.to_str().unwrap();
    let knows = |pid: &str| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let told = [read("cmdline"), read("environ")].concat();
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        String::from_utf8_lossy(&told).contains(name) || cwd.starts_with(folder)
    };
    let pids = entries(Path::new("/proc")).into_iter();
    let pids = pids.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| knows(pid))
        .collect()
}

/// Times as `  0.00s` and pids as `<pid>`.
fn masked(text: &str) -> String {
    let line = |line: &str| {
        let line = match line.get(..7) {
            Some(time) if time.ends_with('s') && time.as_bytes()[3] == b'.' => {
                format!("  0.00s{}", &line[7..])
            }
            Some(_) | None => line.to_owned(),
        };
        let line = ["pid ", "kill -9 "]
            .into_iter()
            .fold(line, |line, before| without_number(&line, before));
        format!("{line}\n")
    };
    text.lines().map(line).collect()
}

fn without_number(line: &str, before: &str) -> String {
    let Some((head, rest)) = line.split_once(before) else {
        return line.to_owned();
    };
    let end = rest.trim_start_matches(|char: char| char.is_ascii_digit());
    if end.len() == rest.len() {
        return line.to_owned();
    }
    format!("{head}{before}<pid>{end}")
}

#[tokio::test]
async fn a_demo_shows_what_it_claims_and_leaves_nothing() {
    let machine = Machine::new();
    let told = shown(machine.spec(&[])).await;
    machine.is_clean().await;
    if told.contains("no sandbox here") {
        skipped("what a demo shows with a sandbox: this machine offers none");
        assert!(told.starts_with("exit 0\n"), "{told}");
        return;
    }
    assert_snapshot!(masked(&told));
}

#[tokio::test]
async fn the_demo_of_fanout_is_killed_continued_retried_and_leaves_nothing() {
    let machine = Machine::new();
    let told = shown(machine.spec(&["fanout"])).await;
    machine.is_clean().await;
    assert!(told.starts_with("exit 0\n"), "{told}");
    // In this order; lines of progress depend on the machine.
    let mut rest = told.as_str();
    for part in [
        "files.csv: 12 rows",
        "$ turnlane fanout run files.csv --id path --instruction 'Review {path}'",
        "6 rows have ended, one of them failed; 6 agents run",
        "kill -9 ",
        "continuing job files",
        "files  11/12 ok  1 failed",
        "$ turnlane fanout items files --state failed",
        "src/legacy.rs  failed  1        0       bad_request: the provider refused this prompt",
        "$ turnlane fanout retry files",
        "1 item runs again",
        "files  12/12 ok",
        "path,job_id,item_id,row_index",
        "13 lines in reviews.csv",
        "  results    12\n  attempts   19: 12 rows, 7 again (6 by the kill, 1 by the retry)\n  lost       0\n  \
         doubled    0\n",
        "What to type next",
    ] {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("{part:?} is not in its place: {told}"));
        rest = &rest[at + part.len()..];
    }
    let refused = shown(machine.spec(&["fanout", "--yes"])).await;
    assert!(refused.starts_with("exit 2\n"), "{refused}");
    assert!(
        refused.contains("--yes is of the demo of a queue"),
        "{refused}"
    );
}

#[tokio::test]
async fn without_a_sandbox_it_says_so_and_goes_on() {
    let machine = Machine::new();
    let told = shown(machine.spec(&["--no-sandbox", "--yes"])).await;
    machine.is_clean().await;
    assert!(told.starts_with("exit 0\n"), "{told}");
    let says = "no sandbox here (--no-sandbox was given; see `turnlane doctor`): the demo's own \
                commands run without one";
    for part in [
        says,
        "../outside.txt: written",
        "accepted: the demo plays the person who accepts, as you told it to",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("sandboxed"), "{told}");
}

#[tokio::test]
async fn what_is_kept_is_named_and_can_be_looked_at() {
    let machine = Machine::new();
    let output = run(machine.spec(&["--keep"])).await;
    assert!(output.status.success(), "{}", output.stderr_tail);
    let kept = entries(&machine.tmp());
    let [kept] = kept.as_slice() else {
        panic!("{kept:?}");
    };
    let said = format!(
        "kept: {0}\n  TURNLANE_HOME={0}/home turnlane thread list\n",
        kept.canonicalize().unwrap().display()
    );
    assert_eq!(output.stderr_tail, said);
    let list = turnlane(&["thread", "list"]).env("TURNLANE_HOME", kept.join("home"));
    let list = shown(list).await;
    assert!(list.contains("What is in this folder?"), "{list}");
    assert!(!kept.join("work/build").exists());
    assert_eq!(of_folder(&machine.tmp()), Vec::<String>::new());
}

#[tokio::test]
async fn a_signal_at_any_moment_leaves_nothing() {
    let moments = [
        "1. A queue",
        "turns accepted",
        "turn 2 of 5",
        "the agent asks",
        "check runs as pid",
        "3. kill -9",
        "4. Another worker",
        "attempt 2",
    ];
    let mut stopped = 0;
    for (number, moment) in moments.into_iter().enumerate() {
        let machine = Machine::new();
        let mut demo = Following::new(machine.spec(&[]));
        demo.until(moment).await;
        let signal = [Signal::INT, Signal::TERM][number % 2];
        let pid = Pid::from_raw(demo.process.pid()).unwrap();
        kill_process(pid, signal).unwrap();
        let (code, told, stderr) = demo.end().await;
        machine.is_clean().await;
        // A demo does not wait for signals, so on a busy machine one may come too late.
        if code == Some(0) {
            assert!(told.contains("What to type next"), "{told}");
            continue;
        }
        stopped += 1;
        let expected = [Some(130), None][number % 2];
        assert_eq!(code, expected, "{moment}: {stderr}");
        assert_eq!(stderr, "stopped: nothing of the demo runs any more\n");
    }
    assert!(stopped > 0, "every signal came too late");
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_it_without_a_word() {
    let machine = Machine::new();
    let mut demo = turnlane_testkit::TestProcess::start(machine.spec(&[])).unwrap();
    drop(demo.take_stdout());
    let status = demo.wait(DEADLINE).await.unwrap();
    assert_eq!(
        (status.code(), demo.stderr_tail().as_str()),
        (Some(0), ""),
        "as `turnlane demo | head` does"
    );
    machine.is_clean().await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_says_what_to_do() {
    let machine = Machine::new();
    let file = machine.home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let long = machine.tmp().join("x".repeat(90));
    std::fs::create_dir(&long).unwrap();
    let mut all = String::new();
    for tmp in [&file, &machine.home.path().join("missing"), &long] {
        let told = shown(machine.spec(&[]).env("TMPDIR", tmp)).await;
        let home = machine.home.path().canonicalize().unwrap();
        let told = told.replace(home.to_str().unwrap(), "<home>");
        all += &told.replace(machine.home.path().to_str().unwrap(), "<home>");
    }
    assert_eq!(entries(&long), Vec::<PathBuf>::new());
    // Its name holds the pid.
    let all: Vec<_> = all.split("turnlane-demo-").collect();
    let cut = |part: &&str| {
        part.trim_start_matches(|char: char| char.is_ascii_digit())
            .to_owned()
    };
    let all: Vec<_> = all.iter().map(cut).collect();
    assert_snapshot!(all.join("turnlane-demo-"));
}

#[tokio::test]
async fn a_command_that_is_missing_ends_it_in_order() {
    let machine = Machine::new();
    let told = shown(machine.spec(&[]).env("PATH", machine.tmp())).await;
    machine.is_clean().await;
    assert!(told.starts_with("exit 1\n"), "{told}");
    assert!(told.contains("error: cannot run `sh`: "), "{told}");
}

#[tokio::test]
async fn a_command_that_fails_is_not_called_a_success() {
    let machine = Machine::new();
    let programs = machine.home.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink("/bin/sh", programs.join("sh")).unwrap();
    let told = shown(machine.spec(&[]).env("PATH", programs)).await;
    machine.is_clean().await;
    assert!(told.starts_with("exit 1\n"), "{told}");
    let error = "\nerror: the command `sh report.sh` ended with exit code 127\n";
    assert!(told.contains(error), "{told}");
}

#[tokio::test]
async fn everything_to_type_next_exists() {
    let machine = Machine::new();
    let output = run(machine.spec(&[])).await;
    let told = String::from_utf8(output.stdout).unwrap();
    let (_, next) = told.split_once("What to type next\n").unwrap();
    let ours = next
        .lines()
        .filter_map(|line| line.strip_prefix("  turnlane "));
    let mut count = 0;
    for line in ours {
        count += 1;
        let typed = line.split("  ").next().unwrap();
        let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
        let words: Vec<_> = typed.split(' ').take_while(is_word).collect();
        let mut arguments = words.clone();
        arguments.push("--help");
        let help = shown(turnlane(&arguments)).await;
        assert!(help.starts_with("exit 0\n"), "{typed}: {help}");
        for flag in typed.split(' ').filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag), "{typed}: {help}");
        }
    }
    assert_eq!(count, 5, "{next}");
    assert!(next.contains("codex --remote unix://$HOME/.turnlane/run/app-server.sock\n"));
}

/// A demo at a terminal.
struct AtTerminal {
    service: ProcessService,
    process: Process,
    output: Output,
    seen: String,
}

impl AtTerminal {
    async fn start(machine: &Machine, arguments: &[&str]) -> Self {
        let service = ProcessService::start(Options::default()).unwrap();
        let mut env = EnvSpec::default();
        for (name, value) in machine.env() {
            env.vars.insert(name.into(), value.into());
        }
        let argv = [env!("CARGO_BIN_EXE_turnlane"), "demo"];
        let argv = argv.into_iter().chain(arguments.iter().copied());
        let spec = Spec {
            env,
            io: Io::Pty(TerminalSize { rows: 24, cols: 72 }),
            containment: Containment::Group,
            ..Spec::new(argv, machine.home.workspace())
        };
        let process = service.spawn(spec).await.unwrap();
        let output = process.output().unwrap();
        Self {
            service,
            process,
            output,
            seen: String::new(),
        }
    }

    /// Reads until this stands there, or to the end.
    async fn read_until(&mut self, text: Option<&str>) {
        while !text.is_some_and(|text| self.seen.contains(text)) {
            match within("output", DEADLINE, self.output.next())
                .await
                .unwrap()
            {
                Some(Event::Output { bytes, .. }) => {
                    self.seen.push_str(&String::from_utf8_lossy(&bytes));
                }
                Some(Event::Exited { .. }) => {}
                Some(Event::Closed { .. }) | None => {
                    assert_eq!(text, None, "{}", self.seen);
                    return;
                }
            }
        }
    }

    async fn types(&self, keys: &'static str) {
        self.process.write(keys.into()).await.unwrap();
    }

    /// Its exit code and all that was shown.
    async fn end(mut self) -> (i32, String) {
        self.read_until(None).await;
        let status = self.process.wait(Until::Exited, Some(DEADLINE)).await;
        self.service.stop().await;
        (status.unwrap().code, self.seen)
    }
}

#[tokio::test]
async fn a_person_at_a_terminal_is_asked_and_may_say_no() {
    let machine = Machine::new();
    let mut demo = AtTerminal::start(&machine, &["--fast"]).await;
    demo.read_until(Some("y or n, then Enter")).await;
    demo.types("perhaps\nn\n").await;
    let (code, told) = demo.end().await;
    assert_eq!(code, 0, "{told}");
    for part in [
        "declined: you answered",
        "declined: not run",
        "I left the old build as it is.",
        // A terminal has colours.
        "\u{1b}[1m3. kill -9",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    machine.is_clean().await;
}

#[tokio::test]
async fn a_person_who_says_nothing_is_answered_for_as_announced() {
    let machine = Machine::new();
    let demo = AtTerminal::start(&machine, &["--fast", "--color", "never"]).await;
    let (code, told) = demo.end().await;
    assert_eq!(code, 0, "{told}");
    let accepted = "accepted: no answer came, so the demo plays the person who accepts";
    let words: Vec<_> = told.split_whitespace().collect();
    assert!(words.join(" ").contains(accepted), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");
    // What is longer than the terminal is wide is broken, and nothing of it is lost.
    assert!(!told.contains('…'), "{told}");
    let longest = told.lines().map(|line| line.trim_end().chars().count());
    let timed = told.lines().filter(|line| line.get(3..4) == Some("."));
    assert!(
        timed
            .map(|line| line.trim_end().chars().count())
            .max()
            .unwrap()
            <= 72
    );
    assert!(longest.max().unwrap() <= 100, "{told}");
    machine.is_clean().await;
}

#[tokio::test]
async fn control_c_at_the_question_cleans_up() {
    let machine = Machine::new();
    let mut demo = AtTerminal::start(&machine, &["--fast"]).await;
    demo.read_until(Some("y or n, then Enter")).await;
    demo.types("\u{3}").await;
    let (code, told) = demo.end().await;
    assert_eq!(code, 130, "{told}");
    assert!(
        told.contains("stopped: nothing of the demo runs any more"),
        "{told}"
    );
    machine.is_clean().await;
}
