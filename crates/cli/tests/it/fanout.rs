//! Fan-out jobs by the whole binary: the native engine, a mock model, and the table that comes out.

mod caps;
mod commands;
mod exit_codes;
mod faults;
mod kills;
mod parents;
mod reference;
mod requests;
mod trees;
mod workers;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use turnlane_testkit::mock_model::{Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{Output, ProcessSpec, Provider, TempHome, TestProcess};

use crate::run;

/// The first line of every worker prompt.
const WORKER: &str = "You are processing one item for a generic agent job.";

/// A run over `in.csv` whose results go to `out.csv`.
const RUN: [&str; 6] = [
    "run",
    "in.csv",
    "--instruction",
    "do {name}",
    "-o",
    "out.csv",
];

/// A home whose provider is a mock model, and a working directory.
struct World {
    mock: MockModel,
    home: TempHome,
}

impl World {
    /// A world whose model answers with `reply` and whose engine never repeats a failed request.
    async fn new(reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let mock = MockModel::start().await.unwrap();
        mock.choose_with(move |request| Some(reply(request)));
        let home = TempHome::new().unwrap();
        let provider = Provider {
            request_max_retries: Some(0),
            stream_max_retries: Some(0),
            ..Provider::default()
        };
        home.use_provider(&mock.base_url(), &provider).unwrap();
        Self { mock, home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.workspace().canonicalize().unwrap().join(name)
    }

    /// Writes a table with the column `name` and the rows `n0`, `n1` and so on.
    fn write_rows(&self, name: &str, rows: usize) {
        let cells = (0..rows).map(|row| format!("n{row}"));
        let lines: Vec<_> = std::iter::once("name".to_owned()).chain(cells).collect();
        std::fs::write(self.path(name), lines.join("\n") + "\n").unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        crate::turnlane(arguments)
            .envs(self.home.env())
            .current_dir(self.home.workspace())
    }

    /// The prompt by which a parent fans out over `in.csv`, see [`parent_reply`].
    fn task(&self) -> String {
        let (input, output) = (self.path("in.csv"), self.path("out.csv"));
        format!("{} {}", input.display(), output.display())
    }

    /// Runs `turnlane fanout` to its end.
    async fn fanout(&self, arguments: &[&str]) -> Output {
        run(self.spec(&["fanout"]).args(arguments.iter().copied())).await
    }

    /// Runs `in.csv` with these flags to the end of the command.
    async fn run(&self, flags: &[&str]) -> Output {
        self.fanout(&[&RUN[..], flags].concat()).await
    }

    /// Starts a run of `in.csv` with these flags.
    fn start(&self, flags: &[&str]) -> TestProcess {
        let arguments = [&["fanout"][..], &RUN, flags].concat();
        TestProcess::start(self.spec(&arguments)).unwrap()
    }

    /// Starts a daemon and waits until it answers.
    async fn serve(&self) -> TestProcess {
        let serve = self.spec(&["serve"]).current_dir(self.home.path());
        let serve = TestProcess::start(serve).unwrap();
        eventually("the daemon", DEADLINE, async || {
            run(self.spec(&["status"])).await.status.code() == Some(0)
        })
        .await
        .unwrap();
        serve
    }

    /// The items of the only job, as JSON.
    async fn items(&self) -> Vec<Value> {
        let id = self.job().await["id"].as_str().unwrap().to_owned();
        let listed = self.fanout(&["items", &id, "--json"]).await;
        ends_with(&listed, 0);
        lines(&listed)
    }

    /// Adds lines to the config file.
    fn configure(&self, text: &str) {
        let config = self.home.turnlane().join("config.toml");
        let before = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{before}\n{text}\n")).unwrap();
    }

    /// The only job of the store.
    async fn job(&self) -> Value {
        let listed = self.fanout(&["list", "--json"]).await;
        let mut jobs = lines(&listed);
        assert_eq!(jobs.len(), 1, "{jobs:?} {}", listed.stderr_tail);
        jobs.remove(0)
    }

    /// The requests of workers, counted by item.
    fn requests_by_item(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in self.mock.requests() {
            if let Some(prompt) = worker_prompt(&request) {
                *counts.entry(line_of(&prompt, "Item ID: ")).or_default() += 1;
            }
        }
        counts
    }
}

/// The JSON lines on standard output.
fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let read = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(read).collect()
}

/// The exit code must be this one.
fn ends_with(output: &Output, code: i32) {
    let shown = String::from_utf8_lossy(&output.stdout);
    let stderr = &output.stderr_tail;
    assert_eq!(output.status.code(), Some(code), "{shown}\n{stderr}");
}

/// The worker prompt that a request holds; none if the request is not a worker's.
fn worker_prompt(request: &RecordedRequest) -> Option<String> {
    let texts = request.input().iter().filter_map(|item| {
        let parts = item["content"].as_array()?;
        parts.first()?["text"].as_str()
    });
    texts
        .filter(|text| text.starts_with(WORKER))
        .map(str::to_owned)
        .next()
}

/// The rest of the line of a prompt that begins with `start`.
fn line_of(prompt: &str, start: &str) -> String {
    let rest = prompt.lines().find_map(|line| line.strip_prefix(start));
    rest.unwrap_or_else(|| panic!("no line {start:?} in {prompt}"))
        .to_owned()
}

/// The call that reports `{"ok":true}` for the item of this request.
fn report(request: &RecordedRequest) -> Item {
    let prompt = worker_prompt(request)
        .unwrap_or_else(|| panic!("not the request of a worker: {}", request.body));
    let arguments = json!({
        "job_id": line_of(&prompt, "Job ID: "),
        "item_id": line_of(&prompt, "Item ID: "),
        "result": {"ok": true},
    });
    Item::function_call("report_agent_job_result", arguments)
}

/// The id of the call by which a parent fans out.
const CALL: &str = "call_fanout";

/// The answer to a parent: a call of the tool for the two paths in its prompt, then nothing.
fn parent_reply(request: &RecordedRequest) -> Reply {
    if tool_answers(request) > 0 {
        return Reply::of([]);
    }
    let paths = request.last_user_text();
    let (input, output) = paths.split_once(' ').unwrap();
    let arguments = json!({
        "csv_path": input,
        "instruction": "Describe {name}",
        "output_csv_path": output,
        "max_concurrency": 64,
    });
    Reply::of([Item::function_call("spawn_agents_on_csv", arguments).call_id(CALL)])
}

/// The number of tool answers that a request holds.
fn tool_answers(request: &RecordedRequest) -> usize {
    let input = request.input().iter();
    input
        .filter(|item| item["type"] == "function_call_output")
        .count()
}
