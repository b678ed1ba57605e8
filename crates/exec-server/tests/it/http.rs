//! Who may connect, and what is answered without a websocket: every row of the checks.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use turnlane_exec_server::server::{Options, Server};
use turnlane_rpc::auth::{CapabilityToken, Secret, WsAuth};
use turnlane_rpc::connect::{self, connect_ws};
use turnlane_rpc::listen::{ListenError, Listener};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::{Wire, service};

const TOKEN: &str = "a-token-that-nobody-ever-guesses";
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A server that asks for a token.
struct Guarded {
    server: Server,
    addr: SocketAddr,
    _shutdown: tokio_util::sync::DropGuard,
}

fn guarded(options: Options) -> Guarded {
    let auth = CapabilityToken::new(&Secret::new(TOKEN)).unwrap();
    let listen = turnlane_rpc::listen::Options {
        head_time_max: Duration::from_millis(300),
        ..options.listen()
    };
    let auth = WsAuth::CapabilityToken(auth);
    let listener = Listener::bind_tcp(([127, 0, 0, 1], 0).into(), auth, listen).unwrap();
    let addr = listener.bound().to_string();
    let addr = addr.trim_start_matches("ws://").parse().unwrap();
    let server = Server::new(service(), options);
    let shutdown = CancellationToken::new();
    tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.run_listener(listener, shutdown).await }
    });
    Guarded {
        server,
        addr,
        _shutdown: shutdown.drop_guard(),
    }
}

/// Status and body of a request as it is.
async fn ask(addr: SocketAddr, head: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = within("an answer", DEADLINE, stream.read(&mut piece))
            .await
            .unwrap()
            .unwrap_or(0);
        answer.extend_from_slice(&piece[..count]);
        let switched = answer.starts_with(b"HTTP/1.1 101");
        if count == 0 || switched {
            break;
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status.unwrap_or(0), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_peer_gets_no_answer() {
    let options = Options {
        refuse_peer: Some(turnlane_rpc::listen::PeerFilter::new(|_| true)),
        ..Options::default()
    };
    let guarded = guarded(options);
    let mut stream = TcpStream::connect(guarded.addr).await.unwrap();
    let read = within("the end", DEADLINE, stream.read(&mut [0])).await;
    assert_eq!(
        read.unwrap().unwrap_or(0),
        0,
        "closed before anything was read"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_come_in_the_order_of_the_table() {
    let guarded = guarded(Options::default());
    let addr = guarded.addr;
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let get = |path: &str, host: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")
    };
    let ours = addr.to_string();
    let evil = format!("Origin: https://evil.example\r\n{bearer}{UPGRADE}");
    let null = format!("Origin: null\r\n{bearer}{UPGRADE}");
    let own = format!("Origin: http://{ours}\r\n{bearer}{UPGRADE}");
    let good = format!("{bearer}{UPGRADE}");
    let wrong = format!("Authorization: Bearer {TOKEN}x\r\n{UPGRADE}");
    let in_query = format!("/?token={TOKEN}");
    let cases = [
        (get("/", "attacker.example", &good), 403),
        (get("/readyz", "attacker.example", ""), 403),
        (get("/", &ours, &evil), 403),
        (get("/", &ours, &null), 403),
        (get("/", &ours, &own), 403),
        (get("/readyz", &ours, "Origin: null\r\n"), 403),
        (get("/readyz", &ours, ""), 200),
        (get("/healthz", &ours, ""), 200),
        (get("/elsewhere", &ours, &good), 404),
        (get("/metrics", &ours, ""), 401),
        (get("/metrics", &ours, &bearer), 200),
        (get("/", &ours, UPGRADE), 401),
        (get("/", &ours, &wrong), 401),
        (get(&in_query, &ours, UPGRADE), 401),
        (get("/", &ours, &bearer), 400),
        (get("/", &ours, &good), 101),
        (get("/", "localhost:1", &good), 101),
    ];
    for (head, expected) in cases {
        let (status, body) = ask(addr, &head).await;
        assert_eq!(status, expected, "{head}: {body}");
        assert!(!body.contains(TOKEN));
    }
    let metrics = guarded.server.metrics();
    assert!(
        metrics.contains("turnlane_exec_auth_failures_total 4"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_hosts_and_origins_are_let_in() {
    let guarded = guarded(Options {
        allowed_hosts: vec!["box.example".to_owned()],
        allowed_origins: vec!["https://ide.example".to_owned()],
        ..Options::default()
    });
    let head = format!(
        "GET / HTTP/1.1\r\nHost: box.example\r\nOrigin: https://ide.example\r\n\
         Authorization: Bearer {TOKEN}\r\n{UPGRADE}\r\n"
    );
    assert_eq!(ask(guarded.addr, &head).await.0, 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_long_heads_are_cut_off() {
    let guarded = guarded(Options::default());
    let (status, _) = ask(guarded.addr, "GET / HTTP/1.1\r\nHost: loca").await;
    assert!(matches!(status, 0 | 408), "{status}");
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    assert_eq!(ask(guarded.addr, &long).await.0, 431);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_above_the_limit_are_turned_away() {
    let guarded = guarded(Options {
        connections_max: 1,
        ..Options::default()
    });
    let url = format!("ws://{}", guarded.addr);
    let options = connect::Options {
        token: Some(Secret::new(TOKEN)),
        ..connect::Options::default()
    };
    let mut wire = Wire::new(connect_ws(&url, &options).await.unwrap());
    wire.greet_v1().await;
    let health = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", guarded.addr);
    assert_eq!(
        ask(guarded.addr, &health).await.0,
        200,
        "health is always told"
    );
    let metrics = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        guarded.addr
    );
    assert_eq!(ask(guarded.addr, &metrics).await.0, 503);
    wire.ok("environment/status", json!({})).await;
    drop(wire);
    let free = async || ask(guarded.addr, &metrics).await.0 == 200;
    turnlane_testkit::wait::eventually("a free place", DEADLINE, free)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_listens_to_the_world_without_a_token() {
    let everywhere = ([0, 0, 0, 0], 0).into();
    let refused = Listener::bind_tcp(everywhere, WsAuth::None, Options::default().listen());
    assert!(matches!(refused, Err(ListenError::Unauthenticated { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_tells_what_happened() {
    let guarded = guarded(Options::default());
    let url = format!("ws://{}", guarded.addr);
    let options = connect::Options {
        token: Some(Secret::new(TOKEN)),
        ..connect::Options::default()
    };
    let mut wire = Wire::new(connect_ws(&url, &options).await.unwrap());
    wire.greet_v1().await;
    wire.sh("a", "echo hello; exit 1", json!({})).await;
    wire.until_closed("a", 0).await;
    wire.sh("b", "exec sleep 1000", json!({})).await;
    wire.err("process/read", json!({"processId": "zz"})).await;
    wire.err("process/start", json!({"processId": "c", "argv": ["no-such-program-x"], "cwd": "file:///", "env": {}, "tty": false})).await;
    let head = format!(
        "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        guarded.addr
    );
    let (status, page) = ask(guarded.addr, &head).await;
    assert_eq!(status, 200);
    for line in [
        "connections{dialect=\"process.v1\"} 1",
        "sessions{state=\"attached\"} 1",
        "processes{state=\"running\"} 1",
        "processes{state=\"closed\"} 1",
        "spawn_seconds_count 2",
        "spawn_errors_total{kind=\"programNotFound\"} 1",
        "output_bytes_total{stream=\"stdout\"} 6",
        "ends_total{reason=\"exited\"} 1",
        "requests_total{method=\"process/start\"} 3",
        "errors_total{code=\"-32600\"} 1",
        "errors_total{code=\"-32603\"} 1",
        "survivors 0",
        "stalled_processes 0",
    ] {
        let line = format!("turnlane_exec_{line}");
        assert!(
            page.lines().any(|found| found == line),
            "{line} is not in\n{page}"
        );
    }
    assert!(page.contains("turnlane_exec_containment_info{kind=\""));
    assert!(page.contains("turnlane_exec_sandbox_info{landlock_abi=\""));
    assert!(page.contains("turnlane_exec_retained_bytes "));
}
