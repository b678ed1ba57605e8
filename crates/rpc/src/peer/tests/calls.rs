//! Requests and their answers.

use super::*;

#[tokio::test]
async fn both_sides_ask_at_once_over_every_link() {
    for link in Link::ALL {
        let (server, client) = link.connected();
        let server = echo_server(server, PeerOptions::default());
        let client = echo_server(client, PeerOptions::default());
        for n in 0..100 {
            let params = json!({"n": n, "text": "é\n\"quoted\""});
            let (down, up) = tokio::join!(
                server.call::<Value>("echo", &params),
                client.call::<Value>("echo", &params),
            );
            assert_eq!(
                (&down.unwrap(), &up.unwrap()),
                (&params, &params),
                "{link:?}"
            );
        }
    }
}

#[tokio::test]
async fn answers_are_matched_by_id_in_any_order() {
    let (server, client) = Link::Lines.connected();
    let client = super::client(client);
    let (_server, mut inbox) = Peer::start(server, PeerOptions::default());
    let calls: Vec<_> = (0..50)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call::<Value>("m", &json!(n)).await })
        })
        .collect();
    let mut requests = Vec::new();
    for _ in 0..50 {
        requests.push(next_request(&mut inbox).await);
    }
    while let Some(request) = requests.pop() {
        request.responder.respond(request.params.parse::<Value>());
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), json!(n));
    }
}

#[tokio::test]
async fn a_request_dropped_by_its_handler_is_answered() {
    let (server, client) = Link::Memory.connected();
    let _server = echo_server(server, PeerOptions::default());
    let answer = super::client(client)
        .call::<Value>("no such method", &json!({}))
        .await;
    let Err(CallError::Refused(error)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (error.code, error.message.as_str()),
        (-32603, "request was abandoned by its handler")
    );
}

#[tokio::test]
async fn a_panicking_handler_answers_too() {
    let (server, client) = Link::Memory.connected();
    let (_server, mut inbox) = Peer::start(server, PeerOptions::default());
    let client = super::client(client);
    let call = tokio::spawn(async move { client.call::<Value>("boom", &json!({})).await });
    let request = next_request(&mut inbox).await;
    let handler = tokio::spawn(async move {
        let _request = request;
        panic!("a bug in a handler");
    });
    assert!(handler.await.unwrap_err().is_panic());
    assert!(matches!(call.await.unwrap(), Err(CallError::Refused(_))));
}

#[tokio::test]
async fn a_side_that_takes_no_messages_refuses_requests() {
    let (server, client) = Link::Memory.connected();
    let (server, inbox) = Peer::start(server, PeerOptions::default());
    drop(inbox);
    let answer = super::client(client).call::<Value>("m", &json!({})).await;
    let Err(CallError::Refused(error)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(error.message, "Invalid request: unknown variant `m`");
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_time_limit_and_its_late_answer_is_ignored() {
    let (server, client) = Link::Lines.connected();
    let (_server, mut inbox) = Peer::start(server, PeerOptions::default());
    let client = super::client(client);
    let after = Duration::from_secs(30);
    let (answer, request) = tokio::join!(
        client.call_within::<Value>(after, "m", &()),
        next_request(&mut inbox)
    );
    assert!(matches!(answer, Err(CallError::Timeout { after: limit }) if limit == after));
    request.responder.result(&json!("late"));
    let (answer, ()) = tokio::join!(client.call::<Value>("m", &()), async {
        next_request(&mut inbox)
            .await
            .responder
            .result(&json!("in time"));
    });
    assert_eq!(answer.unwrap(), "in time");
}

#[tokio::test]
async fn one_question_goes_to_several_peers_under_one_id() {
    let options = PeerOptions::default();
    let id = options.ids.next_id();
    let frame = Bytes::from(format!(r#"{{"id":{id},"method":"approve","params":{{}}}}"#));
    let mut answers = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let (server, client) = Link::Memory.connected();
        let (server, _inbox) = Peer::start(server, options.clone());
        answers.push(tokio::spawn(server.ask(id, frame.clone()).unwrap()));
        clients.push((server, Peer::start(client, PeerOptions::default())));
    }
    for (_, (_client, inbox)) in &mut clients {
        let request = next_request(inbox).await;
        request.responder.result(&json!({"decision": "accept"}));
    }
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap(), r#"{"decision":"accept"}"#);
    }
}

#[tokio::test]
async fn params_and_results_of_the_wrong_shape_are_typed_errors() {
    let (server, client) = Link::Memory.connected();
    let _server = echo_server(server, PeerOptions::default());
    let client = super::client(client);
    let decode = client.call::<u64>("echo", &json!("text")).await;
    assert!(matches!(decode, Err(CallError::Decode(_))), "{decode:?}");
    let not_json = std::collections::HashMap::from([((1, 2), 3)]);
    let encode = client.call::<Value>("echo", &not_json).await;
    assert!(matches!(encode, Err(CallError::Encode(_))), "{encode:?}");
    assert_eq!(client.call::<Value>("echo", &json!(1)).await.unwrap(), 1);
}

#[tokio::test]
async fn an_answer_above_the_limit_fails_its_caller_and_nothing_else() {
    for link in [Link::Lines, Link::Length, Link::WebSocket] {
        let (server, client) = link.connected_by(1 << 20);
        let (_server, mut inbox) = Peer::start(
            server,
            PeerOptions {
                limits: Limits {
                    waiting_bytes_max: usize::MAX,
                    ..Limits::default()
                },
                ..PeerOptions::default()
            },
        );
        let client = super::client(client);
        let (answer, ()) = tokio::join!(client.call::<Value>("big", &()), async {
            let huge = "x".repeat(crate::FRAME_BYTES_MAX);
            next_request(&mut inbox).await.responder.result(&huge);
        });
        assert!(
            matches!(answer, Err(CallError::TooLarge { bytes, limit })
                if bytes > 64 << 20 && limit == 64 << 20),
            "{link:?}"
        );
        let (answer, ()) = tokio::join!(client.call::<Value>("small", &()), async {
            next_request(&mut inbox)
                .await
                .responder
                .result(&json!("fits"));
        });
        assert_eq!(answer.unwrap(), "fits", "{link:?}");
    }
}

#[tokio::test]
async fn nothing_a_caller_sent_shows_in_debug_output() {
    let (server, client) = Link::Memory.connected();
    let (_server, mut inbox) = Peer::start(server, PeerOptions::default());
    let client = super::client(client);
    client
        .tell("note", &json!({"prompt": "my secret plan"}))
        .unwrap();
    let shown = format!(
        "{:?}",
        within("the notification", inbox.next()).await.unwrap()
    );
    assert!(
        shown.contains("note") && !shown.contains("secret"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_request_that_is_left_to_others_gets_no_answer_and_holds_up_nobody() {
    let (server, client) = Link::Lines.connected();
    let limits = Limits {
        unanswered_max: 2,
        ..Limits::default()
    };
    let options = PeerOptions {
        limits,
        ..PeerOptions::default()
    };
    let (_server, mut inbox) = Peer::start(server, options);
    let mut raw = Raw::new(client);
    for n in 0..10 {
        raw.send(format!(r#"{{"id":{n},"method":"m"}}"#)).await;
        let request = next_request(&mut inbox).await;
        assert_eq!(request.responder.id(), Some(&RequestId::from(n)));
        request.responder.leave();
    }
    raw.send(r#"{"id":"last","method":"m"}"#).await;
    let request = next_request(&mut inbox).await;
    request.responder.result(&1);
    assert_eq!(raw.receive().await, json!({"id": "last", "result": 1}));
}
