//! Bursts, slow readers and overload: nothing is lost, nobody else waits.

use super::*;
use turnlane_protocol::envelope::{Stamp, encode_delta, encode_notification};

fn with(limits: Limits) -> PeerOptions {
    PeerOptions {
        limits,
        ..PeerOptions::default()
    }
}

#[tokio::test]
async fn requests_written_before_any_answer_is_read_are_all_answered() {
    for link in Link::ALL {
        let (server, client) = link.connected();
        let server = echo_server(server, PeerOptions::default());
        let Raw {
            mut reader,
            mut writer,
        } = Raw::new(client);
        let count = 20_000;
        let (stalled, reading) = tokio::sync::oneshot::channel();
        let writing = tokio::spawn(async move {
            let mut stalled = Some(stalled);
            for id in 0..count {
                writer.push(format!(r#"{{"id":{id},"method":"echo","params":{{}}}}"#).into());
                if id == count / 2 {
                    stalled.take().map(|stalled| stalled.send(()));
                }
                writer
                    .flush(DEADLINE)
                    .await
                    .expect("the server goes on reading");
            }
            writer
        });
        // The reader starts late: when half of the requests are out, or when the links are full.
        tokio::select! {
            _ = reading => {}
            () = full(&server) => {}
        }
        for id in 0..count {
            let Ok(Some(Inbound::Message(frame))) = within("an answer", reader.next()).await else {
                panic!("{link:?}: the connection ended at {id}");
            };
            assert_eq!(frame, format!(r#"{{"id":{id},"result":{{}}}}"#), "{link:?}");
        }
        writing.await.unwrap();
    }
}

async fn full(peer: &Peer) {
    while !peer.waiting().reading_paused {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn reading_stops_at_the_bound_of_unanswered_requests() {
    let (server, client) = Link::Lines.connected_by(1 << 20);
    let (server, mut inbox) = Peer::start(server, PeerOptions::default());
    let mut raw = Raw::new(client);
    for id in 0..3000 {
        raw.writer
            .push(format!(r#"{{"id":{id},"method":"m"}}"#).into());
    }
    raw.writer.flush(DEADLINE).await.unwrap();
    let mut requests = Vec::new();
    for _ in 0..1024 {
        requests.push(next_request(&mut inbox).await);
    }
    full(&server).await;
    assert_eq!(server.waiting().unanswered, 1024);
    assert!(
        inbox.messages.try_recv().is_err(),
        "the rest is held by the kernel"
    );

    for request in requests.drain(..512) {
        request.responder.result(&json!({}));
    }
    assert!(
        server.waiting().reading_paused,
        "half is not yet below half"
    );
    for request in requests.drain(..) {
        request.responder.result(&json!({}));
    }
    for _ in 1024..3000 {
        next_request(&mut inbox).await.responder.result(&json!({}));
    }
    for id in 0..3000 {
        assert_eq!(raw.receive().await["id"], id);
    }
}

#[tokio::test]
async fn reading_stops_at_the_bound_of_unwritten_answers() {
    let (server, client) = Link::Lines.connected_by(16 * 1024);
    let limits = Limits {
        unwritten_bytes_max: 100_000,
        ..Limits::default()
    };
    let server = echo_server(server, with(limits));
    let Raw {
        mut reader,
        mut writer,
    } = Raw::new(client);
    let text = "x".repeat(1000);
    let writing = tokio::spawn(async move {
        for id in 0..1000 {
            writer.push(format!(r#"{{"id":{id},"method":"echo","params":"{text}"}}"#).into());
            writer.flush(DEADLINE).await.unwrap();
        }
        writer
    });
    within("the server to stop reading", full(&server)).await;
    let held = server.waiting().bytes;
    assert!(
        held <= 100_000 + 1024 * 1100,
        "bounded by what was read before: {held}"
    );
    for _ in 0..1000 {
        assert!(matches!(reader.next().await, Ok(Some(Inbound::Message(_)))));
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn above_the_bound_of_the_process_requests_are_refused_and_never_dropped() {
    let options = PeerOptions {
        budget: Budget::new(10),
        ..PeerOptions::default()
    };
    let mut ends = Vec::new();
    for _ in 0..2 {
        let (server, client) = Link::Lines.connected();
        ends.push((Peer::start(server, options.clone()), Raw::new(client)));
    }
    let mut held = Vec::new();
    for ((_, inbox), raw) in &mut ends {
        for id in 0..5 {
            raw.send(format!(r#"{{"id":{id},"method":"m"}}"#)).await;
            held.push(next_request(inbox).await);
        }
    }
    for (_, raw) in &mut ends {
        for id in 0..2000 {
            raw.writer
                .push(format!(r#"{{"id":{id},"method":"m"}}"#).into());
        }
        raw.writer.flush(DEADLINE).await.unwrap();
        for id in 0..2000 {
            let answer = raw.receive().await;
            assert_eq!(answer["id"], id);
            assert_eq!(answer["error"]["code"], -32001);
            assert_eq!(
                answer["error"]["message"],
                "Server overloaded; retry later."
            );
            assert_eq!(answer["error"]["data"]["errorInfo"], "server_overloaded");
        }
    }
    drop(held);
    assert_eq!(options.budget.unanswered(), 0);
    let ((_, inbox), raw) = &mut ends[0];
    for _ in 0..5 {
        raw.receive().await;
    }
    raw.send(r#"{"id":"again","method":"m"}"#).await;
    next_request(inbox).await.responder.result(&json!("served"));
    assert_eq!(
        raw.receive().await,
        json!({"id": "again", "result": "served"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_is_closed_after_the_stated_time() {
    for link in Link::ALL {
        let (server, client) = link.connected_by(4096);
        let server = echo_server(server, PeerOptions::default());
        let _never_read = client;
        let start = tokio::time::Instant::now();
        for n in 0..1000 {
            server
                .tell("note", &json!({"n": n, "text": "x".repeat(100)}))
                .unwrap();
        }
        assert_eq!(
            within("the end", server.closed()).await,
            CloseReason::SlowConsumer,
            "{link:?}"
        );
        let seconds = start.elapsed().as_secs();
        assert!((60..=62).contains(&seconds), "{link:?}: {seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_that_reads_a_little_is_not_closed() {
    let (server, client) = Link::Lines.connected_by(128);
    let (server, _inbox) = Peer::start(server, PeerOptions::default());
    let mut raw = Raw::new(client);
    for n in 0..20 {
        server
            .tell("note", &json!({"n": n, "text": "x".repeat(100)}))
            .unwrap();
    }
    for n in 0..20 {
        tokio::time::advance(Duration::from_secs(45)).await;
        assert_eq!(raw.receive().await["params"]["n"], n);
    }
}

#[tokio::test]
async fn the_slow_consumer_is_told_with_1013() {
    let (server, client) = Link::WebSocket.connected_by(4096);
    let limits = Limits {
        waiting_bytes_max: 50_000,
        ..Limits::default()
    };
    let (server, _inbox) = Peer::start(server, with(limits));
    for _ in 0..600 {
        server.tell("note", &json!("x".repeat(100))).unwrap();
    }
    let mut raw = Raw::new(client);
    let end = loop {
        match within("the close frame", raw.reader.next()).await.unwrap() {
            Some(Inbound::Message(_)) => {}
            other => break other,
        }
    };
    assert_eq!(end, Some(Inbound::Close(1013)));
    assert_eq!(
        within("the end", server.closed()).await,
        CloseReason::SlowConsumer
    );
}

/// One client reads nothing while its thread floods; the other has its calls answered meanwhile,
/// and the first, once it reads, has missed nothing of what is never dropped.
#[tokio::test]
async fn a_stalled_neighbour_delays_nobody_and_still_gets_everything_kept() {
    for link in Link::STREAMS {
        let (slow_server, slow_client) = link.connected_by(4096);
        let (slow, _inbox) = Peer::start(slow_server, PeerOptions::default());
        let (server, other) = link.connected();
        let _server = echo_server(server, PeerOptions::default());
        let other = client(other);
        let mut expected = String::new();
        for n in 0..2000u64 {
            let stamp = Stamp {
                emitted_at_ms: 1,
                seq: Some(n),
            };
            let message = if n % 10 == 0 {
                let frame = encode_notification("kept", &json!({"n": n}), Some(stamp)).unwrap();
                Outgoing::kept(frame, Some("thread".into()))
            } else {
                let text = format!("{n} é\"\n");
                expected.push_str(&text);
                let delta = encode_delta("delta", &json!({"item": "i"}), &text, stamp).unwrap();
                Outgoing::delta(delta, "thread".into(), "i".into(), ("delta", 0))
            };
            slow.notify(&message);
            if n % 10 == 5 {
                assert_eq!(other.call::<Value>("echo", &json!(n)).await.unwrap(), n);
            }
        }
        let mut raw = Raw::new(slow_client);
        let (mut kept, mut text, mut messages, mut last_seq) = (Vec::new(), String::new(), 0, None);
        while last_seq != Some(1999) {
            let value = raw.receive().await;
            let seq = value["seq"].as_u64();
            assert!(last_seq < seq, "{link:?}: order");
            (last_seq, messages) = (seq, messages + 1);
            match value["params"]["delta"].as_str() {
                Some(delta) => text.push_str(delta),
                None => kept.push(value["params"]["n"].as_u64().unwrap()),
            }
        }
        assert_eq!(text, expected, "{link:?}: merged to the same text");
        assert_eq!(kept, (0..2000).step_by(10).collect::<Vec<_>>(), "{link:?}");
        assert!(
            messages < 1000,
            "{link:?}: {messages} messages, so deltas were merged"
        );
    }
}

#[tokio::test]
async fn a_caller_waits_while_too_much_of_its_own_is_unwritten() {
    let (server, client) = Link::Lines.connected_by(1024);
    let client = super::client(client);
    let calls: Vec<_> = (0..3000)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call::<Value>("echo", &json!(n)).await })
        })
        .collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(
        client.waiting().messages <= 1024 + 1,
        "{:?}",
        client.waiting()
    );
    let _server = echo_server(server, PeerOptions::default());
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(within("the answer", call).await.unwrap().unwrap(), n);
    }
}

#[tokio::test]
async fn messages_that_nobody_will_take_do_not_stop_the_calls() {
    let (server, client) = Link::Lines.connected();
    let limits = Limits {
        unwritten_bytes_max: 10_000,
        ..Limits::default()
    };
    let (client, inbox) = Peer::start(client, with(limits));
    let server = echo_server(server, PeerOptions::default());
    for _ in 0..20 {
        server.tell("note", &"x".repeat(1000)).unwrap();
    }
    within("reading to pause", full(&client)).await;
    drop(inbox);
    let answer = within("the answer", client.call::<Value>("echo", &1)).await;
    assert_eq!(answer.unwrap(), 1);
}

#[tokio::test]
async fn a_caller_that_waits_to_send_is_told_when_the_connection_is_given_up() {
    let (_never_read, client) = Link::Lines.connected_by(64);
    let limits = Limits {
        unanswered_max: 2,
        waiting_bytes_max: 10_000,
        ..Limits::default()
    };
    let (client, _inbox) = Peer::start(client, with(limits));
    let calls: Vec<_> = (0..5)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call::<Value>("never", &n).await })
        })
        .collect();
    let waits = || client.waiting().messages >= 2;
    while !waits() {
        tokio::task::yield_now().await;
    }
    client.tell("note", &"x".repeat(20_000)).unwrap();
    for call in calls {
        let ended = timeout(Duration::from_secs(30), call).await;
        let error = ended.expect("the call to end").unwrap().unwrap_err();
        assert!(matches!(
            error,
            CallError::Closed(CloseReason::SlowConsumer)
        ));
    }
}
