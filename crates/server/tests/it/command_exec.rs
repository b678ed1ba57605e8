//! `command/exec`: one answer at the end, everything told before it, every cap and time kept.

use serde_json::{Value, json};
use turnlane_testkit::TestClient;

use crate::host::{Host, base64, refused, result, told, until_told};

async fn exec(client: &mut TestClient, params: Value) -> Value {
    result(&client.call("command/exec", params).await.unwrap())
}

fn shell(script: &str) -> Value {
    json!({"command": ["sh", "-c", script]})
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "examples are written in place"
)]
fn with(mut params: Value, more: Value) -> Value {
    let members = more.as_object().unwrap().clone();
    params.as_object_mut().unwrap().extend(members);
    params
}

#[tokio::test]
async fn a_command_is_answered_with_its_code_and_both_streams() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let answer = exec(&mut client, shell("echo out; echo err >&2; exit 7")).await;
    assert_eq!(
        answer,
        json!({"exitCode": 7, "stdout": "out\n", "stderr": "err\n"})
    );
    let answer = exec(&mut client, shell("printf '\\377a'; kill -15 $$")).await;
    assert_eq!(
        answer,
        json!({"exitCode": 143, "stdout": "\u{fffd}a", "stderr": ""})
    );
    let here = exec(&mut client, json!({"command": ["pwd", "-P"]})).await;
    let cwd = host.cwd().canonicalize().unwrap();
    assert_eq!(here["stdout"], format!("{}\n", cwd.display()));
    std::fs::create_dir(cwd.join("below")).unwrap();
    let below = exec(
        &mut client,
        json!({"command": ["pwd", "-P"], "cwd": "below"}),
    )
    .await;
    assert_eq!(
        below["stdout"],
        format!("{}\n", cwd.join("below").display())
    );
    let input = exec(&mut client, json!({"command": ["cat"]})).await;
    assert_eq!(input["stdout"], "");
}

#[tokio::test]
async fn the_environment_is_the_allow_list_and_what_the_caller_gives() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let env = json!({"command": ["env"], "env": {"GIVEN": "v", "HOME": null,
        "NODE_REPL_AUTH_TOKEN": "t"}});
    let answer = exec(&mut client, env).await;
    let lines: Vec<&str> = answer["stdout"].as_str().unwrap().lines().collect();
    let has = |name: &str| {
        lines
            .iter()
            .any(|line| line.starts_with(&format!("{name}=")))
    };
    assert!(lines.contains(&"GIVEN=v"), "{lines:?}");
    assert!(has("PATH"), "{lines:?}");
    for absent in ["HOME", "NODE_REPL_AUTH_TOKEN", "CARGO_MANIFEST_DIR"] {
        assert!(!has(absent), "{absent} in {lines:?}");
    }
}

#[tokio::test]
async fn a_command_that_runs_too_long_is_124_and_a_killed_one_137() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let stubborn = "trap '' TERM; echo begun; while :; do sleep 1; done";
    let late = exec(
        &mut client,
        with(shell(stubborn), json!({"timeoutMs": 200})),
    )
    .await;
    assert_eq!(
        late,
        json!({"exitCode": 124, "stdout": "begun\n", "stderr": ""})
    );
    let at_once = exec(
        &mut client,
        json!({"command": ["sleep", "100"], "timeoutMs": 0}),
    )
    .await;
    assert_eq!(at_once["exitCode"], 124);
    let id = client
        .request(
            "command/exec",
            json!({"command": ["sleep", "100"], "processId": "p", "disableTimeout": true}),
        )
        .await
        .unwrap();
    let ended = client
        .call("command/exec/terminate", json!({"processId": "p"}))
        .await
        .unwrap();
    assert_eq!(result(&ended), json!({}));
    let answer = result(&client.answer(id).await.unwrap());
    assert_eq!(answer["exitCode"], 137);
}

#[tokio::test]
async fn what_is_kept_is_cut_at_the_cap() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let hello = json!({"command": ["echo", "hello"], "outputBytesCap": 3});
    assert_eq!(exec(&mut client, hello).await["stdout"], "hel");
    let nothing = json!({"command": ["echo", "hello"], "outputBytesCap": 0});
    assert_eq!(exec(&mut client, nothing).await["stdout"], "");
    let much = "head -c 3000000 /dev/zero | tr '\\0' x";
    let usual = exec(&mut client, shell(much)).await;
    assert_eq!(usual["stdout"].as_str().unwrap().len(), 1024 * 1024);
    let all = exec(
        &mut client,
        with(shell(much), json!({"disableOutputCap": true})),
    )
    .await;
    assert_eq!(all["stdout"].as_str().unwrap().len(), 3_000_000);
}

#[tokio::test]
async fn an_answer_without_a_cap_still_fits_a_message() {
    let host = Host::new().await;
    let mut client = host.client().await;
    // Each byte is six in JSON: together more than a connection may hold.
    let zeros = with(
        shell("head -c 12000000 /dev/zero"),
        json!({"disableOutputCap": true}),
    );
    let answer = exec(&mut client, zeros).await;
    let kept = answer["stdout"].as_str().unwrap().len();
    assert!((7_000_000..=8 * 1024 * 1024).contains(&kept), "{kept}");
    assert_eq!(exec(&mut client, shell("echo a")).await["stdout"], "a\n");
}

#[tokio::test]
async fn streamed_output_comes_before_the_answer_and_is_not_repeated() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let much = "head -c 3000000 /dev/zero | tr '\\0' x; echo err >&2";
    let params = with(
        shell(much),
        json!({"processId": "s", "streamStdoutStderr": true, "disableOutputCap": true}),
    );
    let answer = exec(&mut client, params).await;
    assert_eq!(answer, json!({"exitCode": 0, "stdout": "", "stderr": ""}));
    let last = client.received().last().unwrap();
    assert!(last.get("result").is_some(), "{last}");
    let (bytes, is_cut) = told(&client, "s", "stdout");
    assert_eq!((bytes.len(), is_cut), (3_000_000, false));
    assert_eq!(told(&client, "s", "stderr"), (b"err\n".to_vec(), false));
    for (id, script, wanted, is_cut) in [
        ("cut", "echo hello", "hel", true),
        ("exact", "printf hel", "hel", false),
        ("later", "printf hel; sleep 0.2; printf lo", "hel", true),
    ] {
        let params = with(
            shell(script),
            json!({"processId": id, "streamStdoutStderr": true, "outputBytesCap": 3}),
        );
        exec(&mut client, params).await;
        let wanted = (wanted.as_bytes().to_vec(), is_cut);
        assert_eq!(told(&client, id, "stdout"), wanted, "{id}");
    }
}

#[tokio::test]
async fn input_is_streamed_in_order_and_closed() {
    let host = Host::new().await;
    let mut client = host.client().await;
    // Nothing of this waits for an answer: the order on the wire is the order of everything.
    let params = json!({"command": ["cat"], "processId": "p", "streamStdin": true});
    let id = client.request("command/exec", params).await.unwrap();
    let mut wanted = String::new();
    let mut writes = Vec::new();
    for number in 0..200 {
        let line = format!("{number}\n");
        wanted.push_str(&line);
        let write = json!({"processId": "p", "deltaBase64": base64(line),
            "closeStdin": number == 199});
        writes.push(client.request("command/exec/write", write).await.unwrap());
    }
    let answer = result(&client.answer(id).await.unwrap());
    assert_eq!(answer["stdout"], wanted);
    for write in writes {
        assert_eq!(result(&client.answer(write).await.unwrap()), json!({}));
    }
}

#[tokio::test]
async fn a_kill_is_not_kept_waiting_by_input_that_nobody_reads() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let params = json!({"command": ["sleep", "100"], "processId": "p", "streamStdin": true});
    let id = client.request("command/exec", params).await.unwrap();
    let much = base64(vec![b'x'; 900_000]);
    let mut writes = Vec::new();
    for _ in 0..4 {
        let write = json!({"processId": "p", "deltaBase64": much});
        writes.push(client.request("command/exec/write", write).await.unwrap());
    }
    let kill = json!({"processId": "p"});
    let ended = client.call("command/exec/terminate", kill).await.unwrap();
    assert_eq!(result(&ended), json!({}));
    let answer = result(&client.answer(id).await.unwrap());
    assert_eq!(answer["exitCode"], 137);
    for write in writes {
        let answer = client.answer(write).await.unwrap();
        let words = &answer["error"]["message"];
        let is_said = answer.get("result").is_some()
            || words == "command/exec \"p\" is no longer running"
            || words == "stdin is already closed";
        assert!(is_said, "{answer}");
    }
}

#[tokio::test]
async fn a_terminal_echoes_knows_its_size_and_hears_of_a_new_one() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let script = "trap 'stty size' WINCH; stty size; while read line; do echo got:$line; done";
    let params = with(
        shell(script),
        json!({"processId": "t", "tty": true, "size": {"rows": 10, "cols": 20}}),
    );
    let id = client.request("command/exec", params).await.unwrap();
    until_told(&mut client, "t", "10 20\r\n").await;
    let write = json!({"processId": "t", "deltaBase64": base64("abc\n")});
    let written = client.call("command/exec/write", write).await.unwrap();
    assert_eq!(result(&written), json!({}));
    // The terminal's own echo, then what the program says.
    until_told(&mut client, "t", "abc\r\n").await;
    until_told(&mut client, "t", "got:abc\r\n").await;
    let size = json!({"processId": "t", "size": {"rows": 30, "cols": 40}});
    let resized = client.call("command/exec/resize", size).await.unwrap();
    assert_eq!(result(&resized), json!({}));
    let write = json!({"processId": "t", "deltaBase64": base64("\n")});
    client.call("command/exec/write", write).await.unwrap();
    until_told(&mut client, "t", "30 40\r\n").await;
    let close = json!({"processId": "t", "closeStdin": true});
    client.call("command/exec/write", close).await.unwrap();
    let answer = result(&client.answer(id).await.unwrap());
    assert_eq!(
        (&answer["exitCode"], &answer["stdout"]),
        (&json!(0), &json!(""))
    );
}

#[tokio::test]
async fn a_command_may_write_only_where_its_policy_says() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let target = host.cwd().join("file");
    let script = format!("echo x > \"{}\"", target.display());
    let limited = with(
        shell(&script),
        json!({"sandboxPolicy": {"type": "readOnly", "networkAccess": false}}),
    );
    let answer = client.call("command/exec", limited).await.unwrap();
    if let Some(error) = answer.get("error") {
        // A machine that cannot enforce it says so and runs nothing.
        assert_eq!(error["data"]["reason"], "sandboxUnavailable", "{answer}");
        assert_eq!(error["code"], -32603);
    } else {
        assert_ne!(answer["result"]["exitCode"], 0, "{answer}");
    }
    assert!(!target.exists());
    let profile = with(shell(&script), json!({"permissionProfile": ":read-only"}));
    client.call("command/exec", profile).await.unwrap();
    assert!(!target.exists());
    let free = with(shell(&script), json!({"sandbox": "danger-full-access"}));
    assert_eq!(exec(&mut client, free).await["exitCode"], 0);
    assert!(target.exists());
}

#[tokio::test]
async fn what_a_command_leaves_behind_ends_with_its_answer() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let answer = exec(&mut client, shell("sleep 1000 > /dev/null 2>&1 & echo $!")).await;
    let pid: i32 = answer["stdout"].as_str().unwrap().trim().parse().unwrap();
    crate::leaving::until_gone(pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_quick_commands_written_at_once_are_all_answered() {
    let host = Host::new().await;
    let mut client = host.client().await;
    let mut ids = Vec::new();
    for number in 0..1000 {
        let params = json!({"command": ["echo", number.to_string()]});
        ids.push(client.request("command/exec", params).await.unwrap());
    }
    for (number, id) in ids.into_iter().enumerate() {
        let answer = result(&client.answer(id).await.unwrap());
        assert_eq!(
            answer,
            json!({"exitCode": 0, "stdout": format!("{number}\n"), "stderr": ""})
        );
    }
    let unknown = json!({"processId": "1"});
    let words = "no active command/exec for process id \"1\"";
    let refusal = (-32600, "processNotFound", words);
    refused(&mut client, "command/exec/terminate", unknown, refusal).await;
}
