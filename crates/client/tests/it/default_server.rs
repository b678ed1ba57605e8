//! Which server a program gets that names none.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use turnlane::Client;
use turnlane_rpc::listen::{Listener, Options};
use turnlane_rpc::{Incoming, Peer, PeerOptions};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::link::{PLAY, player, say};

/// Answers `initialize` like the daemon, for as long as it is kept.
async fn daemon(home: &Path) -> CancellationToken {
    let path = home.join("run/app-server.sock");
    let listener = Listener::bind_unix(&path, Options::default())
        .await
        .unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(listener.run(stop.clone(), |accepted| {
        let (_peer, mut inbox) = Peer::start(accepted.duplex, PeerOptions::default());
        tokio::spawn(async move {
            while let Some(message) = inbox.next().await {
                if let Incoming::Request(request) = message {
                    request
                        .responder
                        .result(&json!({"userAgent": "turnlane/0.166.0"}));
                }
            }
        });
    }));
    stop
}

#[tokio::test]
async fn the_default_server_is_the_daemon_then_turnlane_then_codex() {
    if std::env::var_os(PLAY).is_some() {
        let client = within("a server", DEADLINE, Client::connect_default()).await;
        let said = match client.unwrap() {
            Ok(client) => format!("took {}", client.server().endpoint),
            Err(error) => format!("took nothing: {error}"),
        };
        say(&said);
        return;
    }
    let name = "default_server::the_default_server_is_the_daemon_then_turnlane_then_codex";
    let home = TempDir::new().unwrap();
    let programs = TempDir::new().unwrap();
    let taken = async || {
        let path = OsStr::new("/usr/bin:/bin").to_owned();
        let path = [programs.path().as_os_str(), &path].join(OsStr::new(":"));
        let variables = [("TURNLANE_HOME", home.path().as_os_str()), ("PATH", &path)];
        let player = player(name, home.path(), &variables);
        player
            .wait_for_stderr_line(|line| line.starts_with("took "), DEADLINE)
            .await
            .unwrap()
    };
    let socket = home.path().join("run/app-server.sock");
    let nothing = format!(
        "took nothing: no server was found: no daemon answers at unix {}, and neither `turnlane` nor \
         `codex` can be started; run `turnlane serve`, or put one of the two programs on the PATH",
        socket.display()
    );
    assert_eq!(taken().await, nothing);
    program(&programs.path().join("codex"));
    assert_eq!(taken().await, "took spawn codex");
    program(&programs.path().join("turnlane"));
    assert_eq!(taken().await, "took spawn turnlane");
    let _daemon = daemon(home.path()).await;
    assert_eq!(taken().await, format!("took unix {}", socket.display()));
}

/// A server that is a file of its own and was called as an app-server.
fn program(path: &PathBuf) {
    let script = r#"#!/bin/sh
[ "$*" = app-server ] || exit 64
read -r line
echo '{"id":0,"result":{"userAgent":"sh/1.2.3"}}'
read -r line; read -r line
"#;
    std::fs::write(path, script).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).unwrap();
}
