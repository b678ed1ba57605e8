//! The ways in which a client runs a confined command, and the policies it names.

use std::path::Path;

use serde_json::{Value, json};
use turnlane_protocol::exec_server::Blob;
use turnlane_testkit::TestClient;

use super::world::{Server, World};
use crate::app_server::{ok, thread};

/// What a command may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    ReadOnly,
    WorkspaceWrite,
    WorkspaceWriteNetwork,
    ReadOnlyNetwork,
}

pub(crate) const POLICIES: [Policy; 4] = [
    Policy::ReadOnly,
    Policy::WorkspaceWrite,
    Policy::WorkspaceWriteNetwork,
    Policy::ReadOnlyNetwork,
];

impl Policy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::WorkspaceWrite => "ww",
            Self::WorkspaceWriteNetwork => "ww+net",
            Self::ReadOnlyNetwork => "ro+net",
        }
    }

    pub(crate) fn has_network(self) -> bool {
        matches!(self, Self::WorkspaceWriteNetwork | Self::ReadOnlyNetwork)
    }

    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::WorkspaceWrite | Self::WorkspaceWriteNetwork)
    }

    /// As the app-server takes it, with further roots.
    pub(crate) fn sandbox_policy(self, roots: &[&Path]) -> Value {
        let network = self.has_network();
        if self.writes() {
            json!({"type": "workspaceWrite", "networkAccess": network, "writableRoots": roots,
                "excludeTmpdirEnvVar": false, "excludeSlashTmp": false})
        } else {
            json!({"type": "readOnly", "networkAccess": network})
        }
    }

    /// As Codex sends it to an exec-server.
    pub(crate) fn intent(self, root: &Path) -> Value {
        let special = |value: Value, access: &str| json!({"path": {"type": "special", "value": value}, "access": access});
        let protected = |name: &str| {
            json!({"path": {"type": "special", "value": {"kind": "project_roots", "subpath": name}},
                "access": "read", "missing_path_behavior": "skip"})
        };
        let mut entries = vec![special(json!({"kind": "root"}), "read")];
        if self.writes() {
            for kind in ["project_roots", "slash_tmp", "tmpdir"] {
                entries.push(special(json!({"kind": kind}), "write"));
            }
            entries.extend([".git", ".agents", ".codex"].map(protected));
        }
        let network = if self.has_network() {
            "enabled"
        } else {
            "restricted"
        };
        let root = format!("file://{}", root.display());
        json!({
            "permissions": {
                "type": "managed",
                "file_system": {"type": "restricted", "entries": entries},
                "network": network,
            },
            "cwd": root,
            "workspaceRoots": [root],
        })
    }
}

/// How a client asks for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// A model asks for `exec_command` in a turn of the native engine.
    Turn,
    /// `command/exec`.
    CommandExec,
    /// `process/start` of the exec-server, with Codex's sandbox object.
    ExecServer,
}

pub(crate) const ROUTES: [Route; 3] = [Route::Turn, Route::CommandExec, Route::ExecServer];

impl Route {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::CommandExec => "command/exec",
            Self::ExecServer => "exec-server",
        }
    }
}

/// The output of a command, or why it was refused.
pub(crate) type Outcome = Result<String, String>;

/// The servers of one world, and a client of each.
pub(crate) struct Gate {
    pub(crate) daemon: Server,
    pub(crate) exec_server: Server,
    pub(crate) client: TestClient,
    exec_client: TestClient,
    started: usize,
}

impl Gate {
    pub(crate) async fn open(world: &World) -> Self {
        let daemon = world.daemon().await;
        let exec_server = world.exec_server().await;
        Self {
            client: daemon.client().await,
            exec_client: exec_server.exec_client().await,
            daemon,
            exec_server,
            started: 0,
        }
    }

    /// Takes new connections. A server drops a client that does not answer its pings, as a test does
    /// not while it waits for something else.
    pub(crate) async fn reconnect(&mut self) {
        self.client = self.daemon.client().await;
        self.exec_client = self.exec_server.exec_client().await;
    }

    /// Runs a script of `sh` in the workspace of a world.
    pub(crate) async fn run(
        &mut self,
        world: &World,
        route: Route,
        policy: Policy,
        script: &str,
    ) -> Outcome {
        let root = world.root();
        match route {
            Route::Turn => {
                let more = json!({
                    "approvalPolicy": "never", "sandboxPolicy": policy.sandbox_policy(&[]),
                });
                let thread = thread(&mut self.client, &root, more).await;
                self.turn(&thread, script).await
            }
            Route::CommandExec => {
                let policy = policy.sandbox_policy(&[]);
                self.command_exec(&root, &policy, script).await
            }
            Route::ExecServer => {
                let intent = policy.intent(&root);
                self.exec_server(&root, &intent, script).await
            }
        }
    }

    /// A turn whose model asks for one command.
    pub(crate) async fn turn(&mut self, thread: &str, script: &str) -> Outcome {
        let client = &mut self.client;
        let turn = crate::app_server::begin(client, thread, script).await;
        let ended = |message: &Value| {
            message["method"] == "turn/completed" && message["params"]["turn"]["id"] == turn
        };
        let end = client.find("the end of the turn", ended).await.unwrap();
        let of_turn = client.received().iter().rev().find(|message| {
            message["method"] == "item/completed"
                && message["params"]["turnId"] == turn
                && message["params"]["item"]["type"] == "commandExecution"
        });
        let item = of_turn.map(|message| message["params"]["item"].clone());
        match item {
            Some(item) if !item["aggregatedOutput"].is_null() => {
                Ok(item["aggregatedOutput"].as_str().unwrap().to_owned())
            }
            item => Err(format!("{item:?} {end}")),
        }
    }

    pub(crate) async fn command_exec(
        &mut self,
        cwd: &Path,
        policy: &Value,
        script: &str,
    ) -> Outcome {
        let params = json!({
            "command": ["sh", "-c", script], "cwd": cwd, "sandboxPolicy": policy,
            "timeoutMs": 110_000,
        });
        let answer = self.client.call("command/exec", params).await.unwrap();
        match answer.get("result") {
            Some(result) => Ok(format!(
                "{}{}",
                result["stdout"].as_str().unwrap(),
                result["stderr"].as_str().unwrap()
            )),
            None => Err(answer["error"]["message"].to_string()),
        }
    }

    pub(crate) async fn exec_server(
        &mut self,
        cwd: &Path,
        intent: &Value,
        script: &str,
    ) -> Outcome {
        self.start(cwd, intent, &["sh", "-c", script], false).await
    }

    /// The same on a terminal.
    pub(crate) async fn on_terminal(
        &mut self,
        cwd: &Path,
        intent: &Value,
        argv: &[&str],
    ) -> Outcome {
        self.start(cwd, intent, argv, true).await
    }

    async fn start(&mut self, cwd: &Path, intent: &Value, argv: &[&str], tty: bool) -> Outcome {
        self.started += 1;
        let id = format!("wall-{}", self.started);
        let path = std::env::var("PATH").unwrap_or_default();
        let params = json!({
            "processId": id, "argv": argv,
            "cwd": format!("file://{}", cwd.display()), "tty": tty, "arg0": null,
            "env": {"PATH": path, "TMPDIR": "/tmp"}, "sandbox": intent,
        });
        let client = &mut self.exec_client;
        let answer = client.call("process/start", params).await.unwrap();
        if answer.get("error").is_some() {
            return Err(answer["error"]["message"].to_string());
        }
        let closed = |message: &Value| {
            message["method"] == "process/closed" && message["params"]["processId"] == id.as_str()
        };
        client.find("the end of the process", closed).await.unwrap();
        let is_output = |message: &&Value| {
            message["method"] == "process/output" && message["params"]["processId"] == id.as_str()
        };
        let chunks = client.received().iter().filter(is_output);
        let bytes: Vec<u8> = chunks
            .map(|message| message["params"]["chunk"].as_str().unwrap())
            .flat_map(|chunk| Blob::decode(chunk).unwrap().0)
            .collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// `process/spawn`, which knows no sandbox; the reason of its refusal.
    pub(crate) async fn spawn(&mut self, cwd: &Path) -> Outcome {
        let params = json!({"processHandle": "wall", "command": ["true"], "cwd": cwd});
        let answer = self.client.call("process/spawn", params).await.unwrap();
        match answer.get("error") {
            Some(error) => Err(error["message"].to_string()),
            None => Ok("it was started".to_owned()),
        }
    }

    /// Proves that both servers still answer.
    pub(crate) async fn check(&mut self) {
        self.reconnect().await;
        ok(&mut self.client, "thread/list", json!({})).await;
        let status = self.exec_client.call("environment/status", json!({})).await;
        assert_eq!(status.unwrap()["result"]["status"], "ready");
    }
}
