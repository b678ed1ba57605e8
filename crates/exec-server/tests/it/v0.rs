//! `exec-server.v0`, byte for byte, on a websocket and on lines.

use serde_json::{Value, json};

use crate::support::{Got, Host, SOON, Wire, all_gone, bytes_of};

const GREETING: &str = r#"{"id":1,"method":"initialize","params":{"clientName":"tool"}}"#;
const GREETED: &str = r#"{"id":1,"result":{"protocolVersion":"exec-server.v0"}}"#;
const READY: &str = r#"{"method":"initialized","params":{}}"#;

async fn both(host: &Host) -> [Wire; 2] {
    [host.ws().await, host.stdio()]
}

async fn ready(wire: &mut Wire) {
    assert_eq!(wire.ask(GREETING).await, GREETED);
    wire.send(READY).await;
}

fn exec(id: i64, script: &str, tty: bool) -> String {
    let env = json!({"PATH": "/usr/bin:/bin"});
    let params =
        json!({"argv": ["sh", "-c", script], "cwd": "/tmp", "env": env, "tty": tty, "arg0": null});
    json!({"id": id, "method": "command/exec", "params": params}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_contract_runs_as_written() {
    let host = Host::start();
    for mut wire in both(&host).await {
        ready(&mut wire).await;
        assert_eq!(
            wire.ask(&exec(2, "cat", true)).await,
            r#"{"id":2,"result":{"sessionId":"session-1"}}"#
        );
        let write = r#"{"id":3,"method":"command/exec/write","params":{"sessionId":"session-1","chunk":"aGkK"}}"#;
        assert_eq!(
            wire.ask(write).await,
            r#"{"id":3,"result":{"accepted":true}}"#
        );
        let mut echoed = Vec::new();
        while echoed != b"hi\r\nhi\r\n" {
            let event = wire.event().await;
            assert_eq!(event["method"], "command/exec/outputDelta");
            assert_eq!(event["params"]["stream"], "stdout");
            assert_eq!(event["params"]["sessionId"], "session-1");
            echoed.extend(bytes_of(&event["params"]["chunk"]));
        }
        let terminate =
            r#"{"id":4,"method":"command/exec/terminate","params":{"sessionId":"session-1"}}"#;
        assert_eq!(
            wire.ask(terminate).await,
            r#"{"id":4,"result":{"running":true}}"#
        );
        assert_eq!(
            wire.got().await,
            Got::Text(
                r#"{"method":"command/exec/exited","params":{"sessionId":"session-1","exitCode":137}}"#
                    .to_owned()
            )
        );
        assert_eq!(
            wire.ask(terminate).await,
            r#"{"id":4,"result":{"running":false}}"#
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_come_in_the_order_of_the_table() {
    let host = Host::start();
    for mut wire in both(&host).await {
        // 1, 2 and 4, before initialize.
        assert_eq!(
            wire.ask(r#"{"id":"a","method":"foo"}"#).await,
            r#"{"error":{"code":-32600,"message":"unknown method: foo"},"id":"a"}"#
        );
        assert_eq!(
            wire.ask(r#"{"id":2,"method":"command/exec","params":{"argv":[]}}"#)
                .await,
            r#"{"error":{"code":-32602,"message":"missing field `cwd`"},"id":2}"#
        );
        assert_eq!(
            wire.ask(r#"{"id":3,"method":"command/exec"}"#).await,
            r#"{"error":{"code":-32602,"message":"invalid type: null, expected struct ExecParams"},"id":3}"#
        );
        assert_eq!(
            wire.ask(&exec(4, "true", false)).await,
            r#"{"error":{"code":-32600,"message":"client must call initialize before using exec methods"},"id":4}"#
        );
        // 3 and 5, between initialize and initialized.
        assert_eq!(wire.ask(GREETING).await, GREETED);
        assert_eq!(
            wire.ask(GREETING).await,
            r#"{"error":{"code":-32600,"message":"initialize may only be sent once per connection"},"id":1}"#
        );
        assert_eq!(
            wire.ask(r#"{"id":1,"method":"initialize","params":{}}"#)
                .await,
            r#"{"error":{"code":-32602,"message":"missing field `clientName`"},"id":1}"#
        );
        assert_eq!(
            wire.ask(&exec(5, "true", false)).await,
            r#"{"error":{"code":-32600,"message":"client must send initialized before using exec methods"},"id":5}"#
        );
        wire.send(READY).await;
        wire.send(READY).await;
        // 6 to 8.
        assert_eq!(
            wire.ask(r#"{"id":6,"method":"command/exec","params":{"argv":[],"cwd":"/","env":{},"tty":false}}"#)
                .await,
            r#"{"error":{"code":-32602,"message":"argv must not be empty"},"id":6}"#
        );
        let write = r#"{"id":7,"method":"command/exec/write","params":{"sessionId":"session-1","chunk":"aGkK"}}"#;
        assert_eq!(
            wire.ask(write).await,
            r#"{"error":{"code":-32600,"message":"unknown session id session-1"},"id":7}"#
        );
        assert_eq!(
            wire.ask(&exec(8, "sleep 100", false)).await,
            r#"{"id":8,"result":{"sessionId":"session-1"}}"#
        );
        assert_eq!(
            wire.ask(write).await,
            r#"{"error":{"code":-32600,"message":"stdin is closed for session session-1"},"id":7}"#
        );
        let unknown =
            r#"{"id":9,"method":"command/exec/terminate","params":{"sessionId":"session-9"}}"#;
        assert_eq!(
            wire.ask(unknown).await,
            r#"{"id":9,"result":{"running":false}}"#
        );
        assert_eq!(
            wire.ask(r#"{"id":9,"method":"process/start","params":{}}"#)
                .await,
            r#"{"error":{"code":-32600,"message":"unknown method: process/start"},"id":9}"#
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_spawn_has_the_systems_text_and_uses_up_its_number() {
    let host = Host::start();
    for mut wire in both(&host).await {
        ready(&mut wire).await;
        let missing = r#"{"id":2,"method":"command/exec","params":{"argv":["no-such-program-x"],"cwd":"/tmp","env":{"PATH":"/usr/bin"},"tty":false,"sessionId":"mine"}}"#;
        let answer: Value = serde_json::from_str(&wire.ask(missing).await).unwrap();
        assert_eq!(answer["error"]["code"], -32603);
        assert_eq!(
            answer["error"]["message"],
            "No such file or directory (os error 2)"
        );
        assert_eq!(answer["error"]["data"]["kind"], "programNotFound");
        assert_eq!(
            wire.ask(&exec(3, "exit 3", false)).await,
            r#"{"id":3,"result":{"sessionId":"session-2"}}"#
        );
        assert_eq!(
            wire.got().await,
            Got::Text(
                r#"{"method":"command/exec/exited","params":{"sessionId":"session-2","exitCode":3}}"#
                    .to_owned()
            )
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_and_a_terminate_that_come_with_their_start_find_it() {
    let host = Host::start();
    for mut wire in both(&host).await {
        ready(&mut wire).await;
        wire.push(exec(2, "cat", true));
        wire.push(r#"{"id":3,"method":"command/exec/write","params":{"sessionId":"session-1","chunk":"aGkK"}}"#);
        wire.push(exec(4, "sleep 1000", false));
        wire.push(
            r#"{"id":5,"method":"command/exec/terminate","params":{"sessionId":"session-2"}}"#,
        );
        wire.flush().await;
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(wire.answer_text().await);
        }
        answers.sort();
        assert_eq!(
            answers,
            [
                r#"{"id":2,"result":{"sessionId":"session-1"}}"#,
                r#"{"id":3,"result":{"accepted":true}}"#,
                r#"{"id":4,"result":{"sessionId":"session-2"}}"#,
                r#"{"id":5,"result":{"running":true}}"#,
            ]
        );
        loop {
            let event = wire.event().await;
            if event["method"] == "command/exec/exited" {
                assert_eq!(
                    event["params"],
                    json!({"sessionId": "session-2", "exitCode": 137})
                );
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_closing_cause_closes_and_ends_the_children() {
    let causes = [
        "no json",
        "[]",
        r#"{"id":6,"result":{}}"#,
        r#"{"id":"x","error":{"code":1,"message":"m"}}"#,
        r#"{"method":"foo/bar","params":{}}"#,
    ];
    let host = Host::start();
    for cause in causes {
        for mut wire in both(&host).await {
            ready(&mut wire).await;
            wire.send(exec(2, "setsid sleep 1000 & echo $! $$; wait", true))
                .await;
            wire.answer_text().await;
            let event = wire.event().await;
            let said = String::from_utf8(bytes_of(&event["params"]["chunk"])).unwrap();
            let pids: Vec<i64> = said
                .split_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect();
            assert_eq!(pids.len(), 2);
            wire.send(cause).await;
            loop {
                match wire.got().await {
                    Got::Text(text) => assert!(text.starts_with("{\"method\""), "{cause}: {text}"),
                    Got::Closed(code) => {
                        assert!(matches!(code, Some(1002) | None), "{cause}: {code:?}");
                        break;
                    }
                }
            }
            all_gone(cause, SOON, &pids).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn initialized_before_initialize_closes() {
    let host = Host::start();
    let mut wire = host.ws().await;
    wire.send(READY).await;
    assert_eq!(wire.got().await, Got::Closed(Some(1002)));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_dialects_share_a_port() {
    let host = Host::start();
    let (mut old, mut new, mut named) = (host.ws().await, host.ws().await, host.ws().await);
    ready(&mut old).await;
    assert_eq!(new.greet_v1().await.len(), 36);
    let named_v1 = json!({"clientName": "x", "protocolVersion": "process.v1"});
    assert_eq!(named.greet(named_v1).await.len(), 36);
    new.sh("p", "echo new", json!({})).await;
    assert_eq!(
        old.ask(&exec(2, "echo old", false)).await,
        r#"{"id":2,"result":{"sessionId":"session-1"}}"#
    );
    named.sh("p", "echo named", json!({})).await;
    assert_eq!(new.until_closed("p", 0).await, (b"new\n".to_vec(), 0));
    assert_eq!(named.until_closed("p", 0).await, (b"named\n".to_vec(), 0));
    assert_eq!(bytes_of(&old.event().await["params"]["chunk"]), b"old\n");
    let (code, text) = host
        .ws()
        .await
        .err(
            "initialize",
            json!({"clientName": "x", "protocolVersion": "v2"}),
        )
        .await;
    assert_eq!(
        (code, text.as_str()),
        (-32602, "unsupported protocolVersion v2")
    );
}
