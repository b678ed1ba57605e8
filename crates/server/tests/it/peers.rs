//! Peers that the server refuses, before and after it was there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::listen::{self, Listener, PeerAddr, PeerFilter};
use turnlane_server::{Door, Server};
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::{ECHO, World};

const HELLO: &str =
    r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"n","version":"1"}}}"#;

/// A client that sends its first request; nothing comes back if it is refused.
async fn hello(path: &std::path::Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).await.unwrap();
    // A refused connection may be closed before this is written.
    let _ = stream.write_all(format!("{HELLO}\n").as_bytes()).await;
    stream
}

async fn answered_bytes(mut stream: UnixStream) -> usize {
    let mut first = [0; 64];
    let read = within("an answer or the end", DEADLINE, stream.read(&mut first));
    read.await.unwrap().unwrap_or(0)
}

#[tokio::test]
async fn a_peer_is_refused_by_the_listener_and_if_it_came_before_the_server() {
    let world = World::start(ECHO).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let filter = PeerFilter::new({
        let asked = Arc::clone(&asked);
        move |peer| {
            asked.fetch_add(1, Ordering::SeqCst);
            matches!(peer, PeerAddr::Unix { pid: Some(_), .. })
        }
    });
    let server = Server::new(turnlane_server::Options {
        refuse_peer: Some(filter),
        ..world.options()
    });
    let path = world.folder.path().join("door.sock");
    let listener = Listener::bind_unix(&path, listen::Options::default()).await;
    let listener = listener.unwrap();
    let handle = listener.handle();
    let (door, stop) = (Door::closed(), CancellationToken::new());
    let running = {
        let (door, stop) = (door.clone(), stop.clone());
        tokio::spawn(async move { door.run_listener(listener, stop).await })
    };
    let early = hello(&path).await;
    // Admitted, since there is no server that could refuse it; it waits for one.
    let admitted = async {
        while handle.connections_open() == 0 {
            tokio::task::yield_now().await;
        }
    };
    within("the early client waits", DEADLINE, admitted)
        .await
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    door.open(server.clone());
    assert_eq!(
        answered_bytes(early).await,
        0,
        "refused when the door was opened"
    );
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    assert_eq!(
        answered_bytes(hello(&path).await).await,
        0,
        "refused by the listener"
    );
    assert_eq!(handle.peers_refused(), 1);
    stop.cancel();
    running.await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn without_a_filter_everybody_with_the_right_user_is_served() {
    let world = World::start(ECHO).await;
    let path = world.folder.path().join("door.sock");
    let listener = Listener::bind_unix(&path, listen::Options::default()).await;
    let (server, stop) = (world.server.clone(), CancellationToken::new());
    let running = {
        let stop = stop.clone();
        tokio::spawn(async move { server.run_listener(listener.unwrap(), stop).await })
    };
    let mut client = World::unix_client(&path).await;
    client.ok("thread/list", json!({})).await;
    stop.cancel();
    running.await.unwrap();
}
