//! A home in which both engines find the real Codex, and the questions that tests ask about it.
//!
//! The invariant here: a process of Codex belongs to a home exactly if its first argument is the link
//! in that home. A model call counts for a text if that text is the last one of the user in it and no
//! tool has answered since.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{
    MOCK_KEY, MOCK_KEY_VARIABLE, ProcessSpec, Provider, TempHome, TestClient, TestProcess, skipped,
};

use crate::app_server::ends::is_alive;
use crate::app_server::ok;
use crate::serve::{self, Daemon};

/// The variable of the provider's key in Codex's configuration. Codex gets no variable of ours.
pub(crate) const KEY_VARIABLE: &str = "MOCK_PROVIDER_KEY";

/// Makes Codex read the key of the mock from [`KEY_VARIABLE`].
pub(crate) fn name_key_for_codex(home: &TempHome) {
    let config = home.codex().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(MOCK_KEY_VARIABLE, KEY_VARIABLE)).unwrap();
}

/// A home with a model and the real Codex.
pub(super) struct World {
    pub(super) mock: MockModel,
    pub(super) home: TempHome,
}

impl World {
    /// None, and said so, where there is no Codex.
    pub(super) async fn new(
        reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Option<Self> {
        let Ok(codex) = std::env::var("TURNLANE_TEST_CODEX") else {
            skipped(
                "engines codex and codex-exec: TURNLANE_TEST_CODEX does not name the Codex CLI",
            );
            return None;
        };
        let mock = MockModel::start().await.unwrap();
        mock.choose_with(move |request| Some(reply(request)));
        let home = TempHome::new().unwrap();
        let provider = Provider {
            request_max_retries: Some(0),
            stream_max_retries: Some(0),
            ..Provider::default()
        };
        home.use_provider(&mock.base_url(), &provider).unwrap();
        name_key_for_codex(&home);
        let world = Self { mock, home };
        std::fs::create_dir(world.bin()).unwrap();
        std::os::unix::fs::symlink(codex, world.program()).unwrap();
        std::fs::create_dir(world.home.workspace().join(".git")).unwrap();
        let config = world.home.turnlane().join("config.toml");
        let mut text = std::fs::read_to_string(&config).unwrap();
        let program = json!(world.program());
        writeln!(text, "\n[engine.codex]\nprogram = {program}").unwrap();
        std::fs::write(&config, text).unwrap();
        Some(world)
    }

    /// The folder of Codex's link.
    pub(super) fn bin(&self) -> PathBuf {
        self.home.path().join("bin")
    }

    fn program(&self) -> PathBuf {
        self.bin().join("codex")
    }

    /// The folder that threads work in.
    pub(super) fn work(&self) -> PathBuf {
        self.home.workspace().canonicalize().unwrap()
    }

    /// The binary with these arguments.
    pub(super) fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        self.equipped(crate::turnlane(arguments).envs(self.home.env()))
    }

    fn equipped(&self, spec: ProcessSpec) -> ProcessSpec {
        spec.env(KEY_VARIABLE, MOCK_KEY)
            .current_dir(self.home.workspace())
    }

    /// A daemon with these arguments.
    pub(super) fn serve_spec(&self, arguments: &[&str]) -> ProcessSpec {
        self.equipped(serve::spec(&self.home, arguments))
    }

    /// A daemon that dies at a crash point, if one is named.
    pub(super) async fn daemon(&self, point: Option<&str>) -> Daemon {
        let mut spec = self.serve_spec(&[]);
        if let Some(point) = point {
            spec = spec.env("TURNLANE_CRASH_AT", point);
        }
        Daemon::of(&self.home, TestProcess::start(spec).unwrap()).await
    }

    /// A command whose output is JSON: every line of it.
    pub(super) async fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let output = crate::run(self.spec(arguments).args(["--json"])).await;
        let said = &output.stderr_tail;
        assert!(output.status.success(), "{arguments:?}: {said}");
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |line: &str| serde_json::from_str(line).unwrap();
        text.lines().map(line).collect()
    }

    /// The processes of Codex with this command, such as `app-server` or `exec`.
    pub(super) fn children(&self, command: &str) -> Vec<i32> {
        let named = |(_, arguments): &(i32, Vec<String>)| {
            arguments.get(1).is_some_and(|word| word == command)
        };
        let children = self.processes().into_iter().filter(named);
        children.map(|(pid, _)| pid).collect()
    }

    /// The process of Codex with this command, when there is one.
    pub(super) async fn child(&self, command: &str) -> i32 {
        let mut child = None;
        let there = async || {
            child = self.children(command).first().copied();
            child.is_some()
        };
        let what = format!("codex {command}");
        eventually(&what, DEADLINE, there).await.unwrap();
        child.unwrap()
    }

    /// The processes of Codex in this home, each with its arguments.
    fn processes(&self) -> Vec<(i32, Vec<String>)> {
        let program = self.program();
        let entries = std::fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let of_home = |pid: i32| {
            // What has ended since has no arguments.
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let arguments = line.split(|byte| *byte == 0);
            let arguments: Vec<String> = arguments
                .map(|argument| String::from_utf8_lossy(argument).into_owned())
                .collect();
            let is_ours = Path::new(arguments.first()?) == program && is_alive(pid);
            is_ours.then_some((pid, arguments))
        };
        pids.filter_map(of_home).collect()
    }

    /// Waits until no process of Codex is left in this home.
    pub(super) async fn no_codex_left(&self) {
        let none = async || self.processes().is_empty();
        let gone = eventually("the end of every Codex process", DEADLINE, none).await;
        gone.unwrap_or_else(|error| panic!("{error}: {:?}", self.processes()));
    }

    /// How often the model was asked to do what this text says.
    pub(super) fn calls(&self, text: &str) -> usize {
        let requests = self.mock.requests();
        let of_text = requests
            .iter()
            .filter(|request| request.last_user_text() == text && !is_answered(request));
        of_text.count()
    }

    /// Returns true if it is recorded that the engine may have seen the turn of a row.
    pub(super) fn is_sent(&self, row: &str) -> bool {
        let database = self.database();
        let sql = "SELECT sent FROM queued_turn WHERE id = ?1";
        let sent = database.query_row(sql, [row], |row| row.get::<_, bool>(0));
        // A row that is done may be gone.
        sent.unwrap_or(true)
    }

    /// Returns true if the same is recorded of any row of a thread.
    pub(super) fn has_sent(&self, thread: &str) -> bool {
        let sql = "SELECT EXISTS(SELECT 1 FROM queued_turn WHERE thread_id = ?1 AND sent)";
        let sent = self.database().query_row(sql, [thread], |row| row.get(0));
        sent.unwrap()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the mark is not shown by any request, and is only read here"
    )]
    fn database(&self) -> rusqlite::Connection {
        let path = self.home.turnlane().join(DATABASE);
        let database = rusqlite::Connection::open(path).unwrap();
        database.busy_timeout(DEADLINE).unwrap();
        database
    }
}

/// The database in our home.
const DATABASE: &str = "turnlane.db";

/// Returns true if a tool has answered since the last text of the user.
pub(super) fn is_answered(request: &RecordedRequest) -> bool {
    let last = request.input().last();
    last.is_some_and(|item| item["type"] == "function_call_output")
}

pub(super) fn signal(pid: i32, signal: Signal) {
    // One that has ended meanwhile needs no signal.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// The turns of a thread as they are stored.
pub(super) async fn stored_turns(client: &mut TestClient, thread: &str) -> Vec<Value> {
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = ok(client, "thread/read", params).await;
    read["thread"]["turns"].as_array().unwrap().clone()
}

/// The text that a turn began with.
pub(super) fn text_of(turn: &Value) -> &str {
    turn["items"][0]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}
