//! The Codex terminal UI, in a terminal of tmux, as a client of our binary; and a daemon in a window that is
//! closed.

use std::path::{Path, PathBuf};

use serde_json::Value;
use turnlane_testkit::wait::eventually;
use turnlane_testkit::{Output, ProcessSpec, TempHome, TestProcess};

use super::{PATIENCE, installed, model_and_home};
use crate::people::Person;

/// A terminal that a person would sit at: what is on its screen, and keys.
struct Terminal {
    tmux: String,
    socket: PathBuf,
    /// Its end ends everything in it.
    _server: TestProcess,
}

impl Terminal {
    /// Starts a command line in a terminal of its own.
    async fn start(tmux: &str, home: &TempHome, command: &str) -> Self {
        let socket = home.path().join("tmux");
        let server = ProcessSpec::new(tmux)
            .args(["-S", socket.to_str().unwrap(), "-f", "/dev/null", "-D"])
            .envs(home.env())
            .current_dir(home.workspace());
        let terminal = Self {
            tmux: tmux.to_owned(),
            socket: socket.clone(),
            _server: TestProcess::start(server).unwrap(),
        };
        let up = async || socket.exists();
        eventually("tmux", PATIENCE, up).await.unwrap();
        let size = ["-x", "120", "-y", "50"];
        // What was on the screen stays there when the program has ended.
        let keep = ["set-option", "-g", "remain-on-exit", "on", ";"];
        let new = [&keep, &["new-session", "-d"][..], &size, &[command]].concat();
        let started = async || terminal.run(&new).await.status.success();
        eventually("a terminal", PATIENCE, started).await.unwrap();
        terminal
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let spec = ProcessSpec::new(&self.tmux)
            .args(["-S", self.socket.to_str().unwrap()])
            .args(arguments.iter().copied())
            .env("PATH", std::env::var("PATH").unwrap_or_default());
        TestProcess::run(spec, PATIENCE).await.unwrap()
    }

    async fn screen(&self) -> String {
        let shown = self.run(&["capture-pane", "-p", "-S", "-200"]).await;
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// Waits for a text on the screen.
    async fn see(&self, text: &str) {
        let seen = async || self.screen().await.contains(text);
        if let Err(error) = eventually(text, PATIENCE, seen).await {
            panic!("{error}; on the screen:\n{}", self.screen().await);
        }
    }

    /// Types a text and sends it.
    async fn type_in(&self, text: &str) {
        self.run(&["send-keys", "-l", text]).await;
        self.see(text).await;
        self.key("Enter").await;
    }

    async fn key(&self, key: &str) {
        self.run(&["send-keys", key]).await;
    }

    async fn gone(&self) {
        let gone = async || {
            let dead = self.run(&["list-panes", "-F", "#{pane_dead}"]).await;
            dead.stdout.starts_with(b"1")
        };
        if let Err(error) = eventually("the UI to end", PATIENCE, gone).await {
            panic!("{error}; on the screen:\n{}", self.screen().await);
        }
    }
}

/// How the UI reaches the server.
#[derive(Clone, Copy, Debug)]
enum Over {
    WebSocket,
    Unix,
}

async fn talk(over: Over) {
    let Some(codex) = installed("TURNLANE_TEST_CODEX", "the Codex terminal UI") else {
        return;
    };
    let Some(tmux) = installed("TURNLANE_TEST_TMUX", "a terminal for the Codex UI") else {
        return;
    };
    let (mock, home) = model_and_home().await;
    trust(&home);
    let (_server, url) = server(&home, over).await;
    let ui = |more: &str| {
        format!(
            "TURNLANE_TOKEN=$(cat '{token}' 2>/dev/null) '{codex}' {more} --remote '{url}' {auth} \
             -c disable_paste_burst=true",
            token = home.turnlane().join("token").display(),
            auth = match over {
                Over::WebSocket => "--remote-auth-token-env TURNLANE_TOKEN",
                Over::Unix => "",
            },
        )
    };
    let terminal = Terminal::start(&tmux, &home, &ui("")).await;
    terminal.see("mock-model").await;
    terminal.type_in("say it in pieces").await;
    terminal.see("one two three").await;

    terminal.type_in("ask to touch made-by-the-agent").await;
    terminal
        .see("Would you like to run the following command?")
        .await;
    assert!(!home.workspace().join("made-by-the-agent").exists());
    terminal.key("y").await;
    terminal.see("the command is done").await;
    assert!(home.workspace().join("made-by-the-agent").exists());

    terminal.type_in("wait").await;
    terminal.see("still").await;
    terminal.key("Escape").await;
    terminal.see("interrupted").await;
    mock.wait_for_abandoned(1, PATIENCE).await.unwrap();

    terminal.type_in("/quit").await;
    terminal.gone().await;

    // The picker shows the thread by its first words, and going on with it shows what was said.
    let terminal = Terminal::start(&tmux, &home, &ui("resume")).await;
    terminal.see("say it in pieces").await;
    terminal.key("Enter").await;
    terminal.see("one two three").await;
    terminal.type_in("say hello").await;
    terminal.see("hello from the model").await;
    terminal.type_in("/quit").await;
    terminal.gone().await;
}

#[tokio::test]
async fn the_terminal_ui_works_over_a_websocket() {
    talk(Over::WebSocket).await;
}

#[tokio::test]
async fn the_terminal_ui_works_over_a_unix_socket() {
    talk(Over::Unix).await;
}

/// Our server, and where it listens.
async fn server(home: &TempHome, over: Over) -> (TestProcess, String) {
    let socket = home.path().join("s");
    let listen = match over {
        Over::WebSocket => "ws://127.0.0.1:0".to_owned(),
        Over::Unix => format!("unix://{}", socket.display()),
    };
    let spec = crate::turnlane(&["app-server", "--listen", &listen])
        .envs(home.env())
        .current_dir(home.workspace());
    let server = TestProcess::start(spec).unwrap();
    let line = server
        .wait_for_stderr_line(|line| line.starts_with("listening on "), PATIENCE)
        .await
        .unwrap();
    let url = line.rsplit(' ').next().unwrap().to_owned();
    (server, url)
}

/// The UI asks about folders it does not know.
fn trust(home: &TempHome) {
    let config = home.codex().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let folder = real(&home.workspace());
    let trusted = format!(
        "{text}\n[projects.\"{}\"]\ntrust_level = \"trusted\"\n",
        folder.display()
    );
    std::fs::write(&config, trusted).unwrap();
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap()
}

#[tokio::test]
async fn a_daemon_in_the_background_of_a_shell_outlives_the_window_of_that_shell() {
    let Some(tmux) = installed("TURNLANE_TEST_TMUX", "a window that is closed") else {
        return;
    };
    let person = Person::new();
    let turnlane = env!("CARGO_BIN_EXE_turnlane");
    // The shell has no job control, so that the system tells the daemon itself of the hangup.
    let command = format!(
        "'{turnlane}' serve --script '{}' & wait",
        person.script().display()
    );
    let terminal = Terminal::start(&tmux, &person.home, &command).await;
    let running = async || {
        let status = crate::run(person.spec(&["serve", "status", "--json"])).await;
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        status["state"] == "running"
    };
    eventually("a daemon", PATIENCE, running).await.unwrap();
    let (thread, _) = person.queued("docs", "clean up").await;
    let approval = person.asked().await["approvalId"].clone();
    terminal.run(&["kill-server"]).await;
    drop(terminal);
    let log = person.home.turnlane().join("log/serve.log");
    let says = async |text: &str| {
        let said = async || {
            std::fs::read_to_string(&log)
                .unwrap_or_default()
                .contains(text)
        };
        eventually(text, PATIENCE, said).await.unwrap();
    };
    says("the terminal is gone; going on without it").await;
    // The turn that ran goes on, and so does what is queued.
    let approval = approval.as_str().unwrap();
    person.json(&["approvals", "accept", approval]).await;
    person.adds(&thread, "say hello").await;
    person.until_idle(&thread).await;
    person.json(&["serve", "stop", "--now"]).await;
    says("stopped").await;
}
