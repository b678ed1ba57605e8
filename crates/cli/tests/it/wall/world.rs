//! One user's machine in small: a home with secrets, a workspace, files outside, a bystander, a daemon
//! and an exec-server.
//!
//! All of it lies in one directory of `/var/tmp`, which no policy makes writable by itself. The daemon
//! runs with the umask 077 and with a password in its environment, so that attacks can look for both.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use turnlane_rpc::connect::{self, connect_unix, connect_ws};
use turnlane_testkit::mock_model::MockModel;
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{MOCK_KEY, MOCK_KEY_VARIABLE};
use turnlane_testkit::{ProcessSpec, TestClient, TestProcess, skipped};

use super::attacker;
use crate::app_server::{call_what_is_said, greet, run_what_is_said};

/// `nobody` nearly everywhere; any user without files would do.
pub(crate) const NOBODY: u32 = 65_534;

/// Part of a proxy's address, which no command may see.
pub(crate) const PASSWORD: &str = "hunter2-of-the-wall";

/// Names directly under a root that stay the user's.
pub(crate) const PROTECTED: [&str; 4] = [".git", ".codex", ".agents", ".turnlane"];

/// Whose programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Whoever runs the tests.
    Me,
    /// An ordinary user; needs root to become.
    Nobody,
}

impl User {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Me if is_root() => "root",
            Self::Me | Self::Nobody => "ordinary user",
        }
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the tests can be this user; says so aloud if not.
pub(crate) async fn can_be(user: User) -> bool {
    if user == User::Me {
        return true;
    }
    if !is_root() {
        skipped("the wall as another user: the tests do not run as root");
        return false;
    }
    let found = TestProcess::run(ProcessSpec::shell("setpriv --version"), DEADLINE).await;
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        skipped("the wall as an ordinary user: setpriv is not installed");
    }
    found
}

/// Where a world keeps its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HomePlace {
    /// Beside the workspace, where nothing is writable.
    Outside,
    /// Two levels below the workspace.
    InWorkspace,
}

/// See the module.
pub(crate) struct World {
    pub(crate) user: User,
    pub(crate) mock: MockModel,
    dir: TempDir,
    home: PathBuf,
    turnlane: PathBuf,
    pub(crate) attacker: PathBuf,
}

impl World {
    pub(crate) async fn new(user: User, place: HomePlace) -> Self {
        let mock = MockModel::start().await.unwrap();
        // A list of calls, or one command.
        mock.choose_with(|request| match request.last_user_text() {
            text if text.starts_with("[[") => Some(call_what_is_said(request)),
            _ => Some(run_what_is_said(request)),
        });
        let dir = tempfile::Builder::new()
            .prefix("turnlane-wall-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let home = match place {
            HomePlace::Outside => dir.path().join("turnlane"),
            HomePlace::InWorkspace => dir.path().join("work/project/sub/state"),
        };
        let world = Self {
            user,
            home,
            turnlane: dir.path().join("bin/turnlane"),
            attacker: dir.path().join("bin/attacker"),
            mock,
            dir,
        };
        for path in ["bin", "codex", "user", "work/project", "outside", "scenes"] {
            fs::create_dir_all(world.path(path)).unwrap();
        }
        fs::create_dir_all(world.home()).unwrap();
        // The build directory may not be everybody's to read.
        fs::copy(env!("CARGO_BIN_EXE_turnlane"), &world.turnlane).unwrap();
        fs::copy(attacker().await, &world.attacker).unwrap();
        world.write_files();
        world.hand_over(world.dir.path());
        fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
        world
    }

    fn write_files(&self) {
        let provider = format!(
            "model = \"mock-model\"\nmodel_provider = \"mock\"\n\
             [process]\nspawn = \"deny\"\n\
             [model_providers.mock]\nname = \"mock\"\nbase_url = \"{}\"\n\
             wire_api = \"responses\"\nenv_key = \"{MOCK_KEY_VARIABLE}\"\n",
            self.mock.base_url()
        );
        for (path, text) in [
            (self.home().join("config.toml"), provider.as_str()),
            (self.home().join("keys.env"), "WALL_KEY=key-in-the-file\n"),
            (
                self.path("codex/auth.json"),
                "{\"OPENAI_API_KEY\":\"key-of-codex\"}",
            ),
            (self.path("user/.profile"), "# dotfile\n"),
            (self.path("user/.bashrc"), "echo bashrc-was-read\n"),
        ] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        self.renew_root();
    }

    /// Gives a tree to the user of this world.
    pub(crate) fn hand_over(&self, path: &Path) {
        if self.user == User::Me {
            return;
        }
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(rustix::fs::CWD, path, Some(uid), Some(gid), flags).unwrap();
        if fs::symlink_metadata(path).unwrap().is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.hand_over(&entry.unwrap().path());
            }
        }
    }

    /// Empties the workspace, but for a home in it, and puts two files there.
    pub(crate) fn renew_root(&self) {
        // A command may have changed the mode of its own workspace.
        fs::set_permissions(self.root(), fs::Permissions::from_mode(0o755)).unwrap();
        for entry in fs::read_dir(self.root()).unwrap() {
            let path = entry.unwrap().path();
            if self.home().starts_with(&path) {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(&path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
        }
        for name in ["plain", "tool"] {
            fs::write(self.root().join(name), name).unwrap();
            self.hand_over(&self.root().join(name));
        }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// `TURNLANE_HOME`.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The workspace of all threads and commands.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("work/project")
    }

    /// Files of the user that no attack may change: (path, contents).
    pub(crate) fn secrets(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let home = ["config.toml", "keys.env", "token"].map(|name| self.home().join(name));
        let others = ["codex/auth.json", "user/.profile", "user/.bashrc"];
        let others = others.map(|name| self.path(name));
        let all = home.into_iter().chain(others);
        all.map(|path| {
            let contents = fs::read(&path).unwrap_or_default();
            (path, contents)
        })
        .collect()
    }

    /// A program of this world's user, in its whole environment.
    pub(crate) fn program(&self, argv: &[&str]) -> ProcessSpec {
        let spec = ProcessSpec::new("/bin/sh").args(["-c", "umask 077; exec \"$@\"", "sh"]);
        let spec = match self.user {
            User::Me => spec,
            User::Nobody => spec.args([
                "setpriv".to_owned(),
                format!("--reuid={NOBODY}"),
                format!("--regid={NOBODY}"),
                "--clear-groups".to_owned(),
            ]),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        spec.args(argv.iter().copied())
            .env("PATH", path)
            .env("TMPDIR", "/tmp")
            .env("HOME", self.path("user"))
            .env("TURNLANE_HOME", self.home())
            .env("CODEX_HOME", self.path("codex"))
            .env(MOCK_KEY_VARIABLE, MOCK_KEY)
            .env("HTTPS_PROXY", format!("http://me:{PASSWORD}@127.0.0.1:9"))
            .env("https_proxy", format!("http://me:{PASSWORD}@127.0.0.1:9"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.root())
    }

    /// The binary under test with these arguments.
    pub(crate) fn turnlane(&self, arguments: &[&str]) -> ProcessSpec {
        let mut argv = vec![self.turnlane.to_str().unwrap()];
        argv.extend(arguments);
        self.program(&argv)
    }

    /// What `turnlane doctor` says of the machine to this user.
    pub(crate) async fn doctor(&self) -> Value {
        let spec = self.turnlane(&["doctor", "--json"]);
        let output = TestProcess::run(spec, DEADLINE).await.unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts the daemon.
    pub(crate) async fn daemon(&self) -> Server {
        let process = TestProcess::start(self.turnlane(&["serve"])).unwrap();
        let ready = |line: &str| line.starts_with("ready");
        process.wait_for_stderr_line(ready, DEADLINE).await.unwrap();
        let websocket = |line: &str| line.starts_with("listening on ws://");
        let line = process.wait_for_stderr_line(websocket, DEADLINE);
        Server {
            url: line.await.unwrap().rsplit(' ').next().unwrap().to_owned(),
            socket: Some(self.home().join("run/app-server.sock")),
            token: self.token("token"),
            process,
        }
    }

    /// Starts the exec-server.
    pub(crate) async fn exec_server(&self) -> Server {
        let arguments = ["exec-server", "--listen", "ws://127.0.0.1:0"];
        let mut process = TestProcess::start(self.turnlane(&arguments)).unwrap();
        let mut lines = BufReader::new(process.take_stdout().unwrap()).lines();
        let line = within("the exec-server's address", DEADLINE, lines.next_line()).await;
        let url = line.unwrap().unwrap();
        let url = url.unwrap_or_else(|| panic!("it did not start: {}", process.stderr_tail()));
        Server {
            url,
            socket: None,
            token: self.token("exec-server.token"),
            process,
        }
    }

    fn token(&self, file: &str) -> String {
        let text = fs::read_to_string(self.home().join(file)).unwrap();
        text.trim().to_owned()
    }
}

/// A daemon or an exec-server.
pub(crate) struct Server {
    pub(crate) process: TestProcess,
    pub(crate) url: String,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) token: String,
}

impl Server {
    /// The port of its websocket.
    pub(crate) fn port(&self) -> String {
        let port = self.url.trim_end_matches('/').rsplit(':').next();
        port.unwrap().to_owned()
    }

    /// A client of a daemon, on its socket or by its websocket.
    pub(crate) async fn client(&self) -> TestClient {
        let duplex = match &self.socket {
            // Another user's socket refuses us.
            Some(socket) if !is_root() => connect_unix(socket, &connect::Options::default()).await,
            _ => connect_ws(&self.url, &self.options()).await,
        };
        let mut client = TestClient::new(duplex.unwrap());
        greet(&mut client).await;
        client
    }

    /// A client of an exec-server.
    pub(crate) async fn exec_client(&self) -> TestClient {
        let duplex = connect_ws(&self.url, &self.options()).await.unwrap();
        let mut client = TestClient::new(duplex);
        let params = json!({"clientName": "test", "resumeSessionId": null});
        let answer = client.call("initialize", params).await.unwrap();
        assert_eq!(answer["result"]["protocolVersion"], "process.v1");
        client.notify("initialized", json!({})).await.unwrap();
        client
    }

    fn options(&self) -> connect::Options {
        connect::Options {
            token: Some(self.token.clone().into()),
            ..connect::Options::default()
        }
    }
}

/// The process outside that attacks aim at.
pub(crate) struct Bystander {
    _process: TestProcess,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Where its objects are: keys of a scene.
    pub(crate) places: serde_json::Map<String, Value>,
}

impl Bystander {
    pub(crate) async fn start(world: &World) -> Self {
        let outside = world.path("outside");
        let argv = [
            world.attacker.to_str().unwrap(),
            "bystander",
            outside.to_str().unwrap(),
        ];
        let mut process = TestProcess::start(world.program(&argv)).unwrap();
        let stdin = process.take_stdin().unwrap();
        let mut stdout = BufReader::new(process.take_stdout().unwrap()).lines();
        let line = within("the bystander", DEADLINE, stdout.next_line()).await;
        let line = line.unwrap().unwrap();
        let line = line.unwrap_or_else(|| panic!("no bystander: {}", process.stderr_tail()));
        let places: Value = serde_json::from_str(&line).unwrap();
        Self {
            _process: process,
            stdin,
            stdout,
            places: places.as_object().unwrap().clone(),
        }
    }

    /// Everything of it that an attack could have changed, and the user's own files.
    pub(crate) async fn state(&mut self, world: &World) -> Vec<String> {
        let mut state = self.ask("state").await;
        let user = world.path("user");
        state.extend(self.ask(&format!("tree {}", user.display())).await);
        for (path, contents) in world.secrets() {
            let contents = String::from_utf8_lossy(&contents).into_owned();
            state.push(format!("{} holds {contents:?}", path.display()));
        }
        let planted = world.home().join("planted").exists();
        state.push(format!("planted in the home: {planted}"));
        state
    }

    async fn ask(&mut self, line: &str) -> Vec<String> {
        let line = format!("{line}\n");
        self.stdin.write_all(line.as_bytes()).await.unwrap();
        let answer = within("the bystander's answer", DEADLINE, self.stdout.next_line()).await;
        let answer = answer.unwrap().unwrap().unwrap();
        let text: String = serde_json::from_str(&answer).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Lines that differ, as `before => after`.
pub(crate) fn changes(before: &[String], after: &[String]) -> Vec<String> {
    let lost = before.iter().filter(|line| !after.contains(line));
    let new = after.iter().filter(|line| !before.contains(line));
    let lost = lost.map(|line| format!("- {line}"));
    lost.chain(new.map(|line| format!("+ {line}"))).collect()
}
