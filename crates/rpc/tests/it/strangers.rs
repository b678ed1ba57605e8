//! Clients that have shown no token: what they can take, hold and write to the log.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::listen::{Bound, ConnectionLimit, Listener, Options, PeerAddr, PeerFilter};

use crate::support::{BEARER, Log, Served, UPGRADE, exchange, loopback, within};

/// A small budget and many strangers: the same proportions as 256 places and 1,000 strangers, with
/// fewer descriptors.
const PLACES: usize = 12;
const STRANGERS: usize = 48;

fn narrow() -> Options {
    Options {
        unadmitted_max: PLACES,
        // Long, so that a test process without a processor for a moment is not dropped.
        unadmitted_time_min: Duration::from_millis(100),
        // Longer than the test: strangers go only when they are dropped.
        head_time_max: Duration::from_mins(5),
        ..Options::default()
    }
}

/// Connections that say nothing, or only half a head, and come back at once when they are dropped.
struct Strangers {
    _tasks: JoinSet<()>,
    drops: Arc<AtomicUsize>,
}

impl Strangers {
    fn besiege(addr: SocketAddr) -> Self {
        let drops = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..STRANGERS {
            let drops = Arc::clone(&drops);
            tasks.spawn(async move {
                loop {
                    let Ok(mut stream) = TcpStream::connect(addr).await else {
                        continue;
                    };
                    if number % 2 == 0 {
                        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: lo").await;
                    }
                    let _ = stream.read(&mut [0]).await;
                    drops.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self {
            _tasks: tasks,
            drops,
        }
    }

    /// Waits until strangers have been dropped for others, so that all places are taken.
    async fn hold_all_places(&self) {
        let full = async {
            while self.drops.load(Ordering::SeqCst) < 2 {
                tokio::task::yield_now().await;
            }
        };
        within(full).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_strangers_do_not_keep_the_owner_out() {
    let mut served = Served::with_token(narrow());
    let strangers = Strangers::besiege(served.addr());
    strangers.hold_all_places().await;
    for _ in 0..5 {
        assert_eq!(served.ask("GET /healthz", &[]).await.line(), "200 ok");
        assert_eq!(served.ask("GET /readyz", &[]).await.line(), "200 ok");
        let websocket = served.ask("GET /", &[UPGRADE, BEARER]).await;
        assert_eq!(websocket.status, 101);
        served.next().await;
    }
    assert_eq!(served.handle.overloads(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admitted_connection_is_never_dropped_for_a_stranger() {
    let mut served = Served::with_token(narrow());
    let mut owner = TcpStream::connect(served.addr()).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n{BEARER}\r\n\r\n");
    assert_eq!(exchange(&mut owner, request.as_bytes()).await.status, 101);
    let _accepted = served.next().await;
    let strangers = Strangers::besiege(served.addr());
    strangers.hold_all_places().await;
    let still_open = owner.try_read(&mut [0]).unwrap_err();
    assert_eq!(still_open.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(
        served.handle.connections_open(),
        1,
        "strangers do not count"
    );
}

#[tokio::test]
async fn health_is_answered_while_all_admitted_places_are_taken() {
    let options = Options {
        connections: ConnectionLimit::new(1),
        ..Options::default()
    };
    let mut served = Served::with_token(options);
    let admitted = served.ask("GET /", &[UPGRADE, BEARER]).await;
    assert_eq!(admitted.status, 101);
    let _accepted = served.next().await;
    let above = served.ask("GET /", &[UPGRADE, BEARER]).await;
    assert_eq!(above.line(), "503 too many connections");
    assert!(above.head.contains("connection: close"));
    assert_eq!(
        served.ask("GET /", &[UPGRADE]).await.status,
        401,
        "first the token"
    );
    assert_eq!(served.ask("GET /healthz", &[]).await.line(), "200 ok");
}

#[tokio::test]
async fn silent_unix_connections_make_way_for_new_ones() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let mut served = Served::start(Listener::bind_unix(&path, narrow()).await.unwrap());
    let mut silent = Vec::new();
    for _ in 0..STRANGERS {
        silent.push(UnixStream::connect(&path).await.unwrap());
    }
    let mut owner = UnixStream::connect(&path).await.unwrap();
    owner.write_all(b"{\"id\":1}\n").await.unwrap();
    served.next().await;
    assert_eq!(
        within(silent[0].read(&mut [0])).await.unwrap(),
        0,
        "the oldest went"
    );
}

#[tokio::test]
async fn a_unix_connection_above_the_limit_is_told_so() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let options = Options {
        connections: ConnectionLimit::new(0),
        ..Options::default()
    };
    let served = Served::start(Listener::bind_unix(&path, options).await.unwrap());
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"{\"id\":1}\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    within(stream.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 503 "), "{answer:?}");
    assert_eq!(served.handle.overloads(), 1);
}

// One thread and paused time: the log of this thread is complete, and a minute takes no time.
#[tokio::test(flavor = "current_thread")]
async fn strangers_write_a_few_lines_a_minute_to_the_log() {
    let (log, capture) = Log::capture(tracing::Level::DEBUG);
    let served = Served::with_token(Options::default());
    for _ in 0..40 {
        let wrong = "Authorization: Bearer wrong";
        assert_eq!(served.ask("GET /", &[UPGRADE, wrong]).await.status, 401);
        assert_eq!(
            served.ask("GET /", &["Host: evil.example"]).await.status,
            403
        );
        assert_eq!(served.ask("GET /", &["Origin: null"]).await.status, 403);
        let mut malformed = TcpStream::connect(served.addr()).await.unwrap();
        assert_eq!(
            exchange(&mut malformed, b"nonsense\r\n\r\n").await.status,
            400
        );
    }
    assert_eq!(served.handle.auth_failures(), 40, "counted all the same");
    let lines = |of: &str| log.text().lines().filter(|line| line.contains(of)).count();
    assert_eq!(lines("wrong token"), 5);
    assert_eq!(lines("not allowed"), 5);
    assert_eq!(lines("handshake failed"), 5);
    assert_eq!(
        lines("further refusals"),
        0,
        "not before the minute is over"
    );

    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert_eq!(served.ask("GET /healthz", &[]).await.status, 200);
    let text = log.text();
    let summary = text.lines().find(|line| line.contains("further refusals"));
    let summary = summary.expect("a summary after a minute");
    assert!(summary.contains("token=35 page=75"), "{summary}");
    assert!(summary.contains("unfinished=35"), "{summary}");
    served.ask("GET /", &[UPGRADE]).await;
    assert_eq!(lines("no token"), 1, "a new minute begins with full lines");
    drop(capture);
}

#[tokio::test]
async fn a_refused_peer_is_closed_before_anything_is_read() {
    let (seen, refuse) = (
        Arc::new(Mutex::new(Vec::new())),
        Arc::new(AtomicBool::new(true)),
    );
    let filter = PeerFilter::new({
        let (seen, refuse) = (Arc::clone(&seen), Arc::clone(&refuse));
        move |peer| {
            seen.lock().unwrap().push(*peer);
            refuse.load(Ordering::SeqCst)
        }
    });
    let options = Options {
        refuse_peer: Some(filter),
        ..Options::default()
    };
    let listener = Listener::bind_tcp(loopback(), WsAuth::None, options.clone()).unwrap();
    let served = Served::start(listener);
    let mut stream = TcpStream::connect(served.addr()).await.unwrap();
    // Closed at once, although the client has said nothing.
    assert_eq!(within(stream.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(served.handle.peers_refused(), 1);
    let both_ends = PeerAddr::Tcp {
        remote: stream.local_addr().unwrap(),
        local: served.addr(),
    };
    assert_eq!(seen.lock().unwrap().pop(), Some(both_ends));

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s.sock");
    let mut unix = Served::start(Listener::bind_unix(&path, options).await.unwrap());
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let _ = stream.write_all(b"{}\n").await;
    let closed = within(stream.read(&mut [0])).await;
    assert!(!matches!(closed, Ok(1..)), "{closed:?}");
    assert_eq!(unix.handle.peers_refused(), 1);
    let own = i32::try_from(std::process::id()).unwrap();
    let peer = seen.lock().unwrap().pop();
    assert!(matches!(peer, Some(PeerAddr::Unix { pid: Some(pid), .. }) if pid == own));

    refuse.store(false, Ordering::SeqCst);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"{}\n").await.unwrap();
    unix.next().await;
    assert_eq!(served.ask("GET /healthz", &[]).await.line(), "200 ok");
}

#[tokio::test]
async fn a_filter_that_panics_refuses() {
    let options = Options {
        refuse_peer: Some(PeerFilter::new(|_| panic!("a filter of this test"))),
        ..Options::default()
    };
    let served = Served::start(Listener::bind_tcp(loopback(), WsAuth::None, options).unwrap());
    let mut stream = TcpStream::connect(served.addr()).await.unwrap();
    assert_eq!(within(stream.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(served.handle.peers_refused(), 1);
}

#[tokio::test]
async fn a_filter_that_blocks_stops_neither_the_listener_nor_its_shutdown() {
    let release = CancellationToken::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let filter = PeerFilter::new({
        let (release, asked) = (release.clone(), Arc::clone(&asked));
        move |_| {
            // The first connections get a filter that does not return until the test says so.
            if asked.fetch_add(1, Ordering::SeqCst) < 3 {
                while !release.is_cancelled() {
                    std::thread::yield_now();
                }
            }
            false
        }
    });
    let listener = Listener::bind_tcp(loopback(), WsAuth::None, Options::default()).unwrap();
    let Bound::Tcp(addr) = listener.bound() else {
        panic!("bound to TCP");
    };
    let mut served = Served::start(listener.refuse_peers(filter));
    let mut stuck = Vec::new();
    for _ in 0..3 {
        stuck.push(TcpStream::connect(addr).await.unwrap());
    }
    let blocked = async {
        while asked.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
    };
    within(blocked).await;
    assert_eq!(served.ask("GET /healthz", &[]).await.line(), "200 ok");
    served.shutdown.cancel();
    within(&mut served.task).await.unwrap();
    release.cancel();
}
