//! The home of one case: its processes, its one thread, and the picture of all there is.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt as _;

use serde_json::{Value, json};
use turnlane_rpc::Duplex;
use turnlane_rpc::connect::{self, connect_unix};
use turnlane_testkit::mock_model::{Gate, RecordedRequest};
use turnlane_testkit::wait::{DEADLINE, eventually};
use turnlane_testkit::{ProcessSpec, Provider, TestClient, TestProcess};

use super::model::{MARK, model};
use super::{Case, Do};
use crate::app_server::{Served, Stdio, ends, ok, thread};
use crate::serve::{self, Daemon};

/// A process with its only client.
pub(super) struct Life {
    pub(super) process: TestProcess,
    pub(super) client: TestClient,
}

/// What an add or a start was answered with.
pub(super) struct Known {
    /// The row's id; a turn that was started directly has none that is shown.
    pub(super) row: Option<String>,
    turn: String,
}

pub(super) struct World {
    served: Served,
    /// Way and case, for messages.
    pub(super) says: String,
    pub(super) gate: Gate,
    pub(super) thread: String,
    /// What was answered for, by its text.
    pub(super) known: BTreeMap<&'static str, Known>,
    /// Rows whose deletion was answered, by their text.
    pub(super) deleted: BTreeSet<&'static str>,
}

impl World {
    pub(super) async fn new(says: String) -> Self {
        let gate = Gate::new();
        let served = Served::new(model(gate.clone())).await;
        // A provider that has no capacity is the lane's affair, at once.
        let provider = Provider {
            request_max_retries: Some(0),
            ..Provider::default()
        };
        let url = served.mock.base_url();
        served.home.use_provider(&url, &provider).unwrap();
        Self {
            served,
            says,
            gate,
            thread: String::new(),
            known: BTreeMap::new(),
            deleted: BTreeSet::new(),
        }
    }

    pub(super) fn daemon_process(&self, point: Option<&str>) -> TestProcess {
        let spec = serve::spec(&self.served.home, &[]);
        TestProcess::start(dying_at(spec, point)).unwrap()
    }

    pub(super) async fn daemon(&self, point: Option<&str>) -> Life {
        let daemon = Daemon::of(&self.served.home, self.daemon_process(point)).await;
        let client = daemon.websocket().await;
        Life {
            process: daemon.process,
            client,
        }
    }

    /// A daemon, when it has asked the model everything that the case expects: before anybody is
    /// connected, unless somebody has to do something first.
    pub(super) async fn daemon_that_needs_no_client(&self, case: &Case) -> Life {
        let daemon = Daemon::of(&self.served.home, self.daemon_process(None)).await;
        if case.then.is_empty() {
            let asked = |line: &&&str| line.starts_with("asked ");
            let count = case.rest.iter().filter(asked).count();
            let all = self.served.mock.wait_for_requests(count, DEADLINE).await;
            all.unwrap_or_else(|error| panic!("{}: {error}", self.says));
            assert_eq!(daemon.metric("turnlane_connections_total").await, 0);
        }
        let client = daemon.unix().await;
        Life {
            process: daemon.process,
            client,
        }
    }

    pub(super) fn stdio_process(&self, point: Option<&str>) -> TestProcess {
        TestProcess::start(dying_at(self.served.spec(&[]), point)).unwrap()
    }

    pub(super) async fn stdio(&self, point: Option<&str>) -> Life {
        let Stdio { process, client } = Stdio::of(self.stdio_process(point)).await;
        Life { process, client }
    }

    /// A connection to a daemon that may die before it is ready.
    pub(super) async fn connects_if_it_can(&self, process: &TestProcess) -> Option<Duplex> {
        let ready = |line: &str| line.starts_with("ready");
        process.wait_for_stderr_line(ready, DEADLINE).await.ok()?;
        let socket = self.served.home.turnlane().join("run/app-server.sock");
        connect_unix(&socket, &connect::Options::default())
            .await
            .ok()
    }

    /// Asks a server that may die of it, or before it, to resume the thread.
    pub(super) async fn resumes_if_it_can(&self, duplex: Duplex) {
        let mut client = TestClient::new(duplex);
        let hello = json!({"clientInfo": {"name": "test", "version": "0"}});
        // Whatever is not answered shows in what is found.
        if client.call("initialize", hello).await.is_ok() {
            let _ = client.notify("initialized", json!({})).await;
            let lane = json!({"threadId": self.thread});
            let _ = client.call("thread/resume", lane).await;
            let _ = client.ending().await;
        }
    }

    pub(super) async fn ends_by_kill(&self, mut process: TestProcess) {
        let status = process.wait(DEADLINE).await;
        let status = status.unwrap_or_else(|error| panic!("{}: {error}", self.says));
        assert_eq!(status.signal(), Some(9), "{}", self.says);
    }

    pub(super) async fn make_thread(&mut self, client: &mut TestClient) {
        let more = json!({"sandbox": "danger-full-access"});
        self.thread = thread(client, &self.served.work(), more).await;
    }

    /// Does one thing; whether it was answered.
    pub(super) async fn does(&mut self, client: &mut TestClient, step: Do) -> bool {
        let Some((method, params)) = self.call(step) else {
            self.waits(client, step).await;
            return true;
        };
        let Ok(answer) = client.call(method, params).await else {
            return false;
        };
        let result = &answer["result"];
        assert!(!result.is_null(), "{}: {step:?}: {answer}", self.says);
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let known = match step {
            Do::Add(text, _) => {
                let row = &result["queuedTurn"];
                Some((text, word(&row["id"]), word(&row["turnId"])))
            }
            Do::Direct(text) => Some((text, None, word(&result["turn"]["id"]))),
            _ => None,
        };
        if let Do::Delete(text) = step {
            self.deleted.insert(text);
        }
        if let Some((text, row, turn)) = known {
            let turn = turn.unwrap();
            self.known.insert(text, Known { row, turn });
        }
        true
    }

    /// The add of a text, always the same.
    pub(super) fn add(&self, text: &str, on_crash: &str) -> Value {
        let turn = json!({"threadId": self.thread, "input": input(text)});
        json!({"threadId": self.thread, "turnStartParams": turn, "idempotencyKey": text,
            "onCrash": on_crash, "onError": "block"})
    }

    fn call(&self, step: Do) -> Option<(&'static str, Value)> {
        let thread = &self.thread;
        let row = |text: &str| self.known[text].row.clone().unwrap();
        Some(match step {
            Do::Add(text, on_crash) => ("thread/queue/add", self.add(text, on_crash)),
            Do::Direct(text) => (
                "turn/start",
                json!({"threadId": thread, "input": input(text)}),
            ),
            Do::Pause => ("thread/queue/pause", json!({"threadId": thread})),
            Do::Resume => ("thread/queue/resume", json!({"threadId": thread})),
            Do::Reorder(texts) => {
                let rows: Vec<String> = texts.iter().map(|text| row(text)).collect();
                let params = json!({"threadId": thread, "queuedTurnIds": rows});
                ("thread/queue/reorder", params)
            }
            Do::First(text) => (
                "thread/queue/move",
                json!({"threadId": thread, "queuedTurnId": row(text), "position": 0}),
            ),
            Do::Delete(text) => (
                "thread/queue/delete",
                json!({"threadId": thread, "queuedTurnId": row(text)}),
            ),
            Do::Update(text, other) => (
                "thread/queue/update",
                json!({"threadId": thread, "queuedTurnId": row(text), "input": input(other)}),
            ),
            Do::Retry(text) => (
                "thread/queue/retry",
                json!({"threadId": thread, "queuedTurnId": row(text)}),
            ),
            Do::Interrupt(text, queue) => (
                "turn/interrupt",
                json!({"threadId": thread, "turnId": self.known[text].turn, "queue": queue}),
            ),
            Do::Stored(_) | Do::Reached | Do::Running | Do::Held | Do::Release => return None,
        })
    }

    async fn waits(&self, client: &mut TestClient, step: Do) {
        let waits = format!("{}: {step:?}", self.says);
        match step {
            Do::Stored(kind) => {
                let stored = async || {
                    let lines = self.history(client).await;
                    lines.iter().any(|line| line.contains(kind))
                };
                eventually(&waits, DEADLINE, stored).await.unwrap();
            }
            Do::Held => {
                let held = async || !self.queue(client).await["blocked"].is_null();
                eventually(&waits, DEADLINE, held).await.unwrap();
            }
            Do::Reached => self.gate.reached().await,
            Do::Running => {
                ends::pid_in(&self.served.work().join(MARK)).await;
            }
            Do::Release => self.gate.release(),
            other => panic!("nothing to wait for: {other:?}"),
        }
    }

    /// The command of this case, if there was one.
    pub(super) fn command(&self) -> Option<i32> {
        let mark = std::fs::read_to_string(self.served.work().join(MARK)).ok()?;
        mark.trim().parse().ok()
    }

    /// Waits until nothing is under way and nothing will come by itself.
    pub(super) async fn rests(&self, client: &mut TestClient) {
        let at_rest = eventually(&self.says, DEADLINE, async || {
            let queue = self.queue(client).await;
            let held = !queue["blocked"].is_null() || !queue["paused"].is_null();
            queue["running"].is_null() && (queue["depth"] == 0 || held)
        })
        .await;
        if let Err(error) = at_rest {
            panic!("{error}: {:#?}", self.picture(client).await);
        }
    }

    pub(super) async fn compare(&self, client: &mut TestClient, when: &str, expected: &[&str]) {
        let picture = self.picture(client).await;
        assert_eq!(picture, expected, "{}: {when}", self.says);
    }

    async fn queue(&self, client: &mut TestClient) -> Value {
        let lane = json!({"threadId": self.thread});
        ok(client, "thread/queue/list", lane).await
    }

    /// Everything there is, one line each: the lane, its turns, its rows, what the model was asked.
    async fn picture(&self, client: &mut TestClient) -> Vec<String> {
        let queue = self.queue(client).await;
        let mut lines = Vec::new();
        for hold in ["paused", "waiting"] {
            if !queue[hold].is_null() {
                lines.push(hold.to_owned());
            }
        }
        lines.extend(self.history(client).await);
        let rows = queue["data"].as_array().unwrap();
        assert_eq!(queue["depth"], rows.len(), "{}: {queue}", self.says);
        for row in rows {
            let text = row["input"][0]["text"].as_str().unwrap();
            lines.push(match row["status"]["error"]["message"].as_str() {
                Some(error) => format!("failed {text}: {error}"),
                None => format!("{} {text}", row["status"]["type"].as_str().unwrap()),
            });
        }
        let requests = self.served.mock.requests();
        lines.extend(requests.iter().map(|request| asked(request)));
        lines
    }

    /// The turns with their items behind the user's message.
    async fn history(&self, client: &mut TestClient) -> Vec<String> {
        let params = json!({"threadId": self.thread, "includeTurns": true});
        let read = ok(client, "thread/read", params).await;
        let turn = |turn: &Value| {
            let items = turn["items"].as_array().unwrap();
            let kinds = items.iter().map(|item| item["type"].as_str().unwrap());
            let kinds: Vec<&str> = kinds.collect();
            let text = items[0]["content"][0]["text"].as_str().unwrap();
            let status = turn["status"].as_str().unwrap();
            format!("{status} {text} = {}", kinds.join(" "))
        };
        let turns = read["thread"]["turns"].as_array().unwrap();
        turns.iter().map(turn).collect()
    }
}

/// Standard input and output of a process.
pub(super) fn stdio_of(process: &mut TestProcess) -> Duplex {
    let (stdout, stdin) = (process.take_stdout(), process.take_stdin());
    Duplex::lines(stdout.unwrap(), stdin.unwrap())
}

fn dying_at(spec: ProcessSpec, point: Option<&str>) -> ProcessSpec {
    match point {
        Some(point) => spec.env("TURNLANE_CRASH_AT", point),
        None => spec,
    }
}

fn input(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// What the model was asked, and how often it was told so if not once.
fn asked(request: &RecordedRequest) -> String {
    let text = request.last_user_text();
    let is_it = |item: &&Value| item["role"] == "user" && item["content"][0]["text"] == text;
    match request.input().iter().filter(is_it).count() {
        1 => format!("asked {text}"),
        times => format!("asked {text} ({times} times told)"),
    }
}
