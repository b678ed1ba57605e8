//! Rights of turns that the native engine runs, with a mock of a model that tries to get out.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use turnlane_engine::native::{Native, NativeConfig, NativeOptions};
use turnlane_process::{ContainmentKind, ProcessService};
use turnlane_server::PeerKind;
use turnlane_testkit::{MockModel, Reply};

use crate::support::{Client, ECHO, World, scripted, turn};

const COMMAND: &str = "item/commandExecution/requestApproval";
const PATCH: &str = "item/fileChange/requestApproval";

/// A server with the native engine, its model, and a directory that no turn may write in.
pub(crate) struct Stage {
    pub(crate) world: World,
    mock: MockModel,
    outside: TempDir,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(turnlane_runtime::Options::default()).await
    }

    pub(crate) async fn with(options: turnlane_runtime::Options) -> Self {
        let mock = MockModel::start().await.unwrap();
        let provider = json!({"base_url": mock.base_url(), "env_key": "MOCK_KEY",
            "request_max_retries": 0, "stream_max_retries": 0});
        let shared = json!({"model_providers": {"test": provider}});
        let config = NativeConfig {
            shared: shared.as_object().unwrap().clone(),
            ..NativeConfig::default()
        };
        let service = ProcessService::start(turnlane_process::Options {
            containment: Some(ContainmentKind::Group),
            ..turnlane_process::Options::default()
        });
        let home = TempDir::new().unwrap();
        let native = Native::new(NativeOptions {
            service: service.unwrap(),
            config: Arc::new(config),
            clock: Arc::new(|| 1_767_225_600_123),
            variables: Arc::new(|name| match name {
                "MOCK_KEY" => Some("sk-planted-4711".to_owned()),
                "SHELL" => Some("/bin/sh".to_owned()),
                _ => None,
            }),
            turnlane_home: home.path().to_owned(),
            codex_home: None,
        });
        let engines: Vec<Arc<dyn turnlane_engine::Engine>> =
            vec![Arc::new(native), Arc::new(scripted(ECHO))];
        Self {
            world: World::with_engines_and(engines, options).await,
            mock,
            outside: TempDir::new().unwrap(),
        }
    }

    /// A file that only something outside of the sandbox can make.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.outside.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn touch(&self, name: &str) -> String {
        format!("touch \"{}\"", self.file(name).display())
    }

    /// The model calls these tools, one per round, and then says that it is done.
    pub(crate) fn model_calls(&self, calls: &[(&str, Value)]) {
        for (tool, arguments) in calls {
            self.mock.push(Reply::function_call(*tool, arguments));
        }
        self.mock.push(Reply::text("done"));
    }

    /// The output of the model's last call.
    pub(crate) fn last_output(&self) -> String {
        let requests = self.mock.requests();
        let input = &requests.last().unwrap().body["input"];
        let outputs = input.as_array().unwrap().iter();
        let mut outputs = outputs.filter(|item| item["type"] == "function_call_output");
        outputs.next_back().unwrap()["output"].to_string()
    }

    /// The names of the tools that the model was offered last.
    fn offered(&self) -> Vec<String> {
        let requests = self.mock.requests();
        let tools = requests.last().unwrap().body["tools"].as_array().cloned();
        let tools = tools.unwrap_or_default();
        let name = |tool: &Value| tool["name"].as_str().unwrap().to_owned();
        tools.iter().map(name).collect()
    }
}

pub(crate) async fn thread(client: &mut Client, more: Value) -> String {
    let mut params = json!({"engine": "native", "sandbox": "read-only"});
    let members = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(members);
    let answer = client.ok("thread/start", params).await;
    answer["thread"]["id"].as_str().unwrap().to_owned()
}

/// Runs a turn without an approval.
async fn run(client: &mut Client, thread: &str) {
    let turn = client.turn(thread, "go").await;
    let ended = client.ended(&turn).await;
    assert_eq!(ended["status"], "completed", "{ended}");
}

pub(crate) async fn answer(client: &mut Client, request: &Value, decision: Value) {
    let message = json!({"id": request["id"], "result": {"decision": decision}});
    client.0.send(&message).await.unwrap();
}

fn escalated(cmd: &str) -> (&'static str, Value) {
    let arguments = json!({"cmd": cmd, "sandbox_permissions": "require_escalated",
        "justification": "it is needed"});
    ("exec_command", arguments)
}

fn asked(client: &Client) -> usize {
    let words = client.words(0);
    let asks = |word: &&String| [COMMAND, PATCH].contains(&word.as_str());
    words.iter().filter(asks).count()
}

/// The Python SDK at its defaults: it says `auto_review`, and accepts whatever it is asked.
#[tokio::test]
async fn under_auto_review_a_model_that_escalates_writes_nothing_outside() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let more = json!({"approvalPolicy": "on-request", "approvalsReviewer": "auto_review"});
    let thread = thread(&mut client, more).await;
    let patch = format!(
        "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch",
        stage.file("patched").display()
    );
    stage.model_calls(&[
        escalated(&stage.touch("touched")),
        ("apply_patch", json!({"input": patch})),
        escalated(&stage.touch("again")),
    ]);
    run(&mut client, &thread).await;
    assert_eq!(asked(&client), 0, "no client is asked");
    let output = stage.last_output();
    assert!(output.contains("no reviewer"), "{output}");
    assert!(output.contains("another way"), "{output}");
    for name in ["touched", "patched", "again"] {
        assert!(!stage.file(name).exists(), "{name}");
    }
    let words = client.words(0);
    assert_eq!(words.iter().filter(|word| *word == "warning").count(), 1);
    let items = json!({"threadId": thread});
    let items = client.ok("thread/items/list", items).await.to_string();
    assert_eq!(
        items.matches(r#""status":"declined""#).count(),
        3,
        "{items}"
    );
}

#[tokio::test]
async fn an_accepted_beginning_covers_the_next_command_and_no_script() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let thread = thread(&mut client, json!({"approvalPolicy": "untrusted"})).await;
    let call = |cmd: &str| {
        let arguments = json!({"cmd": cmd, "prefix_rule": ["echo", "hi"]});
        ("exec_command", arguments)
    };
    stage.model_calls(&[call("echo hi 'first one'")]);
    let running = client.turn(&thread, "go").await;
    let request = client.told(COMMAND, json!({"turnId": running})).await;
    let rule = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["echo", "hi"]}});
    let offered = request["params"]["availableDecisions"].as_array().unwrap();
    assert!(offered.contains(&rule), "{request}");
    answer(&mut client, &request, rule).await;
    client.ended(&running).await;

    stage.model_calls(&[call("echo hi again"), call("echo hi \"and again\"")]);
    run(&mut client, &thread).await;
    assert_eq!(asked(&client), 1, "the rule covers both");
    let output = stage.last_output();
    assert!(output.contains("hi and again"), "{output}");

    let evil = stage.outside.path().join("sh");
    let other_shell = json!({"cmd": "echo hi", "shell": evil, "prefix_rule": ["echo", "hi"]});
    for (number, arguments) in [
        json!({"cmd": "echo hi; rm x"}),
        json!({"cmd": "echo hi $(rm x)"}),
        json!({"cmd": "echo hi > x"}),
        json!({"cmd": "X=1 echo hi"}),
        json!({"cmd": "echo hello"}),
        json!({"cmd": "echo hi there", "workdir": "/"}),
        other_shell,
    ]
    .into_iter()
    .enumerate()
    {
        stage.model_calls(&[("exec_command", arguments.clone())]);
        let running = client.turn(&thread, "go").await;
        let request = client.told(COMMAND, json!({"turnId": running})).await;
        assert_eq!(asked(&client), number + 2, "{arguments}");
        answer(&mut client, &request, json!("decline")).await;
        client.ended(&running).await;
    }
}

#[tokio::test]
async fn an_accept_for_the_session_does_not_outlive_the_sandbox_it_was_given_in() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let thread = thread(&mut client, json!({"approvalPolicy": "untrusted"})).await;
    let call = [("exec_command", json!({"cmd": stage.touch("made")}))];
    stage.model_calls(&call);
    let running = client.turn(&thread, "go").await;
    // Asked before it runs; denied by the sandbox, it is asked again for outside.
    let request = client.told(COMMAND, json!({"turnId": running})).await;
    answer(&mut client, &request, json!("acceptForSession")).await;
    let outside = client
        .0
        .find("the second question", |message| {
            message["method"] == COMMAND && message["id"] != request["id"]
        })
        .await
        .unwrap();
    answer(&mut client, &outside, json!("decline")).await;
    client.ended(&running).await;
    assert!(!stage.file("made").exists());

    stage.model_calls(&call);
    let mut start = turn(&thread, "go");
    start["sandboxPolicy"] = json!("danger-full-access");
    let started = client.ok("turn/start", start).await;
    let running = started["turn"]["id"].as_str().unwrap().to_owned();
    let request = client.told(COMMAND, json!({"turnId": running})).await;
    assert!(!stage.file("made").exists(), "asked before it runs");
    answer(&mut client, &request, json!("decline")).await;
    client.ended(&running).await;
    assert!(!stage.file("made").exists());
}

#[tokio::test]
async fn a_client_that_may_not_run_unconfined_cannot_accept_an_escalation() {
    let stage = Stage::new().await;
    let mut client = Client::of_kind(&stage.world.server, PeerKind::OpenWebSocket).await;
    let thread = thread(&mut client, json!({"approvalPolicy": "on-request"})).await;
    let patch = format!(
        "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch",
        stage.file("patched").display()
    );
    stage.model_calls(&[
        escalated(&stage.touch("touched")),
        ("apply_patch", json!({"input": patch})),
    ]);
    let running = client.turn(&thread, "go").await;
    for (method, number) in [(COMMAND, 1), (PATCH, 2)] {
        let request = client.told(method, json!({"turnId": running})).await;
        answer(&mut client, &request, json!("accept")).await;
        let id = request["params"]["approvalId"].clone();
        let told = format!("approval {} stays open", id.as_str().unwrap());
        client
            .0
            .find("the warning", |message| {
                let text = message["params"]["message"].as_str().unwrap_or_default();
                message["method"] == "warning" && text.starts_with(&told)
            })
            .await
            .unwrap();
        let open = client.ok("approval/list", json!({})).await;
        assert_eq!(
            open["data"][0]["approvalId"], id,
            "question {number} is open"
        );
        let decline = json!({"approvalId": id, "decision": "decline"});
        client.ok("approval/respond", decline).await;
    }
    assert_eq!(client.ended(&running).await["status"], "completed");
    assert!(!stage.file("touched").exists() && !stage.file("patched").exists());
}

#[tokio::test]
async fn a_later_turn_with_a_sandbox_does_not_write_to_a_shell_without_one_unasked() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let more = json!({"sandbox": "danger-full-access", "approvalPolicy": "on-request"});
    let thread = thread(&mut client, more).await;
    let shell = json!({"cmd": "sh", "tty": true, "yield_time_ms": 250});
    stage.model_calls(&[("exec_command", shell)]);
    run(&mut client, &thread).await;
    let narrower = json!({"threadId": thread, "sandboxPolicy": "read-only"});
    client.ok("thread/settings/update", narrower).await;

    let line = format!("{}\n", stage.touch("written"));
    let write = json!({"session_id": 1000, "chars": line});
    stage.model_calls(&[("write_stdin", write.clone())]);
    let running = client.turn(&thread, "go").await;
    let request = client.told(COMMAND, json!({"turnId": running})).await;
    answer(&mut client, &request, json!("decline")).await;
    client.ended(&running).await;
    assert!(!stage.file("written").exists());

    // Under `never` no client may be asked, so that it is refused.
    stage.model_calls(&[("write_stdin", write)]);
    let mut start = turn(&thread, "go");
    start["approvalPolicy"] = json!("never");
    let started = client.ok("turn/start", start).await;
    client.ended(started["turn"]["id"].as_str().unwrap()).await;
    let output = stage.last_output();
    assert!(output.contains("refused"), "{output}");
    assert!(!stage.file("written").exists());
    let clean = json!({"threadId": thread});
    client.ok("thread/backgroundTerminals/clean", clean).await;
}

#[tokio::test]
async fn a_thread_or_turn_without_environments_has_no_tools_that_touch_the_machine() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let without = json!({"sandbox": "danger-full-access", "environments": []});
    let without = thread(&mut client, without).await;
    let usual = json!({"sandbox": "danger-full-access"});
    let usual = thread(&mut client, usual).await;
    let forked = client.ok("thread/fork", json!({"threadId": without})).await;
    let forked = forked["thread"]["id"].as_str().unwrap().to_owned();
    let touch = ("exec_command", json!({"cmd": stage.touch("made")}));
    for (thread, environments) in [(&without, None), (&forked, None), (&usual, Some(json!([])))] {
        stage.model_calls(std::slice::from_ref(&touch));
        let mut start = turn(thread, "go");
        if let Some(environments) = environments {
            start["environments"] = environments;
        }
        let started = client.ok("turn/start", start).await;
        client.ended(started["turn"]["id"].as_str().unwrap()).await;
        let output = stage.last_output();
        let text = "No usable execution environment is available.";
        assert!(output.contains(text), "{output}");
        assert_eq!(stage.offered(), ["update_plan"]);
        assert!(!stage.file("made").exists());
    }
    // Only for that turn: the next one has them again.
    stage.model_calls(&[touch]);
    run(&mut client, &usual).await;
    assert!(stage.file("made").exists());
}

#[tokio::test]
async fn tools_that_the_configuration_of_a_thread_switches_off_are_not_there() {
    let stage = Stage::new().await;
    let mut client = stage.world.client().await;
    let shell = &["exec_command", "write_stdin", "apply_patch"][..];
    for (config, off) in [
        (json!({"features.shell_tool": false}), shell),
        (json!({"features": {"shell_tool": false}}), shell),
        (json!({"tools.view_image": false}), &["view_image"]),
        (json!({"features.view_image": false}), &["view_image"]),
        (
            json!({"tools.update_plan.enabled": false}),
            &["update_plan"],
        ),
        (json!({"features.shell_tool": true}), &[]),
    ] {
        let more = json!({"sandbox": "danger-full-access", "config": config});
        let thread = thread(&mut client, more).await;
        stage.model_calls(&[("exec_command", json!({"cmd": stage.touch("made")}))]);
        run(&mut client, &thread).await;
        let offered = stage.offered();
        for name in [
            "exec_command",
            "write_stdin",
            "apply_patch",
            "update_plan",
            "view_image",
        ] {
            let is_off = off.contains(&name);
            assert_eq!(
                !offered.contains(&name.to_owned()),
                is_off,
                "{config}: {offered:?}"
            );
        }
        let ran = stage.file("made").exists();
        assert_eq!(ran, !off.contains(&"exec_command"), "{config}");
        if ran {
            std::fs::remove_file(stage.file("made")).unwrap();
        } else {
            let output = stage.last_output();
            assert!(output.contains("switched off"), "{output}");
        }
    }
}
