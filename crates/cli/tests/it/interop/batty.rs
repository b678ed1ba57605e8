//! batty's own orchestrator and its chat command, with our binary as the shim and the real Codex as the agent.
//!
//! The board tool of batty, `kanban-md`, is a script that does nothing: batty only asks whether it starts, and
//! keeps the files of the board itself.

use std::path::PathBuf;
#[expect(
    clippy::disallowed_types,
    reason = "the kit's processes cannot be waited for in a drop"
)]
use std::process::Command;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use turnlane_testkit::mock_model::{Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::{eventually, within};
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE, Output, ProcessSpec, TempHome, TestProcess};

use super::{PATIENCE, installed};

/// The key of the model; the agent does not get variables whose names begin with `TURNLANE_`.
const KEY_VARIABLE: &str = "MOCK_MODEL_KEY";

/// One engineer with a work tree of its own, and the person who assigns its tasks.
const TEAM: &str = r#"name: turnlane
use_shim: true
orchestrator_pane: false
board:
  auto_dispatch: false
workflow_policy:
  verification:
    test_command: "true"
roles:
  - name: human
    role_type: user
    talks_to: [eng]
  - name: eng
    role_type: engineer
    agent: codex
    instances: 1
    prompt: engineer.md
    use_worktrees: true
"#;

const TASK: &str = "---
id: 1
title: answer
status: todo
priority: high
class: standard
---

Write answer.rs.
";

/// Makes the programs, the repository and the board. A shell writes the programs: a descriptor of ours that
/// another test's child inherits would make their start fail with "text file busy".
const PREPARE: &str = r#"set -e
mkdir -p "$ROOT/bin" "$ROOT/tmp" "$ROOT/t"
ln -s "$CODEX" "$ROOT/bin/codex"
ln -s "$BATTY" "$ROOT/bin/batty"
ln -s "$TMUX_PROGRAM" "$ROOT/bin/tmux"
printf '#!/bin/sh\nexit 0\n' > "$ROOT/bin/kanban-md"
chmod 755 "$ROOT/bin/kanban-md"
git init -q -b main
git config user.name engineer
git config user.email engineer@localhost
printf '.batty/\n' > .gitignore
git add .gitignore
git commit -q -m 'the beginning'
team=.batty/team_config
mkdir -p "$team/board/tasks"
printf 'tasks_dir: tasks\n' > "$team/board/config.yml"
printf '%s' "$TASK" > "$team/board/tasks/001-answer.md"
printf '%s' "$TEAM" > "$team/team.yaml"
echo 'You are an engineer.' > "$team/engineer.md"
"#;

/// A repository with a team, and the model of its agent.
struct Team {
    home: TempHome,
    batty: String,
    model: MockModel,
}

impl Team {
    async fn new() -> Option<Self> {
        let batty = installed("TURNLANE_TEST_BATTY", "batty's orchestrator")?;
        let codex = installed("TURNLANE_TEST_CODEX", "the agent of batty's orchestrator")?;
        let tmux = installed("TURNLANE_TEST_TMUX", "a terminal for batty's orchestrator")?;
        let model = MockModel::start().await.unwrap();
        model.choose_with(|request| Some(work(request)));
        let home = TempHome::new().unwrap();
        home.use_model(&model.base_url()).unwrap();
        let config = home.codex().join("config.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        // The repository of a work tree is outside of it, and a commit writes there.
        let open = "sandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"\n";
        let text = format!("{open}{text}").replace(MOCK_KEY_VARIABLE, KEY_VARIABLE);
        std::fs::write(&config, text).unwrap();
        let team = Self { home, batty, model };
        let prepare = team
            .with_environment(ProcessSpec::shell(PREPARE))
            .env("ROOT", team.home.path())
            .env("BATTY", &team.batty)
            .env("CODEX", codex)
            .env("TMUX_PROGRAM", tmux)
            .env("TASK", TASK)
            .env("TEAM", TEAM);
        let prepared = TestProcess::run(prepare, PATIENCE).await.unwrap();
        assert!(prepared.status.success(), "{}", prepared.stderr_tail);
        Some(team)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let mut variables = self.home.env();
        variables.retain(|(name, _)| name != "PATH" && name != "TMPDIR");
        let root = self.home.path().display();
        let path = std::env::var("PATH").unwrap_or_default();
        let ours = env!("CARGO_BIN_EXE_turnlane").to_owned();
        variables.extend([
            ("PATH".to_owned(), format!("{root}/bin:{path}")),
            ("TMPDIR".to_owned(), format!("{root}/tmp")),
            ("TMUX_TMPDIR".to_owned(), format!("{root}/t")),
            ("BATTY_BINARY_PATH".to_owned(), ours),
            (KEY_VARIABLE.to_owned(), MOCK_KEY.to_owned()),
        ]);
        variables
    }

    fn with_environment(&self, spec: ProcessSpec) -> ProcessSpec {
        spec.envs(self.variables())
            .current_dir(self.home.workspace())
    }

    async fn batty(&self, arguments: &[&str]) -> Output {
        let spec = ProcessSpec::new(&self.batty).args(arguments.iter().copied());
        let output = TestProcess::run(self.with_environment(spec), PATIENCE).await;
        let output = output.unwrap();
        let tail = &output.stderr_tail;
        assert!(output.status.success(), "batty {arguments:?}: {tail}");
        output
    }

    fn directory(&self) -> PathBuf {
        self.home.workspace().join(".batty")
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.directory().join(file)).unwrap_or_default()
    }

    fn messages(&self, folder: &str) -> usize {
        let inbox = self.directory().join("inboxes/eng").join(folder);
        std::fs::read_dir(inbox).map_or(0, Iterator::count)
    }

    /// Waits for a text in a file of batty's.
    async fn see(&self, file: &str, text: &str) {
        let seen = async || self.read(file).contains(text);
        if let Err(error) = eventually(text, PATIENCE, seen).await {
            let logs = ["daemon.log", "shim-logs/eng.events.log"];
            panic!("{error}\n{}", logs.map(|log| self.read(log)).join("\n"));
        }
    }

    /// The command lines of processes with this team's directory in them.
    fn processes(&self) -> Vec<String> {
        let root = self.home.path().to_str().unwrap();
        let line = |entry: std::io::Result<std::fs::DirEntry>| {
            let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(root).then_some(line)
        };
        let entries = std::fs::read_dir("/proc").unwrap();
        entries.filter_map(line).collect()
    }
}

impl Drop for Team {
    /// The daemon and its terminal are in sessions of their own, so they would outlive a failed test.
    #[expect(clippy::disallowed_types, reason = "see the import")]
    fn drop(&mut self) {
        for (program, argument) in [(self.batty.as_str(), "stop"), ("tmux", "kill-server")] {
            let mut command = Command::new(program);
            command.arg(argument).env_clear().envs(self.variables());
            let _ = command.current_dir(self.home.workspace()).output();
        }
    }
}

/// Writes the file of the task once, and answers everything else with a sentence.
fn work(request: &RecordedRequest) -> Reply {
    let is_message = request
        .input()
        .last()
        .is_some_and(|item| item["type"] == "message");
    if is_message && request.last_user_text().contains("Write answer.rs.") {
        let cmd =
            "echo 'fn answer() {}' > answer.rs && git add answer.rs && git commit -q -m answer";
        let arguments = json!({"cmd": cmd, "yield_time_ms": 30_000});
        return Reply::of([Item::function_call("exec_command", arguments).call_id("the_work")]);
    }
    Reply::text("hello from the model")
}

#[tokio::test]
async fn batty_works_a_task_from_its_inbox_to_completion_with_our_shim() {
    let Some(team) = Team::new().await else {
        return;
    };
    team.batty(&["start"]).await;
    team.see("shim-logs/eng.events.log", "<- ready").await;
    team.batty(&["assign", "eng", "Task #1: answer"]).await;
    team.see("team_config/events.jsonl", "\"event\":\"task_completed\"")
        .await;

    let task = team.read("team_config/board/tasks/001-answer.md");
    assert!(task.contains("\nstatus: done\n"), "{task}");
    assert!(task.contains("\noutcome: verification_passed\n"), "{task}");
    // batty merged what the agent committed in its work tree.
    let merged = team.home.workspace().join("answer.rs");
    assert_eq!(std::fs::read_to_string(merged).unwrap(), "fn answer() {}\n");
    assert_eq!((team.messages("new"), team.messages("cur")), (0, 1));

    // A message after the task is a further turn of the same thread.
    team.batty(&["send", "eng", "well done"]).await;
    let said = async || {
        team.read("shim-logs/eng.events.log")
            .matches("<- completion")
            .count()
            == 2
    };
    eventually("a second completion", PATIENCE, said)
        .await
        .unwrap();
    let log = team.read("shim-logs/eng.events.log");
    assert!(log.contains("<- message_delivered"), "{log}");
    assert!(
        !log.contains("<- error") && !log.contains("<- died"),
        "{log}"
    );
    let model = team.model.requests();
    let last = model.last().unwrap();
    assert!(last.last_user_text().ends_with("\n\nwell done"), "{last:?}");
    assert!(last.tool_output("the_work").is_some(), "{last:?}");
    let spawned = team.read("team_config/events.jsonl");
    assert_eq!(spawned.matches("agent_spawned").count(), 1, "{spawned}");

    team.batty(&["stop"]).await;
    let gone = async || team.processes().is_empty();
    if let Err(error) = eventually("the end of the team", PATIENCE, gone).await {
        panic!("{error}: {:?}", team.processes());
    }
}

/// `batty chat` starts its own program again as the shim, by the path that the kernel tells. The path of a
/// removed program ends with ` (deleted)`, and there our binary stands.
const CHAT: &str = r#"set -e
mkdir chat
cp "$BATTY" chat/batty
ln -s "$BATTY_BINARY_PATH" 'chat/batty (deleted)'
exec 9< chat/batty
rm chat/batty
exec /proc/self/fd/9 chat --agent-type codex --cwd .
"#;

#[tokio::test]
async fn the_chat_command_of_batty_talks_to_our_shim() {
    let Some(team) = Team::new().await else {
        return;
    };
    let spec = team
        .with_environment(ProcessSpec::shell(CHAT))
        .env("BATTY", &team.batty);
    let mut chat = TestProcess::start(spec).unwrap();
    let is_ready = |line: &str| line.contains("agent is ready");
    chat.wait_for_stderr_line(is_ready, PATIENCE).await.unwrap();
    let mut input = chat.take_stdin().unwrap();
    let mut output = BufReader::new(chat.take_stdout().unwrap());
    let mut line = String::new();
    // Before the first message: batty takes the next event of any kind for the answer to a command.
    for (command, expected) in [
        (":ping\n", "[pong]"),
        (":state\n", "[state: idle, since: "),
        (":screen\n", "--- screen capture (cursor at 0,0) ---"),
        ("hello\n", "hello from the model"),
        ("hello again\n", "hello from the model"),
    ] {
        input.write_all(command.as_bytes()).await.unwrap();
        let answer = async {
            loop {
                line.clear();
                let count = output.read_line(&mut line).await.unwrap();
                assert!(count > 0, "no {expected} in {}", chat.stderr_tail());
                if line.contains(expected) {
                    return;
                }
            }
        };
        within(expected, PATIENCE, answer).await.unwrap();
    }
    input.write_all(b":quit\n").await.unwrap();
    let mut rest = String::new();
    let end = output.read_to_string(&mut rest);
    within("the end of the chat", PATIENCE, end)
        .await
        .unwrap()
        .unwrap();
    let status = chat.wait(PATIENCE).await.unwrap();
    assert!(status.success(), "{}", chat.stderr_tail());
    assert_eq!(team.model.requests().len(), 2);
    assert_eq!(team.processes(), Vec::<String>::new());
}
