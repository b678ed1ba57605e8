//! Each approval policy with each sandbox: what is asked, what runs, what is refused.

use std::path::Path;

use serde_json::{Value, json};
use turnlane_testkit::{TestClient, skipped};

use super::{Served, begin, ok, run_what_is_said, thread, told};

/// What a command tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Read,
    WriteInside,
    WriteOutside,
    Network,
}

const DEEDS: [Deed; 4] = [
    Deed::Read,
    Deed::WriteInside,
    Deed::WriteOutside,
    Deed::Network,
];

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// It ran and did it, unasked.
    Done,
    /// It ran and the sandbox refused it.
    Denied,
    /// Somebody was asked, declined, and it did not run.
    Asked,
    /// It ran, was denied, somebody was asked whether to run it unconfined, and declined.
    DeniedThenAsked,
}

impl Deed {
    fn command(self, outside: &Path, port: u16) -> String {
        match self {
            Self::Read => "cat /etc/passwd > /dev/null".to_owned(),
            Self::WriteInside => "echo x > inside".to_owned(),
            Self::WriteOutside => format!("echo x > \"{}\"", outside.join("file").display()),
            Self::Network => format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        }
    }
}

/// The rows of the contract: an answerer who always declines.
fn expected(approval: &str, sandbox: &str, deed: Deed) -> Came {
    if approval == "untrusted" {
        return Came::Asked;
    }
    let allowed = match sandbox {
        "dangerFullAccess" => true,
        "externalSandbox" => deed != Deed::Network,
        "workspaceWrite" => matches!(deed, Deed::Read | Deed::WriteInside),
        _ => deed == Deed::Read,
    };
    match (allowed, approval) {
        (true, _) => Came::Done,
        (false, "granular") => Came::DeniedThenAsked,
        (false, _) => Came::Denied,
    }
}

fn approval_policy(word: &str) -> Value {
    match word {
        "granular" => json!({"granular": {
            "mcp_elicitations": true, "rules": true, "sandbox_approval": true,
        }}),
        word => json!(word),
    }
}

fn sandbox_policy(word: &str) -> Value {
    match word {
        // The folders for temporary files hold the test's own.
        "workspaceWrite" => json!({
            "type": word, "writableRoots": [], "networkAccess": false,
            "excludeTmpdirEnvVar": true, "excludeSlashTmp": true,
        }),
        "externalSandbox" => json!({"type": word, "networkAccess": "restricted"}),
        "readOnly" => json!({"type": word, "networkAccess": false}),
        word => json!({"type": word}),
    }
}

/// Runs a turn to its end, declining whatever is asked; the questions.
async fn decline_all(client: &mut TestClient, turn: &str) -> Vec<Value> {
    let mut questions = Vec::new();
    loop {
        let message = client.next().await.unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        if method.ends_with("/requestApproval") {
            let answer = json!({"id": message["id"], "result": {"decision": "decline"}});
            client.send(&answer).await.unwrap();
            questions.push(message.clone());
        }
        if method == "turn/completed" && message["params"]["turn"]["id"] == turn {
            return questions;
        }
    }
}

#[tokio::test]
async fn every_approval_policy_with_every_sandbox_and_every_deed() {
    let served = Served::new(run_what_is_said).await;
    let config = served.home.turnlane().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        format!("{text}\n[native]\nshell = \"/bin/bash\"\n"),
    )
    .unwrap();
    if !Path::new("/bin/bash").exists() {
        return skipped("the matrix of policies: /bin/bash is missing");
    }
    let outside = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = served.stdio().await;
    let client = &mut server.client;
    for approval in ["untrusted", "on-request", "never", "granular"] {
        for sandbox in [
            "readOnly",
            "workspaceWrite",
            "dangerFullAccess",
            "externalSandbox",
        ] {
            let more = json!({
                "approvalPolicy": approval_policy(approval),
                "sandboxPolicy": sandbox_policy(sandbox),
            });
            let thread = thread(client, &served.work(), more).await;
            for deed in DEEDS {
                let (inside, beyond) = (served.work().join("inside"), outside.path().join("file"));
                let _ = std::fs::remove_file(&inside);
                let _ = std::fs::remove_file(&beyond);
                let command = deed.command(outside.path(), port);
                let turn = begin(client, &thread, &command).await;
                let questions = decline_all(client, &turn).await;
                let told = told(&served.mock);
                let done = told.contains("Process exited with code 0");
                let ran = told.contains("Process exited with code");
                let came = match (ran, done, questions.len()) {
                    (true, true, 0) => Came::Done,
                    (true, false, 0) => Came::Denied,
                    (false, _, 1) if questions[0]["params"]["reason"].is_null() => Came::Asked,
                    (_, false, 1) => Came::DeniedThenAsked,
                    other => panic!("{approval} {sandbox} {deed:?}: {other:?}: {told}"),
                };
                let wanted = expected(approval, sandbox, deed);
                assert_eq!(came, wanted, "{approval} {sandbox} {deed:?}: {told}");
                let wrote = came == Came::Done;
                assert_eq!(inside.exists(), wrote && deed == Deed::WriteInside);
                assert_eq!(beyond.exists(), wrote && deed == Deed::WriteOutside);
            }
            ok(client, "thread/archive", json!({"threadId": thread})).await;
        }
    }
}
