//! However a connection ends, nobody waits for it in vain.

use super::*;

/// Calls pending in both directions, and a responder that was not used.
async fn pending_both_ways(
    link: Link,
) -> (
    Peer,
    Peer,
    [tokio::task::JoinHandle<CallError>; 2],
    [Request; 2],
) {
    let (server, client) = link.connected();
    let (server, mut server_inbox) = Peer::start(server, PeerOptions::default());
    let (client, mut client_inbox) = Peer::start(client, PeerOptions::default());
    let waiting = [server.clone(), client.clone()].map(|peer| {
        tokio::spawn(async move { peer.call::<Value>("never", &json!({})).await.unwrap_err() })
    });
    let requests = [
        next_request(&mut server_inbox).await,
        next_request(&mut client_inbox).await,
    ];
    tokio::spawn(async move { while server_inbox.next().await.is_some() {} });
    tokio::spawn(async move { while client_inbox.next().await.is_some() {} });
    (server, client, waiting, requests)
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_resolves_all_calls_in_both_directions_within_a_second() {
    for link in Link::ALL {
        let (server, client, waiting, requests) = pending_both_ways(link).await;
        let before = tokio::time::Instant::now();
        client.close();
        for call in waiting {
            let error = within("the call to end", call).await.unwrap();
            assert!(matches!(error, CallError::Closed(_)), "{link:?} {error:?}");
        }
        for request in requests {
            within("the handler to be told", request.responder.abandoned()).await;
        }
        assert!(
            before.elapsed() <= Duration::from_secs(1),
            "{link:?} {:?}",
            before.elapsed()
        );
        assert_eq!(
            within("the server's end", server.closed()).await,
            CloseReason::Remote
        );
        assert_eq!(
            within("the client's end", client.closed()).await,
            CloseReason::Local
        );
        let late = client.call::<Value>("late", &json!({})).await;
        assert!(
            matches!(late, Err(CallError::Closed(CloseReason::Local))),
            "{late:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_resolves_its_calls() {
    for link in Link::ALL {
        let (server, client) = link.connected();
        let (server, mut inbox) = Peer::start(server, PeerOptions::default());
        let raw = Raw::new(client);
        let call = {
            let server = server.clone();
            tokio::spawn(async move { server.call::<Value>("never", &json!({})).await })
        };
        drop(raw);
        let error = within("the call to end", call).await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Closed(_)), "{link:?} {error:?}");
        assert!(within("the inbox to end", inbox.next()).await.is_none());
        within("the tasks to end", server.closed()).await;
    }
}

#[tokio::test]
async fn after_the_end_of_a_stream_its_last_requests_are_answered() {
    for link in [Link::Lines, Link::Length] {
        let (server, client) = tokio::io::duplex(1024);
        let server = echo_server(link.over(server, Role::Server), PeerOptions::default());
        let mut raw = Raw::new(link.over(client, Role::Client));
        for id in 0..3 {
            raw.send(format!(r#"{{"id":{id},"method":"echo","params":{id}}}"#))
                .await;
        }
        raw.writer.shutdown(DEADLINE).await.unwrap();
        for id in 0..3 {
            assert_eq!(
                raw.receive().await,
                json!({"id": id, "result": id}),
                "{link:?}"
            );
        }
        assert!(matches!(raw.reader.next().await, Ok(None)));
        assert_eq!(
            within("the end", server.closed()).await,
            CloseReason::Remote
        );
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_never_answered_do_not_hold_an_ended_stream_open() {
    let (server, client) = tokio::io::duplex(1024);
    let (server, mut inbox) = Peer::start(
        Link::Lines.over(server, Role::Server),
        PeerOptions::default(),
    );
    let mut raw = Raw::new(Link::Lines.over(client, Role::Client));
    raw.send(r#"{"id":1,"method":"slow"}"#).await;
    let slow = next_request(&mut inbox).await;
    raw.writer.shutdown(DEADLINE).await.unwrap();
    assert!(within("the inbox to end", inbox.next()).await.is_none());
    within("the end", server.closed()).await;
    slow.responder.result(&json!("too late, and no panic"));
}

#[tokio::test]
async fn closing_writes_what_waits_first() {
    for link in Link::ALL {
        let (server, client) = link.connected();
        let (server, inbox) = Peer::start(server, PeerOptions::default());
        for n in 0..500 {
            server.tell("note", &json!({"n": n})).unwrap();
        }
        drop((server, inbox));
        let mut raw = Raw::new(client);
        for n in 0..500 {
            assert_eq!(raw.receive().await["params"]["n"], n, "{link:?}");
        }
        let end = within("the end", raw.reader.next()).await.unwrap();
        let expected = (link == Link::WebSocket).then_some(Inbound::Close(1000));
        assert_eq!(end, expected, "{link:?}");
    }
}

#[tokio::test]
async fn a_websocket_close_is_answered_with_a_close() {
    let (server, client) = Link::WebSocket.connected();
    let server = echo_server(server, PeerOptions::default());
    let mut raw = Raw::new(client);
    raw.check_echo().await;
    raw.writer.push_close(1000, "bye");
    raw.writer.flush(DEADLINE).await.unwrap();
    assert_eq!(raw.reader.next().await.unwrap(), Some(Inbound::Close(1000)));
    assert_eq!(
        within("the end", server.closed()).await,
        CloseReason::Remote
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_websocket_is_pinged_and_then_closed() {
    let (server, client) = Link::WebSocket.connected();
    let server = echo_server(server, PeerOptions::default());
    let mut raw = Raw::new(client);
    let start = tokio::time::Instant::now();
    assert_eq!(
        raw.reader.next().await.unwrap(),
        Some(Inbound::Ping(Bytes::new()))
    );
    assert_eq!(start.elapsed().as_secs(), 30);
    raw.writer.push_pong(b"");
    raw.writer.flush(DEADLINE).await.unwrap();
    assert_eq!(
        raw.reader.next().await.unwrap(),
        Some(Inbound::Ping(Bytes::new()))
    );
    assert_eq!(raw.reader.next().await.unwrap(), Some(Inbound::Close(1001)));
    assert_eq!(start.elapsed().as_secs(), 90);
    assert_eq!(
        within("the end", server.closed()).await,
        CloseReason::Silent
    );
}

#[tokio::test]
async fn a_ping_gets_its_pong() {
    let (server, client) = Link::WebSocket.connected();
    let _server = echo_server(server, PeerOptions::default());
    let mut raw = Raw::new(client);
    raw.writer.push_ping();
    raw.writer.flush(DEADLINE).await.unwrap();
    assert_eq!(
        within("the pong", raw.reader.next()).await.unwrap(),
        Some(Inbound::Alive)
    );
    raw.check_echo().await;
}

#[tokio::test]
async fn garbage_instead_of_websocket_frames_closes_with_1002() {
    let (server, mut client) = tokio::io::duplex(1024);
    let server = echo_server(
        Link::WebSocket.over(server, Role::Server),
        PeerOptions::default(),
    );
    tokio::io::AsyncWriteExt::write_all(&mut client, b"GET / HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let mut raw = Raw::new(Link::WebSocket.over(client, Role::Client));
    assert_eq!(
        within("the close", raw.reader.next()).await.unwrap(),
        Some(Inbound::Close(1002))
    );
    assert!(matches!(
        within("the end", server.closed()).await,
        CloseReason::Protocol(_)
    ));
}

/// A client in the middle of a message that is too long still learns why it is cut off: the server
/// goes on taking bytes for a moment, so that the system does not reset the connection. Without
/// that the client's write would fail.
#[tokio::test]
async fn a_client_that_is_still_writing_is_closed_and_not_reset() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = tokio::net::TcpStream::connect(address).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let (reader, writer) = server.into_split();
    let duplex = Duplex::websocket(Role::Server, &[], reader, writer);
    let limits = Limits {
        farewell: DEADLINE,
        ..Limits::default()
    };
    let options = PeerOptions {
        limits,
        ..PeerOptions::default()
    };
    let server = echo_server(duplex, options);
    let (reader, mut writer) = client.into_split();
    let writing = tokio::spawn(async move {
        let mut announced = b"\x81\xff".to_vec();
        announced.extend_from_slice(&(1u64 << 40).to_be_bytes());
        // More than fits between the two.
        announced.resize(32 << 20, b'x');
        tokio::io::AsyncWriteExt::write_all(&mut writer, &announced).await
    });
    let mut reader = Duplex::websocket(Role::Client, &[], reader, tokio::io::sink()).reader;
    let end = within("the close frame", reader.next()).await;
    assert_eq!(end.unwrap(), Some(Inbound::Close(1009)));
    let written = within("the write to end", writing).await.unwrap();
    written.expect("the server takes what it no longer wants");
    drop(reader);
    assert_eq!(
        within("the end", server.closed()).await,
        CloseReason::TooLarge
    );
}
