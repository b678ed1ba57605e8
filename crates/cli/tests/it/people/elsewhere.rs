//! A server that is missing, dead, mute, elsewhere, or not one: what a person reads.
//!
//! The invariant here: no token is ever part of what is read.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::listen::{Bound, Listener, Options};
use turnlane_testkit::TestClient;

use super::Person;
use crate::serve::Daemon;

const WRONG: &str = "a-token-that-is-not-the-right-one";

/// The story with the port of an address replaced.
fn told(person: &mut Person, url: &str) -> String {
    let address = url.trim_start_matches("ws://").trim_end_matches('/');
    let host = address.split(':').next().unwrap();
    person.story().replace(address, &format!("{host}:PORT"))
}

async fn daemon(person: &Person) -> Daemon {
    let script = person.script();
    Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await
}

fn private(person: &Person, name: &str, text: &str) -> String {
    let path = person.home.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn commands_that_need_a_daemon_say_how_to_start_one() {
    let mut person = Person::new();
    let (thread, _) = person.queued("docs", "x").await;
    for command in [
        &["thread", "tail"][..],
        &["thread", "stop"],
        &["queue", "start"],
    ] {
        person.types(&[command, &[thread.as_str()]].concat()).await;
    }
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn a_socket_that_a_dead_daemon_left_is_no_daemon() {
    let mut person = Person::new();
    let mut daemon = daemon(&person).await;
    person.queued("docs", "hang on").await;
    daemon.process.kill9().await.unwrap();
    assert!(daemon.socket.exists(), "it was killed");
    person.types(&["thread", "stop", "docs"]).await;
    let listed = person.json(&["thread", "list"]).await;
    assert_eq!(listed[0]["name"], "docs");
    assert_snapshot!(person.story());
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_is_told_apart_from_none() {
    let mut person = Person::new();
    let daemon = daemon(&person).await;
    person.queued("docs", "hello").await;
    daemon.signal(Signal::STOP);
    person.types(&["thread", "tail", "docs"]).await;
    daemon.signal(Signal::CONT);
    let pid = daemon.process.pid().to_string();
    assert_snapshot!(person.story().replace(&pid, "<pid>"));
}

#[tokio::test]
async fn a_server_elsewhere_is_asked_with_its_token() {
    let there = Person::new();
    let daemon = daemon(&there).await;
    let mut person = Person::new();
    let url = daemon.url.trim_end_matches('/').to_owned();
    let (right, wrong) = (
        private(&person, "right.token", &daemon.token),
        private(&person, "wrong.token", WRONG),
    );
    let server = ["--server", url.as_str()];
    let list = [&["thread", "list"], &server[..]].concat();
    person.types(&list).await;
    person
        .types(&[&list[..], &["--token-file", &wrong]].concat())
        .await;
    person.types_with(&[("TURNLANE_TOKEN", WRONG)], &list).await;
    person
        .types(&[&list[..], &["--token-file", &right]].concat())
        .await;
    // Before the last word too, and by variables alone.
    let early = [&["thread"], &server[..], &["--token-file", &right, "list"]].concat();
    person.types(&early).await;
    let variables = [
        ("TURNLANE_SERVER", url.as_str()),
        ("TURNLANE_TOKEN", &daemon.token),
    ];
    person.types_with(&variables, &["queue", "list"]).await;
    let add = ["queue", "add", "--new", "--name", "far", "hello"];
    person
        .types_with(&variables, &[&add[..], &["--cd", "relative"]].concat())
        .await;
    person.types_with(&variables, &add).await;
    let tail = ["thread", "tail", "far", "-n", "0", "--until-idle"];
    person.types_with(&variables, &tail).await;
    let story = told(&mut person, &url);
    assert!(!story.contains(&daemon.token), "{story}");
    assert!(!story.contains(WRONG), "{story}");
    // Which of the turn is told live depends on who is faster; that it ended is in the history.
    let (story, _) = story
        .split_once("$ turnlane TURNLANE_SERVER=… TURNLANE_TOKEN=… thread tail")
        .unwrap();
    assert_snapshot!(story);
    there.until_idle("far").await;
    assert_eq!(
        person.json(&["thread", "list"]).await.len(),
        0,
        "nothing is stored here"
    );

    let unix = format!("unix:{}", daemon.socket.display());
    let listed = person.json(&["thread", "list", "--server", &unix]).await;
    assert_eq!(listed[0]["name"], "far");
    let unix = format!("unix://{}", daemon.socket.display());
    let listed = person
        .json(&["queue", "list", "far", "--server", &unix])
        .await;
    assert_eq!(listed[0]["depth"], 0);
}

#[tokio::test]
async fn an_address_that_makes_no_sense_is_refused_before_anything_is_sent() {
    let mut person = Person::new();
    let loose = person.home.path().join("loose.token");
    std::fs::write(&loose, WRONG).unwrap();
    std::fs::set_permissions(&loose, std::fs::Permissions::from_mode(0o644)).unwrap();
    let loose = loose.to_str().unwrap().to_owned();
    let missing = person
        .home
        .path()
        .join("missing")
        .to_str()
        .unwrap()
        .to_owned();
    for arguments in [
        &["--server", "http://127.0.0.1:1"][..],
        &["--server", "7071"],
        &["--server", "unix:run/app-server.sock"],
        &["--server", "unix:/srv/run/missing.sock"],
        &["--token-file", &missing],
        &["--server", "ws://127.0.0.1:1", "--token-file", &missing],
        &["--server", "ws://127.0.0.1:1", "--token-file", &loose],
    ] {
        person
            .types(&[&["thread", "list"], arguments].concat())
            .await;
    }
    let far = ["thread", "list", "--server", "ws://box.example:7071"];
    person.types_with(&[("TURNLANE_TOKEN", WRONG)], &far).await;
    let story = person.story();
    assert!(!story.contains(WRONG), "{story}");
    assert_snapshot!(story);
}

/// A port that answers every request with these bytes and closes.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn what_is_no_server_of_ours_is_told_from_nobody() {
    let mut person = Person::new();
    let mut stories = Vec::new();
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("ws://{}", listener.local_addr().unwrap())
    };
    for url in [
        nobody,
        answering("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").await,
        answering("SSH-2.0-example\r\n").await,
        answering("").await,
    ] {
        person.types(&["thread", "list", "--server", &url]).await;
        stories.push(told(&mut person, &url));
    }
    assert_snapshot!(stories.concat());
}

/// An app-server that knows nothing but hello.
async fn of_another_version(folder: &std::path::Path) -> (String, CancellationToken) {
    let path = folder.join("old.sock");
    let listener = Listener::bind_unix(&path, Options::default())
        .await
        .unwrap();
    let Bound::Unix(path) = listener.bound().clone() else {
        panic!("a socket is no port");
    };
    let stop = CancellationToken::new();
    tokio::spawn(listener.run(stop.clone(), |accepted| {
        tokio::spawn(async move {
            let mut client = TestClient::new(accepted.duplex);
            while let Ok(message) = client.next().await {
                let (id, method) = (&message["id"], &message["method"]);
                let answer = match method.as_str() {
                    Some("initialize") => json!({
                        "id": id, "result": {"userAgent": "turnlane/0.0.1", "codexHome": "/srv",
                            "platformFamily": "unix", "platformOs": "linux"},
                    }),
                    _ if id.is_null() => continue,
                    _ => json!({
                        "id": id,
                        "error": {"code": -32601, "message": format!("unknown method {method}")},
                    }),
                };
                client.send(&answer).await.unwrap();
            }
        });
    }));
    (format!("unix:{}", path.display()), stop)
}

#[tokio::test]
async fn a_server_of_another_version_is_named_as_one() {
    let mut person = Person::new();
    let (url, _stop) = of_another_version(person.home.path()).await;
    person.types(&["approvals", "list", "--server", &url]).await;
    person.types(&["queue", "list", "--server", &url]).await;
    assert_snapshot!(person.story());
}
