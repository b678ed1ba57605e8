//! Limits, health, life and death of listeners.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::listen::{
    AdmittedBy, Bound, ConnectionLimit, ListenError, Listener, Options, OwnOrigin, Paths, PeerAddr,
};

use crate::support::{BEARER, Served, UPGRADE, exchange, loopback, within};

fn open_to_all(options: Options) -> Listener {
    Listener::bind_tcp(loopback(), WsAuth::None, options).unwrap()
}

/// Reads until the other end closes.
async fn rest(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = within(stream.read_to_end(&mut bytes)).await {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    bytes
}

#[tokio::test]
async fn without_auth_only_loopback_is_bound() {
    for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:127.0.0.1]:0"] {
        let addr = addr.parse().unwrap();
        let error = Listener::bind_tcp(addr, WsAuth::None, Options::default()).unwrap_err();
        // An address that is not ours would give another error, had a socket been tried.
        assert!(
            matches!(error, ListenError::Unauthenticated { .. }),
            "{error}"
        );
        assert_eq!(
            error.to_string(),
            format!("refusing to listen on {addr} without authentication; use --ws-auth")
        );
    }
    let listener = open_to_all(Options::default());
    let Bound::Tcp(addr) = listener.bound() else {
        panic!("bound to TCP");
    };
    assert_ne!(addr.port(), 0);
    assert_eq!(
        listener.bound().to_string(),
        format!("ws://127.0.0.1:{}", addr.port())
    );
    let taken = Listener::bind_tcp(addr, WsAuth::None, Options::default()).unwrap_err();
    assert!(matches!(taken, ListenError::Bind { .. }), "{taken}");
}

#[tokio::test]
async fn readiness_is_asked_of_the_owner() {
    let ready = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&ready);
    let answer = move || {
        let ready = asked.load(Ordering::SeqCst);
        ready.then_some(()).ok_or("not ready: so young")
    };
    let listener = open_to_all(Options::default()).on_ready(answer);
    let served = Served::start(listener);
    assert_eq!(
        served.ask("GET /readyz", &[]).await.line(),
        "503 not ready: so young"
    );
    assert_eq!(served.ask("GET /healthz", &[]).await.line(), "200 ok");
    ready.store(true, Ordering::SeqCst);
    assert_eq!(served.ask("GET /readyz", &[]).await.line(), "200 ok");
}

#[tokio::test]
async fn plain_requests_reach_the_handler_after_the_token() {
    let auth = turnlane_rpc::auth::CapabilityToken::new(&crate::support::TOKEN.into()).unwrap();
    let options = Options {
        own_origin: OwnOrigin::Refused,
        paths: Paths::Only(vec!["/metrics".to_owned()]),
        ..Options::default()
    };
    let listener = Listener::bind_tcp(loopback(), WsAuth::CapabilityToken(auth), options)
        .unwrap()
        .on_http(|request| async move {
            Response::new(Full::new(Bytes::from(format!("got {}", request.uri()))))
        });
    let served = Served::start(listener);
    let metrics = served.ask("GET /metrics?x=1", &[BEARER]).await;
    assert_eq!(metrics.line(), "200 got /metrics?x=1");
    assert!(metrics.head.contains("connection: close"));
    let refused = served.ask("GET /metrics", &[]).await;
    assert_eq!(refused.line(), "401 missing websocket bearer token");
    assert!(refused.head.contains("www-authenticate: bearer"));
    assert_eq!(served.ask("GET /other", &[]).await.line(), "404 not found");
}

#[tokio::test]
async fn a_connection_above_the_limit_is_told_so() {
    let options = Options {
        connections: ConnectionLimit::new(1),
        ..Options::default()
    };
    let mut served = Served::start(open_to_all(options));
    let mut first = TcpStream::connect(served.addr()).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n\r\n");
    assert_eq!(exchange(&mut first, request.as_bytes()).await.status, 101);
    let accepted = served.next().await;
    assert_eq!(served.handle.connections_open(), 1);

    let above = served.ask("GET /", &[UPGRADE]).await;
    assert_eq!(above.line(), "503 too many connections");
    assert_eq!(served.handle.overloads(), 1);
    // Many at once are all ended, with or without a word.
    let mut crowd = Vec::new();
    for _ in 0..40 {
        crowd.push(TcpStream::connect(served.addr()).await.unwrap());
    }
    for mut stream in crowd {
        let said = rest(&mut stream).await;
        assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 503 "));
    }

    // The place is free when the owner lets the connection go.
    drop(accepted);
    assert_eq!(served.handle.connections_open(), 0);
    assert_eq!(served.ask("GET /", &[UPGRADE]).await.status, 101);
}

#[tokio::test]
async fn a_slow_head_ends_its_connection_and_delays_nobody() {
    let options = Options {
        head_time_max: Duration::from_millis(500),
        ..Options::default()
    };
    let served = Served::start(open_to_all(options));
    let mut silent = TcpStream::connect(served.addr()).await.unwrap();
    let mut slow = TcpStream::connect(served.addr()).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: local")
        .await
        .unwrap();
    assert_eq!(served.ask("GET /", &[UPGRADE]).await.status, 101);
    assert_eq!(rest(&mut silent).await, b"");
    assert_eq!(rest(&mut slow).await, b"");
}

#[tokio::test]
async fn a_head_above_16_kib_gets_431() {
    let served = Served::start(open_to_all(Options::default()));
    let padding = |bytes: usize| format!("X-Padding: {}", "x".repeat(bytes));
    let large = served.ask("GET /healthz", &[&padding(15 * 1024)]).await;
    assert_eq!(large.status, 200);
    let too_large = served.ask("GET /healthz", &[&padding(17 * 1024)]).await;
    assert_eq!(too_large.status, 431);
    let many: Vec<String> = (0..200).map(|n| format!("X-{n}: y")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(served.ask("GET /healthz", &many).await.status, 431);
}

// Whether the end of input is seen before the answer is written is a race; so many times.
#[tokio::test]
async fn a_client_that_ends_its_output_gets_its_answer() {
    let served = Served::with_token(Options::default());
    for _ in 0..50 {
        let mut stream = TcpStream::connect(served.addr()).await.unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", served.addr());
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_not_http_gets_400() {
    let served = Served::start(open_to_all(Options::default()));
    let mut stream = TcpStream::connect(served.addr()).await.unwrap();
    let answer = exchange(&mut stream, b"{\"id\":1,\"method\":\"initialize\"}\r\n\r\n").await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn shutdown_ends_handshakes_and_the_address_is_free_again() {
    let mut served = Served::start(open_to_all(Options::default()));
    let addr = served.addr();
    let mut silent = TcpStream::connect(addr).await.unwrap();
    // The second is accepted after the first.
    assert_eq!(served.ask("GET /healthz", &[]).await.status, 200);

    served.shutdown.cancel();
    within(&mut served.task).await.unwrap();
    assert_eq!(rest(&mut silent).await, b"");
    assert!(
        served.accepted.recv().await.is_none(),
        "the closure is gone"
    );
    let again = Listener::bind_tcp(addr, WsAuth::None, Options::default()).unwrap();
    assert_eq!(again.bound(), Bound::Tcp(addr));
}

async fn bind(path: &Path) -> Result<Listener, ListenError> {
    Listener::bind_unix(path, Options::default()).await
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn socket_in(home: &tempfile::TempDir) -> PathBuf {
    home.path().join("run").join("app-server.sock")
}

#[tokio::test]
async fn a_socket_file_is_private_and_goes_with_its_server() {
    let home = tempfile::tempdir().unwrap();
    let path = socket_in(&home);
    let listener = bind(&path).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(
        listener.bound().to_string(),
        format!("unix://{}", path.display())
    );
    let names: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "the socket and its lock: {names:?}");

    let mut served = Served::start(listener);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"{\"id\":1}\n").await.unwrap();
    let accepted = served.next().await;
    assert_eq!(accepted.admitted_by, AdmittedBy::SameUser);
    assert!(matches!(accepted.peer, PeerAddr::Unix { .. }));

    let second = bind(&path).await.unwrap_err();
    assert!(
        matches!(second, ListenError::AlreadyServed { .. }),
        "{second}"
    );
    assert!(second.to_string().contains(&path.display().to_string()));
    served.shutdown.cancel();
    within(&mut served.task).await.unwrap();
    assert!(!path.exists(), "removed at the end");
    bind(&path).await.unwrap();
}

#[tokio::test]
async fn only_a_socket_nobody_answers_on_is_replaced() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    // A server that knows nothing of our lock.
    let foreign = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = bind(&path).await.unwrap_err();
    assert!(
        matches!(error, ListenError::AlreadyServed { .. }),
        "{error}"
    );
    drop(foreign);
    assert!(path.exists(), "left behind by the dead");
    drop(bind(&path).await.unwrap());
    assert!(!path.exists());

    fs::write(&path, "precious").unwrap();
    let error = bind(&path).await.unwrap_err();
    assert!(matches!(error, ListenError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_file_that_took_our_place_is_not_removed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let listener = bind(&path).await.unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "somebody else's").unwrap();
    drop(listener);
    assert!(path.exists());
}

#[tokio::test]
async fn of_several_that_start_at_once_one_serves() {
    let home = tempfile::tempdir().unwrap();
    let path = socket_in(&home);
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let path = path.clone();
        starts.spawn(async move { bind(&path).await });
    }
    let results = starts.join_all().await;
    let refused = |result: &&Result<Listener, ListenError>| {
        matches!(result, Err(ListenError::AlreadyServed { .. }))
    };
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(refused).count(), 7);
    assert!(
        UnixStream::connect(&path).await.is_ok(),
        "the one that serves is reached"
    );
}

#[tokio::test]
async fn a_directory_others_can_write_to_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let open = |mode| fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
    for unsafe_mode in [0o777, 0o770, 0o702] {
        open(unsafe_mode);
        let error = bind(&path).await.unwrap_err();
        assert!(
            matches!(error, ListenError::UnsafeDirectory { .. }),
            "{error}"
        );
        assert!(
            fs::read_dir(home.path()).unwrap().next().is_none(),
            "nothing is left"
        );
    }
    for safe_mode in [0o755, 0o1777] {
        open(safe_mode);
        bind(&path).await.unwrap();
    }
    let long = home.path().join("x".repeat(200));
    let error = bind(&long).await.unwrap_err();
    assert!(matches!(error, ListenError::PathTooLong { .. }), "{error}");
}

#[tokio::test]
async fn a_unix_client_that_says_nothing_is_let_go() {
    let home = tempfile::tempdir().unwrap();
    let path = socket_in(&home);
    let options = Options {
        head_time_max: Duration::from_millis(100),
        ..Options::default()
    };
    let served = Served::start(Listener::bind_unix(&path, options).await.unwrap());
    let mut silent = UnixStream::connect(&path).await.unwrap();
    let mut slow = UnixStream::connect(&path).await.unwrap();
    slow.write_all(b"GET / HT").await.unwrap();
    assert_eq!(rest(&mut silent).await, b"");
    assert_eq!(rest(&mut slow).await, b"");
    drop(served);
}

#[tokio::test]
async fn a_page_is_refused_on_a_unix_socket_too() {
    let home = tempfile::tempdir().unwrap();
    let path = socket_in(&home);
    let mut served = Served::start(bind(&path).await.unwrap());
    let ask = async |headers: &str| {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\n{headers}{UPGRADE}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        within(stream.read_exact(&mut first)).await.unwrap();
        String::from_utf8(first.to_vec()).unwrap()
    };
    assert_eq!(ask("Host: localhost\r\n").await, "HTTP/1.1 101");
    assert_eq!(ask("Host: whatever\r\n").await, "HTTP/1.1 101");
    let page = "Host: localhost\r\nOrigin: http://localhost\r\n";
    assert_eq!(ask(page).await, "HTTP/1.1 403");
    assert_eq!(served.next().await.admitted_by, AdmittedBy::SameUser);
}
