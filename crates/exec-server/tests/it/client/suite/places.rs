//! Where the suite runs: each place is a server, and a way to connect to it.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_util::sync::CancellationToken;
use turnlane_exec_server::client::launch::{LaunchCommand, LocalServer, spawn_local_on};
use turnlane_exec_server::client::{ClientOptions, Dialect, ExecClient, StartSpec};
use turnlane_exec_server::server::{Options, Peer, Server};
use turnlane_process::ProcessService;
use turnlane_rpc::Duplex;
use turnlane_rpc::listen::Listener;
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{ProcessSpec, TestProcess};

use crate::support::{Host, service};

/// A connected client and whatever serves it.
pub(super) struct Place {
    pub(super) client: ExecClient,
    folder: tempfile::TempDir,
    /// Where there may be more than one client.
    again: Option<Again>,
    serves: Serves,
}

/// Makes a client of the server.
type Again = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ExecClient> + Send>> + Send + Sync>;

/// What has to be ended.
enum Serves {
    Service(ProcessService),
    Server(Server),
    Host(Box<Host>),
    Local(LocalServer, ProcessService),
    Program(Box<TestProcess>),
}

impl Place {
    async fn new(again: Again, serves: Serves) -> Self {
        Self {
            client: again().await,
            folder: tempfile::tempdir().unwrap(),
            again: Some(again),
            serves,
        }
    }

    /// A shell script in the place's folder, with just enough of an environment.
    pub(super) fn script(&self, script: &str) -> StartSpec {
        StartSpec::new(["/bin/sh", "-c", script], self.path()).env("PATH", path())
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Another client of whatever serves this one.
    pub(super) async fn another(&self) -> ExecClient {
        let again = self.again.as_ref().unwrap();
        again().await
    }

    /// Ends what serves the client.
    pub(super) async fn leave(self) {
        let Self { client, serves, .. } = self;
        drop(client);
        let stopping = async {
            match serves {
                Serves::Service(service) => service.stop().await,
                Serves::Server(server) => server.stop().await,
                Serves::Host(host) => host.server.stop().await,
                Serves::Local(local, service) => {
                    drop(local);
                    service.stop().await;
                }
                Serves::Program(mut program) => _ = program.kill9().await.unwrap(),
            }
        };
        within("the server to stop", DEADLINE, stopping)
            .await
            .unwrap();
    }
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned())
}

fn options() -> ClientOptions {
    ClientOptions::new("a test")
}

/// A service of this program.
pub(super) async fn in_process() -> Option<Place> {
    let service = service();
    let serves = Serves::Service(service.clone());
    let again: Again = Box::new(move || {
        let client = ExecClient::in_process(&service, options());
        Box::pin(std::future::ready(client))
    });
    Some(Place::new(again, serves).await)
}

/// Our server over lines on two streams.
pub(super) async fn stdio() -> Option<Place> {
    let server = Server::new(service(), Options::default());
    let serves = Serves::Server(server.clone());
    let again: Again = Box::new(move || {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(far);
        let server = server.clone();
        tokio::spawn(async move {
            let duplex = Duplex::lines(reader, writer);
            server.serve(duplex, Peer::Stdio).await;
        });
        let (reader, writer) = tokio::io::split(near);
        let connecting = ExecClient::connect_stdio(reader, writer, options());
        Box::pin(async { connecting.await.unwrap() })
    });
    Some(Place::new(again, serves).await)
}

/// Our server on a websocket.
pub(super) async fn websocket() -> Option<Place> {
    let host = Host::start();
    let again = connects_to(host.url.clone());
    Some(Place::new(again, Serves::Host(Box::new(host))).await)
}

fn connects_to(url: String) -> Again {
    Box::new(move || {
        let url = url.clone();
        Box::pin(async move {
            ExecClient::connect_websocket(&url, options())
                .await
                .unwrap()
        })
    })
}

/// Our server on a websocket, in the older dialect.
pub(super) async fn v0() -> Option<Place> {
    let host = Host::start();
    let url = host.url.clone();
    let again: Again = Box::new(move || {
        let url = url.clone();
        let options = ClientOptions {
            dialect: Dialect::V0,
            ..options()
        };
        Box::pin(async move { ExecClient::connect_websocket(&url, options).await.unwrap() })
    });
    Some(Place::new(again, Serves::Host(Box::new(host))).await)
}

/// Our server on a unix socket.
pub(super) async fn unix() -> Option<Place> {
    let folder = tempfile::tempdir().unwrap();
    let socket: PathBuf = folder.path().join("socket");
    let server = Server::new(service(), Options::default());
    let listener = Listener::bind_unix(&socket, Options::default().listen()).await;
    let (listener, serving) = (listener.unwrap(), server.clone());
    tokio::spawn(async move {
        serving
            .run_listener(listener, CancellationToken::new())
            .await;
        drop(folder);
    });
    let again: Again = Box::new(move || {
        let socket = socket.clone();
        Box::pin(async move { ExecClient::connect_unix(&socket, options()).await.unwrap() })
    });
    Some(Place::new(again, Serves::Server(server)).await)
}

/// Our server as a program of its own, over its standard input and output.
pub(super) async fn launched() -> Option<Place> {
    let command = LaunchCommand {
        program: env!("CARGO_BIN_EXE_exec_host").into(),
        args: vec!["stdio".into()],
        ..LaunchCommand::default()
    };
    let service = service();
    let local = spawn_local_on(&service, command, options()).await.unwrap();
    Some(Place {
        client: local.client.clone(),
        folder: tempfile::tempdir().unwrap(),
        again: None,
        serves: Serves::Local(local, service),
    })
}

/// Codex's own server, where it is installed.
pub(super) async fn codex() -> Option<Place> {
    let Some(program) = find_codex() else {
        // Past the test runner's capture: a skip must be seen.
        let said = "SKIPPED: no codex binary (TURNLANE_TEST_CODEX or PATH): client against Codex\n";
        std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
        return None;
    };
    let home = tempfile::tempdir().unwrap();
    let spec = ProcessSpec::new(program)
        .args(["exec-server", "--listen", "ws://127.0.0.1:0"])
        .env("PATH", path())
        .env("HOME", home.path())
        .env("CODEX_HOME", home.path());
    let mut program = TestProcess::start(spec).unwrap();
    let mut lines = BufReader::new(program.take_stdout().unwrap()).lines();
    let banner = async {
        loop {
            match lines.next_line().await.unwrap() {
                Some(line) if line.starts_with("ws://") => return line,
                Some(_) => {}
                None => panic!("no address from Codex's server"),
            }
        }
    };
    let url = within("Codex's server", DEADLINE, banner).await.unwrap();
    // Its home may go only after it.
    let mut place = Place::new(connects_to(url), Serves::Program(Box::new(program))).await;
    place.folder = home;
    Some(place)
}

fn find_codex() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("TURNLANE_TEST_CODEX") {
        return Some(given.into());
    }
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths)
        .map(|folder| folder.join("codex"))
        .find(|program| program.is_file())
}
