//! Rights that the user's files take away: rules about commands, profiles, models on this machine.

use serde_json::{Value, json};
use tokio::net::TcpListener;
use turnlane_testkit::mock_model::{Item, MockModel, RecordedRequest, Reply};

use super::{World, ran};

const NO_TOUCH: &str = "prefix_rule(pattern=[\"touch\"], decision=\"forbidden\")\n";

/// Every way of the contract to spell a command that is forbidden.
const SPELLINGS: [&str; 21] = [
    "touch made",
    "/usr/bin/touch made",
    "true && touch made",
    "false || touch made",
    "true; touch made",
    "true | touch made",
    "true & touch made; wait",
    "true\ntouch made",
    "(touch made)",
    "echo $(touch made)",
    "echo `touch made`",
    "touch >made",
    "env touch made",
    "nohup touch made",
    "time touch made",
    "command touch made",
    "exec touch made",
    "echo made | xargs touch",
    "sh -c 'touch made'",
    "sh <<EOF\ntouch made\nEOF",
    "f() { touch made; }; f",
];

/// A model that calls these commands at once, then says `done`.
fn calling(scripts: &[&str]) -> impl Fn(&RecordedRequest) -> Reply + Send + Sync + use<> {
    let calls: Vec<(String, String)> = scripts
        .iter()
        .enumerate()
        .map(|(nth, script)| (format!("c{nth}"), json!({"cmd": script}).to_string()))
        .collect();
    move |request| {
        let is_answered = |item: &Value| item["type"] == "function_call_output";
        if request.input().iter().any(is_answered) {
            return Reply::text("done");
        }
        let call = |(id, arguments): &(String, String)| {
            Item::function_call("exec_command", arguments.clone()).call_id(id)
        };
        Reply::of(calls.iter().map(call))
    }
}

fn forbid_touch(world: &World) {
    std::fs::create_dir_all(world.home.turnlane().join("rules")).unwrap();
    std::fs::write(world.home.turnlane().join("rules/a.rules"), NO_TOUCH).unwrap();
}

#[tokio::test]
async fn a_forbidden_command_runs_by_no_spelling_with_full_access() {
    for group in SPELLINGS.chunks(7) {
        let mut scripts = group.to_vec();
        scripts.push("echo > ran");
        let world = World::new(calling(&scripts)).await;
        forbid_touch(&world);
        let full = "--dangerously-bypass-approvals-and-sandbox";
        let ran = world.run(&["--json", full, "go"]).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(world.work().join("ran").exists(), "other commands run");
        assert!(!world.work().join("made").exists(), "{group:?}");
        let last = world.mock.requests().pop().unwrap();
        for (nth, script) in group.iter().enumerate() {
            let id = format!("c{nth}");
            let output = last.input().iter().find(|item| {
                item["type"] == "function_call_output" && item["call_id"] == id.as_str()
            });
            let told = output.unwrap()["output"].as_str().unwrap();
            let why = "rejected: policy forbids commands starting with `touch`";
            assert!(told.ends_with(why), "{script}: {told}");
        }
    }
}

#[tokio::test]
async fn rules_of_codex_hold_and_can_be_left_out_by_a_flag() {
    let world = World::new(calling(&["touch made"])).await;
    std::fs::create_dir_all(world.home.codex().join("rules")).unwrap();
    std::fs::write(world.home.codex().join("rules/default.rules"), NO_TOUCH).unwrap();
    let full = "--dangerously-bypass-approvals-and-sandbox";
    assert_eq!(world.run(&["--json", full, "go"]).await.code, 0);
    assert!(!world.work().join("made").exists());
    assert_eq!(
        world
            .run(&["--json", full, "--ignore-rules", "go"])
            .await
            .code,
        0
    );
    assert!(world.work().join("made").exists());
}

#[tokio::test]
async fn no_client_is_asked_about_a_forbidden_command() {
    let world = World::new(calling(&["touch made", "echo > ran"])).await;
    forbid_touch(&world);
    let mut client = world.client().await;
    let start = json!({"approvalPolicy": "untrusted", "sandbox": "danger-full-access",
        "cwd": world.work()});
    let thread = client.ok("thread/start", start).await["thread"]["id"].clone();
    let input = json!([{"type": "text", "text": "go", "text_elements": []}]);
    client
        .ok("turn/start", json!({"threadId": thread, "input": input}))
        .await;
    let method = "item/commandExecution/requestApproval";
    let asked = client
        .client
        .find("a question", |message| message["method"] == method);
    let asked = asked.await.unwrap();
    assert!(
        asked["params"]["command"]
            .as_str()
            .unwrap()
            .contains("echo > ran")
    );
    let answer = json!({"id": asked["id"], "result": {"decision": "accept"}});
    client.client.send(&answer).await.unwrap();
    let ended = client
        .client
        .find("the end", |message| message["method"] == "turn/completed");
    ended.await.unwrap();
    let questions = client.client.received().iter();
    assert_eq!(
        questions
            .filter(|message| message["method"] == method)
            .count(),
        1
    );
    let declined = client.client.received().iter().any(|message| {
        message["method"] == "item/completed" && message["params"]["item"]["status"] == "declined"
    });
    assert!(declined);
    assert!(world.work().join("ran").exists() && !world.work().join("made").exists());
}

#[tokio::test]
async fn rules_that_cannot_be_loaded_refuse_threads_and_turns() {
    let world = World::new(calling(&["echo > ran"])).await;
    let mut client = world.client().await;
    let thread = client
        .ok("thread/start", json!({"cwd": world.work()}))
        .await;
    let thread = thread["thread"]["id"].clone();
    forbid_touch(&world);
    let file = world.home.turnlane().join("rules/b.rules");
    std::fs::write(&file, "\nforbid(\"touch\")\n").unwrap();
    let text = format!("failed to load rules: {}:2: ", file.display());
    let input = json!([{"type": "text", "text": "go", "text_elements": []}]);
    for (method, params) in [
        ("thread/start", json!({"cwd": world.work()})),
        ("thread/resume", json!({"threadId": thread})),
        ("thread/fork", json!({"threadId": thread})),
        ("turn/start", json!({"threadId": thread, "input": input})),
    ] {
        let answer = client.client.call(method, params).await.unwrap();
        let error = &answer["error"];
        assert_eq!(error["data"]["reason"], "badRules", "{method}: {answer}");
        assert_eq!(error["code"], -32600);
        assert!(
            error["message"].as_str().unwrap().starts_with(&text),
            "{answer}"
        );
    }
    let ran = world.run(&["--json", "go"]).await;
    assert_eq!(ran.code, 1);
    assert!(
        ran.stderr.contains(&text) || ran.stdout.contains(&text),
        "{ran:?}"
    );
    assert!(world.mock.requests().is_empty());
}

/// The first lines of a config file, before its tables.
fn prepend(folder: &std::path::Path, lines: &str) {
    let file = folder.join("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{lines}\n{text}")).unwrap();
}

#[tokio::test]
async fn default_permissions_win_over_the_mode_of_a_lower_file() {
    let world = World::new(calling(&[])).await;
    prepend(&world.home.codex(), "sandbox_mode = \"danger-full-access\"");
    prepend(
        &world.home.turnlane(),
        "default_permissions = \":read-only\"",
    );
    let mut client = world.client().await;
    let started = client.ok("thread/start", json!({})).await;
    assert_eq!(started["sandbox"]["type"], "readOnly");
    let profile = json!({"id": ":read-only", "extends": null});
    assert_eq!(started["activePermissionProfile"], profile);
    // What a client says stands above both.
    let mode = json!({"config": {"sandbox_mode": "danger-full-access"}});
    let started = client.ok("thread/start", mode).await;
    assert_eq!(started["sandbox"]["type"], "dangerFullAccess");
    assert_eq!(started["activePermissionProfile"], json!(null));
    let thread = started["thread"]["id"].clone();
    let narrowed = json!({"threadId": thread, "config": {"default_permissions": ":read-only"}});
    let resumed = client.ok("thread/resume", narrowed).await;
    assert_eq!(resumed["sandbox"]["type"], "readOnly");
    let both = json!({"config": {"default_permissions": ":danger-full-access",
        "sandbox_mode": "read-only"}});
    let answer = client.client.call("thread/start", both).await.unwrap();
    assert_eq!(
        answer["error"]["data"]["reason"], "invalidParams",
        "{answer}"
    );
}

#[tokio::test]
async fn a_profile_of_a_table_is_refused_by_name() {
    let world = World::new(calling(&[])).await;
    let file = world.home.turnlane().join("config.toml");
    let mut text = std::fs::read_to_string(&file).unwrap();
    text.push_str("\n[permissions.mine.filesystem]\n\":root\" = \"read\"\n");
    text.push_str("[permissions.a]\nextends = \"b\"\n[permissions.b]\nextends = \"a\"\n");
    std::fs::write(&file, text).unwrap();
    let mut client = world.client().await;
    for (id, words) in [
        ("mine", "permissions profile `mine` is not supported"),
        (
            "gone",
            "default_permissions refers to undefined profile `gone`",
        ),
        (
            "a",
            "permissions profile inheritance cycle detected: a -> b -> a",
        ),
    ] {
        for params in [
            json!({"permissions": id}),
            json!({"config": {"default_permissions": id}}),
        ] {
            let answer = client.client.call("thread/start", params).await.unwrap();
            let error = &answer["error"];
            assert_eq!(error["data"]["reason"], "invalidParams", "{answer}");
            let text = format!("failed to load configuration: {words}");
            assert!(
                error["message"].as_str().unwrap().starts_with(&text),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn a_local_model_is_the_only_one_that_is_asked() {
    let cloud = World::new(calling(&[])).await;
    let local = MockModel::start().await.unwrap();
    local.choose_with(|_| Some(Reply::text("local")));
    // The proxy would see the prompt.
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxied = format!("http://{}", proxy.local_addr().unwrap());
    let with = |arguments: &[&str], base_url: Option<&str>| {
        let spec = cloud.spec(arguments);
        let proxies = ["HTTP_PROXY", "http_proxy", "ALL_PROXY"].map(|name| (name, proxied.clone()));
        let spec = spec.envs(proxies);
        match base_url {
            Some(url) => spec.envs([("CODEX_OSS_BASE_URL", url.to_owned())]),
            None => spec,
        }
    };
    let url = local.base_url();
    for arguments in [
        &["--json", "--local-provider", "ollama", "p"][..],
        &["--json", "--oss", "--local-provider", "lmstudio", "p"],
        &[
            "--json",
            "--oss",
            "-c",
            "oss_provider=ollama",
            "-c",
            "model_provider=mock",
            "p",
        ],
    ] {
        let ran = ran(with(arguments, Some(&url)), b"").await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert_eq!(local.requests().len(), 3);
    assert_eq!(local.requests()[0].model(), "gpt-oss:20b");
    let mine = [
        "--json",
        "--oss",
        "--local-provider",
        "ollama",
        "-m",
        "mine",
        "p",
    ];
    ran(with(&mine, Some(&url)), b"").await;
    assert_eq!(local.requests()[3].model(), "mine");

    assert!(cloud.mock.requests().is_empty());
    let connected = std::future::poll_fn(|context| {
        let accepted = proxy.poll_accept(context);
        std::task::Poll::Ready(accepted.is_ready())
    });
    assert!(!connected.await, "no request went through the proxy");
}

#[tokio::test]
async fn a_local_model_elsewhere_is_refused_before_a_thread_exists() {
    let cloud = World::new(calling(&[])).await;
    for (arguments, base_url, reason) in [
        (
            &["--oss", "p"][..],
            None,
            "Error: No default OSS provider configured. Use --local-provider=ollama or \
             --local-provider=lmstudio, or set oss_provider in config.toml.",
        ),
        (
            &["--local-provider", "mock", "p"],
            None,
            "Error: Model provider `mock` not found",
        ),
        (
            &["--local-provider", "ollama", "p"],
            Some("https://models.example/v1"),
            "Error: --oss uses models on this machine, and the address of `ollama` is \
             https://models.example/v1; name a loopback address, or leave --oss out",
        ),
        (
            &[
                "--local-provider",
                "ollama",
                "-c",
                "model_providers.ollama.base_url=http://192.0.2.1/v1",
                "p",
            ],
            None,
            "Error: --oss uses models on this machine, and the address of `ollama` is \
             http://192.0.2.1/v1; name a loopback address, or leave --oss out",
        ),
    ] {
        let mut spec = cloud.spec(arguments);
        if let Some(url) = base_url {
            spec = spec.env("CODEX_OSS_BASE_URL", url);
        }
        ran(spec, b"").await.is_refused(reason);
    }
    assert!(cloud.mock.requests().is_empty());
}

#[tokio::test]
async fn a_thread_with_an_address_of_its_own_does_not_lead_a_local_run_elsewhere() {
    let cloud = World::new(calling(&[])).await;
    let local = MockModel::start().await.unwrap();
    local.choose_with(|_| Some(Reply::text("local")));
    let elsewhere = json!({"model_providers": {"ollama": {"base_url": "http://192.0.2.1/v1"}}});
    let mut client = cloud.client().await;
    let started = json!({"cwd": cloud.work(), "config": elsewhere});
    let started = client.ok("thread/start", started).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    drop(client);
    let arguments = [
        "--json",
        "resume",
        &thread,
        "--local-provider",
        "ollama",
        "p",
    ];
    let spec = cloud.spec(&arguments);
    let spec = spec.envs([("CODEX_OSS_BASE_URL", local.base_url())]);
    let ran = ran(spec, b"").await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("native.local_only"), "{ran:?}");
    assert!(local.requests().is_empty() && cloud.mock.requests().is_empty());
}
