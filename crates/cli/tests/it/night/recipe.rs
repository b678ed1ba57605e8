//! The README's night, from an empty home to the morning, typed as it stands there: a model that edits
//! files, a terminal that closes, a stop in the middle of a turn, and one approval.
//!
//! The invariant here: the morning finds all work done, and nobody was needed but for the approval.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turnlane_process::{Target, Until};
use turnlane_testkit::mock_model::{At, MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{ProcessSpec, TempHome};

use super::Terminal;

const README: &str = include_str!("../../../../../README.md");

/// The commands of the README's section about the night: the evening's and the morning's.
fn recipe() -> [&'static str; 2] {
    let (_, section) = README.split_once("## Queue work overnight\n").unwrap();
    let mut blocks = section.split("```sh\n").skip(1);
    [(); 2].map(|()| blocks.next().unwrap().split_once("```").unwrap().0)
}

/// A home, a model, and `turnlane` on the path.
struct Night {
    home: TempHome,
    mock: MockModel,
}

impl Night {
    async fn new() -> Self {
        let (home, mock) = (TempHome::new().unwrap(), MockModel::start().await.unwrap());
        home.use_model(&mock.base_url()).unwrap();
        let config = home.turnlane().join("config.toml");
        let mut text = std::fs::read_to_string(&config).unwrap();
        // A turn that is cut by a stop is cut at once.
        text.push_str("\n[server]\nshutdown_grace = \"0s\"\n");
        std::fs::write(config, text).unwrap();
        std::fs::create_dir(home.path().join("bin")).unwrap();
        let program = home.path().join("bin/turnlane");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_turnlane"), program).unwrap();
        Self { home, mock }
    }

    fn env(&self) -> Vec<(String, String)> {
        let mut env = self.home.env();
        for (name, value) in &mut env {
            if name == "PATH" {
                *value = format!("{}:{value}", self.home.path().join("bin").display());
            }
        }
        env
    }

    /// What a script prints; it succeeds.
    async fn types(&self, script: &str) -> String {
        let spec = ProcessSpec::shell(&format!("set -e\n{script}"))
            .envs(self.env())
            .current_dir(self.home.workspace());
        let output = crate::run(spec).await;
        let text = String::from_utf8(output.stdout).unwrap();
        let said = &output.stderr_tail;
        assert_eq!(output.status.code(), Some(0), "{script}\n{text}\n{said}");
        text
    }

    async fn json(&self, command: &str) -> Value {
        let text = self.types(&format!("{command} --json")).await;
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .collect()
    }

    /// The rows of a queue.
    async fn rows(&self, thread: &str) -> Vec<Value> {
        let queue = self.json(&format!("turnlane queue list {thread}")).await;
        queue[0]["data"].as_array().unwrap().clone()
    }

    /// Types a script at a terminal, which is closed when all of it was done.
    async fn types_and_closes_the_terminal(&self, script: &str) {
        let script = format!("set -e\n{script}\necho all was typed; exec cat");
        let argv = ["/bin/sh", "-c", &script];
        let terminal = Terminal::start(&argv, &self.home.workspace(), self.env()).await;
        let shell = &terminal.process;
        let typed = async || {
            let screen = shell.snapshot();
            let text = screen.terminal.text();
            assert!(screen.running, "{text}");
            text.contains("all was typed")
        };
        eventually("the evening's commands", DEADLINE, typed)
            .await
            .unwrap();
        // What a closed window does: the session's leader hears of it, and the terminal is gone.
        assert!(shell.signal(turnlane_process::Signal::Hangup, Target::All));
        let closed = shell.wait(Until::Closed, Some(DEADLINE)).await;
        assert!(closed.is_some());
    }

    async fn daemon(&self) -> Daemon {
        let status = self.json("turnlane serve status").await;
        assert_eq!(status[0]["state"], "running");
        Daemon(i32::try_from(status[0]["pid"].as_i64().unwrap()).unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.workspace().join(name)
    }

    async fn until_idle(&self, thread: &str) {
        self.types(&format!(
            "turnlane thread tail {thread} --until-idle >/dev/null"
        ))
        .await;
    }
}

fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// A daemon that is not our child: ended with the test, however that ends.
struct Daemon(i32);

impl Drop for Daemon {
    fn drop(&mut self) {
        kill(self.0, Signal::TERM);
        kill(self.0, Signal::TERM);
    }
}

fn runs(command: &str) -> Reply {
    Reply::function_call(
        "exec_command",
        json!({"cmd": command, "yield_time_ms": 30_000}),
    )
}

/// How often the model was sent a user message with this text in one request, at most.
fn repeats(requests: &[std::sync::Arc<RecordedRequest>], text: &str) -> usize {
    let count = |request: &RecordedRequest| {
        let messages = request.input().iter();
        let of_user = messages.filter(|item| item["role"] == "user");
        of_user
            .filter(|item| item.to_string().contains(text))
            .count()
    };
    requests.iter().map(|request| count(request)).max().unwrap()
}

#[tokio::test]
async fn the_recipe_of_the_readme_has_done_all_work_in_the_morning() {
    let night = Night::new().await;
    let [evening, morning] = recipe();
    let update = "update the dependencies";
    let (cut, gate) = Reply::text("never seen").gated(At::Request);
    night
        .mock
        .on_text(update, runs("echo 2.0 > dependencies.lock"))
        .on_text(update, cut);
    night.types_and_closes_the_terminal(evening).await;

    // The terminal is gone, and the daemon is not; it is stopped in the middle of the first turn.
    let first = night.daemon().await;
    within("the second model call", DEADLINE, gate.reached())
        .await
        .unwrap();
    assert_eq!(read(&night.file("dependencies.lock")), "2.0\n");
    night.types("turnlane serve stop").await;
    assert_eq!(night.rows("nightly").await.len(), 3);
    drop(first);

    // The next daemon goes on by itself, after the command that was done.
    let goes_on = |request: &RecordedRequest| {
        let text = request.input().last()?.to_string();
        Some(if text.contains("function_call_output") {
            Reply::text("It is done.")
        } else if text.contains("changelog") {
            runs("echo '- dependencies' > CHANGELOG.md")
        } else if text.contains("slow tests") {
            runs("echo passed > slow-tests.log")
        } else {
            runs("echo passed > tests.log")
        })
    };
    night.mock.choose_with(goes_on);
    night.types("turnlane serve --detach").await;
    let _second = night.daemon().await;
    let made = async || night.file("CHANGELOG.md").exists();
    eventually("the changelog", DEADLINE, made).await.unwrap();
    assert_eq!(read(&night.file("tests.log")), "passed\n");
    assert_eq!(repeats(&night.mock.requests(), update), 1);

    // Six hours are too long for a test: a person starts the last turn.
    let rows = night.rows("nightly").await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0]["notBeforeMs"].is_i64(), "{rows:?}");
    night.types("turnlane queue start nightly").await;
    night.until_idle("nightly").await;
    assert_eq!(read(&night.file("slow-tests.log")), "passed\n");

    // A thread that asks waits for its answer, however long that takes.
    let asks = json!({"cmd": "echo pushed > pushed", "sandbox_permissions": "require_escalated",
        "justification": "needs your word"});
    night
        .mock
        .on_text("push it", Reply::function_call("exec_command", asks))
        .on_text("push it", Reply::text("Pushed."));
    night
        .types("turnlane queue add --new --name push -s workspace-write 'push it'")
        .await;
    let asked = async || {
        let open = night.json("turnlane approvals list").await;
        open.as_array().unwrap().len() == 1
    };
    eventually("the question", DEADLINE, asked).await.unwrap();
    let shown = night
        .types(morning.split("turnlane serve stop").next().unwrap())
        .await;
    assert!(shown.contains("needs approval"), "{shown}");
    assert!(!night.file("pushed").exists());
    let open = night.json("turnlane approvals list").await;
    let id = open[0]["approvalId"].as_str().unwrap();
    night
        .types(&format!("turnlane approvals accept {id}"))
        .await;
    night.until_idle("push").await;
    assert_eq!(read(&night.file("pushed")), "pushed\n");

    let threads = night.json("turnlane thread list").await;
    for thread in threads.as_array().unwrap() {
        let name = thread["name"].as_str().unwrap();
        let shown = night.types(&format!("turnlane thread show {name}")).await;
        assert!(shown.contains("completed"), "{shown}");
        assert!(night.rows(name).await.is_empty());
    }
    night.types("turnlane serve stop").await;
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
