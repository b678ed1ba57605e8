//! Sockets that go away and come back.

use std::path::Path;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::auth::{AuthOptions, Secret, WsAuth};
use turnlane_rpc::listen::{Bound, Listener, Options as ListenOptions};

use super::*;
use crate::limits::Reconnect;
use crate::link::Connection;

/// A listener that hands its connections over.
struct Served {
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    arrivals: mpsc::Receiver<Duplex>,
    bound: Bound,
}

impl Served {
    fn run(listener: Listener) -> Self {
        let stop = CancellationToken::new();
        let (tell, arrivals) = mpsc::channel(16);
        let bound = listener.bound();
        let running = tokio::spawn(listener.run(stop.clone(), move |accepted| {
            let _ = tell.try_send(accepted.duplex);
        }));
        Self {
            stop,
            running,
            arrivals,
            bound,
        }
    }

    async fn unix(path: &Path) -> Self {
        Self::run(
            Listener::bind_unix(path, ListenOptions::default())
                .await
                .unwrap(),
        )
    }

    fn tcp(auth: WsAuth) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        Self::run(Listener::bind_tcp(any, auth, ListenOptions::default()).unwrap())
    }

    /// The next connection, initialised.
    async fn next(&mut self) -> Far {
        let arrival = within("a connection", DEADLINE, self.arrivals.recv()).await;
        let mut far = Far::new(arrival.unwrap().unwrap());
        far.initialise().await;
        far
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

fn quick() -> Reconnect {
    Reconnect::Backoff {
        initial: Duration::from_millis(5),
        max: Duration::from_millis(20),
        give_up_after: None,
    }
}

#[tokio::test]
async fn calls_wait_while_a_socket_is_away_and_go_on_when_it_is_back() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let mut served = Served::unix(&path).await;
    let mut given = options(Endpoint::Unix(path.clone()));
    given.reconnect = Some(quick());
    let (opened, mut far) = tokio::join!(open(given), served.next());
    let (link, heard) = opened.unwrap();
    assert_eq!(link.server().endpoint, format!("unix {}", path.display()));

    // Sent and not answered: one may be repeated, the other may not.
    let once = spawned(&link, call("once"));
    let (_, _, held_once) = far.asked().await;
    let again = spawned(&link, harmless("again"));
    let (_, _, held_again) = far.asked().await;
    served.stop().await;
    far.peer.close();
    drop((held_once, held_again));
    drop(far);
    assert!(matches!(
        once.await.unwrap().unwrap_err(),
        CallError::Transport(TransportError::Closed { .. })
    ));
    heard.until("lost").await;
    let late = spawned(&link, call("late"));
    let mut connection = link.connection();
    let tries =
        |now: &Connection| matches!(now, Connection::Reconnecting { attempt, .. } if *attempt >= 2);
    let _ = within("a second try", DEADLINE, connection.wait_for(tries))
        .await
        .unwrap();
    let params = RawValue::from_string("{}".to_owned()).unwrap();
    assert!(matches!(
        link.notify("x", &params).await,
        Err(CallError::Overloaded { .. })
    ));

    let mut served = Served::unix(&path).await;
    let mut far = served.next().await;
    let mut methods = Vec::new();
    for _ in 0..2 {
        let (method, _, responder) = far.asked().await;
        methods.push(method);
        responder.result(&json!({}));
    }
    methods.sort();
    assert_eq!(methods, ["again", "late"]);
    again.await.unwrap().unwrap();
    late.await.unwrap().unwrap();
    assert_eq!(heard.words(), ["lost", "reconnected 2"]);
    let ready = Connection::Ready { generation: 2 };
    assert_eq!(
        (&*link.connection().borrow(), link.metrics().reconnects),
        (&ready, 1)
    );
    link.shutdown(SECOND).await.unwrap();
    assert_eq!(heard.count("closed"), 1);
}

#[tokio::test]
async fn a_method_unknown_to_one_server_is_asked_for_again_on_the_next() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let mut served = Served::unix(&path).await;
    let mut given = options(Endpoint::Unix(path.clone()));
    given.reconnect = Some(quick());
    let (opened, mut far) = tokio::join!(open(given), served.next());
    let (link, _) = opened.unwrap();
    let asking = spawned(&link, call("new/method"));
    far.asked().await.2.error(&bare(-32601, "no"));
    assert!(asking.await.unwrap().is_err());
    far.peer.close();
    drop(far);
    let mut far = served.next().await;
    let asking = spawned(&link, call("new/method"));
    far.asked().await.2.result(&json!(1));
    assert_eq!(asking.await.unwrap().unwrap().get(), "1");
}

#[tokio::test]
async fn a_socket_that_stays_away_is_given_up_in_time() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let mut served = Served::unix(&path).await;
    let mut given = options(Endpoint::Unix(path.clone()));
    given.reconnect = Some(Reconnect::Backoff {
        initial: Duration::from_millis(5),
        max: Duration::from_millis(20),
        give_up_after: Some(Duration::from_millis(60)),
    });
    let (opened, far) = tokio::join!(open(given), served.next());
    let (link, heard) = opened.unwrap();
    served.stop().await;
    far.peer.close();
    drop(far);
    heard.until("closed").await;
    let words = heard.words();
    assert_eq!((words.len(), &*words[0]), (2, "lost"));
    assert!(
        words[1].ends_with("no other connection in time"),
        "{words:?}"
    );
    assert!(matches!(
        link.call(call("x")).await,
        Err(CallError::Transport(_))
    ));
}

#[tokio::test]
async fn a_close_while_there_is_no_connection_ends_the_tries() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let mut served = Served::unix(&path).await;
    let (opened, far) = tokio::join!(open(options(Endpoint::Unix(path.clone()))), served.next());
    let (link, heard) = opened.unwrap();
    served.stop().await;
    far.peer.close();
    drop(far);
    heard.until("lost").await;
    let waiting = spawned(&link, call("waiting"));
    link.close();
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Closed)));
    heard.until("closed").await;
    assert_eq!(
        heard.words(),
        [
            "lost",
            "closed: the connection was closed: closed by this side"
        ]
    );
}

#[tokio::test]
async fn a_websocket_with_a_token_is_a_connection_like_any_other() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("token");
    // Loading makes the token that is not there.
    let auth = AuthOptions::default().load(&file).unwrap();
    let token = std::fs::read_to_string(&file).unwrap();
    let mut served = Served::tcp(auth);
    let url = served.bound.to_string();

    let error = refused(options(Endpoint::ws(&url, None).unwrap())).await;
    assert!(
        matches!(error, ConnectError::Unauthorized { .. }),
        "{error:?}"
    );

    let token = Some(Secret::from(token.trim()));
    let given = options(Endpoint::ws(&url, token).unwrap());
    let (opened, mut far) = tokio::join!(open(given), served.next());
    let (link, _) = opened.unwrap();
    assert_eq!(link.server().endpoint, url);
    let asking = spawned(&link, call("x"));
    far.asked().await.2.result(&json!(1));
    assert_eq!(asking.await.unwrap().unwrap().get(), "1");
}

#[tokio::test]
async fn nobody_and_another_server_are_told_apart() {
    let folder = TempDir::new().unwrap();
    let none = folder.path().join("none");
    let error = refused(options(Endpoint::Unix(none.clone()))).await;
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    let expected = format!(
        "cannot connect to unix {} (`turnlane serve` starts a daemon)",
        none.display()
    );
    assert_eq!(error.to_string(), expected);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        let answer = b"HTTP/1.1 418 I\r\nContent-Length: 3\r\n\r\ntea";
        stream.write_all(answer).await.unwrap();
    };
    let (error, ()) = tokio::join!(refused(options(Endpoint::ws(&url, None).unwrap())), server);
    assert!(
        matches!(&error, ConnectError::HttpStatus { code: 418, body } if body == "tea"),
        "{error:?}"
    );
    drop(listener);
    let error = refused(options(Endpoint::ws(&url, None).unwrap())).await;
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
}
