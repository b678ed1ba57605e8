//! `turnlane app-server` over its real transports, with a mock model behind it.

mod access;
mod agents_md;
mod burst;
mod crash;
pub(crate) mod ends;
mod exec;
mod former;
mod instructions;
mod interrupting;
mod life;
mod matrix;
mod patches;
mod providers;
mod secrets;
mod sessions;
mod stopping;
mod usage;

use std::path::PathBuf;

use serde_json::{Value, json};
use turnlane_rpc::Duplex;
use turnlane_rpc::connect::{self, connect_unix, connect_ws};
use turnlane_testkit::mock_model::{At, Gate, Item, MockModel, RecordedRequest, Reply};
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TempHome, TestClient, TestProcess};

/// A server with a home and a model of its own.
pub(crate) struct Served {
    pub(crate) mock: MockModel,
    pub(crate) home: TempHome,
}

impl Served {
    /// A home whose model answers with what `reply` makes of a request.
    pub(crate) async fn new(
        reply: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let mock = MockModel::start().await.unwrap();
        mock.choose_with(move |request| Some(reply(request)));
        let home = TempHome::new().unwrap();
        home.use_model(&mock.base_url()).unwrap();
        Self { mock, home }
    }

    /// The folder that threads work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.workspace().canonicalize().unwrap()
    }

    /// The binary with these arguments behind `app-server`.
    pub(crate) fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        crate::turnlane(&["app-server"])
            .args(arguments.iter().copied())
            .envs(self.home.env())
            .current_dir(self.home.workspace())
    }

    fn process(&self, arguments: &[&str]) -> TestProcess {
        TestProcess::start(self.spec(arguments)).unwrap()
    }

    /// Starts it on standard input and output, and says hello.
    pub(crate) async fn stdio(&self) -> Stdio {
        self.stdio_with(&[]).await
    }

    async fn stdio_with(&self, arguments: &[&str]) -> Stdio {
        Stdio::of(self.process(arguments)).await
    }

    /// Starts it on a websocket and on a unix socket.
    async fn sockets(&self) -> Sockets {
        let path = self.home.path().join("socket");
        let unix = format!("unix://{}", path.display());
        let process = self.process(&["--listen", "ws://127.0.0.1:0", "--listen", &unix]);
        let line = process
            .wait_for_stderr_line(|line| line.starts_with("listening on ws://"), DEADLINE)
            .await
            .unwrap();
        process
            .wait_for_stderr_line(|line| line.starts_with("listening on unix://"), DEADLINE)
            .await
            .unwrap();
        let url = line.rsplit(' ').next().unwrap().to_owned();
        let token = std::fs::read_to_string(self.home.turnlane().join("token")).unwrap();
        Sockets {
            process,
            url,
            path,
            token: token.trim().to_owned(),
        }
    }
}

/// A server with its only client.
pub(crate) struct Stdio {
    pub(crate) process: TestProcess,
    pub(crate) client: TestClient,
}

impl Stdio {
    /// A process on standard input and output, when it has said hello.
    pub(crate) async fn of(mut process: TestProcess) -> Self {
        let stdin = process.take_stdin().unwrap();
        let stdout = process.take_stdout().unwrap();
        let mut client = TestClient::new(Duplex::lines(stdout, stdin));
        greet(&mut client).await;
        Self { process, client }
    }
}

/// A server with two sockets.
struct Sockets {
    process: TestProcess,
    url: String,
    path: PathBuf,
    token: String,
}

impl Sockets {
    async fn websocket(&self) -> TestClient {
        let options = connect::Options {
            token: Some(self.token.clone().into()),
            ..connect::Options::default()
        };
        let duplex = connect_ws(&self.url, &options).await.unwrap();
        let mut client = TestClient::new(duplex);
        greet(&mut client).await;
        client
    }

    async fn unix(&self) -> TestClient {
        let options = connect::Options::default();
        let duplex = connect_unix(&self.path, &options).await.unwrap();
        let mut client = TestClient::new(duplex);
        greet(&mut client).await;
        client
    }
}

pub(crate) async fn greet(client: &mut TestClient) -> Value {
    let params = json!({
        "clientInfo": {"name": "test", "version": "0"},
        "capabilities": {"experimentalApi": true, "turnlane": {"version": 1, "events": 1}},
    });
    let greeted = ok(client, "initialize", params).await;
    client.notify("initialized", json!({})).await.unwrap();
    greeted
}

/// The result of a call that works.
pub(crate) async fn ok(client: &mut TestClient, method: &str, params: Value) -> Value {
    let answer = client.call(method, params).await.unwrap();
    assert!(answer.get("result").is_some(), "{method}: {answer}");
    answer["result"].clone()
}

/// The error of a call that does not.
pub(crate) async fn refused(client: &mut TestClient, method: &str, params: Value) -> Value {
    let answer = client.call(method, params).await.unwrap();
    assert!(answer.get("error").is_some(), "{method}: {answer}");
    answer["error"].clone()
}

/// A new thread with these members besides its directory; its id.
pub(crate) async fn thread(client: &mut TestClient, cwd: &std::path::Path, more: Value) -> String {
    let mut params = json!({"cwd": cwd});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    let started = ok(client, "thread/start", params).await;
    started["thread"]["id"].as_str().unwrap().to_owned()
}

/// A new turn; its id.
pub(crate) async fn begin(client: &mut TestClient, thread: &str, text: &str) -> String {
    let input = json!([{"type": "text", "text": text}]);
    let params = json!({"threadId": thread, "input": input});
    let started = ok(client, "turn/start", params).await;
    started["turn"]["id"].as_str().unwrap().to_owned()
}

/// The turn of `turn/completed`.
async fn ended(client: &mut TestClient, turn: &str) -> Value {
    let is_end = |message: &Value| {
        message["method"] == "turn/completed" && message["params"]["turn"]["id"] == turn
    };
    let end = client.find("the end of the turn", is_end).await.unwrap();
    end["params"]["turn"].clone()
}

/// A whole turn; how it ended.
pub(crate) async fn turn(client: &mut TestClient, thread: &str, text: &str) -> Value {
    let id = begin(client, thread, text).await;
    ended(client, &id).await
}

/// What has come of a method so far.
fn came<'a>(client: &'a TestClient, method: &str) -> Vec<&'a Value> {
    let messages = client.received().iter();
    messages
        .filter(|message| message["method"] == method)
        .collect()
}

/// A model that holds back the answer to whatever begins with `hold`, until the gate is opened.
pub(crate) fn held_by(gate: &Gate) -> impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static {
    let gate = gate.clone();
    move |request| {
        let text = request.last_user_text();
        let reply = Reply::text(format!("ok: {text}"));
        if text.starts_with("hold") {
            reply.gated_by(At::Request, &gate)
        } else {
            reply
        }
    }
}

/// A model that runs the last user text as a command, and then says `done`.
pub(crate) fn run_what_is_said(request: &RecordedRequest) -> Reply {
    let answered = request
        .input()
        .last()
        .is_some_and(|item| item["type"] == "function_call_output");
    if answered {
        return Reply::text("done");
    }
    let id = format!("call_{}", request.input().len());
    let arguments = json!({"cmd": request.last_user_text(), "yield_time_ms": 30_000});
    Reply::of([Item::function_call("exec_command", arguments).call_id(id)])
}

/// A model that makes the calls that the last user text lists as `[[name, arguments], …]`, and then
/// says `done`.
pub(crate) fn call_what_is_said(request: &RecordedRequest) -> Reply {
    let answered = request
        .input()
        .last()
        .is_some_and(|item| item["type"] == "function_call_output");
    if answered {
        return Reply::text("done");
    }
    let calls: Vec<(String, Value)> = serde_json::from_str(&request.last_user_text()).unwrap();
    let length = request.input().len();
    Reply::of(calls.into_iter().enumerate().map(|(n, (name, arguments))| {
        Item::function_call(name, arguments).call_id(format!("call_{length}_{n}"))
    }))
}

/// The next question of a turn, which is open until it is answered with [`decide`].
async fn question(client: &mut TestClient, turn: &str) -> Value {
    let asks = |message: &Value| {
        let method = message["method"].as_str().unwrap_or_default();
        method.ends_with("/requestApproval") && message["params"]["turnId"] == turn
    };
    client.find("a question", asks).await.unwrap()
}

pub(crate) async fn decide(client: &mut TestClient, question: &Value, decision: &str) {
    let answer = json!({"id": question["id"], "result": {"decision": decision}});
    client.send(&answer).await.unwrap();
}

/// The items that were completed in a turn, in the order in which they were started: that of the
/// history.
fn completed_in(client: &TestClient, turn: &str) -> Vec<Value> {
    let items = |method: &str| -> Vec<&Value> {
        let of_turn = |message: &&Value| message["params"]["turnId"] == turn;
        let came = came(client, method).into_iter().filter(of_turn);
        came.map(|message| &message["params"]["item"]).collect()
    };
    let started = items("item/started");
    let place = |item: &Value| started.iter().position(|start| start["id"] == item["id"]);
    let mut completed: Vec<Value> = items("item/completed").into_iter().cloned().collect();
    completed.sort_by_key(place);
    completed
}

/// The items of a turn as the store has them.
async fn stored_in(client: &mut TestClient, thread: &str, turn: &str) -> Vec<Value> {
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = ok(client, "thread/read", params).await;
    let turns = read["thread"]["turns"].as_array().unwrap();
    let turn = turns.iter().find(|stored| stored["id"] == turn).unwrap();
    turn["items"].as_array().unwrap().clone()
}

/// What the model was told last by a tool.
fn told(mock: &MockModel) -> String {
    let requests = mock.requests();
    let inputs = requests
        .iter()
        .rev()
        .flat_map(|request| request.input().iter().rev());
    let mut outputs = inputs.filter(|item| item["type"] == "function_call_output");
    let last = outputs.next().unwrap();
    last["output"].as_str().unwrap().to_owned()
}
