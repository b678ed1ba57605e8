//! Who may connect, and who is told no.

use serde_json::json;
use turnlane_testkit::mock_model::Reply;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::Served;

/// The first line of an answer to a plain request.
async fn status(url: &str, path: &str, headers: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let address = url.strip_prefix("ws://").unwrap().trim_end_matches('/');
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let host = if headers.contains("Host:") {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    let request = format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn strangers_are_refused_and_health_needs_no_token() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let server = served.sockets().await;
    let url = &server.url;
    let upgrade = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let bearer = format!("Authorization: Bearer {}\r\n", server.token);
    for (path, headers, code) in [
        ("/readyz", String::new(), "200"),
        ("/healthz", String::new(), "200"),
        (
            "/healthz",
            "Origin: http://evil.example\r\n".to_owned(),
            "403",
        ),
        (
            "/",
            format!("Host: evil.example\r\n{upgrade}{bearer}"),
            "403",
        ),
        (
            "/",
            format!("Origin: http://evil.example\r\n{upgrade}{bearer}"),
            "403",
        ),
        ("/", upgrade.to_owned(), "401"),
        (
            "/",
            format!("{upgrade}Authorization: Bearer wrong\r\n"),
            "401",
        ),
        ("/metrics", String::new(), "401"),
        ("/metrics", bearer.clone(), "200"),
        ("/else", bearer.clone(), "400"),
    ] {
        let status = status(url, path, &headers).await;
        assert!(status.contains(code), "{path} {headers}: {status}");
    }
    let mut client = server.websocket().await;
    super::thread(&mut client, &served.work(), json!({})).await;
}

#[tokio::test]
async fn a_public_address_without_a_token_is_not_listened_on() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let arguments = [
        "app-server",
        "--listen",
        "ws://0.0.0.0:0",
        "--ws-auth",
        "none",
    ];
    let spec: ProcessSpec = crate::turnlane(&arguments).envs(served.home.env());
    let output = TestProcess::run(spec, DEADLINE).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        output.stderr_tail.trim().lines().count(),
        1,
        "{}",
        output.stderr_tail
    );
}

#[tokio::test]
async fn without_a_token_nobody_starts_processes_outside_the_sandbox() {
    let served = Served::new(|_| Reply::text("hi")).await;
    let process = served.process(&["--listen", "ws://127.0.0.1:0", "--ws-auth", "none"]);
    let line = process
        .wait_for_stderr_line(|line| line.starts_with("listening on ws://"), DEADLINE)
        .await
        .unwrap();
    let url = line.rsplit(' ').next().unwrap();
    let options = turnlane_rpc::connect::Options::default();
    let duplex = turnlane_rpc::connect::connect_ws(url, &options)
        .await
        .unwrap();
    let mut client = turnlane_testkit::TestClient::new(duplex);
    super::greet(&mut client).await;
    let params = json!({"processHandle": "p", "command": ["true"], "cwd": served.work()});
    let error = super::refused(&mut client, "process/spawn", params).await;
    assert_eq!(error["message"], "process/spawn is disabled");
    assert_eq!(error["data"]["reason"], "disabled");
}
